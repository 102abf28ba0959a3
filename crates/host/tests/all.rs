//! The tests of this crate in one program: each file by itself would take longer to link than to run.

mod aal34;
mod batches;
mod circuits;
mod departing;
mod direct;
mod events;
mod hostile;
mod in_virtual_time;
mod lan;
mod lending;
mod pair;
mod parcel_links;
mod parcels;
mod parcels_kept;
mod paths;
mod reused;
mod service;
mod shards;
mod windows;
