//! A client of an emulated LAN, whose Ethernet frames are the caller's or a TAP device's.

use super::Inbox;
use super::shell::Shell;
use crate::device::calls::address;
use crate::device::tun::Device;
use crate::lane::{Client, Config, MAX_FRAME_OCTETS, Service};
use endpoint::Endpoint;
use endpoint::calls::Session;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};
use wire::aesa::Aesa;
use wire::q2931::Octets;
use wire::{Counters, DropReason, Time};

/// Longest sleep, in which nobody notices that it should stop.
const MAX_WAIT: Duration = Duration::from_millis(100);
/// A wait for room.
const BLOCKED_WAIT: Duration = Duration::from_micros(200);
/// Frames that are read from a device in a turn.
const TURN: usize = 64;

/// A client at a host.
#[derive(Debug)]
pub struct Station {
    shell: Shell<Inbox>,
    own: Aesa,
    mac: [u8; 6],
    epoch: Instant,
}

impl Station {
    /// Joins the LAN `name` of a LECS, or of a LES where `is_server`. Its MAC address is the ATM address's identifier.
    ///
    /// # Errors
    /// No service, no signalling at the host, no address within ten seconds, or another client listens there.
    pub fn new(
        socket: &Path,
        host: &str,
        endpoint: Endpoint,
        server: Aesa,
        is_server: bool,
        name: Octets<32>,
    ) -> io::Result<Self> {
        let mut session = Session::open(socket, host).map_err(io::Error::other)?;
        let own = address(&mut session, host)?;
        let mut mac = own.esi();
        // A station's address, never a group's.
        mac[0] &= 0xfe;
        let config = Config { own, mac, name, configuration: server, server: is_server.then_some(server) };
        let inbox = Inbox { client: Client::new(config), frames: VecDeque::new(), dropped: Counters::default() };
        let services = [Service::Control, Service::Direct, Service::Multicast];
        let shell = Shell::new(inbox, session, endpoint, own.selector(), &services)?;
        Ok(Station { shell, own, mac, epoch: Instant::now() })
    }

    /// Its ATM address.
    pub const fn own(&self) -> Aesa {
        self.own
    }

    /// Its MAC address.
    pub const fn mac(&self) -> [u8; 6] {
        self.mac
    }

    /// The machine: whether it is in the LAN, to whom direct calls lead, what it has dropped.
    pub const fn client(&self) -> &Client {
        &self.shell.machine.client
    }

    /// Frames from the LAN that nobody took in time, or that came on no call; and those to it that no call took.
    pub fn dropped(&self) -> Counters {
        let mut dropped = self.shell.dropped;
        dropped.drop_n(DropReason::QueueFull, self.shell.machine.dropped.dropped(DropReason::QueueFull));
        dropped
    }

    fn now(&self) -> Time {
        Time::ZERO + self.epoch.elapsed()
    }

    /// Sends an Ethernet frame, without its check sequence, at the next [`Station::turn`].
    pub fn send(&mut self, frame: &[u8]) {
        let now = self.now();
        self.shell.machine.client.send(frame, now);
    }

    /// The next Ethernet frame from the LAN.
    pub fn receive(&mut self) -> Option<Box<[u8]>> {
        self.shell.machine.frames.pop_front()
    }

    /// One round of everything; true if anything moved.
    ///
    /// # Errors
    /// The service has gone.
    pub fn turn(&mut self) -> io::Result<bool> {
        let now = self.now();
        self.shell.turn(now)
    }

    /// Waits until something happens, for at most `most`.
    ///
    /// # Errors
    /// The service has gone.
    pub fn wait(&mut self, most: Duration) -> io::Result<()> {
        self.sleep(most, None).map(drop)
    }

    /// Moves frames between the LAN and a TAP device until `stop` says so; looks at it at least every 100 ms.
    ///
    /// # Errors
    /// The device or the service has gone.
    pub fn run(&mut self, device: &Device, mut stop: impl FnMut(&Self) -> bool) -> io::Result<()> {
        device.set_nonblocking()?;
        while !stop(self) {
            if !self.turn_device(device)? {
                self.sleep(MAX_WAIT, Some(device))?;
            }
        }
        Ok(())
    }

    fn turn_device(&mut self, device: &Device) -> io::Result<bool> {
        let mut any = self.turn()?;
        while let Some(frame) = self.receive() {
            any = true;
            match device.write_whole(&frame) {
                // A device that is down takes nothing.
                Err(e) if e.raw_os_error() == Some(Errno::IO.raw_os_error()) => {
                    self.shell.dropped.drop_one(DropReason::LinkDown);
                }
                written => written?,
            }
        }
        let mut frame = [0; MAX_FRAME_OCTETS];
        // What does not fit into the rings stays with the device.
        for _ in 0..TURN {
            if self.shell.is_blocked() {
                break;
            }
            match device.read(&mut frame) {
                Ok((_, octets)) => self.send(&frame[..octets]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) => return Err(e),
            }
            self.turn()?;
            any = true;
        }
        Ok(any)
    }

    fn sleep(&mut self, most: Duration, device: Option<&Device>) -> io::Result<()> {
        self.shell.endpoint.arm();
        if !self.turn()? {
            let due = self.shell.machine.client.poll_timeout().map_or(most, |at| at.since(self.now()));
            let blocked = self.shell.is_blocked();
            let wait = due.min(most).min(if blocked { BLOCKED_WAIT } else { MAX_WAIT });
            let spec = Timespec { tv_sec: 0, tv_nsec: i64::from(wait.subsec_nanos()) };
            let of_shell = [self.shell.endpoint.as_fd(), self.shell.session.as_fd()];
            let fds = of_shell.into_iter().chain(device.filter(|_| !blocked).map(AsFd::as_fd));
            let mut fds: Vec<_> = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
            match poll(&mut fds, Some(&spec)) {
                // A signal: the caller's `stop` knows whether it means the end.
                Ok(_) | Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
        self.shell.endpoint.disarm().map_err(io::Error::other)
    }
}
