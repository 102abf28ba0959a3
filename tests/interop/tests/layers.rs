//! tshark on the cells of AAL1 and AAL3/4 that our senders write. It has no dissector for AAL2's common part, and names
//! the AAL1 protection bits wrongly (three for the parity, one for the CRC), so those are not asked for.

use interop::tshark::{self, Aal};
use interop::{have, pattern};
use sar::SduMeta;
use sar::aal1;
use sar::aal34::Interleaver;
use std::io::Write as _;
use wire::aal1::SequenceNumber;
use wire::aal34::{Segment, SegmentType};
use wire::{Cell, CircuitId};

fn capture(cells: &[(Aal, Cell)]) -> tempfile::NamedTempFile {
    let mut file = tempfile::Builder::new().suffix(".enc").tempfile().unwrap();
    file.write_all(&tshark::sniffer(cells)).unwrap();
    file
}

fn circuit() -> CircuitId {
    CircuitId::new(3, 4000).unwrap()
}

#[test]
fn tshark_reads_our_aal34_cells_as_we_mean_them_and_finds_their_crc_correct() {
    if !have(tshark::TOOLS) {
        return;
    }
    let sdus = [pattern(1500), pattern(20), pattern(131)];
    let mut lanes = Interleaver::new(circuit(), &[1, 682, 1023]).unwrap();
    for (lane, sdu) in sdus.iter().enumerate() {
        lanes.begin(lane, sdu.len(), SduMeta::default()).unwrap();
    }
    let mut cells = Vec::new();
    while lanes.cells_left() > 0 {
        let mut room = [Cell::default(); 16];
        let filled = lanes.fill(|lane| &sdus[lane], &mut room);
        cells.extend(room[..filled.cells].iter().map(|cell| (Aal::ThreeFour, *cell)));
    }
    assert_eq!(cells.len(), 35 + 1 + 4);
    let file = capture(&cells);
    let names = ["seg_type", "seq_num", "multiplex_id", "length_indicator"].map(|name| format!("atm.aal3_4.{name}"));
    let rows = tshark::fields(file.path(), &names.each_ref().map(String::as_str)).unwrap();
    assert_eq!(rows.len(), cells.len());
    let mut seen = [0; 4];
    for (row, (_, cell)) in rows.iter().zip(&cells) {
        let (segment, _) = Segment::parse(&cell.payload).unwrap();
        let ours = [segment.segment_type.bits().into(), segment.sequence.into(), segment.mid, segment.li.into()];
        assert_eq!(row.iter().map(|n| n.parse::<u16>().unwrap()).collect::<Vec<_>>(), ours);
        seen[usize::from(segment.segment_type.bits())] += 1;
    }
    let [continuations, ends, begins, singles] = seen;
    assert_eq!((begins, continuations, ends, singles), (2, 33 + 2, 2, 1));
    assert_eq!(SegmentType::Continuation.bits(), 0);

    let text = tshark::decode(file.path(), "aal3_4").unwrap();
    assert!(text.contains("VPI: 3") && text.contains("VCI: 4000"), "{text}");
    assert_eq!(
        text.lines().filter(|line| line.contains("Header Error Check") && line.contains("(correct)")).count(),
        40
    );
    let crcs =
        |text: &str, verdict| text.lines().filter(|line| line.contains(" CRC: ") && line.contains(verdict)).count();
    assert_eq!((crcs(&text, "(correct)"), crcs(&text, "incorrect")), (40, 0), "{text}");
    for (_, cell) in &mut cells {
        cell.payload[17] ^= 0x10;
    }
    let text = tshark::decode(capture(&cells).path(), "aal3_4").unwrap();
    assert_eq!((crcs(&text, "(correct)"), crcs(&text, "incorrect")), (0, 40), "{text}");
}

#[test]
fn tshark_reads_our_aal1_cells_as_we_mean_them() {
    if !have(tshark::TOOLS) {
        return;
    }
    for block_octets in [None, Some(30)] {
        let config = aal1::SenderConfig { block_octets, clp: false };
        let mut sender = aal1::Sender::new(circuit(), config).unwrap();
        sender.set_residual(0b1011);
        let stream = pattern(24 * 47);
        let mut room = [Cell::default(); 24];
        assert_eq!(sender.fill(&stream, &mut room).cells, 24);
        let file = capture(&room.map(|cell| (Aal::One, cell)));
        let rows = tshark::fields(file.path(), &["atm.aa1.csi", "atm.aa1.seq_count", "atm.aa1.payload"]).unwrap();
        assert_eq!(rows.len(), 24);
        for (row, cell) in rows.iter().zip(&room) {
            let number = SequenceNumber::parse(cell.payload[0]).unwrap();
            let payload: String = cell.payload[1..].iter().map(|octet| format!("{octet:02x}")).collect();
            assert_eq!(*row, [u8::from(number.csi).to_string(), number.count.to_string(), payload]);
        }
    }
}
