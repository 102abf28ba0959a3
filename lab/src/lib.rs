//! The test world and the laboratory: hosts, links, switches and machines in virtual time, from a seed.
//!
//! It runs the same [`net::Network`] and nodes as live; nothing in it reads a clock, sleeps or opens a socket but [`sys`]
//! and the live shell of [`synchronous`]. In: a seed, a description, faults on schedule. Out: what the hosts got, and a
//! trace whose hash is the same whenever the seed is.
//!
//! The laboratory puts the real machines on modelled hardware ([`model`]) and asks what the papers asked ([`experiments`]):
//! each number published, modelled, and, where whoever calls can measure ([`experiment::Live`]), measured.
#![deny(unsafe_code)]

pub mod audit;
pub mod choices;
pub mod evidence;
pub mod exercises;
pub mod experiment;
pub mod experiments;
pub mod explorer;
pub mod findings;
pub mod mechanism;
pub mod microscope;
pub mod model;
pub mod overlay;
pub mod overload;
pub mod receiver;
pub mod registry;
pub mod row;
pub mod seeds;
pub mod sensitivity;
pub mod simulate;
pub mod speed;
pub mod station;
pub mod sums;
pub mod synchronous;
pub mod sys;
pub mod trace;
mod trace_taps;
pub mod verdict;
pub mod world;

#[cfg(doctest)]
#[doc = include_str!("../../docs/lab/experiment.md")]
struct Guide;

pub use seeds::for_seeds;
pub use station::Station;
pub use trace::Trace;
pub use world::World;
