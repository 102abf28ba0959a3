//! The switch between external link ends: what goes in at one port comes out at others.

use net::{
    Carries, End, FrameAal, FramePool, Label, LinkConfig, LinkId, Network, NodeId, RouteOptions, SwitchElement,
    SwitchElementConfig,
};
use sar::{Event, Reassembler, ReassemblyConfig, SduMeta, Segmentation};
use wire::oam::{Function, Loopback};
use wire::{Cell, CellHeader, CellRate, CircuitId, DropReason, PayloadType, Time, Vpi};

struct Bench {
    network: Network,
    switch: NodeId,
    links: Vec<LinkId>,
}

fn vc(name: &str) -> Label {
    Label::Vc(id(name))
}

fn id(name: &str) -> CircuitId {
    name.parse().unwrap()
}

impl Bench {
    fn new(ports: &[Carries]) -> Self {
        let mut network = Network::new(FramePool::new(64, 65_568));
        let switch = network.add_node("s1", Box::new(SwitchElement::new(SwitchElementConfig::default())));
        let connect = |(port, carries): (usize, &Carries)| {
            let config = LinkConfig { carries: *carries, ..LinkConfig::default() };
            network.connect(End::External, End::Port(switch, port as u16), config).unwrap()
        };
        let links = ports.iter().enumerate().map(connect).collect();
        Bench { network, switch, links }
    }

    fn route(&mut self, from: (u16, Label), to: (u16, Label)) {
        self.route_as(from, to, FrameAal::Aal5);
    }

    fn route_as(&mut self, from: (u16, Label), to: (u16, Label), aal: FrameAal) {
        self.network
            .node_mut::<SwitchElement>(self.switch)
            .unwrap()
            .add_route(from, to, RouteOptions { aal, ..RouteOptions::default() })
            .unwrap();
    }

    fn send(&mut self, port: usize, cells: &[Cell]) {
        self.network.external(self.links[port], Time::ZERO, |io| assert!(cells.iter().all(|c| io.put_cell(0, c))));
        self.run();
    }

    fn send_frame(&mut self, port: usize, circuit: &str, aal: FrameAal, octets: &[u8]) {
        self.network.external(self.links[port], Time::ZERO, |io| {
            let frame = io.pool_mut().copy_in(id(circuit), aal, SduMeta::default(), octets).unwrap();
            io.put_frame(0, frame).unwrap();
        });
        self.run();
    }

    fn run(&mut self) {
        while self.network.run(Time::ZERO) {}
        self.assert_sums();
    }

    /// Each cell and frame is accounted for, in the switch and at each of its links.
    fn assert_sums(&mut self) {
        let links: Vec<_> = self.network.links().map(|l| (l.ends, l.config.carries, l.from_a, l.from_b)).collect();
        let switch = self.network.peek_node::<SwitchElement>(self.switch).unwrap();
        assert_eq!(switch.mismatch(), None);
        for (ends, carries, into, from) in links {
            let End::Port(_, port) = ends[1] else { continue };
            assert!(into.add_up(carries) && from.add_up(carries), "{into:?} {from:?}");
            assert_eq!(switch.intake_mismatch(port, carries, &into), None);
            assert_eq!(switch.output_mismatch(port, carries, &from), None);
        }
    }

    fn cells(&mut self, port: usize) -> Vec<Cell> {
        let take = |io: &mut net::NodeIo<'_>| {
            let cells = io.cells_in(0).to_vec();
            io.consume(0, cells.len());
            cells
        };
        self.network.external(self.links[port], Time::ZERO, take).unwrap()
    }

    fn frames(&mut self, port: usize) -> Vec<(CircuitId, FrameAal, Vec<u8>)> {
        let take = |io: &mut net::NodeIo<'_>| {
            let mut frames = Vec::new();
            while let Some((frame, octets)) = io.frame_in(0) {
                frames.push((frame.circuit, frame.aal, octets.to_vec()));
                io.release_frame(0);
            }
            frames
        };
        self.network.external(self.links[port], Time::ZERO, take).unwrap()
    }
}

fn sdu(octets: usize) -> Vec<u8> {
    (0..octets).map(|i| (i * 7 + i / 256) as u8).collect()
}

fn cells_of(circuit: &str, sdu: &[u8]) -> Vec<Cell> {
    let mut cells = vec![Cell::default(); sdu.len() / 48 + 2];
    let n = Segmentation::new(id(circuit), sdu.len(), SduMeta::default()).unwrap().fill(sdu, &mut cells);
    cells.truncate(n);
    cells
}

fn sdus_of(cells: &[Cell]) -> Vec<Vec<u8>> {
    let mut reassembler = Reassembler::new(ReassemblyConfig::default());
    let (mut sdus, mut used, mut buffer) = (Vec::new(), 0, vec![0; 65_568]);
    while used < cells.len() {
        let step = reassembler.push(&cells[used..], &mut buffer, Time::ZERO);
        used += step.cells_used;
        if let Event::Complete { sdu_octets, .. } = step.event {
            sdus.push(buffer[..sdu_octets].to_vec());
        }
    }
    sdus
}

const CELLS: Carries = Carries::Cells;
const FRAMES: Carries = Carries::Frames;

#[test]
fn a_vc_is_translated_and_keeps_payload_type_and_priority() {
    let mut b = Bench::new(&[CELLS, CELLS]);
    b.route((0, vc("0.100")), (1, vc("7.200")));
    let payload_type = PayloadType::User { congestion: true, end: true };
    let cell = Cell::new(CellHeader { circuit: id("0.100"), payload_type, clp: true }, [9; 48]);
    b.send(0, &[cell]);
    let got = b.cells(1);
    assert_eq!(got.len(), 1);
    assert_eq!(got[0].header(), CellHeader { circuit: id("7.200"), payload_type, clp: true });
    assert_eq!(got[0].payload, [9; 48]);
}

#[test]
fn a_vp_takes_all_its_channels_along_and_a_vc_goes_before_it() {
    let mut b = Bench::new(&[CELLS, CELLS, CELLS]);
    let vp = |n| Label::Vp(Vpi::new(n).unwrap());
    b.route((0, vp(5)), (1, vp(6)));
    b.route((0, vc("5.50")), (2, vc("1.50")));
    b.send(0, &cells_of("5.40", b"by path"));
    b.send(0, &cells_of("5.50", b"by channel"));
    assert_eq!(b.cells(1)[0].circuit(), id("6.40"));
    assert_eq!(b.cells(2)[0].circuit(), id("1.50"));
}

#[test]
fn point_to_multipoint_gives_each_leaf_all_cells() {
    let mut b = Bench::new(&[CELLS, CELLS, CELLS, FRAMES]);
    for (port, label) in [(1, "0.101"), (2, "0.102"), (3, "0.103")] {
        b.route((0, vc("0.100")), (port, vc(label)));
    }
    let sent = sdu(5000);
    b.send(0, &cells_of("0.100", &sent));
    for port in [1, 2] {
        assert_eq!(sdus_of(&b.cells(port)), vec![sent.clone()]);
    }
    assert_eq!(b.frames(3), vec![(id("0.103"), FrameAal::Aal5, sent)]);
    assert_eq!(b.network.pool().in_use(), 0);
}

#[test]
fn an_unknown_circuit_is_counted_at_its_port() {
    let mut b = Bench::new(&[CELLS, CELLS]);
    b.send(0, &cells_of("0.100", &sdu(100)));
    let switch = b.network.node_mut::<SwitchElement>(b.switch).unwrap();
    assert_eq!(switch.port_drops(0).dropped(DropReason::UnknownCircuit), 3);
}

#[test]
fn counters_of_a_route_tell_cells_in_and_out() {
    let mut b = Bench::new(&[CELLS, CELLS]);
    b.route((0, vc("0.100")), (1, vc("0.100")));
    b.send(0, &cells_of("0.100", &sdu(1000)));
    let switch = b.network.node_mut::<SwitchElement>(b.switch).unwrap();
    let route = switch.routes().next().unwrap();
    assert_eq!((route.received.cells, route.received.octets), (21, 21 * 48));
    assert_eq!((route.branches[0].sent.cells, route.branches[0].sent.octets), (21, 21 * 48));
}

#[test]
fn a_full_output_drops_and_counts_and_a_removed_route_forwards_nothing() {
    let mut b = Bench::new(&[CELLS]);
    let slow = LinkConfig { rate: CellRate::from_cells_per_s(1.0), queue_cells: 10, ..LinkConfig::default() };
    b.links.push(b.network.connect(End::External, End::Port(b.switch, 1), slow).unwrap());
    b.route((0, vc("0.100")), (1, vc("0.100")));
    // 300 PDUs of 21 cells: some leave, some wait in the circuit's queue, the others are dropped whole.
    for _ in 0..3 {
        let pdus: Vec<Cell> = (0..100).flat_map(|_| cells_of("0.100", &sdu(1000))).collect();
        b.send(0, &pdus);
    }
    let switch = b.network.node_mut::<SwitchElement>(b.switch).unwrap();
    let queued = switch.queued(1) as u64;
    let sent = switch.routes().next().unwrap().branches[0].sent;
    let dropped = sent.dropped_total();
    assert_eq!((sent.cells, sent.cells + queued + dropped), (10, 6300));
    assert!(dropped > 0 && dropped.is_multiple_of(21), "{dropped} cells");
    let link = b.network.link_info(b.links[1]).unwrap();
    assert_eq!(link.from_b.sent.dropped(DropReason::EarlyDiscard), dropped);
    let switch = b.network.node_mut::<SwitchElement>(b.switch).unwrap();
    assert!(switch.remove_route(0, vc("0.100"), None));
    assert!(!switch.remove_route(0, vc("0.100"), None));
    assert_eq!((switch.routes().count(), switch.queued(1)), (0, 0));
    b.run();
    let link = b.network.link_info(b.links[1]).unwrap();
    assert_eq!(link.from_b.sent.dropped(DropReason::Closed), queued);
}

#[test]
fn cells_become_frames_and_frames_cells() {
    let mut b = Bench::new(&[CELLS, FRAMES, FRAMES]);
    b.route((0, vc("0.100")), (1, vc("1.42")));
    b.route((1, vc("1.42")), (0, vc("0.100")));
    b.route((1, vc("1.43")), (2, vc("1.44")));
    for octets in [1, 40, 41, 1500, 9188, 65_535] {
        let sent = sdu(octets);
        b.send(0, &cells_of("0.100", &sent));
        assert_eq!(b.frames(1), vec![(id("1.42"), FrameAal::Aal5, sent.clone())], "{octets}");
        b.send_frame(1, "1.42", FrameAal::Aal5, &sent);
        assert_eq!(sdus_of(&b.cells(0)), vec![sent.clone()], "{octets}");
        b.send_frame(1, "1.43", FrameAal::Aal5, &sent);
        assert_eq!(b.frames(2), vec![(id("1.44"), FrameAal::Aal5, sent)], "{octets}");
    }
    assert_eq!(b.network.pool().in_use(), 0);
}

#[test]
fn short_pdus_that_come_together_leave_by_a_frame_link_as_fast_as_it_takes_them() {
    let mut b = Bench::new(&[CELLS, FRAMES]);
    b.route((0, vc("0.100")), (1, vc("1.42")));
    let sent: Vec<_> = (0..100).map(|n| vec![n; 40]).collect();
    b.send(0, &sent.iter().flat_map(|sdu| cells_of("0.100", sdu)).collect::<Vec<_>>());
    let mut came = Vec::new();
    while came.len() < sent.len() {
        let frames = b.frames(1);
        assert!(!frames.is_empty(), "{} came, and no more", came.len());
        came.extend(frames.into_iter().map(|(_, _, sdu)| sdu));
        b.run();
    }
    assert!(came == sent);
    let info = b.network.link_info(b.links[1]).unwrap();
    assert_eq!((info.from_b.sent.pdus, info.from_b.sent.dropped_total()), (100, 0));
}

/// AAL3/4 cells of SDUs under MIDs 1, 2, ..., in turns.
fn interleaved(circuit: &str, sdus: &[Vec<u8>]) -> Vec<Cell> {
    let mids: Vec<u16> = (1..=sdus.len() as u16).collect();
    let mut lanes = sar::aal34::Interleaver::new(id(circuit), &mids).unwrap();
    for (lane, sdu) in sdus.iter().enumerate() {
        lanes.begin(lane, sdu.len(), SduMeta::default()).unwrap();
    }
    let mut cells = Vec::new();
    while lanes.cells_left() > 0 {
        let mut room = [Cell::default(); 64];
        let filled = lanes.fill(|lane| &sdus[lane], &mut room);
        cells.extend_from_slice(&room[..filled.cells]);
    }
    cells
}

#[test]
fn aal34_pdus_of_several_mids_become_frames_beside_each_other_and_frames_become_cells() {
    let mut b = Bench::new(&[CELLS, FRAMES]);
    b.route_as((0, vc("0.100")), (1, vc("1.42")), FrameAal::Aal34);
    b.route_as((1, vc("1.42")), (0, vc("0.100")), FrameAal::Aal34);
    let sdus = [sdu(1), sdu(44), sdu(1500), sdu(9188)];
    b.send(0, &interleaved("0.100", &sdus));
    let frame = |sdu: &Vec<u8>| (id("1.42"), FrameAal::Aal34, sdu.clone());
    assert_eq!(b.frames(1), sdus.iter().map(frame).collect::<Vec<_>>(), "in the order of their ends");

    let mut damaged = interleaved("0.100", &sdus);
    damaged[6].payload[20] ^= 1;
    b.send(0, &damaged);
    assert_eq!(b.frames(1).len(), 3, "all but the one that a cell is missing of");
    let switch = b.network.node_mut::<SwitchElement>(b.switch).unwrap();
    let received = switch.routes().find(|r| r.port == 0).unwrap().received;
    assert_eq!(received.dropped(DropReason::Crc), 1);
    assert!(received.dropped(DropReason::Sequence) > 1, "the PDU, and what was left of it");

    let mut memory = vec![0; 65_568];
    let mut reassembler = sar::aal34::Reassembler::new(sar::aal34::ReassemblyConfig::default());
    let mut tags = std::collections::BTreeSet::new();
    for sdu in &sdus {
        b.send_frame(1, "1.42", FrameAal::Aal34, sdu);
        let cells = b.cells(0);
        assert_eq!((cells.len(), cells[0].circuit()), (sar::aal34::cells(sdu.len()), id("0.100")));
        tags.insert(cells[0].payload[3]);
        let mut slots = sar::aal34::Slots::new(&mut memory, 65_568);
        let step = reassembler.push(&cells, &mut slots, Time::ZERO);
        let sar::aal34::Event::Complete { slot, mid: 0, sdu_octets, .. } = step.event else { panic!("{step:?}") };
        assert_eq!(slots.slot(slot)[..sdu_octets], sdu[..]);
    }
    assert_eq!(tags.len(), sdus.len(), "successive PDUs have different tags");
    assert_eq!(b.network.pool().in_use(), 0);
}

#[test]
fn an_aal34_pdu_that_stops_gives_its_frame_back() {
    let mut b = Bench::new(&[CELLS, FRAMES]);
    b.route_as((0, vc("0.100")), (1, vc("1.42")), FrameAal::Aal34);
    let cells = interleaved("0.100", &[sdu(500), sdu(600)]);
    b.send(0, &cells[..10]);
    assert_eq!(b.network.pool().in_use(), 2);
    while b.network.run(Time::from_millis(10_000)) {}
    assert_eq!(b.network.pool().in_use(), 0);
    b.send(0, &cells[..10]);
    assert!(b.network.node_mut::<SwitchElement>(b.switch).unwrap().remove_route(0, vc("0.100"), None));
    b.run();
    assert_eq!(b.network.pool().in_use(), 0);
}

#[test]
fn unfinished_pdus_of_a_removed_route_are_counted_at_the_port_that_they_would_have_left_by() {
    let mut b = Bench::new(&[CELLS, FRAMES]);
    for (aal, cells, open) in [
        (FrameAal::Aal5, cells_of("0.100", &sdu(500)), 1),
        (FrameAal::Aal34, interleaved("0.100", &[sdu(500), sdu(600)]), 2),
    ] {
        let closed = |b: &Bench| b.network.link_info(b.links[1]).unwrap().from_b.sent.dropped(DropReason::Closed);
        let before = closed(&b);
        b.route_as((0, vc("0.100")), (1, vc("1.42")), aal);
        b.send(0, &cells[..10]);
        assert!(b.network.node_mut::<SwitchElement>(b.switch).unwrap().remove_route(0, vc("0.100"), None));
        b.run();
        assert_eq!((closed(&b) - before, b.network.pool().in_use()), (open, 0), "{aal:?}");
    }
}

#[test]
fn a_pdu_with_a_missing_cell_becomes_no_frame() {
    let mut b = Bench::new(&[CELLS, FRAMES]);
    b.route((0, vc("0.100")), (1, vc("0.100")));
    let mut cells = cells_of("0.100", &sdu(500));
    cells.remove(3);
    b.send(0, &cells);
    assert!(b.frames(1).is_empty());
    let switch = b.network.node_mut::<SwitchElement>(b.switch).unwrap();
    let dropped = switch.routes().next().unwrap().received;
    assert_eq!(dropped.dropped(DropReason::Crc) + dropped.dropped(DropReason::Length), 1);
    assert_eq!(b.network.pool().in_use(), 0);
}

#[test]
fn aal0_cells_cross_as_frames_of_52_octets() {
    let mut b = Bench::new(&[CELLS, FRAMES]);
    b.route_as((0, vc("0.100")), (1, vc("0.200")), FrameAal::Aal0);
    b.route_as((1, vc("0.200")), (0, vc("0.100")), FrameAal::Aal0);
    let payload_type = PayloadType::User { congestion: false, end: true };
    let cell = Cell::new(CellHeader { circuit: id("0.100"), payload_type, clp: true }, [3; 48]);
    b.send(0, &[cell]);
    let frames = b.frames(1);
    assert_eq!((frames.len(), frames[0].1, frames[0].2.len()), (1, FrameAal::Aal0, 52));
    b.send_frame(1, "0.200", FrameAal::Aal0, &frames[0].2);
    let back = b.cells(0);
    assert_eq!((back[0].header(), back[0].payload), (cell.header(), cell.payload));
}

fn loopback(circuit: &str, payload_type: PayloadType) -> Cell {
    let header = CellHeader { circuit: id(circuit), payload_type, clp: false };
    Cell::new(header, Function::Loopback(Loopback::request(77)).emit())
}

fn is_answer(cell: &Cell) -> bool {
    matches!(Function::parse(&cell.payload), Ok(Function::Loopback(Loopback { request: false, correlation: 77, .. })))
}

#[test]
fn a_segment_loopback_is_answered_and_an_end_to_end_one_passes() {
    let mut b = Bench::new(&[CELLS, CELLS]);
    b.route((0, vc("0.100")), (1, vc("0.200")));
    b.send(0, &[loopback("0.100", PayloadType::OamSegment)]);
    let answer = b.cells(0);
    assert!(answer.len() == 1 && is_answer(&answer[0]) && answer[0].circuit() == id("0.100"));
    assert!(b.cells(1).is_empty());
    // What comes back is not answered again.
    b.send(0, &answer);
    assert!(b.cells(0).is_empty() && b.cells(1).is_empty());
    b.send(0, &[loopback("0.100", PayloadType::OamEndToEnd)]);
    let passed = b.cells(1);
    assert!(passed.len() == 1 && passed[0].circuit() == id("0.200") && !is_answer(&passed[0]));
    // No circuit, no answer.
    b.send(0, &[loopback("0.101", PayloadType::OamSegment)]);
    assert!(b.cells(0).is_empty());
}

#[test]
fn the_flows_of_a_path_are_answered_where_the_path_ends() {
    let mut b = Bench::new(&[CELLS, CELLS]);
    let user = PayloadType::default();
    b.route((0, vc("0.100")), (1, vc("0.200")));
    b.route((0, Label::Vp(Vpi::new(9).unwrap())), (1, Label::Vp(Vpi::new(8).unwrap())));
    for circuit in ["0.3", "0.4", "9.3"] {
        b.send(0, &[loopback(circuit, user)]);
        assert!(b.cells(0).iter().any(is_answer), "{circuit}");
    }
    // The path goes on: its end-to-end flow, and its channels' segment flow, pass.
    b.send(0, &[loopback("9.4", user), loopback("9.50", PayloadType::OamSegment)]);
    assert!(b.cells(0).is_empty());
    assert_eq!(b.cells(1).iter().map(Cell::circuit).collect::<Vec<_>>(), [id("8.4"), id("8.50")]);
    b.send(0, &[loopback("3.4", user)]);
    assert!(b.cells(0).is_empty());
}

#[test]
fn an_oam_cell_crosses_to_a_frame_link_and_back() {
    let mut b = Bench::new(&[CELLS, FRAMES]);
    b.route((0, vc("0.100")), (1, vc("0.200")));
    b.route((1, vc("0.200")), (0, vc("0.100")));
    b.send(0, &[loopback("0.100", PayloadType::OamEndToEnd)]);
    let frames = b.frames(1);
    assert_eq!((frames.len(), frames[0].1), (1, FrameAal::Aal0));
    b.send_frame(1, "0.200", FrameAal::Aal0, &frames[0].2);
    let back = b.cells(0);
    assert_eq!(back[0].header(), loopback("0.100", PayloadType::OamEndToEnd).header());
    // A segment request on the frame link is answered there.
    let mut request = frames[0].2.clone();
    request[3] = PayloadType::OamSegment.bits() << 1;
    b.send_frame(1, "0.200", FrameAal::Aal0, &request);
    assert_eq!(b.frames(1).len(), 1);
    assert!(b.cells(0).is_empty());
    assert_eq!(b.network.pool().in_use(), 0);
}

#[test]
fn between_frame_links_a_request_of_the_segment_is_answered_and_one_from_end_to_end_passes() {
    let mut b = Bench::new(&[FRAMES, FRAMES]);
    b.route((0, vc("0.100")), (1, vc("0.200")));
    b.route((1, vc("0.200")), (0, vc("0.100")));
    for (payload_type, at) in [(PayloadType::OamSegment, 0), (PayloadType::OamEndToEnd, 1)] {
        let cell = loopback("0.100", payload_type);
        let octets = [&[0, 0, 0, payload_type.bits() << 1][..], &cell.payload].concat();
        b.send_frame(0, "0.100", FrameAal::Aal0, &octets);
        assert_eq!([0, 1].map(|port| b.frames(port).len()), [1 - at, at], "{payload_type:?}");
    }
}

/// What comes out of a switch, and how much of the output is refused, when a receiver takes ten frames a time and a sender sends
/// what it may.
fn frames_past_a_slow_receiver(b: &mut Bench) -> (Vec<usize>, Vec<u8>, u64) {
    b.route((0, vc("0.100")), (1, vc("0.200")));
    let (mut sent, mut put, mut came) = (0, Vec::new(), Vec::new());
    for _ in 0..8 {
        let put_now = b.network.external(b.links[0], Time::ZERO, |io| {
            let from = sent;
            while let Some(frame) = io.pool_mut().copy_in(id("0.100"), FrameAal::Aal5, SduMeta::default(), &[sent]) {
                if let Err(frame) = io.put_frame(0, frame) {
                    io.pool_mut().release(frame);
                    break;
                }
                sent += 1;
            }
            usize::from(sent - from)
        });
        put.push(put_now.unwrap());
        b.run();
        b.network.external(b.links[1], Time::ZERO, |io| {
            for _ in 0..10 {
                came.extend(io.frame_in(0).map(|(_, sdu)| sdu[0]));
                io.release_frame(0);
            }
        });
    }
    let refused = b.network.link_info(b.links[1]).unwrap().from_b.sent.dropped(DropReason::QueueFull);
    (put, came, refused)
}

#[test]
fn frames_that_pass_together_leave_as_many_buffers_free_as_they_hold() {
    let [mut together, mut alone] = [(); 2].map(|()| Bench::new(&[Carries::Frames, Carries::Frames]));
    // Frames that somebody looks at pass one by one.
    alone.network.set_tap(alone.links[1], Some(net::TapConfig::default()));
    let (put, came, refused) = frames_past_a_slow_receiver(&mut together);
    // Of 64 buffers a third, which leaves each that waits two others; then of what the receiver has left, 11 at first.
    assert_eq!(put[..2], [21, 18]);
    assert!(refused > 0 && came.is_sorted(), "{refused} {came:?}");
    assert_eq!((put, came, refused), frames_past_a_slow_receiver(&mut alone));
}

/// Random cells and frames, routes that come and go, links that go down or are replaced, receivers that read now and then.
fn random_traffic(seed: u64) -> [u64; 2] {
    let carries = [Carries::Cells, Carries::Frames, Carries::Cells, Carries::Frames];
    let mut bench = Bench::new(&carries);
    let mut random = net::random::Random::new(seed);
    let label = |n: usize| if n == 3 { Label::Vp(Vpi::new(1).unwrap()) } else { vc(&format!("0.{}", 100 + n)) };
    let mut reasons = [0; 2];
    for _ in 0..400 {
        let (port, to, n) = (random.index(4), random.index(4), random.index(4));
        let circuit = id(if n == 3 { "1.200" } else { ["0.100", "0.101", "0.102"][n] });
        match random.index(12) {
            0..4 => {
                let cells: Vec<Cell> = (0..random.index(600))
                    .map(|_| {
                        let payload_type = PayloadType::User { congestion: false, end: random.index(9) == 0 };
                        Cell::new(CellHeader { circuit, payload_type, clp: false }, [1; 48])
                    })
                    .collect();
                let oam = Cell::new(
                    wire::oam::Flow::F5Segment.header(CellHeader { circuit, ..CellHeader::default() }),
                    Function::Loopback(Loopback::request(1)).emit(),
                );
                bench.network.external(bench.links[port], Time::ZERO, |io| {
                    if carries[port] == Carries::Cells {
                        for cell in cells.iter().chain([&oam]) {
                            let _ = io.put_cell(0, cell);
                        }
                        return;
                    }
                    for (aal, octets) in [(FrameAal::Aal5, cells.len() * 10), (FrameAal::Aal0, 52), (FrameAal::Aal0, 9)]
                    {
                        let frame = io.pool_mut().copy_in(circuit, aal, SduMeta::default(), &sdu(octets));
                        if let Some(Err(frame)) = frame.map(|frame| io.put_frame(0, frame)) {
                            io.pool_mut().release(frame);
                        }
                    }
                });
            }
            4..7 => {
                let options = RouteOptions::default();
                let (from, to) = ((port as u16, label(n)), (to as u16, label(n)));
                let _ = bench.network.node_mut::<SwitchElement>(bench.switch).unwrap().add_route(from, to, options);
            }
            7 => {
                let only = (random.index(2) == 0).then_some(to as u16);
                bench.network.node_mut::<SwitchElement>(bench.switch).unwrap().remove_route(
                    port as u16,
                    label(n),
                    only,
                );
            }
            8 => {
                let up = random.index(3) > 0;
                bench.network.set_link_up(bench.links[port], up);
            }
            9 => {
                bench.network.remove_link(bench.links[port]);
                let config = LinkConfig { carries: carries[port], queue_cells: 256, ..LinkConfig::default() };
                let ends = [End::External, End::Port(bench.switch, port as u16)];
                bench.links[port] = bench.network.connect(ends[0], ends[1], config).unwrap();
            }
            _ if carries[port] == Carries::Cells => drop(bench.cells(port)),
            _ => drop(bench.frames(port)),
        }
        bench.run();
        for link in bench.network.links() {
            reasons[0] += link.from_b.sent.dropped(DropReason::LinkDown);
            reasons[1] += link.from_b.sent.dropped(DropReason::Closed);
        }
    }
    reasons
}

#[test]
fn whatever_comes_each_cell_and_frame_is_accounted_for_at_each_link() {
    let all: Vec<[u64; 2]> = (1..=20)
        .map(|seed| {
            let run = std::panic::catch_unwind(|| random_traffic(seed));
            run.unwrap_or_else(|_| panic!("seed {seed}"))
        })
        .collect();
    assert!((0..2).all(|reason| all.iter().any(|of| of[reason] > 0)), "{all:?}");
}

#[test]
fn a_link_from_a_switch_to_itself_carries_all_though_it_is_written_while_it_is_read() {
    let mut bench = Bench::new(&[CELLS, CELLS]);
    // What goes out at port 2 comes back at port 3, goes out at port 2 once more, and then leaves.
    let ends = [2, 3].map(|port| End::Port(bench.switch, port));
    let there = LinkConfig { carries: CELLS, ..LinkConfig::default() };
    bench.network.connect(ends[0], ends[1], there).unwrap();
    bench.route((0, vc("0.100")), (2, vc("0.101")));
    bench.route((3, vc("0.101")), (2, vc("0.102")));
    bench.route((3, vc("0.102")), (1, vc("0.103")));
    let sdus: Vec<Vec<u8>> = (0..20).map(|n| sdu(1000 + n)).collect();
    for sdu in &sdus {
        let cells = cells_of("0.100", sdu);
        let sent = bench.network.external(bench.links[0], Time::ZERO, |io| cells.iter().all(|c| io.put_cell(0, c)));
        assert_eq!(sent, Some(true));
    }
    while bench.network.run(Time::ZERO) {}
    assert_eq!(sdus_of(&bench.cells(1)), sdus);
}
