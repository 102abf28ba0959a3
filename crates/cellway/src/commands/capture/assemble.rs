//! What a link passes, as cells and AAL5 PDUs for a [`Sink`]: puts PDUs together where cells pass, and takes those of
//! frame links apart where that is what the file is to have.

use super::{Records, What, Written};
use anyhow::Result;
use net::tap::Tapped;
use net::{FrameAal, Side, TapRecord};
use std::collections::HashMap;
use std::time::Duration;
use wire::cell::PAYLOAD_OCTETS;
use wire::erf::Kind;
use wire::{Cell, CellHeader, CircuitId, PayloadType, Time, aal5};

/// A PDU whose end does not come is written no further than this.
const MAX_PDU_OCTETS: usize = 65_535 + 8 + 48;

/// One record for a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Passed<'a> {
    /// Since 1970.
    pub(crate) time: Duration,
    pub(crate) side: Side,
    pub(crate) kind: Kind,
    /// The cell's header, or that of the PDU's last cell.
    pub(crate) header: CellHeader,
    /// The cell's payload, or the CPCS-PDU.
    pub(crate) payload: &'a [u8],
}

/// A file, or several, in one form.
pub(crate) trait Sink {
    /// Writes a record; false if this form cannot say it.
    fn write(&mut self, passed: &Passed<'_>) -> Result<bool>;
    /// What was written is to be seen by who reads it.
    fn flush(&mut self) -> Result<()>;
    /// The end, at a time; so many cells or frames were missed.
    fn finish(&mut self, latest: Duration, missed: u64) -> Result<()>;
}

/// What has come of a PDU.
#[derive(Debug, Default)]
struct Partial {
    pdu: Vec<u8>,
    /// The stretch without a gap that its cells are of.
    stretch: u64,
    /// An end of a PDU has been seen in that stretch: what follows is the next one's beginning.
    has_begun: bool,
}

/// Hands records to a sink.
pub(crate) struct Recorder<S: Sink> {
    sink: S,
    what: What,
    epoch: Duration,
    partial: HashMap<(Side, u32), Partial>,
    stretch: u64,
    written: Written,
    latest: Duration,
}

impl<S: Sink> Recorder<S> {
    pub(crate) fn to(sink: S, what: What, epoch: Duration) -> Self {
        let (partial, written) = (HashMap::new(), Written::default());
        Recorder { sink, what, epoch, partial, stretch: 0, written, latest: epoch }
    }

    fn write(&mut self, at: Time, side: Side, kind: Kind, header: CellHeader, payload: &[u8]) -> Result<()> {
        let time = self.epoch + Duration::from_nanos(at.as_nanos());
        self.latest = time;
        if self.sink.write(&Passed { time, side, kind, header, payload })? {
            self.written.records += 1;
        } else {
            self.written.beyond += 1;
        }
        Ok(())
    }

    fn cell(&mut self, at: Time, side: Side, cell: &Cell) -> Result<()> {
        let header = cell.header();
        let is_oam = wire::oam::Flow::of(header).is_some();
        let PayloadType::User { end, .. } = header.payload_type else {
            return self.write(at, side, Kind::Cell, header, &cell.payload);
        };
        if self.what == What::Cells || is_oam {
            return self.write(at, side, Kind::Cell, header, &cell.payload);
        }
        let partial = self.partial.entry((side, header.circuit.key())).or_default();
        if partial.stretch != self.stretch {
            (partial.stretch, partial.has_begun) = (self.stretch, false);
            partial.pdu.clear();
        }
        if partial.pdu.len() < MAX_PDU_OCTETS {
            partial.pdu.extend_from_slice(&cell.payload);
        }
        if !end {
            return Ok(());
        }
        let (pdu, has_begun) = (std::mem::take(&mut partial.pdu), std::mem::replace(&mut partial.has_begun, true));
        if !has_begun && lacks_cells(&pdu) {
            self.written.incomplete += 1;
        } else {
            self.write(at, side, Kind::Aal5, header, &pdu)?;
        }
        // Its memory serves the next one.
        if let Some(partial) = self.partial.get_mut(&(side, header.circuit.key())) {
            partial.pdu = pdu;
            partial.pdu.clear();
        }
        Ok(())
    }

    fn frame(
        &mut self,
        at: Time,
        side: Side,
        circuit: CircuitId,
        aal: FrameAal,
        meta: sar::SduMeta,
        sdu: &[u8],
    ) -> Result<()> {
        match aal {
            FrameAal::Aal0 => {
                if let Ok(cell) = wire::octets::parse52(sdu, wire::octets::Format::Nni) {
                    self.cell(at, side, &cell)?;
                }
            }
            // Its cells are made here, so that the record is the PDU that they would be.
            FrameAal::Aal5 => {
                let mut segmentation = sar::Segmentation::new(circuit, sdu.len(), meta)?;
                let mut cells = vec![Cell::default(); segmentation.cells_left()];
                segmentation.fill(sdu, &mut cells);
                for cell in &cells {
                    self.cell(at, side, cell)?;
                }
            }
            // ERF has no record for such a PDU.
            FrameAal::Aal34 => {
                let mut segmentation = sar::aal34::Sender::new(circuit, 0)?.begin(sdu.len(), meta)?;
                let mut cells = vec![Cell::default(); segmentation.cells_left()];
                segmentation.fill(sdu, &mut cells);
                for cell in &cells {
                    self.write(at, side, Kind::Cell, cell.header(), &cell.payload)?;
                }
            }
        }
        Ok(())
    }
}

/// Whether cells of the PDU came before what is here of it, by the length that its end says.
fn lacks_cells(pdu: &[u8]) -> bool {
    let said = pdu.last_chunk::<8>().map(|trailer| aal5::Trailer::from_octets(*trailer).length);
    said.is_none_or(|octets| aal5::cells(octets.into()) > pdu.len() / PAYLOAD_OCTETS)
}

impl<S: Sink> Records for Recorder<S> {
    fn take(&mut self, record: &TapRecord<'_>) -> Result<()> {
        match record.what {
            Tapped::Cell(cell) => self.cell(record.at, record.from, cell),
            Tapped::Frame { circuit, aal, meta, octets } => {
                self.frame(record.at, record.from, circuit, aal, meta, octets)
            }
        }
    }

    fn gap(&mut self) {
        self.stretch += 1;
    }

    fn flush(&mut self) -> Result<()> {
        self.sink.flush()
    }

    fn finish(&mut self, missed: u64) -> Result<Written> {
        self.sink.finish(self.latest, missed)?;
        Ok(self.written)
    }
}
