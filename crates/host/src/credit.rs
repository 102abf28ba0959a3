//! Circuits with credits at a host interface: it sends what the next hop has granted, and keeps what its application has
//! no room for yet, within the window that it grants itself.
//!
//! The two machines are [`switch::credit`]'s; here are their cells, their timers and the queue of what is kept.

use crate::attached::Attached;
use crate::circuit::{Circuit, User};
use crate::events::machine::LINGER;
use crate::interface::HostInterface;
use crate::inward::NOT_USER;
use crate::outward::send_cell;
use endpoint::Aal;
use net::NodeIo;
use sar::aal0;
use std::collections::VecDeque;
use std::time::Duration;
use switch::credit::{PATIENCE_MILLIS, Receiver, Sender};
use wire::credit::{self, Entry, Kind};
use wire::{Cell, CircuitId, DropReason, Label, Time};

/// Cells that a host keeps of one circuit, at most: 128 KiB.
const WINDOW: u16 = 2048;
/// A host that keeps cells looks at least so often whether there is room for them; applications that empty their receive
/// ring ring earlier.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// A circuit's credits.
#[derive(Debug)]
pub(crate) struct Credit {
    pub(crate) sender: Sender,
    receiver: Receiver,
    /// What came and has not been delivered.
    held: VecDeque<Cell>,
    limit_listed: bool,
    check_listed: bool,
    timer: bool,
}

impl Credit {
    fn new(incarnation: u16) -> Box<Self> {
        let (sender, receiver) = (Sender::new(incarnation), Receiver::new(WINDOW));
        Box::new(Credit {
            sender,
            receiver,
            held: VecDeque::new(),
            limit_listed: false,
            check_listed: false,
            timer: false,
        })
    }
}

/// What a host has to do for all its circuits with credits.
#[derive(Debug, Default)]
pub(crate) struct Credits {
    incarnation: u16,
    /// Circuits with a limit (or else a check) to be sent.
    notices: VecDeque<(u32, bool)>,
    timers: VecDeque<(Time, u32)>,
    /// Circuits that keep cells.
    holding: Vec<u32>,
    /// When the application of one of them was last seen to have made room.
    progress: Time,
    look_again: Option<Time>,
}

impl Credits {
    /// Credits for a new circuit, which asks for its first at once.
    pub(crate) fn begin(&mut self, key: u32) -> Box<Credit> {
        self.incarnation = self.incarnation.wrapping_add(1);
        let mut credit = Credit::new(self.incarnation);
        self.notice_check(key, &mut credit);
        credit
    }

    fn notice_limit(&mut self, key: u32, credit: &mut Credit) {
        if !credit.limit_listed && credit.receiver.limit_is_due() {
            credit.limit_listed = true;
            self.notices.push_back((key, true));
        }
    }

    fn notice_check(&mut self, key: u32, credit: &mut Credit) {
        if !credit.check_listed {
            credit.check_listed = true;
            self.notices.push_back((key, false));
        }
    }

    fn arm(&mut self, key: u32, credit: &mut Credit, now: Time) {
        if !credit.timer && credit.sender.is_waiting() {
            credit.timer = true;
            self.timers.push_back((now + Duration::from_millis(PATIENCE_MILLIS), key));
        }
    }

    /// Cells of a circuit have left.
    pub(crate) fn sent(&mut self, key: u32, credit: &mut Credit, cells: usize, now: Time) {
        credit.sender.sent(cells as u32);
        self.arm(key, credit, now);
    }

    /// Whether an application that cells are kept for takes what it was given: it is looked at without being asked to ring.
    pub(crate) fn gets_on(&self, now: Time) -> bool {
        !self.holding.is_empty() && now.since(self.progress) < LINGER
    }

    /// Whether nothing waits to be sent or delivered.
    pub(crate) fn rests(&self) -> bool {
        self.notices.is_empty() && self.holding.is_empty()
    }

    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.timers.front().map(|(at, _)| *at).into_iter().chain(self.look_again).min()
    }
}

impl Circuit {
    /// Delivers as many of these user cells as there is room for; gives how many are done with.
    fn receive_what_fits(&mut self, user: User, endpoint: &mut Attached, cells: &[Cell], now: Time) -> usize {
        let mut used = 0;
        match user.aal {
            Aal::Aal5 => {
                while used < cells.len() {
                    let rest = &cells[used..];
                    let ends = |cell: &Cell| cell.header_word() & 0b1010 == 0b0010;
                    let end = rest.iter().position(ends);
                    let mut n = end.map_or(rest.len(), |end| end + 1);
                    // A PDU of one cell travels inside its descriptor.
                    if end != Some(0) && !self.prepare_buffer(endpoint) {
                        break;
                    }
                    if end.is_some() && !endpoint.has_room() {
                        n -= 1;
                    }
                    self.receive_aal5(user, endpoint, &rest[..n], now);
                    used += n;
                    if end.is_some_and(|end| n <= end) {
                        break;
                    }
                }
            }
            Aal::Aal0 | Aal::Aal34 | Aal::Oam => {
                for cell in cells {
                    if !endpoint.has_room() || !endpoint.has_buffer() {
                        break;
                    }
                    let message = aal0::to_message(cell);
                    let delivered = endpoint.deliver_copy(user.channel, &message, sar::SduMeta::default());
                    self.count(endpoint, delivered, message.len());
                    used += 1;
                }
            }
        }
        used
    }
}

impl HostInterface {
    /// User cells, or others that belong to no PDU, of a circuit with credits.
    pub(crate) fn receive_with_credit(&mut self, id: CircuitId, cells: &[Cell], now: Time) {
        let Some(circuit) = self.circuits.get_mut(id.key()) else { return };
        let Some(mut credit) = circuit.credit.take() else { return };
        credit.receiver.received(cells.len() as u32);
        let user = circuit.receiver;
        let endpoint = user.and_then(|u| Some((u, self.endpoints.find(u.endpoint)?)));
        let Some((user, endpoint)) = endpoint else {
            circuit.received.drop_n(DropReason::NotOpen, cells.len() as u64);
            credit.receiver.forwarded(cells.len() as u32);
            self.credits.notice_limit(id.key(), &mut credit);
            circuit.credit = Some(credit);
            return;
        };
        endpoint.received.cells = endpoint.received.cells.wrapping_add(cells.len() as u64);
        let mut used = 0;
        if user.aal != Aal::Aal0 && cells[0].header_word() & NOT_USER != 0 {
            circuit.refuse(endpoint, DropReason::WrongAal);
            used = cells.len();
        } else if credit.held.is_empty() {
            used = circuit.receive_what_fits(user, endpoint, cells, now);
        }
        let rest = &cells[used..];
        if !rest.is_empty() {
            let first = credit.held.is_empty();
            let space = usize::from(WINDOW) - credit.held.len();
            let (kept, beyond) = rest.split_at(space.min(rest.len()));
            credit.held.extend(kept);
            // Only a neighbour that sends beyond its credit loses any.
            circuit.received.drop_n(DropReason::QueueFull, beyond.len() as u64);
            used += beyond.len();
            if first {
                self.credits.holding.push(id.key());
                self.credits.progress = now;
                self.credits.look_again = Some(now + LOOK_AGAIN);
            }
        }
        credit.receiver.forwarded(used as u32);
        self.credits.notice_limit(id.key(), &mut credit);
        circuit.credit = Some(credit);
        self.endpoints.handle_delivered(user.endpoint, true, now);
    }

    /// Before a sleep: asks the applications that cells are kept for to ring once they have room. False if there is none.
    pub(crate) fn ask_those_held_up(&mut self) -> bool {
        for key in &self.credits.holding {
            let user = self.circuits.get(*key).and_then(|circuit| circuit.receiver);
            if let Some(endpoint) = user.and_then(|user| self.endpoints.find(user.endpoint)) {
                endpoint.ask_for_catching_up();
            }
        }
        !self.credits.holding.is_empty()
    }

    /// Delivers what was kept, as far as there is room by now. True if anything was.
    pub(crate) fn deliver_held(&mut self, now: Time) -> bool {
        if self.credits.holding.is_empty() {
            return false;
        }
        let mut any = false;
        let mut holding = std::mem::take(&mut self.credits.holding);
        holding.retain(|key| {
            let Some(circuit) = self.circuits.get_mut(*key) else { return false };
            let Some(mut credit) = circuit.credit.take() else { return false };
            let endpoint = circuit.receiver.and_then(|u| Some((u, self.endpoints.find(u.endpoint)?)));
            let mut done = 0;
            match endpoint {
                None => {
                    done = credit.held.len();
                    circuit.received.drop_n(DropReason::Closed, done as u64);
                    credit.held.clear();
                }
                Some((user, endpoint)) => {
                    loop {
                        let (first, _) = credit.held.as_slices();
                        let used = circuit.receive_what_fits(user, endpoint, first, now);
                        credit.held.drain(..used);
                        done += used;
                        if used == 0 || credit.held.is_empty() {
                            break;
                        }
                    }
                    self.endpoints.handle_delivered(user.endpoint, true, now);
                }
            }
            any |= done > 0;
            credit.receiver.forwarded(done as u32);
            self.credits.notice_limit(*key, &mut credit);
            let stays = !credit.held.is_empty();
            circuit.credit = Some(credit);
            stays
        });
        if any {
            self.credits.progress = now;
        }
        self.credits.look_again = (!holding.is_empty()).then_some(now + LOOK_AGAIN);
        self.credits.holding = holding;
        any
    }

    /// A cell of a circuit with credits that its application does not get: it was received and is done with.
    pub(crate) fn count_credit(&mut self, id: CircuitId) {
        if let Some(circuit) = self.circuits.get_mut(id.key())
            && let Some(credit) = &mut circuit.credit
        {
            credit.receiver.received(1);
            credit.receiver.forwarded(1);
            self.credits.notice_limit(id.key(), credit);
        }
    }

    /// A credit cell of a port.
    pub(crate) fn receive_credit_cell(&mut self, port: u16, cell: &Cell, now: Time) {
        let entries = match credit::parse(&cell.payload) {
            Ok(entries) => entries,
            Err(wire::Error::Checksum { .. }) => return self.stray.drop_one(DropReason::Crc),
            Err(_) => return self.stray.drop_one(DropReason::Malformed),
        };
        for entry in entries {
            let Label::Vc(id) = entry.label else { continue };
            let circuit = self.circuits.get_mut(id.key()).filter(|circuit| circuit.config.port == port);
            let Some(credit) = circuit.and_then(|circuit| circuit.credit.as_mut()) else {
                // A circuit that is gone here, or not there yet.
                self.stray.drop_one(DropReason::NotOpen);
                continue;
            };
            match entry.kind {
                Kind::Limit => {
                    credit.sender.handle_limit(&entry);
                    self.credits.arm(id.key(), credit, now);
                }
                Kind::Check | Kind::Start => {
                    credit.receiver.handle_check(&entry, credit.held.len() as u32);
                    self.credits.notice_limit(id.key(), credit);
                }
            }
        }
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

    /// Sends limits and checks, as far as links have room: checks behind the cells that they speak of. True if any left.
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
