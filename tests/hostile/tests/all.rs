//! The tests of this crate in one program: each file by itself would take longer to link than to run.

mod adapters;
mod calls;
mod captures;
mod channels;
mod commands;
mod death;
mod desks;
mod disk;
mod lending;
mod managed;
mod memory;
mod metrics;
mod outside;
mod parcels;
mod peers;
mod privacy;
mod quotas;
mod requests;
mod rings;
mod shares;
mod signalling;
mod soak;
mod strangers;
mod trial;
mod trust;
mod waiting;
