//! How cells and frames come in: to their circuit, if it is on the port that they came in at, and to who has it open.

mod parcels;

use crate::circuit::NOT_USER;
use crate::interface::HostInterface;
use endpoint::Aal;
use net::{Carries, FrameAal, LineCounters};
use sar::aal0;
use wire::cell::run_length;
use wire::oam::{Flow, Function, Loopback};
use wire::{Cell, CircuitId, Counters, DropReason, Time};

impl HostInterface {
    /// Cells and frames received at a port since its link was connected: delivered, and dropped before delivery.
    pub fn intake(&self, port: u16) -> Counters {
        self.intake.at(port)
    }

    /// What does not add up at a port: the host has taken or dropped, once each, as many cells or frames as it took off
    /// the link, whose line to the host has these counters.
    pub fn intake_mismatch(&self, port: u16, carries: Carries, line: &LineCounters) -> Option<String> {
        let intake = self.intake(port);
        let counted = intake.cells.wrapping_add(intake.pdus).wrapping_add(intake.dropped_total());
        let came = line.taken(carries);
        (came != counted).then(|| format!("port {port}: {came} came, taken or dropped {counted}: {intake:?}"))
    }

    /// Cells from a link: gives how many of them were taken. It stops where a round has had enough OAM cells.
    pub(crate) fn receive_cells(&mut self, port: u16, cells: &[Cell], now: Time) -> usize {
        let mut rest = cells;
        while let Some(first) = rest.first() {
            // Of one circuit, and either all user cells or none.
            let word = first.header_word();
            let mut n = run_length(rest, word, NOT_USER - 1);
            if word & NOT_USER != 0 || matches!(word >> 4 & 0xffff, 3 | 4) {
                if Flow::of(first.header()).is_some() {
                    let left = &mut self.circuits.oam_mut().left;
                    if *left == 0 {
                        break;
                    }
                    *left -= 1;
                }
                n = 1;
            }
            let (run, after) = rest.split_at(n);
            rest = after;
            self.receive_run(port, CircuitId::from_key(word >> 4), run, now);
        }
        cells.len() - rest.len()
    }

    /// Cells of one circuit that came one after another, all of them user cells or none.
    fn receive_run(&mut self, port: u16, id: CircuitId, mut run: &[Cell], now: Time) {
        while let Some(first) = run.first() {
            if wire::credit::is_credit(first.header_word()) && self.carries_credit(port) {
                let outcome = self.receive_credit_cell(port, first, now);
                self.note_own(port, outcome);
                run = &run[1..];
                continue;
            }
            if let Some(flow) = Flow::of(first.header()) {
                self.count_credit(port, first.circuit());
                self.receive_oam(port, first, flow, now);
                run = &run[1..];
                continue;
            }
            // Resource management and reserved payload types belong to no PDU, whatever adaptation layer the circuit
            // has.
            let n = if is_user(first) { run.len() } else { 1 };
            let (user_cells, after) = run.split_at(n);
            run = after;
            self.receive_user_cells(port, id, user_cells, now);
        }
    }

    /// A cell that the host itself takes, or drops.
    fn note_own(&mut self, port: u16, outcome: Result<(), DropReason>) {
        if let Err(reason) = outcome {
            self.stray.drop_one(reason);
        }
        self.intake.note_cells(port, 1, outcome);
    }

    /// User cells of one circuit, or one cell that is part of no PDU.
    fn receive_user_cells(&mut self, port: u16, id: CircuitId, cells: &[Cell], now: Time) {
        let n = cells.len();
        let mut circuit = match self.circuits.at(id, port) {
            Ok(circuit) => circuit,
            Err(reason) => {
                self.stray.drop_n(reason, n as u64);
                return self.intake.note_cells(port, n, Err(reason));
            }
        };
        circuit.received.cells = circuit.received.cells.wrapping_add(n as u64);
        if circuit.points.is_some() && is_user(&cells[0]) {
            if self.circuits.note_user_cells(id.key(), cells, now) {
                self.end_path_alarms(port, id, now);
            }
            let Ok(again) = self.circuits.at(id, port) else { return };
            circuit = again;
        }
        if circuit.credit.is_some() {
            return self.receive_with_credit(port, id, cells, now);
        }
        let user = circuit.receiver;
        let endpoint = user.and_then(|u| self.endpoints.find(u.endpoint));
        let (Some(user), Some(endpoint)) = (user, endpoint) else {
            circuit.received.drop_n(DropReason::NotOpen, n as u64);
            return self.intake.note_cells(port, n, Err(DropReason::NotOpen));
        };
        if !is_user(&cells[0]) && user.aal != Aal::Aal0 {
            circuit.refuse(endpoint, DropReason::WrongAal);
            return self.intake.note_cells(port, n, Err(DropReason::WrongAal));
        }
        if circuit.keeps_parcels() {
            circuit.give_up_kept(user, endpoint);
        }
        endpoint.received.cells = endpoint.received.cells.wrapping_add(n as u64);
        self.intake.note_cells(port, n, Ok(()));
        match user.aal {
            Aal::Aal5 => circuit.receive_aal5(user, endpoint, cells, now),
            Aal::Aal34 => circuit.receive_aal34(user, endpoint, cells, now),
            Aal::Aal0 | Aal::Oam => {
                for cell in cells {
                    let message = aal0::to_message(cell);
                    let delivered = endpoint.deliver_copy(user.channel, &message, sar::SduMeta::default());
                    circuit.count(endpoint, delivered, message.len());
                }
            }
        }
        self.endpoints.handle_delivered(user.endpoint, false, self.now);
        self.circuits.note_timeout(id.key());
    }

    /// An OAM cell: of a circuit, or of a path of which circuits end here.
    fn receive_oam(&mut self, port: u16, cell: &Cell, flow: Flow, now: Time) {
        let id = cell.circuit();
        let function = Function::parse(&cell.payload);
        let of_path = matches!(flow, Flow::F4Segment | Flow::F4EndToEnd) && self.circuits.has_path(id, port);
        let is_request = matches!(&function, Ok(Function::Loopback(loopback)) if loopback.request);
        match self.circuits.at(id, port) {
            // A path's loopback is the host's, whoever has the path's own circuit (VCI 3 or 4) open.
            Ok(circuit) if !(of_path && is_request) => {
                circuit.received.cells = circuit.received.cells.wrapping_add(1);
                let outcome = self.receive_circuit_oam(cell, flow, function.ok(), now);
                if let (Err(reason), Ok(circuit)) = (outcome, self.circuits.at(id, port)) {
                    circuit.received.drop_one(reason);
                }
                self.intake.note_cells(port, 1, outcome);
            }
            Err(reason) if !of_path => self.note_own(port, Err(reason)),
            _ => {
                let outcome = match &function {
                    Ok(Function::Loopback(loopback)) if loopback.request => self.answer_loopback(port, cell, loopback),
                    Ok(function) => self.handle_path_oam(port, cell, function, now),
                    Err(_) => Err(DropReason::Crc),
                };
                self.note_own(port, outcome);
            }
        }
    }

    fn answer_loopback(&mut self, port: u16, cell: &Cell, request: &Loopback) -> Result<(), DropReason> {
        let answer = Function::Loopback(request.returned(self.location));
        self.answers.push(port, Cell::new(cell.header(), answer.emit()))
    }

    /// An OAM cell of a circuit that is here, at its port: loopback requests are answered, everything else goes to the
    /// flow's end point and to who has the circuit's OAM flow open.
    fn receive_circuit_oam(
        &mut self,
        cell: &Cell,
        flow: Flow,
        function: Option<Function>,
        now: Time,
    ) -> Result<(), DropReason> {
        let id = cell.circuit();
        let circuit = self.circuits.get_mut(id.key()).ok_or(DropReason::UnknownCircuit)?;
        if let Some(Function::Loopback(loopback)) = &function
            && loopback.request
        {
            let port = circuit.config.port;
            return self.answer_loopback(port, cell, loopback);
        }
        let segment = flow == Flow::F5Segment;
        let waited_for = function.as_ref().map_or(Ok(false), |function| self.handle_oam(id, segment, function, now));
        let circuit = self.circuits.get_mut(id.key()).ok_or(DropReason::UnknownCircuit)?;
        if let Some(user) = circuit.oam
            && let Some(endpoint) = self.endpoints.find(user.endpoint)
        {
            if let Err(reason) = endpoint.deliver_oam(user.channel, &aal0::to_message(cell)) {
                circuit.received.drop_one(reason);
            }
            self.endpoints.handle_delivered(user.endpoint, false, self.now);
            return Ok(());
        }
        match waited_for? {
            true => Ok(()),
            false if function.is_none() => Err(DropReason::Crc),
            false => Err(DropReason::NotOpen),
        }
    }

    pub(crate) fn receive_frame(&mut self, port: u16, frame: &net::Frame, octets: &[u8], now: Time) {
        if frame.aal == FrameAal::Aal0 {
            match aal0::to_cell(octets, frame.circuit) {
                Some(cell) => self.receive_run(port, frame.circuit, &[cell], now),
                None => self.note_own(port, Err(DropReason::Malformed)),
            }
            return;
        }
        let outcome = self.receive_pdu(port, frame, octets, now);
        self.intake.note_frame(port, octets.len(), outcome);
    }

    /// A frame with a PDU: to who has its circuit open. An error says why nobody has it.
    fn receive_pdu(&mut self, port: u16, frame: &net::Frame, octets: &[u8], now: Time) -> Result<(), DropReason> {
        let mut circuit = match self.circuits.at(frame.circuit, port) {
            Ok(circuit) => circuit,
            Err(reason) => {
                self.stray.drop_one(reason);
                return Err(reason);
            }
        };
        if circuit.points.is_some() {
            if self.circuits.note_user_cells(frame.circuit.key(), &[], now) {
                self.end_path_alarms(port, frame.circuit, now);
            }
            circuit = self.circuits.at(frame.circuit, port)?;
        }
        let user = circuit.receiver;
        let (Some(user), Some(endpoint)) = (user, user.and_then(|user| self.endpoints.find(user.endpoint))) else {
            circuit.received.drop_one(DropReason::NotOpen);
            return Err(DropReason::NotOpen);
        };
        let refused = match (user.aal, frame.aal) {
            (Aal::Aal5, FrameAal::Aal5) | (Aal::Aal34, FrameAal::Aal34) if octets.is_empty() => {
                Err(DropReason::Malformed)
            }
            (Aal::Aal5, FrameAal::Aal5) | (Aal::Aal34, FrameAal::Aal34)
                if octets.len() > circuit.config.max_sdu_octets =>
            {
                Err(DropReason::Oversize)
            }
            (Aal::Aal5, FrameAal::Aal5) | (Aal::Aal34, FrameAal::Aal34) => Ok(()),
            _ => Err(DropReason::WrongAal),
        };
        match refused {
            Err(reason) => circuit.refuse(endpoint, reason),
            Ok(()) => {
                let delivered = endpoint.deliver_copy(user.channel, octets, frame.meta);
                circuit.count(endpoint, delivered, octets.len());
            }
        }
        self.endpoints.handle_delivered(user.endpoint, false, self.now);
        refused
    }
}

fn is_user(cell: &Cell) -> bool {
    cell.header_word() & NOT_USER == 0
}
