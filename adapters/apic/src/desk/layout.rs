//! What a desk-area network is made of.

use super::plan::{LINKS, Plan, PlanError, Shape};
use crate::Config;
use std::collections::BTreeSet;

/// A desk-area network: chips, how they are joined, and which have no power.
#[derive(Debug, Clone, PartialEq)]
pub struct Layout {
    /// How the chips are joined.
    pub shape: Shape,
    /// How many.
    pub chips: usize,
    /// What each of them is.
    pub chip: Config,
    /// Those without power.
    pub off: BTreeSet<usize>,
}

impl Default for Layout {
    /// A chain of one.
    fn default() -> Self {
        Layout { shape: Shape::Chain, chips: 1, chip: Config::default(), off: BTreeSet::new() }
    }
}

/// Why a layout cannot be.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum LayoutError {
    /// So many chips are no such shape.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A chip that is not there has no power.
    #[error("chip {chip} is off: there are chips 0 to {last}")]
    Off {
        /// The chip.
        chip: usize,
        /// The last one that there is.
        last: usize,
    },
}

impl Layout {
    /// Where its links lead.
    ///
    /// # Errors
    /// [`LayoutError`]: such a layout cannot be made.
    pub fn plan(&self) -> Result<Plan, LayoutError> {
        let plan = Plan::new(self.shape, self.chips)?;
        match self.off.iter().find(|chip| **chip >= self.chips) {
            Some(chip) => Err(LayoutError::Off { chip: *chip, last: self.chips - 1 }),
            None => Ok(plan),
        }
    }

    /// Ports as an element of a network: one for the third port of each chip, and one for each open end of a chain.
    pub fn ports(&self) -> usize {
        self.chips + if self.shape == Shape::Chain { LINKS } else { 0 }
    }

    /// Whether another layout has the same chips and links.
    pub fn differs_in_power_only(&self, other: &Layout) -> bool {
        (self.shape, self.chips, &self.chip) == (other.shape, other.chips, &other.chip)
    }
}
