//! Perfect prediction (Almesberger 1995, section 3.4): a PDU that is still in the adapter is looked at in the
//! interrupt, at three fields and a length. What the look assumes is checked when the PDU is in memory.

use crate::layers::{Flow, IP_OCTETS, Layers, Mismatch, UDP, UDP_OCTETS};
use std::ops::Range;
use wire::llc::ROUTED_OCTETS;

/// Octets of headers that the look assumes: LLC/SNAP, IP without options, UDP.
pub const HEADERS: usize = ROUTED_OCTETS + IP_OCTETS + UDP_OCTETS;

/// Where the interrupt handler has the length from by which it allocates memory for a PDU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Length {
    /// From nowhere: there is room for the longest PDU.
    Longest,
    /// From AAL5's trailer.
    #[default]
    Aal5,
    /// From UDP's header, where the look saw one that IP's total length agrees with: octets behind it are not fetched.
    /// Else from AAL5's trailer.
    Udp,
}

/// What the look has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// The application.
    pub flow: Flow,
    /// Octets that UDP says there are, its header included.
    pub udp_octets: usize,
}

impl Look {
    /// Looks at a PDU of `octets` octets by its words of 32 bits, most significant octet first. `None`: too short, a
    /// fragment but the first, or another protocol than UDP.
    pub fn new(octets: usize, mut word: impl FnMut(usize) -> u32) -> Option<Self> {
        if octets < HEADERS {
            return None;
        }
        // IP begins with word 2: its words 1, 2 and the first two of UDP.
        let (fragment, protocol) = (word(3) & 0x1fff, (word(4) >> 16) as u8);
        if fragment != 0 || protocol != UDP {
            return None;
        }
        let (ports, length) = (word(7), word(8));
        let flow = Flow { protocol, port: ports as u16 };
        Some(Look { flow, udp_octets: (length >> 16) as usize })
    }

    /// Octets of the data, by UDP's length or, where that cannot be, by AAL5's.
    pub const fn data_octets(&self, aal5_octets: usize) -> usize {
        let most = aal5_octets.saturating_sub(HEADERS);
        match self.udp_octets.checked_sub(UDP_OCTETS) {
            Some(data) if data <= most => data,
            _ => most,
        }
    }

    /// Octets of the PDU up to where UDP says that its data end. All of the PDU, if IP has options or another length:
    /// what is behind would be missed on the slow path.
    pub fn pdu_octets(&self, aal5_octets: usize, mut word: impl FnMut(usize) -> u32) -> usize {
        let (packet, first) = (IP_OCTETS + self.udp_octets, word(2));
        let (version_and_header, total) = (first >> 24, (first & 0xffff) as usize);
        let agrees = version_and_header == 0x45 && total == packet && self.udp_octets >= UDP_OCTETS;
        if agrees { aal5_octets.min(ROUTED_OCTETS + packet) } else { aal5_octets }
    }

    /// Holds all fields against what the look has assumed. `pdu` is the beginning of the PDU, with all headers. Gives
    /// where the data are.
    ///
    /// # Errors
    /// What is otherwise: the PDU goes the slow path.
    pub fn verify(&self, pdu: &[u8], octets: usize) -> Result<Range<usize>, Mismatch> {
        let layers = Layers::new(pdu, octets).process_all()?;
        match (layers.flow(), layers.rest()) {
            (Some(flow), _) if flow != self.flow => Err(Mismatch::Flow),
            (None, _) => Err(Mismatch::Flow),
            (_, data) if data.start != HEADERS => Err(Mismatch::Options),
            (_, data) if data.len() != self.data_octets(octets) => Err(Mismatch::Length),
            (_, data) => Ok(data),
        }
    }
}
