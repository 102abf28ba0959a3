//! Ctrl-C and SIGTERM: the first one ends every command.
//!
//! A command looks at a flag and ends in order. What it waits for meanwhile ends too: a request to the service after a
//! second (`endpoint::client::hurry_once`), standard input at once ([`Input`]). A command that still runs after
//! [`GRACE`], because whoever reads its output has stopped, say, is ended by a thread of its own; what it had opened
//! ends with its process.

use anyhow::Result;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How long a command may take to end in order.
const GRACE: Duration = Duration::from_secs(3);
/// What a shell says of a program that SIGINT has ended.
const INTERRUPTED: i32 = 130;

/// Set by Ctrl-C and by SIGTERM; the command ends in order then, or is ended after `GRACE`.
pub fn interrupted() -> Result<Arc<AtomicBool>> {
    static WATCHED: OnceLock<()> = OnceLock::new();
    let flag = ends_in_order()?;
    if WATCHED.set(()).is_ok() {
        let mut told = interruption()?;
        std::thread::Builder::new().name("ending".into()).spawn(move || {
            let _ = told.read_exact(&mut [0]);
            std::thread::sleep(GRACE);
            signal_hook::low_level::exit(INTERRUPTED);
        })?;
    }
    Ok(flag)
}

/// The same for what ends in order however long that takes: a daemon, a recording that is still being written.
pub fn ends_in_order() -> Result<Arc<AtomicBool>> {
    static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    if let Some(flag) = FLAG.get() {
        return Ok(flag.clone());
    }
    let flag = FLAG.get_or_init(Arc::default).clone();
    for signal in [SIGINT, SIGTERM] {
        // A second one ends the process at once.
        signal_hook::flag::register_conditional_shutdown(signal, INTERRUPTED, flag.clone())?;
        signal_hook::flag::register(signal, flag.clone())?;
    }
    endpoint::client::hurry_once(&flag);
    Ok(flag)
}

/// The same for who waits for other things too: can be read once one of the signals has come.
pub fn interruption() -> Result<UnixStream> {
    let _ = ends_in_order()?;
    let (ours, theirs) = UnixStream::pair()?;
    for signal in [SIGINT, SIGTERM] {
        signal_hook::low_level::pipe::register(signal, theirs.try_clone()?)?;
    }
    Ok(ours)
}

/// Whether to go on.
pub fn goes_on(flag: &AtomicBool) -> bool {
    !flag.load(Ordering::Relaxed)
}

/// Standard input until a signal comes: then reading it fails.
#[derive(Debug)]
pub struct Input {
    told: UnixStream,
}

impl Input {
    /// Standard input.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn new() -> Result<Self> {
        Ok(Input { told: interruption()? })
    }
}

impl Read for Input {
    fn read(&mut self, octets: &mut [u8]) -> io::Result<usize> {
        let stdin = io::stdin();
        loop {
            let mut fds = [PollFd::new(&self.told, PollFlags::IN), PollFd::new(&stdin, PollFlags::IN)];
            match poll(&mut fds, None) {
                Ok(_) if !fds[0].revents().is_empty() => return Err(io::Error::other("interrupted")),
                Ok(_) => return Ok(rustix::io::retry_on_intr(|| rustix::io::read(&stdin, &mut *octets))?),
                Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }
}
