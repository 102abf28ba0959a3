//! What a supervisor is told (`sd_notify`, systemd): that the network is up, that it ends, and, as long as the engine
//! makes rounds, that it lives.
//!
//! In: `NOTIFY_SOCKET`, `WATCHDOG_USEC` and `WATCHDOG_PID` of the environment. Out: datagrams to that socket. Nothing here
//! waits: who does not take what it is told is told less.

use std::ffi::OsString;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// Signs of life in the time that a supervisor waits for one.
const SIGNS: u32 = 3;

/// A supervisor; what it is told goes nowhere if there is none.
#[derive(Debug)]
pub(crate) struct Supervisor {
    socket: Option<UnixDatagram>,
    /// How long it waits for a sign of life.
    patience: Option<Duration>,
}

/// Gives signs of life until it is dropped.
#[derive(Debug)]
pub(crate) struct Watchdog {
    _ends: SyncSender<()>,
}

impl Supervisor {
    /// The one of this process's environment.
    pub(crate) fn of_environment() -> Self {
        let get = |name| std::env::var_os(name);
        let socket = get("NOTIFY_SOCKET").and_then(|address| match connect(&address) {
            Ok(socket) => Some(socket),
            Err(e) => {
                tracing::warn!(
                    "NOTIFY_SOCKET {}: {e}: no supervisor is told that the network is up",
                    address.display()
                );
                None
            }
        });
        Supervisor { socket, patience: patience(get("WATCHDOG_USEC"), get("WATCHDOG_PID"), std::process::id()) }
    }

    /// The network is up.
    pub(crate) fn ready(&self) {
        self.tell(format!("READY=1\nMAINPID={}", std::process::id()).as_bytes());
    }

    /// The network ends.
    pub(crate) fn stopping(&self) {
        self.tell(b"STOPPING=1");
    }

    fn tell(&self, what: &[u8]) {
        if let Some(socket) = &self.socket {
            // The next sign of life may have room.
            let _ = socket.send(what);
        }
    }

    /// Gives signs of life, on a thread of its own, if the supervisor wants any. `round` returns after a round of the
    /// engine; false: it has stopped. A round that does not end is followed by no sign.
    ///
    /// # Errors
    /// No thread is to be had.
    pub(crate) fn watch(&self, round: impl Fn() -> bool + Send + 'static) -> io::Result<Option<Watchdog>> {
        let (Some(patience), Some(socket)) = (self.patience, &self.socket) else { return Ok(None) };
        let (ends, until) = sync_channel(0);
        let own = Supervisor { socket: Some(socket.try_clone()?), patience: None };
        let life = move || give_signs(&own, patience / SIGNS, &until, round);
        std::thread::Builder::new().name("watchdog".into()).spawn(life)?;
        Ok(Some(Watchdog { _ends: ends }))
    }
}

fn give_signs(to: &Supervisor, every: Duration, until: &Receiver<()>, round: impl Fn() -> bool) {
    while round() {
        to.tell(b"WATCHDOG=1");
        if until.recv_timeout(every) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}

/// A path, or, after an `@`, an abstract name.
fn connect(address: &OsString) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    match address.as_bytes() {
        [b'@', name @ ..] => socket.connect_addr(&SocketAddr::from_abstract_name(name)?)?,
        [b'/', ..] => socket.connect(address)?,
        _ => return Err(io::Error::new(io::ErrorKind::InvalidInput, "expected an absolute path, or @ and a name")),
    }
    Ok(socket)
}

/// How long the supervisor of the process `own` waits for a sign of life.
fn patience(usec: Option<OsString>, pid: Option<OsString>, own: u32) -> Option<Duration> {
    let number = |word: OsString| word.to_str()?.parse::<u64>().ok();
    let is_meant = pid.is_none_or(|pid| number(pid) == Some(own.into()));
    usec.and_then(number).filter(|usec| is_meant && *usec > 0).map(Duration::from_micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_of_life_are_for_the_process_that_is_meant() {
        let of = |usec: &str, pid: Option<&str>| patience(Some(usec.into()), pid.map(Into::into), 7);
        assert_eq!(of("3000000", None), Some(Duration::from_secs(3)));
        assert_eq!(of("3000000", Some("7")), Some(Duration::from_secs(3)));
        assert_eq!([of("3000000", Some("8")), of("0", None), of("soon", None), patience(None, None, 7)], [None; 4]);
    }

    #[test]
    fn a_round_that_does_not_end_is_followed_by_no_sign_of_life() {
        let (ours, theirs) = UnixDatagram::pair().unwrap();
        let supervisor = Supervisor { socket: Some(ours), patience: Some(Duration::from_millis(3)) };
        let (go, goes) = sync_channel(0);
        let goes = std::sync::Mutex::new(goes);
        let watchdog = supervisor.watch(move || goes.lock().unwrap().recv().is_ok()).unwrap().expect("a watchdog");
        let mut sign = [0; 32];
        theirs.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        for _ in 0..3 {
            go.send(()).unwrap();
            let octets = theirs.recv(&mut sign).unwrap();
            assert_eq!(&sign[..octets], b"WATCHDOG=1");
        }
        // No further round ends: nothing is to be had, however often that is looked for.
        theirs.set_nonblocking(true).unwrap();
        let more = (0..50).filter(|_| {
            std::thread::sleep(Duration::from_millis(1));
            theirs.recv(&mut sign).is_ok()
        });
        assert_eq!(more.count(), 0);
        drop((watchdog, go));
    }

    #[test]
    fn without_a_supervisor_nothing_is_told() {
        let nobody = Supervisor { socket: None, patience: Some(Duration::from_secs(1)) };
        nobody.ready();
        assert!(nobody.watch(|| true).unwrap().is_none());
        assert!(connect(&"relative".into()).is_err());
    }
}
