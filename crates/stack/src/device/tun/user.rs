//! A device as a user of an endpoint: a thread of its own, in whatever process.

use super::passage::{Carrier, Passage};
use super::{Device, Settings, TURN};
use crate::classical;
use crate::device::calls::{Dialler, Listener};
use crate::ip::{Config, IpInterface};
use endpoint::{ChannelId, Endpoint, Loan};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};
use wire::Time;

/// Longest sleep, in which nobody notices that it should stop.
const MAX_WAIT: Duration = Duration::from_millis(100);
/// Rounds without anything to do before sleeping: a sleep costs more than a short wait.
const IDLE_ROUNDS: u32 = 20;

impl Carrier for Endpoint {
    type Buffer = Loan;

    fn take(&mut self) -> Option<Loan> {
        self.loan()
    }

    fn octets<'a>(&'a mut self, loan: &'a mut Loan) -> &'a mut [u8] {
        loan
    }

    fn both<'a>(&'a mut self, from: &'a Loan, to: &'a mut Loan) -> (&'a [u8], &'a mut [u8]) {
        (from, to)
    }

    fn give_back(&mut self, loan: Loan) {
        drop(loan);
    }

    fn has_room(&mut self) -> bool {
        self.send_space() > 0
    }

    fn send(&mut self, circuit: u32, loan: Loan, octets: usize) -> bool {
        Endpoint::send(self, ChannelId(circuit), loan, octets).is_ok()
    }
}

/// A device and the endpoint whose circuits it leads to.
#[derive(Debug)]
pub struct Tun {
    passage: Passage<Loan>,
    endpoint: Endpoint,
    calls: Option<Dialler>,
    epoch: Instant,
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.endpoint.as_fd()
    }
}

impl Tun {
    /// Makes the device with an address, over channels that are open on `endpoint`.
    ///
    /// # Errors
    /// No right to make one (`CAP_NET_ADMIN`), or no `/dev/net/tun`.
    pub fn new(settings: &Settings, endpoint: Endpoint, channels: &[u32]) -> io::Result<Self> {
        let device = Device::new(&settings.device())?;
        let ip = &settings.ip;
        let mut ip = IpInterface::new(Config { offload: ip.offload && device.has_header(), ..ip.clone() });
        for channel in channels {
            ip.add_circuit(*channel, None, Time::ZERO);
        }
        Ok(Tun { passage: Passage::new(device, ip)?, endpoint, calls: None, epoch: Instant::now() })
    }

    /// The same, whose circuits are calls: the configuration's number is that of `listener`.
    #[must_use]
    pub fn with_calls(mut self, listener: Listener, config: classical::Config) -> Self {
        let now = self.now();
        self.calls = Some(listener.begin(config, &mut self.passage.ip, now));
        self
    }

    /// The interface: routes, servers, peers, counters.
    pub fn ip(&mut self) -> &mut IpInterface {
        &mut self.passage.ip
    }

    fn now(&self) -> Time {
        Time::ZERO + self.epoch.elapsed()
    }

    /// Moves packets until `stop` says so; looks at it at least every 100 ms.
    ///
    /// # Errors
    /// The device or the service has gone.
    pub fn run(&mut self, mut stop: impl FnMut() -> bool) -> io::Result<()> {
        let mut idle = 0;
        while !stop() {
            if self.turn()? {
                idle = 0;
                // The device may have packets without end, of which none waits for the circuit.
                self.endpoint.check().map_err(io::Error::other)?;
            } else if idle < IDLE_ROUNDS {
                idle += 1;
                std::hint::spin_loop();
            } else {
                self.sleep()?;
            }
        }
        Ok(())
    }

    /// One round of everything. True if anything moved.
    fn turn(&mut self) -> io::Result<bool> {
        let now = self.now();
        self.passage.ip.handle_timeout(now);
        let mut any = match &mut self.calls {
            Some(calls) => calls.turn(&mut self.endpoint, &mut self.passage.ip, now)?,
            None => false,
        };
        for _ in 0..TURN {
            let Some(pdu) = self.endpoint.try_receive() else { break };
            self.passage.deliver(pdu.channel().0, &pdu, now)?;
            any = true;
        }
        self.passage.flush()?;
        any |= self.passage.turn(&mut self.endpoint, now)?;
        Ok(any)
    }

    fn sleep(&mut self) -> io::Result<()> {
        self.endpoint.arm();
        if !self.turn()? {
            // With a packet that waits for room the device is of no interest, and nothing rings when room comes.
            let blocked = self.passage.is_blocked();
            let calls = self.calls.as_ref();
            let due = self.passage.ip.poll_timeout().into_iter().chain(calls.and_then(Dialler::poll_timeout)).min();
            let due = due.map_or(MAX_WAIT, |at| at.since(self.now()));
            let wait = if blocked { Duration::from_micros(200) } else { due.min(MAX_WAIT) };
            let spec = Timespec { tv_sec: 0, tv_nsec: i64::from(wait.subsec_nanos()) };
            let session = calls.map_or_else(|| self.endpoint.as_fd(), AsFd::as_fd);
            let mut fds = [
                PollFd::from_borrowed_fd(self.endpoint.as_fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(session, PollFlags::IN),
                PollFd::new(&self.passage.device, PollFlags::IN),
            ];
            let watched = if blocked { &mut fds[..2] } else { &mut fds[..] };
            match poll(watched, Some(&spec)) {
                // A signal: the caller's `stop` knows whether it means the end.
                Ok(_) | Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
        self.endpoint.disarm().map_err(io::Error::other)
    }
}
