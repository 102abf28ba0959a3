//! `cellway up --metrics`: what is served is what `status --json` says, and whoever asks slowly or for something else harms nobody.

use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const NETWORK: &str = "[host.alpha]\n[host.beta]\n[switch.s]\n[[link]]\nends = [\"alpha\", \"s:0\"]\n\
                       [[link]]\nends = [\"beta\", \"s:1\"]\nrate = \"OC-3c\"\n\
                       [[circuit]]\nends = [\"alpha 0.100\", \"beta 0.100\"]\n\
                       [[circuit]]\nends = [\"alpha 0.101\", \"beta 0.101\"]\n";

struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn cellway(socket: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cellway"));
    command.arg("--socket").arg(socket).arg("--json").args(arguments);
    command.stdin(Stdio::null()).stderr(Stdio::null());
    command
}

fn ask(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn scrape(address: SocketAddr) -> String {
    ask(address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
}

/// The rows of an answer: name with labels, and value.
fn rows(answer: &str) -> BTreeMap<String, f64> {
    let body = answer.split("\r\n\r\n").nth(1).unwrap();
    let rows = body.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.rsplit_once(' '));
    rows.map(|(name, value)| (name.to_owned(), value.parse().unwrap())).collect()
}

#[test]
fn what_is_served_is_what_status_says() {
    let folder = tempfile::tempdir().unwrap();
    let (socket, file) = (folder.path().join("s"), folder.path().join("net.toml"));
    std::fs::write(&file, NETWORK).unwrap();
    let up = ["up", file.to_str().unwrap(), "--metrics", "127.0.0.1:0", "--metrics-rows", "1"];
    let mut daemon = Daemon(cellway(&socket, &up).stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(daemon.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let said: Value = serde_json::from_str(&line).unwrap();
    let address: SocketAddr = said["metrics"].as_str().unwrap().parse().unwrap();

    // Somebody who says nothing keeps a place for some seconds, and the others are served meanwhile.
    let _silent = TcpStream::connect(address).unwrap();
    let text = folder.path().join("text");
    std::fs::write(&text, [7; 2000]).unwrap();
    let send = ["send", "alpha", "0.100", text.to_str().unwrap()];
    let sent = cellway(&socket, &send).stdout(Stdio::null()).status().unwrap();
    assert!(sent.success());
    // Numbers may be a second old.
    std::thread::sleep(std::time::Duration::from_millis(1200));
    let answer = scrape(address);
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("application/openmetrics-text"), "{answer}");
    assert!(answer.ends_with("# EOF\n"), "{answer}");
    let rows = rows(&answer);
    let status: Value = serde_json::from_slice(&cellway(&socket, &["status"]).output().unwrap().stdout).unwrap();
    let mut compared = 0;
    for link in status["links"].as_array().unwrap() {
        let name = link["name"].as_str().unwrap();
        assert_eq!(rows[&format!("cellway_link_up{{link=\"{name}\"}}")], 1.0);
        for (side, key) in [("a", "from_a"), ("b", "from_b")] {
            let queued = rows[&format!("cellway_link_queued{{link=\"{name}\",from=\"{side}\"}}")];
            assert_eq!(queued, link[key]["queued"].as_f64().unwrap());
            for (stage, counters) in [("sent", &link[key]["sent"]), ("delivered", &link[key]["delivered"])] {
                for what in ["cells", "pdus", "octets"] {
                    let row = format!("cellway_link_{stage}_{what}_total{{link=\"{name}\",from=\"{side}\"}}");
                    assert_eq!(rows[&row], counters[what].as_f64().unwrap(), "{row}");
                    compared += 1;
                }
            }
            for (drops, stage) in [("dropped", "sent"), ("intake_dropped", "intake")] {
                let dropped = link[key][stage]["dropped"].as_object();
                for (reason, n) in dropped.into_iter().flatten() {
                    let row =
                        format!("cellway_link_{drops}_total{{link=\"{name}\",from=\"{side}\",reason=\"{reason}\"}}");
                    assert_eq!(rows[&row], n.as_f64().unwrap(), "{row}");
                }
            }
            // Hosts are the first ends of these links: what comes from the second ends is for them.
            let intake = &link[key]["intake"];
            assert_eq!(intake.is_object(), side == "b", "{link:#}");
            let taken = rows.get(&format!("cellway_link_intake_cells_total{{link=\"{name}\",from=\"{side}\"}}"));
            assert_eq!(taken.copied(), intake["cells"].as_f64());
        }
    }
    assert_eq!(compared, 24);
    // Nobody has the circuit open at beta: each of the cells that arrived there is counted once, as dropped.
    let dropped = "cellway_link_intake_dropped_total{link=\"beta:0 - s:1\",from=\"b\",reason=\"not_open\"}";
    let arrived = rows["cellway_link_delivered_cells_total{link=\"beta:0 - s:1\",from=\"b\"}"];
    assert!(arrived > 40.0 && rows[dropped] == arrived, "{arrived} arrived, {:?}", rows.get(dropped));
    assert_eq!(rows["cellway_switch_queued{switch=\"s\"}"], status["switches"][0]["queued"].as_f64().unwrap());
    assert_eq!((rows["cellway_circuits"], rows["cellway_revision"]), (2.0, status["revision"].as_f64().unwrap()));
    // Of two circuits one is shown, with both ends.
    let shown = rows.keys().filter(|row| row.starts_with("cellway_circuit_open{"));
    assert_eq!(shown.count(), 2);

    assert!(ask(address, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
    assert!(ask(address, "POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
    assert!(ask(address, "nonsense\u{1}\r\n\r\n").starts_with("HTTP/1.1 400 "));
    // A head without end is answered by nothing.
    let mut endless = TcpStream::connect(address).unwrap();
    let piece = [b'a'; 4096];
    while endless.write_all(&piece).is_ok() {}
    assert!(scrape(address).starts_with("HTTP/1.1 200 "));
}
