//! tshark decodes what our signalling formats write: SSCOP, Q.2931, ILMI and LAN emulation, field by field.

use interop::have;
use interop::tshark::{self, SunAtm};
use std::io::Write as _;
use std::time::Duration;
use wire::aal5::{self, Trailer};
use wire::aesa::Aesa;
use wire::ilmi::{self, Binding, Head, Kind, Oid, Value};
use wire::lane::{Control, Destination, Operation};
use wire::q2931::*;
use wire::sscop::{Pdu, Sequence, StatList};
use wire::{CellHeader, CircuitId, crc, erf};

fn circuit(text: &str) -> CircuitId {
    text.parse().unwrap()
}

fn message(reference: u32, kind: MessageType, elements: &[Element]) -> Vec<u8> {
    let mut buffer = vec![0; MAX_OCTETS];
    let mut builder = Builder::new(&mut buffer, CallReference::from_originator(reference), kind);
    assert!(elements.iter().all(|element| builder.push(element)));
    let n = builder.finish();
    buffer.truncate(n);
    buffer
}

fn pdu(pdu: Pdu<'_>) -> Vec<u8> {
    let mut octets = vec![0; pdu.buffer_len()];
    pdu.emit(&mut octets);
    octets
}

fn data(message: &[u8]) -> Vec<u8> {
    pdu(Pdu::Data { s: Sequence::ZERO, data: message })
}

fn file(octets: &[u8]) -> tempfile::NamedTempFile {
    let mut file = tempfile::Builder::new().suffix(".pcap").tempfile().unwrap();
    file.write_all(octets).unwrap();
    file
}

fn addresses() -> [Aesa; 2] {
    ["47000580ffde0000000000000102000000000100", "47000580ffde0000000000000102000000000200"].map(|a| a.parse().unwrap())
}

/// A SETUP with everything that UNI 4.0 has for an ABR call, to which others add.
fn setup() -> Vec<Element> {
    let [calling, called] = addresses();
    let side = Direction { pcr: Some(353_207), mcr: Some(100), ..Direction::default() };
    vec![
        Element::Aal(AalParameters::aal5(9188)),
        Element::Traffic(Traffic { forward: side, backward: side, best_effort: false }),
        Element::Bearer(Bearer { transfer: Some(0x0c), ..Bearer::X }),
        Element::LowLayer(LowLayer::LLC),
        Element::Called(Number::aesa(called)),
        Element::Calling(Party::aesa(calling)),
        Element::Qos(Qos::default()),
        Element::AbrSetup(AbrSetup { icr: [Some(100), Some(200)], frtt: Some(16), ..AbrSetup::default() }),
        Element::Connection(ConnectionId::exactly(0, 100)),
    ]
}

#[test]
fn tshark_reads_our_sscop_and_q2931_in_sunatm_and_erf_captures() {
    if !have(tshark::TOOLS) {
        return;
    }
    let n = Sequence::new;
    let words = [3u32, 5, 7, 8].map(u32::to_be_bytes);
    let sdus = [
        pdu(Pdu::Begin { sq: 1, mr: n(30), uu: &[] }),
        pdu(Pdu::Stat { r: n(3), mr: n(133), ps: n(9), list: StatList::new(&words) }),
        pdu(Pdu::UnsolicitedStat { r: n(3), mr: n(133), from: n(3), to: n(5) }),
        pdu(Pdu::Poll { s: n(7), ps: n(2) }),
        data(&message(1, MessageType::SETUP, &setup())),
        data(&message(
            1,
            MessageType::RELEASE,
            &[Element::Cause(Cause::with(Location::USER, CauseValue::TIMER, b"308"))],
        )),
        data(&message(
            4,
            MessageType::ADD_PARTY,
            &[
                Element::Called(Number::aesa(addresses()[1])),
                Element::EndpointReference(EndpointReference { value: 7, to_originator: false }),
            ],
        )),
        data(&message(
            0,
            MessageType::RESTART,
            &[Element::Connection(ConnectionId::exactly(0, 100)), Element::Restart(RestartClass::Channel)],
        )),
    ];
    let records: Vec<_> = sdus.iter().map(|sdu| (true, circuit("0.5"), sdu.clone())).collect();
    let sun = file(&tshark::sunatm(SunAtm::Signalling, &records));
    // As `cellway capture` writes a signalling channel.
    let records: Vec<_> = sdus.iter().map(|sdu| aal5_record(circuit("0.5"), sdu)).collect();
    let ours = file(&tshark::pcap(&records));
    for capture in [sun.path(), ours.path()] {
        assert_eq!(tshark::count(capture, "sscop").unwrap(), 8);
        assert_eq!(tshark::count(capture, "q2931").unwrap(), 4);
        assert_eq!(tshark::count(capture, "_ws.malformed").unwrap(), 0);
        let seen = |filter: &str, lines: &[&str]| {
            let text = tshark::decode(capture, filter).unwrap();
            for line in lines {
                assert!(text.contains(line), "{filter}: no {line:?} in:\n{text}");
            }
        };
        seen("frame.number == 1", &["PDU Type: Begin", "N(SQ): 1", "N(MR): 30"]);
        seen("frame.number == 2", &["Solicited Status Response", "N(R): 3", "N(MR): 133", "N(PS): 9"]);
        seen("frame.number == 3", &["Unsolicited Status Response", "N(R): 3", "N(MR): 133"]);
        seen("frame.number == 4", &["PDU Type: Status Request", "N(PS): 2", "N(S): 7"]);
        let setup = [
            "Message type: SETUP (0x05)",
            "Call reference value: 000001",
            "AAL type: AAL type 5",
            "Forward maximum CPCS-SDU size: 9188",
            "Forward peak cell rate (CLP = 0 + 1) (0x84)",
            "Bearer class: BCOB-X",
            "User information layer 2 protocol: ISO 8802/2 LLC",
            "VCI: 100",
        ];
        seen("frame.number == 5", &setup);
        seen("frame.number == 6", &["Message type: RELEASE (0x4d)", "Recovery on timer expiry"]);
        seen("frame.number == 7", &["Message type: ADD PARTY", "Endpoint reference"]);
        seen("frame.number == 8", &["Message type: RESTART", "Indicated VC"]);
    }
}

fn aal5_record(circuit: CircuitId, sdu: &[u8]) -> Vec<u8> {
    let mut pdu = sdu.to_vec();
    pdu.resize(aal5::cells(sdu.len()) * 48 - aal5::TRAILER_OCTETS, 0);
    pdu.extend_from_slice(&Trailer { uu: 0, cpi: 0, length: sdu.len() as u16, crc: 0 }.to_octets());
    let end = pdu.len() - 4;
    let checksum = crc::crc32(&pdu[..end]);
    pdu[end..].copy_from_slice(&checksum.to_be_bytes());
    let header = CellHeader { circuit, ..CellHeader::default() };
    let time = Duration::from_secs(1_000_000_000);
    let head = erf::Head { time, kind: erf::Kind::Aal5, interface: 0, header, payload_octets: pdu.len() as u16 };
    [&head.emit()[..], &pdu].concat()
}

#[test]
fn tshark_reads_our_ilmi() {
    if !have(tshark::TOOLS) {
        return;
    }
    let name = Oid::new(&[1, 3, 6, 1, 4, 1, 353, 2, 7, 1, 1, 3, 0, 13]).unwrap();
    let name = name.with(&addresses()[0].prefix().map(u32::from)).unwrap();
    let mut octets = [0; ilmi::MAX_OCTETS];
    let head = Head::Request { kind: Kind::Set, id: 1001, status: ilmi::ErrorStatus::NONE, index: 0 };
    let n = ilmi::emit(&head, &[Binding { name, value: Value::Integer(1) }], &mut octets).unwrap();
    let capture = file(&tshark::sunatm(SunAtm::Ilmi, &[(false, circuit("0.16"), octets[..n].to_vec())]));
    let text = tshark::decode(capture.path(), "frame.number == 1").unwrap();
    let object = "1.3.6.1.4.1.353.2.7.1.1.3.0.13.71.0.5.128.255.222";
    for line in ["community: ILMI", "set-request", "request-id: 1001", object] {
        assert!(text.contains(line), "no {line:?} in:\n{text}");
    }
}

#[test]
fn tshark_reads_our_lan_emulation() {
    if !have(tshark::TOOLS) {
        return;
    }
    let control = Control {
        operation: Operation::JOIN.response(),
        transaction: 77,
        lecid: 3,
        source: Destination::Mac([2, 0, 0, 0, 0, 1]),
        source_atm: addresses()[0],
        lan_type: 1,
        max_frame: 1,
        name: Octets::new(b"lab").unwrap(),
        ..Control::default()
    };
    let mut octets = vec![0; wire::lane::CONTROL_OCTETS];
    control.emit(&[], &mut octets);
    let capture = file(&tshark::sunatm(SunAtm::Lane, &[(false, circuit("0.100"), octets)]));
    let text = tshark::decode(capture.path(), "frame.number == 1").unwrap();
    for line in ["Opcode: LE_JOIN_RESPONSE", "ELAN name: 6c6162", "Requester LECID: 0x0003", "02:00:00:00:00:01"] {
        assert!(text.contains(line), "no {line:?} in:\n{text}");
    }
}
