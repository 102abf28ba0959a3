//! Linux's ATM sockets for programs that know nothing of Cellway: a library to be preloaded (`LD_PRELOAD`).
//!
//! In: the calls of an unmodified program, and `CELLWAY_SOCKET` and `CELLWAY_ITF`, which say where the service is and
//! which of its hosts serve interfaces 0, 1, ... (`cellway run` sets them). Out: PVCs as `endpoint` has them. A socket
//! of `AF_ATMPVC` or `AF_ATMSVC` is, for the program, one end of a pair of UNIX sockets whose other end the host
//! interface rings: so it can be duplicated, polled and inherited like any other. Data goes through shared memory.
//! Calls on anything else go straight to the C library.
//!
//! The path of a call: `exports` (the C library's names) -> `table` (is this descriptor ours?) -> `socket`, `calls`,
//! `options`, `data`, `ioctl`, `files`. Numbers and structures of the kernel's are in `abi`; answers are the kernel's
//! errno.
#![deny(unsafe_code)]
// In test programs the C library's names are not taken, and so nothing calls most of this.
#![cfg_attr(test, allow(dead_code))]
#![deny(unsafe_op_in_unsafe_fn)]

mod abi;
#[allow(unsafe_code)]
mod ancillary;
mod calls;
mod contract;
#[allow(unsafe_code)]
mod data;
#[allow(unsafe_code)]
mod deferred;
#[allow(unsafe_code)]
mod descriptors;
#[allow(unsafe_code)]
mod exports;
mod files;
mod interfaces;
#[allow(unsafe_code)]
mod ioctl;
#[allow(unsafe_code)]
mod memory;
#[allow(unsafe_code)]
mod options;
mod qos;
#[allow(unsafe_code)]
mod real;
mod sap;
mod service;
#[allow(unsafe_code)]
mod shared;
mod signalling;
mod socket;
#[allow(unsafe_code)]
mod system;
#[allow(unsafe_code)]
mod table;
mod waits;
