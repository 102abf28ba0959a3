//! Waiting without the interpreter's lock, in slices between which Python handles signals; locks of objects.

use crate::error::{in_use, over};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// Between two looks whether a signal has come.
const SLICE: Duration = Duration::from_millis(100);

/// A timeout in seconds; none: as long as it takes.
pub(crate) fn timeout(seconds: Option<f64>) -> PyResult<Option<Duration>> {
    let of = |seconds: f64| {
        Duration::try_from_secs_f64(seconds).map_err(|_| PyValueError::new_err(format!("a timeout of {seconds} s")))
    };
    seconds.map(of).transpose()
}

/// Waits until `step`, which waits for as long as it is told at most, says that it is so; false if time is up.
pub(crate) fn wait<E: Send>(
    py: Python<'_>,
    timeout: Option<Duration>,
    mut step: impl FnMut(Option<Duration>) -> Result<bool, E> + Send,
    error: fn(E) -> PyErr,
) -> PyResult<bool> {
    let begun = Instant::now();
    loop {
        let left = timeout.map(|timeout| timeout.saturating_sub(begun.elapsed()));
        let slice = left.map_or(SLICE, |left| left.min(SLICE));
        if py.detach(|| step(Some(slice))).map_err(error)? {
            return Ok(true);
        }
        py.check_signals()?;
        if left.is_some_and(|left| left <= slice) {
            return Ok(false);
        }
    }
}

/// What an object has, for one thread at a time.
pub(crate) fn lock<'a, T>(of: &'a Mutex<Option<T>>, what: &str) -> PyResult<Locked<'a, T>> {
    let guard = match of.try_lock() {
        Ok(guard) => guard,
        Err(TryLockError::Poisoned(e)) => e.into_inner(),
        Err(TryLockError::WouldBlock) => return Err(in_use()),
    };
    if guard.is_none() { Err(over(what)) } else { Ok(Locked(guard)) }
}

/// It, while this thread has it.
#[derive(Debug)]
pub(crate) struct Locked<'a, T>(MutexGuard<'a, Option<T>>);

impl<T> Locked<'_, T> {
    /// The value.
    pub(crate) fn get(&mut self) -> PyResult<&mut T> {
        self.0.as_mut().ok_or_else(|| over("object"))
    }

    /// Ends it.
    pub(crate) fn take(mut self) -> Option<T> {
        self.0.take()
    }
}

/// Numbers, and octets, of memory that a program is done with: its owner gives it back when it is used next.
pub(crate) type Returned = Arc<Mutex<Vec<(u32, usize)>>>;

/// A short list that is locked for a moment only.
pub(crate) fn list<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
