//! Circuits with credits at a host interface: it sends what the next hop has granted, and keeps what its application
//! has no room for yet, within the window that it grants itself.
//!
//! A circuit's share is [`crate::circuit`]'s; here are what comes in on it, the credit cells and their timers.

use crate::circuit::{LOOK_AGAIN, NOT_USER, WINDOW};
use crate::interface::HostInterface;
use crate::outward::send_cell;
use endpoint::Aal;
use net::NodeIo;
use wire::credit::{self, Entry, Kind};
use wire::{Cell, CircuitId, DropReason, Label, Time};

impl HostInterface {
    /// User cells, or others that belong to no PDU, of a circuit with credits.
    pub(crate) fn receive_with_credit(&mut self, port: u16, id: CircuitId, cells: &[Cell], now: Time) {
        let Some(circuit) = self.circuits.get_mut(id.key()) else { return };
        let Some(mut credit) = circuit.credit.take() else { return };
        credit.receiver.received(cells.len() as u32);
        let user = circuit.receiver;
        let endpoint = user.and_then(|u| Some((u, self.endpoints.find(u.endpoint)?)));
        let Some((user, endpoint)) = endpoint else {
            circuit.received.drop_n(DropReason::NotOpen, cells.len() as u64);
            self.intake.note_cells(port, cells.len(), Err(DropReason::NotOpen));
            credit.receiver.forwarded(cells.len() as u32);
            self.credits.notice_limit(id.key(), &mut credit);
            circuit.credit = Some(credit);
            return;
        };
        let (mut used, mut taken) = (0, cells.len());
        if user.aal != Aal::Aal0 && cells[0].header_word() & NOT_USER != 0 {
            circuit.refuse(endpoint, DropReason::WrongAal);
            self.intake.note_cells(port, cells.len(), Err(DropReason::WrongAal));
            (used, taken) = (cells.len(), 0);
        } else if credit.kept() == 0 {
            used = circuit.receive_what_fits(user, endpoint, cells, now);
        }
        let rest = &cells[used..];
        if !rest.is_empty() {
            let first = credit.kept() == 0;
            credit.cut_parcels();
            let space = usize::from(WINDOW) - credit.held.len();
            let (kept, beyond) = rest.split_at(space.min(rest.len()));
            credit.held.extend(kept);
            // Only a neighbour that sends beyond its credit loses any.
            circuit.received.drop_n(DropReason::QueueFull, beyond.len() as u64);
            self.intake.note_cells(port, beyond.len(), Err(DropReason::QueueFull));
            used += beyond.len();
            taken -= beyond.len();
            if first {
                self.backlogs.begin(id.key(), now + LOOK_AGAIN, now);
            }
        }
        endpoint.received.cells = endpoint.received.cells.wrapping_add(taken as u64);
        self.intake.note_cells(port, taken, Ok(()));
        credit.receiver.forwarded(used as u32);
        self.credits.notice_limit(id.key(), &mut credit);
        circuit.credit = Some(credit);
        self.endpoints.handle_delivered(user.endpoint, true, now);
    }

    /// A cell of a circuit with credits that its application does not get: it was received and is done with.
    pub(crate) fn count_credit(&mut self, port: u16, id: CircuitId) {
        if let Ok(circuit) = self.circuits.at(id, port)
            && let Some(credit) = &mut circuit.credit
        {
            credit.receiver.received(1);
            credit.receiver.forwarded(1);
            self.credits.notice_limit(id.key(), credit);
        }
    }

    /// A credit cell of a port.
    ///
    /// # Errors
    /// It is damaged, or of no circuit that has credits here: one that is gone, or not there yet.
    pub(crate) fn receive_credit_cell(&mut self, port: u16, cell: &Cell, now: Time) -> Result<(), DropReason> {
        let entries = credit::parse(&cell.payload).map_err(|error| match error {
            wire::Error::Checksum { .. } => DropReason::Crc,
            _ => DropReason::Malformed,
        })?;
        let mut outcome = Err(DropReason::NotOpen);
        for entry in entries {
            let Label::Vc(id) = entry.label else { continue };
            let circuit = self.circuits.get_mut(id.key()).filter(|circuit| circuit.config.port == port);
            let Some(credit) = circuit.and_then(|circuit| circuit.credit.as_mut()) else { continue };
            outcome = Ok(());
            match entry.kind {
                Kind::Limit => {
                    let granted = credit.sender.handle_limit(&entry);
                    self.credits.arm(id.key(), credit, now);
                    if granted {
                        self.handle_granted(id);
                    }
                }
                Kind::Check | Kind::Start => {
                    let kept = credit.kept() as u32;
                    credit.receiver.handle_check(&entry, kept);
                    self.credits.notice_limit(id.key(), credit);
                }
            }
        }
        outcome
    }

    /// A circuit was granted credit: who sends on it may go on.
    fn handle_granted(&mut self, id: CircuitId) {
        self.for_each_sender(id, |endpoint| endpoint.outbound.handle_credit());
    }

    /// Lets timers fire that are due.
    pub(crate) fn handle_credit_timers(&mut self, now: Time) {
        while let Some((at, key)) = self.credits.timers.front().copied()
            && at <= now
        {
            self.credits.timers.pop_front();
            let Some(credit) = self.circuits.get_mut(key).and_then(|circuit| circuit.credit.as_mut()) else {
                continue;
            };
            if !credit.timer {
                continue;
            }
            credit.timer = false;
            if credit.sender.handle_timeout() {
                self.credits.notice_check(key, credit);
            }
            self.credits.arm(key, credit, now);
        }
    }

    /// Sends limits and checks, as far as links have room: checks behind the cells that they speak of. True if any
    /// left.
    pub(crate) fn send_credit_cells(&mut self, io: &mut NodeIo<'_>, now: Time) -> bool {
        let mut any = false;
        for _ in 0..self.credits.notices.len() {
            let Some((key, limit)) = self.credits.notices.pop_front() else { break };
            let Some(circuit) = self.circuits.get_mut(key) else { continue };
            let (port, label) = (usize::from(circuit.config.port), Label::Vc(circuit.id));
            let Some(credit) = &mut circuit.credit else { continue };
            if io.room(port) == 0 {
                self.credits.notices.push_back((key, limit));
                continue;
            }
            let entry: Option<Entry> = if limit {
                credit.limit_listed = false;
                credit.receiver.limit(label)
            } else {
                credit.check_listed = false;
                self.credits.arm(key, credit, now);
                Some(credit.sender.check(label))
            };
            if let Some(entry) = entry {
                any = true;
                send_cell(io, port, &credit::emit(&[entry]));
            }
        }
        any
    }
}
