//! What the caller of [`crate::Demux`] says and is told.

use crate::SduMeta;
use wire::CircuitId;

/// Bounds of a [`crate::Demux`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DemuxConfig {
    /// Circuits that can be open at a time.
    pub circuits: usize,
    /// Buffers of the pool.
    pub buffers: u32,
    /// Longest SDU accepted; a buffer has room for the cells of one.
    pub max_sdu_octets: usize,
    /// Whether a common part indicator other than zero is let through.
    pub any_cpi: bool,
}

impl Default for DemuxConfig {
    /// 1024 circuits, 256 buffers, the MTU of RFC 2225 and its LLC header (9188 octets).
    fn default() -> Self {
        DemuxConfig { circuits: 1024, buffers: 256, max_sdu_octets: 9188, any_cpi: false }
    }
}

/// An SDU in its buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivery {
    /// Where it came from.
    pub circuit: CircuitId,
    /// The buffer that it is in, to be released.
    pub buffer: u32,
    /// Its octets.
    pub sdu_octets: usize,
    /// What came with it.
    pub meta: SduMeta,
}

impl Default for Delivery {
    fn default() -> Self {
        Delivery { circuit: CircuitId::from_key(0), buffer: u32::MAX, sdu_octets: 0, meta: SduMeta::default() }
    }
}

/// Why a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// All cells are used.
    Done,
    /// The next cell may complete an SDU, for which there is no place in the deliveries.
    Full,
    /// The next cell is not of user data (OAM, resource management): the caller's to take.
    NotUser,
}

/// How far a batch of cells went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Progress {
    /// Cells taken from the front of the batch.
    pub cells_used: usize,
    /// SDUs delivered.
    pub deliveries: usize,
    /// Why it ended there.
    pub reason: Reason,
}
