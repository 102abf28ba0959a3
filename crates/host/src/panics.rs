//! Panics: of those that somebody catches and answers for, one piece of work is lost; all others end the process, for a
//! thread that is gone serves nobody, and a supervisor starts the process anew.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Does `work`, whose panic ends nothing but itself. `None` if it has panicked.
pub fn caught<R>(work: impl FnOnce() -> R) -> Option<R> {
    let before = CAUGHT.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    CAUGHT.set(before);
    done.ok()
}

/// Whether a panic of this thread would be one that is [`caught`].
pub fn is_caught() -> bool {
    CAUGHT.get()
}

/// Runs a thread's life. If it panics, the process ends: also where no hook of the program's own says so.
pub(crate) fn essential(name: &str, life: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(life)).is_err() {
        tracing::error!("the {name} has panicked; ending");
        end_process();
    }
}

/// Ends the process at once, as Rust's programs end after a panic of their first thread: no destructor may wait for the
/// thread that is gone.
pub fn end_process() -> ! {
    crate::sys::exit(101)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_that_is_caught_ends_its_work_only_and_the_thread_is_then_as_before() {
        assert!(!is_caught());
        assert_eq!(caught(|| is_caught().then_some(1)), Some(Some(1)));
        let outer = caught(|| {
            assert_eq!(caught(|| -> u8 { std::panic::resume_unwind(Box::new("inner")) }), None);
            is_caught()
        });
        assert_eq!((outer, is_caught()), (Some(true), false));
    }
}
