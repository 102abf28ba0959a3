//! Perfect prediction (Almesberger 1995, section 3.4): a PDU that is still in the adapter is looked at in the interrupt, at three
//! fields and a length. What the look assumes is checked when the PDU is in memory.

use crate::layers::{Flow, IP_OCTETS, Layers, Mismatch, UDP, UDP_OCTETS};
use std::ops::Range;
use wire::llc::ROUTED_OCTETS;

/// Octets of headers that the look assumes: LLC/SNAP, IP without options, UDP.
pub const HEADERS: usize = ROUTED_OCTETS + IP_OCTETS + UDP_OCTETS;

/// What the look has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// The application.
    pub flow: Flow,
    /// Octets that UDP says there are, its header included.
    pub udp_octets: usize,
}

impl Look {
    /// Looks at a PDU of `octets` octets by its words of 32 bits, most significant octet first. `None`: too short, a fragment but the
    /// first, or another protocol than UDP.
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

    /// Holds all fields against what the look has assumed. `pdu` is the beginning of the PDU, with all headers. Gives where the data are.
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
