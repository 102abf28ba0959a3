//! What happened on all links, as one number: same seed, same trace, to the octet.

use net::TapBuffer;
use net::tap::Tapped;

/// A running hash (FNV-1a, 64 bits) over moments, links and octets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trace {
    hash: u64,
    events: u64,
}

impl Default for Trace {
    fn default() -> Self {
        Trace { hash: 0xcbf2_9ce4_8422_2325, events: 0 }
    }
}

impl Trace {
    /// Adds octets.
    pub fn add(&mut self, octets: &[u8]) {
        for octet in octets {
            self.hash = (self.hash ^ u64::from(*octet)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    /// Adds what a tap on link number `link` has seen.
    pub fn add_tap(&mut self, link: usize, seen: &TapBuffer) {
        self.add(&seen.dropped().to_be_bytes());
        for record in seen.records() {
            self.events += 1;
            self.add(&(link as u64).to_be_bytes());
            self.add(&record.at.as_nanos().to_be_bytes());
            self.add(&[record.from as u8]);
            match record.what {
                Tapped::Cell(cell) => {
                    self.add(&cell.header_word().to_be_bytes());
                    self.add(&cell.payload);
                }
                Tapped::Frame { circuit, octets, .. } => {
                    self.add(&circuit.key().to_be_bytes());
                    self.add(octets);
                }
            }
        }
    }

    /// The number.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Cells and frames in it.
    pub fn events(&self) -> u64 {
        self.events
    }
}
