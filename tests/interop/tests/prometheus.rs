//! Debian's Prometheus scrapes `cellway up --metrics`: what a query gives is what `status --json` says.

use interop::program;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const NETWORK: &str = "[host.alpha]\n[host.beta]\n[switch.s]\n[[link]]\nends = [\"alpha\", \"s:0\"]\n\
                       [[link]]\nends = [\"beta\", \"s:1\"]\n[[circuit]]\nends = [\"alpha 0.100\", \"beta 0.100\"]\n";
const WAIT: Duration = Duration::from_secs(60);

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn cellway(program: &Path, socket: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.arg("--socket").arg(socket).arg("--json").args(arguments).stdin(Stdio::null()).stderr(Stdio::null());
    command
}

/// The rows that a query gives: labels and value; `None` if nobody answers.
fn query(port: u16, what: &str) -> Option<Vec<(Value, f64)>> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    let request = format!("GET /api/v1/query?query={what} HTTP/1.0\r\nHost: x\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let answer: Value = serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()?;
    let rows = answer["data"]["result"].as_array()?.iter();
    rows.map(|row| Some((row["metric"].clone(), row["value"][1].as_str()?.parse().ok()?))).collect()
}

#[test]
fn what_prometheus_knows_is_what_status_says() {
    if !interop::have(&[("prometheus", "prometheus")]) {
        return;
    }
    let program = program::cellway().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (socket, file) = (folder.path().join("s"), folder.path().join("net.toml"));
    std::fs::write(&file, NETWORK).unwrap();
    let up = ["up", file.to_str().unwrap(), "--metrics", "127.0.0.1:0"];
    let mut daemon = Running(cellway(&program, &socket, &up).stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(daemon.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let said: Value = serde_json::from_str(&line).unwrap();
    let text = folder.path().join("text");
    std::fs::write(&text, vec![7; 20_000]).unwrap();
    let send =
        cellway(&program, &socket, &["send", "alpha", "0.100", text.to_str().unwrap()]).stdout(Stdio::null()).status();
    assert_eq!(send.unwrap().code(), Some(1), "nobody receives it, and it is counted");

    let config = folder.path().join("prometheus.yml");
    let target = said["metrics"].as_str().unwrap();
    let scrape = format!(
        "scrape_configs: [{{job_name: cellway, scrape_interval: 1s, static_configs: [{{targets: ['{target}']}}]}}]\n"
    );
    std::fs::write(&config, scrape).unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut prometheus = Command::new("prometheus");
    prometheus.arg(format!("--config.file={}", config.display()));
    prometheus.arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()));
    prometheus.arg(format!("--web.listen-address=127.0.0.1:{port}"));
    let _prometheus = Running(prometheus.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());

    let status: Value =
        serde_json::from_slice(&cellway(&program, &socket, &["status"]).output().unwrap().stdout).unwrap();
    let end = Instant::now() + WAIT;
    for (metric, at) in [
        ("cellway_link_delivered_cells_total", "/delivered/cells"),
        ("cellway_link_sent_octets_total", "/sent/octets"),
        ("cellway_link_queued", "/queued"),
        ("cellway_link_intake_cells_total", "/intake/cells"),
        ("cellway_link_intake_dropped_total", "/intake/dropped/not_open"),
    ] {
        let of_link = |link: &Value| {
            let name = link["name"].as_str().unwrap().to_owned();
            let value = |(side, key): (&str, &str)| Some((side.to_owned(), link[key].pointer(at)?.as_f64().unwrap()));
            let values = [("a", "from_a"), ("b", "from_b")].into_iter().filter_map(value);
            values.map(|(side, n)| (name.clone(), side, n)).collect::<Vec<_>>()
        };
        let wanted: Vec<(String, String, f64)> = status["links"].as_array().unwrap().iter().flat_map(of_link).collect();
        assert!(["/queued", "/intake/cells"].contains(&at) || wanted.iter().any(|(.., n)| *n > 400.0), "{wanted:?}");
        loop {
            let found = query(port, metric).unwrap_or_default();
            let agrees = |(name, side, n): &(String, String, f64)| {
                found.iter().any(|(labels, value)| labels["link"] == **name && labels["from"] == **side && value == n)
            };
            if found.len() == wanted.len() && wanted.iter().all(agrees) {
                break;
            }
            assert!(Instant::now() < end, "Prometheus has {found:?} as {metric}, status {wanted:?}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }
    assert_eq!(query(port, "cellway_switch_queued").unwrap()[0].1, status["switches"][0]["queued"].as_f64().unwrap());
    assert_eq!(query(port, "up").unwrap()[0].1, 1.0);
    assert_eq!(query(port, "cellway_circuits").unwrap()[0].1, 1.0);
}
