//! tshark decodes what we capture: PDUs down to IP with the AAL5 CRC checked, and OAM cells.

use interop::{have, tshark};
use std::io::Write as _;
use std::time::Duration;
use wire::aal5::{self, Trailer};
use wire::erf::{Head, Kind};
use wire::llc::{IPV4, Protocol};
use wire::oam::{
    Activation, BlockCode, Defect, DefectType, Directions, Flow, Function, Location, Loopback, Message, Monitoring,
    Report, Subject,
};
use wire::{CellHeader, CircuitId, crc};

/// An IPv4 packet with a UDP datagram of 4 octets from 10.0.0.1 to 10.0.0.2.
const PACKET: [u8; 32] = [
    0x45, 0, 0, 32, 0, 1, 0, 0, 64, 17, 0x66, 0xCA, 10, 0, 0, 1, 10, 0, 0, 2, 0x13, 0x88, 0x13, 0x89, 0, 12, 0, 0,
    b'a', b't', b'm', b'!',
];

fn header(circuit: &str) -> CellHeader {
    CellHeader { circuit: circuit.parse::<CircuitId>().unwrap(), ..CellHeader::default() }
}

fn record(kind: Kind, header: CellHeader, payload: &[u8]) -> Vec<u8> {
    let time = Duration::from_secs(1_000_000_000);
    let head = Head { time, kind, interface: 0, header, payload_octets: payload.len() as u16 };
    [&head.emit()[..], payload].concat()
}

/// The CPCS-PDU of an IP packet in LLC/SNAP.
fn ip_pdu() -> Vec<u8> {
    let protocol = Protocol::Routed(IPV4);
    let mut pdu = vec![0; protocol.buffer_len()];
    protocol.emit(&mut pdu);
    pdu.extend_from_slice(&PACKET);
    let length = pdu.len() as u16;
    pdu.resize(aal5::cells(pdu.len()) * 48 - aal5::TRAILER_OCTETS, 0);
    pdu.extend_from_slice(&Trailer { uu: 0, cpi: 0, length, crc: 0 }.to_octets());
    let end = pdu.len() - 4;
    let checksum = crc::crc32(&pdu[..end]);
    pdu[end..].copy_from_slice(&checksum.to_be_bytes());
    pdu
}

fn capture(records: &[Vec<u8>]) -> tempfile::NamedTempFile {
    let mut file = tempfile::Builder::new().suffix(".pcap").tempfile().unwrap();
    file.write_all(&tshark::pcap(records)).unwrap();
    file
}

#[test]
fn tshark_decodes_our_erf_records_down_to_ip_and_checks_the_aal5_crc() {
    if !have(tshark::TOOLS) {
        return;
    }
    let good = ip_pdu();
    let mut bad = good.clone();
    bad[45] ^= 1;
    let file = capture(&[
        record(Kind::Aal5, header("0.100"), &good),
        record(Kind::Aal5, header("3.4000"), &bad),
        record(Kind::Cell, Flow::F5EndToEnd.header(header("0.100")), &Function::Loopback(Loopback::request(7)).emit()),
    ]);
    let first = tshark::decode(file.path(), "frame.number == 1").unwrap();
    for line in ["AAL5 CRC: 0x", "(correct)", "Src: 10.0.0.1, Dst: 10.0.0.2", "User Datagram Protocol", "VCI: 100"] {
        assert!(first.contains(line), "no {line:?} in:\n{first}");
    }
    let second = tshark::decode(file.path(), "frame.number == 2").unwrap();
    assert!(second.contains("VCI: 4000") && second.contains("incorrect"), "{second}");
    let third = tshark::decode(file.path(), "frame.number == 3").unwrap();
    assert!(third.contains("Loopback") && third.contains("VCI: 100"), "{third}");
}

/// It knows types, functions and the CRC-10; all behind the function it prints as octets, and function 2 of activation is unknown
/// to it.
#[test]
fn tshark_names_every_oam_cell_and_finds_its_crc_10_correct() {
    if !have(tshark::TOOLS) {
        return;
    }
    let defect = Defect::found(DefectType::LINK, Location::named("s1"));
    let sent = Monitoring { sequence: 1, cells: 128, parities: 0, cells_clp0: 128, stamp: None };
    let report = Report { sent, cells: 127, cells_clp0: 127, errored_parities: None };
    let activation = |subject| {
        let blocks = [BlockCode::of_cells(1024).unwrap(); 2];
        Function::Activation(Activation {
            subject,
            message: Message::Activate,
            directions: Directions::Both,
            tag: 1,
            blocks,
        })
    };
    let cells = [
        (Function::Ais(defect), Flow::F5EndToEnd, "Alarm Indication Signal (0)", "01733100"),
        (Function::Rdi(defect), Flow::F4EndToEnd, "Far End Receive Failure (1)", "01733100"),
        (Function::ContinuityCheck, Flow::F5Segment, "Continuity Check (4)", "6a6a6a6a"),
        (Function::Monitoring(sent), Flow::F5EndToEnd, "Forward Monitoring (0)", "01008000000080ffffffff"),
        (Function::Report(report), Flow::F4Segment, "Backward Reporting (1)", "01008000000080ffffffff"),
        (activation(Subject::Monitoring), Flow::F5EndToEnd, "Performance Monitoring (0)", "0701116a"),
        (activation(Subject::ContinuityCheck), Flow::F5EndToEnd, "Continuity Check (1)", "0701116a"),
        (activation(Subject::ForwardMonitoring), Flow::F5EndToEnd, "Unknown (2)", "0701116a"),
    ];
    let record = |(function, flow, ..): &(Function, Flow, &str, &str)| {
        record(Kind::Cell, flow.header(header("0.100")), &function.emit())
    };
    let file = capture(&cells.iter().map(record).collect::<Vec<_>>());
    for (at, (_, _, name, octets)) in cells.iter().enumerate() {
        let text = tshark::decode(file.path(), &format!("frame.number == {}", at + 1)).unwrap();
        for line in [&format!("Function Type: {name}"), &format!("information: {octets}"), "(correct)"] {
            assert!(text.contains(line), "no {line:?} in:\n{text}");
        }
    }
}
