//! Attacks on a running network, each beside an innocent circuit that must not notice.
//!
//! A test builds a [`Field`]: a [`Ground`] (hosts, switches, links and circuits, with an engine and a service in this
//! process) or a [`Program`] (a daemon). It names an innocent circuit, and gives [`Trial::withstand`] an attack. The trial
//! runs twice. In the control run the attacker only
//! computes, because a busy neighbour costs time slices on any machine. In the second run it attacks. The innocent circuit
//! loses nothing, and its worst latency may exceed that of the control run by a bound only: see [`Class`].
//!
//! ```ignore
//! Trial::new(Class::Other, ground).withstand(|ground, attack| while attack.goes_on() { annoy(ground) });
//! ```
#![forbid(unsafe_code)]

mod field;
mod ground;
mod lingering;
mod processes;
mod program;
mod raw;
mod stalling;
mod trial;
mod user;
mod watch;

pub use field::{Field, circuit};
pub use ground::{Builder, Ground, assert_all_is_accounted_for, between, cbr, frames, rated};
pub use lingering::lingering;
pub use processes::{child, children, descendants, kill, until, within};
pub use program::Program;
pub use raw::{Raw, mappings};
pub use stalling::Stalling;
pub use trial::{Attack, Class, Trial};
pub use user::as_user;
pub use watch::{Report, Watch};
