//! The test world: hosts, links and switches in virtual time, from a seed.
//!
//! It runs the same [`net::Network`] and nodes as live; nothing in it reads a clock, sleeps or opens a socket. In: a seed, a
//! description, faults on schedule. Out: what the hosts got, and a trace whose hash is the same whenever the seed is.
#![forbid(unsafe_code)]

pub mod seeds;
pub mod station;
pub mod trace;
pub mod world;

pub use seeds::for_seeds;
pub use station::Station;
pub use trace::Trace;
pub use world::World;
