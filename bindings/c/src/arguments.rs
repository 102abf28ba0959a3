//! What C programs pass: texts, handles, times.

use crate::error::{ARGUMENT, Failure};
use endpoint::CircuitId;
use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::time::Duration;

/// What a pointer that must not be null points to.
///
/// # Safety
/// It is null, or points to a value that nothing else uses during the call.
#[inline]
pub(crate) unsafe fn exclusive<'a, T>(pointer: *mut T, name: &str) -> Result<&'a mut T, Failure> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_mut() }.ok_or_else(|| null(name))
}

#[cold]
fn null(name: &str) -> Failure {
    Failure::new(ARGUMENT, format!("{name} is null"))
}

/// `n` values that a program passes; none where `n` is 0.
///
/// # Safety
/// `first` is null, or points to so many values that nobody writes during the call.
#[inline]
pub(crate) unsafe fn all<'a, T>(first: *const T, n: usize, name: &str) -> Result<&'a [T], Failure> {
    match n {
        0 => Ok(&[]),
        _ if first.is_null() => Err(null(name)),
        // SAFETY: the caller's promise.
        _ => Ok(unsafe { std::slice::from_raw_parts(first, n) }),
    }
}

/// The same to write.
///
/// # Safety
/// `first` is null, or points to so many values that nothing else uses during the call.
#[inline]
pub(crate) unsafe fn all_mut<'a, T>(first: *mut T, n: usize, name: &str) -> Result<&'a mut [T], Failure> {
    match n {
        0 => Ok(&mut []),
        _ if first.is_null() => Err(null(name)),
        // SAFETY: the caller's promise.
        _ => Ok(unsafe { std::slice::from_raw_parts_mut(first, n) }),
    }
}

/// A text in UTF-8.
///
/// # Safety
/// It is null, or ends with a zero octet.
pub(crate) unsafe fn text<'a>(text: *const c_char, name: &str) -> Result<&'a str, Failure> {
    if text.is_null() {
        return Err(null(name));
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| Failure::new(ARGUMENT, format!("{name} is not UTF-8")))
}

/// A socket's path; null: the default one.
///
/// # Safety
/// As [`text`].
pub(crate) unsafe fn socket(path: *const c_char) -> PathBuf {
    if path.is_null() {
        return endpoint::default_socket();
    }
    // SAFETY: the caller's promise.
    OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes()).into()
}

/// A circuit, `vpi.vci`.
///
/// # Safety
/// As [`text`].
pub(crate) unsafe fn circuit(name: *const c_char) -> Result<CircuitId, Failure> {
    // SAFETY: the caller's promise.
    let name = unsafe { text(name, "circuit") }?;
    name.parse().map_err(|e| Failure::new(ARGUMENT, format!("circuit {name:?}: {e}")))
}

/// A time in milliseconds; negative: as long as it takes.
pub(crate) fn timeout(ms: c_int) -> Option<Duration> {
    u64::try_from(ms).ok().map(Duration::from_millis)
}

/// A count as a function gives it.
pub(crate) fn count(n: usize) -> c_int {
    c_int::try_from(n).unwrap_or(c_int::MAX)
}
