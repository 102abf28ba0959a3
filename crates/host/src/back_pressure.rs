//! What happens to an SDU while its receiver is slow, has stopped, is dead or is hostile: one table.
//!
//! The table is data. A test runs each of its cells in virtual time (`tests`) and compares the outcome, the counter
//! and the time bound. `docs/events.md` shows the same table, which that test prints.

#[cfg(test)]
mod tests;

use crate::circuit::MOMENT;
use crate::events::machine::REST;
use std::time::Duration;
use wire::DropReason;

/// What carries the SDU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Circuit {
    /// No contract and no credits.
    BestEffort,
    /// `flow = "credit"`.
    Credit,
    /// A reserved rate.
    Contract,
    /// Point to multipoint, best effort. The receiver of the table is one leaf; the other leaf is fast.
    Multipoint,
    /// Shared memory between the two applications ([`endpoint::direct`]).
    Direct,
}

/// What the receiving application does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Receiver {
    /// It takes SDUs at once.
    Fast,
    /// It takes fewer than come.
    Slow,
    /// It takes none, and is there.
    Stopped,
    /// It has gone.
    Dead,
    /// It takes SDUs, and gives back nonsense in place of their buffers.
    Hostile,
}

/// What becomes of the SDUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// All arrive: what the receiver has no room for waits at the sender.
    Lossless,
    /// Some are dropped and counted, for the first of these reasons, perhaps for the others, and for no other.
    Dropped(&'static [DropReason]),
    /// The sender is told that the receiver has gone.
    Gone,
}

/// One cell of the table.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// What carries the SDU.
    pub circuit: Circuit,
    /// What the receiving application does.
    pub receiver: Receiver,
    /// What becomes of the SDUs.
    pub outcome: Outcome,
    /// The longest time in which the sender, which has SDUs to send, gets rid of none. `None`: as long as the receiver
    /// takes none.
    pub standstill: Option<Duration>,
}

/// What a receiver is short of that takes little, and gives back what it takes.
const NO_ROOM: &[DropReason] = &[DropReason::RingFull, DropReason::NoBuffer];
const NO_BUFFER: &[DropReason] = &[DropReason::NoBuffer];
/// The last is for a PDU whose receiver goes while it arrives or is kept.
const NOT_OPEN: &[DropReason] = &[DropReason::NotOpen, DropReason::Closed];
/// A best-effort sender pauses, and then waits for what is kept.
const PAUSE: Option<Duration> = Some(REST.saturating_add(MOMENT).saturating_add(A_FEW_ROUNDS));
const KEPT: Option<Duration> = Some(MOMENT.saturating_add(A_FEW_ROUNDS));
/// A round or two of the network.
const AT_ONCE: Option<Duration> = Some(A_FEW_ROUNDS);
const A_FEW_ROUNDS: Duration = Duration::from_micros(50);

const fn case(circuit: Circuit, receiver: Receiver, outcome: Outcome, standstill: Option<Duration>) -> Case {
    Case { circuit, receiver, outcome, standstill }
}

/// Every kind of circuit with every kind of receiver.
pub const TABLE: [Case; 25] = {
    use Circuit::{BestEffort, Contract, Credit, Direct, Multipoint};
    use Outcome::{Dropped, Gone, Lossless};
    use Receiver::{Dead, Fast, Hostile, Slow, Stopped};
    [
        case(BestEffort, Fast, Lossless, AT_ONCE),
        case(BestEffort, Slow, Dropped(NO_ROOM), PAUSE),
        case(BestEffort, Stopped, Dropped(NO_ROOM), PAUSE),
        case(BestEffort, Dead, Dropped(NOT_OPEN), AT_ONCE),
        case(BestEffort, Hostile, Dropped(NO_BUFFER), KEPT),
        case(Credit, Fast, Lossless, AT_ONCE),
        case(Credit, Slow, Lossless, None),
        case(Credit, Stopped, Lossless, None),
        case(Credit, Dead, Dropped(NOT_OPEN), AT_ONCE),
        case(Credit, Hostile, Lossless, None),
        case(Contract, Fast, Lossless, AT_ONCE),
        case(Contract, Slow, Dropped(NO_ROOM), PAUSE),
        case(Contract, Stopped, Dropped(NO_ROOM), PAUSE),
        case(Contract, Dead, Dropped(NOT_OPEN), AT_ONCE),
        case(Contract, Hostile, Dropped(NO_BUFFER), KEPT),
        case(Multipoint, Fast, Lossless, AT_ONCE),
        case(Multipoint, Slow, Dropped(NO_ROOM), AT_ONCE),
        case(Multipoint, Stopped, Dropped(NO_ROOM), AT_ONCE),
        case(Multipoint, Dead, Dropped(NOT_OPEN), AT_ONCE),
        case(Multipoint, Hostile, Dropped(NO_BUFFER), AT_ONCE),
        case(Direct, Fast, Lossless, AT_ONCE),
        case(Direct, Slow, Lossless, None),
        case(Direct, Stopped, Lossless, None),
        case(Direct, Dead, Gone, AT_ONCE),
        case(Direct, Hostile, Lossless, None),
    ]
};

/// The table as a page has it.
pub fn page() -> String {
    let row = |case: &Case| {
        let counter = match case.outcome {
            Outcome::Dropped(reasons) => {
                let names: Vec<String> = reasons.iter().map(|reason| format!("`{}`", reason.name())).collect();
                names.join(", ")
            }
            _ => "none".into(),
        };
        let standstill = match case.standstill {
            AT_ONCE => "at no time".into(),
            Some(time) => format!("{} us at most", time.saturating_sub(A_FEW_ROUNDS).as_micros()),
            None => "while the receiver takes none".into(),
        };
        let (circuit, receiver) = (case.circuit.name(), case.receiver.name());
        format!("| {circuit} | {receiver} | {} | {counter} | {standstill} |\n", case.outcome.meaning())
    };
    let rows: String = TABLE.iter().map(row).collect();
    format!("| circuit | receiver | SDUs | counter | the sender stands still |\n|---|---|---|---|---|\n{rows}")
}

impl Circuit {
    fn name(self) -> &'static str {
        match self {
            Circuit::BestEffort => "best effort",
            Circuit::Credit => "credit",
            Circuit::Contract => "contract",
            Circuit::Multipoint => "multipoint, one leaf",
            Circuit::Direct => "direct",
        }
    }
}

impl Receiver {
    fn name(self) -> &'static str {
        match self {
            Receiver::Fast => "fast",
            Receiver::Slow => "slow",
            Receiver::Stopped => "stopped",
            Receiver::Dead => "dead",
            Receiver::Hostile => "hostile",
        }
    }
}

impl Outcome {
    fn meaning(self) -> &'static str {
        match self {
            Outcome::Lossless => "all arrive",
            Outcome::Dropped(NOT_OPEN) => "its host drops them",
            Outcome::Dropped(_) => "its host drops those that it has no room for",
            Outcome::Gone => "the sender is told that the receiver has gone",
        }
    }
}
