//! A unit of the pipeline: one operation at a time, so many clocks each, and what it has done so far.

/// Nanoseconds of a clock of the control units (Traw and Smith, sections 3.5.2 and 3.5.3).
pub const CLOCK: u64 = 50;

/// What a unit has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Work {
    /// Operations begun.
    pub operations: u64,
    /// Nanoseconds of them all.
    pub nanos: u64,
    /// Nanoseconds of the longest.
    pub longest: u64,
}

/// One operation at a time: its result is computed when it begins and handed on when its time is over.
#[derive(Debug, Clone)]
pub(super) struct Unit<T> {
    job: Option<T>,
    until: u64,
    pub(super) work: Work,
}

impl<T> Unit<T> {
    pub(super) const fn new() -> Self {
        Unit { job: None, until: 0, work: Work { operations: 0, nanos: 0, longest: 0 } }
    }

    pub(super) const fn is_idle(&self) -> bool {
        self.job.is_none()
    }

    pub(super) const fn job(&self) -> Option<&T> {
        self.job.as_ref()
    }

    /// When the last operation was or will be over.
    pub(super) const fn ended(&self) -> u64 {
        self.until
    }

    /// Begins at the next edge of the clock.
    pub(super) fn begin(&mut self, job: T, now: u64, clocks: u32) {
        self.begin_at(job, now.next_multiple_of(CLOCK), u64::from(clocks) * CLOCK);
    }

    /// Begins at `start`, on a clock of its own.
    pub(super) fn begin_at(&mut self, job: T, start: u64, nanos: u64) {
        self.job = Some(job);
        self.until = start + nanos;
        self.work.operations += 1;
        self.work.nanos += nanos;
        self.work.longest = self.work.longest.max(nanos);
    }

    /// The result, if its time is over and there is `room` for it downstream.
    pub(super) fn finish(&mut self, now: u64, room: bool) -> Option<T> {
        if room && self.until <= now { self.job.take() } else { None }
    }

    /// When the operation is over; never, if there is none or it is over and waits for room.
    pub(super) const fn due(&self, now: u64) -> u64 {
        if self.job.is_some() && self.until > now { self.until } else { u64::MAX }
    }
}
