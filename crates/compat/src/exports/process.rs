//! Beginning, forking, changing program and ending of the process.

use crate::descriptors::{self, borrow};
use crate::socket::Socket;
use crate::{real, service, shared, table};
use libc::{c_char, c_int};
use rustix::fd::RawFd;
use rustix::fs::FileType;

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
    service::note_standard_error();
    // SAFETY: the handlers stay as long as the process: this library is never unloaded, being preloaded. A failure for
    // want of memory leaves forks as they are: still, data is shared, and only counted less well.
    unsafe { libc::pthread_atfork(Some(before_fork), None, Some(in_child)) };
    inherit();
}

/// Takes over the sockets of the program that called `exec`. Each program that starts looks through its descriptors for
/// that: one folder, and the names of those that may be a socket's page.
fn inherit() {
    let Ok(folder) = std::fs::read_dir("/proc/self/fd") else { return };
    let numbers = folder.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<RawFd>().ok());
    let numbers: Vec<RawFd> = numbers.collect();
    let is_page = |fd: &RawFd| {
        let name = || std::fs::read_link(format!("/proc/self/fd/{fd}")).unwrap_or_default();
        *fd >= descriptors::LEAST_FIRST && name().to_string_lossy().starts_with(&format!("/memfd:{}", shared::NAME))
    };
    let (pages, others): (Vec<RawFd>, Vec<RawFd>) = numbers.into_iter().partition(is_page);
    for page in pages {
        let is_end = |fd: RawFd, inode| {
            let found = rustix::fs::fstat(borrow(fd));
            let is_it =
                |s: rustix::fs::Stat| s.st_ino == inode && FileType::from_raw_mode(s.st_mode) == FileType::Socket;
            // This library's own copy of a connection by which calls are presented is none that the program uses.
            !descriptors::is_hidden(fd) && found.is_ok_and(is_it)
        };
        let mut ends = Vec::new();
        let find = |inode| {
            ends.extend(others.iter().copied().filter(|fd| is_end(*fd, inode)));
            ends.first().copied()
        };
        // Without an end that the program can use, the socket is over.
        let Some(Ok(socket)) = descriptors::inherit(page).map(|page| Socket::inherit(page, find)) else { continue };
        let [end, ends @ ..] = &ends[..] else { continue };
        let end = *end;
        table::insert(end, socket);
        for more in ends {
            if let Some(held) = table::get(end) {
                table::share(*more, held);
            }
        }
    }
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

/// Before another program takes the process. `execl` and its like are variadic and go past this: then what is still in
/// a ring leaves only if the new program inherits the socket.
fn before_exec() {
    if !table::is_empty() && super::descriptors::is_own_memory() {
        for socket in table::descriptors(0, RawFd::MAX).filter_map(table::get) {
            socket.flush();
        }
    }
}

type Strings = *const *const c_char;

macro_rules! exec {
    ($($name:ident ($($argument:ident: $type:ty),*);)*) => {$(
        #[cfg_attr(not(test), unsafe(no_mangle))]
        unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
            before_exec();
            // SAFETY: the program's arguments, passed on with the program's promises.
            unsafe { real::$name($($argument),*) }
        }
    )*};
}

exec! {
    execv(path: *const c_char, arguments: Strings);
    execve(path: *const c_char, arguments: Strings, environment: Strings);
    execvp(file: *const c_char, arguments: Strings);
    execvpe(file: *const c_char, arguments: Strings, environment: Strings);
    fexecve(fd: c_int, arguments: Strings, environment: Strings);
    execveat(folder: c_int, path: *const c_char, arguments: Strings, environment: Strings, flags: c_int);
}
