//! What is in a desk when one of its circuits is removed leaves on no other.

#[path = "../../../tests/reused_label.rs"]
mod reused_label;

use apic::Config;
use apic::desk::{Desk, Layout};
use net::Carries;
use reused_label::{PORTS, World, attack};

#[test]
fn what_is_in_a_desk_leaves_on_no_circuit_of_the_same_label() {
    for nanos in (0..60_000).step_by(1_370) {
        let chip = Config { queue_cells: 64, ..Config::default() };
        let desk = Desk::new(Layout { chips: PORTS, chip, ..Layout::default() }).unwrap();
        attack::<Desk>(World::new(Box::new(desk), Carries::Cells), nanos);
    }
}
