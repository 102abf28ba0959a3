//! The C library, `libcellway.so.0`: what `include/cellway.h` declares, over the crate `endpoint`.
//!
//! In: calls of a C program. Out: codes, and memory that the program reads and writes where the host does.
//!
//! Each function checks its arguments, does one thing of `endpoint`, and gives a code: no panic crosses into C
//! (`error::call`). A handle is a box that the program has until it gives it back. Loans and SDUs in the program's
//! hands are noted in the handle, so that one that is given back twice is an error and no more.
//!
//! `build-library` links it: a shared library whose symbols have the version `CELLWAY_0.1` (`cellway.map`).

mod arguments;
mod batch;
mod calls;
mod direct;
mod direct_receive;
mod endpoints;
mod error;
mod options;
mod service;
mod types;
