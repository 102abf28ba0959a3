//! A machine of LAN emulation with a session and an endpoint.

use super::Machine;
use crate::device::calls::unless_gone;
use crate::lane::{Action, Link, Service};
use endpoint::calls::{Event, Sap, Session, Traffic};
use endpoint::{ChannelId, Endpoint, OpenOptions, SendError};
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;
use wire::aesa::Aesa;
use wire::q2931::CauseValue;
use wire::{CircuitId, Counters, DropReason, Time};

/// The ATM Forum's organisation.
const OUI: [u8; 3] = [0, 0xa0, 0x3e];
/// Octets of the longest SDU of 802.3.
const SDU_OCTETS: u16 = 1516;
/// Between two looks at the session: each is a system call.
const LOOK: Duration = Duration::from_millis(1);
/// PDUs that are taken in a turn.
const TURN: usize = 64;

/// A call of the machine's.
#[derive(Debug, Clone, Copy)]
struct Call {
    number: u64,
    channel: Option<ChannelId>,
}

/// What is sent to a channel's far end and has no room yet.
type Waiting = (Link, Box<[u8]>);

/// The machine, and what carries out what it says.
#[derive(Debug)]
pub(super) struct Shell<M> {
    pub(super) machine: M,
    pub(super) session: Session,
    pub(super) endpoint: Endpoint,
    /// What each listening is for.
    listens: BTreeMap<u64, Service>,
    calls: BTreeMap<Link, Call>,
    links: BTreeMap<u64, Link>,
    by_channel: BTreeMap<u32, Link>,
    /// By call and number.
    parties: BTreeMap<(u64, u16), Aesa>,
    waiting: Option<Waiting>,
    looked: Option<Time>,
    /// Frames that no call took, or that came of none.
    pub(super) dropped: Counters,
}

impl<M: Machine> Shell<M> {
    /// Listens for calls to a selector, for these services.
    ///
    /// # Errors
    /// Somebody else listens there for such calls, or the service has gone.
    pub(super) fn new(
        machine: M,
        mut session: Session,
        endpoint: Endpoint,
        selector: u8,
        services: &[Service],
    ) -> io::Result<Self> {
        let mut listens = BTreeMap::new();
        for service in services {
            let (listen, _) =
                session.listen(Some(selector), Sap::snap(OUI, service.pid())).map_err(io::Error::other)?;
            listens.insert(listen, *service);
        }
        Ok(Shell {
            machine,
            session,
            endpoint,
            listens,
            calls: BTreeMap::new(),
            links: BTreeMap::new(),
            by_channel: BTreeMap::new(),
            parties: BTreeMap::new(),
            waiting: None,
            looked: None,
            dropped: Counters::default(),
        })
    }

    /// One round of everything. True if anything moved.
    ///
    /// # Errors
    /// The service has gone.
    pub(super) fn turn(&mut self, now: Time) -> io::Result<bool> {
        let mut any = false;
        if self.looked.is_none_or(|at| now >= at + LOOK) {
            self.looked = Some(now);
            while let Some(event) = self.session.next_event(Some(Duration::ZERO)).map_err(io::Error::other)? {
                self.handle(event, now)?;
                any = true;
            }
        }
        for _ in 0..TURN {
            let Some(pdu) = self.endpoint.try_receive() else { break };
            any = true;
            match self.by_channel.get(&pdu.channel().0) {
                Some(link) => self.machine.handle_frame(*link, &pdu, now),
                None => self.dropped.drop_one(DropReason::UnknownCircuit),
            }
        }
        if self.machine.deadline().is_some_and(|at| at <= now) {
            self.machine.handle_timeout(now);
            any = true;
        }
        any |= self.carry_out_all(now)?;
        Ok(self.transmit() || any)
    }

    fn carry_out_all(&mut self, now: Time) -> io::Result<bool> {
        let mut any = false;
        while let Some(action) = self.machine.next_action() {
            self.carry_out(action, now)?;
            any = true;
        }
        Ok(any)
    }

    /// Sends what there is room for.
    fn transmit(&mut self) -> bool {
        let mut any = false;
        while self.endpoint.send_space() > 0
            && let Some((link, frame)) = self.waiting.take().or_else(|| self.machine.next_frame())
        {
            let Some(channel) = self.calls.get(&link).and_then(|call| call.channel) else {
                self.dropped.drop_one(DropReason::Closed);
                continue;
            };
            let Some(mut loan) = self.endpoint.loan() else {
                self.waiting = Some((link, frame));
                break;
            };
            let Some(room) = loan.get_mut(..frame.len()) else {
                self.dropped.drop_one(DropReason::Oversize);
                continue;
            };
            room.copy_from_slice(&frame);
            // What a channel that the other side has closed does not take, the host counts.
            match self.endpoint.send(channel, loan, frame.len()) {
                Ok(()) => any = true,
                Err((SendError::Full, _)) => {
                    self.waiting = Some((link, frame));
                    break;
                }
                Err((SendError::TooLong { .. }, _)) => self.dropped.drop_one(DropReason::Oversize),
                Err((SendError::Empty, _)) => self.dropped.drop_one(DropReason::Malformed),
                Err((_, _)) => self.dropped.drop_one(DropReason::NotPermitted),
            }
        }
        any
    }

    /// Whether a frame waits for room, of which nothing tells.
    pub(super) fn is_blocked(&self) -> bool {
        self.waiting.is_some()
    }

    fn handle(&mut self, event: Event, now: Time) -> io::Result<()> {
        match event {
            Event::Incoming { call, listen, from, .. } => {
                let Some(service) = self.listens.get(&listen) else { return Ok(()) };
                let link = Link::Taken(call);
                self.links.insert(call, link);
                self.calls.insert(link, Call { number: call, channel: None });
                let from = from.and_then(|from| from.parse().ok());
                self.machine.handle_incoming(link, from, *service, now);
            }
            Event::Connected { call, circuit, .. } => {
                let Some(link) = self.links.get(&call).copied() else { return Ok(()) };
                let is_open = self.calls.get(&link).is_some_and(|call| call.channel.is_some());
                let circuit = circuit.parse().map_err(|_| io::Error::other(format!("circuit {circuit}")))?;
                if is_open || self.open(link, circuit)? {
                    self.machine.handle_up(link, now);
                } else {
                    self.give_up(link, now)?;
                }
            }
            Event::Released { call, .. } => {
                if let Some(link) = self.links.get(&call).copied() {
                    self.forget(link);
                    self.machine.handle_released(link, now);
                }
            }
            Event::PartyAdded { call, party } => self.handle_party(call, party, true),
            Event::PartyDropped { call, party, .. } => self.handle_party(call, party, false),
            // The call is up only once it is connected; a newer service may tell of more.
            _ => {}
        }
        // What follows from an event is done before the next one: calls may be gone by then.
        self.carry_out_all(now).map(drop)
    }

    fn handle_party(&mut self, call: u64, party: u16, joined: bool) {
        let address =
            if joined { self.parties.get(&(call, party)).copied() } else { self.parties.remove(&(call, party)) };
        if let (Some(link), Some(address)) = (self.links.get(&call), address) {
            self.machine.handle_party(*link, address, joined);
        }
    }

    fn carry_out(&mut self, action: Action, now: Time) -> io::Result<()> {
        match action {
            Action::Call { link, to, service, multipoint } => {
                let sap = Sap::snap(OUI, service.pid());
                let traffic = Traffic { sdu_octets: SDU_OCTETS, ..Traffic::default() };
                let begun = if multipoint {
                    self.session.begin_multipoint(to, sap, &traffic)
                } else {
                    self.session.begin_call(to, sap, &traffic)
                };
                match unless_gone(begun)? {
                    Some(number) => {
                        self.links.insert(number, link);
                        self.calls.insert(link, Call { number, channel: None });
                        if multipoint {
                            self.parties.insert((number, 0), to);
                        }
                    }
                    None => self.machine.handle_released(link, now),
                }
            }
            Action::AddParty { link, to } => {
                let Some(number) = self.calls.get(&link).map(|call| call.number) else { return Ok(()) };
                match unless_gone(self.session.begin_party(number, to))? {
                    Some(party) => drop(self.parties.insert((number, party), to)),
                    None => self.machine.handle_party(link, to, false),
                }
            }
            Action::DropParty { link, to } => {
                let Some(number) = self.calls.get(&link).map(|call| call.number) else { return Ok(()) };
                let of_call = self.parties.range((number, 0)..=(number, u16::MAX));
                let party = of_call.filter(|(_, address)| **address == to).map(|((_, party), _)| *party).next();
                if let Some(party) = party {
                    self.parties.remove(&(number, party));
                    unless_gone(self.session.drop_party(number, party, CauseValue::NORMAL))?;
                }
            }
            // The circuit is open before the caller hears of the answer: nothing that comes at once is lost.
            Action::Answer(link) => {
                let Some(number) = self.calls.get(&link).map(|call| call.number) else { return Ok(()) };
                let taken = unless_gone(self.session.take(number))?;
                let opened = match taken {
                    Some(taken) => self.open(link, taken.circuit)?,
                    None => false,
                };
                if !opened || unless_gone(self.session.begin_accept(number))?.is_none() {
                    self.give_up(link, now)?;
                }
            }
            Action::Release(link) => {
                if let Some(number) = self.forget(link) {
                    unless_gone(self.session.release(number, CauseValue::NORMAL))?;
                }
            }
        }
        Ok(())
    }

    fn open(&mut self, link: Link, circuit: CircuitId) -> io::Result<bool> {
        let opened = unless_gone(self.endpoint.open(circuit, OpenOptions::default()))?;
        if let (Some(channel), Some(call)) = (opened, self.calls.get_mut(&link)) {
            call.channel = Some(channel);
            self.by_channel.insert(channel.0, link);
        }
        Ok(opened.is_some())
    }

    /// A call cannot be used.
    fn give_up(&mut self, link: Link, now: Time) -> io::Result<()> {
        if let Some(number) = self.forget(link) {
            unless_gone(self.session.release(number, CauseValue::RESOURCES))?;
            self.machine.handle_released(link, now);
        }
        Ok(())
    }

    fn forget(&mut self, link: Link) -> Option<u64> {
        let call = self.calls.remove(&link)?;
        self.links.remove(&call.number);
        self.parties.retain(|(number, _), _| *number != call.number);
        if let Some(channel) = call.channel {
            self.by_channel.remove(&channel.0);
            // A release by the other side has closed it already.
            let _ = self.endpoint.close(channel);
        }
        Some(call.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use endpoint::EndpointConfig;
    use host::HostInterface;
    use host::engine::{self, Core};
    use host::service::{Everybody, Service as Doors};
    use net::topology::{Attachment, CircuitDescription, LinkDescription};
    use net::{FramePool, LinkConfig, Network};
    use std::collections::VecDeque;
    use std::sync::Arc;
    use std::time::Instant;

    /// Has frames to send, and takes all that come.
    #[derive(Default)]
    struct Sender {
        frames: VecDeque<(Link, Box<[u8]>)>,
        taken: u64,
    }

    impl Machine for Sender {
        fn handle_incoming(&mut self, _: Link, _: Option<Aesa>, _: Service, _: Time) {}
        fn handle_up(&mut self, _: Link, _: Time) {}
        fn handle_party(&mut self, _: Link, _: Aesa, _: bool) {}
        fn handle_released(&mut self, _: Link, _: Time) {}
        fn handle_timeout(&mut self, _: Time) {}

        fn handle_frame(&mut self, _: Link, _: &[u8], _: Time) {
            self.taken += 1;
        }

        fn next_action(&mut self) -> Option<Action> {
            None
        }

        fn next_frame(&mut self) -> Option<(Link, Box<[u8]>)> {
            self.frames.pop_front()
        }

        fn deadline(&self) -> Option<Time> {
            None
        }
    }

    fn build(core: &mut Core) {
        let (network, fabric) = (&mut core.network, &mut core.fabric);
        for host in ["alpha", "beta"] {
            fabric.add_host(network, host, HostInterface::new(16)).unwrap();
        }
        let ends = ["alpha", "beta"].map(|host| Attachment { station: host.to_owned(), port: None });
        fabric.add_link(network, &LinkDescription { ends, config: LinkConfig::default() }).unwrap();
        let ends = ["alpha 0.100", "beta 0.100"].map(|end| end.parse().unwrap()).to_vec();
        fabric.add_circuit(network, &CircuitDescription { ends, ..Default::default() }).unwrap();
    }

    #[test]
    fn a_frame_that_no_call_takes_or_that_comes_of_none_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("cellway.sock");
        let engine = engine::start(Network::new(FramePool::new(64, 4096))).unwrap();
        engine.with(build).unwrap();
        let service = Doors::start(&socket, engine.clone(), Arc::new(Everybody), 16).unwrap();
        let endpoint = |host: &str| {
            let config = EndpointConfig { host: host.to_owned(), ..EndpointConfig::default() };
            Endpoint::create(&socket, &config).unwrap()
        };
        let session = Session::open(&socket, "alpha").unwrap();
        let mut shell = Shell::new(Sender::default(), session, endpoint("alpha"), 1, &[]).unwrap();
        // This service has no signalling to look at.
        shell.looked = Some(Time::from_millis(1000));
        let (link, other) = (Link::Made(1), Link::Made(2));
        let circuit: CircuitId = "0.100".parse().unwrap();
        shell.calls.insert(link, Call { number: 1, channel: None });
        assert!(shell.open(link, circuit).unwrap());
        let longest = shell.endpoint.loan().unwrap().len();
        let frames = [(link, 100), (other, 100), (link, longest + 1), (link, 0)];
        shell.machine.frames.extend(frames.map(|(link, octets)| (link, vec![0; octets].into())));
        assert!(shell.transmit());
        let dropped = |shell: &Shell<Sender>, reason| shell.dropped.dropped(reason);
        let reasons = [DropReason::Closed, DropReason::Oversize, DropReason::Malformed];
        assert_eq!(reasons.map(|reason| dropped(&shell, reason)), [1; 3]);
        let mut beta = endpoint("beta");
        let channel = beta.open(circuit, OpenOptions::default()).unwrap();
        // One for a call, and one for none any more.
        let deadline = Instant::now() + Duration::from_secs(10);
        for counted in [0, 1] {
            let loan = beta.loan().unwrap();
            assert!(beta.send(channel, loan, 10).is_ok());
            while shell.machine.taken + dropped(&shell, DropReason::UnknownCircuit) == counted {
                shell.turn(Time::ZERO).unwrap();
                assert!(Instant::now() < deadline);
                std::thread::yield_now();
            }
            shell.by_channel.clear();
        }
        assert_eq!((shell.machine.taken, dropped(&shell, DropReason::UnknownCircuit)), (1, 1));
        drop(service);
        engine.stop();
    }
}
