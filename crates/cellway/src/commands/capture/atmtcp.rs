//! What a link passes, as a recording of Linux's `atmtcp`.

use super::{Records, What, Written};
use crate::recorded::turned;
use anyhow::{Result, anyhow};
use net::tap::Tapped;
use net::{Side, TapRecord};
use std::collections::BTreeMap;
use std::io::Write;
use wire::recording::{self, Record};
use wire::{Cell, CircuitId, PayloadType};

/// A PDU whose end does not come is kept no further than this.
const MAX_PDU_OCTETS: usize = 65_535 + 8 + 48;

/// Writes what a link passes; AAL5 PDUs of cell links are put together and checked. Stream 0 is what the link's first
/// end sent, stream 1 what the other did.
pub(crate) struct Recording<W: Write> {
    out: W,
    what: What,
    partial: BTreeMap<(u32, CircuitId), Vec<u8>>,
    opened: BTreeMap<(u32, CircuitId), bool>,
    records: u64,
    beyond: u64,
}

impl<W: Write> Recording<W> {
    pub(crate) fn new(out: W, what: What) -> Self {
        Recording { out, what, partial: BTreeMap::new(), opened: BTreeMap::new(), records: 0, beyond: 0 }
    }

    fn sdu(&mut self, stream: u32, circuit: CircuitId, aal0: bool, sdu: &[u8]) -> Result<()> {
        if self.opened.insert((stream, circuit), aal0) != Some(aal0) {
            let (open, n) = Record { stream, circuit, what: recording::What::Open { aal0 } }.emit();
            self.out.write_all(&open[..n])?;
        }
        let (head, n) = Record { stream, circuit, what: recording::What::Sdu(sdu) }.emit();
        self.out.write_all(&head[..n])?;
        self.out.write_all(sdu)?;
        self.records += 1;
        Ok(())
    }

    fn cell(&mut self, stream: u32, circuit: CircuitId, cell: &Cell) -> Result<()> {
        let payload_type = cell.header().payload_type;
        if self.what == What::Cells {
            return self.sdu(stream, circuit, true, &turned(wire::octets::emit52(cell)));
        }
        let PayloadType::User { end, .. } = payload_type else {
            self.beyond += 1;
            return Ok(());
        };
        let pdu = self.partial.entry((stream, circuit)).or_default();
        if pdu.len() < MAX_PDU_OCTETS {
            pdu.extend_from_slice(&cell.payload);
        }
        if end {
            let pdu = std::mem::take(pdu);
            match wire::aal5::check(&pdu) {
                Ok(trailer) => self.sdu(stream, circuit, false, &pdu[..trailer.length.into()])?,
                Err(_) => self.beyond += 1,
            }
        }
        Ok(())
    }
}

impl<W: Write> Records for Recording<W> {
    fn take(&mut self, record: &TapRecord<'_>) -> Result<()> {
        let stream = u32::from(record.from == Side::B);
        match record.what {
            Tapped::Cell(cell) => self.cell(stream, cell.circuit(), cell)?,
            Tapped::Frame { circuit, aal: net::FrameAal::Aal5, octets, .. } => {
                self.sdu(stream, circuit, false, octets)?
            }
            Tapped::Frame { circuit, aal: net::FrameAal::Aal0, octets, .. } => {
                let octets = octets.try_into().map_err(|_| anyhow!("the service sent no cell"))?;
                self.sdu(stream, circuit, true, &turned(octets))?;
            }
            // The stock program knows of no such layer.
            Tapped::Frame { aal: net::FrameAal::Aal34, .. } => self.beyond += 1,
        }
        Ok(())
    }

    fn gap(&mut self) {
        self.partial.clear();
    }

    fn flush(&mut self) -> Result<()> {
        Ok(self.out.flush()?)
    }

    fn finish(&mut self, _: u64) -> Result<Written> {
        self.flush()?;
        Ok(Written { records: self.records, beyond: self.beyond, incomplete: 0 })
    }
}
