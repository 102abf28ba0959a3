//! A daemon under clients that behave and misbehave, links and peers that come and go, reloads and commands, in an order from
//! a seed. Afterwards its memory, descriptors, endpoints and circuits are what they were, and innocent circuits lost
//! nothing. `SOAK_SECONDS` says for how long (`scripts/test soak`: 30 minutes unless it is set), `SOAK_SEED` repeats a run.

use endpoint::control::{Request, Response};
use endpoint::segment::Segment;
use endpoint::seqpacket::Packets;
use endpoint::{Aal, DataPath, EndpointConfig, Events, Geometry, OpenOptions};
use hostile::{Field, Program, Watch, circuit};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Circuits for those who come and go: 0.200 and so on.
const SPARE: u16 = 16;
const GEOMETRY: Geometry =
    Geometry { send_ring: 64, receive_ring: 64, free_ring: 64, buffers: 64, buffer_octets: 9216 };

fn seconds() -> u64 {
    std::env::var("SOAK_SECONDS").ok().and_then(|n| n.parse().ok()).unwrap_or(1800)
}

/// Ports of this machine that are free.
fn ports() -> [u16; 3] {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let udp = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    let [a, b] = udp.map(|socket| socket.local_addr().unwrap().port());
    [tcp, a, b]
}

fn description([tcp, udp, peer]: [u16; 3], more: u16) -> String {
    let mut text = format!(
        "[host.alpha]\n[host.beta]\n[host.gamma]\n[switch.s1]\n[outside.far]\n[outside.away]\n\
         [[link]]\nends = [\"alpha\", \"s1:0\"]\n[[link]]\nends = [\"beta\", \"s1:1\"]\n\
         [[link]]\nends = [\"gamma\", \"s1:2\"]\ncarries = \"frames\"\n\
         [[link]]\nends = [\"s1:3\", \"far\"]\natmtcp = \"listen 127.0.0.1:{tcp}\"\nreal = \"gamma\"\n\
         [[link]]\nends = [\"s1:4\", \"away\"]\ncells_udp = {{ local = \"127.0.0.1:{udp}\", peer = \"127.0.0.1:{peer}\" }}\n\
         [[circuit]]\nends = [\"alpha 0.100\", \"beta 0.100\"]\n[[circuit]]\nends = [\"alpha 0.101\", \"gamma 0.101\"]\n\
         [[circuit]]\nends = [\"beta 0.102\", \"away 0.102\"]\n"
    );
    for vci in 200..200 + SPARE + more {
        let _ = writeln!(text, "[[circuit]]\nends = [\"alpha 0.{vci}\", \"beta 0.{vci}\"]");
    }
    text
}

fn config(host: &str, random: &mut StdRng) -> EndpointConfig {
    let events = [Events::Interrupt, Events::Polling, Events::Clocked { hertz: 500 }, Events::Hybrid { quota: 8 }];
    let path = [DataPath::Copying, DataPath::Shared, DataPath::ZeroCopy];
    EndpointConfig {
        host: host.into(),
        geometry: GEOMETRY,
        events: events[random.random_range(0..events.len())],
        path: path[random.random_range(0..path.len())],
        ..EndpointConfig::default()
    }
}

/// Two who exchange PDUs as they should; one of them may go in the middle.
fn behave(program: &Program, random: &mut StdRng) {
    let vci = 200 + random.random_range(0..SPARE);
    let aal = [Aal::Aal5, Aal::Aal34][random.random_range(0..2)];
    let options = OpenOptions { aal, ..OpenOptions::default() };
    let ends = ["alpha", "beta"].map(|host| {
        let mut endpoint = program.endpoint(&config(host, random)).ok()?;
        let channel = endpoint.open(circuit(vci), options).ok()?;
        Some((endpoint, channel))
    });
    let [Some((mut a, there)), Some((mut b, back))] = ends else { return };
    for number in 0..random.random_range(1..50usize) {
        let octets = random.random_range(1..=9180);
        let sdu: Vec<u8> = (0..octets).map(|at| (at * 7 + number) as u8).collect();
        if a.send_copy(there, &sdu).is_err() {
            break;
        }
        if random.random_range(0..20) == 0 {
            return;
        }
        // The circuit may be removed meanwhile, or end by an earlier opener's last cells.
        let Ok(Some(got)) = b.receive(Some(Duration::from_millis(200))) else { break };
        drop(got);
        let _ = b.send_copy(back, &sdu);
    }
    let _ = a.close(there);
}

/// One who writes at random over what it shares with the host, and goes without a word.
fn scribble(program: &Program, random: &mut StdRng) {
    let Ok(packets) = Packets::connect(program.socket()) else { return };
    let ask = |request: &Request| -> Option<(Response, Vec<std::os::fd::OwnedFd>)> {
        packets.send(request, &[]).ok()?;
        packets.receive().ok()?
    };
    let create = Request::CreateEndpoint {
        host: "alpha".into(),
        geometry: GEOMETRY,
        events: Events::Polling,
        path: DataPath::Shared,
    };
    let vci = 200 + random.random_range(0..SPARE);
    let Some((_, fds)) = ask(&Request::hello()).and_then(|_| ask(&create)) else { return };
    let Some(memory) = fds.first().and_then(|fd| Segment::open(fd, GEOMETRY).ok()) else { return };
    let _ = ask(&Request::open(circuit(vci), OpenOptions::default()));
    for _ in 0..random.random_range(1..2000) {
        let mut octets = [0; 64];
        random.fill(&mut octets[..]);
        let at = random.random_range(0..GEOMETRY.buffers_at() - octets.len());
        memory.copy_in(at, &octets);
    }
    // What it may not do any more.
    if let Some(fd) = fds.first() {
        let hole = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
        let _ = rustix::fs::fallocate(fd, hole, 0, GEOMETRY.octets() as u64);
    }
    if random.random() {
        std::thread::sleep(Duration::from_millis(random.random_range(0..30)));
    }
}

/// One who speaks no protocol, at each door.
fn babble(program: &Program, [tcp, udp, _]: [u16; 3], random: &mut StdRng) {
    let mut octets = vec![0; random.random_range(1..3000)];
    random.fill(&mut octets[..]);
    match random.random_range(0..4) {
        0 => {
            let silent: Vec<_> = (0..20).filter_map(|_| Packets::connect(program.socket()).ok()).collect();
            std::thread::sleep(Duration::from_millis(10));
            drop(silent);
        }
        1 => {
            if let Ok(packets) = Packets::connect(program.socket()) {
                let _ = packets.send(&octets, &[]);
            }
        }
        2 => {
            if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", tcp)) {
                let _ = stream.write_all(&octets);
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        _ => {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            for part in octets.chunks(53) {
                let _ = socket.send_to(part, ("127.0.0.1", udp));
            }
        }
    }
}

/// Whoever runs the network looks at it and changes it.
fn command(program: &Program, ports: [u16; 3], random: &mut StdRng) {
    let vci = 300 + random.random_range(0..8);
    match random.random_range(0..6) {
        0 => drop(program.run("status --json")),
        1 => {
            let ends = [format!("beta 0.{vci}"), format!("gamma 0.{vci}")];
            let [a, b] = ends.each_ref().map(String::as_str);
            if program.try_run(&["circuit", "add", a, b]).is_some() {
                let _ = program.try_run(&["circuit", "remove", a, b]);
            }
        }
        2 => program.reload(&description(ports, random.random_range(0..20))),
        3 => program.reload("[host.alpha]\nnonsense = 1\n"),
        4 => {
            // A link to a peer that is not there comes and goes.
            let url = format!("atmtcp://127.0.0.1:{vci}");
            let added = program.try_run(&["link", "add", "gamma", &url]);
            if let Some(link) = added.as_ref().and_then(|added| added["link"].as_str()) {
                let _ = program.try_run(&["link", "remove", link]);
            }
        }
        _ => drop(program.try_run(&["circuit", "list"])),
    }
}

/// Circuits and endpoints.
fn state(program: &Program) -> (Vec<String>, usize) {
    let status: serde_json::Value = serde_json::from_str(&program.run("status --json")).unwrap();
    let names = status["circuits"].as_array().unwrap().iter().map(|c| c["name"].to_string());
    let mut names: Vec<String> = names.collect();
    names.sort();
    (names, status["endpoints"].as_array().unwrap().len())
}

/// Its descriptors, once they have been the same for half a second: the connection of the command before is still being closed.
fn at_rest(program: &Program) -> Vec<String> {
    let (mut descriptors, begun) = (program.descriptors(), Instant::now());
    let mut same = 0;
    while same < 10 && begun.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(50));
        let now = program.descriptors();
        same = if now == descriptors { same + 1 } else { 0 };
        descriptors = now;
    }
    descriptors
}

#[test]
#[ignore = "takes as long as SOAK_SECONDS says: scripts/test soak"]
fn after_whatever_comes_the_daemon_is_what_it_was_and_the_innocent_lost_nothing() {
    let seed = std::env::var("SOAK_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or_else(|| {
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(1, |d| d.as_secs())
    });
    println!("SOAK_SEED={seed} SOAK_SECONDS={}", seconds());
    let mut random = StdRng::seed_from_u64(seed);
    let ports = ports();
    let program = Program::up(&description(ports, 0));
    let watches =
        [("beta", 100), ("gamma", 101)].map(|(to, vci)| Watch::new(&program, "alpha", to, vci, Geometry::default()));
    // What is made once stays: the first of each kind is no leak.
    for _ in 0..3 {
        behave(&program, &mut random);
        scribble(&program, &mut random);
        babble(&program, ports, &mut random);
    }
    let settle = || {
        program.reload(&description(ports, 0));
        std::thread::sleep(Duration::from_millis(1500));
        let state = state(&program);
        (state, at_rest(&program), program.memory_kib())
    };
    let (before, descriptors, memory) = settle();
    let over = AtomicBool::new(false);
    let reports = std::thread::scope(|scope| {
        let over = &over;
        let watching = watches.map(|mut watch| {
            scope.spawn(move || {
                let report = watch.run(|| !over.load(Ordering::Relaxed));
                // Its endpoints stay until the daemon has been looked at.
                (report, watch)
            })
        });
        let end = Instant::now() + Duration::from_secs(seconds());
        let mut steps = [0u32; 4];
        while Instant::now() < end && !watching.iter().any(|thread| thread.is_finished()) {
            let which = random.random_range(0..8);
            match which {
                0..=3 => behave(&program, &mut random),
                4 | 5 => scribble(&program, &mut random),
                6 => babble(&program, ports, &mut random),
                _ => command(&program, ports, &mut random),
            }
            steps[[0, 0, 0, 0, 1, 1, 2, 3][which]] += 1;
        }
        println!("behaved {}, scribbled {}, babbled {}, commanded {}", steps[0], steps[1], steps[2], steps[3]);
        over.store(true, Ordering::Relaxed);
        watching.map(|thread| thread.join().unwrap())
    });
    for (report, _) in &reports {
        println!("{report:?}");
        assert_eq!((report.lost, report.damaged), (0, 0), "SOAK_SEED={seed}: {report:?}");
    }
    let (after, descriptors_after, memory_after) = settle();
    println!("descriptors {} {}; memory {memory} KiB, {memory_after} KiB", descriptors.len(), descriptors_after.len());
    assert_eq!(after, before, "SOAK_SEED={seed}: circuits and endpoints");
    let more = descriptors_after.len() > descriptors.len();
    assert!(!more, "SOAK_SEED={seed}: descriptors {descriptors:?}, then {descriptors_after:?}");
    // Allocators keep what they were given; 16 MiB is a pool of frames, and no leak of a long run.
    assert!(memory_after <= memory + (16 << 10), "SOAK_SEED={seed}: {memory} KiB, then {memory_after} KiB");
    drop(reports);
}
