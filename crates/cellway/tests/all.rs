//! The tests of this crate in one program: each file by itself would take longer to link than to run.

mod adapters;
mod between_machines;
mod classical;
mod cli;
mod desk;
mod deviations;
mod drawn;
mod ended;
mod errors;
mod every;
mod idle_cells;
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
