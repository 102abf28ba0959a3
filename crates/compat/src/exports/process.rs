//! Beginning, forking and ending of the process.

use crate::{real, table};
use libc::c_int;
use rustix::fd::RawFd;

extern "C" fn before_fork() {
    for socket in table::descriptors(0, RawFd::MAX).filter_map(table::get) {
        // Once for each of its descriptors: more owners than there are only mean that nobody closes the circuit before
        // the last copy of its connection does.
        socket.note_fork();
    }
}

extern "C" fn in_child() {
    super::descriptors::note_process();
}

extern "C" fn begin() {
    super::descriptors::note_process();
    // SAFETY: the handlers stay as long as the process: this library is never unloaded, being preloaded. A failure for
    // want of memory leaves forks as they are: still, data is shared, and only counted less well.
    unsafe { libc::pthread_atfork(Some(before_fork), None, Some(in_child)) };
}

/// What was sent leaves before the process does.
extern "C" fn finish() {
    for socket in table::descriptors(0, RawFd::MAX).filter_map(table::get) {
        socket.finish();
    }
}

#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".fini_array")]
static FINISH: extern "C" fn() = finish;

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn _exit(status: c_int) -> ! {
    exit_now(status)
}

#[allow(non_snake_case)]
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn _Exit(status: c_int) -> ! {
    exit_now(status)
}

fn exit_now(status: c_int) -> ! {
    if !table::is_empty() && super::descriptors::is_own_memory() {
        finish();
    }
    // SAFETY: does not come back.
    unsafe { real::exit_now(status) };
    std::process::abort();
}
