//! Calls over ATM: signalling as state machines, without input, output or a clock.
//!
//! In: PDUs of the signalling channels (VPI 0, VCI 5 and 16), requests, the time. Out: PDUs, indications, and when to
//! be woken. From the bottom: [`sscop`] (Q.2110) carries messages in order over a link that loses them; [`saal`]
//! (Q.2130) makes a signalling link of it; [`call`] (Q.2931, Q.2971) is call control of one interface.
//!
//! Every machine has the same verbs: `handle_*(input, now)`, `poll_transmit`, `poll`, `poll_timeout`,
//! `handle_timeout(now)`. Whoever drives one takes all that the polls give after each input. Nothing that a peer sends
//! makes a machine panic, and what a machine keeps for a peer is bounded by its configuration.
#![forbid(unsafe_code)]

pub mod call;
pub mod ilmi;
pub mod node;
pub mod port;
pub mod saal;
pub mod simulation;
mod slots;
pub mod sscop;
