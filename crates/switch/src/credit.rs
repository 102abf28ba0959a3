//! Flow control by credits, circuit by circuit, between the two ends of a link: a machine for each end.
//!
//! After Kung and Morris, "Credit-based flow control for ATM networks" (1995; the scheme N23): the receiver of a
//! circuit's cells tells their sender how many cells it may have sent in all. Both ends count from the same zero and
//! modulo 2^32, so that any message makes good those before it that were lost. Messages are entries of credit cells
//! ([`wire::credit`]).
//!
//! - A sender begins without credit. It asks by a *start*, with a number for this life of the circuit (its
//!   incarnation), and repeats it until a *limit* of that incarnation comes.
//! - A receiver answers each start and check by a limit, and sends one of its own accord when a quarter of its window
//!   was freed.
//! - A check travels among the cells and says how many were sent before it. What the receiver is short of was lost on
//!   the link; it counts as received and forwarded, so that its credit is not lost with it.
//!
//! A switch has both machines for each circuit with credits; a host interface has a [`Sender`] for each circuit that it
//! sends on and a [`Receiver`] for each that it receives from. Neither sends, waits or allocates.
//!
//! ```
//! use switch::credit::{Receiver, Sender};
//! use wire::{CircuitId, Label};
//! let label = Label::Vc(CircuitId::new(0, 100).unwrap());
//! let (mut sender, mut receiver) = (Sender::new(1), Receiver::new(8));
//! assert_eq!(sender.room(), 0);
//! // The start and its answer.
//! receiver.handle_check(&sender.check(label), 0);
//! assert!(sender.handle_limit(&receiver.limit(label).unwrap()));
//! assert_eq!(sender.room(), 8);
//! // Eight cells leave and arrive; six go on from the receiver's buffer.
//! sender.sent(8);
//! receiver.received(8);
//! receiver.forwarded(6);
//! assert!(receiver.limit_is_due());
//! sender.handle_limit(&receiver.limit(label).unwrap());
//! assert_eq!(sender.room(), 6);
//! ```

use wire::Label;
use wire::credit::{Entry, Kind};

/// How long a sender waits for a limit before it checks, unless configured otherwise, in milliseconds.
pub const PATIENCE_MILLIS: u64 = 10;

/// Firings of the timer after which a sender checks though limits come: cells that the link lost narrow its window.
const CHECK_AT_LEAST: u8 = 8;

/// The end of a link that sends a circuit's cells.
#[derive(Debug, Clone, Copy)]
pub struct Sender {
    incarnation: u16,
    sent: u32,
    limit: u32,
    /// What the limit was ahead by when all was acknowledged; none while no limit has come.
    window: Option<u32>,
    heard: bool,
    firings: u8,
}

impl Sender {
    /// A sender that has no credit yet. `incarnation` differs from that of the circuit's life before.
    pub const fn new(incarnation: u16) -> Self {
        Sender { incarnation, sent: 0, limit: 0, window: None, heard: false, firings: 0 }
    }

    /// Cells that may be sent now.
    #[inline]
    pub const fn room(&self) -> u32 {
        if self.window.is_some() { self.limit.wrapping_sub(self.sent) } else { 0 }
    }

    /// `cells` were sent, at most [`Sender::room`].
    #[inline]
    pub const fn sent(&mut self, cells: u32) {
        self.sent = self.sent.wrapping_add(cells);
    }

    /// Takes a limit; true if it gave credit. One of another incarnation, one that is older than what is known, and one
    /// beyond what any receiver may grant changes nothing.
    pub fn handle_limit(&mut self, entry: &Entry) -> bool {
        let limit = entry.cells;
        let ahead = limit.wrapping_sub(self.sent);
        if entry.kind != Kind::Limit || entry.incarnation != self.incarnation || ahead > u32::from(u16::MAX) {
            return false;
        }
        self.heard = true;
        match self.window {
            Some(window) if limit.wrapping_sub(self.limit) as i32 <= 0 => {
                self.window = Some(window);
                false
            }
            window => {
                self.window = Some(window.unwrap_or(0).max(ahead));
                self.limit = limit;
                ahead > 0
            }
        }
    }

    /// A check that leaves now, behind all cells that were sent and before any other; a start while no limit has come.
    pub fn check(&self, label: Label) -> Entry {
        let kind = if self.window.is_some() { Kind::Check } else { Kind::Start };
        Entry { kind, incarnation: self.incarnation, label, cells: self.sent }
    }

    /// Whether the receiver owes a limit: none came yet, or not for all that was sent. The sender's timer runs then.
    pub fn is_waiting(&self) -> bool {
        self.window.is_none_or(|window| self.limit.wrapping_sub(self.sent) < window)
    }

    /// The timer fired; true if a check has to be sent.
    pub fn handle_timeout(&mut self) -> bool {
        self.firings = self.firings.wrapping_add(1);
        let check = self.is_waiting() && (!self.heard || self.firings.is_multiple_of(CHECK_AT_LEAST));
        self.heard = false;
        check
    }
}

/// The end of a link that receives a circuit's cells.
#[derive(Debug, Clone, Copy)]
pub struct Receiver {
    window: u16,
    incarnation: Option<u16>,
    received: u32,
    /// Cells that left the buffer, or never came.
    done: u32,
    told: u32,
    asked: bool,
}

impl Receiver {
    /// A receiver with room for `window` cells.
    pub const fn new(window: u16) -> Self {
        Receiver { window, incarnation: None, received: 0, done: 0, told: 0, asked: false }
    }

    /// The cells it has room for.
    pub const fn window(&self) -> u16 {
        self.window
    }

    /// `cells` came in.
    #[inline]
    pub const fn received(&mut self, cells: u32) {
        self.received = self.received.wrapping_add(cells);
    }

    /// `cells` left the buffer, sent on or dropped.
    #[inline]
    pub const fn forwarded(&mut self, cells: u32) {
        self.done = self.done.wrapping_add(cells);
    }

    /// Takes a start or a check, while `queued` cells are in the buffer; a limit is due then.
    pub fn handle_check(&mut self, entry: &Entry, queued: u32) {
        let sent = entry.cells;
        match entry.kind {
            Kind::Limit => return,
            Kind::Check if self.incarnation == Some(entry.incarnation) => {
                let lost = sent.wrapping_sub(self.received);
                // An old check that came late tells of fewer cells than have come since.
                if lost as i32 > 0 {
                    self.received = sent;
                    self.done = self.done.wrapping_add(lost);
                }
            }
            Kind::Start | Kind::Check => {
                self.incarnation = Some(entry.incarnation);
                self.received = sent;
                self.done = sent.wrapping_sub(queued);
            }
        }
        self.asked = true;
    }

    /// Whether a limit has to be sent: a check came, or a quarter of the window is free again.
    #[inline]
    pub fn limit_is_due(&self) -> bool {
        let news = self.done.wrapping_add(u32::from(self.window)).wrapping_sub(self.told);
        self.asked || self.incarnation.is_some() && news >= u32::from(self.window / 4).max(1)
    }

    /// The limit that leaves now; `None` before any start or check.
    pub fn limit(&mut self, label: Label) -> Option<Entry> {
        let incarnation = self.incarnation?;
        self.asked = false;
        self.told = self.done.wrapping_add(u32::from(self.window));
        Some(Entry { kind: Kind::Limit, incarnation, label, cells: self.told })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    /// What is on the link from the sender to the receiver.
    #[derive(Clone, Copy)]
    enum Item {
        Cell,
        Check(Entry),
    }

    fn label() -> Label {
        Label::Vc(wire::CircuitId::new(1, 2).unwrap())
    }

    proptest! {
        #[test]
        fn the_buffer_never_overflows_and_credit_comes_back_whatever_is_lost(
            window in 1u16..40, steps in proptest::collection::vec((0u8..8, any::<bool>()), 1..600), start: u32,
        ) {
            let (mut sender, mut receiver) = (Sender::new(7), Receiver::new(window));
            // Counters wrap within the run.
            sender.sent = u32::MAX - start % 100;
            let (mut there, mut back) = (VecDeque::new(), VecDeque::new());
            let (mut queued, mut sent, mut lost, mut done) = (0u32, 0u32, 0u32, 0u32);
            let steps = steps.into_iter().chain((0..400).map(|i| ([0, 1, 2, 3, 4, 5][i % 6], false)));
            for (what, lose) in steps {
                match what {
                    0 | 6 if sender.room() > 0 => { sender.sent(1); sent += 1; there.push_back(Item::Cell); }
                    1 if sender.handle_timeout() => there.push_back(Item::Check(sender.check(label()))),
                    2 | 7 => match there.pop_front() {
                        Some(Item::Cell) if lose => lost += 1,
                        Some(Item::Cell) => { receiver.received(1); queued += 1; }
                        Some(Item::Check(entry)) if !lose => receiver.handle_check(&entry, queued),
                        _ => {}
                    },
                    3 if queued > 0 => { queued -= 1; done += 1; receiver.forwarded(1); }
                    4 if receiver.limit_is_due() => back.extend(receiver.limit(label())),
                    5 => if let Some(limit) = back.pop_front().filter(|_| !lose) {
                        sender.handle_limit(&limit);
                    },
                    _ => {}
                }
                prop_assert!(queued <= u32::from(window), "{queued} of {window}");
            }
            // The last steps lost nothing: the circuit moves again, and every cell is accounted for.
            let under_way = there.iter().filter(|item| matches!(item, Item::Cell)).count() as u32;
            prop_assert_eq!(sent, lost + done + queued + under_way);
            prop_assert!(sender.window == Some(window.into()), "{sender:?} {receiver:?}");
        }

        #[test]
        fn no_limit_gives_more_credit_than_any_window(incarnation: u16, limits: Vec<(u16, u32)>) {
            let mut sender = Sender::new(incarnation);
            for (other, cells) in limits {
                for incarnation in [other, incarnation] {
                    sender.handle_limit(&Entry { kind: Kind::Limit, incarnation, label: label(), cells });
                }
                prop_assert!(sender.room() <= u32::from(u16::MAX));
                sender.sent(sender.room() / 2);
            }
        }
    }

    #[test]
    fn a_receiver_that_forgot_is_told_anew() {
        let mut sender = Sender::new(3);
        let mut receiver = Receiver::new(4);
        receiver.handle_check(&sender.check(label()), 0);
        sender.handle_limit(&receiver.limit(label()).unwrap());
        sender.sent(3);
        let mut receiver = Receiver::new(4);
        assert_eq!(receiver.limit(label()), None);
        receiver.handle_check(&sender.check(label()), 1);
        assert!(sender.handle_limit(&receiver.limit(label()).unwrap()));
        // Three were sent, one is still in the buffer.
        assert_eq!(sender.room(), 3);
    }
}
