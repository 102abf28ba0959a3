//! What is to be sent, and the cells of 53 octets that it becomes: right ones, then what is to be wrong with them.

use super::Oam;
use anyhow::{Context as _, Result, bail};
use clap::Args;
use wire::cell::{CELL_OCTETS, PAYLOAD_OCTETS};
use wire::oam::{Defect, DefectType, Flow, Function, Location, Loopback};
use wire::octets::{Format, emit53};
use wire::{Cell, CellHeader, CircuitId, PayloadType};

/// A cell as a line has it.
pub(super) type Octets53 = [u8; CELL_OCTETS];

/// What is to be wrong with all that says nothing itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Args)]
pub(crate) struct Wrong {
    /// The payload type of all cells, 0 to 7 [default: as the layer has it]
    #[arg(long, value_parser = clap::value_parser!(u8).range(..8))]
    pub(super) pti: Option<u8>,
    /// Set the loss priority of all cells
    #[arg(long)]
    pub(super) clp: bool,
    /// Wrong bits in each header's check: 1, which a receiver corrects at first, or 2, which it cannot (I.432.1)
    #[arg(long, value_name = "BITS", value_parser = clap::value_parser!(u8).range(1..=2))]
    pub(super) bad_hec: Option<u8>,
    /// A wrong CRC: of an AAL5 PDU, of the last cell of an AAL3/4 PDU, of an OAM cell
    #[arg(long)]
    pub(super) bad_crc: bool,
    /// AAL5 user-to-user indication
    #[arg(long)]
    pub(super) uu: Option<u8>,
    /// AAL5 common part indicator
    #[arg(long)]
    pub(super) cpi: Option<u8>,
}

/// One thing to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unit {
    pub(super) circuit: Option<CircuitId>,
    pub(super) content: Content,
    /// What it says of itself.
    pub(super) wrong: Wrong,
    /// The last cell of an AAL5 PDU has met congestion.
    pub(super) congestion: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Content {
    /// In an AAL5 PDU.
    Sdu(Vec<u8>),
    /// In an AAL3/4 PDU.
    Sdu34(Vec<u8>),
    /// An AAL5 CPCS-PDU with its trailer.
    Pdu(Vec<u8>),
    /// A cell's payload.
    Payload([u8; PAYLOAD_OCTETS]),
    /// A cell with its header.
    Cell(Cell),
    /// A cell with its header and the check of that, right or wrong.
    Whole(Octets53),
    Oam {
        oam: Oam,
        segment: bool,
    },
}

impl From<Content> for Unit {
    fn from(content: Content) -> Self {
        Unit { circuit: None, content, wrong: Wrong::default(), congestion: false }
    }
}

impl Unit {
    pub(super) fn oam(oam: Oam, segment: bool) -> Self {
        Content::Oam { oam, segment }.into()
    }

    /// Its cells, on `label` unless it names a circuit itself.
    pub(super) fn cells(&self, label: Option<CircuitId>, others: &Wrong) -> Result<Vec<Octets53>> {
        if let Content::Whole(octets) = &self.content {
            return Ok(vec![*octets]);
        }
        let wrong = self.wrong.or(others);
        let labelled = match &self.content {
            Content::Cell(cell) => Some(cell.circuit()),
            _ => self.circuit.or(label),
        };
        let circuit = labelled.context("no circuit is named: give --label, or a host with its CIRCUIT")?;
        let mut cells = self.right(circuit, &wrong)?;
        if let (true, Some(last)) = (wrong.bad_crc, cells.last_mut()) {
            // The last octet of a CRC, whatever the layer.
            last.payload[PAYLOAD_OCTETS - 1] ^= 1;
        }
        Ok(cells.iter().map(|cell| on_line(cell, &wrong)).collect())
    }

    /// Its cells, without what is to be wrong.
    fn right(&self, circuit: CircuitId, wrong: &Wrong) -> Result<Vec<Cell>> {
        let meta = sar::SduMeta {
            uu: wrong.uu.unwrap_or(0),
            cpi: wrong.cpi.unwrap_or(0),
            clp: wrong.clp,
            congestion: self.congestion,
        };
        let header = CellHeader { circuit, ..CellHeader::default() };
        Ok(match &self.content {
            Content::Sdu(sdu) => {
                let mut segmentation = sar::Segmentation::new(circuit, sdu.len(), meta)?;
                let mut cells = vec![Cell::default(); segmentation.cells_left()];
                segmentation.fill(sdu, &mut cells);
                cells
            }
            Content::Sdu34(sdu) => {
                let mut segmentation = sar::aal34::Sender::new(circuit, 0)?.begin(sdu.len(), meta)?;
                let mut cells = vec![Cell::default(); segmentation.cells_left()];
                segmentation.fill(sdu, &mut cells);
                cells
            }
            Content::Pdu(pdu) => as_pdu(pdu, header)?,
            Content::Payload(payload) => vec![Cell::new(header, *payload)],
            Content::Cell(cell) => vec![*cell],
            Content::Oam { oam, segment } => vec![oam_cell(*oam, *segment, header)],
            // It has been sent as it is.
            Content::Whole(_) => Vec::new(),
        })
    }
}

impl Wrong {
    /// What this says, and what `others` says beside it.
    fn or(&self, others: &Wrong) -> Wrong {
        Wrong {
            pti: self.pti.or(others.pti),
            clp: self.clp || others.clp,
            bad_hec: self.bad_hec.or(others.bad_hec),
            bad_crc: self.bad_crc || others.bad_crc,
            uu: self.uu.or(others.uu),
            cpi: self.cpi.or(others.cpi),
        }
    }
}

/// A PDU as it is, in cells of which the last ends it.
fn as_pdu(pdu: &[u8], header: CellHeader) -> Result<Vec<Cell>> {
    let (payloads, rest) = pdu.as_chunks::<PAYLOAD_OCTETS>();
    if payloads.is_empty() || !rest.is_empty() {
        bail!("a PDU with its trailer is a multiple of {PAYLOAD_OCTETS} octets, and not of {}", pdu.len());
    }
    let mut cells: Vec<Cell> = payloads.iter().map(|payload| Cell::new(header, *payload)).collect();
    if let Some(last) = cells.last_mut() {
        last.set_header(CellHeader { payload_type: PayloadType::User { congestion: false, end: true }, ..header });
    }
    Ok(cells)
}

fn oam_cell(oam: Oam, segment: bool, header: CellHeader) -> Cell {
    let defect = Defect::found(DefectType::LINK, Location::named("inject"));
    let function = match oam {
        Oam::Ais => Function::Ais(defect),
        Oam::Rdi => Function::Rdi(defect),
        Oam::Cc => Function::ContinuityCheck,
        Oam::Loopback => Function::Loopback(Loopback::request(1)),
    };
    let flow = if segment { Flow::F5Segment } else { Flow::F5EndToEnd };
    Cell::new(flow.header(header), function.emit())
}

/// A cell as the line has it, with what is to be wrong in its header.
fn on_line(cell: &Cell, wrong: &Wrong) -> Octets53 {
    let mut cell = *cell;
    let mut header = cell.header();
    if let Some(pti) = wrong.pti {
        header.payload_type = PayloadType::from_bits(pti);
    }
    header.clp |= wrong.clp;
    cell.set_header(header);
    let mut octets = emit53(&cell, Format::Nni);
    // One wrong bit can be corrected; of two it is only seen that they are wrong.
    octets[4] ^= [0, 1, 3][usize::from(wrong.bad_hec.unwrap_or(0).min(2))];
    octets
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use wire::hec::{Receiver, Verdict};
    use wire::octets::parse53;

    fn circuit() -> CircuitId {
        "8.35".parse().unwrap()
    }

    fn cells(unit: &Unit, wrong: Wrong) -> Vec<Octets53> {
        unit.cells(Some(circuit()), &wrong).unwrap()
    }

    fn pdu(cells: &[Octets53]) -> Vec<u8> {
        cells.iter().flat_map(|cell| cell[5..].to_vec()).collect()
    }

    #[test]
    fn a_wrong_crc_is_seen_by_whoever_checks_it_and_nothing_else_is_wrong() {
        let sdu = Unit::from(Content::Sdu(b"hello".to_vec()));
        assert!(wire::aal5::check(&pdu(&cells(&sdu, Wrong::default()))).is_ok());
        let bad = cells(&sdu, Wrong { bad_crc: true, ..Wrong::default() });
        assert!(matches!(wire::aal5::check(&pdu(&bad)), Err(wire::Error::Checksum { .. })));
        assert!(bad.iter().all(|cell| parse53(cell, Format::Nni).is_ok()));
        let oam = Unit::oam(Oam::Ais, false);
        for (bad_crc, expected) in [(false, true), (true, false)] {
            let cell = cells(&oam, Wrong { bad_crc, ..Wrong::default() })[0];
            let cell = parse53(&cell, Format::Nni).unwrap();
            assert_eq!(matches!(Function::parse(&cell.payload), Ok(Function::Ais(_))), expected);
        }
    }

    #[test]
    fn one_wrong_bit_of_the_check_is_corrected_and_two_are_not() {
        let unit = Unit::from(Content::Payload([7; 48]));
        for (bits, verdict) in [(None, Verdict::Good), (Some(1), Verdict::Corrected), (Some(2), Verdict::Bad)] {
            let mut cell = cells(&unit, Wrong { bad_hec: bits, ..Wrong::default() })[0];
            assert_eq!(Receiver::default().check(cell.first_chunk_mut().unwrap()), verdict, "{bits:?}");
        }
    }

    #[test]
    fn what_a_unit_says_of_itself_comes_before_what_is_said_of_all() {
        let unit = Unit {
            circuit: Some("0.7".parse().unwrap()),
            wrong: Wrong { pti: Some(2), ..Wrong::default() },
            ..Unit::from(Content::Payload([0; 48]))
        };
        let cell = cells(&unit, Wrong { pti: Some(6), clp: true, ..Wrong::default() })[0];
        let header = parse53(&cell, Format::Nni).unwrap().header();
        assert_eq!((header.circuit.to_string().as_str(), header.payload_type.bits(), header.clp), ("0.7", 2, true));
        let nowhere = Unit::from(Content::Payload([0; 48])).cells(None, &Wrong::default());
        assert!(nowhere.unwrap_err().to_string().contains("--label"));
        assert!(Unit::from(Content::Pdu(vec![0; 47])).cells(Some(circuit()), &Wrong::default()).is_err());
    }

    proptest! {
        #[test]
        fn a_pdu_of_ours_sent_as_it_is_is_the_same_cells(sdu in proptest::collection::vec(any::<u8>(), 1..200)) {
            let made = cells(&Unit::from(Content::Sdu(sdu)), Wrong::default());
            let again = cells(&Unit::from(Content::Pdu(pdu(&made))), Wrong::default());
            prop_assert_eq!(made, again);
        }
    }
}
