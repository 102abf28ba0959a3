//! The C library's own functions, behind those of this library.

use libc::{DIR, FILE, dirent, dirent64, fd_set, pollfd, sigset_t, sockaddr, socklen_t, timespec, timeval};
use libc::{
    c_char, c_int, c_long, c_uint, c_ulong, c_void, epoll_event, iovec, mmsghdr, mode_t, msghdr, nfds_t, size_t,
    ssize_t,
};
use rustix::io::Errno;
use std::ffi::CStr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Says why a call failed, where programs look.
pub(crate) fn set_errno(errno: i32) {
    // SAFETY: the C library gives the address of this thread's errno, which is valid as long as the thread.
    unsafe { *libc::__errno_location() = errno }
}

/// What a call of the C library's that gives a number of octets has said. The program's errno is as it was: programs
/// look at it after calls that have succeeded, too.
///
/// # Errors
/// The call's errno.
pub(crate) fn result(call: impl FnOnce() -> ssize_t) -> Result<usize, Errno> {
    // SAFETY: as in `set_errno`.
    let errno = || unsafe { *libc::__errno_location() };
    let before = errno();
    let result = usize::try_from(call()).map_err(|_| Errno::from_raw_os_error(errno()));
    set_errno(before);
    result
}

/// Waits until a socket can be read, as long as flags and socket say. False: nothing more comes. A thread may be
/// cancelled in it.
///
/// # Errors
/// As `recv`.
pub(crate) fn wait_readable(fd: c_int, flags: c_int) -> Result<bool, Errno> {
    let mut octet = 0u8;
    let flags = flags & libc::MSG_DONTWAIT | libc::MSG_PEEK;
    // SAFETY: one octet of this function's own.
    match result(|| unsafe { recv(fd, (&raw mut octet).cast(), 1, flags) }) {
        Ok(octets) => Ok(octets > 0),
        Err(Errno::CONNRESET) => Ok(false),
        Err(e) => Err(e),
    }
}

type Strings = *const *const c_char;

fn resolve(cell: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let known = cell.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    // SAFETY: the name ends with a NUL; dlsym may be called at any time once the loader has begun to run initialisers.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    cell.store(found, Ordering::Relaxed);
    found
}

macro_rules! real {
    ($($name:ident = $symbol:literal ($($argument:ident: $type:ty),*) -> $result:ty, or $failed:expr;)*) => {$(
        /// The function of this name of the next library.
        ///
        /// # Safety
        /// As the function's own.
        #[inline]
        pub(crate) unsafe fn $name($($argument: $type),*) -> $result {
            static CELL: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
            let found = resolve(&CELL, $symbol);
            if found.is_null() {
                set_errno(libc::ENOSYS);
                return $failed;
            }
            // SAFETY: the C library's function of this name has this type (its manual page), and the caller keeps its
            // contract. A thread that is cancelled in it unwinds through here, where nothing waits to be dropped.
            unsafe {
                let function: unsafe extern "C-unwind" fn($($type),*) -> $result = std::mem::transmute(found);
                function($($argument),*)
            }
        }
    )*};
}

real! {
    socket = c"socket" (domain: c_int, kind: c_int, protocol: c_int) -> c_int, or -1;
    socketpair = c"socketpair" (domain: c_int, kind: c_int, protocol: c_int, pair: *mut c_int) -> c_int, or -1;
    bind = c"bind" (fd: c_int, address: *const sockaddr, octets: socklen_t) -> c_int, or -1;
    connect = c"connect" (fd: c_int, address: *const sockaddr, octets: socklen_t) -> c_int, or -1;
    listen = c"listen" (fd: c_int, backlog: c_int) -> c_int, or -1;
    accept = c"accept" (fd: c_int, address: *mut sockaddr, octets: *mut socklen_t) -> c_int, or -1;
    accept4 = c"accept4" (fd: c_int, address: *mut sockaddr, octets: *mut socklen_t, flags: c_int) -> c_int, or -1;
    getsockname = c"getsockname" (fd: c_int, address: *mut sockaddr, octets: *mut socklen_t) -> c_int, or -1;
    getpeername = c"getpeername" (fd: c_int, address: *mut sockaddr, octets: *mut socklen_t) -> c_int, or -1;
    setsockopt = c"setsockopt" (fd: c_int, level: c_int, name: c_int, value: *const c_void, octets: socklen_t) -> c_int, or -1;
    getsockopt = c"getsockopt" (fd: c_int, level: c_int, name: c_int, value: *mut c_void, octets: *mut socklen_t) -> c_int, or -1;
    shutdown = c"shutdown" (fd: c_int, how: c_int) -> c_int, or -1;
    ioctl = c"ioctl" (fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int, or -1;
    read = c"read" (fd: c_int, into: *mut c_void, octets: size_t) -> ssize_t, or -1;
    readv = c"readv" (fd: c_int, parts: *const iovec, count: c_int) -> ssize_t, or -1;
    recv = c"recv" (fd: c_int, into: *mut c_void, octets: size_t, flags: c_int) -> ssize_t, or -1;
    recvfrom = c"recvfrom" (fd: c_int, into: *mut c_void, octets: size_t, flags: c_int, from: *mut sockaddr, from_octets: *mut socklen_t) -> ssize_t, or -1;
    recvmsg = c"recvmsg" (fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t, or -1;
    recvmmsg = c"recvmmsg" (fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int, timeout: *mut timespec) -> c_int, or -1;
    write = c"write" (fd: c_int, from: *const c_void, octets: size_t) -> ssize_t, or -1;
    writev = c"writev" (fd: c_int, parts: *const iovec, count: c_int) -> ssize_t, or -1;
    send = c"send" (fd: c_int, from: *const c_void, octets: size_t, flags: c_int) -> ssize_t, or -1;
    sendto = c"sendto" (fd: c_int, from: *const c_void, octets: size_t, flags: c_int, to: *const sockaddr, to_octets: socklen_t) -> ssize_t, or -1;
    sendmsg = c"sendmsg" (fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t, or -1;
    sendmmsg = c"sendmmsg" (fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int, or -1;
    close = c"close" (fd: c_int) -> c_int, or -1;
    close_range = c"close_range" (first: c_uint, last: c_uint, flags: c_int) -> c_int, or -1;
    dup = c"dup" (fd: c_int) -> c_int, or -1;
    dup2 = c"dup2" (fd: c_int, new: c_int) -> c_int, or -1;
    dup3 = c"dup3" (fd: c_int, new: c_int, flags: c_int) -> c_int, or -1;
    fcntl = c"fcntl" (fd: c_int, command: c_int, argument: *mut c_void) -> c_int, or -1;
    fcntl64 = c"fcntl64" (fd: c_int, command: c_int, argument: *mut c_void) -> c_int, or -1;
    poll = c"poll" (fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int, or -1;
    ppoll = c"ppoll" (fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t) -> c_int, or -1;
    select = c"select" (count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *mut timeval) -> c_int, or -1;
    pselect = c"pselect" (count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *const timespec, mask: *const sigset_t) -> c_int, or -1;
    sendfile = c"sendfile" (out: c_int, from: c_int, offset: *mut i64, octets: size_t) -> ssize_t, or -1;
    sendfile64 = c"sendfile64" (out: c_int, from: c_int, offset: *mut i64, octets: size_t) -> ssize_t, or -1;
    splice = c"splice" (from: c_int, from_offset: *mut i64, to: c_int, to_offset: *mut i64, octets: size_t, flags: c_uint) -> ssize_t, or -1;
    fdopen = c"fdopen" (fd: c_int, mode: *const c_char) -> *mut FILE, or std::ptr::null_mut();
    fileno = c"fileno" (file: *mut FILE) -> c_int, or -1;
    fileno_unlocked = c"fileno_unlocked" (file: *mut FILE) -> c_int, or -1;
    epoll_ctl = c"epoll_ctl" (epoll: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> c_int, or -1;
    open = c"open" (path: *const c_char, flags: c_int, mode: mode_t) -> c_int, or -1;
    open64 = c"open64" (path: *const c_char, flags: c_int, mode: mode_t) -> c_int, or -1;
    openat = c"openat" (folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int, or -1;
    openat64 = c"openat64" (folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int, or -1;
    fopen = c"fopen" (path: *const c_char, mode: *const c_char) -> *mut FILE, or std::ptr::null_mut();
    fopen64 = c"fopen64" (path: *const c_char, mode: *const c_char) -> *mut FILE, or std::ptr::null_mut();
    opendir = c"opendir" (path: *const c_char) -> *mut DIR, or std::ptr::null_mut();
    readdir = c"readdir" (folder: *mut DIR) -> *mut dirent, or std::ptr::null_mut();
    readdir64 = c"readdir64" (folder: *mut DIR) -> *mut dirent64, or std::ptr::null_mut();
    closedir = c"closedir" (folder: *mut DIR) -> c_int, or -1;
    rewinddir = c"rewinddir" (folder: *mut DIR) -> (), or Default::default();
    telldir = c"telldir" (folder: *mut DIR) -> c_long, or -1;
    seekdir = c"seekdir" (folder: *mut DIR, to: c_long) -> (), or Default::default();
    dirfd = c"dirfd" (folder: *mut DIR) -> c_int, or -1;
    stat = c"stat" (path: *const c_char, into: *mut libc::stat) -> c_int, or -1;
    stat64 = c"stat64" (path: *const c_char, into: *mut libc::stat) -> c_int, or -1;
    lstat = c"lstat" (path: *const c_char, into: *mut libc::stat) -> c_int, or -1;
    lstat64 = c"lstat64" (path: *const c_char, into: *mut libc::stat) -> c_int, or -1;
    fstatat = c"fstatat" (folder: c_int, path: *const c_char, into: *mut libc::stat, flags: c_int) -> c_int, or -1;
    fstatat64 = c"fstatat64" (folder: c_int, path: *const c_char, into: *mut libc::stat, flags: c_int) -> c_int, or -1;
    __xstat = c"__xstat" (version: c_int, path: *const c_char, into: *mut libc::stat) -> c_int, or -1;
    __xstat64 = c"__xstat64" (version: c_int, path: *const c_char, into: *mut libc::stat) -> c_int, or -1;
    __lxstat = c"__lxstat" (version: c_int, path: *const c_char, into: *mut libc::stat) -> c_int, or -1;
    __lxstat64 = c"__lxstat64" (version: c_int, path: *const c_char, into: *mut libc::stat) -> c_int, or -1;
    __fxstatat = c"__fxstatat" (version: c_int, folder: c_int, path: *const c_char, into: *mut libc::stat, flags: c_int) -> c_int, or -1;
    __fxstatat64 = c"__fxstatat64" (version: c_int, folder: c_int, path: *const c_char, into: *mut libc::stat, flags: c_int) -> c_int, or -1;
    statx = c"statx" (folder: c_int, path: *const c_char, flags: c_int, mask: c_uint, into: *mut libc::statx) -> c_int, or -1;
    access = c"access" (path: *const c_char, mode: c_int) -> c_int, or -1;
    eaccess = c"eaccess" (path: *const c_char, mode: c_int) -> c_int, or -1;
    euidaccess = c"euidaccess" (path: *const c_char, mode: c_int) -> c_int, or -1;
    faccessat = c"faccessat" (folder: c_int, path: *const c_char, mode: c_int, flags: c_int) -> c_int, or -1;
    execv = c"execv" (path: *const c_char, arguments: Strings) -> c_int, or -1;
    execve = c"execve" (path: *const c_char, arguments: Strings, environment: Strings) -> c_int, or -1;
    execvp = c"execvp" (file: *const c_char, arguments: Strings) -> c_int, or -1;
    execvpe = c"execvpe" (file: *const c_char, arguments: Strings, environment: Strings) -> c_int, or -1;
    fexecve = c"fexecve" (fd: c_int, arguments: Strings, environment: Strings) -> c_int, or -1;
    execveat = c"execveat" (folder: c_int, path: *const c_char, arguments: Strings, environment: Strings, flags: c_int) -> c_int, or -1;
    exit_now = c"_exit" (status: c_int) -> c_int, or -1;
}
