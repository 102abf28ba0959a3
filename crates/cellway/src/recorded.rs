//! Traffic out of a file, whatever wrote it: pcap and pcapng with ERF, SunATM or RFC 1483 records, and recordings of
//! Linux's `atmtcp`. In: the file's octets. Out: SDUs, cells and damaged PDUs in their order, and what was left out.

use anyhow::{Context as _, Result, bail};
use std::collections::BTreeMap;
use std::time::Duration;
use wire::erf::{self, Kind};
use wire::octets::{Format, parse52};
use wire::pcap::{Packet, Reader};
use wire::recording::{self, Record};
use wire::sunatm::{self, Head};
use wire::{Cell, CircuitId, PayloadType, aal5};

/// What can be read, for errors.
pub(crate) const FORMS: &str = "pcap or pcapng with ERF (cells and AAL5), SunATM or RFC 1483 records, and recordings \
     of `atmtcp write`";

/// One record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unit<'a> {
    /// Of a recording the number of its link; of a capture 0 for what the link's first end sent, else 1.
    pub(crate) stream: u32,
    /// `None` where the file does not say it.
    pub(crate) circuit: Option<CircuitId>,
    /// When it passed, since 1970, where the file says that.
    pub(crate) time: Option<Duration>,
    pub(crate) what: What<'a>,
}

/// What was recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum What<'a> {
    /// A whole AAL5 SDU.
    Sdu(&'a [u8]),
    /// A cell.
    Cell(Cell),
    /// A CPCS-PDU whose CRC or length is wrong, with its trailer.
    DamagedPdu(&'a [u8]),
}

/// A file's contents.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Traffic<'a> {
    pub(crate) units: Vec<Unit<'a>>,
    /// Records of other link types, or cut by the capture.
    pub(crate) left_out: u64,
}

/// Reads a file.
///
/// # Errors
/// It is of no form that is known, or its records cannot be read.
pub(crate) fn read(file: &[u8]) -> Result<Traffic<'_>> {
    if wire::pcap::is_capture(file) {
        return captured(file);
    }
    let recorded = recorded(file);
    recorded.with_context(|| format!("this is no file that can be played: write {FORMS}"))
}

fn captured(file: &[u8]) -> Result<Traffic<'_>> {
    let mut reader = Reader::new(file)?;
    let (mut traffic, mut others) = (Traffic::default(), BTreeMap::<u16, u64>::new());
    while let Some(packet) = reader.next_packet().context("the capture breaks off")? {
        match unit_of(&packet) {
            Some(Ok(unit)) => traffic.units.push(unit),
            Some(Err(_)) => traffic.left_out += 1,
            None => *others.entry(packet.link_type).or_default() += 1,
        }
    }
    traffic.left_out += others.values().sum::<u64>();
    if let (Some(link_type), true) = (others.keys().next(), traffic.units.is_empty()) {
        bail!("this capture has packets of link type {link_type}, and none of ATM: write {FORMS}");
    }
    Ok(traffic)
}

/// What a packet is; `None` if its link type is none of ATM.
fn unit_of<'a>(packet: &Packet<'a>) -> Option<Result<Unit<'a>, wire::Error>> {
    let unit = match packet.link_type {
        erf::LINKTYPE => of_erf(packet.octets),
        sunatm::LINKTYPE => Head::parse(packet.octets).map(|(head, sdu)| Unit {
            stream: u32::from(!head.is_sent),
            circuit: Some(head.circuit),
            time: None,
            what: What::Sdu(sdu),
        }),
        sunatm::LINKTYPE_RFC1483 => Ok(Unit { stream: 0, circuit: None, time: None, what: What::Sdu(packet.octets) }),
        _ => return None,
    };
    // A packet that the capture has cut is not what passed. ERF pads its records.
    let is_cut = packet.link_type != erf::LINKTYPE && packet.octets.len() < packet.original_octets as usize;
    let unit = unit.map(|unit| Unit { time: packet.time, ..unit });
    let got = packet.octets.len();
    Some(unit.and_then(|unit| {
        if is_cut {
            return Err(wire::Error::Truncated { what: "packet", need: packet.original_octets as usize, got });
        }
        Ok(unit)
    }))
}

fn of_erf(record: &[u8]) -> Result<Unit<'_>, wire::Error> {
    let (head, payload) = erf::Head::parse(record)?;
    let what = match head.kind {
        Kind::Cell => {
            let truncated = wire::Error::Truncated { what: "cell", need: 48, got: payload.len() };
            What::Cell(Cell::new(head.header, *payload.first_chunk().ok_or(truncated)?))
        }
        Kind::Aal5 => match aal5::check(payload) {
            Ok(trailer) => What::Sdu(&payload[..trailer.length.into()]),
            Err(_) => What::DamagedPdu(payload),
        },
    };
    Ok(Unit { stream: head.interface.into(), circuit: Some(head.header.circuit), time: Some(head.time), what })
}

/// A recording: what its circuits are was said when they were opened, in whatever stream.
fn recorded(file: &[u8]) -> Result<Traffic<'_>> {
    let (mut traffic, mut rest) = (Traffic::default(), file);
    let mut aal0: BTreeMap<CircuitId, bool> = BTreeMap::new();
    loop {
        let at = file.len() - rest.len();
        let Some((record, left)) = Record::parse(rest).with_context(|| format!("octet {at}"))? else { break };
        rest = left;
        let sdu = match record.what {
            recording::What::Open { aal0: cells } => {
                aal0.insert(record.circuit, cells);
                continue;
            }
            recording::What::Close => continue,
            recording::What::Sdu(sdu) => sdu,
        };
        let what = if aal0.get(&record.circuit) == Some(&true) {
            let cell = sdu.try_into().ok().map(turned).and_then(|cell| parse52(&cell, Format::Nni).ok());
            cell.map(What::Cell)
        } else {
            Some(What::Sdu(sdu))
        };
        match what {
            Some(what) => {
                traffic.units.push(Unit { stream: record.stream, circuit: Some(record.circuit), time: None, what });
            }
            None => traffic.left_out += 1,
        }
    }
    Ok(traffic)
}

/// The header word of an AAL0 cell in the other order: in the file it is in the recording machine's, which is
/// little-endian.
pub(crate) fn turned(mut cell: [u8; 52]) -> [u8; 52] {
    cell[..4].reverse();
    cell
}

/// Whether a cell is a user's: OAM and resource management cells are the network's own.
pub(crate) fn is_users(cell: &Cell) -> bool {
    let header = cell.header();
    matches!(header.payload_type, PayloadType::User { .. }) && wire::oam::Flow::of(header).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use wire::CellHeader;

    fn pcap(link_type: u16, packets: &[Vec<u8>]) -> Vec<u8> {
        let mut file = Vec::new();
        for word in [0xa1b2_c3d4, 2 | 4 << 16, 0, 0, 65_535, u32::from(link_type)] {
            file.extend(u32::to_le_bytes(word));
        }
        for packet in packets {
            let octets = packet.len() as u32;
            [1, 0, octets, octets].iter().for_each(|word| file.extend(u32::to_le_bytes(*word)));
            file.extend(packet);
        }
        file
    }

    fn erf(kind: Kind, interface: u8, payload: &[u8]) -> Vec<u8> {
        let header = CellHeader { circuit: "8.35".parse().unwrap(), ..CellHeader::default() };
        let time = Duration::from_secs(1);
        let head = erf::Head { time, kind, interface, header, payload_octets: payload.len() as u16 };
        [&head.emit()[..], payload].concat()
    }

    fn pdu(sdu: &[u8]) -> Vec<u8> {
        let circuit = "8.35".parse().unwrap();
        let mut segmentation = sar::Segmentation::new(circuit, sdu.len(), sar::SduMeta::default()).unwrap();
        let mut cells = vec![Cell::default(); segmentation.cells_left()];
        segmentation.fill(sdu, &mut cells);
        cells.iter().flat_map(|cell| cell.payload).collect()
    }

    #[test]
    fn records_of_a_capture_card_are_sdus_cells_and_damaged_pdus() {
        let (good, mut bad) = (pdu(b"hello"), pdu(b"hello"));
        bad[0] ^= 1;
        let file = pcap(
            197,
            &[erf(Kind::Aal5, 0, &good), erf(Kind::Aal5, 1, &bad), erf(Kind::Cell, 1, &[7; 48]), vec![0; 30]],
        );
        let traffic = read(&file).unwrap();
        assert_eq!(traffic.left_out, 1);
        let whats: Vec<_> = traffic.units.iter().map(|unit| (unit.stream, unit.what.clone())).collect();
        assert_eq!(whats[0], (0, What::Sdu(b"hello")));
        assert_eq!(whats[1], (1, What::DamagedPdu(&bad)));
        assert!(matches!(&whats[2], (1, What::Cell(cell)) if cell.payload == [7; 48]));
        assert!(traffic.units.iter().all(|unit| unit.circuit == Some("8.35".parse().unwrap())));
    }

    #[test]
    fn sunatm_names_its_circuit_rfc_1483_does_not_and_others_are_named_in_the_error() {
        let file = pcap(123, &[vec![0x82, 8, 0, 35, 0xaa], vec![2, 8, 0, 35, 0xbb], vec![1]]);
        let traffic = read(&file).unwrap();
        assert_eq!((traffic.units.len(), traffic.left_out), (2, 1));
        assert_eq!(traffic.units.iter().map(|unit| unit.stream).collect::<Vec<_>>(), [0, 1]);
        let llc = pcap(100, &[vec![0xaa; 9]]);
        let traffic = read(&llc).unwrap();
        assert_eq!((traffic.units[0].circuit, &traffic.units[0].what), (None, &What::Sdu(&[0xaa; 9][..])));
        let ethernet = pcap(1, &[vec![0; 60]]);
        let says = format!("{:#}", read(&ethernet).unwrap_err());
        assert!(says.contains("link type 1") && says.contains("SunATM"), "{says}");
        let says = format!("{:#}", read(b"[host.alpha]").unwrap_err());
        assert!(says.contains("pcapng"), "{says}");
    }

    #[test]
    fn a_packet_that_the_capture_has_cut_is_left_out() {
        let mut file = pcap(123, &[vec![0x82, 8, 0, 35, 0xaa]]);
        file[24 + 12..24 + 16].copy_from_slice(&100u32.to_le_bytes());
        assert_eq!(read(&file).unwrap(), Traffic { units: Vec::new(), left_out: 1 });
    }

    proptest! {
        #[test]
        fn no_file_panics(octets: Vec<u8>, link_type in 0usize..3, packets in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..90), 0..5)) {
            let _ = read(&octets);
            let _ = read(&pcap([197, 123, 100][link_type], &packets));
        }
    }
}
