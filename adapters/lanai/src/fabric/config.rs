//! What a fabric is made of: the rate of its links, buffers, marks, switches, faults.

use super::wheel::Tick;
use core::time::Duration;
use wire::Time;

/// How a switch passes packets on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Switching {
    /// As soon as the route octet is decoded.
    #[default]
    CutThrough,
    /// When the whole packet is there; buffers hold two of the longest.
    StoreAndForward,
}

/// The marks of slack buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Marks {
    /// By each cable's length: STOP where what is under way still fits, GO where the buffer does not run dry if there
    /// is room for that as well.
    #[default]
    ByLength,
    /// The same for all.
    Fixed {
        /// STOP is sent when so many symbols are in the buffer.
        stop: u32,
        /// GO is sent when no more than so many are left.
        go: u32,
    },
}

/// A fabric's properties. The defaults are those of a LAN link of 640 Mbit/s each way.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Config {
    /// Picoseconds of a symbol: 12 500 at 640 Mbit/s, 6250 at 1.28 Gbit/s.
    pub symbol_ps: u64,
    /// Picoseconds that a metre of cable takes.
    pub metre_ps: u64,
    /// Symbols in the stages of sender and receiver, each way.
    pub logic: u32,
    /// Symbol times from a packet's first octet to the request for an output.
    pub routing: u32,
    /// Symbols that a slack buffer holds.
    pub slack: u32,
    /// See there.
    pub marks: Marks,
    /// See there.
    pub switching: Switching,
    /// A packet that has not moved for so long is given up, and its path is free again; zero: never. One of mapping
    /// after a quarter.
    pub timeout: Duration,
    /// Packets that wait at a host at most.
    pub queue: usize,
    /// Probability that a symbol is damaged on a cable.
    pub errors: f64,
    /// Of the faults.
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            symbol_ps: 12_500,
            metre_ps: 5_000,
            // 12 symbols of logic in a round trip, as a figure for early switches has it.
            logic: 6,
            routing: 2,
            // The least with which a link of 10 m never runs dry: twice the 20 symbols of its round trip, and
            // hysteresis.
            slack: 42,
            marks: Marks::ByLength,
            switching: Switching::CutThrough,
            timeout: Duration::from_millis(50),
            queue: 64,
            errors: 0.0,
            seed: 0,
        }
    }
}

impl Config {
    /// Symbol times from a sender's stage to a receiver's over a cable of so many metres.
    pub fn one_way(&self, metres: f64) -> u32 {
        let cable = (metres.max(0.0) * self.metre_ps as f64 / self.symbol_ps.max(1) as f64).ceil();
        self.logic.saturating_add(cable.min(1e6) as u32).max(1)
    }

    /// Symbols that still come after a receiver has sent STOP.
    pub fn under_way(&self, metres: f64) -> u32 {
        2 * self.one_way(metres)
    }

    /// Size, STOP mark and GO mark of a receiver's buffer at a cable; `None` if it has no room for what is under way.
    pub fn buffer(&self, metres: f64) -> Option<(u32, u32, u32)> {
        let size = match self.switching {
            Switching::CutThrough => self.slack,
            Switching::StoreAndForward => self.slack + 2 * crate::packet::MAX_OCTETS as u32,
        };
        match self.marks {
            Marks::Fixed { stop, go } => Some((size, stop.max(1), go.min(stop.saturating_sub(1)))),
            Marks::ByLength => {
                let under_way = self.under_way(metres);
                let stop = size.checked_sub(under_way).filter(|stop| *stop > 0)?;
                Some((size, stop, under_way.min(stop - 1)))
            }
        }
    }

    /// Symbol times that a link is idle after each STOP, because GO comes too late to keep the buffer from running dry.
    pub fn gap(&self, metres: f64) -> Option<u32> {
        self.buffer(metres).map(|(_, _, go)| self.under_way(metres).saturating_sub(go))
    }

    pub(super) fn tick(&self, at: Time) -> Tick {
        let ps = u128::from(at.as_nanos()) * 1000;
        u64::try_from(ps.div_ceil(u128::from(self.symbol_ps.max(1)))).unwrap_or(u64::MAX)
    }

    /// The last tick that has begun at a moment.
    pub(super) fn tick_by(&self, at: Time) -> Tick {
        let ps = u128::from(at.as_nanos()) * 1000;
        u64::try_from(ps / u128::from(self.symbol_ps.max(1))).unwrap_or(u64::MAX)
    }

    pub(super) fn time(&self, tick: Tick) -> Time {
        let ns = (u128::from(tick) * u128::from(self.symbol_ps)).div_ceil(1000);
        Time::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// How long a packet may stand; `None`: for ever.
    pub(super) fn patience(&self) -> Option<Tick> {
        let at = Time::ZERO + self.timeout;
        (at > Time::ZERO).then(|| self.tick(at))
    }

    /// The same of a mapping packet. Loops go down and up again, so they can close a circle with packets of users: such
    /// a packet is given up before those that it holds up are.
    pub(super) fn mapping_patience(&self) -> Tick {
        let timeout = if self.timeout.is_zero() { Config::default().timeout } else { self.timeout };
        self.tick(Time::ZERO + timeout / 4)
    }
}
