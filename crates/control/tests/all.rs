//! The tests of this crate in one program: each file by itself would take longer to link than to run.

mod calls;
mod chance;
mod description;
mod imports;
mod mappings;
mod notations;
mod plan;
mod reload;
mod renames;
mod restarts;
mod reused;
mod shards;
mod state_versions;
