//! The threads that carry cells wait in no system call but those of a list, whoever comes, goes and dies: two shards, links to sockets,
//! an adapter, captures, commands and reloads, and clients that pass descriptors whose close takes seconds. The threads are looked
//! at from outside (`/proc/ID/task/ID/syscall`), thousands of times: a call that takes long is seen for as long as it takes.
//! A test program of its own: it takes every processor, and other tests watch a clock.
#![cfg(target_arch = "x86_64")]

use endpoint::control::Request;
use endpoint::seqpacket::Packets;
use endpoint::{EndpointConfig, Events, OpenOptions};
use hostile::{Field, Program, Raw, circuit, lingering};
use rustix::fd::{AsFd, OwnedFd};
use std::collections::BTreeMap;
use std::io::Write;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long clients come and go.
const RUN: Duration = Duration::from_millis(2500);
/// What such a thread may be in, by its number on this processor: it waits in the first few; the others return at once, since their
/// objects are the daemon's own: eventfds, epolls, the sockets of links, which do not block, and memory.
const ALLOWED: [(u64, &str); 18] = [
    (202, "futex"),
    (232, "epoll_wait"),
    (281, "epoll_pwait"),
    (441, "epoll_pwait2"),
    (271, "ppoll"),
    (230, "clock_nanosleep"),
    (24, "sched_yield"),
    (0, "read"),
    (1, "write"),
    (44, "sendto"),
    (45, "recvfrom"),
    (46, "sendmsg"),
    (47, "recvmsg"),
    (299, "recvmmsg"),
    (307, "sendmmsg"),
    (233, "epoll_ctl"),
    (28, "madvise"),
    (324, "membarrier"),
];

fn description(tcp: u16, udp: u16, rate: u32) -> String {
    // Each second time there is an adapter more.
    let more = match rate % 2 {
        0 => "",
        _ => "[adapter.eni1]\nhost = \"guest1\"\nsocket = \"eni1.sock\"\n[[link]]\nends = [\"guest1\", \"s1:5\"]\n",
    };
    format!(
        "[engine]\nshards = 2\n[adapter.eni0]\nhost = \"guest\"\nsocket = \"eni0.sock\"\n[host.alpha]\nshard = 0\n[host.beta]\nshard = 1\n\
         [switch.s1]\nshard = 0\n[outside.far]\n[outside.away]\n\
         [[link]]\nends = [\"alpha\", \"s1:0\"]\n[[link]]\nends = [\"beta\", \"s1:1\"]\n[[link]]\nends = [\"guest\", \"s1:2\"]\n\
         [[link]]\nends = [\"s1:3\", \"far\"]\ncells_tcp = \"listen 127.0.0.1:{tcp}\"\n\
         [[link]]\nends = [\"s1:4\", \"away\"]\ncells_udp = {{ local = \"127.0.0.1:{udp}\", peer = \"127.0.0.1:9\" }}\n\
         [[circuit]]\nends = [\"alpha 0.100\", \"beta 0.100\"]\n[[circuit]]\nends = [\"alpha 0.101\", \"beta 0.101\"]\npcr = \"{rate} cell/s\"\n\
         [[circuit]]\nends = [\"alpha 0.102\", \"guest 0.102\"]\n[[circuit]]\nends = [\"beta 0.103\", \"far 0.103\"]\n[[circuit]]\nends = [\"beta 0.104\", \"away 0.104\"]\n{more}"
    )
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Clients that send, and are ended or cut off at any step.
fn come_and_go(field: &Program, n: u32) {
    let events = [Events::Interrupt, Events::Polling, Events::default()][n as usize % 3];
    let (host, vci) = [("alpha", 101), ("beta", 101), ("alpha", 102), ("beta", 103), ("beta", 104)][n as usize % 5];
    let config = EndpointConfig { host: host.into(), events, ..EndpointConfig::default() };
    let Ok(mut endpoint) = field.endpoint(&config) else { return };
    let Ok(channel) = endpoint.open(circuit(vci), OpenOptions::default()) else { return };
    for size in [40, 1500, 9180, 60_000] {
        let _ = endpoint.send_copy(channel, &vec![7; size]);
    }
    let _ = endpoint.receive(Some(Duration::from_millis(1)));
}

fn annoy(field: &Program, slow: &OwnedFd, n: u32) {
    let packets = Packets::connect(field.socket()).unwrap();
    let create = Request::CreateEndpoint {
        host: "alpha".into(),
        geometry: Raw::GEOMETRY,
        events: Events::Interrupt,
        path: Default::default(),
    };
    let steps: [&Request; 3] = [&Request::hello(), &create, &Request::open(circuit(102), OpenOptions::default())];
    for step in &steps[..n as usize % 4] {
        let _ = packets.send(step, &[slow.as_fd()]);
        let _ = packets.send(step, &[]);
    }
    let _ = packets.send(&"garbage", &[slow.as_fd()]);
}

#[test]
fn the_threads_that_carry_cells_wait_in_no_system_call_but_those_of_a_list() {
    let (tcp, udp) = (free_port(), free_port());
    let field = Program::up(&description(tcp, udp, 1000));
    let tasks = format!("/proc/{}/task", field.id());
    let all = std::fs::read_dir(&tasks).unwrap().flatten().map(|task| task.path());
    let is_engine = |name: &str| name.trim() == "engine" || name.starts_with("engine ");
    let engines: Vec<_> = all.filter(|t| is_engine(&std::fs::read_to_string(t.join("comm")).unwrap())).collect();
    assert_eq!(engines.len(), 2, "a thread for each shard");
    let over = AtomicBool::new(false);
    let goes_on = || !over.load(Ordering::Relaxed);
    let mut seen: BTreeMap<u64, u64> = BTreeMap::new();
    std::thread::scope(|scope| {
        let (field, goes_on) = (&field, &goes_on);
        for first in 0..2 {
            scope.spawn(move || (first..).take_while(|_| goes_on()).for_each(|n| come_and_go(field, n)));
        }
        scope.spawn(move || {
            let kept: Vec<_> = (0..)
                .take_while(|_| goes_on())
                .map(|n| {
                    let (slow, far) = lingering(Duration::from_secs(2));
                    annoy(field, &slow, n);
                    std::thread::sleep(Duration::from_millis(10));
                    far
                })
                .collect();
            drop(kept);
        });
        scope.spawn(move || {
            for n in (0..).take_while(|_| goes_on()) {
                field.reload(&description(tcp, udp, 1000 + n % 7));
                field.run("status --json");
                field.try_run(&["link", "down", "beta - s1:1"]);
                field.try_run(&["link", "up", "beta - s1:1"]);
            }
        });
        scope.spawn(move || {
            let adapter = field.socket().parent().unwrap().join("eni0.sock");
            while goes_on() {
                if let Ok(mut link) = TcpStream::connect(("127.0.0.1", tcp)) {
                    let _ = link.write_all(&[0x55; 1000]);
                }
                let _ = UdpSocket::bind("127.0.0.1:0").unwrap().send_to(&[3; 530], ("127.0.0.1", udp));
                if let Ok(mut machine) = UnixStream::connect(&adapter) {
                    let _ = machine.write_all(&[0; 20]);
                }
                let (ours, theirs) = UnixStream::pair().unwrap();
                let request =
                    serde_json::json!({ "capture_start": { "link": "alpha - s1:0", "circuits": [], "buffer_mib": 1 } });
                let _ = endpoint::Connection::open(field.socket()).unwrap().manage_with(request, &[theirs.as_fd()]);
                std::thread::sleep(Duration::from_millis(5));
                drop(ours);
            }
        });
        let begin = Instant::now();
        while begin.elapsed() < RUN {
            for engine in &engines {
                let call = std::fs::read_to_string(engine.join("syscall")).expect("the thread lives");
                if let Some(number) = call.split(' ').next().and_then(|number| number.trim().parse().ok()) {
                    *seen.entry(number).or_default() += 1;
                }
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    eprintln!("system calls by number, and how often they were seen: {seen:?}");
    assert!(seen.values().sum::<u64>() > 100, "too few looks: {seen:?}");
    let other: Vec<_> = seen.keys().filter(|n| ALLOWED.iter().all(|(allowed, _)| *allowed != **n)).collect();
    assert!(other.is_empty(), "calls that are on no list: {other:?}; all: {seen:?}");
}

/// The engine's thread stays on one processor; a thread for an adapter is where the system likes.
#[test]
fn an_adapters_thread_may_run_on_all_processors_of_the_program() {
    let adapter = |n: u32| {
        format!(
            "[adapter.eni{n}]\nhost = \"guest{n}\"\nsocket = \"eni{n}.sock\"\n[[link]]\nends = [\"guest{n}\", \"s1:{n}\"]\n"
        )
    };
    let pinned = "[engine]\nprocessor = 0\n[switch.s1]\n";
    let field = Program::up(&(pinned.to_owned() + &adapter(0)));
    let tasks = format!("/proc/{}/task", field.id());
    let processors = |name: &str| {
        let all = std::fs::read_dir(&tasks).unwrap().flatten().map(|task| task.path());
        let of_name =
            all.filter(|task| std::fs::read_to_string(task.join("comm")).is_ok_and(|comm| comm.trim() == name));
        let allowed = |task: std::path::PathBuf| {
            let status = std::fs::read_to_string(task.join("status")).unwrap_or_default();
            status.lines().find(|line| line.starts_with("Cpus_allowed_list")).map(str::to_owned)
        };
        of_name.filter_map(allowed).collect::<Vec<_>>()
    };
    let ours = std::fs::read_to_string("/proc/self/status").unwrap();
    let ours = ours.lines().find(|line| line.starts_with("Cpus_allowed_list")).unwrap();
    assert_eq!(processors("engine"), ["Cpus_allowed_list:\t0"]);
    assert_eq!(processors("adapter"), [ours]);
    field.reload(&(pinned.to_owned() + &adapter(0) + &adapter(1)));
    let begin = Instant::now();
    while processors("adapter").len() < 2 {
        assert!(begin.elapsed() < Duration::from_secs(30), "no second adapter");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(processors("adapter"), [ours, ours]);
}
