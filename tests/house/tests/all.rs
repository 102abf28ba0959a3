//! The tests of this crate in one program: each file by itself would take longer to link than to run.

mod attacks;
mod conformance;
mod cycles;
mod dependencies;
mod features;
mod figures;
mod links;
mod mechanisms;
mod need;
mod packaging;
mod programs;
mod promises;
mod sources;
mod waits;
mod words;
