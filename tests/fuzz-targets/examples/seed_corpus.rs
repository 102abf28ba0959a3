//! Writes the corpus's first files: `cargo run -p fuzz-targets --example seed_corpus`. Files that a fuzzer added stay.

use endpoint::layout::{Descriptor, Head};
use sar::{SduMeta, Segmentation};
use std::path::Path;
use wire::llc::Protocol;
use wire::oam::{
    Activation, BlockCode, Defect, DefectType, Directions, Function, Location, Loopback, Message, Monitoring, Report,
    Subject,
};
use wire::octets::{Format, emit52, emit53};
use wire::{Cell, CellHeader, CircuitId};

/// An OAM cell of each kind.
fn oam_functions() -> [(&'static str, Function); 7] {
    let defect = Defect::found(DefectType::LINK, Location::named("s1"));
    let sent = Monitoring { sequence: 3, cells: 384, parities: 0x1234, cells_clp0: 380, stamp: None };
    let activation = Activation {
        subject: Subject::Monitoring,
        message: Message::Activate,
        directions: Directions::Both,
        tag: 7,
        blocks: [BlockCode::of_cells(128), BlockCode::of_cells(1024)].map(Option::unwrap_or_default),
    };
    [
        ("ais", Function::Ais(defect)),
        ("rdi", Function::Rdi(defect)),
        ("continuity_check", Function::ContinuityCheck),
        ("loopback", Function::Loopback(Loopback::request(1))),
        ("monitoring", Function::Monitoring(sent)),
        ("report", Function::Report(Report { sent, cells: 383, cells_clp0: 380, errored_parities: None })),
        ("activation", Function::Activation(activation)),
    ]
}

fn cells(sdu: &[u8]) -> Vec<Cell> {
    let mut s =
        Segmentation::new(CircuitId::from_key(100), sdu.len(), SduMeta::default()).expect("a length that AAL5 has");
    let mut cells = vec![Cell::default(); s.cells_left()];
    s.fill(sdu, &mut cells);
    cells
}

/// Blocks of 24 octets.
fn aal1_cells() -> Vec<Cell> {
    let config = sar::aal1::SenderConfig { block_octets: Some(24), clp: false };
    let mut sender = sar::aal1::Sender::new(CircuitId::from_key(100), config).expect("blocks of some octets");
    sender.set_residual(5);
    let mut cells = vec![Cell::default(); 16];
    let _ = sender.fill(&[0xd7; 16 * 47], &mut cells);
    cells
}

/// Packets of several lengths, one header across two cells.
fn aal2_cells() -> Vec<Cell> {
    let mut sender = sar::aal2::Sender::new(CircuitId::from_key(100), sar::aal2::SenderConfig::default());
    let mut cells = Vec::new();
    let mut room = [Cell::default(); 2];
    for (cid, octets) in [(8, 42), (10, 45), (11, 1), (8, 45), (200, 20)] {
        let packet = sar::aal2::Packet { cid, uui: 3, payload: &[cid; 45][..octets] };
        let n = sender.push(packet, &mut room, wire::Time::ZERO).expect("a packet that AAL2 has");
        cells.extend_from_slice(&room[..n]);
    }
    let [last, _] = &mut room;
    sender.flush(last);
    cells.push(*last);
    cells
}

/// Two MIDs in turn, then one cell alone.
fn aal34_cells() -> Vec<Cell> {
    let mut lanes = sar::aal34::Interleaver::new(CircuitId::from_key(100), &[1, 2]).expect("two MIDs");
    let mut cells = Vec::new();
    for octets in [[100, 500], [20, 0]] {
        for (lane, octets) in octets.into_iter().enumerate() {
            lanes.begin(lane, octets, SduMeta::default()).expect("a free lane");
        }
        while lanes.cells_left() > 0 {
            let mut room = [Cell::default(); 4];
            let filled = lanes.fill(|_| &[0x5a; 500], &mut room);
            cells.extend_from_slice(&room[..filled.cells]);
        }
    }
    cells
}

/// A packet by way of two switches.
fn myrinet_packet(kind: lanai::packet::Kind, payload: &[u8]) -> Vec<u8> {
    let route = [3, -1].map(|ports| lanai::packet::Turn::new(ports).expect("a short distance"));
    let mut octets = vec![0; lanai::packet::packet_octets(route.len(), payload.len())];
    lanai::packet::emit(&route, kind, payload, &mut octets);
    octets
}

/// Steps of an interface: what happens, and the octets of it.
fn myrinet_steps(steps: &[(u8, &[u8])]) -> Vec<u8> {
    steps.iter().flat_map(|(step, octets)| [&[*step, octets.len() as u8][..], octets].concat()).collect()
}

/// A message of a hundred octets to a user interface, in one part; of a group or not.
fn myrinet_part(to_interface: u8, group: u16) -> Vec<u8> {
    use lanai::packet::message::Head;
    let head = Head { from: 0x60dd_0002, to_interface, group, number: 7, total: 100, ..Head::default() };
    [&head.emit()[..], &[0x5a; 100]].concat()
}

/// A scout, and routes to two hosts.
fn myrinet_messages() -> [Vec<u8>; 2] {
    use lanai::packet::mapping::{Body, Entries, Message, emit_entry, entry_octets};
    let mut entries = vec![0; entry_octets(1) + entry_octets(2)];
    let n = emit_entry(0x60dd_0001, &[0x83], &mut entries);
    emit_entry(0x60dd_0002, &[0xbf, 0x82], &mut entries[n..]);
    let entries = Entries::new_checked(&entries).expect("two entries");
    let routes = Body::Routes { back: &[0x81], entries };
    [Body::Scout { back: &[0xbd, 0x81] }, routes].map(|body| {
        let message = Message { from: 0x60dd_0009, number: 7, body };
        let mut octets = vec![0; message.buffer_len()];
        message.emit(&mut octets);
        octets
    })
}

/// Capture files of one record each, SunATM records, and packets of pseudowires.
fn put_captures(put: &impl Fn(&str, &str, &[u8]) -> std::io::Result<()>) -> std::io::Result<()> {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
    let record = [0x82, 8, 0, 35, 0xaa, 0xaa, 3, 0];
    let pcap = [words(&[0xa1b2_c3d4, 2 | 4 << 16, 0, 0, 65_535, 123, 1, 0, 8, 8]), record.to_vec()].concat();
    let section = words(&[0x0a0d_0d0a, 28, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX, 28]);
    // An interface of link type 123 with times in nanoseconds, and a packet.
    let interface = words(&[1, 32, 123, 0, 9 | 1 << 16, 9, 0, 32]);
    let packet = [words(&[6, 40, 0, 0, 5, 8, 8]), record.to_vec(), words(&[40])].concat();
    put("pcap", "pcap", &pcap)?;
    put("pcap", "pcapng", &[section, interface, packet].concat())?;
    put("sunatm", "llc", &record)?;
    let cell = emit52(&Cell::new(CellHeader::from_word(100 << 4), [0x5a; 48]));
    let label = [0, 6, 0x41, 0xff];
    let of_cell = [&label[..], &[0, 56, 0, 1], &cell].concat();
    let of_sdu = [&label[..], &[2, 9, 0, 1], b"hello"].concat();
    put("pseudowire", "cell", &of_cell)?;
    put("pseudowire", "sdu", &of_sdu)?;
    put("pseudowire_link", "cell", &[&[0, of_cell.len() as u8][..], &of_cell].concat())?;
    put("pseudowire_link", "sdu", &[&[1, of_sdu.len() as u8][..], &of_sdu].concat())
}

fn main() -> std::io::Result<()> {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus"));
    let put = |target: &str, name: &str, octets: &[u8]| {
        std::fs::create_dir_all(root.join(target))?;
        std::fs::write(root.join(target).join(name), octets)
    };
    let sdu: Vec<u8> = (1..=100).collect();
    let three = cells(&sdu);
    put("cell", "user", &emit53(&three[0], Format::Uni))?;
    put("cell", "idle", &emit53(&Cell::new(CellHeader::from_word(1), [0x6a; 48]), Format::Nni))?;
    let [scout, routes] = myrinet_messages();
    put("myrinet", "two_switches", &myrinet_packet(lanai::packet::Kind::IP, &sdu))?;
    put("myrinet", "scout", &myrinet_packet(lanai::packet::Kind::MAPPING, &scout))?;
    put("myrinet_mapping", "scout", &scout)?;
    put("myrinet_mapping", "routes", &routes)?;
    put(
        "myrinet_interface",
        "messages",
        &myrinet_steps(&[(0x55, &myrinet_part(0, 0)), (0x75, &myrinet_part(1, 0)), (0x70, &scout)]),
    )?;
    put(
        "myrinet_interface",
        "mapping",
        &myrinet_steps(&[(0x70, &scout), (0x70, &routes), (0x71, &myrinet_part(1, 1))]),
    )?;
    put("hec", "headers", &three.iter().flat_map(|c| emit53(c, Format::Uni)[..5].to_vec()).collect::<Vec<_>>())?;
    put("delineation", "line", &emit53(&three[0], Format::Uni).repeat(9))?;
    let aal1 = |octet: u8| std::iter::once(octet).chain([0xd7; 47]);
    put(
        "aal1",
        "eight",
        &[0x8b, 0x17, 0x2d, 0x3a, 0x4e, 0x59, 0x63, 0x74].into_iter().flat_map(aal1).collect::<Vec<_>>(),
    )?;
    let mut packets = vec![0x01, 0x08, 0xac, 0x13];
    packets.resize(4 + 44, 0);
    packets.extend([0xff, 0xff, 0xe9]);
    put("aal2", "two", &packets)?;
    let single = wire::aal34::Segment { segment_type: wire::aal34::SegmentType::Single, sequence: 0, mid: 7, li: 12 };
    let cpcs = [0, 1, 0, 4, 1, 2, 3, 4, 0, 1, 0, 4];
    let mut body = [0; wire::aal34::SAR_PAYLOAD_OCTETS];
    body[..12].copy_from_slice(&cpcs);
    put("aal34", "cpcs", &cpcs)?;
    put("aal34", "single", &single.emit(&body))?;
    let portions = |cells: &[Cell]| cells.iter().flat_map(|c| [&[0x80][..], &c.payload].concat()).collect::<Vec<_>>();
    put("aal1_stream", "blocks", &portions(&aal1_cells()))?;
    put("aal2_packets", "overlapping", &portions(&aal2_cells()))?;
    put("aal34_reassembly", "interleaved", &portions(&aal34_cells()))?;
    put("aal5", "pdu", &three.iter().flat_map(|c| c.payload).collect::<Vec<_>>())?;
    for (name, f) in oam_functions() {
        put("oam", name, &f.emit())?;
    }
    for managed in [0, 1] {
        let steps = oam_functions().into_iter().flat_map(|(_, f)| [&[0x30 | managed][..], &f.emit()].concat());
        put("oam_point", ["asked", "managed"][usize::from(managed)], &steps.collect::<Vec<_>>())?;
    }
    let mut routed = vec![0; 8];
    Protocol::Routed(wire::llc::IPV4).emit(&mut routed);
    routed.extend([0x45, 0, 0, 20, 0, 0, 0, 0, 64, 1, 0, 0, 10, 0, 0, 2, 10, 0, 0, 1]);
    put("llc", "ipv4", &routed)?;
    put("llc", "bridged", &[0xaa, 0xaa, 3, 0, 0x80, 0xc2, 0, 7, 0, 0, 1, 2, 3])?;
    let arp = wire::atmarp::Packet {
        operation: wire::atmarp::Operation::InverseRequest,
        sender: wire::atmarp::End { ip: Some([10, 0, 0, 2].into()), ..Default::default() },
        target: wire::atmarp::End::default(),
    };
    let mut octets = vec![0; arp.buffer_len()];
    arp.emit(&mut octets);
    put("atmarp", "inverse_request", &octets)?;
    let mut with_llc = vec![0; 8];
    Protocol::Routed(wire::llc::ARP).emit(&mut with_llc);
    with_llc.extend(&octets);
    put("ip", "inverse_request", &with_llc)?;
    put("ip", "ipv4", &routed)?;
    let open = b"O 0.100 0.0.100 ubr,aal5:tx:none,rx:max_sdu=1024";
    put("atmtcp", "open", open)?;
    put("atmtcp", "close", b"C 1.42")?;
    let mut link = vec![0, 0, 0, 0, 0, 0, 0, open.len() as u8];
    link.extend(open);
    link.extend([0, 0, 0, 100, 0, 0, 0, 100]);
    link.extend(&sdu);
    put("atmtcp", "head", &link[..8])?;
    put("atmtcp_link", "open_and_data", &link)?;
    let head = wire::erf::Head {
        time: std::time::Duration::from_secs(1),
        kind: wire::erf::Kind::Cell,
        interface: 1,
        header: three[0].header(),
        payload_octets: 48,
    };
    put("erf", "cell", &[&head.emit()[..], &three[0].payload].concat())?;
    put_captures(&put)?;
    let mut batch = [0; wire::udp::MAX_OCTETS];
    let n = wire::udp::emit(7, &three, &mut batch);
    put("udp_batch", "three", &batch[..n])?;
    put("udp_link", "batch", &batch[..n])?;
    put("udp_link", "cells", &three.iter().flat_map(|c| emit53(c, Format::Uni)).collect::<Vec<_>>())?;
    let stream: Vec<u8> = three
        .iter()
        .flat_map(|c| {
            std::iter::once(c.header().payload_type.bits() << 1).chain(emit52(c)[4..].to_vec()).collect::<Vec<_>>()
        })
        .collect();
    put("reassembly", "pdu", &stream)?;

    // Two circuits in turn, a damaged header, a cell of OAM, a PDU without its first cell.
    let (a, b) = (cells(&[3; 120]), cells(&[4; 100]));
    let piece = |circuit: u8, bits: u8, cell: &Cell| {
        let mut piece = vec![circuit << 4 | bits, 0];
        piece.extend_from_slice(&cell.payload);
        piece
    };
    let bits = |cell: &Cell| (cell.header_word() & 0xf) as u8;
    let mut mixed: Vec<u8> = Vec::new();
    for (a, b) in a.iter().zip(&b) {
        mixed.extend(piece(0, bits(a), a));
        mixed.extend(piece(1, bits(b), b));
    }
    mixed.extend(piece(2, 8, &a[0]));
    let mut damaged = mixed.clone();
    damaged[1] = 1;
    put("mixed_circuits", "two", &mixed)?;
    put("mixed_circuits", "damaged", &damaged)?;
    let mut operations = Vec::new();
    for cell in &three {
        operations.push(0);
        operations.extend(emit53(cell, Format::Uni));
    }
    // Connectionless: BOM, COM and EOM of MID 1, then two cells read of each list, and a delete.
    for (segment_type, li) in [(0x80, 44), (0x00, 44), (0x40, 8u8)] {
        let mut part = [0x55; 51];
        (part[0], part[1], part[2]) = (1, 8, 0x50);
        (part[3], part[4], part[49]) = (segment_type, 1, li << 2);
        operations.extend(part);
    }
    operations.extend([10, 0, 10, 3, 3, 0]);
    put("penn", "two_lists", &operations)?;
    // An adapter: DMA, transmission and reception on; channel 0 at 32 kB, 1 kB long; a descriptor of one cell; a jump
    // past it with END; then cells out, and cells in to VCI 32 as AAL5.
    put(
        "eni155p",
        "send_and_receive",
        &[
            [4, 4, 0, 0x5c, 0, 0],
            [4, 0x10, 0, 0x20, 0, 0],
            [3, 0, 4, 1, 0, 8],
            [0, 0, 0x14, 0x23, 0, 14],
            [4, 10, 0, 1, 0, 0],
            [14, 0, 1, 0, 0, 0],
            [13, 0, 0, 0, 0, 0],
            [0x80, 0x80, 0, 0, 0, 0x80],
            [12, 1, 0, 32, 7, 9],
            [9, 4, 0, 3, 0, 0],
            [15, 0, 0, 0, 1, 0],
        ]
        .concat(),
    )?;
    let mut messages = Vec::new();
    for (command, payload) in [
        (4u16, [16u32, 0, 0, 0].to_vec()),
        (5, [32, 0, 0, 0, 0, 0, 0, 0].to_vec()),
        (2, [32, 3, 0, 0, 0, 0, 0x1000, 0].to_vec()),
        (10, [0x4_0010, 0, 0, 4, 0x5c].to_vec()),
        (9, [0x4_0000, 0, 0, 4].to_vec()),
        (8, [20, 33, 0, 0, 1].to_vec()),
        (3, [24, 0, 0, 0, 0x1000, 0].to_vec()),
        (13, Vec::new()),
    ] {
        messages.extend(7u16.to_ne_bytes());
        messages.extend(command.to_ne_bytes());
        for word in [16 + 4 * payload.len() as u32, 0, 0].into_iter().chain(payload) {
            messages.extend(word.to_ne_bytes());
        }
    }
    put("vfio_user", "session", &messages)?;
    let of = |channel, octets, buffer| Head { channel, octets, ..Head::of_buffer(buffer) };
    let (good, inline, aal0) = (of(0, 100, 0), of(0, 40, Descriptor::INLINE), of(1, 52, 3));
    let portions: Vec<u8> = [good, inline, aal0, good]
        .map(Descriptor::from)
        .iter()
        .flat_map(|d| {
            [0u8, 0x20].into_iter().chain(d.to_words().into_iter().flat_map(u64::to_ne_bytes)).collect::<Vec<_>>()
        })
        .collect();
    put("descriptors", "four", &portions)?;
    put("control", "hello", br#"{"hello":{"version":1}}"#)?;
    put("control", "open", br#"{"open":{"vpi_vci":"0.100","options":{"aal":"aal5"}}}"#)?;
    put("control", "create", br#"{"create_endpoint":{"host":"alpha","geometry":{"send_ring":4,"receive_ring":4,"free_ring":4,"buffers":4,"buffer_octets":128},"events":"interrupt","path":"shared"}}"#)?;
    let mut data = b"Cw\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00stream octets...".to_vec();
    data.extend(b"Cw\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x05");
    put("transfer", "data_and_ack", &data)
}
