//! Metrics for whoever reaches their address: who asks and does not read, and who does not ask, keeps nobody else waiting.

use crate::managed::Managed;
use control::config::parse;
use control::daemon::{DaemonOptions, Metrics};
use hostile::{Class, Trial};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// A network whose metrics have several hundred thousand octets: more than a socket takes from who does not read.
fn ground() -> Managed {
    let circuits: String =
        (100..1100).map(|vci| format!("[[circuit]]\nends = [\"alpha 0.{vci}\", \"beta 0.{vci}\"]\n")).collect();
    let text = format!("[host.alpha]\n[host.beta]\n[[link]]\nends = [\"alpha\", \"beta\"]\n{circuits}");
    let metrics = Some(Metrics { address: "127.0.0.1:0".parse().unwrap(), max_rows: 1000 });
    Managed::up(parse(&text, "net.toml").unwrap(), |_| DaemonOptions { metrics, ..DaemonOptions::default() })
}

fn scrape(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

#[test]
fn connections_that_ask_nothing_or_read_nothing_keep_nobody_from_the_metrics() {
    Trial::new(Class::Other, ground).length(Duration::from_secs(1)).withstand(|ground, attack| {
        let address = ground.daemon.metrics().unwrap();
        let mut slowest = Duration::ZERO;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut kept = Vec::new();
                while attack.goes_on() {
                    let Ok(mut stream) = TcpStream::connect(address) else { continue };
                    // Of three: one says nothing, one begins to ask, one asks and reads nothing.
                    let says = [&b""[..], b"GET /met", b"GET /metrics HTTP/1.1\r\n\r\n"][kept.len() % 3];
                    let _ = stream.write_all(says);
                    kept.push(stream);
                    if kept.len() > 300 {
                        kept.clear();
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            while attack.goes_on() {
                let begin = Instant::now();
                let answer = scrape(address).unwrap();
                assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("# EOF\n"), "{} octets", answer.len());
                assert!(answer.len() > 300_000, "{} octets", answer.len());
                slowest = slowest.max(begin.elapsed());
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        attack.took("an answer", slowest, Duration::from_secs(1));
    });
}
