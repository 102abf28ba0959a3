//! Windows of links with a rate: what may wait at the sender, in cell times.

use net::{Carries, End, FramePool, LinkConfig, LinkId, Network, Node, NodeIo, Side};
use std::any::Any;
use std::time::Duration;
use wire::{Cell, CellRate, CircuitId, Time};

/// Takes whatever comes.
struct Sink;

impl Node for Sink {
    fn run(&mut self, io: &mut NodeIo<'_>, _: Time) -> bool {
        let n = io.cells_in(0).len();
        io.consume(0, n);
        let frame = io.frame_in(0).is_some();
        io.release_frame(0);
        frame || n > 0
    }

    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// A link of a thousand cells a second and a window.
fn link(carries: Carries, window: Option<usize>) -> (Network, LinkId) {
    let mut network = Network::new(FramePool::new(1024, 10_000));
    let sink = network.add_node("sink", Box::new(Sink));
    let rate = CellRate::from_cells_per_s(1000.0);
    let config = LinkConfig { carries, rate, queue_cells: 200, ..LinkConfig::default() };
    let link = network.connect(End::External, End::Port(sink, 0), config).unwrap();
    assert!(network.set_link_window(link, Side::A, window));
    (network, link)
}

/// Puts frames of so many octets, or cells, on a link until it takes no more; gives how many it took.
fn fill(network: &mut Network, link: LinkId, octets: usize, now: Time) -> usize {
    fill_as(network, link, octets, false, now)
}

/// [`fill`], of a promised rate or of others.
fn fill_as(network: &mut Network, link: LinkId, octets: usize, promised: bool, now: Time) -> usize {
    let put = |io: &mut NodeIo<'_>| {
        if io.carries(0) == Some(Carries::Cells) {
            return io.put_cell(0, &Cell::default());
        }
        let circuit = CircuitId::new(0, 100).unwrap();
        let sdu = vec![7; octets];
        let frame = io.pool_mut().copy_in(circuit, net::FrameAal::Aal5, sar::SduMeta::default(), &sdu).unwrap();
        let refused = if promised { io.put_promised_frame(0, frame) } else { io.put_frame(0, frame) };
        let taken = refused.is_ok();
        if let Err(frame) = refused {
            io.pool_mut().release(frame);
        }
        taken
    };
    let all = |io: &mut NodeIo<'_>| {
        let taken = (0..).take_while(|_| put(io)).count();
        let room = if promised { io.promised_room(0) } else { io.room(0) };
        assert_eq!(room, 0, "a link that refuses a unit has room");
        taken
    };
    network.external(link, now, all).unwrap()
}

#[test]
fn a_window_holds_as_many_units_as_wait_for_its_cell_times_and_the_one_that_leaves_whatever_their_length() {
    // 40 octets are one cell, 1500 are 32, 9180 are 192.
    let cases = [
        (Carries::Cells, 0, Some(64), 64),
        (Carries::Frames, 40, Some(64), 64),
        // What leaves counts as one.
        (Carries::Frames, 1500, Some(65), 3),
        (Carries::Frames, 1500, Some(66), 4),
        (Carries::Frames, 9180, Some(64), 2),
        (Carries::Frames, 40, Some(0), 1),
        (Carries::Cells, 0, Some(0), 1),
        (Carries::Cells, 0, None, 200),
        (Carries::Frames, 40, Some(1000), 200),
    ];
    for (carries, octets, window, most) in cases {
        let (mut network, link) = link(carries, window);
        let room = network.external(link, Time::ZERO, |io| io.room(0)).unwrap();
        assert_eq!(room, window.unwrap_or(usize::MAX).clamp(1, 200), "{carries:?}");
        assert_eq!(fill(&mut network, link, octets, Time::ZERO), most, "{carries:?} of {octets} octets, {window:?}");
    }
}

#[test]
fn what_has_left_makes_way_and_what_a_link_that_goes_down_had_waiting_does_too() {
    let (mut network, link) = link(Carries::Frames, Some(64));
    assert_eq!(fill(&mut network, link, 1500, Time::ZERO), 3);
    // The first frame has left after 32 ms.
    for (at, taken) in [(31, 0), (32, 1), (33, 0), (64, 1)] {
        network.run(Time::from_millis(at));
        assert_eq!(fill(&mut network, link, 1500, Time::from_millis(at)), taken, "after {at} ms");
    }
    network.set_link_up(link, false);
    network.set_link_up(link, true);
    assert_eq!(fill(&mut network, link, 40, Time::from_millis(65)), 64);
}

#[test]
fn a_link_with_a_delay_and_no_rate_keeps_its_whole_window_once_its_cells_are_on_the_way() {
    let (mut network, link) = link(Carries::Cells, Some(16));
    assert_eq!(fill(&mut network, link, 0, Time::ZERO), 16);
    // What waits still waits, at another rate.
    assert!(network.set_link_rate(link, None, Duration::from_millis(5), Time::ZERO));
    assert_eq!(fill(&mut network, link, 0, Time::ZERO), 0);
    for ms in 0..20 {
        network.run(Time::from_millis(ms));
        assert_eq!(fill(&mut network, link, 0, Time::from_millis(ms)), 16, "after {ms} ms");
    }
}

#[test]
fn frames_of_a_promised_rate_wait_behind_one_long_frame_more_than_others_and_no_longer() {
    // 9180 octets are 192 cells. The queue has 200 slots.
    for (window, first, later) in [(2, 1, 192), (64, 63, 136)] {
        let (mut network, link) = link(Carries::Frames, Some(window));
        assert_eq!(fill(&mut network, link, 9180, Time::ZERO), 2);
        assert_eq!(fill_as(&mut network, link, 40, true, Time::ZERO), first, "window {window}");
        assert_eq!(fill(&mut network, link, 40, Time::ZERO), 0);
        // Once the first long frame has left, the second counts as one cell.
        let now = Time::from_millis(192);
        network.run(now);
        assert_eq!(fill_as(&mut network, link, 40, true, now), later, "window {window}");
    }
    // Without a window nobody waits for one.
    let (mut network, link) = link(Carries::Frames, None);
    assert_eq!(fill_as(&mut network, link, 40, true, Time::ZERO), 200);
}

#[test]
fn what_waits_leaves_at_another_rate_however_much_it_is_and_before_what_comes_later() {
    let (mut network, link) = link(Carries::Cells, None);
    let delivered = |network: &Network| network.link_info(link).unwrap().from_a.delivered.cells;
    assert_eq!(fill(&mut network, link, 0, Time::ZERO), 200);
    network.run(Time::from_millis(10));
    assert_eq!(delivered(&network), 10);
    // One each 10 ms; what comes later waits behind the 190 that are there.
    let (rate, none) = (CellRate::from_cells_per_s(100.0), Duration::ZERO);
    assert!(network.set_link_rate(link, rate, none, Time::from_millis(10)));
    assert_eq!(fill(&mut network, link, 0, Time::from_millis(10)), 10);
    for n in 1..=100 {
        network.run(Time::from_millis(9 + 10 * n));
        assert_eq!(delivered(&network), 9 + n, "just before the time of cell {n}");
        network.run(Time::from_millis(10 + 10 * n));
        assert_eq!(delivered(&network), 10 + n, "at the time of cell {n}");
    }
    // Another one while some have no moments of that yet; many at once.
    let changed = Time::from_millis(1010);
    assert!(network.set_link_rate(link, CellRate::from_cells_per_s(1000.0), none, changed));
    assert_eq!(network.poll_timeout(), Some(Time::from_millis(1011)));
    network.run(Time::from_millis(1100));
    assert_eq!(delivered(&network), 200);
    network.run(Time::from_millis(1109));
    assert_eq!(delivered(&network), 209);
    network.run(Time::from_millis(1110));
    assert_eq!((delivered(&network), network.poll_timeout()), (210, None));
    // Without a rate all of it leaves at once, and in order with what comes.
    assert_eq!(fill(&mut network, link, 0, Time::from_millis(1110)), 200);
    assert!(network.set_link_rate(link, None, none, Time::from_millis(1120)));
    network.run(Time::from_millis(1120));
    assert_eq!(delivered(&network), 410);
}
