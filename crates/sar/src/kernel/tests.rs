//! Every kernel does what the portable one does, at every length and alignment, and touches no octet beside its own.

use super::*;
use crate::{Event, Outgoing, Reassembler, ReassemblyConfig, SduMeta, Segmentation, segment_batch_by, segment_batch53};
use proptest::prelude::*;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use wire::octets::{Format, emit53};
use wire::{Cell, CircuitId, Time};

/// Memory with forbidden pages before and after it.
struct Guarded {
    base: *mut u8,
    octets: usize,
}

const PAGE: usize = 4096;

impl Guarded {
    fn new(octets: usize) -> Self {
        let octets = octets.next_multiple_of(PAGE);
        // SAFETY: a new mapping of our own; its first and last pages are made unreadable.
        let base = unsafe {
            let all = octets + 2 * PAGE;
            let base = mmap_anonymous(std::ptr::null_mut(), all, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
            let base = base.unwrap().cast::<u8>();
            mprotect(base.cast(), PAGE, MprotectFlags::empty()).unwrap();
            mprotect(base.add(PAGE + octets).cast(), PAGE, MprotectFlags::empty()).unwrap();
            base.add(PAGE)
        };
        Guarded { base, octets }
    }

    /// The first octets, right after the forbidden page.
    fn first(&mut self, octets: usize) -> &mut [u8] {
        assert!(octets <= self.octets);
        // SAFETY: inside the mapping, borrowed from `self`.
        unsafe { std::slice::from_raw_parts_mut(self.base, octets) }
    }

    /// The last octets, right before the forbidden page.
    fn last(&mut self, octets: usize) -> &mut [u8] {
        assert!(octets <= self.octets);
        // SAFETY: inside the mapping, borrowed from `self`.
        unsafe { std::slice::from_raw_parts_mut(self.base.add(self.octets - octets), octets) }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the mapping that `new` made.
        unsafe { munmap(self.base.sub(PAGE).cast(), self.octets + 2 * PAGE).unwrap() }
    }
}

fn kernels() -> Vec<Kernel> {
    Kernel::all().iter().copied().chain([Kernel::model()]).collect()
}

fn portable() -> Kernel {
    Kernel::by_name("portable").unwrap()
}

fn circuit() -> CircuitId {
    CircuitId::new(3, 0x1234).unwrap()
}

fn octets(n: usize) -> Vec<u8> {
    (0..n).map(|i| (i * 7 + i / 256 * 13 + 5) as u8).collect()
}

fn cells_by(kernel: Kernel, sdu: &[u8], meta: SduMeta) -> Vec<Cell> {
    let mut s = Segmentation::with_kernel(kernel, circuit(), sdu.len(), meta).unwrap();
    let mut cells = vec![Cell::new(Default::default(), [0xaa; 48]); s.cells_left()];
    assert_eq!(s.fill(sdu, &mut cells), cells.len());
    cells
}

/// Lengths at which something changes: up to some groups of cells, around whole cells further on, the longest.
fn lengths() -> impl Iterator<Item = usize> {
    let near = |n: usize| n.saturating_sub(9)..=(n + 9).min(65_535);
    let far = [1500, 4096, 9188, 9216, 32_768, 65_520, 65_535].into_iter().flat_map(near);
    (1..1000).chain((1000..65_535).step_by(1009)).chain(far)
}

#[test]
fn the_portable_kernel_makes_what_the_trailer_check_accepts() {
    for n in lengths() {
        let sdu = octets(n);
        let pdu: Vec<u8> = cells_by(portable(), &sdu, SduMeta::default()).iter().flat_map(|c| c.payload).collect();
        let trailer = wire::aal5::check(&pdu).unwrap();
        assert_eq!(usize::from(trailer.length), n);
        assert_eq!(pdu[..n], sdu);
        assert!(pdu[n..pdu.len() - 8].iter().all(|o| *o == 0));
    }
}

#[test]
fn every_kernel_makes_the_portable_ones_cells_and_takes_them() {
    let meta = SduMeta { uu: 0x55, cpi: 0, clp: true, congestion: true };
    let mut from = Guarded::new(65_536);
    let mut to = Guarded::new(65_536 + 96);
    for kernel in kernels() {
        for n in lengths().filter(|n| kernel.name() != "model" || n % 7 == 0) {
            let sdu = octets(n);
            let want = cells_by(portable(), &sdu, meta);
            let wire: Vec<u8> = want.iter().flat_map(|c| emit53(c, Format::Nni)).collect();
            for at_end in [false, true] {
                let place = if at_end { from.last(n) } else { from.first(n) };
                place.copy_from_slice(&sdu);
                assert!(cells_by(kernel, place, meta) == want, "{kernel:?} {n}");
                // The wire's cells, at the other end of forbidden memory.
                let mut s = Segmentation::with_kernel(kernel, circuit(), n, meta).unwrap();
                let mut out = Guarded::new(wire.len());
                let out = if at_end { out.first(wire.len()) } else { out.last(wire.len()) };
                assert_eq!(s.fill53(place, out), want.len());
                assert!(out == wire, "{kernel:?} {n}, 53 octets");
                // In again: into a buffer with room for no octet more, and into one for all cells.
                for room in [n, want.len() * 48] {
                    let buffer = if at_end { to.last(room) } else { to.first(room) };
                    let mut r = Reassembler::with_kernel(kernel, ReassemblyConfig::default());
                    for wired in [false, true] {
                        buffer.fill(0xee);
                        let step =
                            if wired { r.push53(out, buffer, Time::ZERO) } else { r.push(&want, buffer, Time::ZERO) };
                        assert_eq!(step.event, Event::Complete { sdu_octets: n, meta }, "{kernel:?} {n}");
                        assert!(buffer[..n] == sdu, "{kernel:?} {n}");
                    }
                }
            }
        }
    }
}

#[test]
fn alignment_makes_no_difference() {
    let memory = octets(2048);
    for kernel in kernels() {
        for at in 0..64 {
            for n in [1, 15, 16, 39, 40, 41, 48, 96, 191, 192, 193, 777] {
                let sdu = &memory[at..at + n];
                let want = cells_by(portable(), sdu, SduMeta::default());
                assert!(cells_by(kernel, sdu, SduMeta::default()) == want, "{kernel:?} {n} at {at}");
                let mut back = vec![0; 64 + 1024];
                let mut r = Reassembler::with_kernel(kernel, ReassemblyConfig::default());
                let step = r.push(&want, &mut back[at..], Time::ZERO);
                assert!(matches!(step.event, Event::Complete { .. }), "{kernel:?} {n} at {at}");
                assert_eq!(&back[at..at + n], sdu);
            }
        }
    }
}

fn kernel() -> impl Strategy<Value = Kernel> {
    proptest::sample::select(kernels())
}

proptest! {
    #[test]
    fn any_portions_of_any_sdu_are_the_same(
        kernel in kernel(), sdu in proptest::collection::vec(any::<u8>(), 1..3000), portion in 1usize..20) {
        let want = cells_by(portable(), &sdu, SduMeta::default());
        let mut s = Segmentation::with_kernel(kernel, circuit(), sdu.len(), SduMeta::default()).unwrap();
        let mut r = Reassembler::with_kernel(kernel, ReassemblyConfig::default());
        let mut cells = Vec::new();
        let mut buffer = vec![0; sdu.len()];
        while !s.is_done() {
            let mut room = vec![Cell::default(); portion];
            let n = s.fill(&sdu, &mut room);
            let step = r.push(&room[..n], &mut buffer, Time::ZERO);
            prop_assert_eq!(step.cells_used, n);
            prop_assert_eq!(matches!(step.event, Event::Complete { .. }), s.is_done());
            cells.extend_from_slice(&room[..n]);
        }
        prop_assert!(cells == want);
        prop_assert_eq!(buffer, sdu);
    }

    #[test]
    fn a_damaged_bit_is_found_by_every_kernel(
        sdu in proptest::collection::vec(any::<u8>(), 1..1500), cell: proptest::sample::Index, bit in 0usize..384) {
        let mut cells = cells_by(portable(), &sdu, SduMeta::default());
        let at = cell.index(cells.len());
        cells[at].payload[bit / 8] ^= 1 << (bit % 8);
        for kernel in kernels() {
            let mut r = Reassembler::with_kernel(kernel, ReassemblyConfig::default());
            let step = r.push(&cells, &mut [0; 2000], Time::ZERO);
            prop_assert_eq!(step.event, Event::Failed(wire::DropReason::Crc), "{:?}", kernel);
        }
    }

    #[test]
    fn headers_that_change_in_a_pdu_are_seen(
        sdu in proptest::collection::vec(any::<u8>(), 200..1500), flags in proptest::collection::vec(0u8..16, 32)) {
        // CLP and EFCI of single cells, and cells of OAM between them.
        let mut cells = Vec::new();
        let (mut clp, mut congestion) = (false, false);
        for (cell, flag) in cells_by(portable(), &sdu, SduMeta::default()).into_iter().zip(flags.iter().cycle()) {
            if *flag == 7 {
                cells.push(Cell::new(
                    wire::CellHeader { payload_type: wire::PayloadType::OamEndToEnd, ..cell.header() }, [9; 48]));
            }
            let end = cell.header_word() & 2;
            let mut cell = cell;
            cell.set_header_word(cell.header_word() | u32::from(flag & 1) | u32::from(flag & 2) << 1);
            clp |= flag & 1 != 0;
            if end != 0 { congestion = flag & 2 != 0; }
            cells.push(cell);
        }
        let wire: Vec<u8> = cells.iter().flat_map(|c| emit53(c, Format::Nni)).collect();
        for kernel in kernels() {
            for wired in [false, true] {
                let mut buffer = vec![0; sdu.len()];
                let mut r = Reassembler::with_kernel(kernel, ReassemblyConfig::default());
                let step = if wired { r.push53(&wire, &mut buffer, Time::ZERO) } else { r.push(&cells, &mut buffer, Time::ZERO) };
                let meta = SduMeta { clp, congestion, ..SduMeta::default() };
                prop_assert_eq!(step.event, Event::Complete { sdu_octets: sdu.len(), meta }, "{:?} {}", kernel, wired);
                prop_assert_eq!(&buffer, &sdu);
            }
        }
    }

    #[test]
    fn a_batch_is_its_sdus_one_after_another(
        kernel in kernel(), sdus in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..300), 1..40), room in 0usize..100) {
        let batch: Vec<Outgoing<'_>> = sdus.iter().map(|s| Outgoing::new(circuit(), s, SduMeta::default()).unwrap()).collect();
        let mut cells = vec![Cell::default(); room];
        let done = segment_batch_by(kernel, &batch, &mut cells);
        let want: Vec<Cell> = sdus[..done.sdus].iter().flat_map(|s| cells_by(portable(), s, SduMeta::default())).collect();
        prop_assert!(cells[..done.cells] == want);
        prop_assert!(done.sdus == sdus.len() || done.cells + batch[done.sdus].cells() > room);
        let mut wire = vec![0; room * 53 + 52];
        prop_assert_eq!(segment_batch53(kernel, &batch, &mut wire), done);
        let want: Vec<u8> = want.iter().flat_map(|c| emit53(c, Format::Nni)).collect();
        prop_assert!(wire[..want.len()] == want);
        prop_assert!(wire[want.len()..].iter().all(|o| *o == 0), "octets past the last cell are left alone");
    }
}

#[test]
fn the_first_kernel_is_the_best_and_the_last_needs_nothing() {
    assert_eq!(Kernel::all().last().unwrap().name(), "portable");
    for kernel in Kernel::all() {
        assert_eq!(Kernel::by_name(kernel.name()).unwrap().name(), kernel.name());
    }
    assert!(Kernel::by_name("abacus").is_none());
}

/// `scripts/emulate-kernels` asks for one: an emulator without its features must not pass for a proof.
#[test]
fn the_kernel_that_is_asked_for_is_the_best_here() {
    if let Ok(name) = std::env::var("CELLWAY_TEST_KERNEL") {
        assert_eq!(Kernel::all()[0].name(), name);
        assert_eq!(kernels()[0].name(), name, "it is among those that the tests run");
    }
}

#[test]
fn a_cell_with_a_damaged_header_is_passed_over_and_counted() {
    let sdu = octets(300);
    let cells = cells_by(portable(), &sdu, SduMeta::default());
    let mut wire: Vec<u8> = cells.iter().flat_map(|c| emit53(c, Format::Nni)).collect();
    wire[2 * 53 + 1] ^= 4;
    for kernel in kernels() {
        let mut r = Reassembler::with_kernel(kernel, ReassemblyConfig::default());
        let step = r.push53(&wire, &mut [0; 400], Time::ZERO);
        assert_eq!(step.event, Event::Failed(wire::DropReason::Crc), "a cell is missing");
        assert_eq!(r.counters().dropped(wire::DropReason::HeaderError), 1);
        assert_eq!(r.counters().cells, cells.len() as u64 - 1);
    }
}
