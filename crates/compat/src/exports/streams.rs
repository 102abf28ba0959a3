//! `stdio` on a socket of ours: `fdopen` gives a stream that reads and writes by way of this library. The C library's
//! own streams make their system calls past it.

use crate::{real, table};
use libc::{FILE, c_char, c_int, c_void, size_t, ssize_t};
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The buffer that a stream on a socket of the kernel's has: what is written at once is an SDU.
const BUFFER_OCTETS: usize = 4096;

/// `cookie_io_functions_t`.
#[repr(C)]
struct Functions {
    read: Option<unsafe extern "C-unwind" fn(*mut c_void, *mut c_char, size_t) -> ssize_t>,
    write: Option<unsafe extern "C-unwind" fn(*mut c_void, *const c_char, size_t) -> ssize_t>,
    seek: Option<unsafe extern "C-unwind" fn(*mut c_void, *mut i64, c_int) -> c_int>,
    close: Option<unsafe extern "C-unwind" fn(*mut c_void) -> c_int>,
}

unsafe extern "C" {
    fn fopencookie(cookie: *mut c_void, mode: *const c_char, functions: Functions) -> *mut FILE;
}

/// What a stream's functions are given.
struct Cookie {
    fd: c_int,
    /// Once the stream is made: its address.
    stream: usize,
    buffer: [u8; BUFFER_OCTETS],
}

/// How many streams there are: almost always none, and then `fileno` costs no more than a look at this.
static STREAMS: AtomicUsize = AtomicUsize::new(0);
static DESCRIPTORS: Mutex<BTreeMap<usize, c_int>> = Mutex::new(BTreeMap::new());

fn descriptors() -> MutexGuard<'static, BTreeMap<usize, c_int>> {
    DESCRIPTORS.lock().unwrap_or_else(PoisonError::into_inner)
}

unsafe extern "C-unwind" fn read(cookie: *mut c_void, into: *mut c_char, octets: size_t) -> ssize_t {
    // SAFETY: a cookie of `fdopen`, and the stream's buffer, here and below.
    unsafe { super::transfer::read((*cookie.cast::<Cookie>()).fd, into.cast(), octets) }
}

unsafe extern "C-unwind" fn write(cookie: *mut c_void, from: *const c_char, octets: size_t) -> ssize_t {
    // A stream takes zero for a failure, whose reason is in errno.
    // SAFETY: as above.
    unsafe { super::transfer::write((*cookie.cast::<Cookie>()).fd, from.cast(), octets).max(0) }
}

unsafe extern "C-unwind" fn close(cookie: *mut c_void) -> c_int {
    // SAFETY: made by `fdopen` from a box, and the stream that had it is at its end.
    let cookie = unsafe { Box::from_raw(cookie.cast::<Cookie>()) };
    if descriptors().remove(&cookie.stream).is_some() {
        STREAMS.fetch_sub(1, Ordering::Relaxed);
    }
    // SAFETY: the program closes its descriptor with the stream.
    unsafe { super::descriptors::close(cookie.fd) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE {
    if !table::contains(fd) {
        // SAFETY: the program's arguments, passed on with the program's promises.
        return unsafe { real::fdopen(fd, mode) };
    }
    let cookie = Box::into_raw(Box::new(Cookie { fd, stream: 0, buffer: [0; BUFFER_OCTETS] }));
    let functions = Functions { read: Some(read), write: Some(write), seek: None, close: Some(close) };
    // SAFETY: the mode is the program's; the cookie lives until `close`, and so does the buffer in it.
    unsafe {
        let wanted = CStr::from_ptr(mode).to_bytes();
        let stream = fopencookie(cookie.cast(), mode, functions);
        if stream.is_null() {
            drop(Box::from_raw(cookie));
            return stream;
        }
        if wanted.contains(&b'e') {
            let flags = real::fcntl(fd, libc::F_GETFD, std::ptr::null_mut());
            super::descriptors::fcntl(fd, libc::F_SETFD, ((flags | libc::FD_CLOEXEC) as usize) as *mut c_void);
        }
        (*cookie).stream = stream.addr();
        libc::setvbuf(stream, (&raw mut (*cookie).buffer).cast(), libc::_IOFBF, BUFFER_OCTETS);
        descriptors().insert(stream.addr(), fd);
        STREAMS.fetch_add(1, Ordering::Relaxed);
        stream
    }
}

macro_rules! fileno {
    ($($name:ident;)*) => {$(
        #[cfg_attr(not(test), unsafe(no_mangle))]
        unsafe extern "C-unwind" fn $name(stream: *mut FILE) -> c_int {
            if STREAMS.load(Ordering::Relaxed) > 0
                && let Some(fd) = descriptors().get(&stream.addr())
            {
                return *fd;
            }
            // SAFETY: the program's argument, passed on with the program's promises.
            unsafe { real::$name(stream) }
        }
    )*};
}

fileno! {
    fileno;
    fileno_unlocked;
}
