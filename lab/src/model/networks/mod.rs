//! Three networks of hosts for one and the same work: U-Net's cluster, a chain of APICs, a Myrinet (Kazantzidis 1997).
//!
//! In: PDUs that applications give to an interface, the time. Out: PDUs at other hosts, and what that took. An
//! [`Interconnect`] is real code in virtual time: chips, control programs, switches, segmentation. The hosts' processors
//! are modelled ([`Ground`]), and what they do is the same on each network ([`run`], [`stream()`]).

mod apic;
mod flows;
mod ground;
mod myrinet;
mod stream;
#[cfg(test)]
mod tests;
mod unet;

pub use self::apic::Apics;
pub use flows::{Carried, Flow, Pace, run, run_and_drain};
pub use ground::{Event, Ground, HostCosts};
pub use myrinet::Myrinet;
pub use stream::{Protocol, Streamed, stream};
pub use unet::{Unet, UnetCosts};

use lanai::MulticastBy;
use net::Network;
use std::collections::VecDeque;
use wire::{DropReason, Time};

/// A network of seed 002, and how it does what it can do in two ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// U-Net's cluster: cell links and a switch.
    Unet,
    /// A chain of APICs.
    Apic,
    /// A Myrinet, and how it serves groups.
    Myrinet(MulticastBy),
}

impl Kind {
    /// One of each.
    pub const ALL: [Kind; 3] = [Kind::Unet, Kind::Apic, Kind::Myrinet(MulticastBy::Cycle)];

    /// What it is called.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Unet => "U-Net",
            Kind::Apic => "APIC",
            Kind::Myrinet(_) => "Myrinet",
        }
    }
}

/// Buffers that an application posts for PDUs to come: as many as an interface of a Myrinet takes.
pub const BUFFERS: usize = 16;
/// Octets of a buffer.
pub const BUFFER_OCTETS: usize = 16 * 1024;

/// Who a PDU is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum To {
    /// A host.
    Host(usize),
    /// Hosts 1 to this one; only host 0 sends so.
    Group(usize),
}

/// What an application learns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Happened {
    /// A PDU has left a host's memory: there is room for another one.
    Left(usize),
    /// A PDU is in a buffer of a host. The buffer is the application's until [`Interconnect::release`].
    Received {
        /// At which host.
        host: usize,
        /// Its octets.
        pdu: Vec<u8>,
        /// Names the buffer.
        buffer: u64,
    },
}

/// What an interface has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Octets that interfaces moved from and to the memory of a host, descriptors and all.
    pub moved: u64,
    /// Transfers for that.
    pub transfers: u64,
}

/// Copies that a host's processor makes of a PDU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Copies {
    /// Before it is given to the interface.
    pub out: u32,
    /// When it has come.
    pub into: u32,
}

/// A network of hosts, as those see it who use its interfaces directly.
pub trait Interconnect {
    /// Gives an interface a PDU. False: its queue is full until a PDU has left.
    fn send(&mut self, from: usize, to: To, pdu: &[u8], urgent: bool, now: Time) -> bool;

    /// Gives a buffer back, for a PDU to come.
    fn release(&mut self, host: usize, buffer: u64, now: Time);

    /// Runs until something has happened that an application learns, or until a moment; gives the moment.
    fn run(&mut self, until: Time) -> Time;

    /// The oldest thing that has happened.
    fn poll(&mut self) -> Option<Happened>;

    /// Copies that a PDU of so many octets needs.
    fn copies(&self, octets: usize) -> Copies;

    /// What the interface of a host has moved.
    fn tally(&mut self, host: usize) -> Tally;

    /// PDUs and cells that were dropped, by reason.
    fn dropped(&mut self) -> Vec<(DropReason, u64)>;
}

/// The end of a step of a run: true if something has happened or the run has come to `until`; else `now` goes on to what
/// the network does next.
fn is_over(network: &Network, happened: &VecDeque<Happened>, now: &mut Time, until: Time) -> bool {
    if !happened.is_empty() || *now >= until {
        return true;
    }
    let next = network.poll_timeout().map_or(until, |at| at.min(until));
    *now = next.max(*now);
    false
}

/// Drops by reason of several counters, those that are none left out.
fn drops<'a>(counters: impl Iterator<Item = &'a wire::Counters>) -> Vec<(DropReason, u64)> {
    let mut sum = wire::Counters::default();
    counters.for_each(|one| sum.add(one));
    DropReason::ALL.iter().map(|reason| (*reason, sum.dropped(*reason))).filter(|(_, n)| *n > 0).collect()
}
