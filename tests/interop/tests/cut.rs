//! Two `cellway up` and a line between them that is cut twice in the middle of a transfer.

use interop::frames::free_port;
use interop::pattern;
use interop::up::Up;
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const WAIT: Duration = Duration::from_secs(60);
/// The line lasts for so many octets of either direction.
const LASTS: u64 = 4_000_000;

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
            Err(e) if matches!(e.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {}
            Err(_) => break,
        }
    }
    budget.store(0, Ordering::Relaxed);
    let _ = from.shutdown(std::net::Shutdown::Both);
    let _ = to.shutdown(std::net::Shutdown::Both);
}

/// A line to `to` that is cut `cuts` times, for more than a second each time.
fn line(to: u16, cuts: usize) -> u16 {
    let first = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = first.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut listener = Some(first);
        for cut in 0..=cuts {
            let listening = listener.take().unwrap_or_else(|| TcpListener::bind(("127.0.0.1", port)).unwrap());
            let near = listening.accept().unwrap().0;
            drop(listening);
            let far = TcpStream::connect(("127.0.0.1", to)).unwrap();
            let budget = Arc::new(AtomicU64::new(if cut < cuts { LASTS } else { u64::MAX }));
            let (near2, far2, budget2) = (near.try_clone().unwrap(), far.try_clone().unwrap(), budget.clone());
            let back = std::thread::spawn(move || pass(far2, near2, &budget2));
            pass(near, far, &budget);
            back.join().unwrap();
            std::thread::sleep(Duration::from_millis(1200));
        }
    });
    port
}

fn network(host: &str, atmtcp: &str) -> String {
    format!(
        "[host.{host}]\n[outside.far]\n[[link]]\nends = [\"{host}\", \"far\"]\natmtcp = \"{atmtcp}\"\n\
         [[circuit]]\nends = [\"{host} 0.100\", \"far 0.100\"]\n"
    )
}

fn status(up: &Up) -> Value {
    serde_json::from_slice(&up.run("status --json").stdout).unwrap()
}

#[test]
fn a_transfer_goes_on_to_its_last_octet_though_the_line_is_cut_twice() {
    let port = free_port();
    let far = Up::new(&network("beta", &format!("listen 127.0.0.1:{port}")));
    let line = line(port, 2);
    let near = Up::new(&network("alpha", &format!("connect 127.0.0.1:{line}")));
    let file = pattern(12_000_000);
    std::fs::write(near.path("file"), &file).unwrap();
    let mut receiver = far.start_command("receive beta 0.100 got --reliable --json");
    far.wait_for_endpoints(1, WAIT);
    let begin = Instant::now();
    let mut sender = near.start_command("send alpha 0.100 file --reliable --json");
    for peer in [&mut sender, &mut receiver] {
        let (status, said) = peer.wait(WAIT).unwrap();
        assert!(status.success(), "{said:?}");
    }
    let took = begin.elapsed();
    // Twice out for 1.2 s, in which attempts after 0.5 s fail.
    assert!(took > Duration::from_millis(2400), "not cut: {took:?}");
    assert!(std::fs::read(far.path("got")).unwrap() == file, "the file arrived changed");
    let said: Value = sender.log().iter().find_map(|l| serde_json::from_str(l).ok()).unwrap();
    assert!(said["pdus_repeated"].as_u64().unwrap() > 0, "{said}");
    for up in [&near, &far] {
        let status = status(up);
        let link = &status["links"][0];
        assert_eq!(link["up"], true, "{link}");
        // Nothing but the cut has cost a PDU.
        for (direction, side) in [("from_a", "sent"), ("from_b", "sent")] {
            let dropped = link[direction][side]["dropped"].as_object().unwrap();
            assert!(dropped.keys().all(|reason| reason == "link_down"), "{link}");
        }
    }
    // The PDU that had come in part is counted where it was to come in.
    let in_part = |up: &Up| status(up)["links"][0]["from_b"]["sent"]["dropped"]["link_down"].as_u64().unwrap_or(0);
    assert!(in_part(&far) >= 1, "{}", status(&far)["links"][0]);
}
