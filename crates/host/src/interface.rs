//! The host interface as a node: takes turns over endpoints on the way out, demultiplexes by circuit on the way in.

mod departing;
mod opening;
mod status;

use crate::alarms::{NEW_POINT, OAM_WORK, ROUND_OAM};
use crate::answers::Answers;
use crate::channels::EndpointId;
use crate::circuit::{BackloggedCircuits, Circuit, CircuitConfig, Credits};
use crate::circuits::Circuits;
use crate::ended::Ended;
use crate::endpoints::Endpoints;
use crate::host_endpoint::{AttachError, HostEndpoint, Life};
use crate::intake::Intake;
use crate::outward::send_cell;
use departing::Departing;
pub(crate) use departing::LONGEST as LONGEST_DEPARTURE;
use net::topology::{CircuitOptions, CircuitTable};
use net::{Label, LabelChange, LinkProperties, Node, NodeIo};
pub use opening::OpenError;
pub use status::EndpointStatus;
use std::any::Any;
use std::collections::{BTreeSet, HashMap, HashSet};
use wire::oam::Location;
use wire::{Cell, CircuitId, Counters, Time};

/// Cells or frames taken from a port in one round.
const ROUND_CELLS: usize = 4096;
/// PDUs that one round gives up because their cells stay away. Those beyond it are given up in the next one.
const ROUND_TIMEOUTS: usize = 1024;

/// The host interface.
#[derive(Debug)]
pub struct HostInterface {
    pub(crate) endpoints: Endpoints,
    pub(crate) circuits: Circuits,
    /// The circuit that each direct side has.
    claims: HashMap<EndpointId, u32>,
    /// Endpoints whose applications have gone before all they sent has left.
    pub(crate) departing: Vec<Departing>,
    /// Endpoints with SDUs for circuits that are no more.
    given_up: BTreeSet<EndpointId>,
    next_id: u64,
    max_endpoints: usize,
    pub(crate) answers: Answers,
    /// What the host is called in OAM cells.
    pub(crate) location: Option<Location>,
    /// Cells and frames of circuits that are not here, and management of paths that has no room.
    pub(crate) stray: Counters,
    /// Cells of a parcel that was cut.
    pub(crate) cut: Vec<Cell>,
    /// Counters of removed endpoints and circuits.
    ended: Ended,
    pub(crate) credits: Credits,
    /// Circuits that keep what their receivers have no room for.
    pub(crate) backlogs: BackloggedCircuits,
    /// What came in at its ports.
    pub(crate) intake: Intake,
    /// What its links are, by port.
    pub(crate) links: Vec<Option<LinkProperties>>,
    /// The last round's moment: a pacer's time before it is not waited for, but for room on the link.
    pub(crate) now: Time,
}

impl HostInterface {
    /// A host with `max_endpoints` endpoints at most.
    pub fn new(max_endpoints: usize) -> Self {
        HostInterface {
            endpoints: Endpoints::default(),
            circuits: Circuits::default(),
            claims: HashMap::new(),
            departing: Vec::new(),
            given_up: BTreeSet::new(),
            next_id: 1,
            max_endpoints,
            answers: Answers::default(),
            location: None,
            stray: Counters::default(),
            cut: Vec::new(),
            ended: Ended::default(),
            credits: Credits::default(),
            backlogs: BackloggedCircuits::default(),
            intake: Intake::default(),
            links: Vec::new(),
            now: Time::ZERO,
        }
    }

    /// Names the host in OAM cells: what it says where a loopback request asks every point of a circuit.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.location = Location::named(name);
        self
    }

    /// Makes a circuit known. An existing one is replaced only if it differs; true if something changed.
    pub fn add_circuit(&mut self, id: CircuitId, config: CircuitConfig) -> bool {
        if self.circuits.get(id.key()).is_some_and(|c| c.config == config) {
            return false;
        }
        self.remove_circuit(id);
        let credit = (config.contract.flow == traffic::Flow::Credit).then(|| self.credits.begin(id.key()));
        self.circuits.insert(Circuit::new(id, config, credit));
        true
    }

    /// Forgets a circuit; its opener's channels on it close.
    pub fn remove_circuit(&mut self, id: CircuitId) -> bool {
        let Some(mut circuit) = self.circuits.remove(id.key()) else { return false };
        let users = [circuit.sender, circuit.receiver, circuit.oam].into_iter().flatten().map(|user| user.endpoint);
        let leavers = std::mem::take(&mut circuit.departing);
        for user in users.chain(leavers.iter().map(|leaver| leaver.endpoint)) {
            let Some(endpoint) = self.endpoints.find(user) else { continue };
            endpoint.forget_circuit(id);
            if endpoint.has_given_up() {
                self.given_up.insert(user);
            }
        }
        let endpoint = circuit.receiver.and_then(|u| self.endpoints.find(u.endpoint));
        circuit.close_receiver(endpoint);
        let [sent, received] = [&circuit.sent, &circuit.received].map(|counters| counters.all());
        self.ended.note_circuit(id, sent, received);
        true
    }

    /// Hands each endpoint to `f` that may have something to send on a circuit.
    pub(crate) fn for_each_sender(&mut self, id: CircuitId, mut f: impl FnMut(&mut HostEndpoint)) {
        let Some(circuit) = self.circuits.get(id.key()) else { return };
        let users = circuit.sender.iter().chain(&circuit.oam).map(|user| user.endpoint);
        let leavers = circuit.departing.iter().map(|leaver| leaver.endpoint);
        // Whose application has gone has no name at the circuit any more, if it sent OAM cells only.
        let gone = self.departing.iter().filter(|departing| departing.may_send_on(id)).map(|departing| departing.id);
        for endpoint in users.chain(leavers).chain(gone) {
            if let Some(endpoint) = self.endpoints.find(endpoint) {
                f(endpoint);
            }
        }
    }

    /// Takes an endpoint in.
    ///
    /// # Errors
    /// The host has as many as it may.
    pub fn attach(&mut self, endpoint: HostEndpoint) -> Result<EndpointId, AttachError> {
        if self.endpoints.len() >= self.max_endpoints {
            return Err(AttachError::Full(self.max_endpoints));
        }
        let id = EndpointId(self.next_id);
        self.next_id += 1;
        self.endpoints.push(id, endpoint);
        Ok(id)
    }

    /// Takes an endpoint in whose memory is not to be touched before [`HostInterface::wake`].
    ///
    /// # Errors
    /// As [`HostInterface::attach`].
    pub fn attach_asleep(&mut self, mut endpoint: HostEndpoint) -> Result<EndpointId, AttachError> {
        endpoint.life = Life::Asleep;
        self.attach(endpoint)
    }

    /// An endpoint's memory may be touched.
    pub fn wake(&mut self, id: EndpointId) {
        self.endpoints.wake(id);
    }

    /// Ends an endpoint and all it opened, at once: its memory goes with it, and what waits there, counted. See
    /// [`HostInterface::depart`] for one whose application has gone, [`HostInterface::release_endpoint`] for one that
    /// its application gives up.
    pub fn detach(&mut self, id: EndpointId) -> bool {
        self.drop_unsent(id, usize::MAX);
        self.end_receivers(id);
        for key in self.keys_of(id) {
            let Some(circuit) = self.circuits.get_mut(key) else { continue };
            circuit.sender.take_if(|u| u.endpoint == id);
            circuit.departing.retain(|leaver| leaver.endpoint != id);
        }
        self.departing.retain(|departing| departing.id != id);
        self.given_up.remove(&id);
        if let Some(endpoint) = self.endpoints.find(id) {
            endpoint.end_lending();
            self.ended.note_endpoint(id, [endpoint.sent, endpoint.received], || endpoint.mismatch(0));
        }
        self.endpoints.remove(id)
    }

    /// Changes an endpoint's event strategy.
    ///
    /// # Errors
    /// The endpoint is gone.
    pub fn set_events(&mut self, id: EndpointId, events: endpoint::Events) -> Result<(), OpenError> {
        if self.endpoints.set_events(id, events) { Ok(()) } else { Err(OpenError::NoEndpoint) }
    }

    /// Why an endpoint of another data path registers no memory.
    pub const NO_OWN_MEMORY: &str =
        "memory is registered with the data path `single-copy`: create the endpoint with that one";

    /// Lets an endpoint send from and receive into memory of its application's own.
    ///
    /// # Errors
    /// The endpoint is gone, has another data path ([`Self::NO_OWN_MEMORY`]), or has enough already.
    pub fn register(
        &mut self,
        id: EndpointId,
        address: u64,
        memory: endpoint::shared::SharedMemory,
    ) -> Result<(), &'static str> {
        let endpoint = self.endpoints.find(id).ok_or("no such endpoint")?;
        if endpoint.path.kind() != endpoint::DataPath::SingleCopy {
            return Err(Self::NO_OWN_MEMORY);
        }
        endpoint.path.own.register(address, memory)
    }

    /// An endpoint's doorbell rang. False if it did so without a reason.
    pub fn handle_doorbell(&mut self, id: EndpointId) -> bool {
        self.endpoints.handle_doorbell(id)
    }

    /// At the other ends of these circuits applications are behind: who sends to them, and nobody else, makes way. True
    /// if that has changed.
    pub(crate) fn set_pressed(&mut self, circuits: HashSet<u32>) -> bool {
        let changed = self.endpoints.set_pressed(circuits);
        let any = !changed.is_empty();
        // Each once, and not for each of its circuits: a review looks at all of these.
        let senders = changed.into_iter().filter_map(|key| self.circuits.get(key)?.sender);
        for endpoint in senders.map(|sender| sender.endpoint).collect::<BTreeSet<_>>() {
            self.endpoints.review_pressed(endpoint);
        }
        any
    }

    /// True if the thread may sleep until a doorbell, a link or [`Node::poll_timeout`]: nothing to send, nothing polling or
    /// lingering, no backlogged receiver draining.
    pub fn is_quiet(&mut self) -> bool {
        let now = self.now;
        !self.endpoints.gets_on(now) && !self.backlogs.gets_on(now) && self.endpoints.is_quiet()
    }

    /// Before sleeping, requests a doorbell from each application that we wait for: for room in its ring, or for SDUs on a
    /// channel that is not waiting. True if any was requested: look once more, since the reason may have come just before.
    pub fn prepare_sleep(&mut self) -> bool {
        let held = self.ask_those_held_up() | self.endpoints.ask_borrowers() | self.endpoints.ask_senders();
        self.endpoints.ask_backlogged() | held
    }

    /// Endpoints at most.
    pub fn max_endpoints(&self) -> usize {
        self.max_endpoints
    }

    /// Lets so many endpoints be at most. More that exist stay until they go.
    pub fn set_max_endpoints(&mut self, most: usize) {
        self.max_endpoints = most;
    }

    /// Whether the link at a port carries credit cells.
    pub(crate) fn carries_credit(&self, port: u16) -> bool {
        self.links.get(usize::from(port)).copied().flatten().is_some_and(|link| link.credit)
    }

    fn send_answers(&mut self, io: &mut NodeIo<'_>) {
        let (circuits, credits, now) = (&mut self.circuits, &mut self.credits, self.now);
        self.answers.send(|port, cell| {
            let mut circuit = circuits.at(cell.circuit(), port).ok();
            let credit = circuit.as_mut().and_then(|circuit| circuit.credit.as_mut());
            if credit.is_some_and(|credit| credit.sender.room() == 0) {
                return false;
            }
            let sent = send_cell(io, usize::from(port), cell);
            if let (true, Some(circuit)) = (sent, circuit) {
                circuit.sent.cells = circuit.sent.cells.wrapping_add(1);
                if let Some(credit) = &mut circuit.credit {
                    credits.sent(circuit.id.key(), credit, 1, now);
                }
            }
            sent
        });
    }

    fn handle_timeouts(&mut self, now: Time) {
        if self.circuits.poll_timeout().is_none_or(|t| t > now) {
            return;
        }
        for _ in 0..ROUND_TIMEOUTS {
            let Some(key) = self.circuits.pop_overdue(now) else { return };
            let Some(circuit) = self.circuits.get_mut(key) else { continue };
            let endpoint = circuit.receiver.and_then(|u| self.endpoints.find(u.endpoint));
            circuit.handle_timeout(endpoint, now);
            self.circuits.note_timeout(key);
        }
    }
}

impl CircuitTable for HostInterface {
    fn add_circuit(&mut self, port: u16, circuit: CircuitId, options: &CircuitOptions) -> Result<(), String> {
        if options.contract.flow == traffic::Flow::Credit {
            if !self.carries_credit(port) {
                return Err(format!(
                    "the link at port {port} carries no credits: flow = \"credit\" needs cell links, inside a network or to another Cellway by tcp or by udp with form = \"batch\""
                ));
            }
            if options.aal == net::FrameAal::Aal34 {
                return Err("flow = \"credit\" is for circuits of aal5 and aal0".into());
            }
        }
        let CircuitOptions { contract, sends, receives, oam, .. } = *options;
        let config = CircuitConfig { contract, port, sends, receives, oam, ..CircuitConfig::default() };
        self.add_circuit(circuit, config);
        self.begin_oam(circuit).map_err(|e| {
            self.remove_circuit(circuit);
            e.to_string()
        })
    }

    fn change_circuit(&mut self, port: u16, circuit: CircuitId, options: &CircuitOptions) -> Result<(), String> {
        let here = self.circuits.get_mut(circuit.key()).filter(|c| c.config.port == port);
        let here = here.ok_or("it is not here")?;
        if here.config.contract.flow != options.contract.flow {
            return Err("flow does not change while the circuit exists: remove it and add it again".into());
        }
        here.change_contract(options.contract);
        // Who waits for what the contract before allowed asks again.
        self.for_each_sender(circuit, |endpoint| endpoint.handle_contract(circuit));
        Ok(())
    }

    fn remove_circuit(&mut self, port: u16, circuit: CircuitId) {
        if self.circuits.get(circuit.key()).is_some_and(|c| c.config.port == port) {
            self.remove_circuit(circuit);
        }
    }
}

impl Node for HostInterface {
    fn run(&mut self, io: &mut NodeIo<'_>, now: Time) -> bool {
        self.now = now;
        self.handle_timeouts(now);
        self.handle_credit_timers(now);
        self.endpoints.handle_due(now);
        self.watch_signals(io, now);
        let mut any = self.endpoints.take_back_loans(now);
        any |= self.deliver_held(io, now);
        let share = (ROUND_OAM * NEW_POINT / io.ports().max(1)).max(1);
        for port in 0..io.ports() {
            self.circuits.oam_mut().left = share;
            let mut left = ROUND_CELLS;
            while left > 0 {
                let cells = io.cells_in(port);
                let n = cells.len().min(left);
                if n == 0 {
                    let Some(parcel) = io.take_parcel(port) else { break };
                    left = left.saturating_sub(parcel.cells());
                    self.receive_parcel(port as u16, parcel, io, now);
                    any = true;
                    continue;
                }
                let taken = self.receive_cells(port as u16, &cells[..n], now);
                io.consume(port, taken);
                left -= taken;
                // Whatever is left comes in the next round.
                any = true;
                if taken < n {
                    break;
                }
            }
            while left > 0 {
                let Some((frame, octets)) = io.frame_in(port) else { break };
                self.receive_frame(port as u16, frame, octets, now);
                io.release_frame(port);
                left -= 1;
                any = true;
            }
            io.count_work((share - self.circuits.oam().left) * OAM_WORK / NEW_POINT);
        }
        self.send_answers(io);
        any |= self.run_oam(io, now);
        any |= self.send_turns(io, now);
        any |= self.drop_given_up();
        any |= self.handle_departing(now);
        self.circuits.settle();
        any |= self.send_credit_cells(io, now);
        any | self.endpoints.finish(now)
    }

    fn rests(&self) -> bool {
        self.endpoints.rests()
            && self.credits.rests()
            && self.backlogs.rests()
            && self.answers.is_empty()
            && self.departing.is_empty()
            && self.given_up.is_empty()
            && self.circuits.oam().rests()
    }

    fn takes_parcels(&self) -> bool {
        true
    }

    fn poll_timeout(&self) -> Option<Time> {
        let paced = self.endpoints.next_paced().into_iter();
        let departing = self.departing.iter().filter_map(|departing| departing.until);
        paced
            .chain(self.circuits.poll_timeout())
            .chain(self.circuits.oam().poll_timeout())
            .chain(self.credits.poll_timeout())
            .chain(self.backlogs.poll_timeout())
            .chain(self.endpoints.poll_timeout())
            .chain(departing)
            .min()
    }

    fn handle_link(&mut self, port: u16, link: Option<LinkProperties>) {
        let port = usize::from(port);
        self.links.resize(self.links.len().max(port + 1), None);
        self.links[port] = link;
        self.intake.begin(port);
    }

    fn poll_label_change(&mut self) -> Option<LabelChange> {
        self.circuits.poll_label_change()
    }

    fn drop_waiting(&mut self, port: u16, label: Label) {
        self.answers.forget(port, label);
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
