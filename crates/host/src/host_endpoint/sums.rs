//! Whether an endpoint's rings agree with its counters: nothing that passed them is counted twice, or not at all.

use super::HostEndpoint;
use sar::SduMeta;
use wire::DropReason;

/// What has passed an endpoint's rings, to be held against what was counted.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Passed {
    /// Descriptors taken from the send ring, ...
    pub(super) taken: u64,
    /// ... and those of them that left as OAM cells.
    pub(super) oam_sent: u64,
    /// Descriptors pushed to the receive ring, ...
    pub(super) pushed: u64,
    /// ... those that carry a buffer, ...
    pub(super) with_buffer: u64,
    /// ... and those that are OAM cells, which are no PDUs.
    pub(super) oam: u64,
    /// Buffers taken from the free ring, ...
    pub(super) freed: u64,
    /// ... and those of them that were more than there are: a client gave one twice.
    pub(super) surplus: u64,
}

impl HostEndpoint {
    /// An OAM cell has left, which counts as no PDU.
    pub(crate) fn note_oam_sent(&mut self) {
        self.passed.oam_sent += 1;
    }

    /// Delivers an OAM cell, which counts as a cell and as no PDU.
    ///
    /// # Errors
    /// Why not, counted here.
    pub(crate) fn deliver_oam(&mut self, channel: u32, message: &[u8]) -> Result<(), DropReason> {
        self.received.cells = self.received.cells.wrapping_add(1);
        self.deliver_copy(channel, message, SduMeta::default())?;
        self.passed.oam += 1;
        Ok(())
    }

    /// What does not add up: every descriptor of the send ring was sent, was dropped for a reason or waits; every PDU
    /// that counts as received is in the receive ring; every buffer of the free ring is at hand, delivered, or one of
    /// `held`, which PDUs that are arriving have.
    pub(crate) fn mismatch(&self, held: u64) -> Option<String> {
        let (passed, waiting, stash) = (&self.passed, self.outbound.queued(), self.buffers.len() as u64);
        let sent = self.sent.pdus.wrapping_add(passed.oam_sent + self.sent.dropped_total()).wrapping_add(waiting);
        let received = self.received.pdus.wrapping_add(passed.oam);
        let buffers = stash + held + passed.with_buffer + passed.surplus;
        let adds_up = (passed.taken, passed.pushed, passed.freed) == (sent, received, buffers);
        (!adds_up).then(|| {
            format!(
                "rings {passed:?}: {waiting} wait, {stash} buffers at hand, {held} held; sent {:?}, received {:?}",
                self.sent, self.received
            )
        })
    }
}
