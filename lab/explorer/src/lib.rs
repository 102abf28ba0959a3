//! The laboratory's models as WebAssembly: the same source files as in `lab`, and nothing else of it.
//!
//! In: numbers, by exported functions. Out: a number each. The page is made by `scripts/explorer`; `cellway-lab explorer`
//! puts into it results of the same functions in the laboratory, and the page compares them.
#![deny(unsafe_code)]
#![allow(dead_code)]

#[path = "../../src/explorer.rs"]
mod explorer;
mod exports;
#[path = "../../src/model"]
mod model {
    pub mod compete;
    pub mod machine;
    pub mod random;
    pub mod signal;
    pub mod tandem;
}
#[path = "../../src/trace.rs"]
mod trace;

pub(crate) use trace::Trace;
