//! A stream through a network that loses, repeats, inserts and damages: what comes out stands where it was.

use super::*;
use core::time::Duration;
use proptest::prelude::*;
use wire::aal1::{Pointer, SequenceNumber};
use wire::{Cell, CellHeader, CircuitId, DropReason, PayloadType, Time};

fn octet(at: usize) -> u8 {
    (at.wrapping_mul(2_654_435_761) >> 13) as u8
}

fn circuit() -> CircuitId {
    CircuitId::new(0, 100).unwrap()
}

/// `n` cells of a stream, and where each one's octets begin in it.
fn stream(block_octets: Option<usize>, n: usize) -> (Vec<Cell>, Vec<usize>) {
    let mut sender = Sender::new(circuit(), SenderConfig { block_octets, clp: false }).unwrap();
    let mut at = 0;
    let mut starts = Vec::new();
    let mut cells = vec![Cell::default(); n];
    for (i, cell) in cells.iter_mut().enumerate() {
        sender.set_residual((i / 8) as u8);
        starts.push(at);
        let part: Vec<u8> = (at..at + sender.next_octets()).map(octet).collect();
        let filled = sender.fill(&part, core::slice::from_mut(cell));
        assert_eq!(filled, Filled { octets_used: part.len(), cells: 1 });
        at += part.len();
    }
    (cells, starts)
}

/// What a receiver made of cells: octets with their place in the block, `None` for lost ones; breaks; residuals.
#[derive(Debug, Default)]
struct Received {
    octets: Vec<(Option<u8>, usize)>,
    breaks: usize,
    residuals: Vec<Option<u8>>,
}

fn receive(r: &mut Receiver, cells: &[Cell], block_octets: Option<usize>) -> Received {
    let mut out = Received::default();
    let block = block_octets.unwrap_or(1);
    r.push(
        cells,
        |piece| match piece {
            Piece::Octets { octets, block_at } => {
                out.octets.extend(octets.iter().enumerate().map(|(i, o)| (Some(*o), (block_at + i) % block)));
            }
            Piece::Lost { octets, block_at } => out.octets.extend((0..octets).map(|i| (None, (block_at + i) % block))),
            Piece::Break => out.breaks += 1,
            Piece::Residual(residual) => out.residuals.push(residual),
        },
        Time::ZERO,
    );
    out
}

fn receiver(block_octets: Option<usize>) -> Receiver {
    Receiver::new(ReceiverConfig { block_octets, residual: true, timeout: None }).unwrap()
}

/// All octets in their places; those of lost cells missing. Gives how many are missing.
fn in_place(received: &Received, block_octets: Option<usize>) -> usize {
    let mut missing = 0;
    for (at, (got, block_at)) in received.octets.iter().enumerate() {
        assert_eq!(*block_at, at % block_octets.unwrap_or(1), "octet {at}");
        match got {
            Some(got) => assert_eq!(*got, octet(at), "octet {at}"),
            None => missing += 1,
        }
    }
    missing
}

fn block_octets() -> impl Strategy<Value = Option<usize>> {
    prop_oneof![Just(None), Just(Some(1)), (2usize..100).prop_map(Some), (100usize..375).prop_map(Some)]
}

#[test]
fn blocks_of_no_octets_are_refused() {
    assert!(Sender::new(circuit(), SenderConfig { block_octets: Some(0), clp: false }).is_err());
    assert!(Receiver::new(ReceiverConfig { block_octets: Some(0), ..ReceiverConfig::default() }).is_err());
}

#[test]
fn the_first_pointer_points_at_the_octet_behind_it_and_a_long_block_gets_dummies() {
    let (cells, _) = stream(Some(1000), 40);
    assert_eq!(cells[0].payload[1], Pointer::Offset(0).to_octet());
    let pointers: Vec<(usize, Pointer)> = cells
        .iter()
        .enumerate()
        .filter(|(_, cell)| SequenceNumber::parse(cell.payload[0]).unwrap().has_pointer())
        .map(|(i, cell)| (i, Pointer::parse(cell.payload[1]).unwrap()))
        .collect();
    // Cells 0 to 19 hold 2 x 46 + 18 x 47 octets, so that the second block starts 62 on.
    assert_eq!(pointers[..3], [(0, Pointer::Offset(0)), (14, Pointer::Dummy), (20, Pointer::Offset(62))]);
}

#[test]
fn a_stream_without_structure_keeps_its_csi_for_the_time_stamp() {
    let (cells, _) = stream(None, 24);
    for (i, cell) in cells.iter().enumerate() {
        let number = SequenceNumber::parse(cell.payload[0]).unwrap();
        let stamp = (i / 8) as u8;
        let csi = i % 2 == 1 && stamp >> (3 - i % 8 / 2) & 1 != 0;
        assert_eq!(number, SequenceNumber { csi, count: (i % 8) as u8 });
    }
    let mut r = receiver(None);
    assert_eq!(receive(&mut r, &cells, None).residuals, [Some(0), Some(1), Some(2)]);
    let mut gap = cells.clone();
    gap.remove(11);
    let mut r = receiver(None);
    assert_eq!(receive(&mut r, &gap, None).residuals, [Some(0), None, Some(2)]);
}

#[test]
fn a_time_stamp_set_in_the_middle_of_a_cycle_waits_for_the_next() {
    let mut sender = Sender::new(circuit(), SenderConfig::default()).unwrap();
    let mut cells = [Cell::default(); 16];
    sender.set_residual(9);
    let filled = sender.fill(&[0; 3 * 47], &mut cells);
    sender.set_residual(6);
    let _ = sender.fill(&[0; 13 * 47], &mut cells[filled.cells..]);
    assert_eq!(receive(&mut receiver(None), &cells, None).residuals, [Some(9), Some(6)]);
}

#[test]
fn a_pointer_that_contradicts_moves_the_blocks_and_one_that_is_damaged_does_not() {
    let (mut cells, _) = stream(Some(30), 32);
    cells[8].payload[1] ^= 1;
    let mut r = receiver(Some(30));
    let received = receive(&mut r, &cells, Some(30));
    assert_eq!((in_place(&received, Some(30)), received.breaks, r.statistics().pointer_errors), (0, 0, 1));
    cells[8].payload[1] ^= 1 ^ 3;
    let mut r = receiver(Some(30));
    let received = receive(&mut r, &cells, Some(30));
    assert_eq!((received.breaks, r.statistics().pointer_reframes), (2, 2), "there and back");
}

#[test]
fn after_a_break_blocks_wait_for_a_pointer_and_a_time_stamp_for_a_whole_cycle() {
    // Blocks of 41: 20 cells are no whole number of them. The pointers are in cells 0, 8, 16 ...
    let (cells, starts) = stream(Some(41), 48);
    let mut input = cells[..13].to_vec();
    for mut invalid in [cells[13], cells[14]] {
        invalid.payload[0] ^= 3;
        input.push(invalid);
    }
    // The same count, but two cycles on; sync comes with the second of them, the next pointer at 32.
    input.extend_from_slice(&cells[29..]);
    let mut r = receiver(Some(41));
    let received = receive(&mut r, &input, Some(41));
    assert_eq!((received.breaks, r.statistics().sync_losses), (1, 1));
    let whole = starts[13];
    assert_eq!(in_place(&Received { octets: received.octets[..whole].to_vec(), ..Received::default() }, Some(41)), 0);
    for (i, (got, block_at)) in received.octets[whole..].iter().enumerate() {
        let at = starts[32] + i;
        assert_eq!((*got, *block_at), (Some(octet(at)), at % 41));
    }
    // Of the cycle of the break and of the one in which the stream comes back, only halves are there.
    assert_eq!(received.residuals, [Some(0), None, Some(4), Some(5)]);
}

#[test]
fn a_stream_that_stops_is_given_up_after_the_timeout() {
    let config = ReceiverConfig { timeout: Some(Duration::from_millis(3)), ..ReceiverConfig::default() };
    let mut r = Receiver::new(config).unwrap();
    assert_eq!(r.poll_timeout(), None);
    let (cells, _) = stream(None, 4);
    let mut octets = 0;
    r.push(&cells[..2], |_| octets += 47, Time::from_millis(1));
    assert_eq!((octets, r.poll_timeout()), (94, Some(Time::from_millis(4))));
    assert!(!r.handle_timeout(Time::from_millis(3), |_| {}));
    let mut broken = false;
    assert!(r.handle_timeout(Time::from_millis(4), |piece| broken = piece == Piece::Break));
    assert!(broken && r.poll_timeout().is_none());
    // Which of its places the stream goes on at is not known: the first cell waits for a second one.
    r.push(&cells[2..3], |_| unreachable!(), Time::from_millis(5));
    assert!(r.handle_timeout(Time::from_millis(8), |_| unreachable!()));
    assert_eq!((r.statistics().starvations, r.counters().dropped(DropReason::Timeout)), (2, 1));
}

#[test]
fn cells_that_are_not_user_data_are_passed_over() {
    let (mut cells, _) = stream(None, 8);
    let oam = CellHeader { payload_type: PayloadType::OamEndToEnd, ..cells[0].header() };
    cells.insert(4, Cell::new(oam, [0x6a; 48]));
    let mut r = receiver(None);
    assert_eq!(in_place(&receive(&mut r, &cells, None), None), 0);
    assert_eq!(r.counters().cells, 8);
}

#[derive(Debug, Clone, Copy)]
enum Fault {
    /// So many cells in a row.
    Lose(usize),
    Repeat,
    /// A cell of another circuit with this sequence number, unless it happens to be the next one.
    Insert(u8),
    /// These bits of the sequence number octet.
    Damage(u8),
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        (1usize..=6).prop_map(Fault::Lose),
        Just(Fault::Repeat),
        (0u8..16).prop_map(Fault::Insert),
        any::<u8>().prop_map(Fault::Damage),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn a_stream_comes_back_with_its_blocks_and_each_cycle_has_one_pointer(block_octets in block_octets(), cycles in 1usize..40) {
        let (cells, starts) = stream(block_octets, cycles * 8);
        for cycle in cells.chunks(8) {
            let pointers = cycle.iter().filter(|cell| SequenceNumber::parse(cell.payload[0]).unwrap().has_pointer());
            prop_assert_eq!(pointers.count(), usize::from(block_octets.is_some_and(|n| n > 1)));
        }
        let mut r = receiver(block_octets);
        let received = receive(&mut r, &cells, block_octets);
        prop_assert_eq!(in_place(&received, block_octets), 0);
        prop_assert!(received.octets.len() >= starts[starts.len() - 1] + 46);
        prop_assert_eq!(received.residuals.len(), cycles);
        for (i, residual) in received.residuals.iter().enumerate() {
            prop_assert_eq!(*residual, Some(i as u8 & 15));
        }
        prop_assert_eq!(*r.statistics(), Statistics::default());
    }

    #[test]
    fn in_any_portions_the_cells_are_the_same(block_octets in block_octets(), portions in proptest::collection::vec(0usize..200, 1..60)) {
        let (cells, _) = stream(block_octets, 200);
        let mut sender = Sender::new(circuit(), SenderConfig { block_octets, clp: false }).unwrap();
        let (mut waiting, mut at, mut done) = (Vec::new(), 0, 0);
        for portion in portions {
            waiting.extend((at..at + portion).map(octet));
            at += portion;
            let mut room = [Cell::default(); 3];
            sender.set_residual((done / 8) as u8);
            // One at a time around the start of a cycle, where the time stamp is taken over.
            let filled = sender.fill(&waiting, &mut room[..if sender.next_count() == 0 { 1 } else { (8 - usize::from(sender.next_count())).min(3) }]);
            waiting.drain(..filled.octets_used);
            prop_assert_eq!(&room[..filled.cells], &cells[done..done + filled.cells]);
            done += filled.cells;
        }
        prop_assert_eq!(sender.counters().cells, done as u64);
    }

    #[test]
    fn whatever_happens_once_in_a_while_leaves_every_octet_in_its_place(
        block_octets in block_octets(), faults in proptest::collection::vec((fault(), 6usize..20), 1..20)) {
        let (cells, _) = stream(block_octets, 600);
        let mut input = cells[..8].to_vec();
        let (mut next, mut lost, mut strange) = (8, 0, 0);
        for (fault, good) in faults {
            match fault {
                Fault::Lose(n) => { next += n; lost += n }
                Fault::Repeat => { input.push(cells[next - 1]); strange += 1 }
                Fault::Insert(number) => if usize::from(number & 7) != next % 8 {
                    let octet = SequenceNumber { csi: number & 8 != 0, count: number & 7 }.to_octet();
                    let mut payload = [0xee; 48];
                    payload[0] = octet;
                    input.push(Cell::new(CellHeader::default(), payload));
                    strange += 1;
                }
                Fault::Damage(bits) => {
                    let mut cell = cells[next];
                    cell.payload[0] ^= bits;
                    // What then reads as the right count with the other CSI cannot be told from the truth: three bits
                    // of it are the CRC's, so four are wrong at least.
                    let right = SequenceNumber::parse(cells[next].payload[0]).unwrap();
                    if SequenceNumber::correct(cell.payload[0]).is_none_or(|n| n.count != right.count || n == right) {
                        input.push(cell);
                        next += 1;
                    }
                }
            }
            input.extend_from_slice(&cells[next..next + good]);
            next += good;
        }
        let mut r = receiver(block_octets);
        let received = receive(&mut r, &input, block_octets);
        let missing = in_place(&received, block_octets);
        prop_assert!(missing >= lost * 46 && missing <= lost * 47);
        let s = r.statistics();
        prop_assert_eq!((s.lost_cells, s.misinserted_cells, s.sync_losses), (lost as u64, strange, 0));
        prop_assert_eq!((received.breaks, s.pointer_reframes, s.pointer_errors), (0, 0, 0));
    }

    #[test]
    fn after_anything_at_all_three_cycles_bring_the_stream_back(
        block_octets in block_octets(), noise in proptest::collection::vec((any::<u8>(), any::<u8>(), 0usize..100, 0u8..4), 0..100)) {
        let (cells, starts) = stream(block_octets, 160);
        let mut r = receiver(block_octets);
        for (sequence, pointer, i, kind) in noise {
            let mut cell = cells[i];
            match kind {
                0 => cell.payload[0] = sequence,
                1 => cell.payload[1] = pointer,
                2 => (cell.payload[0], cell.payload[1]) = (SequenceNumber { csi: sequence & 8 != 0, count: sequence }.to_octet(), pointer),
                _ => {}
            }
            receive(&mut r, &[cell], block_octets);
        }
        receive(&mut r, &cells[..24], block_octets);
        let received = receive(&mut r, &cells[24..], block_octets);
        prop_assert_eq!(received.breaks, 0);
        for (i, (got, block_at)) in received.octets.iter().enumerate() {
            let at = starts[24] + i;
            prop_assert_eq!((*got, *block_at), (Some(octet(at)), at % block_octets.unwrap_or(1)));
        }
        prop_assert!(received.octets.len() >= 136 * 46);
    }
}
