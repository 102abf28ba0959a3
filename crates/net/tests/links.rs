//! Links of a network between nodes that only send and keep.

use crate::virtual_time::settle;
use net::{Carries, End, FaultConfig, FramePool, LinkConfig, LinkId, Network, Node, NodeId, NodeIo, Outage};
use net::{TapBuffer, TapConfig};
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;
use std::time::Duration;
use wire::{Cell, CellHeader, CellRate, CircuitId, DropReason, PayloadType, Time};

/// Sends what it is told to; keeps what arrives, with its moment.
#[derive(Default)]
struct Probe {
    to_send: Vec<Cell>,
    /// Reads nothing.
    deaf: bool,
    got: Vec<(Time, Cell)>,
}

impl Node for Probe {
    fn run(&mut self, io: &mut NodeIo<'_>, now: Time) -> bool {
        let n = if self.deaf { 0 } else { io.cells_in(0).len() };
        self.got.extend(io.cells_in(0).iter().take(n).map(|c| (now, *c)));
        io.consume(0, n);
        let sent = self.to_send.iter().take_while(|cell| io.put_cell(0, cell)).count();
        self.to_send.drain(..sent);
        n + sent > 0
    }

    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

fn cell(n: u32, end: bool) -> Cell {
    let payload_type = PayloadType::User { congestion: false, end };
    let header = CellHeader { circuit: CircuitId::new(0, 100).unwrap(), payload_type, clp: false };
    let mut cell = Cell::new(header, [0; 48]);
    cell.payload[..4].copy_from_slice(&n.to_be_bytes());
    cell
}

fn pair(config: LinkConfig) -> (Network, NodeId, NodeId, LinkId) {
    let mut network = Network::new(FramePool::new(8, 2048));
    let a = network.add_node("a", Box::<Probe>::default());
    let b = network.add_node("b", Box::<Probe>::default());
    let link = network.connect(End::Port(a, 0), End::Port(b, 0), config).unwrap();
    (network, a, b, link)
}

fn send(network: &mut Network, from: NodeId, n: u32) {
    network.node_mut::<Probe>(from).unwrap().to_send.extend((0..n).map(|i| cell(i, i % 10 == 9)));
}

fn numbers(network: &mut Network, at: NodeId) -> Vec<u32> {
    let got = &network.node_mut::<Probe>(at).unwrap().got;
    got.iter().map(|(_, c)| u32::from_be_bytes(c.payload[..4].try_into().unwrap())).collect()
}

#[test]
fn an_unlimited_link_passes_all_cells_in_order_and_counts_them() {
    let (mut network, a, b, link) = pair(LinkConfig { queue_cells: 100, ..LinkConfig::default() });
    send(&mut network, a, 1000);
    settle(&mut network, Time::ZERO);
    assert_eq!(numbers(&mut network, b), (0..1000).collect::<Vec<_>>());
    let info = network.link_info(link).unwrap();
    assert_eq!((info.from_a.delivered.cells, info.from_a.delivered.pdus), (1000, 100));
    assert_eq!(info.from_a.sent.octets, 48_000);
    assert_eq!(info.from_b.sent.cells, 0);
}

#[test]
fn a_link_with_a_rate_delivers_each_cell_when_its_time_has_come() {
    let delay = Duration::from_micros(50);
    let rate = Some(CellRate::OC3C);
    let (mut network, a, b, _) = pair(LinkConfig { rate, delay, queue_cells: 64, ..LinkConfig::default() });
    send(&mut network, a, 10_000);
    settle(&mut network, Time::ZERO);
    let got = &network.node_mut::<Probe>(b).unwrap().got;
    assert_eq!(got.len(), 10_000);
    for (i, (at, _)) in got.iter().enumerate() {
        let exact = (i as f64 + 1.0) * CellRate::OC3C.interval_nanos() + 50_000.0;
        assert!((at.as_nanos() as f64 - exact).abs() <= 1.5, "cell {i} at {at}");
    }
}

#[test]
fn a_link_that_is_looked_at_twice_a_millisecond_gives_each_cell_the_time_of_its_arrival() {
    for delay in [0, 50, 700].map(Duration::from_micros) {
        let rate = Some(CellRate::OC3C);
        let (mut network, a, b, link) = pair(LinkConfig { rate, delay, queue_cells: 300, ..LinkConfig::default() });
        send(&mut network, a, 3000);
        for now in (0..40).map(|n| Time::ZERO + n * Duration::from_micros(500)) {
            while network.run(now) {}
            let counted = network.link_info(link).unwrap().from_a;
            let got = network.node_mut::<Probe>(b).unwrap().got.len() as u64;
            assert_eq!((counted.delivered.cells, counted.unread), (got, 0), "{delay:?}, at {now}");
            assert!(counted.add_up(Carries::Cells), "{delay:?}, at {now}: {counted:?}");
        }
        assert_eq!(numbers(&mut network, b), (0..3000).collect::<Vec<_>>());
        // A queue's worth leaves in a row; the next begins where the sender was looked at again.
        let got = &network.node_mut::<Probe>(b).unwrap().got;
        for (i, (seen, cell)) in got.iter().enumerate().take(300) {
            let exact = (i as f64 + 1.0) * CellRate::OC3C.interval_nanos() + delay.as_nanos() as f64;
            assert!((cell.at().as_nanos() as f64 - exact).abs() <= 1.5, "cell {i} at {}", cell.at());
            let look = (exact / 500e3).ceil() * 500e3;
            assert_eq!(seen.as_nanos(), look as u64, "cell {i}, {delay:?}");
        }
    }
}

#[test]
fn what_a_link_has_no_room_for_at_its_far_end_has_not_been_delivered() {
    let rate = CellRate::from_cells_per_s(1000.0);
    let (mut network, a, b, link) = pair(LinkConfig { rate, queue_cells: 10, ..LinkConfig::default() });
    network.node_mut::<Probe>(b).unwrap().deaf = true;
    send(&mut network, a, 100);
    for now in (0..100).map(Time::from_millis) {
        while network.run(now) {}
    }
    let counted = network.link_info(link).unwrap().from_a;
    assert_eq!((counted.delivered.cells, counted.unread), (10, 10));
    assert!(counted.add_up(Carries::Cells), "{counted:?}");
    network.node_mut::<Probe>(b).unwrap().deaf = false;
    settle(&mut network, Time::from_millis(100));
    assert_eq!(numbers(&mut network, b), (0..100).collect::<Vec<_>>());
}

#[test]
fn a_full_link_makes_its_sender_wait() {
    let rate = CellRate::from_cells_per_s(1000.0);
    let (mut network, a, _, _) = pair(LinkConfig { rate, queue_cells: 10, ..LinkConfig::default() });
    send(&mut network, a, 100);
    while network.run(Time::ZERO) {}
    assert_eq!(network.node_mut::<Probe>(a).unwrap().to_send.len(), 90);
}

#[test]
fn the_same_seed_loses_repeats_and_delays_the_same_cells() {
    let run = |seed| {
        let reorder_by = Duration::from_micros(30);
        let faults =
            FaultConfig { seed, loss: 0.1, duplication: 0.1, reordering: 0.1, reorder_by, ..Default::default() };
        let config = LinkConfig { rate: Some(CellRate::OC3C), faults: Some(faults), ..LinkConfig::default() };
        let (mut network, a, b, link) = pair(config);
        send(&mut network, a, 2000);
        settle(&mut network, Time::ZERO);
        (numbers(&mut network, b), network.link_info(link).unwrap().from_a)
    };
    let (got, counters) = run(1);
    assert_eq!(run(1).0, got);
    assert_ne!(run(2).0, got);
    assert!(got.windows(2).any(|w| w[0] > w[1]), "nothing was reordered");
    let lost = counters.sent.dropped(DropReason::Lost);
    assert!((100..350).contains(&lost), "{lost}");
    assert_eq!(counters.delivered.cells, got.len() as u64);
    assert!(counters.delivered.cells + lost > 2000, "nothing was repeated");
}

#[test]
fn corruption_flips_one_bit_of_a_cell() {
    let faults = FaultConfig { corruption: 1.0, ..FaultConfig::default() };
    let (mut network, a, b, _) = pair(LinkConfig { faults: Some(faults), ..LinkConfig::default() });
    send(&mut network, a, 100);
    settle(&mut network, Time::ZERO);
    let got = &network.node_mut::<Probe>(b).unwrap().got;
    assert_eq!(got.len(), 100);
    for (i, (_, got)) in got.iter().enumerate() {
        let sent = cell(i as u32, i % 10 == 9);
        let payload: u32 = sent.payload.iter().zip(got.payload).map(|(a, b)| (a ^ b).count_ones()).sum();
        assert_eq!((sent.header_word() ^ got.header_word()).count_ones() + payload, 1);
    }
}

#[test]
fn an_outage_loses_what_is_sent_in_it_and_nothing_else() {
    let outages = vec![Outage { from: Time::from_millis(10), until: Time::from_millis(20) }];
    let faults = FaultConfig { outages, ..FaultConfig::default() };
    let rate = CellRate::from_cells_per_s(1000.0);
    let (mut network, a, b, link) = pair(LinkConfig { rate, faults: Some(faults), ..LinkConfig::default() });
    send(&mut network, a, 30);
    settle(&mut network, Time::ZERO);
    // Cell i leaves at i + 1 ms.
    assert_eq!(numbers(&mut network, b), (0..9).chain(19..30).collect::<Vec<_>>());
    assert_eq!(network.link_info(link).unwrap().from_a.sent.dropped(DropReason::LinkDown), 10);
}

#[test]
fn a_link_that_is_down_takes_and_counts_and_comes_back() {
    let (mut network, a, b, link) = pair(LinkConfig::default());
    assert!(network.set_link_up(link, false));
    send(&mut network, a, 5);
    settle(&mut network, Time::ZERO);
    assert_eq!(network.link_info(link).unwrap().from_a.sent.dropped(DropReason::LinkDown), 5);
    network.set_link_up(link, true);
    send(&mut network, a, 5);
    settle(&mut network, Time::ZERO);
    assert_eq!(numbers(&mut network, b).len(), 5);
}

#[test]
fn what_a_link_that_goes_down_takes_from_before_its_reader_was_not_delivered() {
    for delay in [0, 1] {
        let mut network = Network::new(FramePool::new(8, 2048));
        let a = network.add_node("a", Box::<Probe>::default());
        let config = LinkConfig { delay: Duration::from_millis(delay), ..LinkConfig::default() };
        let link = network.connect(End::Port(a, 0), End::External, config).unwrap();
        send(&mut network, a, 8);
        let now = settle(&mut network, Time::ZERO);
        network.external(link, now, |io| io.consume(0, 5));
        let line = |network: &Network| network.link_info(link).unwrap().from_a;
        let before = line(&network);
        assert_eq!((before.delivered.cells, before.unread, before.taken(Carries::Cells)), (8, 3, 5));
        network.set_link_up(link, false);
        let after = line(&network);
        assert_eq!((after.delivered.cells, after.unread, after.taken(Carries::Cells), after.lost), (5, 0, 5, 3));
        assert_eq!(after.sent.dropped(DropReason::LinkDown), 3);
        assert!(before.add_up(Carries::Cells) && after.add_up(Carries::Cells), "{after:?}");
    }
}

#[test]
fn a_tap_copies_what_it_has_room_for_and_counts_the_rest() {
    let (mut network, a, b, link) = pair(LinkConfig::default());
    let config = TapConfig { records: 3, ..TapConfig::default() };
    network.set_tap(link, Some(config.clone()));
    send(&mut network, a, 5);
    settle(&mut network, Time::from_millis(7));
    let mut seen = TapBuffer::new(&config);
    assert!(network.drain_tap(link, &mut seen));
    assert_eq!((seen.len(), seen.dropped()), (3, 2));
    let first = seen.records().next().unwrap();
    assert_eq!((first.at, first.from), (Time::from_millis(7), net::Side::A));
    assert_eq!(numbers(&mut network, b).len(), 5);
}

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_taps_reader_is_woken_once_for_all_that_comes_until_it_drains_and_when_the_tap_goes() {
    let (mut network, a, _, link) = pair(LinkConfig::default());
    let circuits = vec![CircuitId::new(0, 100).unwrap()];
    let config = TapConfig { records: 3, circuits, ..TapConfig::default() };
    let woken = Arc::new(Woken::default());
    let times = || woken.0.load(Ordering::Relaxed);
    assert!(!network.set_tap_reader(link, woken.clone().into()), "there is no tap");
    network.set_tap(link, Some(config.clone()));
    send(&mut network, a, 1);
    settle(&mut network, Time::ZERO);
    assert!(network.set_tap_reader(link, woken.clone().into()));
    assert_eq!(times(), 1, "for what came before");
    let mut seen = TapBuffer::new(&config);
    for n in 2..5 {
        network.drain_tap(link, &mut seen);
        network.node_mut::<Probe>(a).unwrap().to_send.push(Cell::default());
        settle(&mut network, Time::ZERO);
        assert_eq!(times(), n - 1, "a circuit that is not asked for");
        // More than it has room for, in two rounds.
        for cells in [2, 5] {
            send(&mut network, a, cells);
            settle(&mut network, Time::ZERO);
            assert_eq!(times(), n);
        }
    }
    network.remove_link(link);
    assert_eq!(times(), 5);
}

#[test]
fn a_tap_that_is_read_every_half_second_misses_nothing_of_a_full_oc3c_line() {
    let (mut network, a, b, link) = pair(LinkConfig { rate: Some(CellRate::OC3C), ..LinkConfig::default() });
    let config = TapConfig::default();
    network.set_tap(link, Some(config.clone()));
    let mut seen = TapBuffer::new(&config);
    let (mut now, mut read, mut recorded) = (Time::ZERO, Time::ZERO, 0);
    let end = Time::from_millis(2000);
    while now < end {
        send(&mut network, a, 1000);
        now = settle(&mut network, now);
        assert_eq!(network.node_mut::<Probe>(b).unwrap().got.drain(..).count(), 1000);
        if now >= read + Duration::from_millis(500) || now >= end {
            read = now;
            assert!(network.drain_tap(link, &mut seen));
            assert_eq!(seen.dropped(), 0, "at {now:?}");
            recorded += seen.len() as u64;
        }
    }
    let sent = network.link_info(link).unwrap().from_a.sent.cells;
    assert!(sent > 700_000, "{sent} cells in two seconds: the line was not full");
    assert_eq!(recorded, sent);
}

#[test]
fn a_frame_link_moves_buffers_and_gives_them_back() {
    struct Sink;
    impl Node for Sink {
        fn run(&mut self, io: &mut NodeIo<'_>, _: Time) -> bool {
            let Some((_, sdu)) = io.frame_in(0) else { return false };
            assert_eq!(sdu, b"whole");
            io.release_frame(0);
            true
        }
        fn poll_timeout(&self) -> Option<Time> {
            None
        }
        fn as_any_mut(&mut self) -> &mut dyn Any {
            self
        }
    }
    let mut network = Network::new(FramePool::new(2, 2048));
    let sink = network.add_node("sink", Box::new(Sink));
    let config = LinkConfig { carries: Carries::Frames, ..LinkConfig::default() };
    let link = network.connect(End::External, End::Port(sink, 0), config).unwrap();
    let put = |network: &mut Network| {
        network.external(link, Time::ZERO, |io| {
            let circuit = CircuitId::new(0, 100).unwrap();
            let frame = io.pool_mut().copy_in(circuit, net::FrameAal::Aal5, sar::SduMeta::default(), b"whole").unwrap();
            io.put_frame(0, frame).unwrap();
        })
    };
    for _ in 0..10 {
        put(&mut network);
        settle(&mut network, Time::ZERO);
    }
    assert_eq!(network.link_info(link).unwrap().from_a.delivered.pdus, 10);
    assert_eq!(network.pool().in_use(), 0);
    // A link that goes with frames on it gives their buffers back.
    put(&mut network);
    assert_eq!(network.pool().in_use(), 1);
    assert!(network.remove_link(link));
    assert_eq!(network.pool().in_use(), 0);
    assert!(network.external(link, Time::ZERO, |_| ()).is_none());
}

#[test]
fn a_removed_node_takes_its_links_along_and_its_name_in_calls_dies() {
    let (mut network, a, b, link) = pair(LinkConfig::default());
    assert!(network.remove_node(a).is_some());
    assert!(network.link_info(link).is_none());
    let c = network.add_node("c", Box::<Probe>::default());
    assert_ne!(a, c);
    assert!(network.node_mut::<Probe>(a).is_none());
    assert!(network.connect(End::Port(c, 0), End::Port(b, 0), LinkConfig::default()).is_ok());
    assert!(network.connect(End::Port(c, 0), End::Port(b, 1), LinkConfig::default()).is_err());
}
