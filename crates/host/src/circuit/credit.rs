//! A circuit's credits at a host: what the next hop has granted, and the window that it grants itself. The two machines
//! are [`switch::credit`]'s.

use super::receive_backlog::{ReceiveBacklog, WINDOW};
use super::{Circuit, User};
use crate::host_endpoint::HostEndpoint;
use endpoint::Aal;
use net::NodeIo;
use sar::aal0;
use std::collections::VecDeque;
use std::time::Duration;
use switch::credit::{PATIENCE_MILLIS, Receiver, Sender};
use wire::{Cell, Time};

/// A circuit's credits.
#[derive(Debug)]
pub(crate) struct Credit {
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
    /// What came and has not been delivered: cells, ...
    pub(crate) held: VecDeque<Cell>,
    /// ... and parcels that came after them.
    pub(crate) parcels: ReceiveBacklog,
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
            parcels: ReceiveBacklog::default(),
            limit_listed: false,
            check_listed: false,
            timer: false,
        })
    }

    /// Cells that came and have not been delivered, those of parcels included.
    pub(crate) fn kept(&self) -> usize {
        self.held.len() + self.parcels.cells()
    }

    /// Cells are to be kept behind parcels, or parcels were kept for long: these become cells too.
    pub(crate) fn cut_parcels(&mut self) {
        self.parcels.cut(&mut self.held);
    }

    /// Forgets all that is kept; how many cells that was.
    pub(crate) fn forget(&mut self) -> usize {
        let kept = self.kept();
        self.held.clear();
        self.parcels.clear();
        kept
    }

    /// Delivers as much of what is kept as there is room for; how many cells that was, those of parcels included.
    pub(crate) fn deliver(
        &mut self,
        circuit: &mut Circuit,
        user: User,
        endpoint: &mut HostEndpoint,
        io: &mut NodeIo<'_>,
        now: Time,
    ) -> usize {
        let before = self.kept();
        while !self.held.is_empty() {
            let used = circuit.receive_what_fits(user, endpoint, self.held.as_slices().0, now);
            self.held.drain(..used);
            if used == 0 {
                return before - self.kept();
            }
        }
        if user.aal != Aal::Aal5 || !circuit.is_between() {
            self.cut_parcels();
        }
        self.parcels.deliver(circuit, user, endpoint, io);
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
}

impl Credits {
    /// Credits for a new circuit, which asks for its first at once.
    pub(crate) fn begin(&mut self, key: u32) -> Box<Credit> {
        self.incarnation = self.incarnation.wrapping_add(1);
        let mut credit = Credit::new(self.incarnation);
        self.notice_check(key, &mut credit);
        credit
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

    /// Whether nothing waits to be sent.
    pub(crate) fn rests(&self) -> bool {
        self.notices.is_empty()
    }

    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.timers.front().map(|(at, _)| *at)
    }
}

impl Circuit {
    /// Delivers as many of these user cells as there is room for; gives how many are done with.
    pub(crate) fn receive_what_fits(
        &mut self,
        user: User,
        endpoint: &mut HostEndpoint,
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
            // Nobody opens such a circuit with AAL3/4.
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
