//! Units: time in nanoseconds since an epoch of the caller's, and rates in cells per second.

use core::fmt;
use core::num::NonZeroU64;
use core::ops::{Add, AddAssign, Sub};
use core::time::Duration;

/// A moment: nanoseconds since an epoch that whoever drives the state machines chose (the start of the process live,
/// zero in virtual time). State machines take it as `now` and never ask a clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

impl Time {
    /// The epoch.
    pub const ZERO: Time = Time(0);
    /// A moment that never comes.
    pub const MAX: Time = Time(u64::MAX);

    /// The moment `nanos` nanoseconds after the epoch.
    pub const fn from_nanos(nanos: u64) -> Self {
        Time(nanos)
    }

    /// The moment `micros` microseconds after the epoch.
    pub const fn from_micros(micros: u64) -> Self {
        Time(micros.saturating_mul(1_000))
    }

    /// The moment `millis` milliseconds after the epoch.
    pub const fn from_millis(millis: u64) -> Self {
        Time(millis.saturating_mul(1_000_000))
    }

    /// Nanoseconds since the epoch.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds since the epoch.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// How long after `earlier` this moment is; zero if it is not after it.
    pub const fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Time;
    fn add(self, d: Duration) -> Time {
        Time(self.0.saturating_add(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl AddAssign<Duration> for Time {
    fn add_assign(&mut self, d: Duration) {
        *self = *self + d;
    }
}

impl Sub for Time {
    type Output = Duration;
    fn sub(self, earlier: Time) -> Duration {
        self.since(earlier)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09} s", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

/// Units of time as people write them, and their nanoseconds.
const TIME_UNITS: [(&str, f64); 7] =
    [("min", 60e9), ("ms", 1e6), ("us", 1e3), ("\u{b5}s", 1e3), ("ns", 1.0), ("s", 1e9), ("h", 3600e9)];

/// A time as people write it: a number with its unit, `250 ms` or `1.5s`; without a unit, in `unit`.
pub fn parse_duration(text: &str, unit: &str) -> Option<Duration> {
    let text = text.trim();
    let digits = text.trim_end_matches(char::is_alphabetic);
    let written = if digits.len() == text.len() { unit } else { &text[digits.len()..] };
    let (_, nanos) = TIME_UNITS.iter().find(|(name, _)| *name == written)?;
    let number = digits.trim_end().parse::<f64>().ok()?;
    Duration::try_from_secs_f64(number * nanos / 1e9).ok()
}

/// A rate in cells per second (ITU-T I.371 states all contracts in cells). An `Option` of it takes no more memory.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
pub struct CellRate(
    /// The bits of a number that is positive and finite: in the order of the numbers, and never zero.
    NonZeroU64,
);

const _: () = assert!(size_of::<Option<CellRate>>() == 8);

impl CellRate {
    /// The payload rate of STS-3c / STM-1: 149.76 Mbit/s, 353 207.5 cells/s.
    pub const OC3C: CellRate = CellRate::constant(149_760_000.0 / 424.0);
    /// The payload rate of STS-12c / STM-4: 599.04 Mbit/s, 1 412 830.2 cells/s.
    pub const OC12C: CellRate = CellRate::constant(599_040_000.0 / 424.0);

    const fn constant(cells_per_s: f64) -> Self {
        match NonZeroU64::new(cells_per_s.to_bits()) {
            Some(bits) => CellRate(bits),
            None => panic!("a rate is not zero"),
        }
    }

    /// `cells_per_s` cells each second; `None` unless positive and finite.
    pub fn from_cells_per_s(cells_per_s: f64) -> Option<Self> {
        let is_rate = cells_per_s.is_finite() && cells_per_s > 0.0;
        NonZeroU64::new(cells_per_s.to_bits()).filter(|_| is_rate).map(CellRate)
    }

    /// The rate whose cell *payloads* (48 octets) carry `bits_per_s`, as Linux's `text2qos` counts.
    pub fn from_payload_bits_per_s(bits_per_s: f64) -> Option<Self> {
        Self::from_cells_per_s(bits_per_s / 384.0)
    }

    /// The rate whose whole cells (53 octets) fill a line of `bits_per_s`.
    pub fn from_line_bits_per_s(bits_per_s: f64) -> Option<Self> {
        Self::from_cells_per_s(bits_per_s / 424.0)
    }

    /// Cells each second.
    pub fn cells_per_s(self) -> f64 {
        f64::from_bits(self.0.get())
    }

    /// Bits of cell payload each second.
    pub fn payload_bits_per_s(self) -> f64 {
        self.cells_per_s() * 384.0
    }

    /// Bits of whole 53-octet cells each second.
    pub fn line_bits_per_s(self) -> f64 {
        self.cells_per_s() * 424.0
    }

    /// Nanoseconds from one cell to the next.
    pub fn interval_nanos(self) -> f64 {
        1e9 / self.cells_per_s()
    }
}

impl fmt::Debug for CellRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CellRate").field(&self.cells_per_s()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oc3c_carries_353207_5_cells_per_second() {
        assert!((CellRate::OC3C.cells_per_s() - 353_207.547).abs() < 0.001);
        assert!((CellRate::OC3C.interval_nanos() - 2831.2).abs() < 0.1);
    }

    #[test]
    fn each_notation_of_a_time_is_the_same_time() {
        for text in ["1500", "1500us", "1500 us", "1.5 ms", "1.5ms", "0.0015 s", "1500000 ns", "1500 \u{b5}s"] {
            assert_eq!(parse_duration(text, "us"), Some(Duration::from_micros(1500)), "{text}");
        }
        assert_eq!(parse_duration("2min", "s"), parse_duration("120", "s"));
        for bad in ["", "s", "-1", "5 parsecs", "1e400", "NaN", "1 Ms"] {
            assert_eq!(parse_duration(bad, "s"), None, "{bad}");
        }
    }

    #[test]
    fn time_saturates() {
        assert_eq!(Time::ZERO.since(Time::MAX), Duration::ZERO);
        assert_eq!(Time::MAX + Duration::from_secs(1), Time::MAX);
    }

    #[test]
    fn rates_that_are_no_rates_are_refused() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(CellRate::from_cells_per_s(bad), None);
        }
    }

    #[test]
    fn rates_are_ordered_as_their_numbers() {
        let numbers = [f64::MIN_POSITIVE, 1e-9, 0.5, 1.0, 1.5, 353_207.5, 1e300, f64::MAX];
        for pair in numbers.windows(2) {
            let [a, b] = [pair[0], pair[1]].map(|n| CellRate::from_cells_per_s(n).unwrap());
            assert_eq!(a.partial_cmp(&b), Some(core::cmp::Ordering::Less));
            assert!(a != b);
            assert_eq!([a, b].map(CellRate::cells_per_s), [pair[0], pair[1]]);
        }
        assert_eq!(std::format!("{:?}", CellRate::from_cells_per_s(2.5).unwrap()), "CellRate(2.5)");
    }
}
