//! How long a wait lasts, as the system takes it and as the clock shows its end. No time is too long.

use rustix::time::Timespec;
use std::time::{Duration, Instant};

/// A time as the system takes it: no longer than it can count.
pub fn timespec(time: Duration) -> Timespec {
    Timespec { tv_sec: time.as_secs().min(u32::MAX.into()) as i64, tv_nsec: time.subsec_nanos().into() }
}

/// When a wait of that length that begins now ends; `None`: never.
pub fn deadline(patience: Option<Duration>) -> Option<Instant> {
    patience.and_then(|patience| Instant::now().checked_add(patience))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_time_is_too_long_to_wait() {
        assert!(timespec(Duration::MAX).tv_sec > 0);
        assert_eq!(deadline(Some(Duration::MAX)), None);
        assert!(deadline(Some(Duration::from_secs(1))).is_some());
        assert_eq!(timespec(Duration::new(3, 5)), Timespec { tv_sec: 3, tv_nsec: 5 });
    }
}
