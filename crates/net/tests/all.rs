//! The tests of this crate in one program: each file by itself would take longer to link than to run.

mod alarms;
mod calls;
mod contracts;
mod converting;
mod cycles;
mod frame_runs;
mod gateway;
mod links;
mod management;
mod ready;
mod reused;
mod shards;
mod signal;
mod switch;
mod topology;
mod via;
mod virtual_time;
mod visits;
mod windows;
