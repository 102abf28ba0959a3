//! The program `cellway`: see the library.
#![forbid(unsafe_code)]

use std::process::ExitCode;

/// Memory that other threads give back is taken up again in small pieces. The system's allocator puts it together in
/// one go, on the thread that asks next: in a round of the engine, for tens of milliseconds after a large description
/// was dropped.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cellway::main()
}
