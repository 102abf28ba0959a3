//! Whether each cell is accounted for: what came in or was made, and where it went.

use super::{Apic, Port};
use wire::{Counters, DropReason};

/// What became of all cells of a chip. Counters wrap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sums {
    /// Cells that came in at all ports, and what was dropped before its output was known.
    pub received: Counters,
    /// Cells that left by all ports, those for channels included, and what was dropped before that.
    pub sent: Counters,
    /// Cells that the chip made: of its memory's PDUs, and answers of its controllers.
    pub made: u64,
    /// Copies of cells beyond each one's first.
    pub copied: u64,
    /// Cells that controllers took, and cells of connections without outputs.
    pub ended: u64,
    /// Cells that wait for their look-up.
    pub waiting: u64,
    /// Copies that wait for their output, as the chip counts them.
    pub queued: u64,
    /// The same, as its queues have them.
    pub queued_of_outputs: u64,
}

impl Sums {
    /// Whether each cell is accounted for: received, made or copied; and sent, waiting, ended or dropped for a reason.
    pub fn add_up(&self) -> bool {
        let came = self.received.cells.wrapping_add(self.made).wrapping_add(self.copied);
        let dropped = [self.received.dropped_total(), self.sent.dropped_total()];
        let went = [self.sent.cells, self.ended, self.waiting, self.queued].into_iter().chain(dropped);
        came == went.fold(0, u64::wrapping_add) && self.queued == self.queued_of_outputs
    }

    /// The same when the chip is no more: what it held is lost with it.
    pub(crate) fn ended(mut self) -> Self {
        self.received.drop_n(DropReason::LinkDown, self.waiting);
        self.sent.drop_n(DropReason::LinkDown, self.queued);
        Sums { waiting: 0, queued: 0, queued_of_outputs: 0, ..self }
    }

    /// With those of another chip.
    pub fn add(&mut self, other: &Sums) {
        self.received.add(&other.received);
        self.sent.add(&other.sent);
        self.made = self.made.wrapping_add(other.made);
        self.copied = self.copied.wrapping_add(other.copied);
        self.ended = self.ended.wrapping_add(other.ended);
        self.waiting += other.waiting;
        self.queued += other.queued;
        self.queued_of_outputs += other.queued_of_outputs;
    }
}

impl Apic {
    /// What became of all cells.
    pub fn sums(&self) -> Sums {
        let (waiting, queued) = self.held();
        let mut sums = Sums {
            made: self.monitor.made.wrapping_add(self.controllers.answered),
            copied: self.monitor.copied,
            ended: self.monitor.ended,
            waiting: waiting as u64,
            queued: queued as u64,
            queued_of_outputs: self.dispatcher.in_outputs() as u64,
            ..Sums::default()
        };
        for port in Port::ALL {
            sums.received.add(self.received(port));
            sums.sent.add(self.sent(port));
        }
        sums
    }
}
