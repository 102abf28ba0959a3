//! What goes from a tap to whoever records it: records one after the other as octets on a stream, and after those of
//! each drain a mark that says how many were missed there. Numbers are little-endian.
//!
//! | octets | of a cell | of a frame | of a mark |
//! |---|---|---|---|
//! | 0 | kind, and 128 from the link's second end | the same | kind |
//! | 1..9 | nanoseconds | nanoseconds | cells or frames missed |
//! | 9..13 | header word | circuit | - |
//! | 13..17 | 48 octets of payload follow | UU, CPI, CLP, congestion | - |
//! | 17..21 | | octets of the SDU, which follow | - |

use anyhow::{Result, bail};
use net::tap::{self, Tapped};
use net::{FrameAal, Side, TapBuffer, TapRecord};
use sar::SduMeta;
use std::io::{self, ErrorKind, Read, Write};
use wire::cell::PAYLOAD_OCTETS;
use wire::{Cell, CellHeader, CircuitId, Time};

const MARK: u8 = 0;
const CELL: u8 = 1;
const AAL0: u8 = 2;
const AAL5: u8 = 3;
const AAL34: u8 = 4;
const SECOND_END: u8 = 128;
/// Nothing that a link carries is longer.
const MAX_OCTETS: usize = 1 << 16;

/// Writes what the taps of a link have seen between two drains, and the mark.
pub fn write(buffers: &[TapBuffer; 2], out: &mut impl Write) -> io::Result<()> {
    for record in tap::merged(buffers) {
        let side = if record.from == Side::B { SECOND_END } else { 0 };
        let mut head = [0; 21];
        head[1..9].copy_from_slice(&record.at.as_nanos().to_le_bytes());
        match record.what {
            Tapped::Cell(cell) => {
                head[0] = CELL | side;
                head[9..13].copy_from_slice(&cell.header_word().to_le_bytes());
                out.write_all(&head[..13])?;
                out.write_all(&cell.payload)?;
            }
            Tapped::Frame { circuit, aal, meta, octets } => {
                let kind = match aal {
                    FrameAal::Aal0 => AAL0,
                    FrameAal::Aal5 => AAL5,
                    FrameAal::Aal34 => AAL34,
                };
                head[0] = kind | side;
                head[9..13].copy_from_slice(&circuit.key().to_le_bytes());
                head[13..17].copy_from_slice(&[meta.uu, meta.cpi, meta.clp.into(), meta.congestion.into()]);
                head[17..21].copy_from_slice(&(octets.len() as u32).to_le_bytes());
                out.write_all(&head)?;
                out.write_all(octets)?;
            }
        }
    }
    out.write_all(&[MARK])?;
    let missed: u64 = buffers.iter().map(TapBuffer::dropped).sum();
    out.write_all(&missed.to_le_bytes())?;
    out.flush()
}

/// What comes from the stream.
#[derive(Debug, PartialEq)]
pub enum Item<'a> {
    /// A record.
    Record(TapRecord<'a>),
    /// That was all until now; after it so many cells or frames were missed.
    Mark {
        /// So many.
        missed: u64,
    },
}

/// Reads the stream.
pub struct Reader<R> {
    input: R,
    octets: Vec<u8>,
    cell: Cell,
}

impl<R: Read> Reader<R> {
    /// A reader of what `input` gives.
    pub fn new(input: R) -> Self {
        Reader { input, octets: Vec::new(), cell: Cell::default() }
    }

    fn take<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut octets = [0; N];
        self.input.read_exact(&mut octets).map(|()| octets)
    }

    /// The next one; `None` at the end.
    pub fn read(&mut self) -> Result<Option<Item<'_>>> {
        let [kind] = match self.take() {
            Ok(kind) => kind,
            Err(e) if e.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            Err(e) => return Err(e.into()),
        };
        let number = u64::from_le_bytes(self.take()?);
        if kind == MARK {
            return Ok(Some(Item::Mark { missed: number }));
        }
        let label = u32::from_le_bytes(self.take()?);
        let what = match kind & !SECOND_END {
            CELL => {
                self.cell = Cell::new(CellHeader::from_word(label), self.take::<PAYLOAD_OCTETS>()?);
                Tapped::Cell(&self.cell)
            }
            kind @ (AAL0 | AAL5 | AAL34) => {
                let [uu, cpi, clp, congestion] = self.take()?;
                let octets = u32::from_le_bytes(self.take()?) as usize;
                if octets > MAX_OCTETS {
                    bail!("the service sent a record of {octets} octets");
                }
                self.octets.resize(octets, 0);
                self.input.read_exact(&mut self.octets)?;
                let aal = match kind {
                    AAL0 => FrameAal::Aal0,
                    AAL5 => FrameAal::Aal5,
                    _ => FrameAal::Aal34,
                };
                let meta = SduMeta { uu, cpi, clp: clp != 0, congestion: congestion != 0 };
                Tapped::Frame { circuit: CircuitId::from_key(label), aal, meta, octets: &self.octets }
            }
            other => bail!("the service sent a record of kind {other}"),
        };
        let from = if kind & SECOND_END == 0 { Side::A } else { Side::B };
        Ok(Some(Item::Record(TapRecord { at: Time::from_nanos(number), from, what })))
    }
}
