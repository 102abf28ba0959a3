//! OAM as state machines (I.610): an end point of a flow, F4 or F5, segment or end to end, and AIS at a switch.
//!
//! [`EndPoint`] is one end of a connection or of a segment of it: alarms, remote defect indication, continuity check,
//! performance monitoring, activation. In: what OAM cells say, user cells, `now`. Out: what to send, a deadline,
//! alarms. Hosts have one for each circuit that needs it, switches for paths that end at them. `docs/oam.md` publishes
//! the rules.

mod activation;
mod alarm;
mod fate;
mod monitoring;
mod point;
#[cfg(test)]
mod tests;
mod timers;

pub use activation::{Request, RequestError, RequestOutcome};
pub use alarm::{Alarm, AlarmKind, LOSS_OF_CONTINUITY, PERIOD, RELEASE};
pub(crate) use fate::{Fate, fate};
pub use monitoring::{Results, Totals};
pub use point::{EndPoint, Event, PointConfig};
pub use timers::Timers;
