//! The plainest storage: one slice cut into equal buffers, one per slot.

use super::Storage;

/// Buffers of equal size in the caller's memory. A slot's buffer holds its PDU until that slot's next one begins.
#[derive(Debug)]
pub struct Slots<'a> {
    memory: &'a mut [u8],
    slot_octets: usize,
}

impl<'a> Slots<'a> {
    /// Cuts `memory` into buffers of `slot_octets`.
    pub const fn new(memory: &'a mut [u8], slot_octets: usize) -> Self {
        Slots { memory, slot_octets }
    }

    /// A slot's buffer; empty if the memory does not reach that far.
    pub fn slot(&self, slot: usize) -> &[u8] {
        let start = slot.saturating_mul(self.slot_octets);
        self.memory.get(start..start.saturating_add(self.slot_octets)).unwrap_or_default()
    }
}

impl Storage for Slots<'_> {
    fn reserve(&mut self, slot: usize, _mid: u16, octets: usize) -> bool {
        octets <= self.slot(slot).len()
    }

    fn write(&mut self, slot: usize, at: usize, part: &[u8]) {
        let start = slot * self.slot_octets + at;
        self.memory[start..start + part.len()].copy_from_slice(part);
    }
}
