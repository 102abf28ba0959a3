//! The tests of this crate in one program: each file by itself would take longer to link than to run.

mod agree;
mod alarms;
mod behaviour;
mod credit_mesh;
mod credit_oam;
mod forged;
mod guarantees;
mod late;
mod lookup;
mod management;
mod model;
mod pdus;
mod policed_alone;
mod sums;
