//! A circuit's credits at a host: what the next hop has granted, and the window that it grants itself. The two machines are
//! [`switch::credit`]'s.

use super::{Circuit, User};
use crate::attached::Attached;
use crate::events::machine::LINGER;
use endpoint::Aal;
use net::Parcel;
use sar::aal0;
use std::collections::VecDeque;
use std::time::Duration;
use switch::credit::{PATIENCE_MILLIS, Receiver, Sender};
use wire::{Cell, Time};

/// A host that keeps cells looks at least so often whether there is room for them; applications that empty their receive
/// ring ring earlier.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(1);
/// Cells that a host keeps of one circuit, at most: 128 KiB.
pub(crate) const WINDOW: u16 = 2048;

/// A circuit's credits.
#[derive(Debug)]
pub(crate) struct Credit {
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
    /// What came and has not been delivered: cells, ...
    pub(crate) held: VecDeque<Cell>,
    /// ... and parcels that came after them, with the cells that these stand for.
    parcels: VecDeque<Parcel>,
    in_parcels: usize,
    pub(crate) limit_listed: bool,
    pub(crate) check_listed: bool,
    pub(crate) timer: bool,
}

impl Credit {
    fn new(incarnation: u16) -> Box<Self> {
        let (sender, receiver) = (Sender::new(incarnation), Receiver::new(WINDOW));
        Box::new(Credit {
            sender,
            receiver,
            held: VecDeque::new(),
            parcels: VecDeque::new(),
            in_parcels: 0,
            limit_listed: false,
            check_listed: false,
            timer: false,
        })
    }

    /// Cells that came and have not been delivered, those of parcels included.
    pub(crate) fn kept(&self) -> usize {
        self.held.len() + self.in_parcels
    }

    /// Keeps a parcel behind all that is kept.
    pub(crate) fn keep(&mut self, parcel: Parcel) {
        self.in_parcels += parcel.cells();
        self.parcels.push_back(parcel);
    }

    /// Cells are to be kept behind parcels: these become cells too.
    pub(crate) fn cut_parcels(&mut self) {
        if self.parcels.is_empty() {
            return;
        }
        let mut cells = Vec::with_capacity(self.in_parcels);
        self.parcels.drain(..).for_each(|parcel| parcel.cut(&mut cells));
        self.in_parcels = 0;
        self.held.extend(cells);
    }

    /// Forgets all that is kept; how many cells that was.
    pub(crate) fn forget(&mut self) -> usize {
        let kept = self.kept();
        self.held.clear();
        self.parcels.clear();
        self.in_parcels = 0;
        kept
    }

    /// Delivers as much of what is kept as there is room for; how many cells that was, those of parcels included.
    pub(crate) fn deliver(&mut self, circuit: &mut Circuit, user: User, endpoint: &mut Attached, now: Time) -> usize {
        let before = self.kept();
        while !self.held.is_empty() {
            let used = circuit.receive_what_fits(user, endpoint, self.held.as_slices().0, now);
            self.held.drain(..used);
            if used == 0 {
                return before - self.kept();
            }
        }
        while let Some(parcel) = self.parcels.front_mut() {
            let cells = parcel.cells();
            // Another application may have the circuit by now, with another adaptation layer.
            if user.aal != Aal::Aal5 || !circuit.is_between() {
                self.cut_parcels();
                break;
            }
            let done = circuit.receive_what_fits_of_parcel(user, endpoint, parcel);
            parcel.drop_first(done);
            self.in_parcels -= cells - parcel.cells();
            if parcel.pdus() > 0 {
                break;
            }
            self.parcels.pop_front();
        }
        before - self.kept()
    }
}

/// What a host has to do for all its circuits with credits.
#[derive(Debug, Default)]
pub(crate) struct Credits {
    incarnation: u16,
    /// Circuits with a limit (or else a check) to be sent.
    pub(crate) notices: VecDeque<(u32, bool)>,
    pub(crate) timers: VecDeque<(Time, u32)>,
    /// Circuits that keep cells.
    pub(crate) holding: Vec<u32>,
    /// When the application of one of them was last seen to have made room.
    pub(crate) progress: Time,
    pub(crate) look_again: Option<Time>,
}

impl Credits {
    /// Credits for a new circuit, which asks for its first at once.
    pub(crate) fn begin(&mut self, key: u32) -> Box<Credit> {
        self.incarnation = self.incarnation.wrapping_add(1);
        let mut credit = Credit::new(self.incarnation);
        self.notice_check(key, &mut credit);
        credit
    }

    /// A circuit keeps something that came just now, and did not before.
    pub(crate) fn hold(&mut self, key: u32, now: Time) {
        self.holding.push(key);
        self.progress = now;
        self.look_again = Some(now + LOOK_AGAIN);
    }

    pub(crate) fn notice_limit(&mut self, key: u32, credit: &mut Credit) {
        if !credit.limit_listed && credit.receiver.limit_is_due() {
            credit.limit_listed = true;
            self.notices.push_back((key, true));
        }
    }

    pub(crate) fn notice_check(&mut self, key: u32, credit: &mut Credit) {
        if !credit.check_listed {
            credit.check_listed = true;
            self.notices.push_back((key, false));
        }
    }

    pub(crate) fn arm(&mut self, key: u32, credit: &mut Credit, now: Time) {
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
    pub(crate) fn receive_what_fits(
        &mut self,
        user: User,
        endpoint: &mut Attached,
        cells: &[Cell],
        now: Time,
    ) -> usize {
        let mut used = 0;
        match user.aal {
            Aal::Aal5 => {
                while let Some(first) = cells.get(used) {
                    let rest = &cells[used..];
                    let ends = |cell: &Cell| cell.header_word() & 0b1010 == 0b0010;
                    // A PDU of one cell travels inside its descriptor.
                    let alone = ends(first) && self.is_between();
                    // Only the end of a PDU needs room, and no call goes beyond it.
                    let end = if endpoint.has_room() { None } else { rest.iter().position(ends) };
                    let n = end.unwrap_or(rest.len());
                    if n == 0 || !alone && !self.prepare_buffer(endpoint) {
                        break;
                    }
                    used += self.receive_of_pdu(user, endpoint, &rest[..n], now);
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
