//! One circuit of a host: who has it open, its contract, the PDU that is arriving.

use crate::aal34::Aal34;
use crate::attached::{Attached, Buffer, Place};
use crate::credit::Credit;
use crate::direct::Cut;
use crate::interface::{CircuitConfig, EndpointId};
use endpoint::Aal;
use sar::{Event, Reassembler, ReassemblyConfig};
use traffic::Pacer;
use wire::{Cell, CircuitId, Counters, DropReason, Time};

/// An opener of a circuit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) endpoint: EndpointId,
    pub(crate) channel: u32,
    pub(crate) aal: Aal,
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

/// What was counted at a circuit, and who has it open, without a copy.
#[derive(Debug, Clone, Copy)]
pub struct CircuitCounts<'a> {
    /// The adaptation layer that it is open with, if it is.
    pub open: Option<Aal>,
    /// The endpoint that has it open.
    pub endpoint: Option<EndpointId>,
    /// From applications.
    pub sent: &'a Counters,
    /// To applications.
    pub received: &'a Counters,
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
    /// Endpoints that had it before and whose applications have gone: what they left goes first, in this order.
    pub(crate) departing: Vec<EndpointId>,
    /// A side that has the circuit directly: it ends with the circuit.
    pub(crate) direct: Option<Cut>,
    pub(crate) pacer: Option<Pacer>,
    reassembler: Reassembler,
    buffer: Option<Buffer>,
    /// Once it has been opened with AAL3/4.
    pub(crate) aal34: Option<Box<Aal34>>,
    /// If it has credits.
    pub(crate) credit: Option<Box<Credit>>,
    /// [`crate::circuits`] has an entry for its next time-out.
    pub(crate) listed: bool,
    pub(crate) sent: Counters,
    pub(crate) received: Counters,
}

impl Circuit {
    pub(crate) fn new(id: CircuitId, config: CircuitConfig, credit: Option<Box<Credit>>) -> Self {
        Circuit {
            id,
            sender: None,
            receiver: None,
            oam: None,
            departing: Vec::new(),
            direct: None,
            pacer: Pacer::of_contract(&config.contract),
            reassembler: Reassembler::new(reassembly(&config)),
            buffer: None,
            aal34: None,
            credit,
            listed: false,
            sent: Counters::default(),
            received: Counters::default(),
            config,
        }
    }

    /// Another contract for what is sent from now on; whoever has the circuit open keeps it.
    pub(crate) fn change_contract(&mut self, contract: traffic::Contract) {
        self.config.contract = contract;
        self.pacer = Pacer::of_contract(&contract);
    }

    /// Ends the receiver, gives up its PDU, counted, and gives its buffer back.
    pub(crate) fn close_receiver(&mut self, mut endpoint: Option<&mut Attached>) {
        self.receiver = None;
        let arriving = u64::from(!self.reassembler.needs_buffer()) + self.arriving_aal34();
        self.received.drop_n(DropReason::Closed, arriving);
        if let Some(endpoint) = &mut endpoint {
            endpoint.received.drop_n(DropReason::Closed, arriving);
        }
        if let (Some(endpoint), Some(buffer)) = (&mut endpoint, self.buffer.take()) {
            endpoint.keep_buffer(buffer);
        }
        self.buffer = None;
        self.close_aal34(endpoint);
        self.reassembler = Reassembler::new(reassembly(&self.config));
    }

    pub(crate) fn counts(&self) -> CircuitCounts<'_> {
        let user = self.receiver.or(self.sender);
        let (open, endpoint) = (user.map(|u| u.aal), user.map(|u| u.endpoint));
        CircuitCounts { open, endpoint, sent: &self.sent, received: &self.received }
    }

    pub(crate) fn status(&self) -> CircuitStatus {
        CircuitStatus {
            circuit: self.id,
            config: self.config.clone(),
            open: self.receiver.or(self.sender).map(|u| u.aal),
            endpoint: self.receiver.or(self.sender).map(|u| u.endpoint),
            sent: self.sent,
            received: self.received,
        }
    }

    /// Whether the next cell has where to go: there is a buffer, or none is needed within a PDU.
    pub(crate) fn prepare_buffer(&mut self, endpoint: &mut Attached) -> bool {
        if self.reassembler.needs_buffer() && self.buffer.is_none() {
            self.buffer = endpoint.take_buffer();
        }
        !self.reassembler.needs_buffer() || self.buffer.is_some()
    }

    /// Takes user cells of this circuit that came one after another.
    pub(crate) fn receive_aal5(&mut self, user: User, endpoint: &mut Attached, mut cells: &[Cell], now: Time) {
        while let Some(first) = cells.first() {
            let begins = self.reassembler.needs_buffer();
            if begins && first.header_word() & 2 != 0 {
                // A PDU of one cell: U-Net's single-cell message needs no buffer.
                let mut payload = [0; wire::cell::PAYLOAD_OCTETS];
                let step = self.reassembler.push(&cells[..1], &mut payload, now);
                cells = &cells[1..];
                match step.event {
                    Event::Complete { sdu_octets, meta } => {
                        let inline = Place::Inline(&payload[..sdu_octets]);
                        let delivered = endpoint.deliver(user.channel, sdu_octets, meta, inline);
                        self.count(endpoint, delivered, sdu_octets);
                    }
                    Event::Failed(reason) => self.refuse(endpoint, reason),
                    Event::NeedMore => {}
                }
                continue;
            }
            // A buffer from before is still here if no cell of a PDU has come since.
            if begins && self.buffer.is_none() {
                self.buffer = endpoint.take_buffer();
            }
            let step = match self.buffer {
                None => self.reassembler.skip(cells, now),
                Some(buffer) => self.reassembler.push_shared(cells, endpoint.memory(buffer), now),
            };
            cells = &cells[step.cells_used..];
            match (step.event, self.buffer) {
                (Event::NeedMore, _) => {}
                (Event::Complete { sdu_octets, meta }, Some(buffer)) => {
                    self.buffer = None;
                    let delivered = endpoint.deliver(user.channel, sdu_octets, meta, Place::Buffer(buffer));
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
        }
    }

    /// Counts an SDU that was delivered, or that the endpoint has dropped and counted.
    pub(crate) fn count(&mut self, endpoint: &mut Attached, delivered: Result<(), DropReason>, octets: usize) {
        match delivered {
            Ok(()) => {
                for counters in [&mut self.received, &mut endpoint.received] {
                    counters.pdus = counters.pdus.wrapping_add(1);
                    counters.octets = counters.octets.wrapping_add(octets as u64);
                }
            }
            Err(reason) => self.received.drop_one(reason),
        }
    }

    /// Counts what is not delivered, here and at the endpoint.
    pub(crate) fn refuse(&mut self, endpoint: &mut Attached, reason: DropReason) {
        self.received.drop_one(reason);
        endpoint.received.drop_one(reason);
    }

    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let of_aal34 = self.aal34.as_ref().and_then(|aal34| aal34.poll_timeout());
        self.reassembler.poll_timeout().into_iter().chain(of_aal34).min()
    }

    pub(crate) fn handle_timeout(&mut self, mut endpoint: Option<&mut Attached>, now: Time) {
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
