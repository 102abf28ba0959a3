//! What runs on circuits, as users of endpoints: IP over ATM, LAN emulation, OAM loopback, reliable transfer.
//!
//! Each is a state machine that takes PDUs and `now` and gives PDUs and deadlines ([`ip`], [`atmarp`], [`classical`],
//! [`lane`], [`oam`], [`transfer`]); the shells in [`device`] and at the end of [`transfer`] join it to an endpoint, a
//! TUN device or an in-process TCP/IP stack. [`flood`] measures what a circuit carries.
#![deny(unsafe_code)]

pub mod atmarp;
pub mod classical;
pub mod device;
pub mod flood;
pub mod ip;
pub mod lane;
pub mod oam;
mod places;
pub mod ppp;
pub mod reservations;
mod retry;
mod shares;
pub mod transfer;
