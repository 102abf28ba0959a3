//! What a circuit may choose to be dropped of it where the queue of its port grows.

/// What is dropped of a circuit where its port's queue grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Discard {
    /// PDUs for which there is no room, whole.
    #[default]
    Whole,
    /// Cells for which there is no room, and the rest of their PDU but for its last cell. No room is kept for PDUs.
    Partial,
    /// As [`Discard::Whole`]; beyond `threshold` queued cells also PDUs of a circuit that has more than `percent` of
    /// the mean of all circuits that wait.
    Selective {
        /// Cells queued at the port.
        threshold: u32,
        /// In hundredths.
        percent: u16,
    },
    /// As [`Discard::Selective`], with a share that shrinks from any at the threshold to `percent` where the port is
    /// full.
    Fair {
        /// Cells queued at the port.
        threshold: u32,
        /// In hundredths.
        percent: u16,
    },
}

impl Discard {
    /// Whether a PDU of a circuit with `queued` cells may begin, of `waiting` circuits at a port with `used` of `limit`
    /// cells.
    pub(crate) fn allows(self, queued: u32, waiting: u32, used: u32, limit: u32) -> bool {
        let (x, n, xi) = (u64::from(used), u64::from(waiting), u64::from(queued));
        match self {
            Discard::Whole | Discard::Partial => true,
            Discard::Selective { threshold, percent } => used <= threshold || xi * n * 100 <= u64::from(percent) * x,
            Discard::Fair { threshold, percent } => {
                let (r, k) = (u64::from(threshold), u64::from(limit));
                // Xi N / X > Z (1 + (K - X) / (X - R)) with all denominators multiplied out.
                x <= r || xi * n * 100 * (x - r) <= u64::from(percent) * x * k.saturating_sub(r)
            }
        }
    }
}
