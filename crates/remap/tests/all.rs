//! The tests of this crate in one program: each file by itself would take longer to link than to run.

mod prediction;
mod steps;
