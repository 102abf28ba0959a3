//! A peer that opens and closes circuits without end: commands are carried out beside it, and its circuits fill no disk.

use crate::managed::Managed;
use control::config::parse;
use control::daemon::DaemonOptions;
use endpoint::Connection;
use hostile::{Class, Trial};
use serde_json::json;
use std::io::Write;
use std::net::TcpStream;
use std::sync::LazyLock;
use std::time::{Duration, Instant};
use wire::CircuitId;
use wire::atmtcp::{Control, Head};

/// Where the peer connects to.
static PORT: LazyLock<u16> =
    LazyLock::new(|| std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port());

fn ground() -> Managed {
    let text = format!(
        "[host.alpha]\n[host.beta]\n[[link]]\nends = [\"alpha\", \"beta:1\"]\n\
         [[circuit]]\nends = [\"alpha 0.100\", \"beta 0.100\"]\n\
         [outside.peer]\n[[link]]\nends = [\"peer\", \"beta\"]\natmtcp = \"listen 127.0.0.1:{}\"\nreal = \"beta\"\n",
        *PORT
    );
    Managed::up(parse(&text, "net.toml").unwrap(), |folder| DaemonOptions {
        state: Some(folder.join("state")),
        ..DaemonOptions::default()
    })
}

/// Five hundred circuits opened, and closed again.
fn texts() -> Vec<u8> {
    let circuits = || (200..700).map(|vci| CircuitId::new(0, vci).unwrap());
    let opened = circuits().map(|circuit| Control::Open { circuit, qos: "ubr,aal5:tx:none,rx:none" }.to_string());
    let all = opened.chain(circuits().map(|circuit| Control::Close { circuit }.to_string()));
    let framed = |text: String| {
        let head = Head { circuit: CircuitId::from_key(0), octets: text.len() }.to_octets();
        [&head[..], text.as_bytes()].concat()
    };
    all.flat_map(framed).collect()
}

#[test]
fn a_peer_that_opens_and_closes_circuits_without_end_holds_up_no_command_and_fills_no_disk() {
    Trial::new(Class::Other, ground).length(Duration::from_secs(1)).withstand(|ground, attack| {
        let (all, mut at) = (texts(), 0);
        let mut peer = TcpStream::connect(("127.0.0.1", *PORT)).unwrap();
        peer.set_nonblocking(true).unwrap();
        let mut slowest = Duration::ZERO;
        std::thread::scope(|scope| {
            // As the program does.
            scope.spawn(|| {
                while attack.goes_on() {
                    std::thread::sleep(Duration::from_millis(50));
                    ground.daemon.serve_peers();
                }
            });
            scope.spawn(|| {
                while attack.goes_on() {
                    match peer.write(&all[at..]) {
                        Ok(octets) => at = (at + octets) % all.len(),
                        Err(_) => std::thread::sleep(Duration::from_millis(1)),
                    }
                }
            });
            let ends = json!({ "ends": ["alpha 1.50", "beta 1.50"] });
            while attack.goes_on() {
                let begin = Instant::now();
                let operator = Connection::open(&ground.socket).unwrap();
                operator.manage(json!({ "add_circuit": ends })).unwrap();
                operator.manage(json!({ "remove_circuit": ends })).unwrap();
                slowest = slowest.max(begin.elapsed());
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let audit = std::fs::read_to_string(ground.socket.with_file_name("state/audit.jsonl")).unwrap();
        let of_peer = audit.lines().filter(|line| line.contains("\"peer\"")).count();
        // 64, and one a second.
        assert!((1..80).contains(&of_peer), "{of_peer} lines of the peer's in the audit log");
        // While peers' requests were taken one after the other as long as there were any, it took seconds.
        attack.took("a circuit added and removed", slowest, Duration::from_millis(300));
    });
}
