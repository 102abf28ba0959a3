//! How long a request to the service may take. A service that is stopped, or a machine that stands still, leaves no
//! request without an end: the caller gets [`Error::NoAnswer`](super::Error::NoAnswer), and the connection is over.
//!
//! The limit is the process's ([`set_request_limit`], 10 s by default), or one of a call's own. A program that was told
//! to end, by a signal, says so with [`hurry_once`]: from then on requests wait for [`HURRIED`] at most, and the first
//! signal ends a program that waits for the service.

use crate::times::timespec;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::AsFd;
use rustix::io::Errno;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// The limit of a request where none is given.
pub const REQUEST_LIMIT: Duration = Duration::from_secs(10);
/// The limit of a request, and of what is left of one, once the program was told to end.
pub const HURRIED: Duration = Duration::from_secs(1);
/// Between two looks whether the program was told to end.
pub(crate) const LOOK: Duration = Duration::from_millis(100);

static LIMIT_MS: AtomicU64 = AtomicU64::new(REQUEST_LIMIT.as_millis() as u64);
static HURRY: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Sets the limit of this process's requests to the service, but for those that have one of their own. At the start it
/// is ten seconds.
///
/// ```
/// endpoint::set_request_limit(std::time::Duration::from_secs(2));
/// assert_eq!(endpoint::request_limit().as_secs(), 2);
/// ```
pub fn set_request_limit(limit: Duration) {
    LIMIT_MS.store(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// The limit of this process's requests ([`set_request_limit`]).
///
/// ```
/// assert!(!endpoint::request_limit().is_zero());
/// ```
pub fn request_limit() -> Duration {
    Duration::from_millis(LIMIT_MS.load(Ordering::Relaxed))
}

/// Requests of this process wait for [`HURRIED`] at most once `told` is set. The first flag of a process counts.
pub fn hurry_once(told: &Arc<AtomicBool>) {
    let _ = HURRY.set(told.clone());
}

/// Whether the program was told to end.
pub(crate) fn is_told() -> bool {
    HURRY.get().is_some_and(|told| told.load(Ordering::Relaxed))
}

/// The time that a request has.
#[derive(Debug)]
pub(crate) struct Allowance {
    begun: Instant,
    limit: Duration,
    hurried: Option<Instant>,
}

impl Allowance {
    pub(crate) fn new(limit: Duration) -> Self {
        Allowance { begun: Instant::now(), limit, hurried: None }
    }

    /// What is left; `None`: nothing.
    pub(crate) fn left(&mut self) -> Option<Duration> {
        let mut left = self.limit.saturating_sub(self.begun.elapsed());
        if is_told() {
            let since = self.hurried.get_or_insert_with(Instant::now).elapsed();
            left = left.min(HURRIED.saturating_sub(since));
        }
        Some(left).filter(|left| !left.is_zero())
    }

    /// How long it has lasted.
    pub(crate) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Waits until `fd` is ready, or the other side has gone; false if time is up. A signal alone does not end it.
    pub(crate) fn wait(&mut self, fd: impl AsFd, ready: PollFlags) -> Result<bool, Errno> {
        loop {
            // What is there is taken in any case.
            let slice = self.left().map_or(Duration::ZERO, |left| left.min(LOOK));
            match poll(&mut [PollFd::new(&fd, ready)], Some(&timespec(slice))) {
                Ok(0) if slice.is_zero() => return Ok(false),
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(true),
                Err(e) => return Err(e),
            }
        }
    }
}
