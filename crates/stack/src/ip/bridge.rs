//! Which circuit leads to which Ethernet address (IEEE 802.1Q clause 8.7): learnt from the senders of frames, forgotten after
//! five minutes, bounded.

use std::collections::BTreeMap;
use std::time::Duration;
use wire::Time;

const AGEING: Duration = Duration::from_secs(300);
/// Addresses at most; further ones are not learnt, and frames to them go to all.
const MAX_ENTRIES: usize = 4096;

/// Octets of an Ethernet address.
const OCTETS: usize = 6;

/// The table.
#[derive(Debug, Default)]
pub(crate) struct Bridge {
    entries: BTreeMap<[u8; OCTETS], (u32, Time)>,
    swept: Time,
}

impl Bridge {
    /// A frame has come on a circuit.
    pub(crate) fn learn(&mut self, frame: &[u8], circuit: u32, now: Time) {
        let Some(source) = frame.get(6..).and_then(|f| f.first_chunk::<OCTETS>()) else { return };
        // A group address is nobody's.
        if source[0] & 1 == 1 {
            return;
        }
        if let Some(entry) = self.entries.get_mut(source) {
            *entry = (circuit, now);
            return;
        }
        if self.entries.len() >= MAX_ENTRIES && self.swept + AGEING / 30 <= now {
            self.swept = now;
            self.entries.retain(|_, (_, heard)| *heard + AGEING > now);
        }
        if self.entries.len() < MAX_ENTRIES {
            self.entries.insert(*source, (circuit, now));
        }
    }

    /// The circuit for a frame; `None`: all of them.
    pub(crate) fn circuit(&self, frame: &[u8], now: Time) -> Option<u32> {
        let destination = frame.first_chunk::<OCTETS>()?;
        let (circuit, heard) = self.entries.get(destination)?;
        (*heard + AGEING > now).then_some(*circuit)
    }

    /// A circuit is gone.
    pub(crate) fn forget(&mut self, circuit: u32) {
        self.entries.retain(|_, (c, _)| *c != circuit);
    }
}
