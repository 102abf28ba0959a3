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
    let put = |io: &mut NodeIo<'_>| {
        if io.carries(0) == Some(Carries::Cells) {
            return io.put_cell(0, &Cell::default());
        }
        let circuit = CircuitId::new(0, 100).unwrap();
        let sdu = vec![7; octets];
        let frame = io.pool_mut().copy_in(circuit, net::Aal::Aal5, sar::SduMeta::default(), &sdu).unwrap();
        let refused = io.put_frame(0, frame);
        let taken = refused.is_ok();
        if let Err(frame) = refused {
            io.pool_mut().release(frame);
        }
        taken
    };
    let all = |io: &mut NodeIo<'_>| {
        let taken = (0..).take_while(|_| put(io)).count();
        assert_eq!(io.room(0), 0, "a link that refuses a unit has room");
        taken
    };
    network.external(link, now, all).unwrap()
}

#[test]
fn a_window_holds_as_many_units_as_begin_within_its_cell_times_whatever_their_length() {
    // 40 octets are one cell, 1500 are 32, 9180 are 192.
    let cases = [
        (Carries::Cells, 0, Some(64), 64),
        (Carries::Frames, 40, Some(64), 64),
        (Carries::Frames, 1500, Some(64), 2),
        (Carries::Frames, 1500, Some(65), 3),
        (Carries::Frames, 9180, Some(64), 1),
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
    assert_eq!(fill(&mut network, link, 1500, Time::ZERO), 2);
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
