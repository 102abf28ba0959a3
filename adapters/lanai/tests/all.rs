//! The tests of this crate in one program: each file by itself would take longer to link than to run.

mod fabric;
mod fabric_mapping;
mod lanai;
mod lanai_mapping;
mod lanai_sums;
mod myrinet;
mod myrinet_sums;
mod reused;
