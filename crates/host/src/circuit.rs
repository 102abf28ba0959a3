//! One circuit of a host: who has it open, its contract, the PDU that is arriving.

mod aal34;
mod credit;
mod parcels;
mod points;
mod receive_backlog;

use crate::channels::EndpointId;
use crate::host_endpoint::{Buffer, HostEndpoint, SduPlace};
use crate::outbound::Class;
use aal34::Aal34;
use credit::Credit;
pub(crate) use credit::Credits;
use endpoint::Aal;
use net::SparseCounters;
use net::topology::OamOptions;
pub(crate) use points::{Before, Points};
use receive_backlog::ReceiveBacklog;
pub(crate) use receive_backlog::{BackloggedCircuits, LOOK_AGAIN, MOMENT, WINDOW};
use rustix::fd::OwnedFd;
use sar::{Event, Reassembler, ReassemblyConfig};
use std::sync::Arc;
use std::time::Duration;
use traffic::{Category, Contract, Pacer};
use wire::{Cell, CircuitId, Counters, DropReason, Time};

/// The payload type's highest bit (I.361 section 2.2.4): OAM, resource management, reserved.
pub(crate) const NOT_USER: u32 = 0b1000;

/// What a host knows of a circuit before anybody opens it.
#[derive(Debug, Clone, PartialEq)]
pub struct CircuitConfig {
    /// Traffic contract: cells leave by it.
    pub contract: Contract,
    /// Longest SDU received.
    pub max_sdu_octets: usize,
    /// How long a PDU may pause between two cells.
    pub reassembly_timeout: Option<Duration>,
    /// The port (link) of the host that the circuit is on.
    pub port: u16,
    /// Whether the host may send: not at a leaf of a point-to-multipoint circuit.
    pub sends: bool,
    /// Whether it receives: not at the root of one.
    pub receives: bool,
    /// What OAM does from the beginning.
    pub oam: OamOptions,
}

impl Default for CircuitConfig {
    /// Best effort, on port 0, SDUs of up to 65 535 octets, no timeout.
    fn default() -> Self {
        CircuitConfig {
            contract: Contract::default(),
            max_sdu_octets: 65_535,
            reassembly_timeout: None,
            port: 0,
            sends: true,
            receives: true,
            oam: OamOptions::default(),
        }
    }
}

/// An opener of a circuit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) endpoint: EndpointId,
    pub(crate) channel: u32,
    pub(crate) aal: Aal,
    /// Its application speaks reliable transfer.
    pub(crate) reliable: bool,
}

/// Who had a circuit before and goes before others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Leaver {
    pub(crate) endpoint: EndpointId,
    /// Of its channel that was closed in the middle of a PDU. None: its application has gone, and all its channels
    /// leave.
    pub(crate) place: Option<u32>,
}

/// What `status` shows of a circuit.
#[derive(Debug, Clone, PartialEq)]
pub struct CircuitStatus {
    /// VPI and VCI.
    pub circuit: CircuitId,
    /// As it was made.
    pub config: CircuitConfig,
    /// The adaptation layer that it is open with, if it is.
    pub open: Option<Aal>,
    /// The endpoint that has it open.
    pub endpoint: Option<EndpointId>,
    /// From applications.
    pub sent: Counters,
    /// To applications.
    pub received: Counters,
}

/// What was counted at a circuit, and who has it open.
#[derive(Debug, Clone, Copy)]
pub struct CircuitCounts {
    /// The adaptation layer that it is open with, if it is.
    pub open: Option<Aal>,
    /// Whether an application receives from it.
    pub receives: bool,
    /// Whether the application that has it open speaks reliable transfer ([`endpoint::OpenOptions::reliable`]).
    pub reliable: bool,
    /// The endpoint that has it open.
    pub endpoint: Option<EndpointId>,
    /// From applications.
    pub sent: Counters,
    /// To applications.
    pub received: Counters,
}

/// The connection of a side that is to end with its circuit: cut when the circuit goes. By default there is none.
#[derive(Debug, Default)]
pub(crate) struct Cut(Option<Arc<OwnedFd>>);

impl Cut {
    pub(crate) fn new(connection: Arc<OwnedFd>) -> Self {
        Cut(Some(connection))
    }

    /// The side has ended by itself, or goes on otherwise.
    pub(crate) fn forget(mut self) {
        crate::reaper::dispose(self.0.take());
    }
}

impl Drop for Cut {
    fn drop(&mut self) {
        if let Some(connection) = self.0.take() {
            // Shut already if the side itself has gone. The service's own end of it: the client's is its user proxy's.
            let _ = rustix::net::shutdown(&*connection, rustix::net::Shutdown::Both);
            crate::reaper::dispose(connection);
        }
    }
}

/// A circuit.
#[derive(Debug)]
pub(crate) struct Circuit {
    pub(crate) id: CircuitId,
    pub(crate) config: CircuitConfig,
    /// Who sends on it, and who receives: often the same.
    pub(crate) sender: Option<User>,
    pub(crate) receiver: Option<User>,
    pub(crate) oam: Option<User>,
    /// Those who had it before and have not left it: what they have to send goes first, in this order.
    pub(crate) departing: Vec<Leaver>,
    /// A side that has the circuit directly: it ends with the circuit.
    pub(crate) direct: Cut,
    pub(crate) pacer: Option<Box<Pacer>>,
    reassembler: Reassembler<()>,
    buffer: Option<Buffer>,
    /// Once it has been opened with AAL3/4.
    pub(crate) aal34: Option<Box<Aal34>>,
    /// If it has credits.
    pub(crate) credit: Option<Box<Credit>>,
    /// If it has none: parcels that its receiver had no room for.
    kept: Option<Box<ReceiveBacklog>>,
    /// While OAM has something to keep.
    pub(crate) points: Option<Box<Points>>,
    /// [`crate::circuits`] has an entry for its next time-out.
    pub(crate) listed: bool,
    pub(crate) sent: SparseCounters,
    pub(crate) received: SparseCounters,
}

// A call has one at either end: what it takes decides how many calls a machine holds.
const _: () = assert!(size_of::<Circuit>() <= 480);

impl Circuit {
    pub(crate) fn new(id: CircuitId, config: CircuitConfig, credit: Option<Box<Credit>>) -> Self {
        Circuit {
            id,
            sender: None,
            receiver: None,
            oam: None,
            departing: Vec::new(),
            direct: Cut::default(),
            pacer: Pacer::of_contract(&config.contract).map(Box::new),
            reassembler: Reassembler::uncounted(reassembly(&config)),
            buffer: None,
            aal34: None,
            credit,
            kept: None,
            points: None,
            listed: false,
            sent: SparseCounters::default(),
            received: SparseCounters::default(),
            config,
        }
    }

    /// Another contract for what is sent from now on; whoever has the circuit open keeps it.
    pub(crate) fn change_contract(&mut self, contract: traffic::Contract) {
        self.config.contract = contract;
        self.pacer = Pacer::of_contract(&contract).map(Box::new);
    }

    /// Whether the channel at this place of an endpoint waits behind somebody who had the circuit before.
    pub(crate) fn waits_behind(&self, id: EndpointId, place: u32) -> bool {
        let first = self.departing.first();
        first.is_some_and(|first| first.endpoint != id || first.place.is_some_and(|leaves| leaves != place))
    }

    /// Who of an endpoint's channels has a turn first: nrt-VBR may send above its reserved rate for its burst only.
    pub(crate) fn class(&self) -> Class {
        match self.config.contract.category {
            Category::Cbr | Category::RtVbr | Category::NrtVbr if self.pacer.is_some() => Class::Reserved,
            _ => Class::Rest,
        }
    }

    /// Ends the receiver, gives up its PDU and the parcels of best effort that wait for it, counted, and gives its
    /// buffer back.
    pub(crate) fn close_receiver(&mut self, mut endpoint: Option<&mut HostEndpoint>) {
        self.receiver = None;
        let arriving = u64::from(!self.reassembler.needs_buffer()) + self.arriving_aal34();
        self.received.drop_n(DropReason::Closed, arriving);
        if let Some(credit) = &mut self.credit {
            // Who opens the circuit next gets nothing that came before.
            let kept = credit.forget();
            credit.receiver.forwarded(kept as u32);
            self.received.drop_n(DropReason::Closed, kept as u64);
        }
        if let Some(endpoint) = &mut endpoint {
            endpoint.received.drop_n(DropReason::Closed, arriving);
        }
        if let (Some(endpoint), Some(buffer)) = (&mut endpoint, self.buffer.take()) {
            endpoint.keep_buffer(buffer);
        }
        self.buffer = None;
        self.close_kept(endpoint.as_deref_mut());
        self.close_aal34(endpoint);
        self.reassembler = Reassembler::uncounted(reassembly(&self.config));
    }

    /// Buffers of the receiver's that PDUs have which are arriving, or the next one will have.
    pub(crate) fn buffers_held(&self) -> u64 {
        u64::from(self.buffer.is_some()) + self.buffers_of_aal34()
    }

    pub(crate) fn counts(&self) -> CircuitCounts {
        let user = self.receiver.or(self.sender);
        let (open, endpoint) = (user.map(|u| u.aal), user.map(|u| u.endpoint));
        CircuitCounts {
            open,
            receives: self.receiver.is_some(),
            reliable: user.is_some_and(|u| u.reliable),
            endpoint,
            sent: self.sent.all(),
            received: self.received.all(),
        }
    }

    pub(crate) fn status(&self) -> CircuitStatus {
        CircuitStatus {
            circuit: self.id,
            config: self.config.clone(),
            open: self.receiver.or(self.sender).map(|u| u.aal),
            endpoint: self.receiver.or(self.sender).map(|u| u.endpoint),
            sent: self.sent.all(),
            received: self.received.all(),
        }
    }

    /// Whether the next cell has where to go: there is a buffer, or none is needed within a PDU.
    pub(crate) fn prepare_buffer(&mut self, endpoint: &mut HostEndpoint) -> bool {
        if self.reassembler.needs_buffer() && self.buffer.is_none() {
            self.buffer = endpoint.take_buffer();
        }
        !self.reassembler.needs_buffer() || self.buffer.is_some()
    }

    /// Whether the next cell begins a PDU.
    pub(crate) fn is_between(&self) -> bool {
        self.reassembler.needs_buffer()
    }

    /// Takes user cells of this circuit that came one after another.
    pub(crate) fn receive_aal5(&mut self, user: User, endpoint: &mut HostEndpoint, mut cells: &[Cell], now: Time) {
        while !cells.is_empty() {
            let used = self.receive_of_pdu(user, endpoint, cells, now);
            cells = &cells[used..];
        }
    }

    /// Takes cells of one PDU, up to its last; gives how many.
    pub(crate) fn receive_of_pdu(
        &mut self,
        user: User,
        endpoint: &mut HostEndpoint,
        cells: &[Cell],
        now: Time,
    ) -> usize {
        let Some(first) = cells.first() else { return 0 };
        let begins = self.reassembler.needs_buffer();
        if begins && first.header_word() & 2 != 0 {
            // A PDU of one cell: U-Net's single-cell message needs no buffer.
            let mut payload = [0; wire::cell::PAYLOAD_OCTETS];
            let step = if endpoint.has_room() {
                self.reassembler.push(&cells[..1], &mut payload, now)
            } else {
                // The more an application is behind, the more of its processor it would cost to check what it cannot be
                // given.
                self.reassembler.skip_for(DropReason::RingFull, &cells[..1], now)
            };
            match step.event {
                Event::Complete { sdu_octets, meta } => {
                    let inline = SduPlace::Inline(&payload[..sdu_octets]);
                    let delivered = endpoint.deliver(user.channel, sdu_octets, meta, inline);
                    self.count(endpoint, delivered, sdu_octets);
                }
                Event::Failed(reason) => self.refuse(endpoint, reason),
                Event::NeedMore => {}
            }
            return 1;
        }
        // A buffer from before is still here if no cell of a PDU has come since.
        if begins && self.buffer.is_none() {
            self.buffer = endpoint.take_buffer();
        }
        let step = match self.buffer {
            None => self.reassembler.skip(cells, now),
            Some(buffer) => self.reassembler.push_shared(cells, endpoint.memory(buffer), now),
        };
        match (step.event, self.buffer) {
            (Event::NeedMore, _) => {}
            (Event::Complete { sdu_octets, meta }, Some(buffer)) => {
                self.buffer = None;
                let delivered = endpoint.deliver(user.channel, sdu_octets, meta, SduPlace::Buffer(buffer));
                self.count(endpoint, delivered, sdu_octets);
            }
            (Event::Complete { .. }, None) => self.refuse(endpoint, DropReason::NoBuffer),
            (Event::Failed(reason), buffer) => {
                self.refuse(endpoint, reason);
                if let Some(buffer) = buffer {
                    self.buffer = None;
                    endpoint.keep_buffer(buffer);
                }
            }
        }
        step.cells_used
    }

    /// Counts an SDU that was delivered, or that the endpoint has dropped and counted.
    pub(crate) fn count(&mut self, endpoint: &mut HostEndpoint, delivered: Result<(), DropReason>, octets: usize) {
        match delivered {
            Ok(()) => {
                let counted = [0, 1, octets as u64];
                self.received.pass(counted);
                endpoint.received.pass(counted);
            }
            Err(reason) => self.received.drop_one(reason),
        }
    }

    /// Counts what is not delivered, here and at the endpoint.
    pub(crate) fn refuse(&mut self, endpoint: &mut HostEndpoint, reason: DropReason) {
        self.received.drop_one(reason);
        endpoint.received.drop_one(reason);
    }

    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let of_aal34 = self.aal34.as_ref().and_then(|aal34| aal34.poll_timeout());
        self.reassembler.poll_timeout().into_iter().chain(of_aal34).min()
    }

    pub(crate) fn handle_timeout(&mut self, mut endpoint: Option<&mut HostEndpoint>, now: Time) {
        self.handle_timeout_aal34(endpoint.as_deref_mut(), now);
        let Some(reason) = self.reassembler.handle_timeout(now) else { return };
        self.received.drop_one(reason);
        if let Some(endpoint) = endpoint {
            endpoint.received.drop_one(reason);
            if let Some(buffer) = self.buffer.take() {
                endpoint.keep_buffer(buffer);
            }
        }
    }
}

fn reassembly(config: &CircuitConfig) -> ReassemblyConfig {
    ReassemblyConfig { max_sdu_octets: config.max_sdu_octets, timeout: config.reassembly_timeout, any_cpi: false }
}
