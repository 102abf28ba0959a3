//! What a daemon decides about its network.
//!
//! In: descriptions ([`config`]), requests of commands ([`manage`]), circuits that peers open ([`peers`]). Out: the hosts,
//! switches, links, circuits and adapters of an engine's network ([`daemon`]), who may open them ([`policy`]), and what is told
//! of them ([`status`], [`capture`]).
#![forbid(unsafe_code)]

pub mod adapters;
pub mod capture;
pub mod config;
pub mod daemon;
pub mod manage;
pub mod names;
pub mod peers;
pub mod policy;
pub mod processors;
pub mod shells;
pub mod status;
