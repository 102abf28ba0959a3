//! What passes a congested switch of PDUs: whole ones by early discard, of whatever policy; heads and last cells by partial discard.

use proptest::prelude::*;
use switch::{Discard, Profile, Switch, SwitchConfig, Transaction};
use wire::{Cell, CellHeader, CircuitId, Label, PayloadType, Time};

const CIRCUITS: usize = 6;
const LONGEST: u16 = 12;

fn label(n: usize) -> Label {
    Label::Vc(CircuitId::from_key(n as u32 + 64))
}

/// Cell `number` of PDU `pdu`.
fn cell(n: usize, pdu: u32, number: u16, end: bool, clp: bool) -> Cell {
    let payload_type = PayloadType::User { congestion: false, end };
    let mut cell = Cell::new(CellHeader { circuit: CircuitId::from_key(n as u32 + 64), payload_type, clp }, [0; 48]);
    cell.payload[..4].copy_from_slice(&pdu.to_be_bytes());
    cell.payload[4..6].copy_from_slice(&number.to_be_bytes());
    cell
}

/// Which PDU, and which cell of it.
fn place(cell: &Cell) -> (u32, u16) {
    let payload = &cell.payload;
    (u32::from_be_bytes(payload[..4].try_into().unwrap()), u16::from_be_bytes(payload[4..6].try_into().unwrap()))
}

/// A source that sends PDUs one after another.
#[derive(Clone, Copy, Default)]
struct Source {
    pdu: u32,
    number: u16,
    cells: u16,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn early_discard_passes_whole_pdus_and_partial_discard_nothing_behind_a_lost_cell_but_the_last(
        policy in 0u8..4, low in proptest::option::of(10u32..60), queue in 24u32..120,
        steps in proptest::collection::vec((0..CIRCUITS, 1..=LONGEST, any::<bool>(), 0u8..5), 1..1500),
    ) {
        let threshold = queue / 2;
        let discard = match policy {
            0 => Discard::Whole,
            1 => Discard::Selective { threshold, percent: 80 },
            2 => Discard::Fair { threshold, percent: 80 },
            _ => Discard::Partial,
        };
        let config = SwitchConfig {
            ports: 2, circuits: 16, index_pages: 8, queue_cells: queue, credit_cells: 0, ..SwitchConfig::default()
        };
        let mut switch = Switch::new(config);
        let profile = Profile { pdu_cells: Some(LONGEST), discard, low_priority_cells: low, ..Profile::default() };
        let mut change = Transaction::new();
        (0..CIRCUITS).for_each(|n| change.add((0, label(n)), (1, label(n)), &profile));
        switch.apply(change).unwrap();
        let mut sources = [Source::default(); CIRCUITS];
        // Of each PDU that began: how many cells it has. And what came out.
        let (mut lengths, mut came) = (vec![Vec::new(); CIRCUITS], vec![Vec::new(); CIRCUITS]);
        let mut out = [Cell::default(); 4];
        let mut take = |switch: &mut Switch, most: usize, came: &mut Vec<Vec<(u32, u16)>>| {
            let n = switch.poll_transmit(1, &mut out[..most], Time::ZERO);
            for cell in &out[..n] {
                came[cell.circuit().key() as usize - 64].push(place(cell));
            }
            n
        };
        for (n, cells, clp, room) in steps {
            let source = &mut sources[n];
            if source.number == source.cells {
                *source = Source { pdu: lengths[n].len() as u32, number: 0, cells };
                lengths[n].push(cells);
            }
            let end = source.number + 1 == source.cells;
            switch.handle_cells(0, &[cell(n, source.pdu, source.number, end, clp && end)], Time::ZERO, &mut ());
            source.number += 1;
            take(&mut switch, usize::from(room).min(1), &mut came);
        }
        while take(&mut switch, 4, &mut came) > 0 {}
        for n in 0..CIRCUITS {
            for (pdu, length) in lengths[n].iter().enumerate() {
                let begun = sources[n].pdu as usize == pdu && sources[n].number < *length;
                let offered = if begun { sources[n].number } else { *length };
                let cells: Vec<u16> =
                    came[n].iter().filter(|(of, _)| *of as usize == pdu).map(|(_, number)| *number).collect();
                let head = cells.iter().zip(0..).take_while(|(number, nth)| **number == *nth).count();
                if discard == Discard::Partial {
                    // A head without gaps, and perhaps the last cell.
                    let rest = &cells[head..];
                    prop_assert!(rest.is_empty() || rest == [length - 1], "{cells:?} of {length}");
                } else {
                    prop_assert!(cells.is_empty() || cells.len() == usize::from(offered), "{cells:?} of {offered}");
                }
            }
        }
    }
}
