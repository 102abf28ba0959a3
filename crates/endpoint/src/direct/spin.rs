//! How a side of a direct circuit waits before it sleeps.

use crate::waiting::{LOOKS, Waiting, YIELDS};

/// How long to look before going to sleep. In each case a side spins only while the other one is known to run on
/// another processor, and yields otherwise ([`crate::waiting`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Spin {
    /// Sleeps at once.
    None,
    /// Spins about two microseconds and yields, eight times, then sleeps.
    #[default]
    Bounded,
    /// Never sleeps before the caller's own timeout.
    Forever,
}

impl Spin {
    /// Sleeps at once.
    pub fn none() -> Self {
        Spin::None
    }

    /// Never sleeps before the caller's own timeout.
    pub fn forever() -> Self {
        Spin::Forever
    }

    pub(crate) fn waiting(self) -> Waiting {
        match self {
            Spin::None => Waiting::new(0, Some(0)),
            Spin::Bounded => Waiting::new(LOOKS, Some(YIELDS)),
            Spin::Forever => Waiting::new(LOOKS, None),
        }
    }
}
