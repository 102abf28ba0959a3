//! A machine of the 1990s as a cost model: what its processor, memory bus and I/O bus spend on the work of the real code.
//!
//! | module | what |
//! |---|---|
//! | [`profile`] | constants of a machine, each with its source or the anchor that it was calibrated on |
//! | [`machine`] | processor, memory bus and I/O bus as shared resources with contention, in virtual time |
//! | [`tandem`] | stages in a row, by the cell or by the whole PDU |
//! | [`random`] | numbers from a seed |
//! | [`pair`] | two ENI155P with their drivers, on modelled machines: seeds 000 and 003 |
//! | [`remapping`] | what their driver copies, maps and moves, each mechanism of seed 000 with and without |
//! | [`mod@write`] | writes to the Segmenter of seed 001, through its driver |
//! | `carrier` | what carries their data: raw PDUs, UDP over the real IP interface, the real TCP in process |
//! | [`pipeline`] | the Reassembler's units in time under a steady line |
//! | [`poll`] | the Reassembler of seed 001 and its driver's clock |
//! | [`networks`] | hosts on U-Net's cluster, a chain of APICs and a Myrinet, with the same work: seed 002 |
//! | [`memo`] | what came of pairs that have run before |
//! | [`echo`] | round trips, alone and behind a load: seed 004 |
//! | [`queue`] | the same behind a load's segments one by one: what the longest depends on |
//! | [`beside`] | processes of a machine's system that wake up meanwhile |
//! | [`compete`] | netperf beside a process that computes, by strategy: seed 004 |
//! | [`steady`] | when a simulation has run for long enough, and how far its mean may be off |
//! | [`netperf`] | the same by the OC-12c board, its driver and the real TCP |
//! | [`ubr`] | TCP connections through one congested switch, by what it discards: Romanow and Floyd 1995 |
//! | `bottleneck` | its congested port: the real switch of cells, or a packet switch |
//! | [`bulk`] | the two ends of such a connection: the real TCP in process with Reno's congestion control |
//! | [`recorder`] | which unit worked on which PDU, from when to when |
//! | `pair_record` | the same for [`pair`] |
//! | [`signal`] | interrupts, clocked interrupts and polling: seed 004 |

pub mod beside;
mod bottleneck;
pub mod bulk;
mod cards;
mod carrier;
pub mod compete;
pub mod echo;
pub mod machine;
pub mod memo;
pub mod netperf;
pub mod networks;
pub mod pair;
mod pair_record;
pub mod pipeline;
pub mod poll;
pub mod profile;
pub mod queue;
pub mod random;
pub mod recorder;
pub mod remapping;
pub mod signal;
pub mod steady;
pub mod tandem;
pub mod ubr;
pub mod write;

pub use machine::{Level, Machine, Scheduler, Work};
pub use profile::{Profile, ProfileError, Reads};
pub use random::Random;
