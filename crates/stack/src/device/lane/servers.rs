//! The servers of a LAN under selectors of one host's address.

use super::shell::Shell;
use crate::device::calls::address;
use crate::lane::{Configuration, Lan, Server, Service, Unknown};
use endpoint::Endpoint;
use endpoint::calls::Session;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};
use wire::aesa::Aesa;
use wire::q2931::Octets;
use wire::{Counters, Time};

/// Longest sleep, in which nobody notices that it should stop.
const MAX_WAIT: Duration = Duration::from_millis(100);
/// A wait for room.
const BLOCKED_WAIT: Duration = Duration::from_micros(200);
/// Selectors of the host's address. Its station has 0.
const LECS: u8 = 1;
const LES: u8 = 2;
const BUS: u8 = 3;

/// A LAN's LECS, LES and BUS, on the caller's thread.
#[derive(Debug)]
pub struct Servers {
    lecs: Shell<Configuration>,
    les: Shell<Server>,
    bus: Shell<Unknown>,
    own: Aesa,
    epoch: Instant,
    /// The revision of the LES's registrations that the BUS has.
    told: u64,
}

impl Servers {
    /// The servers of the LAN `name`, for at most so many clients, with an endpoint on `host` each.
    ///
    /// # Errors
    /// No service, no signalling at the host, no address within ten seconds, or other servers listen there.
    pub fn new(
        socket: &Path,
        host: &str,
        name: Octets<32>,
        max_clients: usize,
        endpoints: [Endpoint; 3],
    ) -> io::Result<Self> {
        let open = || Session::open(socket, host).map_err(io::Error::other);
        let mut session = open()?;
        let own = address(&mut session, host)?;
        let at = |selector| Aesa::new(own.prefix(), own.esi(), selector);
        let [first, second, third] = endpoints;
        let lecs = Configuration::new(vec![Lan { name, server: at(LES) }]);
        let control = &[Service::Control];
        Ok(Servers {
            lecs: Shell::new(lecs, session, first, LECS, control)?,
            les: Shell::new(Server::new(name, at(BUS), max_clients), open()?, second, LES, control)?,
            bus: Shell::new(Unknown::new(max_clients), open()?, third, BUS, &[Service::Multicast])?,
            own,
            epoch: Instant::now(),
            told: 0,
        })
    }

    /// The addresses of LECS, LES and BUS.
    pub fn addresses(&self) -> [Aesa; 3] {
        [LECS, LES, BUS].map(|selector| Aesa::new(self.own.prefix(), self.own.esi(), selector))
    }

    /// Clients that are in the LAN: identifier and ATM address.
    pub fn clients(&self) -> impl Iterator<Item = (u16, Aesa)> + '_ {
        self.les.machine.clients()
    }

    /// Frames to and of LECS, LES and BUS that no call took, or that came on none.
    pub const fn dropped(&self) -> [&Counters; 3] {
        [&self.lecs.dropped, &self.les.dropped, &self.bus.dropped]
    }

    /// Serves until `stop` says so; looks at it at least every 100 ms.
    ///
    /// # Errors
    /// The service has gone.
    pub fn run(&mut self, mut stop: impl FnMut(&Self) -> bool) -> io::Result<()> {
        while !stop(self) {
            if !self.turn()? {
                self.sleep()?;
            }
        }
        Ok(())
    }

    fn now(&self) -> Time {
        Time::ZERO + self.epoch.elapsed()
    }

    fn turn(&mut self) -> io::Result<bool> {
        let now = self.now();
        let lecs = self.lecs.turn(now)?;
        let les = self.les.turn(now)?;
        // Who has registered a MAC address with the LES alone sends frames from it by the BUS.
        let (les_machine, bus_machine) = (&self.les.machine, &mut self.bus.machine);
        if self.told != les_machine.revision() {
            self.told = les_machine.revision();
            bus_machine.set_registrations(les_machine.registrations());
        }
        Ok(self.bus.turn(now)? || les || lecs)
    }

    fn sleep(&mut self) -> io::Result<()> {
        let Servers { lecs, les, bus, .. } = self;
        for endpoint in [&mut lecs.endpoint, &mut les.endpoint, &mut bus.endpoint] {
            endpoint.arm();
        }
        if !self.turn()? {
            let Servers { lecs, les, bus, .. } = &*self;
            let deadlines = [lecs.machine.poll_timeout(), les.machine.poll_timeout(), bus.machine.poll_timeout()];
            let due = deadlines.into_iter().flatten().min().map_or(MAX_WAIT, |at| at.since(self.now()));
            let blocked = self.lecs.is_blocked() || self.les.is_blocked() || self.bus.is_blocked();
            let wait = due.min(if blocked { BLOCKED_WAIT } else { MAX_WAIT });
            let spec = Timespec { tv_sec: 0, tv_nsec: i64::from(wait.subsec_nanos()) };
            let Servers { lecs, les, bus, .. } = &*self;
            let mut fds = [
                lecs.endpoint.as_fd(),
                lecs.session.as_fd(),
                les.endpoint.as_fd(),
                les.session.as_fd(),
                bus.endpoint.as_fd(),
                bus.session.as_fd(),
            ]
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
            match poll(&mut fds, Some(&spec)) {
                // A signal: the caller's `stop` knows whether it means the end.
                Ok(_) | Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
        let Servers { lecs, les, bus, .. } = self;
        for endpoint in [&mut lecs.endpoint, &mut les.endpoint, &mut bus.endpoint] {
            endpoint.disarm().map_err(io::Error::other)?;
        }
        Ok(())
    }
}
