//! Rounds visit what has something to do, and nothing else.

use net::{
    Carries, End, FrameAal, FramePool, LinkConfig, LinkId, Network, NodeId, RouteOptions, SwitchElement,
    SwitchElementConfig,
};
use sar::SduMeta;
use std::time::Duration;
use wire::{Cell, CellHeader, CellRate, CircuitId, Label, Time};

fn circuit() -> CircuitId {
    CircuitId::new(0, 100).unwrap()
}

/// Switches in a row, from an external end to another; by links with these properties.
fn row(network: &mut Network, switches: usize, config: &LinkConfig) -> (Vec<NodeId>, [LinkId; 2]) {
    let nodes: Vec<NodeId> = (0..switches)
        .map(|n| {
            let mut switch = SwitchElement::new(SwitchElementConfig { ports: 2, kept_ports: 0, max_routes: 4 });
            switch.add_route((0, Label::Vc(circuit())), (1, Label::Vc(circuit())), RouteOptions::default()).unwrap();
            network.add_node(&format!("s{n}"), Box::new(switch))
        })
        .collect();
    let mut join = |a, b| network.connect(a, b, config.clone()).unwrap();
    let first = join(End::External, End::Port(nodes[0], 0));
    for pair in nodes.windows(2) {
        join(End::Port(pair[0], 1), End::Port(pair[1], 0));
    }
    let last = join(End::Port(nodes[switches - 1], 1), End::External);
    (nodes, [first, last])
}

fn put(network: &mut Network, link: LinkId, now: Time) {
    let cell = Cell::new(CellHeader { circuit: circuit(), ..CellHeader::default() }, [7; 48]);
    assert_eq!(network.external(link, now, |io| io.put_cell(0, &cell)), Some(true));
}

fn take(network: &mut Network, link: LinkId, now: Time) -> usize {
    let take = |io: &mut net::NodeIo<'_>| {
        let n = io.cells_in(0).len();
        io.consume(0, n);
        n
    };
    network.external(link, now, take).unwrap()
}

#[test]
fn a_round_visits_the_nodes_that_have_something_to_do() {
    let mut network = Network::new(FramePool::new(4, 64));
    let config = LinkConfig { queue_cells: 16, ..LinkConfig::default() };
    let (_, [into, out]) = row(&mut network, 3, &config);
    for n in 0..1000 {
        network.add_node(
            &format!("idle{n}"),
            Box::new(SwitchElement::new(SwitchElementConfig { ports: 2, kept_ports: 0, max_routes: 4 })),
        );
    }
    while network.run(Time::ZERO) {}
    let before = network.visits();
    for n in 1..=100 {
        let now = Time::from_micros(n);
        put(&mut network, into, now);
        while network.run(now) {}
        assert_eq!(take(&mut network, out, now), 1);
    }
    let visits = network.visits() - before;
    // Each of three switches once for its cell, and once to find nothing more.
    assert!((300..=600).contains(&visits), "{visits} visits for 100 cells through three switches among 1000");
    let before = network.visits();
    for n in 200..300 {
        assert!(!network.run(Time::from_micros(n)));
    }
    assert_eq!(network.visits(), before);
}

#[test]
fn a_slow_link_is_visited_when_a_cell_leaves_or_arrives_and_not_in_between() {
    let mut network = Network::new(FramePool::new(4, 64));
    let rate = CellRate::from_cells_per_s(1000.0).unwrap();
    let slow =
        LinkConfig { rate: Some(rate), delay: Duration::from_millis(5), queue_cells: 64, ..LinkConfig::default() };
    let (_, [into, out]) = row(&mut network, 2, &slow);
    while network.run(Time::ZERO) {}
    for _ in 0..10 {
        put(&mut network, into, Time::ZERO);
    }
    let before = network.visits();
    let (mut arrived, mut now) = (0, Time::ZERO);
    for n in 0..100_000 {
        now = Time::from_micros(n);
        while network.run(now) {}
        arrived += take(&mut network, out, now);
    }
    assert_eq!(arrived, 10);
    let visits = network.visits() - before;
    assert!(visits < 300, "{visits} visits for ten cells over three links");
    assert_eq!(network.poll_timeout().filter(|at| *at <= now), None);
}

#[test]
fn a_round_that_has_had_enough_work_ends_and_the_next_goes_on_behind_it() {
    let mut network = Network::new(FramePool::new(4, 64));
    let config = LinkConfig { queue_cells: 4096, carries: Carries::Cells, ..LinkConfig::default() };
    let rows: Vec<_> = (0..32).map(|_| row(&mut network, 1, &config)).collect();
    while network.run(Time::ZERO) {}
    for (_, [into, _]) in &rows {
        (0..2048).for_each(|_| put(&mut network, *into, Time::ZERO));
    }
    let (mut rounds, mut arrived) = (0, 0);
    while network.run(Time::ZERO) {
        let here: usize = rows.iter().map(|(_, [_, out])| take(&mut network, *out, Time::ZERO)).sum();
        assert!(here <= 16_384 + 2048, "{here} cells in a round");
        arrived += here;
        rounds += 1;
    }
    assert_eq!(arrived, 32 * 2048);
    assert!(rounds >= 4, "{rounds} rounds");
}

#[test]
fn frames_that_pass_a_switch_together_are_as_much_work_as_their_cells() {
    const FRAMES: usize = 64;
    const CELLS_EACH: usize = 32;
    let mut network = Network::new(FramePool::new(16_384, 1520));
    let config = LinkConfig { queue_cells: 4096, carries: Carries::Frames, ..LinkConfig::default() };
    let rows: Vec<_> = (0..32).map(|_| row(&mut network, 1, &config)).collect();
    while network.run(Time::ZERO) {}
    for (_, [into, _]) in &rows {
        let put = network.external(*into, Time::ZERO, |io| {
            for _ in 0..FRAMES {
                let frame = io.pool_mut().copy_in(circuit(), FrameAal::Aal5, SduMeta::default(), &[7; 1520]).unwrap();
                io.put_frame(0, frame).unwrap();
            }
        });
        assert_eq!(put, Some(()));
    }
    let (mut rounds, mut arrived) = (0, 0);
    while network.run(Time::ZERO) {
        let take = |io: &mut net::NodeIo<'_>| {
            std::iter::from_fn(|| io.take_frame(0).map(|f| io.pool_mut().release(f))).count()
        };
        let here: usize = rows.iter().map(|(_, [_, out])| network.external(*out, Time::ZERO, take).unwrap()).sum();
        assert!(here <= 16_384 / CELLS_EACH + FRAMES, "{here} frames in a round");
        arrived += here;
        rounds += 1;
    }
    assert_eq!(arrived, 32 * FRAMES);
    assert!(rounds >= 4, "{rounds} rounds");
}
