//! Places for received octets of one transfer each.

use wire::cell::PAYLOAD_OCTETS;

/// Most cells of one transfer.
pub(super) const MAX_BATCH: usize = 16;
/// Octets that wait for their transfer.
#[derive(Debug, Clone)]
pub(super) struct Batches {
    octets: Vec<[u8; MAX_BATCH * PAYLOAD_OCTETS]>,
    filled: Vec<usize>,
    free: Vec<u16>,
}

impl Batches {
    pub(super) fn new(most: usize) -> Self {
        let most = most.clamp(1, 1 << 15);
        Batches {
            octets: vec![[0; MAX_BATCH * PAYLOAD_OCTETS]; most],
            filled: vec![0; most],
            free: (0..most as u16).rev().collect(),
        }
    }

    pub(super) fn take(&mut self) -> Option<u16> {
        let batch = self.free.pop()?;
        self.filled[usize::from(batch)] = 0;
        Some(batch)
    }

    pub(super) fn free(&mut self, batch: u16) {
        self.free.push(batch);
    }

    /// Appends a payload; octets that there are now.
    pub(super) fn append(&mut self, batch: u16, payload: &[u8; PAYLOAD_OCTETS]) -> usize {
        let filled = &mut self.filled[usize::from(batch)];
        self.octets[usize::from(batch)][*filled..*filled + PAYLOAD_OCTETS].copy_from_slice(payload);
        *filled += PAYLOAD_OCTETS;
        *filled
    }

    /// Whether half of them are free.
    pub(super) fn have_half(&self) -> bool {
        self.free.len() * 2 >= self.filled.len()
    }

    pub(super) fn filled(&self, batch: u16) -> usize {
        self.filled[usize::from(batch)]
    }

    pub(super) fn get(&self, batch: u16, octets: usize) -> &[u8] {
        &self.octets[usize::from(batch)][..octets]
    }
}
