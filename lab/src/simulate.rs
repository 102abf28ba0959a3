//! A user's own network in virtual time: the description that `cellway up` takes, built by the same plan and steps on
//! the same network, with real host interfaces; and a scenario: traffic, faults and changes at times, and what is
//! expected of it all. In: both files and a seed. Out: an [`Outcome`], the same to the octet for the same seed.

mod ends;
mod expect;
mod network;
mod outcome;
mod run;
mod scenario;
#[cfg(test)]
mod tests;
mod traffic;

pub use outcome::{Delay, DroppedAt, ExpectationOutcome, Outcome, SourceOutcome};
pub use run::run;
pub use scenario::Scenario;

/// Why a network or a scenario cannot be simulated.
#[derive(Debug, thiserror::Error)]
pub enum SimulationError {
    /// Something of the description is outside of this process.
    #[error("{0} leads outside of the network: nothing outside passes time as the simulation does; leave it out")]
    Outside(String),
    /// The description cannot be, or a step of it failed.
    #[error("{0}")]
    Network(String),
    /// The scenario is no TOML, or has other keys.
    #[error("{0}")]
    Scenario(String),
    /// A part of the scenario does not fit.
    #[error("{part}: {says}")]
    Part {
        /// Such as `source voice`.
        part: String,
        /// What is wrong, and what to do.
        says: String,
    },
}

impl SimulationError {
    fn part(part: impl Into<String>, says: impl Into<String>) -> Self {
        SimulationError::Part { part: part.into(), says: says.into() }
    }
}
