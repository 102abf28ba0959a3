//! Cells as octets: 53 on a wire, UNI or NNI, with HEC; 52 where the header goes without it (AAL0 messages, captures).

use crate::Error;
use crate::cell::{CELL_OCTETS, Cell, CellHeader, PAYLOAD_OCTETS};
use crate::hec;

/// Octets of a cell without HEC.
pub const CELL52_OCTETS: usize = 52;

/// The two layouts of a header (I.361).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// User to network: four bits of generic flow control, eight of VPI.
    #[default]
    Uni,
    /// Network to network: twelve bits of VPI.
    Nni,
}

impl Format {
    /// A wire's header as it is kept inside: at the UNI without its flow control bits.
    const fn inside(self, word: u32) -> u32 {
        match self {
            Format::Uni => word & 0x0fff_ffff,
            Format::Nni => word,
        }
    }
}

/// Reads a 53-octet cell whose HEC is right. Correction is [`hec::Receiver`]'s, before this.
pub fn parse53(octets: &[u8], format: Format) -> Result<Cell, Error> {
    let Some(octets) = octets.first_chunk::<CELL_OCTETS>() else {
        return Err(Error::Truncated { what: "cell", need: CELL_OCTETS, got: octets.len() });
    };
    let [a, b, c, d, got, payload @ ..] = *octets;
    let want = hec::generate([a, b, c, d]);
    if got != want {
        return Err(Error::Checksum { what: "cell header", got: got.into(), want: want.into() });
    }
    Ok(from_parts([a, b, c, d], payload, format))
}

/// Writes a cell with its HEC. At the UNI the upper four bits of a VPI beyond 255 are lost: refuse such circuits
/// when they are set up.
pub fn emit53(cell: &Cell, format: Format) -> [u8; CELL_OCTETS] {
    let header = format.inside(cell.header_word()).to_be_bytes();
    let mut octets = [0; CELL_OCTETS];
    octets[..4].copy_from_slice(&header);
    octets[4] = hec::generate(header);
    octets[5..].copy_from_slice(&cell.payload);
    octets
}

/// Reads a 52-octet cell: header in network order, payload.
pub fn parse52(octets: &[u8], format: Format) -> Result<Cell, Error> {
    let Some(octets) = octets.first_chunk::<CELL52_OCTETS>() else {
        return Err(Error::Truncated { what: "cell without HEC", need: CELL52_OCTETS, got: octets.len() });
    };
    let [a, b, c, d, payload @ ..] = *octets;
    Ok(from_parts([a, b, c, d], payload, format))
}

/// Writes a cell without HEC.
pub fn emit52(cell: &Cell) -> [u8; CELL52_OCTETS] {
    let mut octets = [0; CELL52_OCTETS];
    octets[..4].copy_from_slice(&cell.header_word().to_be_bytes());
    octets[4..].copy_from_slice(&cell.payload);
    octets
}

fn from_parts(header: [u8; 4], payload: [u8; PAYLOAD_OCTETS], format: Format) -> Cell {
    Cell::new(CellHeader::from_word(format.inside(u32::from_be_bytes(header))), payload)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_gfc_of_a_cell_at_the_uni_is_ignored_and_sent_as_zero() {
        let header = [0xf0, 0x50, 0x06, 0x40];
        let mut octets = [0; CELL_OCTETS];
        octets[..4].copy_from_slice(&header);
        octets[4] = hec::generate(header);
        let cell = parse53(&octets, Format::Uni).unwrap();
        assert_eq!((cell.circuit().vpi.get(), cell.circuit().vci.get()), (5, 100));
        assert_eq!(emit53(&cell, Format::Uni)[..4], [0, 0x50, 0x06, 0x40]);
        // At the NNI these bits are of the VPI.
        assert_eq!(parse53(&octets, Format::Nni).unwrap().circuit().vpi.get(), 0xf05);
    }

    proptest! {
        #[test]
        fn a_cell_sent_is_the_cell_received(word: u32, payload: u64) {
            let mut body = [0; 48];
            body[..8].copy_from_slice(&payload.to_be_bytes());
            let cell = Cell::new(CellHeader::from_word(word), body);
            prop_assert_eq!(parse53(&emit53(&cell, Format::Nni), Format::Nni), Ok(cell));
            prop_assert_eq!(parse52(&emit52(&cell), Format::Nni), Ok(cell));
            let uni = Cell::new(CellHeader::from_word(word & 0x0fff_ffff), body);
            let mut octets = emit53(&uni, Format::Uni);
            prop_assert_eq!(parse53(&octets, Format::Uni), Ok(uni));
            octets[2] ^= 1;
            prop_assert!(parse53(&octets, Format::Uni).is_err());
        }

        #[test]
        fn no_octets_panic(octets in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = parse53(&octets, Format::Uni);
            let _ = parse52(&octets, Format::Nni);
        }
    }
}
