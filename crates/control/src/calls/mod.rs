//! Calls: circuits whose owner is a call. Signalling of the network's hosts and switches, beside the plan: a plan never
//! touches the circuit of a call, and labels and rate of a link are shared out between both ([`net::CallShare`]).
//!
//! [`layout`] is what the description comes to, [`call_controller`] and [`applications`] decide, without input, output or a
//! clock, `program` stands for the kernel where a host leaves its side to `atmsigd`, [`tables`] changes the network,
//! [`channel`] carries SDUs between engine and [`service`], the thread that drives all this.

mod book;
mod owners;
mod program;
mod review;
mod served;
mod shares;

pub mod applications;
pub mod call_controller;
pub mod channel;
pub mod layout;
pub mod report;
pub mod service;
pub mod setup;
pub mod steps;
pub mod tables;
