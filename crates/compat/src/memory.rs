//! The program's memory: buffers that it gives with a call, as the kernel would look at them.

use libc::{c_void, iovec};
use rustix::io::Errno;

/// Most parts of one call (`UIO_MAXIOV`).
const MAX_PARTS: usize = 1024;
/// No object of a program is below.
const FIRST_PAGE: usize = 4096;

/// Whether a pointer may be one: all that can be said without reading. What else is wrong ends in a signal, where the
/// kernel would say `EFAULT`.
///
/// # Errors
/// `EFAULT`.
pub(crate) fn check<T>(pointer: *const T) -> Result<(), Errno> {
    if pointer.addr() < FIRST_PAGE { Err(Errno::FAULT) } else { Ok(()) }
}

/// A value of the program's.
///
/// # Errors
/// `EFAULT`.
///
/// # Safety
/// A pointer that is not null is to a readable `T`, aligned or not, any octets of which are a value.
pub(crate) unsafe fn get<T: Copy>(pointer: *const T) -> Result<T, Errno> {
    check(pointer)?;
    // SAFETY: as the caller says.
    Ok(unsafe { pointer.read_unaligned() })
}

/// Gives the program a value.
///
/// # Errors
/// `EFAULT`.
///
/// # Safety
/// A pointer that is not null is to memory of a `T` that may be written.
pub(crate) unsafe fn put<T>(pointer: *mut T, value: T) -> Result<(), Errno> {
    check(pointer)?;
    // SAFETY: as the caller says.
    unsafe { pointer.write_unaligned(value) };
    Ok(())
}

/// Gives the program octets.
///
/// # Errors
/// `EFAULT`.
///
/// # Safety
/// A pointer that is not null is to as many octets that may be written.
pub(crate) unsafe fn put_octets(pointer: *mut c_void, octets: &[u8]) -> Result<(), Errno> {
    if octets.is_empty() {
        return Ok(());
    }
    check(pointer)?;
    // SAFETY: as the caller says; a slice of this library's own does not overlap memory that the program gave.
    unsafe { pointer.cast::<u8>().copy_from_nonoverlapping(octets.as_ptr(), octets.len()) };
    Ok(())
}

/// Octets of the program's.
///
/// # Errors
/// `EFAULT`.
///
/// # Safety
/// A pointer that is not null is to as many octets that may be read, and that nobody writes during the call.
pub(crate) unsafe fn octets<'a>(pointer: *const c_void, octets: usize) -> Result<&'a [u8], Errno> {
    if octets == 0 {
        return Ok(&[]);
    }
    check(pointer)?;
    // SAFETY: as the caller says.
    Ok(unsafe { std::slice::from_raw_parts(pointer.cast(), octets) })
}

/// The buffer of a call: one part after another.
#[derive(Clone, Copy)]
pub(crate) struct Parts<'a> {
    parts: &'a [iovec],
    octets: usize,
}

impl<'a> Parts<'a> {
    /// No octets at all.
    pub(crate) const NONE: Self = Parts { parts: &[], octets: 0 };

    /// Parts of the program's, checked.
    ///
    /// # Errors
    /// `EFAULT`, or `EINVAL` for a sum that cannot be.
    ///
    /// # Safety
    /// Each part is memory of the program's that may be read, or written, as the call wants.
    pub(crate) unsafe fn new(parts: &'a [iovec]) -> Result<Self, Errno> {
        let mut octets = 0usize;
        for part in parts {
            if part.iov_len > 0 {
                check(part.iov_base)?;
            }
            octets = octets.checked_add(part.iov_len).filter(|n| *n <= isize::MAX as usize).ok_or(Errno::INVAL)?;
        }
        Ok(Parts { parts, octets })
    }

    /// Parts by pointer and number; `too_many` is the errno for more than there may be.
    ///
    /// # Errors
    /// As [`Parts::new`].
    ///
    /// # Safety
    /// As [`Parts::new`], and the pointer is to as many parts.
    pub(crate) unsafe fn of(parts: *const iovec, count: usize, too_many: Errno) -> Result<Self, Errno> {
        if count > MAX_PARTS {
            return Err(too_many);
        }
        if count == 0 {
            return Ok(Parts::NONE);
        }
        check(parts)?;
        // SAFETY: as the caller says.
        unsafe { Self::new(std::slice::from_raw_parts(parts, count)) }
    }

    /// Octets of all parts.
    pub(crate) fn octets(&self) -> usize {
        self.octets
    }

    /// Passes the parts' octets on, one part after another, with the place where each belongs.
    ///
    /// # Safety
    /// Nobody writes them during the call.
    pub(crate) unsafe fn gather(&self, mut take: impl FnMut(usize, &[u8])) {
        let mut at = 0;
        for part in self.parts.iter().filter(|p| p.iov_len > 0) {
            // SAFETY: checked not to be null when `self` was made, readable as the maker said.
            take(at, unsafe { std::slice::from_raw_parts(part.iov_base.cast(), part.iov_len) });
            at += part.iov_len;
        }
    }

    /// Has the first `most` octets filled, one part after another.
    ///
    /// # Safety
    /// Nobody else uses them during the call.
    pub(crate) unsafe fn scatter(&self, most: usize, mut fill: impl FnMut(usize, &mut [u8])) {
        let mut at = 0;
        for part in self.parts.iter().filter(|p| p.iov_len > 0) {
            let octets = part.iov_len.min(most - at);
            if octets == 0 {
                return;
            }
            // SAFETY: checked not to be null when `self` was made, writable as the maker said.
            fill(at, unsafe { std::slice::from_raw_parts_mut(part.iov_base.cast(), octets) });
            at += octets;
        }
    }
}

/// One part.
pub(crate) fn part(base: *const c_void, octets: usize) -> [iovec; 1] {
    [iovec { iov_base: base.cast_mut(), iov_len: octets }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_gathered_and_filled_in_order() {
        let mut a = *b"ab";
        let mut b = *b"cde";
        let list = [part(a.as_mut_ptr().cast(), 2)[0], part(std::ptr::null(), 0)[0], part(b.as_mut_ptr().cast(), 3)[0]];
        // SAFETY: both arrays outlive the parts, and nobody else uses them.
        unsafe {
            let parts = Parts::new(&list).unwrap();
            let mut got = vec![0; parts.octets()];
            parts.gather(|at, octets| got[at..at + octets.len()].copy_from_slice(octets));
            assert_eq!(got, b"abcde");
            parts.scatter(4, |at, into| into.copy_from_slice(&b"wxyz"[at..at + into.len()]));
            assert_eq!(Parts::new(&part(std::ptr::null(), 1)).err(), Some(Errno::FAULT));
            let huge = [part(a.as_ptr().cast(), usize::MAX)[0], part(a.as_ptr().cast(), 2)[0]];
            assert_eq!(Parts::new(&huge).err(), Some(Errno::INVAL));
        }
        assert_eq!((&a, &b), (b"wx", b"yze"));
    }
}
