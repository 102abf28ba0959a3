//! What taps on links have seen, as a part of a [`Trace`].

use crate::Trace;
use net::TapBuffer;
use net::tap::Tapped;

impl Trace {
    /// Adds what a tap on link number `link` has seen.
    pub fn add_tap(&mut self, link: usize, seen: &TapBuffer) {
        self.add(&seen.dropped().to_be_bytes());
        self.events += seen.len() as u64;
        seen.records().for_each(|record| {
            let (label, octets) = match &record.what {
                Tapped::Cell(cell) => (cell.header_word(), &cell.payload[..]),
                Tapped::Frame { circuit, octets, .. } => (circuit.key(), *octets),
            };
            self.mix(record.at.as_nanos());
            self.mix((link as u64) << 40 | (record.from as u64) << 32 | u64::from(label));
            self.add(octets);
        });
    }
}
