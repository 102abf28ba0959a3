//! What others do: two passes, one for the cells and one for the CRC by the fastest library there is; and a table of 256
//! entries, octet by octet, as kernels have it.

use wire::aal5::{MAX_SDU_OCTETS, TRAILER_OCTETS, Trailer, cells};
use wire::cell::PAYLOAD_OCTETS;
use wire::{Cell, CellHeader, CircuitId, PayloadType};

/// A straightforward implementation.
pub(super) struct Peer {
    /// What rows call it.
    pub(super) name: &'static str,
    /// An SDU into cells; gives how many.
    pub(super) segment: fn(CircuitId, &[u8], &mut [Cell]) -> usize,
    /// A PDU's cells into a buffer with room for all of their payload; gives the SDU's octets if it is whole.
    pub(super) reassemble: fn(&[Cell], &mut [u8]) -> Option<usize>,
}

/// All.
pub(super) const ALL: [Peer; 2] = [
    Peer {
        name: "two-pass-crc-fast",
        segment: |circuit, sdu, out| segment(circuit, sdu, out, crc_fast),
        reassemble: |input, buffer| reassemble(input, buffer, crc_fast),
    },
    Peer {
        name: "octet-table",
        segment: |circuit, sdu, out| segment(circuit, sdu, out, octet_table),
        reassemble: |input, buffer| reassemble(input, buffer, octet_table),
    },
];

/// The CRC of some octets and of some after them.
type Crc = fn(&[u8], &[u8]) -> u32;

fn crc_fast(octets: &[u8], then: &[u8]) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Bzip2);
    digest.update(octets);
    digest.update(then);
    digest.finalize() as u32
}

fn octet_table(octets: &[u8], then: &[u8]) -> u32 {
    static TABLE: [u32; 256] = {
        let mut table = [0u32; 256];
        let mut i = 0;
        while i < 256 {
            let mut r = (i as u32) << 24;
            let mut bit = 0;
            while bit < 8 {
                r = if r >> 31 == 1 { r << 1 ^ 0x04c1_1db7 } else { r << 1 };
                bit += 1;
            }
            table[i] = r;
            i += 1;
        }
        table
    };
    let step = |crc: u32, octet: &u8| crc << 8 ^ TABLE[usize::from((crc >> 24) as u8 ^ octet)];
    !then.iter().fold(octets.iter().fold(u32::MAX, step), step)
}

fn segment(circuit: CircuitId, sdu: &[u8], out: &mut [Cell], crc: Crc) -> usize {
    debug_assert!(sdu.len() <= MAX_SDU_OCTETS);
    let n = cells(sdu.len());
    let mut header = CellHeader { circuit, ..CellHeader::default() };
    for (cell, part) in out[..n].iter_mut().zip(sdu.chunks(PAYLOAD_OCTETS).chain(std::iter::once(&[][..]))) {
        cell.clear(header);
        cell.payload[..part.len()].copy_from_slice(part);
        cell.payload[part.len()..].fill(0);
    }
    let mut trailer = Trailer { uu: 0, cpi: 0, length: sdu.len() as u16, crc: 0 };
    let mut rest = [0u8; 2 * PAYLOAD_OCTETS];
    let padded = n * PAYLOAD_OCTETS - sdu.len();
    rest[padded - TRAILER_OCTETS..padded].copy_from_slice(&trailer.to_octets());
    trailer.crc = crc(sdu, &rest[..padded - 4]);
    header.payload_type = PayloadType::User { congestion: false, end: true };
    out[n - 1].set_header(header);
    out[n - 1].payload[PAYLOAD_OCTETS - TRAILER_OCTETS..].copy_from_slice(&trailer.to_octets());
    n
}

fn reassemble(input: &[Cell], buffer: &mut [u8], crc: Crc) -> Option<usize> {
    let circuit = input.first()?.circuit();
    for (cell, part) in input.iter().zip(buffer.chunks_exact_mut(PAYLOAD_OCTETS)) {
        if cell.circuit() != circuit {
            return None;
        }
        part.copy_from_slice(&cell.payload);
    }
    let pdu = &buffer[..input.len() * PAYLOAD_OCTETS];
    let trailer = Trailer::parse(pdu).ok()?;
    let octets = usize::from(trailer.length);
    (crc(&pdu[..pdu.len() - 4], &[]) == trailer.crc && cells(octets) == input.len()).then_some(octets)
}
