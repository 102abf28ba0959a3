//! Many circuits' cells, mixed: against one reassembler per circuit, and under loss.
//! A test program of its own: `scripts/emulate-kernels` runs it for another processor.

use proptest::prelude::*;
use sar::{Delivery, Demux, DemuxConfig, Event, Kernel, Reason, Reassembler, ReassemblyConfig, SduMeta, Segmentation};
use std::ops::Range;
use wire::octets::{Format, emit53};
use wire::{Cell, CircuitId, DropReason, Time};

fn cells(circuit: CircuitId, sdu: &[u8]) -> Vec<Cell> {
    let mut s = Segmentation::new(circuit, sdu.len(), SduMeta::default()).unwrap();
    let mut out = vec![Cell::default(); s.cells_left()];
    s.fill(sdu, &mut out);
    out
}

fn circuit(n: usize) -> CircuitId {
    CircuitId::new((n % 3) as u16, 32 + (n / 3) as u16).unwrap()
}

/// Cells of each list in turn, chosen by `order`; those of one list keep their order.
fn mixed(lists: Vec<Vec<Cell>>, order: &[u8]) -> Vec<Cell> {
    let mut lists: Vec<_> = lists.into_iter().map(Vec::into_iter).collect();
    let mut out = Vec::new();
    let mut turn = order.iter().cycle();
    while !lists.is_empty() {
        let at = usize::from(*turn.next().unwrap()) % lists.len();
        match lists[at].next() {
            Some(cell) => out.push(cell),
            None => drop(lists.swap_remove(at)),
        }
    }
    out
}

/// All that comes of `input`, buffers given back at once.
fn run(demux: &mut Demux, input: &[Cell], wired: bool, room: usize) -> Vec<(CircuitId, Vec<u8>)> {
    let mut pool = vec![0; demux.pool_octets()];
    let mut deliveries = vec![Delivery::default(); room];
    let octets: Vec<u8> = input.iter().flat_map(|c| emit53(c, Format::Nni)).collect();
    let (mut at, mut out) = (0, Vec::new());
    while at < input.len() {
        let progress = if wired {
            demux.push53(&octets[at * 53..], &mut pool, &mut deliveries, Time::ZERO)
        } else {
            demux.push(&input[at..], &mut pool, &mut deliveries, Time::ZERO)
        };
        at += progress.cells_used;
        for d in &deliveries[..progress.deliveries] {
            out.push((d.circuit, pool[demux.octets_of(d)].to_vec()));
            assert!(demux.release(d.buffer));
            assert!(!demux.release(d.buffer), "a buffer is given back once");
        }
        match progress.reason {
            Reason::Done => assert_eq!(at, input.len()),
            Reason::Full => assert_eq!(progress.deliveries, room),
            Reason::NotUser => at += 1,
        }
    }
    out
}

fn kernel() -> impl Strategy<Value = Kernel> {
    proptest::sample::select(Kernel::all())
}

/// How many circuits there may be: the table is made for them, however few are open.
fn table(large: bool) -> usize {
    if large { 33_000 } else { 20 }
}

/// What happens to a cell.
#[derive(Debug, Clone, Copy)]
enum Fault {
    Lost,
    Payload,
    Header,
    Clp,
    Congestion,
    End,
    Oam,
    Unknown,
    OneCircuit,
}

impl Fault {
    fn any() -> impl Strategy<Value = Fault> {
        use Fault::*;
        proptest::sample::select(&[Lost, Payload, Header, Clp, Congestion, End, Oam, Unknown, OneCircuit][..])
    }

    /// What does not end a window.
    fn mild() -> impl Strategy<Value = Fault> {
        use Fault::*;
        proptest::sample::select(&[Payload, Clp, Congestion, End][..])
    }

    fn befall(self, cells: &mut Vec<Cell>, at: proptest::sample::Index) {
        let at = at.index(cells.len());
        let word = cells[at].header_word();
        match self {
            Fault::Lost if cells.len() > 1 => drop(cells.remove(at)),
            Fault::Payload => cells[at].payload[7] ^= 4,
            Fault::Clp => cells[at].set_header_word(word ^ 1),
            Fault::End => cells[at].set_header_word(word ^ 2),
            Fault::Congestion => cells[at].set_header_word(word ^ 4),
            Fault::Oam => cells[at].set_header_word(word | 8),
            Fault::Unknown => cells[at].set_header_word(word | 0x8000_0000),
            // A run, longer than a PDU may be or not.
            Fault::OneCircuit => {
                let cell = cells[at];
                cells.splice(at..at, [cell; 40]);
            }
            Fault::Lost | Fault::Header => {}
        }
    }
}

/// Of a comparison of calls for many cells with a call for each cell.
struct Scene<'a> {
    kernel: Kernel,
    wired: bool,
    config: DemuxConfig,
    /// Circuits that are open.
    circuits: usize,
    /// Places for deliveries.
    room: usize,
    /// Cells of each call, over and over.
    calls: &'a [usize],
    /// Circuits that are closed after a call, and opened again after the next.
    reopened: &'a [usize],
}

/// A table, its pool, and what a call delivers.
struct Side {
    demux: Demux,
    pool: Vec<u8>,
    out: Vec<Delivery>,
    deliveries: usize,
}

impl Side {
    fn new(scene: &Scene) -> Self {
        let mut demux = Demux::with_kernel(scene.kernel, scene.config);
        (0..scene.circuits).for_each(|n| demux.open(circuit(n)).unwrap());
        let pool = vec![0; demux.pool_octets()];
        Side { demux, pool, out: vec![Delivery::default(); scene.room], deliveries: 0 }
    }

    fn push(&mut self, cells: &[Cell], octets: Option<&[u8]>) -> (usize, Reason) {
        let out = &mut self.out[self.deliveries..];
        let progress = match octets {
            Some(octets) => self.demux.push53(octets, &mut self.pool, out, Time::ZERO),
            None => self.demux.push(cells, &mut self.pool, out, Time::ZERO),
        };
        self.deliveries += progress.deliveries;
        (progress.cells_used, progress.reason)
    }

    fn give_back(&mut self) {
        for d in &self.out[..self.deliveries] {
            assert!(self.demux.release(d.buffer));
        }
        self.deliveries = 0;
    }
}

/// A call for many cells does what one for each does, whatever befalls them.
fn same_as_one_by_one(
    scene: &Scene,
    mut input: Vec<Cell>,
    faults: &[(proptest::sample::Index, Fault)],
) -> Result<(), TestCaseError> {
    for (at, fault) in faults {
        fault.befall(&mut input, *at);
    }
    let mut octets: Vec<u8> = input.iter().flat_map(|c| emit53(c, Format::Nni)).collect();
    for (at, _) in faults.iter().filter(|(_, fault)| matches!(fault, Fault::Header)) {
        // One of its last four octets: of the fourth, what tells a PDU's end.
        octets[at.index(input.len()) * 53 + 1 + at.index(4)] ^= 2;
    }
    let part =
        |cells: Range<usize>| (&input[cells.clone()], scene.wired.then(|| &octets[cells.start * 53..cells.end * 53]));
    let (mut one, mut many) = (Side::new(scene), Side::new(scene));
    let (mut at, mut closed) = (0, None);
    for (call, n) in scene.calls.iter().cycle().enumerate() {
        let end = at + (*n).clamp(1, input.len() - at);
        let (mut used, mut reason) = (0, Reason::Done);
        while at + used < end && reason == Reason::Done {
            let (cells, octets) = part(at + used..at + used + 1);
            let step = one.push(cells, octets);
            used += step.0;
            reason = step.1;
        }
        let (cells, octets) = part(at..end);
        prop_assert_eq!(many.push(cells, octets), (used, reason));
        prop_assert_eq!(many.deliveries, one.deliveries);
        prop_assert_eq!(many.demux.counters(), one.demux.counters());
        prop_assert_eq!(many.demux.free_buffers(), one.demux.free_buffers());
        for n in 0..scene.circuits {
            prop_assert_eq!(many.demux.circuit(circuit(n)), one.demux.circuit(circuit(n)));
        }
        for (a, b) in many.out[..many.deliveries].iter().zip(&one.out) {
            prop_assert_eq!((a.circuit, a.sdu_octets, a.meta), (b.circuit, b.sdu_octets, b.meta));
            prop_assert_eq!(&many.pool[many.demux.octets_of(a)], &one.pool[one.demux.octets_of(b)]);
        }
        at += used + usize::from(reason == Reason::NotUser);
        if at >= input.len() || (reason == Reason::Full && scene.room == 0) {
            break;
        }
        for side in [&mut one, &mut many] {
            side.give_back();
            if let Some(n) = closed {
                side.demux.open(circuit(n)).unwrap();
            }
        }
        closed = (!scene.reopened.is_empty()).then(|| scene.reopened[call % scene.reopened.len()] % scene.circuits);
        if let Some(n) = closed {
            prop_assert_eq!(one.demux.close(circuit(n)), many.demux.close(circuit(n)));
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn it_delivers_what_one_reassembler_for_each_circuit_does(
        kernel in kernel(), wired: bool, large in proptest::bool::weighted(0.1), room in 1usize..5,
        sizes in proptest::collection::vec(proptest::collection::vec(1usize..500, 0..5), 1..20),
        order in proptest::collection::vec(any::<u8>(), 64),
        lost in proptest::collection::vec(any::<proptest::sample::Index>(), 0..8)) {
        // A buffer for the PDU that each circuit has begun, and for each delivery that has not been given back.
        let config = DemuxConfig { circuits: table(large), buffers: 24, max_sdu_octets: 400, any_cpi: false };
        let mut demux = Demux::with_kernel(kernel, config);
        for n in 0..sizes.len() { demux.open(circuit(n)).unwrap(); }
        let lists = sizes.iter().enumerate().map(|(n, sizes)| {
            sizes.iter().flat_map(|size| cells(circuit(n), &vec![n as u8 ^ *size as u8; *size])).collect()
        }).collect();
        let mut input = mixed(lists, &order);
        for i in lost {
            if !input.is_empty() { input.remove(i.index(input.len())); }
        }
        let mut want = Vec::new();
        let mut single: Vec<(Reassembler, Vec<u8>)> = (0..sizes.len())
            .map(|_| (Reassembler::new(ReassemblyConfig { max_sdu_octets: 400, ..Default::default() }), vec![0; 500])).collect();
        for cell in &input {
            let n = (0..sizes.len()).find(|n| circuit(*n) == cell.circuit()).unwrap();
            let (r, buffer) = &mut single[n];
            if let Event::Complete { sdu_octets, .. } = r.push(&[*cell], buffer, Time::ZERO).event {
                want.push((circuit(n), buffer[..sdu_octets].to_vec()));
            }
        }
        let got = run(&mut demux, &input, wired, room);
        prop_assert_eq!(got.len() as u64, demux.counters().pdus);
        prop_assert_eq!(got, want);
        let dropped = |reason| single.iter().map(|(r, _)| r.counters().dropped(reason)).sum::<u64>();
        for reason in DropReason::ALL {
            if *reason != DropReason::Oversize {
                prop_assert_eq!(demux.counters().dropped(*reason), dropped(*reason), "{}", reason);
            }
        }
        // Whatever was lost, no buffer is: what is neither free nor in a PDU that has begun does not exist.
        demux.expire(Time::from_nanos(1));
        prop_assert_eq!(demux.free_buffers(), 24);
    }

    /// Cells in one call go through in blocks, and those of a large table are looked at ahead; one cell a call is neither.
    #[test]
    fn cells_in_one_call_are_taken_as_in_calls_of_one_cell(
        kernel in kernel(), wired: bool, large in proptest::bool::weighted(0.1), room in 0usize..40, buffers in 1u32..40,
        sizes in proptest::collection::vec(proptest::collection::vec(1usize..200, 1..12), 1..12),
        order in proptest::collection::vec(any::<u8>(), 64),
        faults in proptest::collection::vec((any::<proptest::sample::Index>(), Fault::any()), 0..24)) {
        let config = DemuxConfig { circuits: table(large), buffers, max_sdu_octets: 150, any_cpi: false };
        let circuits = sizes.len();
        let lists = sizes.iter().enumerate().map(|(n, sizes)| {
            sizes.iter().flat_map(|size| cells(circuit(n), &vec![n as u8 ^ *size as u8; *size])).collect()
        }).collect();
        let scene = Scene { kernel, wired, config, circuits, room, calls: &[usize::MAX], reopened: &[] };
        same_as_one_by_one(&scene, mixed(lists, &order), &faults)?;
    }

    /// Circuits that take turns are taken a window at a time, as long as nothing befalls them, and their order is known from call to
    /// call; each begins somewhere in a PDU.
    #[test]
    fn circuits_that_take_turns_are_taken_as_in_calls_of_one_cell(
        kernel in kernel(), wired: bool, room in 0usize..100, buffers in 1u32..200, twice: bool,
        circuits in 1usize..150, rounds in 2usize..24,
        calls in proptest::collection::vec(1usize..1200, 1..8),
        reopened in proptest::collection::vec(any::<usize>(), 0..3),
        sizes in proptest::collection::vec(40usize..1500, 1..8),
        mild in proptest::collection::vec((any::<proptest::sample::Index>(), Fault::mild()), 0..20),
        faults in proptest::collection::vec((any::<proptest::sample::Index>(), Fault::any()), 0..4),
        longest in 200usize..1600) {
        let faults = [mild, faults].concat();
        let config = DemuxConfig { circuits: 150, buffers, max_sdu_octets: longest, any_cpi: false };
        let mut lists: Vec<_> = (0..circuits).map(|n| {
            let size = sizes[n % sizes.len()];
            let list = cells(circuit(n), &vec![n as u8 ^ size as u8; size]).into_iter().cycle();
            list.skip(n * 7 % (n + 3))
        }).collect();
        let mut input = Vec::new();
        for _ in 0..rounds {
            for list in &mut lists {
                input.extend(list.next());
            }
            // A circuit twice in a turn.
            if twice {
                input.extend(lists[circuits / 2].next());
            }
        }
        let scene = Scene { kernel, wired, config, circuits, room, calls: &calls, reopened: &reopened };
        same_as_one_by_one(&scene, input, &faults)?;
    }

    #[test]
    fn circuits_come_and_go_and_are_always_found(ops in proptest::collection::vec((any::<bool>(), 0usize..60), 1..300)) {
        let mut demux = Demux::new(DemuxConfig { circuits: 40, buffers: 4, max_sdu_octets: 100, any_cpi: false });
        let mut open = std::collections::BTreeSet::new();
        for (add, n) in ops {
            if add {
                prop_assert_eq!(demux.open(circuit(n)).is_ok(), open.len() < 40 && !open.contains(&n));
                if open.len() < 40 { open.insert(n); }
            } else {
                prop_assert_eq!(demux.close(circuit(n)).is_some(), open.remove(&n));
            }
            for n in 0..60 {
                prop_assert_eq!(demux.circuit(circuit(n)).is_some(), open.contains(&n));
            }
        }
    }
}

#[test]
fn buffers_that_run_out_cost_the_pdus_that_find_none_and_no_others() {
    let mut demux = Demux::new(DemuxConfig { circuits: 3, buffers: 1, max_sdu_octets: 200, any_cpi: false });
    for n in 0..3 {
        demux.open(circuit(n)).unwrap();
    }
    let lists = (0..3).map(|n| cells(circuit(n), &[n as u8; 100])).collect();
    let got = run(&mut demux, &mixed(lists, &[0, 1, 2]), false, 4);
    assert_eq!(got, [(circuit(0), vec![0; 100])]);
    assert_eq!(demux.counters().dropped(DropReason::NoBuffer), 2);
    assert_eq!(run(&mut demux, &cells(circuit(2), &[7; 50]), false, 4), [(circuit(2), vec![7; 50])]);
    assert_eq!(demux.circuit(circuit(2)).unwrap().dropped, 1);
}

#[test]
fn cells_of_no_circuit_are_counted_and_oam_cells_are_the_callers() {
    let mut demux = Demux::new(DemuxConfig::default());
    demux.open(circuit(0)).unwrap();
    let mut pool = vec![0; demux.pool_octets()];
    let oam = wire::CellHeader {
        circuit: circuit(0),
        payload_type: wire::PayloadType::OamSegment,
        ..wire::CellHeader::default()
    };
    let input = [cells(circuit(9), &[1; 10])[0], Cell::new(oam, [0; 48]), cells(circuit(0), &[1; 10])[0]];
    let mut out = [Delivery::default(); 2];
    let progress = demux.push(&input, &mut pool, &mut out, Time::ZERO);
    assert_eq!((progress.cells_used, progress.reason), (1, Reason::NotUser));
    assert_eq!(demux.counters().dropped(DropReason::UnknownCircuit), 1);
    assert_eq!(demux.push(&input[2..], &mut pool, &mut out, Time::ZERO).deliveries, 1);
}

#[test]
fn a_pdu_that_stops_is_dropped_when_the_clock_says_so() {
    let mut demux = Demux::new(DemuxConfig { buffers: 1, ..DemuxConfig::default() });
    demux.open(circuit(0)).unwrap();
    let mut pool = vec![0; demux.pool_octets()];
    let sdu = cells(circuit(0), &[5; 100]);
    let _ = demux.push(&sdu[..2], &mut pool, &mut [], Time::from_millis(3));
    assert_eq!(demux.expire(Time::from_millis(3)), 0);
    assert_eq!(demux.expire(Time::from_millis(4)), 1);
    assert_eq!(demux.counters().dropped(DropReason::Timeout), 1);
    assert_eq!(run(&mut demux, &sdu, false, 1), [(circuit(0), vec![5; 100])]);
}
