//! Opening files: those of `/proc/net/atm` are ours.

use super::number;
use crate::{files, real};
use libc::{FILE, c_char, c_int, mode_t};
use rustix::fd::IntoRawFd;
use std::ffi::CStr;

/// The name inside the folder, if that is where a path leads. Only absolute paths do.
///
/// # Safety
/// A path that is not null ends with a NUL.
unsafe fn ours<'a>(path: *const c_char) -> Option<&'a str> {
    if path.is_null() {
        return None;
    }
    // SAFETY: as the caller says.
    files::name_of(unsafe { CStr::from_ptr(path) }.to_bytes())
}

fn open_ours(name: &str, flags: c_int) -> c_int {
    let writes = flags & libc::O_ACCMODE != libc::O_RDONLY;
    if flags & libc::O_DIRECTORY != 0 && files::is_file(name) {
        real::set_errno(libc::ENOTDIR);
        return -1;
    }
    number(files::open(name, writes, flags & libc::O_CLOEXEC != 0).map(IntoRawFd::into_raw_fd))
}

macro_rules! open {
    ($($name:ident ($($folder:ident)?) or $real:ident;)*) => {$(
        #[cfg_attr(not(test), unsafe(no_mangle))]
        unsafe extern "C-unwind" fn $name($($folder: c_int,)? path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
            // SAFETY: the program's arguments, passed on with the program's promises.
            unsafe {
                match ours(path) {
                    Some(name) => open_ours(name, flags),
                    None => real::$real($($folder,)? path, flags, mode),
                }
            }
        }
    )*};
}

open! {
    open() or open;
    open64() or open64;
    openat(folder) or openat;
    openat64(folder) or openat64;
}

macro_rules! careful_open {
    ($($name:ident ($($folder:ident)?) or $plain:ident;)*) => {$(
        #[cfg_attr(not(test), unsafe(no_mangle))]
        unsafe extern "C-unwind" fn $name($($folder: c_int,)? path: *const c_char, flags: c_int) -> c_int {
            // SAFETY: as above; without a mode, which the C library's caller has checked is not wanted.
            unsafe { $plain($($folder,)? path, flags, 0) }
        }
    )*};
}

careful_open! {
    __open_2() or open;
    __open64_2() or open64;
    __openat_2(folder) or openat;
    __openat64_2(folder) or openat64;
}

macro_rules! fopen {
    ($($name:ident;)*) => {$(
        #[cfg_attr(not(test), unsafe(no_mangle))]
        unsafe extern "C-unwind" fn $name(path: *const c_char, mode: *const c_char) -> *mut FILE {
            // SAFETY: the program's arguments, passed on with the program's promises.
            unsafe {
                let Some(name) = ours(path) else { return real::$name(path, mode) };
                let wanted = CStr::from_ptr(mode).to_bytes();
                let writes = wanted.first() != Some(&b'r') || wanted.contains(&b'+');
                match files::open(name, writes, wanted.contains(&b'e')) {
                    Ok(file) => libc::fdopen(file.into_raw_fd(), c"r".as_ptr()),
                    Err(e) => {
                        real::set_errno(e.raw_os_error());
                        std::ptr::null_mut()
                    }
                }
            }
        }
    )*};
}

fopen! {
    fopen;
    fopen64;
}
