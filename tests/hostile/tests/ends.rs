//! Whatever is kept for a client ends with the last process that has its connection, however that ends: the client is
//! killed, stopped and killed, becomes a daemon, or passes its descriptors on by `exec`.

use endpoint::control::Request;
use endpoint::seqpacket::Packets;
use endpoint::{Connection, DataPath, Events};
use hostile::{Field, Program, Raw, child, children, kill, until};
use rustix::fd::AsFd;
use rustix::io::FdFlags;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const NETWORK: &str = "[host.alpha]\n[host.beta]\n[[link]]\nends = [\"alpha\", \"beta\"]\n\
     [[circuit]]\nends = [\"alpha 0.100\", \"beta 0.100\"]\n[[circuit]]\nends = [\"alpha 0.101\", \"beta 0.101\"]\n";
/// Says to this program that it is a client of the service at this socket, how it is to end, and where it tells of
/// itself.
const SOCKET: &str = "HOSTILE_ENDS_SOCKET";
const WAY: &str = "HOSTILE_ENDS_WAY";
const TOLD: &str = "HOSTILE_ENDS_TOLD";
const HEIR: [&str; 2] = ["sleep", "300"];

/// All that a client can have.
struct Belongings {
    endpoints: Vec<Raw>,
    connections: Vec<Connection>,
    silent: Packets,
    capture: UnixStream,
}

impl Belongings {
    fn of(socket: &Path) -> Self {
        let what = (Raw::GEOMETRY, Events::Interrupt, DataPath::Shared);
        let plain = Raw::new(socket, "alpha", 100);
        // Memory that is registered, and memory that is only made.
        plain.ask(&Request::Memory { octets: 1 << 20 });
        let polling = Raw::with(socket, "beta", 100, (Raw::GEOMETRY, Events::Polling, DataPath::Copying));
        polling.ask(&Request::Memory { octets: 1 << 20 });
        let lender = Raw::lender(socket, "alpha", 101, what);
        let borrower = Raw::borrower(socket, "beta", 101, what);
        let (capture, theirs) = UnixStream::pair().unwrap();
        let manager = Connection::open(socket).unwrap();
        let request = json!({ "capture_start": { "link": "alpha - beta", "circuits": [], "buffer_mib": 1 } });
        manager.manage_with(request, &[theirs.as_fd()]).unwrap();
        Belongings {
            endpoints: vec![plain, polling, lender, borrower],
            connections: vec![manager, Connection::open(socket).unwrap()],
            silent: Packets::connect(socket).unwrap(),
            capture,
        }
    }

    /// Lets a program that is executed have the endpoints' connections and descriptors, the silent connection and the
    /// capture.
    fn pass_on(&self) {
        let endpoints =
            self.endpoints.iter().flat_map(|raw| raw.fds.iter().map(AsFd::as_fd).chain([raw.packets.as_fd()]));
        for fd in endpoints.chain([self.silent.as_fd(), self.capture.as_fd()]) {
            rustix::io::fcntl_setfd(fd, FdFlags::empty()).unwrap();
        }
        assert!(!self.connections.is_empty(), "which end with this process");
    }
}

/// Not a test of its own: a client, and its end.
#[test]
fn client() {
    let Ok(way) = std::env::var(WAY) else { return };
    let [socket, told] = [SOCKET, TOLD].map(|name| std::env::var_os(name).unwrap());
    let all = Belongings::of(socket.as_ref());
    let tell = |id: u32| std::fs::write(&told, format!("{id}\n")).unwrap();
    match &way[..] {
        "daemon" => {
            all.pass_on();
            tell(Command::new(HEIR[0]).arg(HEIR[1]).stdin(Stdio::null()).spawn().unwrap().id());
            std::process::exit(0);
        }
        "exec" => {
            all.pass_on();
            tell(std::process::id());
            panic!("{}", Command::new(HEIR[0]).arg(HEIR[1]).exec());
        }
        _ => {
            tell(std::process::id());
            loop {
                std::thread::park();
            }
        }
    }
}

/// Starts a client; gives it, and the process that has what is its, once it has all.
fn start(program: &Program, way: &str) -> (Child, u32) {
    let folder = tempfile::tempdir().unwrap();
    let told = folder.path().join("told");
    let mut client = Command::new(std::env::current_exe().unwrap());
    client
        .args(["--exact", "ends::client", "--nocapture"])
        .env(SOCKET, program.socket())
        .env(WAY, way)
        .env(TOLD, &told);
    let client = client.stdout(Stdio::null()).spawn().unwrap();
    let id = || std::fs::read_to_string(&told).ok().filter(|text| text.ends_with('\n'))?.trim().parse().ok();
    until("the client has all", || id().is_some());
    (client, id().unwrap())
}

/// What daemon and proxy have: descriptors, threads, maps of shared memory; and what status tells of.
fn kept(program: &Program) -> Value {
    let status: Value = serde_json::from_str(&program.run("status --json")).unwrap();
    let id = program.id();
    let maps = std::fs::read_to_string(format!("/proc/{id}/maps")).unwrap_or_default();
    let threads = std::fs::read_dir(format!("/proc/{id}/task")).map_or(0, Iterator::count);
    let proxies = children(child(id, "cellway-accept"), "cellway-proxy");
    let of_proxies = proxies.iter().map(|id| std::fs::read_dir(format!("/proc/{id}/fd")).map_or(0, Iterator::count));
    json!({
        "descriptors": program.descriptors(),
        "of proxies": of_proxies.collect::<Vec<_>>(),
        "threads": threads,
        "maps": maps.matches("/memfd:").count(),
        "endpoints": status["endpoints"].as_array().map(Vec::len),
        "octets": status["service"]["users_octets"],
    })
}

#[test]
fn all_that_a_client_had_is_back_however_its_last_process_ends() {
    let program = Program::up(NETWORK);
    let end = |way: &str| {
        let (mut client, holder) = start(&program, way);
        let endpoints = || serde_json::from_str::<Value>(&program.run("status --json")).unwrap()["endpoints"].clone();
        let many = || endpoints().as_array().map_or(0, Vec::len);
        assert_eq!(many(), 4, "{way}");
        if way == "daemon" {
            assert!(client.wait().unwrap().success());
            assert_eq!(many(), 4, "what it passed on stays");
        }
        if way == "stopped" {
            kill_process(Pid::from_raw(holder as i32).unwrap(), Signal::STOP).unwrap();
            assert_eq!(many(), 4, "a stopped client has what it had");
        }
        kill(holder);
        let _ = client.wait();
        until("its endpoints have ended", || many() == 0);
    };
    // What the service begins with its first clients stays.
    end("killed");
    until("nothing is left of the first", || kept(&program)["octets"] == json!(0));
    let before = kept(&program);
    for way in ["killed", "stopped", "daemon", "exec"] {
        end(way);
        let mut now = Value::Null;
        let back = || {
            now = kept(&program);
            now == before
        };
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| until(way, back)));
        assert!(result.is_ok(), "{way}: before {before}, now {now}");
    }
}

#[test]
fn a_killed_proxy_takes_its_users_connections_along_and_the_next_one_serves() {
    let program = Program::up(NETWORK);
    let (mut client, holder) = start(&program, "killed");
    kill(child(child(program.id(), "cellway-accept"), "cellway-proxy"));
    until("the next connection is served and the endpoints have ended", || {
        let status = Connection::open(program.socket()).and_then(|new| new.manage(json!("overview")));
        status.is_ok()
            && serde_json::from_str::<Value>(&program.run("status --json")).unwrap()["endpoints"] == json!([])
    });
    kill(holder);
    let _ = client.wait();
}
