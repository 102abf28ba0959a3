//! Event strategies by name: how host and application learn that something has arrived (Smith 2002, section 3).
//!
//! In configuration, messages and output each is a word and, where it has one, a number: `interrupt`, `polling`,
//! `clocked 1000 Hz`, `hybrid` or `hybrid 64`, `soft 1000 Hz`.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Descriptors that a `hybrid` endpoint may have taken before applications that are behind get the processor.
pub const HYBRID_QUOTA: u32 = 32;
/// Fastest clock: faster ones cost more than polling.
pub const MAX_HERTZ: u32 = 100_000;

/// Fastest clock between whose ticks the host's thread sleeps. All clocks up to this one tick at multiples of its
/// period.
pub const ASLEEP_HERTZ: u32 = 4000;

/// How the two sides learn that something has arrived.
///
/// ```
/// assert_eq!("clocked 1000 Hz".parse(), Ok(endpoint::Events::Clocked { hertz: 1000 }));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Events {
    /// A wake-up for each event, for whoever sleeps.
    Interrupt,
    /// Both sides look all the time; nobody sleeps.
    Polling,
    /// The host looks, and wakes the application, at the ticks of a clock: all circuits are served at each.
    Clocked {
        /// Ticks per second, 1 to [`MAX_HERTZ`].
        hertz: u32,
    },
    /// A wake-up when idle, polling under load, with a quota while applications are behind; back when it is quiet.
    Hybrid {
        /// Descriptors taken before others get the processor, at least 1.
        quota: u32,
    },
    /// The host looks at points that its loop passes anyway, this often at most; without such points, each millisecond.
    Soft {
        /// Looks per second at most, 1 to [`MAX_HERTZ`].
        hertz: u32,
    },
}

impl Default for Events {
    fn default() -> Self {
        Events::Hybrid { quota: HYBRID_QUOTA }
    }
}

impl Events {
    /// Whether the host's thread does not sleep while an endpoint has it: `polling`, and clocks beyond
    /// [`ASLEEP_HERTZ`].
    pub fn keeps_awake(&self) -> bool {
        match self {
            Events::Polling => true,
            Events::Clocked { hertz } => *hertz > ASLEEP_HERTZ,
            // The host looks each millisecond at least, and more often only where it is awake anyway.
            Events::Interrupt | Events::Hybrid { .. } | Events::Soft { .. } => false,
        }
    }
}

impl fmt::Display for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Events::Interrupt => f.write_str("interrupt"),
            Events::Polling => f.write_str("polling"),
            Events::Clocked { hertz } => write!(f, "clocked {hertz} Hz"),
            Events::Hybrid { quota: HYBRID_QUOTA } => f.write_str("hybrid"),
            Events::Hybrid { quota } => write!(f, "hybrid {quota}"),
            Events::Soft { hertz } => write!(f, "soft {hertz} Hz"),
        }
    }
}

/// Not an event strategy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no event strategy: write interrupt, polling, clocked 1000 Hz, hybrid, or soft 1000 Hz (1 to {MAX_HERTZ} Hz)"
)]
pub struct NoStrategy(String);

impl FromStr for Events {
    type Err = NoStrategy;

    fn from_str(text: &str) -> Result<Self, NoStrategy> {
        let wrong = || NoStrategy(text.to_owned());
        let mut words = text.split_whitespace();
        let name = words.next().ok_or_else(wrong)?;
        let number = words.next().map(|n| n.parse::<u32>().map_err(|_| wrong())).transpose()?;
        let unit = words.next();
        let clock = || number.filter(|n| (1..=MAX_HERTZ).contains(n) && matches!(unit, None | Some("Hz")));
        let events = match (name, number) {
            ("interrupt", None) => Events::Interrupt,
            ("polling", None) => Events::Polling,
            ("clocked", _) => Events::Clocked { hertz: clock().ok_or_else(wrong)? },
            ("soft", _) => Events::Soft { hertz: clock().ok_or_else(wrong)? },
            ("hybrid", None) => Events::default(),
            ("hybrid", Some(quota @ 1..)) if unit.is_none() => Events::Hybrid { quota },
            _ => return Err(wrong()),
        };
        if words.next().is_some() { Err(wrong()) } else { Ok(events) }
    }
}

impl TryFrom<String> for Events {
    type Error = NoStrategy;

    fn try_from(text: String) -> Result<Self, NoStrategy> {
        text.parse()
    }
}

impl From<Events> for String {
    fn from(events: Events) -> String {
        events.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_strategy_is_read_as_it_is_written() {
        for events in [
            Events::Interrupt,
            Events::Polling,
            Events::Clocked { hertz: 1000 },
            Events::default(),
            Events::Hybrid { quota: 64 },
            Events::Soft { hertz: 50_000 },
        ] {
            assert_eq!(events.to_string().parse(), Ok(events));
            let json = serde_json::to_string(&events).unwrap();
            assert_eq!(serde_json::from_str::<Events>(&json).unwrap(), events);
        }
        assert_eq!("clocked 250".parse(), Ok(Events::Clocked { hertz: 250 }));
        for wrong in
            ["", "clocked", "clocked 0 Hz", "clocked 1000001 Hz", "hybrid 0", "polling 3", "soft 9 kHz", "tick"]
        {
            assert!(wrong.parse::<Events>().is_err(), "{wrong}");
        }
    }
}
