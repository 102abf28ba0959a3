//! What a fuzzer feeds: every parser and every state machine that a peer can reach, as functions of octets. None may
//! panic, whatever the octets; what parses must come back when it is written again.
//!
//! `fuzz/` drives them with libFuzzer; `tests/replay.rs` replays the corpus and mutations of it in every test run.
#![forbid(unsafe_code)]

mod adapters;
mod captures;
mod desk;
mod layers;
mod machines;
mod myrinet;
mod sessions;
mod signalling;
mod switch;

use wire::erf::Head as ErfHead;
use wire::octets::{Format, emit52, emit53, parse52, parse53};

/// A target.
pub type Target = fn(&[u8]);

/// All targets by name: the folders of the corpus.
pub const TARGETS: &[(&str, Target)] = &[
    ("cell", cell),
    ("hec", hec),
    ("delineation", delineation),
    ("aal1", aal1),
    ("aal2", aal2),
    ("aal34", aal34),
    ("aal5", aal5),
    ("oam", oam),
    ("oam_point", switch::oam_point),
    ("credit", switch::credit),
    ("cell_switch", switch::cell_switch),
    ("llc", llc),
    ("atmarp", atmarp),
    ("atmtcp", atmtcp),
    ("recording", recording),
    ("erf", erf),
    ("pcap", captures::pcap),
    ("sunatm", captures::sunatm),
    ("pseudowire", captures::pseudowire),
    ("pseudowire_link", captures::pseudowire_link),
    ("udp_batch", udp_batch),
    ("myrinet", myrinet::packet),
    ("myrinet_mapping", myrinet::mapping),
    ("myrinet_interface", myrinet::interface),
    ("reassembly", machines::reassembly),
    ("mixed_circuits", machines::mixed_circuits),
    ("aal1_stream", layers::aal1),
    ("aal2_packets", layers::aal2),
    ("aal34_reassembly", layers::aal34),
    ("penn", machines::penn),
    ("eni155p", adapters::eni155p),
    ("vfio_user", adapters::vfio_user),
    ("apic_control", desk::control),
    ("display", desk::display),
    ("atmtcp_link", machines::atmtcp_link),
    ("relay", machines::relay),
    ("udp_link", machines::udp_link),
    ("cells_link", machines::cells_link),
    ("descriptors", machines::descriptors),
    ("session", sessions::session),
    ("control", control),
    ("ip", machines::ip),
    ("transfer", machines::transfer),
    ("sscop", signalling::sscop),
    ("q2931", signalling::q2931),
    ("ilmi", signalling::ilmi),
    ("lane", signalling::lane),
    ("emulated_lan", signalling::emulated_lan),
    ("signalling_port", signalling::port),
    ("registration", signalling::registration),
];

fn cell(octets: &[u8]) {
    for format in [Format::Uni, Format::Nni] {
        if let Ok(cell) = parse53(octets, format) {
            let again = emit53(&cell, format);
            // Flow control bits are not kept; all else is.
            assert_eq!(again[5..], octets[5..53]);
            assert_eq!(parse53(&again, format), Ok(cell));
        }
        if let Ok(cell) = parse52(octets, format) {
            assert_eq!(parse52(&emit52(&cell), format), Ok(cell));
        }
    }
}

fn hec(octets: &[u8]) {
    let mut receiver = wire::hec::Receiver::default();
    for header in octets.as_chunks::<5>().0 {
        let mut header = *header;
        if receiver.check(&mut header) != wire::hec::Verdict::Bad {
            assert_eq!(wire::hec::syndrome(header), 0);
        }
    }
}

fn delineation(octets: &[u8]) {
    let mut receiver = wire::delineation::Delineation::default();
    for octet in octets {
        if let wire::delineation::Event::Cell([a, b, c, d, e, ..]) = receiver.handle_octet(*octet) {
            assert_eq!(wire::hec::syndrome([a, b, c, d, e]), 0);
        }
    }
    let mut line = octets.to_vec();
    wire::delineation::Scrambler::default().scramble(&mut line);
    wire::delineation::Scrambler::default().descramble(&mut line);
    assert_eq!(line, octets);
}

fn aal1(octets: &[u8]) {
    let mut receiver = wire::aal1::Receiver::default();
    for payload in octets.as_chunks::<48>().0 {
        receiver.check(payload[0]);
        for structured in [false, true] {
            if let Ok((number, pointer, stream)) = wire::aal1::parse(payload, structured) {
                assert_eq!(number.to_octet(), payload[0]);
                assert_eq!(pointer.map(|p| p.to_octet()), pointer.map(|_| payload[1]));
                assert_eq!(1 + usize::from(pointer.is_some()) + stream.len(), payload.len());
            }
        }
    }
}

fn aal2(octets: &[u8]) {
    if let Some((first, rest)) = octets.split_first()
        && let Ok(start) = wire::aal2::StartField::parse(*first)
    {
        assert_eq!(start.to_octet(), *first);
        let mut packets = rest.get(usize::from(start.offset)..).unwrap_or_default();
        while let Some((head, rest)) = packets.split_first_chunk()
            && let Ok(header) = wire::aal2::PacketHeader::parse(*head)
        {
            assert_eq!(header.to_octets(), *head);
            packets = rest.get(usize::from(header.payload_octets)..).unwrap_or_default();
        }
    }
}

fn aal34(octets: &[u8]) {
    for payload in octets.as_chunks::<48>().0 {
        if let Ok((segment, body)) = wire::aal34::Segment::parse(payload) {
            assert_eq!(segment.emit(body), *payload);
            assert!(segment.payload_octets().is_none_or(|n| n <= body.len()));
        }
    }
    if let Ok(sdu) = wire::aal34::check(octets) {
        assert_eq!(wire::aal34::cpcs_pdu_octets(sdu.len()), octets.len());
    }
}

fn aal5(octets: &[u8]) {
    if let Ok(trailer) = wire::aal5::check(octets) {
        assert!(usize::from(trailer.length) + 8 <= octets.len());
        assert_eq!(octets[octets.len() - 8..], trailer.to_octets());
    }
}

fn oam(octets: &[u8]) {
    if let Some(payload) = octets.first_chunk::<48>()
        && let Ok(function) = wire::oam::Function::parse(payload)
    {
        assert_eq!(wire::oam::Function::parse(&function.emit()), Ok(function));
    }
}

fn llc(octets: &[u8]) {
    if let Ok((protocol, rest)) = wire::llc::Protocol::parse(octets) {
        let mut head = [0; 10];
        protocol.emit(&mut head);
        assert_eq!(octets.len(), protocol.buffer_len() + rest.len());
    }
}

fn atmarp(octets: &[u8]) {
    if let Ok(packet) = wire::atmarp::Packet::parse(octets) {
        let mut again = [0; wire::atmarp::MAX_OCTETS];
        packet.emit(&mut again);
        assert_eq!(wire::atmarp::Packet::parse(&again[..packet.buffer_len()]), Ok(packet));
    }
}

fn atmtcp(octets: &[u8]) {
    if let Some(head) = octets.first_chunk()
        && let Ok(parsed) = wire::atmtcp::Head::parse(head)
    {
        assert_eq!(parsed.to_octets(), *head);
    }
    if let Ok(control) = wire::atmtcp::Control::parse(octets) {
        let text = control.to_string();
        assert_eq!(wire::atmtcp::Control::parse(text.as_bytes()), Ok(control));
    }
}

fn recording(octets: &[u8]) {
    let mut rest = octets;
    while let Ok(Some((record, left))) = wire::recording::Record::parse(rest) {
        let (head, n) = record.emit();
        let mut again = head[..n].to_vec();
        if let wire::recording::What::Sdu(sdu) = record.what {
            again.extend_from_slice(sdu);
            assert_eq!(again, rest[..rest.len() - left.len()]);
        }
        assert_eq!(wire::recording::Record::parse(&again), Ok(Some((record, &[][..]))));
        rest = left;
    }
}

fn erf(octets: &[u8]) {
    if let Ok((head, payload)) = ErfHead::parse(octets) {
        let mut again = head.emit().to_vec();
        again.extend_from_slice(payload);
        let (back, same) = ErfHead::parse(&again).expect("what was written is read");
        assert_eq!((back.kind, back.header, same), (head.kind, head.header, payload));
    }
}

fn udp_batch(octets: &[u8]) {
    use wire::heartbeat::Heartbeat;
    if let Ok(heartbeat) = Heartbeat::parse(octets) {
        assert_eq!(Heartbeat::parse(&heartbeat.emit()), Ok(heartbeat));
    }
    if let Ok(batch) = wire::udp::Batch::new_checked(octets) {
        let cells: Vec<_> = batch.cells().collect();
        let mut again = [0; wire::udp::MAX_OCTETS];
        let n = wire::udp::emit(batch.sequence, &cells, &mut again);
        assert_eq!(&again[..n], octets);
    }
}

fn control(octets: &[u8]) {
    use endpoint::control::{Request, Response};
    if let Ok(request) = serde_json::from_slice::<Request>(octets) {
        let again = serde_json::to_vec(&request).expect("a request is JSON");
        assert_eq!(serde_json::from_slice::<Request>(&again).ok(), Some(request));
    }
    let _ = serde_json::from_slice::<Response>(octets);
}

/// Feeds the target of this name; what `fuzz/fuzz_targets` call. Panics if there is none of that name.
pub fn run(name: &str, octets: &[u8]) {
    let (_, target) = TARGETS.iter().find(|(n, _)| *n == name).expect("a target of this name");
    target(octets);
}
