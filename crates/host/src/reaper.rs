//! Where the engine's and the service's threads leave what may take time to end: memory that a client filled, doorbells
//! that a client holds. A thread of its own drops it.

use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};

/// Ends `what` on the reaper's thread; here if the system has no thread for it.
pub(crate) fn dispose(what: impl Send + 'static) {
    static REAPER: OnceLock<Option<Sender<Box<dyn Send>>>> = OnceLock::new();
    let reaper = REAPER.get_or_init(|| {
        let (sender, receiver) = channel::<Box<dyn Send>>();
        let thread = std::thread::Builder::new().name("reaper".into());
        // A panic in a destructor ends that one only.
        let run = move || {
            for what in receiver {
                let _ = crate::panics::caught(|| drop(what));
            }
        };
        thread.spawn(run).is_ok().then_some(sender)
    });
    if let Some(reaper) = reaper {
        // The thread never ends; if it had, this would drop it here.
        let _ = reaper.send(Box::new(what));
    }
}
