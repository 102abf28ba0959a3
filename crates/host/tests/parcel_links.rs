//! Parcels at the link of one host: when they leave, when their buffers come back, and what becomes of them where something else
//! happens on the link.

use crate::pair::{Application, CIRCUITS, GEOMETRY, circuit};
use endpoint::layout::{Descriptor, Head};
use endpoint::{Events, Geometry};
use host::{CircuitConfig, HostInterface};
use net::topology::{CircuitOptions, CircuitTable, OamOptions};
use net::{End, FramePool, LinkConfig, LinkId, Network, Node, NodeId, NodeIo, SduAt, SduMemory, TapBuffer, TapConfig};
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;
use traffic::Contract;
use wire::{Cell, CellHeader, DropReason, Time};

/// Takes parcels off its link and keeps them until the test lets go of them.
#[derive(Default)]
struct Keeper {
    parcels: Vec<net::Parcel>,
    cells: usize,
}

impl Node for Keeper {
    fn run(&mut self, io: &mut NodeIo<'_>, _: Time) -> bool {
        let before = (self.parcels.len(), self.cells);
        loop {
            let n = io.cells_in(0).len();
            self.cells += n;
            io.consume(0, n);
            match io.take_parcel(0) {
                Some(parcel) => self.parcels.push(parcel),
                None if n == 0 => return before != (self.parcels.len(), self.cells),
                None => {}
            }
        }
    }
    fn poll_timeout(&self) -> Option<Time> {
        None
    }
    fn takes_parcels(&self) -> bool {
        true
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

struct Kept {
    network: Network,
    host: NodeId,
    keeper: NodeId,
    link: LinkId,
    end: Application,
    now: Time,
}

impl Kept {
    fn new() -> Self {
        Kept::with(LinkConfig::default(), Events::Polling)
    }

    fn with(config: LinkConfig, events: Events) -> Self {
        let mut network = Network::new(FramePool::new(4, 100));
        let mut host = HostInterface::new(4);
        for vci in CIRCUITS {
            host.add_circuit(circuit(vci), CircuitConfig::default());
        }
        let end = Application::new(&mut host, GEOMETRY, events);
        let host = network.add_node("host", Box::new(host));
        let keeper = network.add_node("keeper", Box::<Keeper>::default());
        let ends = [End::Port(host, 0), End::Port(keeper, 0)];
        let link = network.connect(ends[0], ends[1], config).unwrap();
        Kept { network, host, keeper, link, end, now: Time::ZERO }
    }

    fn push(&mut self, at: usize, octets: u32) {
        let buffer = self.end.idle.pop().unwrap();
        let channel = self.end.channels[at].0;
        assert!(self.end.local.send.push(Head { channel, octets, ..Head::of_buffer(buffer) }));
    }

    /// Cells that have come, and the cells of each parcel.
    fn run(&mut self) -> (usize, Vec<usize>) {
        for _ in 0..5 {
            self.now += Duration::from_micros(1);
            self.network.run(self.now);
        }
        let keeper: &mut Keeper = self.network.node_mut(self.keeper).unwrap();
        (keeper.cells, keeper.parcels.iter().map(net::Parcel::cells).collect())
    }

    fn let_go(&mut self) {
        let keeper: &mut Keeper = self.network.node_mut(self.keeper).unwrap();
        keeper.parcels.clear();
    }
}

#[test]
fn buffers_come_back_once_their_parcel_has_been_read_and_a_channel_has_a_bounded_part_of_its_data_in_parcels() {
    let mut kept = Kept::new();
    // 4096 octets are 86 cells: 1536 cells are seventeen of them and some.
    for _ in 0..20 {
        kept.push(0, 4096);
    }
    let (cells, parcels) = kept.run();
    assert_eq!((cells, parcels.iter().sum::<usize>()), (0, 17 * 86), "{parcels:?}");
    assert_eq!(kept.end.local.send.consumed(), 0);
    // Another channel has room of its own, and what is short goes as a cell.
    kept.push(1, 64);
    kept.push(1, 40);
    let (cells, parcels) = kept.run();
    assert_eq!((cells, parcels.last()), (1, Some(&2)));
    assert_eq!(kept.end.local.send.consumed(), 1, "the short one is done with");
    let host: &mut HostInterface = kept.network.node_mut(kept.host).unwrap();
    let sent = host.circuit_counts(circuit(100)).unwrap().sent;
    assert_eq!((sent.cells, sent.pdus, sent.octets), (17 * 86, 17, 17 * 4096));
    assert_eq!(host.mismatch(), None);
    kept.let_go();
    let (_, parcels) = kept.run();
    assert_eq!((parcels.iter().sum::<usize>(), kept.end.local.send.consumed()), (3 * 86, 19));
    kept.let_go();
    kept.run();
    assert_eq!(kept.end.local.send.consumed(), 22);
}

#[test]
fn a_parcel_has_no_more_cells_than_the_link_has_room_for() {
    let mut kept = Kept::with(LinkConfig { queue_cells: 100, ..LinkConfig::default() }, Events::Polling);
    for _ in 0..3 {
        kept.push(0, 4096);
    }
    assert_eq!(kept.run(), (0, vec![86, 86, 86]));
}

#[test]
fn an_endpoint_that_waits_for_its_tick_gets_its_buffers_back_before() {
    let mut kept = Kept::with(LinkConfig::default(), Events::Clocked { hertz: 1000 });
    kept.push(0, 4096);
    // As many as one tick takes.
    for _ in 1..GEOMETRY.send_ring {
        let d = Head { channel: kept.end.channels[0].0, octets: 8, ..Head::of_buffer(Descriptor::INLINE) };
        assert!(kept.end.local.send.push(d));
    }
    assert_eq!(kept.run(), (31, vec![86]));
    assert_eq!(kept.end.local.send.consumed(), 31);
    kept.let_go();
    kept.run();
    assert!(kept.now < Time::from_micros(20));
    assert_eq!(kept.end.local.send.consumed(), 32);
}

#[test]
fn whoever_looks_at_a_link_sees_cells() {
    let mut kept = Kept::new();
    let config = TapConfig { records: 1000, octets: 100_000, ..TapConfig::default() };
    assert!(kept.network.set_tap(kept.link, Some(config.clone())));
    kept.push(0, 4096);
    assert_eq!(kept.run(), (86, vec![]));
    let mut seen = TapBuffer::new(&config);
    assert!(kept.network.drain_tap(kept.link, &mut seen));
    assert_eq!(seen.len(), 86);
    kept.network.set_tap(kept.link, None);
    kept.push(0, 4096);
    assert_eq!(kept.run(), (86, vec![86]));
}

/// Sends the beginning of a PDU, then a parcel of two.
#[derive(Debug, Default)]
struct Giver(bool);

#[derive(Debug)]
struct Memory(Vec<AtomicU8>);

impl SduMemory for Memory {
    fn octets(&self, at: usize, octets: usize) -> &[AtomicU8] {
        &self.0[at..at + octets]
    }
}

impl Node for Giver {
    fn run(&mut self, io: &mut NodeIo<'_>, _: Time) -> bool {
        if std::mem::replace(&mut self.0, true) {
            return false;
        }
        let header = CellHeader { circuit: circuit(100), ..CellHeader::default() };
        assert!(io.put_cell(0, &Cell::new(header, [1; 48])));
        let memory = Arc::new(Memory((0..2000).map(|n| AtomicU8::new(n as u8)).collect()));
        let mut parcel = io.new_parcel(circuit(100), memory);
        parcel.push(SduAt { at: 0, octets: 200, uu: 0 });
        parcel.push(SduAt { at: 500, octets: 300, uu: 9 });
        io.put_parcel(0, parcel).unwrap();
        true
    }
    fn poll_timeout(&self) -> Option<Time> {
        None
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// Sends so many parcels of twenty SDUs, 840 cells each.
#[derive(Debug)]
struct Many(usize);

impl Node for Many {
    fn run(&mut self, io: &mut NodeIo<'_>, _: Time) -> bool {
        for _ in 0..std::mem::take(&mut self.0) {
            let mut parcel =
                io.new_parcel(circuit(100), Arc::new(Memory((0..2000).map(|n| AtomicU8::new(n as u8)).collect())));
            (0..20).for_each(|_| parcel.push(SduAt { at: 0, octets: 2000, uu: 0 }));
            io.put_parcel(0, parcel).unwrap();
        }
        false
    }
    fn poll_timeout(&self) -> Option<Time> {
        None
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// A host with circuit 0.100 open, behind a node; what it counted on that circuit, and what came.
fn given(giver: Box<dyn Node>, config: CircuitConfig, geometry: Geometry) -> (wire::Counters, Vec<(u32, u8)>) {
    let mut network = Network::new(FramePool::new(4, 100));
    let mut host = HostInterface::new(4);
    for vci in CIRCUITS {
        host.add_circuit(circuit(vci), config.clone());
    }
    let mut end = Application::new(&mut host, geometry, Events::Polling);
    let host = network.add_node("host", Box::new(host));
    let giver = network.add_node("giver", giver);
    network.connect(End::Port(host, 0), End::Port(giver, 0), LinkConfig::default()).unwrap();
    (0..5).for_each(|n| _ = network.run(Time::from_micros(n)));
    let host: &mut HostInterface = network.node_mut(host).unwrap();
    assert_eq!(host.mismatch(), None);
    let mut came = Vec::new();
    while let Some(d) = end.local.receive.pop() {
        came.push((d.head.octets, d.head.uu));
    }
    (host.circuit_counts(circuit(100)).unwrap().received, came)
}

#[test]
fn a_parcel_behind_the_beginning_of_a_pdu_is_as_its_cells() {
    let (counted, came) = given(Box::<Giver>::default(), CircuitConfig::default(), GEOMETRY);
    // Two PDUs became one, whose checksum is wrong.
    assert_eq!(came, [(300, 9)]);
    assert_eq!((counted.cells, counted.pdus, counted.dropped(DropReason::Crc)), (13, 1, 1));
}

#[test]
fn a_circuit_of_best_effort_keeps_no_more_cells_than_one_with_credits() {
    let geometry = Geometry { receive_ring: 256, ..GEOMETRY };
    let [two, three] = [2, 3].map(|n| given(Box::new(Many(n)), CircuitConfig::default(), geometry).0);
    assert_eq!((two.pdus, two.dropped_total()), (8, 0), "1344 cells are kept");
    assert_eq!((three.pdus, three.dropped(DropReason::NoBuffer)), (8, 52));
}

#[test]
fn a_parcel_on_a_circuit_whose_continuity_is_checked_shows_that_it_goes_on() {
    let mut network = Network::new(FramePool::new(4, 100));
    let host = network.add_node("host", Box::new(HostInterface::new(4)));
    let giver = network.add_node("giver", Box::new(Many(0)));
    network.connect(End::Port(host, 0), End::Port(giver, 0), LinkConfig::default()).unwrap();
    let oam = OamOptions { continuity: true, monitoring: None };
    let options =
        CircuitOptions { contract: Contract::default(), aal: net::FrameAal::Aal5, sends: true, receives: true, oam };
    let here: &mut HostInterface = network.node_mut(host).unwrap();
    CircuitTable::add_circuit(here, 0, circuit(100), &options).unwrap();
    for vci in &CIRCUITS[1..] {
        here.add_circuit(circuit(*vci), CircuitConfig::default());
    }
    let _end = Application::new(here, GEOMETRY, Events::Polling);
    let mut alarms = |second: u64, parcels| {
        let now = Time::from_millis(1000 * second);
        let gave: Option<bool> = network.with_node(giver, now, |many: &mut Many, io| {
            many.0 = parcels;
            many.run(io, now)
        });
        assert_eq!(gave, Some(false));
        (0..5).for_each(|n| _ = network.run(now + Duration::from_micros(n)));
        network.node_mut::<HostInterface>(host).unwrap().alarms(circuit(100)).len()
    };
    assert_eq!((0..10).map(|second| alarms(second, 1)).sum::<usize>(), 0);
    assert_eq!((10..20).map(|second| alarms(second, 0)).max(), Some(1));
}

#[test]
fn a_link_that_goes_down_loses_parcels_as_it_loses_their_cells() {
    let mut kept = Kept::new();
    kept.push(0, 4096);
    kept.push(0, 100);
    // The host's run puts a parcel on the link; the link is gone before the keeper runs.
    let host: Option<bool> =
        kept.network.with_node(kept.host, kept.now, |host: &mut HostInterface, io| host.run(io, io.now()));
    assert_eq!(host, Some(true));
    let on_it = kept.network.link_info(kept.link).unwrap().from_a;
    assert_eq!((on_it.sent.cells, on_it.sent.pdus, on_it.unread), (89, 2, 89));
    kept.network.set_link_up(kept.link, false);
    let lost = kept.network.link_info(kept.link).unwrap().from_a;
    assert_eq!((lost.lost, lost.unread, lost.sent.dropped(DropReason::LinkDown)), (89, 0, 89));
    assert!(lost.add_up(net::Carries::Cells));
    let (cells, parcels) = kept.run();
    assert_eq!((cells, parcels.len(), kept.end.local.send.consumed()), (0, 0, 2));
    // What is sent now goes the way of all cells.
    kept.push(0, 100);
    kept.run();
    assert_eq!(kept.network.link_info(kept.link).unwrap().from_a.sent.dropped(DropReason::LinkDown), 92);
}

#[test]
fn an_endpoint_ends_while_its_parcels_are_under_way_and_they_are_still_whole() {
    let mut kept = Kept::new();
    let buffer = kept.end.idle.last().copied().unwrap();
    kept.end.local.segment.copy_in(GEOMETRY.buffer_at(buffer).unwrap(), &[7; 200]);
    kept.push(0, 200);
    kept.run();
    let id = kept.end.id;
    let host: &mut HostInterface = kept.network.node_mut(kept.host).unwrap();
    assert!(host.release_endpoint(id));
    drop(kept.end);
    kept.network.run(kept.now);
    let keeper: &mut Keeper = kept.network.node_mut(kept.keeper).unwrap();
    let [parcel] = &keeper.parcels[..] else { panic!("{} parcels", keeper.parcels.len()) };
    assert!(parcel.octets(&parcel.sdus()[0]).iter().all(|octet| octet.load(Ordering::Relaxed) == 7));
    let mut cells = Vec::new();
    parcel.cut(&mut cells);
    assert_eq!(cells.len(), 5);
}
