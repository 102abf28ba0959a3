//! How cells and frames come in: to their circuit, if it is on the port that they came in at, and to who has it open.

use crate::interface::{HostInterface, MAX_ANSWERS};
use endpoint::Aal;
use net::Aal as FrameAal;
use sar::aal0;
use wire::oam::{Flow, Function};
use wire::{Cell, CircuitId, DropReason, Time};

/// The payload type's highest bit (I.361 section 2.2.4): OAM, resource management, reserved.
pub(crate) const NOT_USER: u32 = 0b1000;

impl HostInterface {
    pub(crate) fn receive_cells(&mut self, port: u16, cells: &[Cell], now: Time) {
        let mut rest = cells;
        while let Some(first) = rest.first() {
            // Of one circuit, and either all user cells or none.
            let word = first.header_word();
            let other = |c: &Cell| (c.header_word() ^ word) & !(NOT_USER - 1) != 0;
            let (run, after) = rest.split_at(rest.iter().position(other).unwrap_or(rest.len()));
            rest = after;
            self.receive_run(port, CircuitId::from_key(word >> 4), run, now);
        }
    }

    /// Cells of one circuit that came one after another, all of them user cells or none.
    fn receive_run(&mut self, port: u16, id: CircuitId, mut run: &[Cell], now: Time) {
        while let Some(first) = run.first() {
            let is_oam = |c: &Cell| Flow::of(c.header()).is_some();
            if wire::credit::is_credit(first.header_word()) && self.carries_credit(port) {
                self.receive_credit_cell(port, first, now);
                run = &run[1..];
                continue;
            }
            if is_oam(first) {
                self.count_credit(first.circuit());
                self.receive_oam(port, first);
                run = &run[1..];
                continue;
            }
            // Resource management and reserved payload types belong to no PDU, whatever adaptation layer the circuit has.
            let is_user = |c: &Cell| c.header_word() & NOT_USER == 0;
            let n = if is_user(first) { run.len() } else { 1 };
            let (user_cells, after) = run.split_at(n);
            run = after;
            let circuit = match self.circuits.at(id, port) {
                Ok(circuit) => circuit,
                Err(reason) => {
                    self.stray.drop_n(reason, n as u64);
                    continue;
                }
            };
            circuit.received.cells = circuit.received.cells.wrapping_add(n as u64);
            if circuit.credit.is_some() {
                self.receive_with_credit(id, user_cells, now);
                continue;
            }
            let user = circuit.receiver;
            let endpoint = user.and_then(|u| self.endpoints.find(u.endpoint));
            let (Some(user), Some(endpoint)) = (user, endpoint) else {
                circuit.received.drop_n(DropReason::NotOpen, n as u64);
                continue;
            };
            endpoint.received.cells = endpoint.received.cells.wrapping_add(n as u64);
            match user.aal {
                Aal::Aal5 | Aal::Aal34 if !is_user(&user_cells[0]) => circuit.refuse(endpoint, DropReason::WrongAal),
                Aal::Aal5 => circuit.receive_aal5(user, endpoint, user_cells, now),
                Aal::Aal34 => circuit.receive_aal34(user, endpoint, user_cells, now),
                Aal::Aal0 | Aal::Oam => {
                    for cell in user_cells {
                        let message = aal0::to_message(cell);
                        let delivered = endpoint.deliver_copy(user.channel, &message, sar::SduMeta::default());
                        circuit.count(endpoint, delivered, message.len());
                    }
                }
            }
            self.endpoints.handle_delivered(user.endpoint, false, self.now);
            self.circuits.note_timeout(id.key());
        }
    }

    /// An OAM cell: loopback requests are answered here, everything else goes to who asked for the circuit's OAM flow.
    fn receive_oam(&mut self, port: u16, cell: &Cell) {
        let id = cell.circuit();
        if let Ok(Function::Loopback(loopback)) = Function::parse(&cell.payload)
            && loopback.request
        {
            let f4 = matches!(Flow::of(cell.header()), Some(Flow::F4Segment | Flow::F4EndToEnd));
            if let (false, Ok(circuit)) = (f4, self.circuits.at(id, port)) {
                circuit.received.cells = circuit.received.cells.wrapping_add(1);
            }
            let ends_here = if f4 { self.circuits.has_path(id, port) } else { self.circuits.at(id, port).is_ok() };
            if !ends_here {
                self.stray.drop_one(DropReason::UnknownCircuit);
            } else if self.answers.len() < MAX_ANSWERS {
                let answer = Function::Loopback(loopback.returned(self.location));
                self.answers.push((port, Cell::new(cell.header(), answer.emit())));
            } else {
                self.stray.drop_one(DropReason::QueueFull);
            }
            return;
        }
        let circuit = match self.circuits.at(id, port) {
            Ok(circuit) => circuit,
            Err(reason) => return self.stray.drop_one(reason),
        };
        circuit.received.cells = circuit.received.cells.wrapping_add(1);
        let endpoint = circuit.oam.and_then(|u| Some((u, self.endpoints.find(u.endpoint)?)));
        match endpoint {
            Some((user, endpoint)) => {
                // A full ring is counted by the endpoint.
                let _ = endpoint.deliver_copy(user.channel, &aal0::to_message(cell), sar::SduMeta::default());
                self.endpoints.handle_delivered(user.endpoint, false, self.now);
            }
            None => circuit.received.drop_one(DropReason::NotOpen),
        }
    }

    pub(crate) fn receive_frame(&mut self, port: u16, frame: &net::Frame, octets: &[u8], now: Time) {
        if frame.aal == FrameAal::Aal0 {
            if let Some(cell) = aal0::to_cell(octets, frame.circuit) {
                self.receive_run(port, frame.circuit, &[cell], now);
            } else {
                self.stray.drop_one(DropReason::Malformed);
            }
            return;
        }
        let circuit = match self.circuits.at(frame.circuit, port) {
            Ok(circuit) => circuit,
            Err(reason) => return self.stray.drop_one(reason),
        };
        let Some(user) = circuit.receiver else { return circuit.received.drop_one(DropReason::NotOpen) };
        let Some(endpoint) = self.endpoints.find(user.endpoint) else {
            return circuit.received.drop_one(DropReason::NotOpen);
        };
        let refused = match (user.aal, frame.aal) {
            (Aal::Aal5, FrameAal::Aal5) | (Aal::Aal34, FrameAal::Aal34) if octets.is_empty() => {
                Some(DropReason::Malformed)
            }
            (Aal::Aal5, FrameAal::Aal5) | (Aal::Aal34, FrameAal::Aal34) => {
                (octets.len() > circuit.config.max_sdu_octets).then_some(DropReason::Oversize)
            }
            _ => Some(DropReason::WrongAal),
        };
        match refused {
            Some(reason) => circuit.refuse(endpoint, reason),
            None => {
                let delivered = endpoint.deliver_copy(user.channel, octets, frame.meta);
                circuit.count(endpoint, delivered, octets.len());
            }
        }
        self.endpoints.handle_delivered(user.endpoint, false, self.now);
    }
}
