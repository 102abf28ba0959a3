//! The convergence sublayer, in the driver: the cards do what is done for each cell, the host what is done for each PDU
//! (Traw and Smith 1993, sections 1.2 and 3.2).
//!
//! In: an SDU, or the octets between two ends of PDUs. Out: a CPCS-PDU, or the place of the SDU in it; or why it is none.
//! A connectionless SDU stands between a header and a trailer of AAL3/4 (I.363.3), so that each lost cell shows in the
//! length, and cells of two PDUs in the tags. A circuit has bare cells, or AAL5 (I.363.5) at the processor's expense.

use core::ops::Range;
use wire::cell::PAYLOAD_OCTETS;
use wire::crc::crc32;
use wire::{DropReason, aal5, aal34};

/// The adaptation layer of a circuit whose VCI does not mark connectionless traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Aal {
    /// None: octets fill cells of 48, and the last cell is filled up with zeros.
    #[default]
    Bare,
    /// AAL5: PDUs, each with its length and CRC-32. The driver computes both.
    Aal5,
}

/// What stands around an SDU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layer {
    Bare,
    Aal5,
    Aal34,
}

/// Octets before an SDU at most: the CPCS header of AAL3/4.
pub(super) const HEAD_OCTETS: usize = aal34::CPCS_OCTETS;
/// Octets behind an SDU at most: padding and trailer of AAL5.
pub(super) const TAIL_OCTETS: usize = PAYLOAD_OCTETS - 1 + aal5::TRAILER_OCTETS;
/// Octets of the longest CPCS-PDU.
pub(super) const MAX_PDU_OCTETS: usize = aal5::cells(aal5::MAX_SDU_OCTETS) * PAYLOAD_OCTETS;

/// Header and trailer of one PDU.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    pub(super) head: [u8; HEAD_OCTETS],
    pub(super) heads: usize,
    pub(super) tail: [u8; TAIL_OCTETS],
    pub(super) tails: usize,
}

impl Layer {
    pub(super) const fn of(vci: u16, aal: Aal) -> Self {
        match aal {
            _ if vci & 0x8000 != 0 => Layer::Aal34,
            Aal::Bare => Layer::Bare,
            Aal::Aal5 => Layer::Aal5,
        }
    }

    /// Octets of a cell's body.
    pub(super) const fn unit(self) -> u32 {
        match self {
            Layer::Aal34 => aal34::SAR_PAYLOAD_OCTETS as u32,
            Layer::Bare | Layer::Aal5 => PAYLOAD_OCTETS as u32,
        }
    }

    /// Octets of an SDU's PDU.
    pub(super) const fn pdu_octets(self, sdu: usize) -> usize {
        match self {
            Layer::Bare => sdu,
            Layer::Aal5 => aal5::cells(sdu) * PAYLOAD_OCTETS,
            Layer::Aal34 => aal34::cpcs_pdu_octets(sdu),
        }
    }

    /// What stands before and behind `sdu`. AAL5 reads all of it, for the CRC; AAL3/4 only its length.
    pub(super) fn frame(self, sdu: &[u8], tag: u8) -> Frame {
        let mut frame = Frame { head: [0; HEAD_OCTETS], heads: 0, tail: [0; TAIL_OCTETS], tails: 0 };
        let length = sdu.len() as u16;
        match self {
            Layer::Bare => {}
            Layer::Aal34 => {
                frame.heads = HEAD_OCTETS;
                frame.head = aal34::Header { cpi: 0, tag, buffer_octets: length }.to_octets();
                frame.tails = self.pdu_octets(sdu.len()) - HEAD_OCTETS - sdu.len();
                let trailer = aal34::Trailer { tag, length }.to_octets();
                frame.tail[frame.tails - trailer.len()..frame.tails].copy_from_slice(&trailer);
            }
            Layer::Aal5 => {
                frame.tails = self.pdu_octets(sdu.len()) - sdu.len();
                let mut trailer = aal5::Trailer { length, ..aal5::Trailer::default() };
                let at = frame.tails - aal5::TRAILER_OCTETS;
                frame.tail[at..frame.tails].copy_from_slice(&trailer.to_octets());
                let mut crc = wire::crc::Crc32::new();
                crc.update(sdu);
                crc.update(&frame.tail[..frame.tails - 4]);
                trailer.crc = crc.finish();
                frame.tail[at..frame.tails].copy_from_slice(&trailer.to_octets());
            }
        }
        frame
    }

    /// Where in `pdu`, which ended where a PDU ends, its SDU is.
    ///
    /// # Errors
    /// Why it is no whole PDU. The length is looked at first: a lost cell shows there (Traw and Smith, 1993).
    pub(super) fn check(self, pdu: &[u8]) -> Result<Range<usize>, DropReason> {
        match self {
            Layer::Bare => Ok(0..pdu.len()),
            Layer::Aal5 => check5(pdu),
            Layer::Aal34 => check34(pdu.len(), pdu.first_chunk(), pdu.last_chunk()),
        }
    }
}

fn check5(pdu: &[u8]) -> Result<Range<usize>, DropReason> {
    let trailer = aal5::Trailer::parse(pdu).map_err(|_| DropReason::Length)?;
    if trailer.length == 0 {
        return Err(DropReason::Aborted);
    }
    if aal5::cells(trailer.length.into()) * PAYLOAD_OCTETS != pdu.len() {
        return Err(DropReason::Length);
    }
    if crc32(&pdu[..pdu.len() - 4]) != trailer.crc {
        return Err(DropReason::Crc);
    }
    Ok(0..usize::from(trailer.length))
}

/// The same by the two words alone that a CPCS-PDU of AAL3/4 begins and ends with.
pub(super) fn check34(
    octets: usize,
    first: Option<&[u8; HEAD_OCTETS]>,
    last: Option<&[u8; HEAD_OCTETS]>,
) -> Result<Range<usize>, DropReason> {
    let (Some(first), Some(last)) = (first, last) else { return Err(DropReason::Length) };
    let trailer = aal34::Trailer::parse(last).map_err(|_| DropReason::Malformed)?;
    let length = usize::from(trailer.length);
    if aal34::cpcs_pdu_octets(length) != octets {
        return Err(DropReason::Length);
    }
    let header = aal34::Header::parse(first).map_err(|_| DropReason::Malformed)?;
    if header.tag != trailer.tag {
        return Err(DropReason::Tag);
    }
    if header.cpi != 0 || header.buffer_octets < trailer.length {
        return Err(DropReason::Malformed);
    }
    Ok(HEAD_OCTETS..HEAD_OCTETS + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(layer: Layer, sdu: &[u8], tag: u8) -> Vec<u8> {
        let frame = layer.frame(sdu, tag);
        [&frame.head[..frame.heads], sdu, &frame.tail[..frame.tails]].concat()
    }

    #[test]
    fn what_is_framed_is_what_the_standards_views_read() {
        for octets in [1, 3, 4, 36, 37, 40, 41, 44, 45, 48, 1000, 65_528] {
            let sdu: Vec<u8> = (0..octets).map(|n| (n * 7) as u8).collect();
            let pdu = whole(Layer::Aal34, &sdu, 9);
            assert_eq!(wire::aal34::check(&pdu), Ok(&sdu[..]));
            assert_eq!(Layer::Aal34.check(&pdu), Ok(4..4 + octets));
            let pdu = whole(Layer::Aal5, &sdu, 9);
            assert_eq!(wire::aal5::check(&pdu).map(|trailer| trailer.length as usize), Ok(octets));
            assert_eq!(Layer::Aal5.check(&pdu), Ok(0..octets));
        }
    }

    #[test]
    fn each_field_that_contradicts_has_its_reason() {
        let sdu = [1; 100];
        let pdu = whole(Layer::Aal34, &sdu, 9);
        let damaged = |at: usize, value: u8| {
            let mut pdu = pdu.clone();
            pdu[at] = value;
            Layer::Aal34.check(&pdu)
        };
        let end = pdu.len();
        assert_eq!(damaged(0, 1), Err(DropReason::Malformed), "CPI");
        assert_eq!(damaged(1, 8), Err(DropReason::Tag), "BTag");
        assert_eq!(damaged(3, 99), Err(DropReason::Malformed), "BASize below the length");
        assert_eq!(damaged(end - 4, 1), Err(DropReason::Malformed), "AL");
        assert_eq!(damaged(end - 3, 8), Err(DropReason::Tag), "ETag");
        assert_eq!(damaged(end - 1, 104), Err(DropReason::Length));
        assert_eq!(Layer::Aal34.check(&pdu[..4]), Err(DropReason::Length));
        let mut pdu = whole(Layer::Aal5, &sdu, 0);
        pdu[50] ^= 1;
        assert_eq!(Layer::Aal5.check(&pdu), Err(DropReason::Crc));
        assert_eq!(Layer::Aal5.check(&pdu[48..]), Err(DropReason::Length));
    }
}
