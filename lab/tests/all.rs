//! The tests of this crate in one program: each file by itself would take longer to link than to run.

mod application;
mod contracts;
mod day;
mod exercises;
mod explorer;
mod hosts;
mod laboratory;
mod microscope;
mod overlay;
mod program;
mod receiver;
mod reused;
mod scenarios;
mod sensitivity;
mod shards;
mod synchronous;
mod tcp;
