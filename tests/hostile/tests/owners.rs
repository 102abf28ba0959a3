//! Each kind of what a daemon keeps for somebody, whose owner ends in the worst way: killed, stopped and killed, become a
//! daemon by fork and exit, passed on by `exec`. Everything is back within a second of the last process's end.

use endpoint::Connection;
use endpoint::calls::{Event, Sap, Session, Traffic};
use endpoint::direct::{Direct, DirectConfig};
use hostile::{Field, Program, child, children, circuit, kill, until, within};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, Signal, getpid, kill_process, pidfd_getfd, pidfd_open};
use serde_json::{Value, json};
use std::any::Any;
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use wire::aesa::Aesa;

const NETWORK: &str = r#"
[adapter.eni0]
host = "guest"
socket = "eni0.sock"
[host.alpha]
[host.beta]
[switch.s1]
prefix = "47000580ffe100000000000001"
[[link]]
ends = ["alpha", "s1:0"]
signalling = { version = "uni40" }
[[link]]
ends = ["beta", "s1:1"]
signalling = { version = "uni40" }
[[link]]
ends = ["guest", "s1:2"]
[[circuit]]
ends = ["alpha 0.100", "beta 0.100"]
"#;
/// Says to this program whose owner it is, how it is to end, where, and where it tells of itself.
const KIND: &str = "HOSTILE_OWNERS_KIND";
const WAY: &str = "HOSTILE_OWNERS_WAY";
const SOCKET: &str = "HOSTILE_OWNERS_SOCKET";
const METRICS: &str = "HOSTILE_OWNERS_METRICS";
const TOLD: &str = "HOSTILE_OWNERS_TOLD";
const WAYS: [&str; 4] = ["killed", "stopped", "daemon", "exec"];
const HEIR: [&str; 2] = ["sleep", "300"];
const PATIENCE: Duration = Duration::from_secs(30);

/// A second on a machine that has nothing else to do; as much longer as each process waits for its turn there.
fn bound() -> Duration {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: f64 = load.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or_default();
    let processors = std::thread::available_parallelism().map_or(1.0, |n| n.get() as f64);
    Duration::from_secs(1).mul_f64(1.0 + load / processors)
}

/// The address of a host, once it has one.
fn address(session: &mut Session, host: &str) -> Aesa {
    let mut found = None;
    until("an address", || {
        let listed = session.list().unwrap();
        let mut all = listed["interfaces"].as_array().into_iter().flatten();
        let own = all.find(|i| i["station"] == host && i["side"] == "user");
        found = own.and_then(|own| own["addresses"][0].as_str()?.parse().ok());
        found.is_some()
    });
    found.unwrap()
}

/// A call from alpha to beta that is up.
fn call(socket: &Path) -> [Session; 2] {
    let [mut calling, mut called] = ["alpha", "beta"].map(|host| Session::open(socket, host).unwrap());
    let to = address(&mut called, "beta");
    called.listen(None, Sap::ANY).unwrap();
    calling.begin_call(to, Sap::LLC, &Traffic::default()).unwrap();
    loop {
        match called.next_event(Some(PATIENCE)).unwrap().expect("a call in time") {
            Event::Incoming { call, .. } => called.begin_accept(call).unwrap(),
            Event::Connected { .. } => break,
            _ => {}
        }
    }
    while !matches!(calling.next_event(Some(PATIENCE)).unwrap().expect("an answer in time"), Event::Connected { .. }) {}
    [calling, called]
}

/// Both ends of a direct circuit.
fn direct(socket: &Path) -> [Direct; 2] {
    let open = |host| {
        Direct::open(socket, host, circuit(100), &DirectConfig { patience: Some(PATIENCE), ..Default::default() })
    };
    std::thread::scope(|scope| {
        let far = scope.spawn(|| open("beta").unwrap());
        [open("alpha").unwrap(), far.join().unwrap()]
    })
}

/// A guest's machine that has attached to the adapter.
fn guest(socket: &Path) -> UnixStream {
    let mut stream = UnixStream::connect(socket.with_file_name("eni0.sock")).unwrap();
    let says = b"{\"capabilities\":{}}\0";
    let octets = (16 + 4 + says.len()) as u32;
    // vfio-user: number, command (version), size, flags, error; then the version.
    let head = [&1u16.to_ne_bytes()[..], &1u16.to_ne_bytes(), &octets.to_ne_bytes(), &[0; 8], &[0, 0, 1, 0]].concat();
    stream.write_all(&[&head, &says[..]].concat()).unwrap();
    std::io::Read::read_exact(&mut stream, &mut [0; 16]).expect("an answer");
    stream
}

/// One reader that asks nothing, and one that asks and reads nothing.
fn readers(metrics: &str) -> [TcpStream; 2] {
    let mut both = [(); 2].map(|()| TcpStream::connect(metrics).unwrap());
    both[1].write_all(b"GET /metrics HTTP/1.1\r\n").unwrap();
    both
}

/// Not a test of its own: an owner, and its end.
#[test]
fn owner() {
    let Ok(way) = std::env::var(WAY) else { return };
    let [socket, told] = [SOCKET, TOLD].map(|name| std::env::var_os(name).unwrap());
    let kind = std::env::var(KIND).unwrap();
    let _all: Box<dyn Any> = match &kind[..] {
        "a direct circuit" => Box::new(direct(socket.as_ref())),
        "a call" => Box::new(call(socket.as_ref())),
        "a guest" => Box::new(guest(socket.as_ref())),
        _ => Box::new(readers(&std::env::var(METRICS).unwrap())),
    };
    let tell = |id: u32| std::fs::write(&told, format!("{id}\n")).unwrap();
    if ["daemon", "exec"].contains(&&way[..]) {
        pass_on_all();
    }
    match &way[..] {
        "daemon" => {
            tell(Command::new(HEIR[0]).arg(HEIR[1]).stdin(Stdio::null()).spawn().unwrap().id());
            std::process::exit(0);
        }
        "exec" => {
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

/// Lets a program that is executed have all descriptors of this process. The copies stay open in this process, too.
fn pass_on_all() {
    let own = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
    let numbers = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let numbers: Vec<i32> = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for number in numbers.into_iter().filter(|number| *number > 2) {
        // That of the folder is closed by now.
        let Ok(copy) = pidfd_getfd(&own, number, PidfdGetfdFlags::empty()) else { continue };
        fcntl_setfd(&copy, FdFlags::empty()).unwrap();
        std::mem::forget(copy);
    }
}

/// Starts an owner; gives it, and the process that has what is its, once it has all.
fn start(program: &Program, metrics: &str, kind: &str, way: &str) -> (Child, u32) {
    let folder = tempfile::tempdir().unwrap();
    let told = folder.path().join("told");
    let mut owner = Command::new(std::env::current_exe().unwrap());
    owner.args(["--exact", "owners::owner", "--nocapture"]);
    owner.env(KIND, kind).env(WAY, way).env(SOCKET, program.socket()).env(METRICS, metrics).env(TOLD, &told);
    let owner = owner.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let id = || std::fs::read_to_string(&told).ok().filter(|text| text.ends_with('\n'))?.trim().parse().ok();
    until("the owner has all", || id().is_some());
    (owner, id().unwrap())
}

/// What daemon and proxies have: descriptors, threads, maps of shared memory, places in the ledger, calls.
fn kept(program: &Program, status: &Connection, calls: &mut Session) -> Value {
    let id = program.id();
    let count = |id: u32, of: &str| std::fs::read_dir(format!("/proc/{id}/{of}")).map_or(0, Iterator::count);
    let maps = std::fs::read_to_string(format!("/proc/{id}/maps")).unwrap_or_default();
    let proxies = children(child(id, "cellway-accept"), "cellway-proxy");
    let overview = status.manage(json!("overview")).unwrap();
    json!({
        "descriptors": program.descriptors(),
        "of proxies": proxies.iter().map(|id| count(*id, "fd")).collect::<Vec<_>>(),
        "threads": count(id, "task"),
        "maps": maps.matches("/memfd:").count(),
        "octets": overview["service"]["users_octets"],
        "calls": calls.list().unwrap()["calls"],
    })
}

fn assert_all_is_back(kind: &str) {
    let program = Program::up_with(NETWORK, &["--metrics", "127.0.0.1:0"]);
    let line = program.wait_for("metrics: http://");
    let metrics = line.split("http://").nth(1).and_then(|rest| rest.split('/').next()).expect("an address").to_owned();
    let (status, mut calls) =
        (Connection::open(program.socket()).unwrap(), Session::open(program.socket(), "alpha").unwrap());
    let end = |way: &str, calls: &mut Session, before: Option<&Value>| {
        let (mut owner, holder) = start(&program, &metrics, kind, way);
        if way == "daemon" {
            assert!(owner.wait().unwrap().success());
        }
        if way == "stopped" {
            kill_process(Pid::from_raw(holder as i32).unwrap(), Signal::STOP).unwrap();
        }
        if let Some(before) = before {
            assert_ne!(kept(&program, &status, calls), *before, "{kind} {way}: something is kept for its owner");
        }
        kill(holder);
        let _ = owner.wait();
    };
    // What the daemon begins with the first of a kind stays.
    end("killed", &mut calls, None);
    let mut before = kept(&program, &status, &mut calls);
    until("all of the first owner has ended", || {
        let last = std::mem::replace(&mut before, kept(&program, &status, &mut calls));
        std::thread::sleep(Duration::from_millis(300));
        last == before && before["calls"].as_array().is_none_or(Vec::is_empty)
    });
    for way in WAYS {
        end(way, &mut calls, Some(&before));
        let mut now = Value::Null;
        let mut back = || {
            now = kept(&program, &status, &mut calls);
            now == before
        };
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| within(bound(), way, &mut back)));
        assert!(result.is_ok(), "{kind} {way}: before {before}, now {now}");
    }
}

#[test]
fn all_of_a_direct_circuit_is_back_however_its_owner_ends() {
    assert_all_is_back("a direct circuit");
}

#[test]
fn all_of_a_call_is_back_however_its_owner_ends() {
    assert_all_is_back("a call");
}

#[test]
fn all_of_a_guest_is_back_however_its_machine_ends() {
    assert_all_is_back("a guest");
}

#[test]
fn all_of_a_reader_of_metrics_is_back_however_it_ends() {
    assert_all_is_back("a reader of metrics");
}
