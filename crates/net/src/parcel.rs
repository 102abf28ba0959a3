//! Whole PDUs that pass links in memory without having been cells: a parcel stands for the cells that its SDUs would
//! become.
//!
//! Nothing between two nodes of one process can lose or damage a cell on an unlimited link. So a sender may leave SDUs
//! where they are, in memory that it keeps until they have been read, and put a [`Parcel`] on the link in place of
//! their cells. A switch that would pass all these cells at once passes the parcel; the receiving host copies each SDU
//! once, from the sender's memory to the receiver's, and no checksum is reckoned twice over the same octets. Whoever
//! has to see cells makes them ([`Parcel::cut`]): a queue, a policer that finds some beyond the contract, a copy for
//! point-to-multipoint, a link that is captured, limited or leaves the process. In cells, PDUs and octets everybody
//! counts what the cells would have counted.
//!
//! A parcel keeps its place among the cells of its link. All its SDUs are AAL5 of one circuit, with CLP, EFCI and CPI
//! zero.

use sar::{SduMeta, Segmentation};
use std::any::Any;
use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::AtomicU8;
use wire::{Cell, CircuitId, aal5};

/// Memory in which SDUs stay until they have been read. Its owner may write it meanwhile: then a receiver gets what was
/// written. A receiver that knows the kind of memory can ask for it by its type.
pub trait SduMemory: Any + Debug + Send + Sync {
    /// `octets` octets from `at` on, which are there.
    fn octets(&self, at: usize, octets: usize) -> &[AtomicU8];
}

/// Where an SDU of a parcel is, and what its trailer would carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SduAt {
    /// Where its octets begin in the parcel's memory.
    pub at: u32,
    /// How many they are: 1 to 65 535.
    pub octets: u16,
    /// CPCS user-to-user.
    pub uu: u8,
}

/// See the module's head. Its memory is its sender's again once it is dropped.
#[derive(Debug)]
#[must_use = "a parcel keeps its sender's memory: pass it on, or read it and recycle it"]
pub struct Parcel {
    /// The circuit, on the link that the parcel is on.
    pub circuit: CircuitId,
    memory: Arc<dyn SduMemory>,
    sdus: Vec<SduAt>,
    cells: u32,
}

impl Parcel {
    /// A parcel without SDUs; `sdus` gives its list's memory.
    pub(crate) fn new(circuit: CircuitId, memory: Arc<dyn SduMemory>, mut sdus: Vec<SduAt>) -> Self {
        sdus.clear();
        Parcel { circuit, memory, sdus, cells: 0 }
    }

    /// Appends an SDU.
    #[inline]
    pub fn push(&mut self, sdu: SduAt) {
        self.cells += aal5::cells(sdu.octets.into()) as u32;
        self.sdus.push(sdu);
    }

    /// Cells that it stands for.
    pub fn cells(&self) -> usize {
        self.cells as usize
    }

    /// PDUs in it.
    pub fn pdus(&self) -> usize {
        self.sdus.len()
    }

    /// The SDUs, in the order in which they were sent.
    pub fn sdus(&self) -> &[SduAt] {
        &self.sdus
    }

    /// An SDU's octets.
    pub fn octets(&self, sdu: &SduAt) -> &[AtomicU8] {
        self.memory.octets(sdu.at as usize, sdu.octets.into())
    }

    /// The memory that its SDUs are in.
    pub fn memory(&self) -> &dyn SduMemory {
        &*self.memory
    }

    /// The header word of its cells but for the last of each PDU.
    pub fn header_word(&self) -> u32 {
        self.circuit.key() << 4
    }

    /// Its first `n` SDUs are done with.
    pub fn drop_first(&mut self, n: usize) {
        let gone = self.sdus.drain(..n.min(self.sdus.len()));
        self.cells -= gone.map(|sdu| aal5::cells(sdu.octets.into()) as u32).sum::<u32>();
    }

    /// Appends the cells that it stands for.
    pub fn cut(&self, into: &mut Vec<Cell>) {
        for sdu in &self.sdus {
            let meta = SduMeta { uu: sdu.uu, ..SduMeta::default() };
            // No SDU of a parcel is empty or too long.
            let Ok(mut segmentation) = Segmentation::new(self.circuit, sdu.octets.into(), meta) else { continue };
            let from = into.len();
            into.resize(from + segmentation.cells_left(), Cell::default());
            segmentation.fill_shared(self.octets(sdu), &mut into[from..]);
        }
    }
}

/// Lists of SDUs that are kept for the next parcels, at most.
const SPARE: usize = 64;

/// Memory of parcels that are gone, for those to come.
#[derive(Debug, Default)]
pub(crate) struct Spare(Vec<Vec<SduAt>>);

impl Spare {
    pub(crate) fn take(&mut self) -> Vec<SduAt> {
        self.0.pop().unwrap_or_default()
    }

    pub(crate) fn give(&mut self, parcel: Parcel) {
        if self.0.len() < SPARE {
            self.0.push(parcel.sdus);
        }
    }
}

/// The parcels on a line, each in its place among the cells of a ring.
#[derive(Debug, Default)]
pub(crate) struct Parcels {
    /// Each with the cells of the ring between it and the parcel before it.
    queue: VecDeque<(usize, Parcel)>,
    /// Cells of the ring before the last parcel.
    before: usize,
    /// Cells that parcels stand for.
    cells: usize,
}

impl Parcels {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Cells that all of them stand for.
    #[inline]
    pub(crate) fn cells(&self) -> usize {
        self.cells
    }

    /// The first, if no cell is before it.
    pub(crate) fn front(&self) -> Option<&Parcel> {
        self.queue.front().filter(|(before, _)| *before == 0).map(|(_, parcel)| parcel)
    }

    /// Cells of the ring that come before the first parcel.
    #[inline]
    pub(crate) fn cells_before(&self) -> usize {
        self.queue.front().map_or(usize::MAX, |(before, _)| *before)
    }

    /// Appends one, behind `ring_cells` cells that are in the ring.
    pub(crate) fn put(&mut self, parcel: Parcel, ring_cells: usize) {
        self.cells += parcel.cells();
        self.queue.push_back((ring_cells - self.before, parcel));
        self.before = ring_cells;
    }

    /// Cells were taken out of the ring, all of them before the first parcel.
    #[inline]
    pub(crate) fn handle_taken(&mut self, cells: usize) {
        if let Some((before, _)) = self.queue.front_mut() {
            *before -= cells;
            self.before -= cells;
        }
    }

    /// The first, if no cell is before it.
    pub(crate) fn take(&mut self) -> Option<Parcel> {
        if self.cells_before() > 0 {
            return None;
        }
        let (_, parcel) = self.queue.pop_front()?;
        self.cells -= parcel.cells();
        Some(parcel)
    }

    /// All of them go, wherever they are.
    pub(crate) fn clear(&mut self) -> impl Iterator<Item = Parcel> {
        (self.before, self.cells) = (0, 0);
        self.queue.drain(..).map(|(_, parcel)| parcel)
    }
}
