//! The tests of this crate in one program: each file by itself would take longer to link than to run.

mod clock;
mod convergence;
mod crossings;
mod iocc;
mod peers;
mod penn;
mod shared;
