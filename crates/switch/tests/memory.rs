//! What a circuit costs at rest, and that cells cost no allocation. A test program of its own: its allocator counts.

#[path = "../../../tests/counting_allocator.rs"]
mod counting_allocator;

use counting_allocator::{allocations, held_octets};
use std::time::Duration;
use switch::{Flow, Profile, Switch, SwitchConfig, Transaction};
use wire::{Cell, CellHeader, CircuitId, Label, PayloadType, Time, credit};

const CIRCUITS: u32 = 1_000_000;

fn vc(key: u32) -> Label {
    Label::Vc(CircuitId::from_key(key))
}

#[test]
fn a_circuit_at_rest_costs_a_line_and_at_most_eight_octets_of_index() {
    // One cell of queue at each port, so that the rest is as good as nothing.
    let config = SwitchConfig {
        ports: 2,
        circuits: CIRCUITS,
        index_pages: CIRCUITS / 256 + 32,
        queue_cells: 1,
        credit_cells: 0,
        control_cells: 1,
        management_cells: 1,
        ..SwitchConfig::default()
    };
    let profile = Profile { pdu_cells: None, queue_cells: 1, ..Profile::default() };
    let before = held_octets();
    let mut switch = Switch::new(config);
    let mut change = Transaction::new();
    for key in 0..CIRCUITS {
        change.add((0, vc(key + 32)), (1, vc(key + 32)), &profile);
    }
    switch.apply(change).unwrap();
    let held = held_octets() - before;
    assert_eq!(switch.circuits(), CIRCUITS as usize);
    assert!(held >= 64 * i64::from(CIRCUITS), "{held}");
    assert!(held <= 72 * i64::from(CIRCUITS), "{} octets for each circuit", held as f64 / f64::from(CIRCUITS));
    assert!(held as usize <= config.max_octets(), "more than the bounds add up to");
    // All of it goes with the circuits' removal and the switch's end.
    let mut change = Transaction::new();
    for key in 0..CIRCUITS {
        change.remove((0, vc(key + 32)));
    }
    switch.apply(change).unwrap();
    assert_eq!(switch.circuits(), 0);
    drop(switch);
    assert_eq!(held_octets(), before);
}

#[test]
fn a_switch_promises_no_more_circuits_than_the_label_table_has_numbers_for() {
    let most = (1 << 23) - 1;
    let config = SwitchConfig { ports: 1, circuits: u32::MAX, queue_cells: 1, ..SwitchConfig::default() };
    let mut switch = Switch::new(config);
    assert_eq!(switch.config().circuits, most);
    switch.set_bounds(1, 10).unwrap();
    assert_eq!(switch.config().circuits, 10);
    switch.set_bounds(1, u32::MAX).unwrap();
    assert_eq!(switch.config().circuits, most);
}

#[test]
fn pages_of_the_label_table_are_bounded_and_come_back() {
    let config = SwitchConfig { ports: 1, circuits: 5000, index_pages: 100, ..SwitchConfig::default() };
    let mut switch = Switch::new(config);
    for _ in 0..50 {
        // A page for each circuit, the most that circuits can cost.
        let mut change = Transaction::new();
        for page in 0..200 {
            change.add((0, vc(page * 256)), (0, vc(page)), &Profile::default());
        }
        let failed = switch.apply(change).unwrap_err();
        assert_eq!(failed.error, switch::ChangeError::IndexFull(100));
        assert_eq!((failed.index, switch.circuits()), (98, 0));
    }
}

#[test]
fn cells_cost_no_allocation() {
    let config = SwitchConfig { ports: 3, circuits: 100, queue_cells: 2000, ..SwitchConfig::default() };
    let mut switch = Switch::new(config);
    let mut change = Transaction::new();
    for port in 0..3 {
        switch.set_credit(port, true);
    }
    let lossless = Profile { flow: Flow::Credit { window: 50 }, ..Profile::default() };
    for key in 0..20 {
        let profile = if key % 4 == 0 { lossless } else { Profile::default() };
        change.add((0, vc(100 + key)), (1, vc(200 + key)), &profile);
        if key % 4 == 1 {
            change.add((0, vc(100 + key)), (2, vc(200 + key)), &profile);
        }
    }
    switch.apply(change).unwrap();
    let mut out = vec![Cell::default(); 300];
    let mut round = |switch: &mut Switch, now: u64| {
        let now = Time::ZERO + Duration::from_millis(now);
        let cells: [Cell; 100] = std::array::from_fn(|i| {
            let payload_type = PayloadType::User { congestion: false, end: i % 7 == 0 };
            let circuit = CircuitId::from_key(100 + (i as u32 * 7) % 20);
            Cell::new(CellHeader { circuit, payload_type, clp: false }, [0; 48])
        });
        switch.handle_cells(0, &cells, now, &mut ());
        switch.handle_timeout(now);
        for port in 0..3 {
            let n = switch.poll_transmit(port, &mut out, now);
            // The neighbour at port 1 grants whatever is asked for.
            for cell in out[..n].iter().filter(|cell| port == 1 && credit::is_credit(cell.header_word())) {
                for entry in credit::parse(&cell.payload).unwrap() {
                    let entry =
                        credit::Entry { kind: credit::Kind::Limit, cells: entry.cells.wrapping_add(40), ..entry };
                    switch.handle_cells(1, &[credit::emit(&[entry])], now, &mut ());
                }
            }
        }
    };
    for now in 0..200 {
        round(&mut switch, now);
    }
    let before = (allocations(), switch.port_counters(1).sent.cells);
    for now in 200..400 {
        round(&mut switch, now);
    }
    assert_eq!(allocations(), before.0);
    assert!(switch.port_counters(1).sent.cells > before.1 + 10_000);
}
