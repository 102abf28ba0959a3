//! AAL5 reassembly (I.363.5) of one circuit into the caller's buffer.
//!
//! The caller takes a buffer before a PDU's first cell ([`Reassembler::needs_buffer`]) and gives it at each call until
//! an event other than [`Event::NeedMore`]. Without one it calls [`Reassembler::skip`]. A lost last cell makes two PDUs
//! one, which the length or the CRC shows: both are lost, the next is whole. Nothing past an SDU's own cells is
//! written, and nothing past the buffer; the padding and trailer are written only where they fit.
//!
//! The cells are those of one circuit: whose they are is not looked at again (many circuits: [`crate::Demux`]).

use crate::SduMeta;
use crate::fault::fault;
use crate::kernel::{In, Kernel, SLOT, Stop, WIRE, pass_over};
use core::sync::atomic::AtomicU8;
use core::time::Duration;
use wire::aal5::{MAX_SDU_OCTETS, Trailer, cells};
use wire::cell::PAYLOAD_OCTETS;
use wire::{Cell, Counters, DropReason, Time};

/// Bounds of a circuit's reassembly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReassemblyConfig {
    /// Longest SDU accepted.
    pub max_sdu_octets: usize,
    /// How long a PDU may take between two cells; RFC 2684 knows no such limit, so there is none by default.
    pub timeout: Option<Duration>,
    /// Whether a common part indicator other than zero is let through.
    pub any_cpi: bool,
}

impl Default for ReassemblyConfig {
    fn default() -> Self {
        ReassemblyConfig { max_sdu_octets: MAX_SDU_OCTETS, timeout: None, any_cpi: false }
    }
}

/// How far a batch of cells went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Step {
    /// Cells taken from the front of the batch.
    pub cells_used: usize,
    /// What happened with the last of them.
    pub event: Event,
}

/// What came of the cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// All cells are used and the PDU has not ended.
    NeedMore,
    /// The buffer begins with an SDU.
    Complete {
        /// Its octets.
        sdu_octets: usize,
        /// What came with it.
        meta: SduMeta,
    },
    /// The PDU ended and was dropped, counted; the buffer may be used again.
    Failed(DropReason),
}

/// Where a [`Reassembler`] counts: [`Counters`], or `()` where its caller counts what comes of the cells itself.
pub trait Count: Default {
    /// Cells, PDUs and octets that passed.
    fn pass(&mut self, counted: [u64; 3]);
    /// What was dropped, and why.
    fn drop_n(&mut self, reason: DropReason, n: u64);
}

impl Count for Counters {
    fn pass(&mut self, counted: [u64; 3]) {
        Counters::pass(self, counted);
    }

    fn drop_n(&mut self, reason: DropReason, n: u64) {
        Counters::drop_n(self, reason, n);
    }
}

impl Count for () {
    fn pass(&mut self, _: [u64; 3]) {}

    fn drop_n(&mut self, _: DropReason, _: u64) {}
}

/// One circuit's reassembly.
#[derive(Debug, Clone)]
pub struct Reassembler<C = Counters> {
    config: ReassemblyConfig,
    kernel: Kernel,
    pdu: In,
    /// The PDU is lost already, and why; its remaining cells are passed over.
    lost: Option<DropReason>,
    last_cell: Time,
    counters: C,
}

impl Reassembler {
    /// Between two PDUs.
    pub fn new(config: ReassemblyConfig) -> Self {
        Self::with_kernel(Kernel::chosen(), config)
    }

    /// The same by a kernel of the caller's choice.
    pub fn with_kernel(kernel: Kernel, config: ReassemblyConfig) -> Self {
        Self::by(kernel, config)
    }

    /// What has been counted: user cells, whole PDUs and their octets, PDUs dropped by reason.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }
}

impl Reassembler<()> {
    /// Between two PDUs; nothing is counted.
    pub fn uncounted(config: ReassemblyConfig) -> Self {
        Self::by(Kernel::chosen(), config)
    }
}

impl<C: Count> Reassembler<C> {
    fn by(kernel: Kernel, config: ReassemblyConfig) -> Self {
        // The longest PDU has the cells of the longest SDU; one more and a last cell was lost, or the peer babbles.
        let longest = cells(config.max_sdu_octets) * PAYLOAD_OCTETS;
        let pdu = In { state: kernel.start(), octets: 0, longest, clp: false };
        Reassembler { config, kernel, pdu, lost: None, last_cell: Time::ZERO, counters: C::default() }
    }

    /// Whether the next cell is a PDU's first, for which the caller needs a buffer.
    pub const fn needs_buffer(&self) -> bool {
        self.pdu.octets == 0 && self.lost.is_none()
    }

    /// Takes cells of this circuit up to the end of a PDU or of the batch, and writes their payload to `buffer`. Cells
    /// that are not of user data are passed over.
    pub fn push(&mut self, cells: &[Cell], buffer: &mut [u8], now: Time) -> Step {
        // SAFETY: slices give their cells and octets.
        #[allow(unsafe_code)]
        unsafe {
            self.run::<SLOT>(cells.as_ptr().cast(), cells.len(), buffer.as_mut_ptr(), buffer.len(), now)
        }
    }

    /// The same for a buffer that others may read or write meanwhile.
    pub fn push_shared(&mut self, cells: &[Cell], buffer: &[AtomicU8], now: Time) -> Step {
        // SAFETY: as above; atomics may be written through a shared reference, and what is written is not read again.
        #[allow(unsafe_code)]
        unsafe {
            let to = buffer.as_ptr().cast::<u8>().cast_mut();
            self.run::<SLOT>(cells.as_ptr().cast(), cells.len(), to, buffer.len(), now)
        }
    }

    /// The same for cells as on the wire, 53 octets each; one whose HEC is wrong is counted and passed over.
    pub fn push53(&mut self, cells: &[u8], buffer: &mut [u8], now: Time) -> Step {
        // SAFETY: as many cells as there are 53 octets.
        #[allow(unsafe_code)]
        unsafe {
            self.run::<WIRE>(cells.as_ptr(), cells.len() / WIRE, buffer.as_mut_ptr(), buffer.len(), now)
        }
    }

    /// Passes over the rest of a PDU for which there is no buffer.
    pub fn skip(&mut self, cells: &[Cell], now: Time) -> Step {
        self.skip_for(DropReason::NoBuffer, cells, now)
    }

    /// The same for another reason than that. Nothing is checked: it is that reason, whatever else is wrong with the
    /// PDU.
    pub fn skip_for(&mut self, reason: DropReason, cells: &[Cell], now: Time) -> Step {
        if !cells.is_empty() {
            self.lost.get_or_insert(reason);
        }
        self.push(cells, &mut [], now)
    }

    /// # Safety
    /// `cells` gives `n` cells of `S` octets, `to` has room for `room` octets.
    #[allow(unsafe_code)]
    unsafe fn run<const S: usize>(&mut self, cells: *const u8, n: usize, to: *mut u8, room: usize, now: Time) -> Step {
        let mut used = 0;
        loop {
            let rest = cells.wrapping_add(used * S);
            if let Some(reason) = self.lost {
                // SAFETY: the caller's: `n - used` cells are left.
                let passed = unsafe { pass_over::<S>(rest, n - used) };
                used += passed.used;
                self.took(passed.user_cells, now);
                self.counters.drop_n(DropReason::HeaderError, passed.damaged as u64);
                let event = if passed.ended { self.failed(reason) } else { Event::NeedMore };
                return Step { cells_used: used, event };
            }
            // SAFETY: as above, and the room is the caller's.
            let (taken, stop) = unsafe { self.kernel.reassemble::<S>(&mut self.pdu, rest, n - used, to, room) };
            used += taken;
            self.took(taken, now);
            match stop {
                Stop::More => return Step { cells_used: used, event: Event::NeedMore },
                Stop::End { trailer, congestion, good } => {
                    return Step { cells_used: used, event: self.finish(trailer, congestion, good, room) };
                }
                Stop::NotUser => used += 1,
                Stop::Damaged => {
                    self.counters.drop_n(DropReason::HeaderError, 1);
                    used += 1;
                }
                Stop::Longer => self.lost = Some(DropReason::Oversize),
            }
        }
    }

    fn took(&mut self, user_cells: usize, now: Time) {
        if user_cells > 0 {
            self.last_cell = now;
            self.counters.pass([user_cells as u64, 0, 0]);
        }
    }

    fn finish(&mut self, trailer: u64, congestion: bool, good: bool, room: usize) -> Event {
        let trailer = Trailer::from_octets(trailer.to_le_bytes());
        let longest = self.config.max_sdu_octets.min(room);
        if let Some(reason) = fault(good, &trailer, self.pdu.octets, longest, self.config.any_cpi) {
            return self.failed(reason);
        }
        let sdu_octets = usize::from(trailer.length);
        let meta = SduMeta { uu: trailer.uu, cpi: trailer.cpi, clp: self.pdu.clp, congestion };
        self.reset();
        self.counters.pass([0, 1, sdu_octets as u64]);
        Event::Complete { sdu_octets, meta }
    }

    fn failed(&mut self, reason: DropReason) -> Event {
        self.reset();
        self.counters.drop_n(reason, 1);
        Event::Failed(reason)
    }

    fn reset(&mut self) {
        self.pdu = In { state: self.kernel.start(), octets: 0, longest: self.pdu.longest, clp: false };
        self.lost = None;
    }

    /// When the PDU that has begun will be given up.
    pub fn poll_timeout(&self) -> Option<Time> {
        let begun = self.pdu.octets > 0 && self.lost.is_none();
        self.config.timeout.filter(|_| begun).map(|limit| self.last_cell + limit)
    }

    /// Gives up a PDU whose next cell is overdue, counted; its buffer may be used again. The next cell begins a new
    /// PDU: if it is a late one of the old PDU, the CRC will show it.
    pub fn handle_timeout(&mut self, now: Time) -> Option<DropReason> {
        let _due = self.poll_timeout().filter(|due| *due <= now)?;
        let _ = self.failed(DropReason::Timeout);
        Some(DropReason::Timeout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Segmentation;
    use proptest::prelude::*;

    fn cells_of(sdu: &[u8], meta: SduMeta) -> Vec<Cell> {
        let mut s = Segmentation::new("0.100".parse().unwrap(), sdu.len(), meta).unwrap();
        let mut out = vec![Cell::default(); cells(sdu.len())];
        s.fill(sdu, &mut out);
        out
    }

    /// Feeds all cells, gives the SDUs and the reasons of the others.
    fn run(r: &mut Reassembler, mut input: &[Cell], buffer_octets: usize) -> Vec<Result<Vec<u8>, DropReason>> {
        let mut buffer = vec![0; buffer_octets];
        let mut out = Vec::new();
        while !input.is_empty() {
            let step = r.push(input, &mut buffer, Time::ZERO);
            input = &input[step.cells_used..];
            match step.event {
                Event::NeedMore => {}
                Event::Complete { sdu_octets, .. } => out.push(Ok(buffer[..sdu_octets].to_vec())),
                Event::Failed(reason) => out.push(Err(reason)),
            }
        }
        out
    }

    #[test]
    fn each_way_to_fail_has_its_reason_and_the_next_pdu_is_whole() {
        let good = cells_of(&[9; 100], SduMeta::default());
        let check = |bad: &[Cell], config: ReassemblyConfig, buffer: usize, reason: DropReason| {
            let mut r = Reassembler::new(config);
            let all: Vec<Cell> = bad.iter().chain(&good).copied().collect();
            assert_eq!(run(&mut r, &all, buffer), [Err(reason), Ok(vec![9; 100])], "{reason}");
            assert_eq!(r.counters().dropped(reason), 1);
            assert!(r.needs_buffer());
        };
        let normal = ReassemblyConfig::default();
        let mut damaged = good.clone();
        damaged[1].payload[5] ^= 1;
        check(&damaged, normal, 200, DropReason::Crc);
        let mut given_up = Segmentation::new("0.100".parse().unwrap(), 200, SduMeta::default()).unwrap();
        let mut abort = [Cell::default(); 3];
        assert_eq!(given_up.fill(&[8; 200], &mut abort[..2]), 2);
        given_up.abort();
        assert_eq!(given_up.fill(&[8; 200], &mut abort[2..]), 1);
        assert!(given_up.is_done());
        check(&abort, normal, 200, DropReason::Aborted);
        check(
            &cells_of(&[1; 500], SduMeta::default()),
            ReassemblyConfig { max_sdu_octets: 300, ..normal },
            300,
            DropReason::Oversize,
        );
        check(&cells_of(&[1; 201], SduMeta::default()), normal, 200, DropReason::Oversize);
        check(&cells_of(&[1; 50], SduMeta { cpi: 1, ..SduMeta::default() }), normal, 200, DropReason::Malformed);
        // A whole cell of octets beyond what the length says, with a right CRC.
        let mut pdu = vec![0u8; 3 * 48 - 8];
        pdu.extend_from_slice(&Trailer { length: 10, ..Trailer::default() }.to_octets()[..4]);
        let crc = wire::crc::crc32(&pdu);
        pdu.extend_from_slice(&crc.to_be_bytes());
        let mut long = good.clone();
        for (cell, payload) in long.iter_mut().zip(pdu.chunks_exact(48)) {
            cell.payload.copy_from_slice(payload);
        }
        check(&long, normal, 200, DropReason::Length);
    }

    #[test]
    fn a_pdu_without_a_free_buffer_is_counted_and_passed_over() {
        let pdu = cells_of(&[9; 100], SduMeta::default());
        let mut r = Reassembler::new(ReassemblyConfig::default());
        assert_eq!(r.skip(&pdu[..1], Time::ZERO).event, Event::NeedMore);
        assert!(!r.needs_buffer(), "a buffer in the middle of a PDU is of no use");
        assert_eq!(r.skip(&pdu[1..], Time::ZERO).event, Event::Failed(DropReason::NoBuffer));
        assert_eq!(r.skip_for(DropReason::RingFull, &pdu, Time::ZERO).event, Event::Failed(DropReason::RingFull));
        assert_eq!((r.counters().dropped(DropReason::NoBuffer), r.counters().dropped(DropReason::RingFull)), (1, 1));
        assert_eq!(run(&mut r, &pdu, 100), [Ok(vec![9; 100])]);
    }

    #[test]
    fn a_pdu_that_stops_is_given_up_after_the_timeout() {
        let pdu = cells_of(&[9; 100], SduMeta::default());
        let limit = Duration::from_millis(5);
        let mut r = Reassembler::new(ReassemblyConfig { timeout: Some(limit), ..Default::default() });
        assert_eq!(r.poll_timeout(), None);
        let _ = r.push(&pdu[..1], &mut [0; 200], Time::from_millis(1));
        assert_eq!(r.poll_timeout(), Some(Time::from_millis(6)));
        assert_eq!(r.handle_timeout(Time::from_millis(5)), None);
        assert_eq!(r.handle_timeout(Time::from_millis(6)), Some(DropReason::Timeout));
        assert_eq!(r.counters().dropped(DropReason::Timeout), 1);
        assert_eq!(run(&mut r, &pdu, 200), [Ok(vec![9; 100])], "the PDU after it is whole");
        let _ = r.push(&pdu[..1], &mut [0; 200], Time::from_millis(10));
        assert_eq!(r.handle_timeout(Time::from_millis(15)), Some(DropReason::Timeout));
        assert_eq!(run(&mut r, &pdu[1..], 200), [Err(DropReason::Crc)], "late cells are no PDU");
        assert_eq!(run(&mut r, &pdu, 200), [Ok(vec![9; 100])]);
    }

    #[test]
    fn what_travels_beside_the_octets_arrives() {
        let meta = SduMeta { uu: 0x5a, cpi: 0, clp: true, congestion: true };
        let mut r = Reassembler::new(ReassemblyConfig::default());
        let step = r.push(&cells_of(&[1; 60], meta), &mut [0; 60], Time::ZERO);
        assert_eq!(step.event, Event::Complete { sdu_octets: 60, meta });
    }

    #[derive(Debug, Clone, Copy)]
    enum Fault {
        Lose(proptest::sample::Index),
        Repeat(proptest::sample::Index),
        Swap(proptest::sample::Index),
        Damage(proptest::sample::Index, u16),
    }

    fn fault() -> impl Strategy<Value = Fault> {
        use proptest::sample::Index;
        prop_oneof![
            any::<Index>().prop_map(Fault::Lose),
            any::<Index>().prop_map(Fault::Repeat),
            any::<Index>().prop_map(Fault::Swap),
            (any::<Index>(), 0u16..384).prop_map(|(i, bit)| Fault::Damage(i, bit)),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]
        #[test]
        fn whatever_the_network_does_no_wrong_sdu_comes_out_and_the_next_one_does(
            sizes in proptest::collection::vec(1usize..400, 1..6), faults in proptest::collection::vec(fault(), 0..12)) {
            let sdus: Vec<Vec<u8>> = sizes.iter().enumerate().map(|(n, len)| (0..*len).map(|i| (n * 31 + i * 7) as u8).collect()).collect();
            let mut input: Vec<Cell> = sdus.iter().flat_map(|s| cells_of(s, SduMeta::default())).collect();
            for f in faults {
                if input.is_empty() { break }
                match f {
                    Fault::Lose(i) => { input.remove(i.index(input.len())); }
                    Fault::Repeat(i) => { let i = i.index(input.len()); input.insert(i, input[i]); }
                    Fault::Swap(i) => { let n = input.len(); let i = i.index(n); input.swap(i, (i + 1) % n); }
                    Fault::Damage(i, bit) => { let i = i.index(input.len()); input[i].payload[usize::from(bit / 8)] ^= 1 << (bit % 8); }
                }
            }
            let mut r = Reassembler::new(ReassemblyConfig { max_sdu_octets: 400, ..Default::default() });
            for sdu in run(&mut r, &input, 400).into_iter().flatten() {
                prop_assert!(sdus.contains(&sdu), "a wrong SDU was delivered");
            }
            // Whatever is left over, a PDU's end brings the machine back: the one after it is whole.
            let last = cells_of(&[0xee; 200], SduMeta::default());
            let _ = run(&mut r, &last, 400);
            prop_assert_eq!(run(&mut r, &last, 400), [Ok(vec![0xee; 200])]);
        }
    }
}
