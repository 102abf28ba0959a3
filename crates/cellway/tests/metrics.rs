//! `cellway up --metrics`: what is served is what `status --json` says, and whoever asks slowly or for something else harms nobody.

use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

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

/// Waits for something for as long as `patience`.
fn within(patience: Duration, what: &str, mut f: impl FnMut() -> bool) {
    let end = Instant::now() + patience;
    while !f() {
        assert!(Instant::now() < end, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
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

/// Brings a network up in a folder, with its service at `s`; where its metrics are.
fn up(folder: &Path, network: &str, rows: &str) -> (Daemon, SocketAddr) {
    let file = folder.join("net.toml");
    std::fs::write(&file, network).unwrap();
    let up = ["up", file.to_str().unwrap(), "--metrics", "127.0.0.1:0", "--metrics-rows", rows];
    let mut daemon = Daemon(cellway(&folder.join("s"), &up).stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(daemon.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let said: Value = serde_json::from_str(&line).unwrap();
    (daemon, said["metrics"].as_str().unwrap().parse().unwrap())
}

#[test]
fn what_is_served_is_what_status_says() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s");
    let (_daemon, address) = up(folder.path(), NETWORK, "1");

    // Somebody who says nothing keeps a place for some seconds, and the others are served meanwhile.
    let _silent = TcpStream::connect(address).unwrap();
    let text = folder.path().join("text");
    std::fs::write(&text, [7; 2000]).unwrap();
    let send = ["send", "alpha", "0.100", text.to_str().unwrap()];
    // Nobody has the circuit open at beta: the command says so, and what it has sent is counted.
    let sent = cellway(&socket, &send).stdout(Stdio::null()).status().unwrap();
    assert_eq!(sent.code(), Some(1));
    // Numbers may be a second old.
    std::thread::sleep(Duration::from_millis(1200));
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

/// A host and a display at a desk, and two hosts at a Myrinet, whose mapper runs ten times a second.
const DESK_AND_MYRINET: &str = r#"
[host.alpha]
[host.beta]
[host.gamma]
[desk.den]
chips = 2
[desk.den.devices]
wall = { kind = "display", chip = 1 }
[myrinet.ssn]
hosts = ["alpha", "beta"]
switches = { m1 = 4 }
cables = [{ ends = ["alpha", "m1:0"] }, { ends = ["beta", "m1:2"] }]
[[link]]
ends = ["gamma", "den:0"]
[[circuit]]
ends = ["alpha 0.100", "beta 0.100"]
[[circuit]]
ends = ["gamma 0.101", "wall 0.101"]
"#;

/// Each number of `status` that a metric has: its row and its value. Drops are rows of their own.
fn of_networks(status: &Value) -> Vec<(String, f64)> {
    let number = |value: &Value| value.as_f64().or(value.as_bool().map(|b| f64::from(u8::from(b)))).unwrap();
    let mut all = Vec::new();
    for desk in status["desks"].as_array().unwrap() {
        let name = desk["name"].as_str().unwrap();
        let of = format!("desk=\"{name}\"");
        all.push((format!("cellway_desk_routes{{{of}}}"), number(&desk["circuit_routes"])));
        all.push((format!("cellway_desk_lost_routes_total{{{of}}}"), number(&desk["lost_routes"])));
        for way in ["received", "sent"] {
            let counters = &desk[format!("former_{way}")];
            all.push((format!("cellway_desk_former_{way}_cells_total{{{of}}}"), number(&counters["cells"])));
            all.extend(drops(&format!("cellway_desk_former_{way}_dropped_total"), &of, counters));
        }
        for (n, chip) in desk["chips"].as_array().unwrap().iter().enumerate() {
            let of = format!("{of},chip=\"{n}\"");
            all.push((format!("cellway_desk_chip_power{{{of}}}"), number(&chip["power"])));
            all.push((format!("cellway_desk_chip_stored_cells_peak{{{of}}}"), number(&chip["most_stored_cells"])));
            all.push((format!("cellway_desk_chip_cache_hits_total{{{of}}}"), number(&chip["cache_hits"])));
            all.push((format!("cellway_desk_chip_cache_misses_total{{{of}}}"), number(&chip["cache_misses"])));
            for way in ["received", "sent"] {
                for (port, counters) in ["left", "right", "memory"].iter().zip(chip[way].as_array().unwrap()) {
                    let of = format!("{of},port=\"{port}\"");
                    all.push((format!("cellway_desk_chip_{way}_cells_total{{{of}}}"), number(&counters["cells"])));
                    all.extend(drops(&format!("cellway_desk_chip_{way}_dropped_total"), &of, counters));
                }
            }
        }
        for port in desk["ports"].as_object().unwrap().values() {
            for (counter, counters) in port["counters"].as_object().unwrap() {
                let of = format!("{of},device={},counter=\"{counter}\"", port["station"]);
                for what in ["pdus", "octets"] {
                    all.push((format!("cellway_desk_device_{what}_total{{{of}}}"), number(&counters[what])));
                }
                all.extend(drops("cellway_desk_device_dropped_total", &of, counters));
            }
        }
    }
    for net in status["myrinets"].as_array().unwrap() {
        let of = format!("myrinet={}", net["name"]);
        all.push((format!("cellway_myrinet_map_agrees{{{of}}}"), number(&net["map_agrees"])));
        all.push((format!("cellway_myrinet_routes{{{of}}}"), number(&net["circuit_routes"])));
        all.push((format!("cellway_myrinet_packets_total{{{of}}}"), number(&net["packets"]["pdus"])));
        all.push((format!("cellway_myrinet_packet_octets_total{{{of}}}"), number(&net["packets"]["octets"])));
        all.extend(drops("cellway_myrinet_dropped_total", &of, &net["packets"]));
        for what in ["mapping_packets", "mapping_unfound", "overflowed_symbols", "timeouts", "interrupted_pdus"] {
            all.push((format!("cellway_myrinet_{what}_total{{{of}}}"), number(&net[what])));
        }
        for host in net["hosts"].as_array().unwrap() {
            let (of, monitor) = (format!("{of},host={}", host["name"]), &host["monitor"]);
            all.push((
                format!("cellway_myrinet_host_plugged{{{of}}}"),
                f64::from(u8::from(host["plugged"].is_string())),
            ));
            all.push((format!("cellway_myrinet_host_routes{{{of}}}"), number(&host["route_count"])));
            for way in ["sent", "received"] {
                let packets = &monitor[format!("packets_{way}")];
                let rows = [
                    (format!("{way}_pdus"), &host[way]["pdus"]),
                    (format!("{way}_octets"), &host[way]["octets"]),
                    (format!("{way}_messages"), &monitor[way]["pdus"]),
                    (format!("{way}_message_octets"), &monitor[way]["octets"]),
                    (format!("{way}_packets"), &packets["pdus"]),
                    (format!("{way}_packet_octets"), &packets["octets"]),
                    (format!("{way}_mapping_packets"), &monitor[format!("mapping_{way}")]["pdus"]),
                ];
                let row = |(what, value): (String, &Value)| {
                    (format!("cellway_myrinet_host_{what}_total{{{of}}}"), number(value))
                };
                all.extend(rows.map(row));
                all.extend(drops(&format!("cellway_myrinet_host_{way}_dropped_total"), &of, &host[way]));
                all.extend(drops(&format!("cellway_myrinet_host_{way}_messages_dropped_total"), &of, &monitor[way]));
                all.extend(drops(&format!("cellway_myrinet_host_{way}_packets_dropped_total"), &of, packets));
            }
            for (what, key) in
                [("forwarded_packets", "forwarded"), ("transfers", "transfers"), ("link_stops", "link_stops")]
            {
                all.push((format!("cellway_myrinet_host_{what}_total{{{of}}}"), number(&monitor[key])));
            }
            all.push((format!("cellway_myrinet_host_maps_total{{{of}}}"), number(&monitor["maps"])));
            for (what, key) in [("processor", "processor_s"), ("engine", "host_engine_s")] {
                all.push((format!("cellway_myrinet_host_{what}_seconds_total{{{of}}}"), number(&monitor[key])));
            }
        }
        for switch in net["switches"].as_array().unwrap() {
            for port in switch["ports"].as_array().unwrap() {
                let of = format!("{of},switch={},port=\"{}\"", switch["name"], port["port"]);
                for what in ["packets", "stops", "timeouts"] {
                    all.push((format!("cellway_myrinet_port_{what}_total{{{of}}}"), number(&port[what])));
                }
                all.push((format!("cellway_myrinet_port_slack_peak_symbols{{{of}}}"), number(&port["slack_peak"])));
            }
        }
    }
    all
}

fn drops(name: &str, of: &str, counters: &Value) -> Vec<(String, f64)> {
    let row = |(reason, n): (&String, &Value)| (format!("{name}{{{of},reason=\"{reason}\"}}"), n.as_f64().unwrap());
    counters["dropped"].as_object().unwrap().iter().map(row).collect()
}

#[test]
fn desks_and_myrinets_are_rows_with_what_status_says_of_them() {
    let patience = Duration::from_secs(30);
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s");
    let (_daemon, address) = up(folder.path(), DESK_AND_MYRINET, "10");
    let status = || serde_json::from_slice::<Value>(&cellway(&socket, &["status"]).output().unwrap().stdout).unwrap();
    within(patience, "the map is drawn", || status()["myrinets"][0]["map_agrees"] == true);
    let text = folder.path().join("text");
    std::fs::write(&text, [7; 2000]).unwrap();
    // The receiver at beta is nobody, and the display takes no such frames: what came is counted all the same.
    for (host, circuit) in [("alpha", "0.100"), ("gamma", "0.101")] {
        let send = ["send", host, circuit, text.to_str().unwrap()];
        let status = cellway(&socket, &send).stdout(Stdio::null()).status().unwrap();
        assert_eq!(status.success(), host == "gamma", "what a display does with it is not known");
    }
    let value = |name: &str, all: &[(String, f64)]| all.iter().find(|(row, _)| row == name).map(|(_, value)| *value);
    within(patience, "all has come", || {
        let all = of_networks(&status());
        let came = value("cellway_myrinet_host_received_pdus_total{myrinet=\"ssn\",host=\"beta\"}", &all);
        let left = value("cellway_desk_chip_sent_cells_total{desk=\"den\",chip=\"1\",port=\"memory\"}", &all);
        came == Some(1.0) && left == Some(42.0)
    });
    // Numbers may be a second old. Nothing falls meanwhile; what stands still is the same in all three.
    let before = of_networks(&status());
    std::thread::sleep(Duration::from_millis(1100));
    let rows = rows(&scrape(address));
    let after = of_networks(&status());
    for (row, least) in &before {
        let most = value(row, &after).unwrap();
        let told = rows.get(row).unwrap_or_else(|| panic!("no {row}"));
        assert!((*least..=most).contains(told), "{row}: {least}, {told}, {most}");
    }
    // No other rows are of desks and Myrinets, beside the time that they stood still.
    let named = |row: &&String| row.starts_with("cellway_desk_") || row.starts_with("cellway_myrinet_");
    let others: Vec<_> = rows.keys().filter(named).filter(|row| value(row, &after).is_none()).collect();
    let stood =
        ["cellway_desk_stood_seconds_total{desk=\"den\"}", "cellway_myrinet_stood_seconds_total{myrinet=\"ssn\"}"];
    assert_eq!(others, stood);
    assert!(stood.iter().all(|row| rows[*row] >= 0.0));
    let one = |name: &str| rows[name];
    assert_eq!(one("cellway_desk_chip_power{desk=\"den\",chip=\"1\"}"), 1.0);
    assert_eq!(one("cellway_desk_chip_received_cells_total{desk=\"den\",chip=\"0\",port=\"memory\"}"), 42.0);
    assert_eq!(one("cellway_myrinet_host_routes{myrinet=\"ssn\",host=\"alpha\"}"), 1.0);
}
