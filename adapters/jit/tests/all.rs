//! The tests of this crate in one program: each file by itself would take longer to link than to run.

mod jit;
mod jit_host;
mod plain;
