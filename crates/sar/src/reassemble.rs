//! AAL5 reassembly (I.363.5) of one circuit into the caller's buffer.
//!
//! The caller takes a buffer before a PDU's first cell ([`Reassembler::needs_buffer`]) and gives it at each call until
//! an event other than [`Event::NeedMore`]. Without one it calls [`Reassembler::skip`]. A lost last cell makes two PDUs
//! one, which the length or the CRC shows: both are lost, the next is whole. Nothing past an SDU's own cells is written,
//! and nothing past the buffer; the padding and trailer are written only where they fit.

use crate::SduMeta;
use core::time::Duration;
use wire::aal5::{MAX_SDU_OCTETS, TRAILER_OCTETS, Trailer, cells};
use wire::cell::PAYLOAD_OCTETS;
use wire::crc::Crc32;
use wire::{Cell, Counters, DropReason, PayloadType, Time};

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

/// One circuit's reassembly.
#[derive(Debug, Clone)]
pub struct Reassembler {
    config: ReassemblyConfig,
    crc: Crc32,
    octets: usize,
    clp: bool,
    /// The PDU is lost already, and why; its remaining cells are passed over.
    lost: Option<DropReason>,
    last_cell: Time,
    tail: [u8; TRAILER_OCTETS],
    counters: Counters,
}

impl Reassembler {
    /// Between two PDUs.
    pub fn new(config: ReassemblyConfig) -> Self {
        Reassembler {
            config,
            crc: Crc32::new(),
            octets: 0,
            clp: false,
            lost: None,
            last_cell: Time::ZERO,
            tail: [0; TRAILER_OCTETS],
            counters: Counters::default(),
        }
    }

    /// Whether the next cell is a PDU's first, for which the caller needs a buffer.
    pub const fn needs_buffer(&self) -> bool {
        self.octets == 0 && self.lost.is_none()
    }

    /// Takes user cells of this circuit up to the end of a PDU or of the batch, and writes their payload to `buffer`.
    pub fn push(&mut self, cells: &[Cell], buffer: &mut [u8], now: Time) -> Step {
        self.push_with(cells, buffer.len(), |at, part| buffer[at..at + part.len()].copy_from_slice(part), now)
    }

    /// The same for a buffer of `buffer_octets` octets that is not a slice: `write(at, part)` copies `part` to its octets
    /// from `at` on, which are inside it.
    #[inline]
    pub fn push_with(
        &mut self,
        cells: &[Cell],
        buffer_octets: usize,
        mut write: impl FnMut(usize, &[u8]),
        now: Time,
    ) -> Step {
        if !cells.is_empty() {
            self.last_cell = now;
        }
        for (i, cell) in cells.iter().enumerate() {
            let header = cell.header();
            let PayloadType::User { congestion, end } = header.payload_type else { continue };
            self.counters.cells = self.counters.cells.wrapping_add(1);
            self.clp |= header.clp;
            if self.lost.is_none() {
                self.take(&cell.payload, buffer_octets, &mut write);
            }
            if end {
                let event = self.finish(congestion, buffer_octets);
                return Step { cells_used: i + 1, event };
            }
        }
        Step { cells_used: cells.len(), event: Event::NeedMore }
    }

    /// Passes over the rest of a PDU for which there is no buffer.
    pub fn skip(&mut self, cells: &[Cell], now: Time) -> Step {
        self.lost.get_or_insert(DropReason::NoBuffer);
        self.push(cells, &mut [], now)
    }

    fn take(&mut self, payload: &[u8; PAYLOAD_OCTETS], buffer_octets: usize, write: &mut impl FnMut(usize, &[u8])) {
        // The longest PDU has the cells of the longest SDU; one more and a last cell was lost, or the peer babbles.
        let longest = cells(self.config.max_sdu_octets) * PAYLOAD_OCTETS;
        if self.octets + PAYLOAD_OCTETS > longest {
            self.lost = Some(DropReason::Oversize);
            return;
        }
        self.crc.update(payload);
        let n = buffer_octets.saturating_sub(self.octets).min(PAYLOAD_OCTETS);
        if n > 0 {
            write(self.octets, &payload[..n]);
        }
        self.tail.copy_from_slice(&payload[PAYLOAD_OCTETS - TRAILER_OCTETS..]);
        self.octets += PAYLOAD_OCTETS;
    }

    fn finish(&mut self, congestion: bool, buffer_octets: usize) -> Event {
        let trailer = Trailer::parse(&self.tail).unwrap_or_default();
        let length = usize::from(trailer.length);
        let fault = if self.lost.is_some() {
            self.lost
        } else if length == 0 && self.crc.is_good() {
            Some(DropReason::Aborted)
        } else if !self.crc.is_good() {
            Some(DropReason::Crc)
        } else if cells(length) * PAYLOAD_OCTETS != self.octets {
            Some(DropReason::Length)
        } else if length > self.config.max_sdu_octets || length > buffer_octets {
            Some(DropReason::Oversize)
        } else if trailer.cpi != 0 && !self.config.any_cpi {
            Some(DropReason::Malformed)
        } else {
            None
        };
        let meta = SduMeta { uu: trailer.uu, cpi: trailer.cpi, clp: self.clp, congestion };
        self.reset();
        match fault {
            Some(reason) => {
                self.counters.drop_one(reason);
                Event::Failed(reason)
            }
            None => {
                self.counters.pdus = self.counters.pdus.wrapping_add(1);
                self.counters.octets = self.counters.octets.wrapping_add(length as u64);
                Event::Complete { sdu_octets: length, meta }
            }
        }
    }

    fn reset(&mut self) {
        self.crc = Crc32::new();
        self.octets = 0;
        self.clp = false;
        self.lost = None;
    }

    /// When the PDU that has begun will be given up.
    pub fn poll_timeout(&self) -> Option<Time> {
        let begun = self.octets > 0 && self.lost.is_none();
        self.config.timeout.filter(|_| begun).map(|limit| self.last_cell + limit)
    }

    /// Gives up a PDU whose next cell is overdue; its buffer may be used again and its later cells are passed over.
    pub fn handle_timeout(&mut self, now: Time) -> Option<DropReason> {
        let _due = self.poll_timeout().filter(|due| *due <= now)?;
        self.lost = Some(DropReason::Timeout);
        Some(DropReason::Timeout)
    }

    /// What has been counted: user cells, whole PDUs and their octets, PDUs dropped by reason.
    pub const fn counters(&self) -> &Counters {
        &self.counters
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
        let mut abort = [Cell::default()];
        Segmentation::abort("0.100".parse().unwrap()).fill(&[], &mut abort);
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
        assert_eq!(run(&mut r, &pdu[1..], 200), [Err(DropReason::Timeout)]);
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
