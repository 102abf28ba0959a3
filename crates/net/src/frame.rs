//! Whole PDUs inside a network: handles into a bounded pool of buffers, counted so that multipoint copies share one.

use sar::SduMeta;
use wire::{CircuitId, Label, Time};

/// Octets of an AAL0 frame: a cell header without HEC in network order (NNI layout), and the payload.
pub const AAL0_FRAME_OCTETS: usize = 52;

/// Cell times of the longest frame that promises on frame links allow for: an SDU of 9180 octets, IP's MTU over ATM
/// (RFC 2225).
pub const LONG_FRAME_CELLS: u64 = wire::aal5::cells(9180) as u64;

/// Adaptation layers that a frame can be of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum FrameAal {
    /// One cell: 52 octets, header (without HEC, network order) and payload. OAM cells travel on frame links like this
    /// too.
    Aal0,
    /// The SDU of an AAL5 PDU (I.363.5): no padding, no trailer.
    #[default]
    Aal5,
    /// The SDU of an AAL3/4 PDU (I.363.3).
    Aal34,
}

impl FrameAal {
    /// As descriptions and `status` write it.
    pub const fn name(self) -> &'static str {
        match self {
            FrameAal::Aal0 => "aal0",
            FrameAal::Aal5 => "aal5",
            FrameAal::Aal34 => "aal34",
        }
    }
}

/// The circuit that a frame goes out under.
pub(crate) fn translate(label: Label, circuit: CircuitId) -> CircuitId {
    match label {
        Label::Vc(circuit) => circuit,
        Label::Vp(vpi) => CircuitId { vpi, vci: circuit.vci },
    }
}

/// Cells, PDUs and octets that a frame counts for.
pub(crate) fn counted(aal: FrameAal, octets: usize) -> [u64; 3] {
    match aal {
        FrameAal::Aal5 | FrameAal::Aal34 => [0, 1, octets as u64],
        FrameAal::Aal0 => [1, 0, wire::cell::PAYLOAD_OCTETS as u64],
    }
}

const NO_BUFFER: u32 = u32::MAX;

/// A whole SDU on its way. It owns one share of a buffer in the [`FramePool`] and must be given back by
/// [`FramePool::release`]; dropping it without that loses the buffer until the pool goes.
#[derive(Debug)]
#[must_use = "a frame owns a buffer: pass it on or release it"]
pub struct Frame {
    /// The circuit, on the link that the frame is on.
    pub circuit: CircuitId,
    /// What the octets are.
    pub aal: FrameAal,
    /// What AAL5 carries beside the SDU; of AAL0 frames, the header in the octets rules.
    pub meta: SduMeta,
    buffer: u32,
    octets: u32,
    at: Time,
}

impl Default for Frame {
    fn default() -> Self {
        Frame {
            circuit: CircuitId::default(),
            aal: FrameAal::Aal5,
            meta: SduMeta::default(),
            buffer: NO_BUFFER,
            octets: 0,
            at: Time::ZERO,
        }
    }
}

impl Frame {
    /// Octets of the SDU.
    pub fn len(&self) -> usize {
        self.octets as usize
    }

    /// Whether the SDU has no octets.
    pub fn is_empty(&self) -> bool {
        self.octets == 0
    }

    /// Shortens the SDU; a longer length changes nothing.
    pub fn truncate(&mut self, octets: usize) {
        self.octets = self.octets.min(u32::try_from(octets).unwrap_or(u32::MAX));
    }

    /// When the frame may be seen by the far end of the link it is on.
    pub fn at(&self) -> Time {
        self.at
    }

    pub(crate) fn set_at(&mut self, at: Time) {
        self.at = at;
    }

    /// Cells that the frame would fill on a cell link: what a frame link of a rate charges for it.
    pub fn cells(&self) -> u64 {
        match self.aal {
            FrameAal::Aal0 => 1,
            // Trailer of 8 octets, padded to whole payloads (I.363.5).
            FrameAal::Aal5 => (u64::from(self.octets) + 8).div_ceil(48),
            FrameAal::Aal34 => sar::aal34::cells(self.len()) as u64,
        }
    }
}

/// Octets of a cache line.
const LINE: usize = 64;
/// Buffers of a page or more begin this much further from each other than they are long: with a power of two between
/// them, the beginnings of all would compete for the same few places of each cache. 25 lines: a packet of 1500 octets
/// behind its LLC header.
const COLOUR: usize = 25 * LINE;
const PAGE: usize = 4096;
/// What stands before the octets of TCP in an SDU of RFC 2684: LLC and SNAP (8), IPv4 (20), TCP with time stamps (32).
/// Buffers begin so that these octets, of which there are many, begin with a line: copies that do are faster.
const BEFORE_TCP: usize = 60;

/// The buffers of all frames of a network: so many of so many octets, allocated once.
#[derive(Debug)]
pub struct FramePool {
    /// As long as the buffers that have been taken: an allocator may write all that it is to give as zeros.
    memory: Vec<u8>,
    buffer_octets: usize,
    /// Where the first buffer begins.
    first: usize,
    /// Octets from one buffer to the next.
    stride: usize,
    shares: Vec<u32>,
    free: Vec<u32>,
}

impl FramePool {
    /// `buffers` of `buffer_octets` each (at least 52, so that AAL0 fits). Memory of buffers that are never taken is
    /// never touched.
    pub fn new(buffers: usize, buffer_octets: usize) -> Self {
        let buffers = buffers.min(NO_BUFFER as usize - 1);
        let buffer_octets = buffer_octets.max(AAL0_FRAME_OCTETS);
        let stride = buffer_octets.next_multiple_of(LINE) + if buffer_octets < PAGE { 0 } else { COLOUR };
        let memory = Vec::with_capacity(buffers * stride + LINE);
        FramePool {
            first: (LINE * 2 - BEFORE_TCP).wrapping_sub(memory.as_ptr() as usize) % LINE,
            memory,
            buffer_octets,
            stride,
            shares: vec![0; buffers],
            free: (0..buffers as u32).rev().collect(),
        }
    }

    fn start(&self, frame: &Frame) -> usize {
        (frame.buffer as usize).saturating_mul(self.stride).saturating_add(self.first)
    }

    /// The longest SDU that fits.
    pub fn buffer_octets(&self) -> usize {
        self.buffer_octets
    }

    /// Buffers in all.
    pub fn buffers(&self) -> usize {
        self.shares.len()
    }

    /// Buffers that are free now.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Buffers that frames own now.
    pub fn in_use(&self) -> usize {
        self.shares.len() - self.free.len()
    }

    /// A frame of `octets` with a buffer of its own whose contents are stale: write all of them, or truncate.
    /// `None` if no buffer is free or `octets` do not fit.
    pub fn allocate(&mut self, circuit: CircuitId, aal: FrameAal, meta: SduMeta, octets: usize) -> Option<Frame> {
        if octets > self.buffer_octets {
            return None;
        }
        let buffer = self.free.pop()?;
        self.shares[buffer as usize] = 1;
        let end = self.first + (buffer as usize + 1) * self.stride;
        if end > self.memory.len() {
            self.make(end);
        }
        Some(Frame { circuit, aal, meta, buffer, octets: octets as u32, at: Time::ZERO })
    }

    /// Makes the memory of a buffer that is taken for the first time. Those are taken in their order, and there is
    /// room: the others stay where they are.
    #[cold]
    fn make(&mut self, end: usize) {
        self.memory.resize(end, 0);
    }

    /// [`FramePool::allocate`] and fill.
    pub fn copy_in(&mut self, circuit: CircuitId, aal: FrameAal, meta: SduMeta, sdu: &[u8]) -> Option<Frame> {
        let frame = self.allocate(circuit, aal, meta, sdu.len())?;
        let start = self.start(&frame);
        self.memory[start..start + sdu.len()].copy_from_slice(sdu);
        Some(frame)
    }

    /// The SDU.
    pub fn octets(&self, frame: &Frame) -> &[u8] {
        let start = self.start(frame);
        self.memory.get(start..start.saturating_add(frame.len())).unwrap_or_default()
    }

    /// The SDU, to write; `None` if other frames share the buffer.
    pub fn octets_mut(&mut self, frame: &Frame) -> Option<&mut [u8]> {
        if self.shares.get(frame.buffer as usize) != Some(&1) {
            return None;
        }
        let start = self.start(frame);
        self.memory.get_mut(start..start + frame.len())
    }

    /// The SDU of one frame, and that of another to write; `None` if other frames share the second buffer.
    pub fn octets_of_two(&mut self, from: &Frame, to: &Frame) -> Option<(&[u8], &mut [u8])> {
        if self.shares.get(to.buffer as usize) != Some(&1) {
            return None;
        }
        let range = |frame: &Frame| {
            let start = self.start(frame);
            start..start.saturating_add(frame.len())
        };
        let both = [range(from), range(to)];
        let [from, to] = self.memory.get_disjoint_mut(both).ok()?;
        Some((from, to))
    }

    /// Another frame of the same buffer.
    pub fn share(&mut self, frame: &Frame) -> Frame {
        let mut copy = Frame { circuit: frame.circuit, aal: frame.aal, meta: frame.meta, ..Frame::default() };
        if let Some(shares) = self.shares.get_mut(frame.buffer as usize) {
            *shares += 1;
            (copy.buffer, copy.octets, copy.at) = (frame.buffer, frame.octets, frame.at);
        }
        copy
    }

    /// Gives a frame's share back; the last one frees the buffer.
    pub fn release(&mut self, frame: Frame) {
        if let Some(shares) = self.shares.get_mut(frame.buffer as usize) {
            *shares -= 1;
            if *shares == 0 {
                self.free.push(frame.buffer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circuit() -> CircuitId {
        CircuitId::new(0, 100).unwrap()
    }

    #[test]
    fn buffers_are_spread_over_the_cache_and_what_follows_the_headers_of_tcp_begins_with_a_line() {
        let mut pool = FramePool::new(64, 65_536);
        let mut sets: Vec<usize> = (0..64)
            .map(|_| {
                let frame = pool.allocate(circuit(), FrameAal::Aal5, SduMeta::default(), 65_536).unwrap();
                let sdu = pool.octets(&frame);
                assert_eq!((sdu.len(), sdu[BEFORE_TCP..].as_ptr() as usize % LINE), (65_536, 0));
                // Of a cache with 1024 sets.
                sdu.as_ptr() as usize / LINE % 1024
            })
            .collect();
        sets.sort_unstable();
        sets.dedup();
        assert_eq!(sets.len(), 64);
    }

    #[test]
    fn memory_is_made_for_buffers_that_have_been_taken_and_does_not_move() {
        let mut pool = FramePool::new(256, 65_536);
        let (begin, room) = (pool.memory.as_ptr(), pool.memory.capacity());
        assert_eq!(pool.memory.len(), 0);
        for frames in [2, 1, 256] {
            let taken: Vec<Frame> = (0..frames)
                .map(|_| pool.allocate(circuit(), FrameAal::Aal5, SduMeta::default(), 65_536).unwrap())
                .collect();
            assert_eq!(pool.memory.len(), pool.first + frames.max(2) * pool.stride);
            taken.into_iter().rev().for_each(|frame| pool.release(frame));
        }
        assert_eq!((pool.memory.as_ptr(), pool.memory.capacity()), (begin, room));
    }

    #[test]
    fn a_pool_gives_no_more_than_it_has_and_takes_all_back() {
        let mut pool = FramePool::new(2, 100);
        let a = pool.copy_in(circuit(), FrameAal::Aal5, SduMeta::default(), b"first").unwrap();
        let b = pool.copy_in(circuit(), FrameAal::Aal5, SduMeta::default(), b"second").unwrap();
        assert!(pool.allocate(circuit(), FrameAal::Aal5, SduMeta::default(), 1).is_none());
        assert_eq!((pool.octets(&a), pool.octets(&b)), (&b"first"[..], &b"second"[..]));
        pool.release(a);
        pool.release(b);
        assert_eq!(pool.in_use(), 0);
    }

    #[test]
    fn a_shared_buffer_is_read_only_and_lives_until_its_last_frame() {
        let mut pool = FramePool::new(1, 100);
        let a = pool.copy_in(circuit(), FrameAal::Aal5, SduMeta::default(), b"sdu").unwrap();
        let b = pool.share(&a);
        assert!(pool.octets_mut(&b).is_none());
        pool.release(a);
        assert_eq!(pool.in_use(), 1);
        assert!(pool.octets_mut(&b).is_some());
        pool.release(b);
        assert_eq!(pool.in_use(), 0);
    }

    #[test]
    fn one_frame_is_read_while_another_is_written_unless_that_is_shared() {
        let mut pool = FramePool::new(2, 100);
        let a = pool.copy_in(circuit(), FrameAal::Aal5, SduMeta::default(), b"from").unwrap();
        let b = pool.copy_in(circuit(), FrameAal::Aal5, SduMeta::default(), b"into").unwrap();
        let (from, to) = pool.octets_of_two(&a, &b).unwrap();
        to.copy_from_slice(from);
        assert_eq!(pool.octets(&b), b"from");
        assert!(pool.octets_of_two(&a, &a).is_none());
        let c = pool.share(&b);
        assert!(pool.octets_of_two(&a, &b).is_none());
        [a, b, c].into_iter().for_each(|frame| pool.release(frame));
    }

    #[test]
    fn an_sdu_longer_than_a_buffer_gets_none() {
        let mut pool = FramePool::new(1, 100);
        assert!(pool.allocate(circuit(), FrameAal::Aal5, SduMeta::default(), 101).is_none());
        let mut frame = pool.allocate(circuit(), FrameAal::Aal5, SduMeta::default(), 100).unwrap();
        assert_eq!(frame.cells(), 3);
        frame.truncate(40);
        assert_eq!((frame.len(), frame.cells()), (40, 1));
        pool.release(frame);
        pool.release(Frame::default());
    }
}
