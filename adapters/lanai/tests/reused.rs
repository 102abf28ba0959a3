//! What is in a Myrinet when one of its circuits is removed leaves on no other.

#[path = "../../../tests/reused_label.rs"]
mod reused_label;

use lanai::myrinet::{Cable, Layout, Myrinet, Plug};
use net::Carries;
use reused_label::{PORTS, World, attack};
use std::time::Duration;

#[test]
fn what_is_in_a_myrinet_leaves_on_no_circuit_of_the_same_label() {
    let cable = |host| Cable { ends: [Plug::Host(host), Plug::Switch(0, host)], metres: 10.0 };
    for nanos in (0..3_000_000).step_by(70_030) {
        let layout = Layout {
            hosts: (0..PORTS).map(|n| format!("h{n}")).collect(),
            switches: vec![("m1".into(), 8)],
            cables: (0..PORTS).map(cable).collect(),
            ..Layout::default()
        };
        let mut world = World::new(Box::new(Myrinet::new(layout)), Carries::Frames);
        // The first map is drawn.
        world.run(Duration::from_millis(1));
        attack::<Myrinet>(world, nanos);
    }
}
