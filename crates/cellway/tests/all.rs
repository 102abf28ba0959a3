//! The tests of this crate in one program: each file by itself would take longer to link than to run.

mod adapters;
mod classical;
mod cli;
mod delivery;
mod desk;
mod ended;
mod errors;
mod kept;
mod lane;
mod log;
mod metrics;
mod myrinet;
mod operate;
mod pipes;
mod policy;
mod protocol;
mod reference;
mod reload;
mod schema;
mod state_folder;
mod trace;
mod up;
