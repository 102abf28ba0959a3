//! tshark on the cells of AAL1, AAL3/4 and AAL5 that our senders write. It has no dissector for AAL2's common part, and names
//! the AAL1 protection bits wrongly (three for the parity, one for the CRC), so those are not asked for.

use interop::tshark::{self, Aal};
use interop::{have, pattern};
use sar::aal1;
use sar::aal34::Interleaver;
use sar::{Kernel, SduMeta, Segmentation};
use std::io::Write as _;
use std::time::Duration;
use wire::aal1::SequenceNumber;
use wire::aal34::{Segment, SegmentType};
use wire::erf::{Head, Kind};
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
fn tshark_finds_the_crc_of_the_pdus_in_our_aal5_cells_correct_whichever_kernel_made_them() {
    if !have(tshark::TOOLS) {
        return;
    }
    const SIZES: [usize; 8] = [1, 40, 41, 48, 512, 1500, 9188, 60_000];
    let meta = SduMeta { uu: 0x5a, ..SduMeta::default() };
    let mut records = Vec::new();
    for kernel in Kernel::all() {
        for octets in SIZES {
            let mut segmentation = Segmentation::with_kernel(*kernel, circuit(), octets, meta).unwrap();
            let mut cells = vec![Cell::default(); segmentation.cells_left()];
            assert_eq!(segmentation.fill(&pattern(octets), &mut cells), cells.len());
            let pdu = cells.iter().flat_map(|cell| cell.payload).collect::<Vec<u8>>();
            let (time, payload_octets) = (Duration::from_secs(1_000_000_000), pdu.len() as u16);
            let head = Head { time, kind: Kind::Aal5, interface: 0, header: cells[0].header(), payload_octets };
            records.push([&head.emit()[..], &pdu].concat());
        }
    }
    let verdicts = |records: &[Vec<u8>]| {
        let mut file = tempfile::Builder::new().suffix(".pcap").tempfile().unwrap();
        file.write_all(&tshark::pcap(records)).unwrap();
        let text = tshark::decode(file.path(), "frame").unwrap();
        let lengths: Vec<usize> =
            text.lines().filter_map(|line| line.trim().strip_prefix("AAL5 len: ")?.parse().ok()).collect();
        let crcs = |verdict| text.lines().filter(|line| line.contains("AAL5 CRC") && line.contains(verdict)).count();
        (crcs("(correct)"), crcs("incorrect"), lengths, text)
    };
    let (good, bad, lengths, text) = verdicts(&records);
    assert_eq!((good, bad), (records.len(), 0), "{text}");
    let sent: Vec<usize> = Kernel::all().iter().flat_map(|_| SIZES).collect();
    assert_eq!(lengths, sent, "{text}");
    // And it does look: an octet of each is changed.
    for record in &mut records {
        record[30] ^= 1;
    }
    let (good, bad, ..) = verdicts(&records);
    assert_eq!((good, bad), (0, records.len()));
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
