//! Users who are not this one.

use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_gid, set_thread_uid};

/// Does something on a thread that is another user's: what it connects to sees that user, also later. `None` where this user may
/// not become another one.
///
/// # Panics
/// As `f` does.
pub fn as_user<R: Send>(uid: u32, f: impl FnOnce() -> R + Send) -> Option<R> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let run = || {
        set_thread_gid(Gid::from_raw(uid)).expect("root becomes any group");
        set_thread_uid(Uid::from_raw(uid)).expect("root becomes any user");
        f()
    };
    let done = std::thread::scope(|scope| scope.spawn(run).join());
    Some(done.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}
