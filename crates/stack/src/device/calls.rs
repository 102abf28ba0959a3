//! The calls of an IP interface at a host: a session with the service that calls, answers and releases as
//! [`crate::classical`] says, and opens their circuits on the interface's endpoint.

use crate::classical::{Action, Calls, Config};
use crate::ip::IpInterface;
use endpoint::calls::{Event, Sap, Session, Traffic};
use endpoint::{ChannelId, Endpoint, Error, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::{Duration, Instant};
use wire::aesa::Aesa;
use wire::atmarp::AtmAddress;
use wire::q2931::CauseValue;
use wire::{CircuitId, Time};

/// Between two looks at the session: each is a system call.
const LOOK: Duration = Duration::from_millis(1);
/// How long a host may take to register its address.
const PATIENCE: Duration = Duration::from_secs(10);
/// Octets of LLC and SNAP before a packet.
const HEADER_OCTETS: usize = 8;

/// Calls for Classical IP (the service access point `llc`) are presented to this session; nobody answers them yet.
#[derive(Debug)]
pub struct Listener {
    session: Session,
    own: Aesa,
}

impl Listener {
    /// Listens at a host, as soon as it has an address.
    ///
    /// # Errors
    /// No service, no signalling at the host, no address within ten seconds, or somebody else listens for such calls.
    pub fn new(socket: &Path, host: &str) -> io::Result<Self> {
        let mut session = Session::open(socket, host).map_err(io::Error::other)?;
        let own = address(&mut session, host)?;
        session.listen(Some(own.selector()), Sap::LLC).map_err(io::Error::other)?;
        Ok(Listener { session, own })
    }

    /// The host's address.
    pub const fn own(&self) -> Aesa {
        self.own
    }

    /// The same as ATMARP's number.
    pub fn number(&self) -> AtmAddress {
        AtmAddress::new(&self.own.0, false).unwrap_or(AtmAddress::NONE)
    }

    /// Sets up the calls of `ip`, whose number is the host's address.
    pub(super) fn begin(self, config: Config, ip: &mut IpInterface, now: Time) -> Dialler {
        let octets = u16::try_from(ip.config().mtu + HEADER_OCTETS).unwrap_or(u16::MAX);
        let traffic = Traffic { sdu_octets: octets, ..Traffic::default() };
        Dialler { session: self.session, calls: Calls::new(config, ip, now), traffic, looked: None }
    }
}

/// What an interface calls and answers.
#[derive(Debug)]
pub(super) struct Dialler {
    session: Session,
    calls: Calls,
    traffic: Traffic,
    looked: Option<Time>,
}

/// A host's address, as soon as it has one.
///
/// # Errors
/// The service has gone, no signalling at the host, or no address within ten seconds.
pub(super) fn address(session: &mut Session, host: &str) -> io::Result<Aesa> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let status = session.list().map_err(io::Error::other)?;
        let mut interfaces = status["interfaces"].as_array().into_iter().flatten();
        let own = interfaces.find(|i| i["station"] == host && i["side"] == "user" && i["version"] != "iisp");
        let Some(own) = own else {
            let says = format!("host {host} has no signalling: give its link signalling = {{ version = \"uni31\" }}");
            return Err(io::Error::other(says));
        };
        if let Some(own) = own["addresses"][0].as_str().and_then(|own| own.parse::<Aesa>().ok()) {
            return Ok(own);
        }
        if Instant::now() > deadline {
            let says = format!("host {host} has no address yet: is the switch at its other end up, with signalling?");
            return Err(io::Error::new(io::ErrorKind::TimedOut, says));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// What cannot be done is no error while the service is there: the call may be gone.
pub(super) fn unless_gone<T>(result: Result<T, Error>) -> io::Result<Option<T>> {
    match result {
        Ok(done) => Ok(Some(done)),
        Err(Error::ServiceGone) => Err(io::Error::other(Error::ServiceGone)),
        Err(_) => Ok(None),
    }
}

impl Dialler {
    /// Takes what has become of calls, and makes, answers and releases what is to be. True if anything happened.
    pub(super) fn turn(&mut self, endpoint: &mut Endpoint, ip: &mut IpInterface, now: Time) -> io::Result<bool> {
        if self.looked.is_some_and(|at| now < at + LOOK) && !ip.has_wanted() {
            return Ok(false);
        }
        self.looked = Some(now);
        let mut any = false;
        while let Some(event) = self.session.next_event(Some(Duration::ZERO)).map_err(io::Error::other)? {
            self.handle(event, endpoint, ip, now)?;
            any = true;
        }
        self.calls.handle_timeout(ip, now);
        while let Some(action) = self.calls.poll() {
            self.carry_out(action, endpoint, ip, now)?;
            any = true;
        }
        Ok(any)
    }

    /// Whether somebody waits for a call.
    pub(super) fn is_setting_up(&self) -> bool {
        self.calls.is_setting_up()
    }

    /// When to come back.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.calls.poll_timeout()
    }

    fn handle(&mut self, event: Event, endpoint: &mut Endpoint, ip: &mut IpInterface, now: Time) -> io::Result<()> {
        match event {
            Event::Incoming { call, from, .. } => {
                self.calls.handle_incoming(call, from.and_then(|from| from.parse().ok()));
            }
            Event::Connected { call, circuit, .. } if !self.calls.is_open(call) => {
                let circuit = circuit.parse().map_err(|_| io::Error::other(format!("circuit {circuit}")))?;
                self.open(call, circuit, endpoint, ip, now)?;
            }
            Event::Released { call, .. } => self.forget(call, endpoint, ip, now),
            _ => {}
        }
        Ok(())
    }

    fn carry_out(
        &mut self,
        action: Action,
        endpoint: &mut Endpoint,
        ip: &mut IpInterface,
        now: Time,
    ) -> io::Result<()> {
        match action {
            Action::Call(to) => match unless_gone(self.session.begin_call(to, Sap::LLC, &self.traffic))? {
                Some(call) => self.calls.handle_begun(to, call),
                None => self.calls.handle_refused(to, now),
            },
            // The circuit is open before the caller hears of the answer: nothing that comes at once is lost.
            Action::Answer(call) => {
                let circuit = unless_gone(self.session.take(call))?.map(|taken| taken.circuit);
                let opened = match circuit {
                    Some(circuit) => self.open(call, circuit, endpoint, ip, now)?,
                    None => false,
                };
                if !opened || unless_gone(self.session.begin_accept(call))?.is_none() {
                    self.forget(call, endpoint, ip, now);
                }
            }
            Action::Release(call, cause) => {
                unless_gone(self.session.release(call, cause))?;
                self.forget(call, endpoint, ip, now);
            }
        }
        Ok(())
    }

    fn open(
        &mut self,
        call: u64,
        circuit: CircuitId,
        endpoint: &mut Endpoint,
        ip: &mut IpInterface,
        now: Time,
    ) -> io::Result<bool> {
        let opened = unless_gone(endpoint.open(circuit, OpenOptions::default()))?;
        let is_ours = opened.is_some_and(|channel| {
            let is_ours = self.calls.handle_open(call, channel.0, ip, now);
            if !is_ours {
                // The service may have closed it already.
                let _ = endpoint.close(channel);
            }
            is_ours
        });
        if !is_ours {
            unless_gone(self.session.release(call, CauseValue::RESOURCES))?;
            self.forget(call, endpoint, ip, now);
        }
        Ok(is_ours)
    }

    fn forget(&mut self, call: u64, endpoint: &mut Endpoint, ip: &mut IpInterface, now: Time) {
        if let Some(circuit) = self.calls.handle_released(call, ip, now) {
            // A release by the other side has closed it already.
            let _ = endpoint.close(ChannelId(circuit));
        }
    }
}

impl AsFd for Dialler {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.session.as_fd()
    }
}
