//! What the kernel copies from descriptor to descriptor: `sendfile` and `splice`, to and from sockets of ours.

use super::size;
use super::transfer::{receive_ours, send_ours};
use crate::memory::{self, Parts, part};
use crate::{real, table};
use libc::{c_int, c_uint, size_t, ssize_t};
use rustix::fs::{FileType, SeekFrom};
use rustix::io::Errno;
use std::mem::ManuallyDrop;

/// The kernel sends pages: each becomes an SDU.
const PAGE: usize = 4096;
/// What a pipe holds: no SDU that is read into one is longer.
const PIPE: usize = 65_536;

/// Sends a file's octets, from `offset` or from where the file is: how many have gone.
unsafe fn send_file(out: c_int, from: c_int, offset: *mut i64, octets: usize) -> Result<usize, Errno> {
    let file = crate::descriptors::borrow(from);
    let kind = FileType::from_raw_mode(rustix::fs::fstat(file)?.st_mode);
    if table::contains(from) || !matches!(kind, FileType::RegularFile | FileType::BlockDevice) {
        return Err(Errno::INVAL);
    }
    // SAFETY: as the program says.
    let given = if offset.is_null() { None } else { Some(unsafe { memory::get(offset) }?) };
    let begin = given.map_or_else(
        || rustix::fs::seek(file, SeekFrom::Current(0)),
        |at| u64::try_from(at).map_err(|_| Errno::INVAL),
    )?;
    let mut page = [0; PAGE];
    let mut done = 0;
    let result = loop {
        let at = begin + done as u64;
        let wanted = (octets - done).min(PAGE - (at % PAGE as u64) as usize);
        if wanted == 0 {
            break Ok(());
        }
        let sent = rustix::io::pread(file, &mut page[..wanted], at).and_then(|read| {
            let socket = table::get(out).ok_or(Errno::BADF)?;
            // SAFETY: this function's own octets.
            unsafe { send_ours(socket, Parts::new(&part(page.as_ptr().cast(), read)), 0) }
        });
        match sent {
            Ok(0) => break Ok(()),
            Ok(sent) => done += sent,
            Err(e) => break Err(e),
        }
    };
    let end = begin + done as u64;
    if given.is_some() {
        // SAFETY: as the program says.
        unsafe { memory::put(offset, end as i64) }?;
    } else {
        rustix::fs::seek(file, SeekFrom::Start(end))?;
    }
    if done > 0 { Ok(done) } else { result.map(|()| 0) }
}

macro_rules! sendfile {
    ($($name:ident;)*) => {$(
        #[cfg_attr(not(test), unsafe(no_mangle))]
        unsafe extern "C-unwind" fn $name(out: c_int, from: c_int, offset: *mut i64, octets: size_t) -> ssize_t {
            // SAFETY: the program's arguments, passed on with the program's promises.
            unsafe {
                if table::contains(out) || table::contains(from) {
                    let sends = if table::contains(out) { send_file(out, from, offset, octets) } else { Err(Errno::INVAL) };
                    return size(sends);
                }
                real::$name(out, from, offset, octets)
            }
        }
    )*};
}

// On 64-bit machines both are one.
sendfile! {
    sendfile;
    sendfile64;
}

fn is_pipe(fd: c_int) -> bool {
    rustix::fs::fstat(crate::descriptors::borrow(fd))
        .is_ok_and(|s| FileType::from_raw_mode(s.st_mode) == FileType::Fifo)
}

/// How many octets wait in a pipe.
fn waiting(pipe: c_int) -> usize {
    rustix::io::ioctl_fionread(crate::descriptors::borrow(pipe)).unwrap_or(0) as usize
}

/// From a pipe to a socket: what is in the pipe, and if nothing is, what comes first.
unsafe fn splice_out(from: c_int, to: c_int, octets: usize, flags: c_uint) -> Result<usize, Errno> {
    let mut page = [0; PAGE];
    let mut done = 0;
    while done < octets {
        if waiting(from) == 0 && (done > 0 || flags & libc::SPLICE_F_NONBLOCK != 0) {
            return if done > 0 { Ok(done) } else { Err(Errno::AGAIN) };
        }
        let wanted = (octets - done).min(PAGE);
        // SAFETY: this function's own octets, here and below.
        let read = real::result(|| unsafe { real::read(from, page.as_mut_ptr().cast(), wanted) })?;
        let socket = table::get(to).ok_or(Errno::BADF)?;
        // SAFETY: as above.
        match unsafe { send_ours(socket, Parts::new(&part(page.as_ptr().cast(), read)), 0) } {
            Ok(0) => break,
            Ok(sent) => done += sent,
            Err(e) if done == 0 => return Err(e),
            Err(_) => break,
        }
    }
    Ok(done)
}

/// From a socket to a pipe: one SDU.
unsafe fn splice_in(from: c_int, to: c_int, octets: usize, flags: c_uint) -> Result<usize, Errno> {
    let flags = if flags & libc::SPLICE_F_NONBLOCK != 0 { libc::MSG_DONTWAIT } else { 0 };
    // Nothing may wait to be dropped while a thread can be cancelled: if it is, this memory is lost.
    let mut sdu = ManuallyDrop::new(vec![0; PIPE]);
    let socket = table::get(from).ok_or(Errno::BADF)?;
    let room = part(sdu.as_mut_ptr().cast(), octets.min(PIPE));
    // SAFETY: this function's own octets, here and below.
    let result = unsafe { receive_ours(socket, Parts::new(&room), flags) }.and_then(|(octets, _)| {
        let mut done = 0;
        while done < octets {
            // SAFETY: as above.
            done += real::result(|| unsafe { real::write(to, sdu[done..].as_ptr().cast(), octets - done) })?;
        }
        Ok(done)
    });
    drop(ManuallyDrop::into_inner(sdu));
    result
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn splice(
    from: c_int,
    from_offset: *mut i64,
    to: c_int,
    to_offset: *mut i64,
    octets: size_t,
    flags: c_uint,
) -> ssize_t {
    // SAFETY: the program's arguments, passed on with the program's promises.
    unsafe {
        let (ours_from, ours_to) = (table::contains(from), table::contains(to));
        if !ours_from && !ours_to {
            return real::splice(from, from_offset, to, to_offset, octets, flags);
        }
        let pipe = if ours_to { from } else { to };
        let (pipe_offset, offset) = if ours_to { (from_offset, to_offset) } else { (to_offset, from_offset) };
        size(match () {
            () if octets == 0 => Ok(0),
            () if !is_pipe(pipe) => Err(Errno::INVAL),
            () if !pipe_offset.is_null() => Err(Errno::SPIPE),
            () if !offset.is_null() => Err(Errno::INVAL),
            () if ours_to => splice_out(from, to, octets, flags),
            () => splice_in(from, to, octets, flags),
        })
    }
}
