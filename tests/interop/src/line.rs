//! A line between two ends of ATM over TCP that is cut in the middle of a transfer.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Passes octets on until `budget` is used up. Then both sockets go with what they have: the peers see a reset, or an end.
fn pass(mut from: TcpStream, mut to: TcpStream, budget: &AtomicU64) {
    let mut octets = [0; 16_384];
    from.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    while budget.load(Ordering::Relaxed) > 0 {
        match from.read(&mut octets) {
            Ok(0) => break,
            Ok(n) => {
                budget.fetch_sub((n as u64).min(budget.load(Ordering::Relaxed)), Ordering::Relaxed);
                // Not the last piece: the far end is left with a part of a PDU.
                if budget.load(Ordering::Relaxed) > 0 && to.write_all(&octets[..n]).is_err() {
                    break;
                }
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => break,
        }
    }
    budget.store(0, Ordering::Relaxed);
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

/// A line to the local port `to` that is cut `cuts` times, each time after `lasts` octets of both directions and for more than a
/// second; gives its other end's port.
pub fn line(to: u16, cuts: usize, lasts: u64) -> u16 {
    watched_line(to, cuts, lasts).0
}

/// The same, and how often it has changed: an odd number while it carries a connection, and in the end one and twice `cuts`.
pub fn watched_line(to: u16, cuts: usize, lasts: u64) -> (u16, Arc<AtomicUsize>) {
    let changes = Arc::new(AtomicUsize::new(0));
    let changed = changes.clone();
    let first = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = first.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut listener = Some(first);
        for cut in 0..=cuts {
            let listening = listener.take().unwrap_or_else(|| TcpListener::bind(("127.0.0.1", port)).unwrap());
            let near = listening.accept().unwrap().0;
            drop(listening);
            let far = TcpStream::connect(("127.0.0.1", to)).unwrap();
            changed.fetch_add(1, Ordering::Relaxed);
            let budget = Arc::new(AtomicU64::new(if cut < cuts { lasts } else { u64::MAX }));
            let (near2, far2, budget2) = (near.try_clone().unwrap(), far.try_clone().unwrap(), budget.clone());
            let back = std::thread::spawn(move || pass(far2, near2, &budget2));
            pass(near, far, &budget);
            back.join().unwrap();
            changed.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(1200));
        }
    });
    (port, changes)
}
