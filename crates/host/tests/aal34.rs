//! AAL3/4 circuits from application to application, and against cells that a test makes itself.

use crate::lan::{Lan, circuit, until};
use endpoint::segment::Segment;
use endpoint::{Aal, ChannelId, DataPath, Direction, Endpoint, EndpointConfig, Events, Geometry, OpenOptions};
use host::{CircuitConfig, HostEndpoint, HostInterface};
use net::Carries;
use sar::SduMeta;
use sar::aal34::Interleaver;
use std::sync::Arc;
use std::time::Duration;
use traffic::{Contract, Flow};
use wire::aal34::SegmentType;
use wire::{Cell, DropReason};

const TIMEOUT: Option<Duration> = Some(Duration::from_secs(10));

fn open(lan: &Lan, host: &str, vci: u16, aal: Aal, path: DataPath) -> (Endpoint, ChannelId) {
    let geometry = Geometry { send_ring: 64, receive_ring: 256, free_ring: 256, buffers: 96, buffer_octets: 65_536 };
    let config = EndpointConfig { host: host.into(), geometry, path, send_buffers: Some(64), ..Default::default() };
    let mut endpoint = Endpoint::create(&lan.socket, &config).unwrap();
    let channel = endpoint.open(circuit(vci), OpenOptions { aal, ..OpenOptions::default() }).unwrap();
    (endpoint, channel)
}

fn sdu(octets: usize) -> Vec<u8> {
    (0..octets).map(|i| (i * 131 + octets + (i >> 8)) as u8).collect()
}

#[test]
fn pdus_of_every_size_arrive_octet_for_octet_by_each_data_path_and_link() {
    for carries in [Carries::Cells, Carries::Frames] {
        let lan = Lan::carrying(carries);
        for path in DataPath::ALL {
            let (mut a, to_b) = open(&lan, "alpha", 100, Aal::Aal34, path);
            let (mut b, to_a) = open(&lan, "beta", 100, Aal::Aal34, path);
            for octets in [1, 35, 36, 37, 40, 41, 44, 80, 81, 1500, 9188, 65_535] {
                let sent = sdu(octets);
                a.send_copy(to_b, &sent).unwrap();
                let got = b.receive(TIMEOUT).unwrap().unwrap_or_else(|| panic!("{octets} octets, {path:?}"));
                assert!(got[..] == sent[..], "{octets} octets, {path:?}, {carries:?}");
                drop(got);
                b.send_copy(to_a, &sent).unwrap();
                assert!(a.receive(TIMEOUT).unwrap().expect("an SDU back")[..] == sent[..]);
            }
            let received = lan.received("beta", 100);
            assert_eq!(received.dropped_total(), 0);
            drop((a, b));
            lan.until_free("alpha", 100);
            lan.until_free("beta", 100);
        }
    }
}

#[test]
fn the_cells_are_i_363_3s_with_tags_and_numbers_that_go_on() {
    let lan = Lan::new();
    let (mut a, to_b) = open(&lan, "alpha", 101, Aal::Aal34, DataPath::Shared);
    let (mut b, _) = open(&lan, "beta", 101, Aal::Aal0, DataPath::Shared);
    let mut number = 0;
    for (tag, octets) in [20, 100, 400].into_iter().enumerate() {
        a.send_copy(to_b, &sdu(octets)).unwrap();
        let n = sar::aal34::cells(octets);
        for i in 0..n {
            let message = b.receive(TIMEOUT).unwrap().expect("a cell");
            let cell = sar::aal0::to_cell(&message, circuit(101)).unwrap();
            let (segment, body) = wire::aal34::Segment::parse(&cell.payload).unwrap();
            let segment_type = match (i, n) {
                (0, 1) => SegmentType::Single,
                (0, _) => SegmentType::Begin,
                (i, n) if i + 1 == n => SegmentType::End,
                _ => SegmentType::Continuation,
            };
            assert_eq!((segment.segment_type, segment.sequence, segment.mid), (segment_type, number, 0));
            if i == 0 {
                assert_eq!(usize::from(body[1]), tag);
            }
            number = (number + 1) & 15;
        }
    }
}

/// Sends AAL3/4 cells as AAL0 messages.
fn push(endpoint: &mut Endpoint, channel: ChannelId, cells: &[Cell]) {
    for cell in cells {
        while endpoint.send_copy(channel, &sar::aal0::to_message(cell)).is_err() {
            endpoint.wait_send(TIMEOUT).unwrap();
        }
    }
}

fn interleaved(sdus: &[Vec<u8>]) -> Vec<Cell> {
    let mids: Vec<u16> = (0..sdus.len() as u16).map(|i| i * 60 + 3).collect();
    let mut lanes = Interleaver::new(circuit(102), &mids).unwrap();
    for (lane, sdu) in sdus.iter().enumerate() {
        lanes.begin(lane, sdu.len(), SduMeta::default()).unwrap();
    }
    let mut cells = vec![Cell::default(); lanes.cells_left()];
    let mut at = 0;
    while at < cells.len() {
        at += lanes.fill(|lane| &sdus[lane], &mut cells[at..]).cells;
    }
    cells
}

#[test]
fn pdus_of_several_mids_arrive_beside_each_other_and_what_fails_has_its_reason() {
    let lan = Lan::new();
    let (mut a, to_b) = open(&lan, "alpha", 102, Aal::Aal0, DataPath::Shared);
    let (mut b, _) = open(&lan, "beta", 102, Aal::Aal34, DataPath::Shared);
    let sdus = [sdu(30), sdu(500), sdu(1500), sdu(4000)];
    push(&mut a, to_b, &interleaved(&sdus));
    for expected in &sdus {
        assert!(b.receive(TIMEOUT).unwrap().expect("an SDU")[..] == expected[..], "{} octets", expected.len());
    }

    let mut damaged = interleaved(&sdus);
    damaged[10].payload[20] ^= 1;
    push(&mut a, to_b, &damaged);
    let mut came = 0;
    while came < 3 {
        let got = b.receive(TIMEOUT).unwrap().expect("an SDU of another MID");
        assert!(sdus.iter().any(|sdu| sdu[..] == got[..]), "a wrong SDU was delivered");
        came += 1;
    }
    let received = lan.received("beta", 102);
    assert_eq!(received.dropped(DropReason::Crc), 1, "the cell");
    assert!(received.dropped(DropReason::Sequence) > 1, "its PDU, and the cells left of that");

    // More PDUs begun than may be open.
    let begun: Vec<Vec<u8>> = (0..17).map(|i| sdu(200 + i)).collect();
    push(&mut a, to_b, &interleaved(&begun)[..17]);
    until("one is refused", || lan.received("beta", 102).dropped(DropReason::TooManyOpen) == 1);
    until("the others time out", || lan.received("beta", 102).dropped(DropReason::Timeout) == 16);

    // A PDU that no PDU is of: an AAL5 cell.
    let mut aal5 = [Cell::default()];
    sar::Segmentation::new(circuit(102), 20, SduMeta::default()).unwrap().fill(&[7; 20], &mut aal5);
    push(&mut a, to_b, &aal5);
    until("it is counted", || lan.received("beta", 102).dropped(DropReason::Crc) == 2);

    // All buffers came back: as many as there are can be filled again.
    for _ in 0..3 {
        push(&mut a, to_b, &interleaved(&sdus));
        for expected in &sdus {
            assert!(b.receive(TIMEOUT).unwrap().expect("an SDU")[..] == expected[..]);
        }
    }
}

#[test]
fn a_circuit_that_another_opens_for_sending_delivers_the_pdu_that_is_arriving() {
    let lan = Lan::new();
    // However long this test takes.
    let patient = || CircuitConfig { reassembly_timeout: Some(Duration::from_secs(60)), ..CircuitConfig::default() };
    lan.engine.with(move |core| core.host("beta").unwrap().1.add_circuit(circuit(102), patient())).unwrap();
    let (mut a, to_b) = open(&lan, "alpha", 102, Aal::Aal0, DataPath::Shared);
    let one_way = |direction| OpenOptions { aal: Aal::Aal34, direction, ..OpenOptions::default() };
    let at_beta = |buffer_octets| {
        let geometry = Geometry { send_ring: 4, receive_ring: 4, free_ring: 4, buffers: 4, buffer_octets };
        let config = EndpointConfig { host: "beta".into(), geometry, ..Default::default() };
        Endpoint::create(&lan.socket, &config).unwrap()
    };
    let (mut receiver, mut sender) = (at_beta(1024), at_beta(64));
    receiver.open(circuit(102), one_way(Direction::Receive)).unwrap();
    let sdus = [sdu(500)];
    let cells = interleaved(&sdus);
    let (begin, end) = cells.split_at(cells.len() / 2);
    push(&mut a, to_b, begin);
    until("half of it is there", || lan.received("beta", 102).cells == begin.len() as u64);
    sender.open(circuit(102), one_way(Direction::Send)).unwrap();
    push(&mut a, to_b, end);
    assert!(receiver.receive(TIMEOUT).unwrap().expect("an SDU")[..] == sdus[0][..]);
    // Each buffer is where it should be, then and after as many PDUs as there are buffers.
    for _ in 0..4 {
        assert_eq!(lan.engine.with(|core| core.host("beta").unwrap().1.mismatch()).unwrap(), None);
        push(&mut a, to_b, &cells);
        assert!(receiver.receive(TIMEOUT).unwrap().expect("an SDU")[..] == sdus[0][..]);
    }
}

#[test]
fn a_circuit_with_credits_is_not_opened_with_it() {
    let mut host = HostInterface::new(1);
    let contract = Contract { flow: Flow::Credit, ..Contract::default() };
    host.add_circuit(circuit(102), CircuitConfig { contract, ..CircuitConfig::default() });
    let segment = Arc::new(Segment::anonymous(Geometry::default()).unwrap());
    let id = host.attach(HostEndpoint::new(segment, Events::Polling, DataPath::Shared, None)).unwrap();
    let refused = host.open(id, circuit(102), Aal::Aal34).unwrap_err().to_string();
    assert_eq!(refused, "circuit 0.102 has flow = \"credit\", which is for circuits of aal5 and aal0");
    // It has taken no channel.
    assert_eq!(host.open(id, circuit(102), Aal::Aal5), Ok(ChannelId(0)));
}

#[test]
fn frames_of_another_layer_are_counted_and_dropped() {
    let lan = Lan::carrying(Carries::Frames);
    let (mut a, to_b) = open(&lan, "alpha", 103, Aal::Aal5, DataPath::Shared);
    let (_b, _) = open(&lan, "beta", 103, Aal::Aal34, DataPath::Shared);
    a.send_copy(to_b, &sdu(100)).unwrap();
    until("it is counted", || lan.received("beta", 103).dropped(DropReason::WrongAal) == 1);
}

#[test]
fn a_sender_that_goes_in_the_middle_of_a_pdu_ends_it_with_an_abort() {
    let lan = Lan::new();
    let (mut b, _) = open(&lan, "beta", 200, Aal::Aal34, DataPath::Shared);
    let (mut a, to_b) = open(&lan, "alpha", 200, Aal::Aal34, DataPath::Shared);
    // 1000 cells a second: a PDU of 1363 cells does not leave in half a second.
    a.send_copy(to_b, &sdu(60_000)).unwrap();
    drop(a);
    until("the abort is seen", || lan.received("beta", 200).dropped(DropReason::Aborted) == 1);
    let (mut a, to_b) = open(&lan, "alpha", 200, Aal::Aal34, DataPath::Shared);
    a.send_copy(to_b, &sdu(300)).unwrap();
    assert!(b.receive(TIMEOUT).unwrap().expect("the next one's")[..] == sdu(300)[..]);
}
