//! Reloads of a running network: whole or not at all, and nobody who is not concerned notices.

use control::audit::Who;
use control::config::{Config, parse};
use control::controller::{Applying, Controller};
use control::daemon::{Daemon, DaemonOptions};
use control::description::rehearse;
use control::manage::{MAX_DESCRIPTION_OCTETS, Manager};
use control::status::{CircuitStatus, Status, collect};
use endpoint::seqpacket::{Groups, Peer};
use endpoint::{Connection, Endpoint, EndpointConfig, OpenOptions, sealed};
use host::service::Handler;
use net::End;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;
use wire::CircuitId;

/// A network with a link to the outside, and some circuits.
struct Net {
    daemon: Daemon,
    socket: PathBuf,
    _folder: tempfile::TempDir,
}

const STATIONS: &str = "[host.alpha]\n[host.beta]\n[switch.s1]\nports = 8\n\
    [[link]]\nends = [\"alpha\", \"s1:0\"]\nrate = \"OC-3c\"\n[[link]]\nends = [\"s1:1\", \"beta\"]\n";

fn circuits(which: impl Iterator<Item = u32>) -> String {
    which.fold(String::new(), |mut text, n| {
        let _ = writeln!(text, "[[circuit]]\nends = [\"alpha 0.{n}\", \"beta 0.{n}\"]");
        text
    })
}

fn config(text: &str) -> Config {
    parse(text, "net.toml").unwrap()
}

/// Makes the network what a description says, without what commands have changed.
fn exactly(controller: &Controller, text: &str) {
    let applying = Applying { exact: true, ..Applying::default() };
    controller.apply(config(text), &Who::Operator, &|_| Ok(()), applying).unwrap();
}

impl Net {
    fn up(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        Net { daemon: Daemon::start(config(text), &socket).unwrap(), socket, _folder: folder }
    }

    fn circuits(&self) -> Vec<CircuitStatus> {
        collect(self.daemon.controller()).unwrap().circuits
    }

    fn open(&self, host: &str, vci: u16) -> (Endpoint, endpoint::ChannelId) {
        let config = EndpointConfig { host: host.into(), ..EndpointConfig::default() };
        let mut endpoint = Endpoint::create(&self.socket, &config).unwrap();
        let channel = endpoint.open(CircuitId::new(0, vci).unwrap(), OpenOptions::default()).unwrap();
        (endpoint, channel)
    }

    /// A PDU passes on circuits that were opened before.
    fn passes(&self, pair: &mut [(Endpoint, endpoint::ChannelId); 2]) {
        let [(sender, channel), (receiver, _)] = pair;
        sender.send_copy(*channel, b"still here").unwrap();
        let got = receiver.receive(Some(Duration::from_secs(30))).unwrap().expect("the PDU");
        assert_eq!(&got[..], b"still here");
    }
}

#[test]
fn a_reload_that_fails_leaves_every_circuit_as_it_was() {
    let before = format!("{STATIONS}{}", circuits(100..902));
    let net = Net::up(&before);
    let mut pair = [net.open("alpha", 100), net.open("beta", 100)];
    let mut other = [net.open("alpha", 700), net.open("beta", 700)];
    net.passes(&mut pair);
    net.passes(&mut other);
    let was = net.circuits();
    assert_eq!(was.len(), 802);
    // Half of the circuits go, others come, the rate changes, and a socket cannot be had.
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let after = format!(
        "[outside.far]\n{}[[link]]\nends = [\"s1:5\", \"far\"]\ncells_udp = {{ local = \"{}\", peer = \"127.0.0.1:9\" }}\n{}",
        STATIONS.replace("OC-3c", "OC-12c"),
        taken.local_addr().unwrap(),
        circuits((100..500).chain(2000..2500)),
    );
    let refused = format!("{:#}", net.daemon.reload(config(&after)).unwrap_err());
    assert!(refused.contains("UDP"), "{refused}");
    // What cannot be is told, and nothing is touched either.
    let impossible = format!("{}{}", STATIONS.replace("ports = 8", "ports = 1"), circuits(100..110));
    let refused = format!("{:#}", net.daemon.reload(config(&impossible)).unwrap_err());
    assert!(refused.contains("1 is less than it uses, 2"), "{refused}");
    let is = net.circuits();
    let same = was.iter().zip(&is).filter(|(a, b)| a == b).count();
    assert_eq!((same, is.len()), (802, 802), "of 802");
    net.passes(&mut pair);
    net.passes(&mut other);
    // The same without the socket is done.
    drop(taken);
    let outcome = net.daemon.reload(config(&after)).unwrap();
    assert_eq!((outcome.summary.interrupted, outcome.unchanged_circuits), (402, 400));
    net.passes(&mut pair);
    assert_eq!(net.circuits().len(), 900);
}

/// A link that was to become another one has its old far end again, though the new one had been made already.
#[test]
fn a_reload_that_fails_puts_back_the_far_ends_that_links_had() {
    let sockets: [UdpSocket; 3] = std::array::from_fn(|_| UdpSocket::bind("127.0.0.1:0").unwrap());
    let [had, new, taken] = sockets.each_ref().map(|socket| socket.local_addr().unwrap());
    let [of_had, of_new, _taken] = sockets;
    drop((of_had, of_new));
    let udp = |ends: &str, queue: u32, local: SocketAddr| {
        format!(
            "[[link]]\nends = [{ends}]\nqueue_cells = {queue}\ncells_udp = {{ local = \"{local}\", peer = \"127.0.0.1:9\" }}\n"
        )
    };
    let text = |links: String| format!("[outside.far]\n[outside.other]\n{STATIONS}{links}");
    let ends = ["\"s1:5\", \"far\"", "\"s1:6\", \"other\""];
    let net = Net::up(&text(udp(ends[0], 100, had)));
    // The first link here cannot be; that is found when the second one has gone.
    let after = text(udp(ends[1], 100, taken) + &udp(ends[0], 200, new));
    let refused = format!("{:#}", net.daemon.reload(config(&after)).unwrap_err());
    assert!(refused.contains("everything is as it was"), "{refused}");
    assert!(UdpSocket::bind(had).is_err(), "the link is not where it was");
    UdpSocket::bind(new).expect("what was made for the change is there still");
}

/// A link that may be up when another one is: that is made anew, goes and comes back, and is put back after a change that failed.
#[test]
fn a_link_follows_another_that_is_made_anew() {
    let text = |follows: &str, queue: u32, more: &str| {
        format!(
            "{STATIONS}[[link]]\nends = [\"alpha:2\", \"beta:2\"]\nqueue_cells = {queue}\n\
            [[link]]\nends = [\"alpha:3\", \"beta:3\"]\nfollows = \"{follows}\"\n{more}"
        )
    };
    let followed = "alpha:2 - beta:2";
    let net = Net::up(&text(followed, 1000, ""));
    let controller = net.daemon.controller();
    let up = |name: &str| {
        let links = collect(controller).unwrap().links;
        links.iter().find(|link| link.name == name).map(|link| link.up)
    };
    let follower_is = |up_now: bool, why: &str| {
        let deadline = std::time::Instant::now() + Duration::from_secs(30);
        while up("alpha:3 - beta:3") != Some(up_now) {
            assert!(std::time::Instant::now() < deadline, "{why}");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    // It follows, and what it follows is the link that is there.
    let follows = |why: &str| {
        assert_eq!(up(followed), Some(true), "{why}");
        follower_is(true, why);
        controller.set_link(followed, false, &Who::Operator, &|_| Ok(())).unwrap();
        follower_is(false, why);
        controller.set_link(followed, true, &Who::Operator, &|_| Ok(())).unwrap();
        follower_is(true, why);
    };
    follows("as it was made");
    let outcome = net.daemon.reload(config(&text(followed, 2000, ""))).unwrap();
    assert_eq!(outcome.summary.changed, 2, "{:?}", outcome.lines);
    follows("another queue of the link that it follows");
    controller.remove(&controller.find_link(followed).unwrap(), &Who::Operator, &|_| Ok(())).unwrap();
    follower_is(false, "the link that it follows is removed");
    exactly(controller, &text(followed, 2000, ""));
    follows("the link that it follows is there again");
    // A step that fails after the link was made anew: another one listens at the socket, once a far end has gone.
    let port = |udp: &str| {
        format!(
            "[outside.far]\n[[link]]\nends = [\"s1:6\", \"far\"]\ncells_udp = {{ local = \"{udp}\", peer = \"127.0.0.1:9\" }}\n"
        )
    };
    net.daemon.reload(config(&text(followed, 2000, &port("127.0.0.1:0")))).unwrap();
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let fails = port(&taken.local_addr().unwrap().to_string());
    for (follows_now, queue) in [(followed, 3000), ("alpha - s1:0", 3000), ("alpha - s1:0", 2000)] {
        let refused = net.daemon.reload(config(&text(follows_now, queue, &fails))).unwrap_err();
        let refused = format!("{refused:#}");
        assert!(refused.contains("everything is as it was"), "{refused}");
        follows("a reload that failed after the link was made anew");
    }
}

/// What a command has removed is gone after a restart, too: what follows it is down, and up once it is there again.
#[test]
fn a_link_whose_followed_link_is_not_there_is_down() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!("{STATIONS}[[link]]\nends = [\"alpha:3\", \"beta:3\"]\nfollows = \"alpha - s1:0\"\n");
    let start = || {
        let options = DaemonOptions { state: Some(folder.path().join("state")), ..DaemonOptions::default() };
        Daemon::start_with(config(&text), &folder.path().join("socket"), &options).unwrap()
    };
    let is_up = |daemon: &Daemon| {
        let links = collect(daemon.controller()).unwrap().links;
        links.iter().find(|link| link.name == "alpha:3 - beta:3").unwrap().up
    };
    let daemon = start();
    assert!(is_up(&daemon));
    let followed = daemon.controller().find_link("alpha - s1:0").unwrap();
    daemon.controller().remove(&followed, &Who::Operator, &|_| Ok(())).unwrap();
    drop(daemon);
    let daemon = start();
    assert!(!is_up(&daemon));
    exactly(daemon.controller(), &text);
    assert!(is_up(&daemon));
}

#[test]
fn changed_bounds_and_rates_are_applied_or_refused_and_interrupt_no_circuit() {
    let text = format!("{STATIONS}{}", circuits(100..140)).replace("[host.alpha]", "[host.alpha]\nmax_endpoints = 4");
    let net = Net::up(&text);
    let mut pair = [net.open("alpha", 100), net.open("beta", 100)];
    for (from, to, says) in [
        ("ports = 8", "ports = 2", None),
        ("ports = 8", "ports = 60", None),
        ("ports = 8", "ports = 8\nmax_routes = 80", None),
        ("ports = 8", "ports = 8\nmax_routes = 79", Some("max_routes")),
        ("max_endpoints = 4", "max_endpoints = 1", None),
        ("OC-3c", "1 Mbit/s", None),
        ("rate = \"OC-3c\"", "rate = \"OC-3c\"\ndelay_us = 300", None),
        ("[[link]]\nends = [\"alpha\", \"s1:0\"]", "[[link]]\nends = [\"alpha\", \"s1:9\"]", Some("port 9")),
    ] {
        let changed = text.replace(from, to);
        assert_ne!(changed, text);
        let outcome = net.daemon.reload(config(&changed));
        match says {
            Some(says) => {
                let refused = format!("{:#}", outcome.unwrap_err());
                assert!(refused.contains(says), "{to}: {refused}");
            }
            None => {
                let outcome = outcome.unwrap();
                assert_eq!((outcome.summary.changed, outcome.summary.interrupted), (1, 0), "{to}");
            }
        }
        net.passes(&mut pair);
        net.daemon.reload(config(&text)).unwrap();
    }
    let status = collect(net.daemon.controller()).unwrap();
    assert_eq!((status.circuits.len(), status.hosts["alpha"].max_endpoints, status.switches[0].ports), (40, 4, 8));
    // One that is lower than what is there keeps what is there, and refuses more.
    net.daemon.reload(config(&text.replace("max_endpoints = 4", "max_endpoints = 1"))).unwrap();
    let more = Endpoint::create(&net.socket, &EndpointConfig { host: "alpha".into(), ..EndpointConfig::default() });
    assert!(more.unwrap_err().to_string().contains("max_endpoints"));
    net.passes(&mut pair);
}

#[test]
fn a_description_of_any_length_is_applied_by_descriptor_if_it_is_sealed() {
    let text = |changed: u32| {
        let all = circuits(100..2100);
        format!("{STATIONS}{}", all.replacen("\"]\n[[", "\"]\npcr = \"100 cell/s\"\n[[", changed as usize))
    };
    assert!(text(0).len() > 64 * 1024);
    let net = Net::up(&text(0));
    let connection = Connection::open(&net.socket).unwrap();
    let request =
        |dry_run: bool| serde_json::json!({ "apply_file": { "name": "net.toml", "folder": "/", "dry_run": dry_run } });
    let apply = |octets: &[u8], dry_run| {
        let memory = sealed::write(octets).unwrap();
        connection.manage_with(request(dry_run), &[memory.as_fd()]).map_err(|e| e.to_string())
    };
    for dry_run in [true, false] {
        let applied = apply(text(100).as_bytes(), dry_run).unwrap();
        // Without its links, a line of the plan for each circuit that changes.
        assert_eq!((applied["changed"].as_u64(), applied["changes"].as_array().unwrap().len()), (Some(100), 100));
        assert_eq!(applied["unchanged_circuits"], 2000);
    }
    // The answer is long, so it comes as memory; it is what a short one says in packets.
    let status: Status = serde_json::from_value(connection.manage(serde_json::json!("status")).unwrap()).unwrap();
    assert_eq!((status.circuits.len(), status.circuit_count), (2000, 2000));
    assert_eq!(status.circuits, net.circuits());
    let overview: Status = serde_json::from_value(connection.manage(serde_json::json!("overview")).unwrap()).unwrap();
    assert_eq!((overview.circuits.len(), overview.circuit_count), (0, 2000), "none is open");
    let opened = net.open("alpha", 100);
    let overview: Status = serde_json::from_value(connection.manage(serde_json::json!("overview")).unwrap()).unwrap();
    assert_eq!(overview.circuits.len(), 1);
    drop(opened);
    // What could change, is no text, or is not there, is refused in words.
    let refused = |what: Result<serde_json::Value, endpoint::Error>| what.unwrap_err().to_string();
    let flags = rustix::fs::MemfdFlags::CLOEXEC | rustix::fs::MemfdFlags::ALLOW_SEALING;
    let open = rustix::fs::memfd_create("net", flags).unwrap();
    rustix::io::write(&open, text(0).as_bytes()).unwrap();
    assert!(refused(connection.manage_with(request(false), &[open.as_fd()])).contains("sealed against"));
    rustix::fs::ftruncate(&open, MAX_DESCRIPTION_OCTETS as u64 + 1).unwrap();
    rustix::fs::fcntl_add_seals(
        &open,
        rustix::fs::SealFlags::SHRINK | rustix::fs::SealFlags::GROW | rustix::fs::SealFlags::WRITE,
    )
    .unwrap();
    assert!(refused(connection.manage_with(request(false), &[open.as_fd()])).contains("more than the"));
    assert!(apply(&[0xff, 0xfe], false).unwrap_err().contains("UTF-8"));
    let file = std::fs::File::open("/dev/null").unwrap();
    assert!(refused(connection.manage_with(request(false), &[file.as_fd()])).contains("descriptor"));
    assert_eq!(net.circuits().iter().filter(|circuit| circuit.pcr_cells_per_s.is_some()).count(), 100);
}

#[test]
fn what_peers_have_opened_survives_a_reload() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let text = format!(
        "{STATIONS}[outside.peer]\n[[link]]\nends = [\"peer\", \"beta\"]\natmtcp = \"listen 127.0.0.1:{port}\"\nreal = \"beta\"\n"
    );
    let net = Net::up(&text);
    let link = config(&format!(
        "[host.alpha]\n[outside.far]\n[[link]]\nends = [\"alpha\", \"far\"]\natmtcp = \"connect 127.0.0.1:{port}\"\n{}",
        "[[circuit]]\nends = [\"alpha 0.77\", \"far 0.77\"]\n"
    ));
    let folder = tempfile::tempdir().unwrap();
    let _peer = Daemon::start(link, &folder.path().join("socket")).unwrap();
    let of_peer = || net.circuits().iter().any(|circuit| circuit.name == "peer 0.77 - beta 0.77");
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    while !of_peer() {
        net.daemon.serve_peers();
        assert!(std::time::Instant::now() < deadline, "the peer's circuit does not come");
        std::thread::sleep(Duration::from_millis(5));
    }
    let open = net.open("beta", 77);
    let outcome = net.daemon.reload(config(&format!("{text}{}", circuits(100..101)))).unwrap();
    assert_eq!((outcome.summary.added, outcome.summary.interrupted), (1, 0));
    assert!(of_peer() && net.circuits().iter().any(|c| c.name == "peer 0.77 - beta 0.77" && c.ends[1].open.is_some()));
    let owners = net.daemon.controller().objects();
    assert!(owners.iter().any(|(_, owner, _)| matches!(owner, control::objects::Owner::Peer(_))));
    drop(open);
    let (who, without) = (Who::Operator, format!("{STATIONS}{}", circuits(100..101)));
    net.daemon.controller().apply(config(&without), &who, &|_| Ok(()), Applying::default()).unwrap();
    assert!(!of_peer(), "with its link, a peer's circuit goes");
}

#[test]
fn circuits_of_a_peer_that_has_gone_are_closed_and_openings_beyond_the_bound_are_counted() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let net = Net::up(&format!(
        "{STATIONS}[outside.peer]\n[[link]]\nends = [\"peer\", \"beta\"]\natmtcp = \"listen 127.0.0.1:{port}\"\nreal = \"beta\"\n"
    ));
    let status = || collect(net.daemon.controller()).unwrap();
    let link = || status().links.into_iter().find(|link| link.outside.is_some()).unwrap();
    let refused = || link().from_a.sent.dropped.get("table_full").copied().unwrap_or(0);
    let text = |text: String| [&[0, 0, 0, 0, 0, 0, 0, text.len() as u8], text.as_bytes()].concat();
    let open = |circuit: String| text(format!("O {circuit} 0.{circuit} ubr,aal5"));
    let until = |what: &str, serve: bool, done: &dyn Fn() -> bool| {
        let deadline = std::time::Instant::now() + Duration::from_secs(30);
        while !done() {
            assert!(std::time::Instant::now() < deadline, "{what}");
            if serve {
                net.daemon.serve_peers();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    };

    let mut first = TcpStream::connect(("127.0.0.1", port)).unwrap();
    first.write_all(&(0..1030).flat_map(|n| open(format!("1.{}", 100 + n))).collect::<Vec<_>>()).unwrap();
    until("six openings are refused", true, &|| refused() == 6);
    assert_eq!(net.circuits().len(), 1024);
    // More than anybody keeps one by one, while nobody asks; then it is gone.
    let turns = (0..3000).flat_map(|_| [open("2.1".into()), text("C 2.1".into())].concat());
    first.write_all(&turns.collect::<Vec<_>>()).unwrap();
    drop(first);
    until("the link is down", false, &|| !link().up);
    let mut second = TcpStream::connect(("127.0.0.1", port)).unwrap();
    second.write_all(&open("3.100".into())).unwrap();
    until("the next peer has its circuit, and the first one has none", true, &|| {
        net.circuits().iter().map(|circuit| circuit.name.clone()).eq(["peer 3.100 - beta 3.100"])
    });
    assert_eq!(refused(), 6);
}

/// A user who neither is root nor runs the network.
const MANAGER: u32 = 1001;

/// Runs something in a thread that waits for what somebody else holds: gives it back once it sleeps.
fn until_it_waits<'s, T: Send + 's>(
    scope: &'s std::thread::Scope<'s, '_>,
    work: impl FnOnce() -> T + Send + 's,
) -> std::thread::ScopedJoinHandle<'s, T> {
    let (told, known) = std::sync::mpsc::channel();
    let handle = scope.spawn(move || {
        told.send(std::fs::read_link("/proc/thread-self").unwrap()).unwrap();
        work()
    });
    let stat = PathBuf::from("/proc").join(known.recv().unwrap()).join("stat");
    let sleeps = || std::fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") S "));
    let (mut looks, begin) = (0, std::time::Instant::now());
    while looks < 10 {
        assert!(begin.elapsed() < Duration::from_secs(30), "it does not wait");
        looks = if sleeps() { looks + 1 } else { 0 };
        std::thread::sleep(Duration::from_millis(2));
    }
    handle
}

#[test]
fn what_was_asked_for_by_a_right_that_a_reload_took_away_meanwhile_is_refused() {
    let rule = format!("[[allow]]\nusers = [{MANAGER}]\nrole = \"manage\"\n");
    let text = format!("{STATIONS}{}", circuits(100..104));
    let net = Net::up(&format!("{text}{rule}"));
    let controller = net.daemon.controller();
    let manager = Manager::new(controller.clone());
    let peer = Peer { pid: 1, uid: MANAGER, gid: MANAGER, groups: Groups::new(&[]) };
    let requests = [
        json!({ "apply": { "text": STATIONS, "name": "net.toml", "folder": "/", "dry_run": false } }),
        json!({ "apply": { "text": STATIONS, "name": "net.toml", "folder": "/", "dry_run": true } }),
        json!({ "add_circuit": { "ends": ["alpha 0.200", "beta 0.200"] } }),
        json!({ "remove_circuit": { "ends": ["alpha 0.100", "beta 0.100"] } }),
        json!({ "add_link": { "ends": ["alpha", "s1:5"] } }),
        json!({ "remove_link": { "name": "alpha:0 - s1:0" } }),
        json!({ "set_link": { "name": "s1:1 - beta:0", "up": false } }),
        json!({ "capture_start": { "link": "s1:1 - beta:0", "circuits": [], "buffer_mib": 1 } }),
    ];
    let before = net.circuits();
    let recorders = Mutex::new(Vec::new());
    let ask = |request: &Value| {
        let (ours, theirs) = UnixStream::pair().unwrap();
        recorders.lock().unwrap().push(ours);
        manager.manage(peer, request.clone(), vec![OwnedFd::from(theirs)])
    };
    let ask = &ask;
    let answers: Vec<(Value, Result<String, String>)> = std::thread::scope(|scope| {
        // Who waits first is next: the reload, and then the requests, which were allowed when they came.
        let (reload, asked) = controller.with_intent(|_| {
            let reload = until_it_waits(scope, || net.daemon.reload(config(&text)));
            let asked: Vec<_> = requests.iter().map(|request| until_it_waits(scope, move || ask(request))).collect();
            (reload, asked)
        });
        assert_eq!(reload.join().unwrap().unwrap().summary.interrupted, 0);
        requests.iter().cloned().zip(asked.into_iter().map(|asked| asked.join().unwrap())).collect()
    });
    for (request, answer) in answers {
        let why = answer.expect_err(&format!("{request}"));
        assert!(why.contains("not manage"), "{request}: {why}");
    }
    assert_eq!(net.circuits(), before);
    let tapped = controller.engine().with(|core| {
        let link = core.fabric.find_link("s1:1 - beta:0").unwrap();
        core.network.has_tap(link)
    });
    assert!(!tapped.unwrap());
    // By a rule that is there, the same is done.
    net.daemon.reload(config(&format!("{text}{rule}"))).unwrap();
    ask(&requests[7]).unwrap();
    ask(&requests[2]).unwrap();
}

#[test]
fn a_link_that_a_command_adds_is_held_to_what_one_of_a_description_is() {
    let signals = |ends: [&str; 2]| json!({ "ends": ends, "signalling": { "version": "uni40" } });
    let text = "[host.alpha]\n[host.beta]\n[host.gamma]\n[switch.s1]\nports = 8\nprefix = \"47000580ffe100000000000001\"\n\
                [switch.s2]\n[switch.s3]\nports = 8\nprefix = \"47000580ffe100000000000003\"\n\
                [[link]]\nends = [\"alpha\", \"s1:0\"]\nsignalling = { version = \"uni40\" }\n";
    let net = Net::up(text);
    let connection = Connection::open(&net.socket).unwrap();
    let add = |link: Value| connection.manage(json!({ "add_link": link })).map_err(|e| e.to_string());
    let interfaces = || {
        let mut all: Vec<String> =
            net.daemon.controller().calls().report().interfaces.into_iter().map(|i| i.station).collect();
        all.sort();
        all
    };
    for (link, says) in [
        (signals(["beta", "s2:0"]), "needs the prefix"),
        (signals(["alpha", "s1:1"]), "one link with signalling"),
        (signals(["beta", "gamma"]), "no network side"),
        (signals(["beta", "s1:8"]), "ports 0 to 7"),
        (json!({ "ends": ["beta", "s1:1"], "follows": "alpha - s1:9" }), "no link"),
        (
            json!({ "ends": ["s1:1", "far"], "atmtcp": "listen 127.0.0.1:0", "peer_circuits_to": "nobody" }),
            "no host of this name",
        ),
    ] {
        let why = add(link.clone()).expect_err(&format!("{link}"));
        assert!(why.contains(says), "{link}: {why}");
    }
    assert_eq!(interfaces(), ["alpha", "s1"]);
    // One that can be has calls, at a switch without others too.
    add(signals(["beta", "s1:1"])).unwrap();
    add(signals(["gamma", "s3:0"])).unwrap();
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    while net.daemon.controller().calls().report().interfaces.iter().any(|interface| !interface.up) {
        assert!(std::time::Instant::now() < deadline, "signalling does not come up");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(interfaces(), ["alpha", "beta", "gamma", "s1", "s1", "s3"]);
    // A description without the prefix has no room for calls there; the others' go on.
    let outcome = net.daemon.reload(config(&text.replace("prefix = \"47000580ffe100000000000003\"\n", ""))).unwrap();
    assert_eq!(outcome.dropped, ["link gamma - s3:0"]);
    assert_eq!(interfaces(), ["alpha", "beta", "s1", "s1"]);
}

/// A switch with signalling, and hosts whose links to it have no ports: the first two signal.
fn star(ports: u32, hosts: std::ops::Range<u32>) -> String {
    let mut text = format!("[switch.s1]\nports = {ports}\nprefix = \"47000580ffe100000000000001\"\n");
    for n in hosts {
        let signalling = if n < 2 { "signalling = { version = \"uni40\" }\n" } else { "" };
        let _ = write!(text, "[host.h{n}]\n[[link]]\nends = [\"h{n}\", \"s1\"]\n{signalling}");
    }
    text
}

#[test]
fn a_reload_leaves_the_signalling_of_a_switch_alone_unless_its_ports_change() {
    let net = Net::up(&star(8, 0..2));
    // The host behind the port for signalling, and that port.
    let signalling = || {
        let found = net.daemon.engine.with(|core| {
            let host = core.network.node_named("s1 signalling").unwrap();
            let link = core.network.links().find(|link| link.ends[1] == End::Port(host, 0)).unwrap();
            let End::Port(_, port) = link.ends[0] else { panic!("{:?}", link.ends) };
            (host, link.id, port)
        });
        found.unwrap()
    };
    let was = signalling();
    assert_eq!(was.2, 8);
    let circuit = "[[circuit]]\nends = [\"h0 0.100\", \"h1 0.100\"]\n";
    net.daemon.reload(config(&format!("{}{circuit}", star(8, 0..2)))).unwrap();
    assert_eq!(signalling(), was);
    // One port more, and a link where the signalling was.
    let link = "[host.last]\n[[link]]\nends = [\"last\", \"s1:8\"]\n";
    net.daemon.reload(config(&format!("{}{link}", star(9, 0..2)))).unwrap();
    assert_eq!(signalling().2, 9);
    net.daemon.reload(config(&star(8, 0..2))).unwrap();
    assert_eq!(signalling().2, 8);
}

#[test]
fn whatever_a_reload_puts_at_a_link_with_signalling_is_told_of_its_channels() {
    let ports: [u16; 2] = std::array::from_fn(|_| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    });
    let text = |port: u16, queue: u32| {
        let link = "[outside.far]\n[[link]]\nends = [\"s1:5\", \"far\"]\nsignalling = { version = \"uni31\" }\n";
        format!("{}{link}atmtcp = \"listen 127.0.0.1:{port}\"\nqueue_cells = {queue}\n", star(8, 0..2))
    };
    let is_told = |port: u16| {
        let mut peer = TcpStream::connect(("127.0.0.1", port)).unwrap();
        peer.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let (mut heard, mut piece) = (Vec::<u8>::new(), [0; 256]);
        let deadline = std::time::Instant::now() + Duration::from_secs(30);
        while !heard.windows(5).any(|text| text == b"O 0.5") {
            assert!(std::time::Instant::now() < deadline, "the peer is not told of the channel of signalling");
            let octets = peer.read(&mut piece).expect("the peer says something");
            assert!(octets > 0, "the connection has ended");
            heard.extend(&piece[..octets]);
        }
    };
    let net = Net::up(&text(ports[0], 100));
    is_told(ports[0]);
    // Another link at the same port, and then another end of that link.
    net.daemon.reload(config(&text(ports[0], 200))).unwrap();
    is_told(ports[0]);
    net.daemon.reload(config(&text(ports[1], 200))).unwrap();
    is_told(ports[1]);
}

#[test]
fn a_link_without_a_port_never_has_the_one_for_signalling() {
    const FULL: &str = "s1 has the ports 0 to 1, and no port 2";
    let refused = rehearse(&config(&star(2, 0..3))).unwrap_err().to_string();
    assert!(refused.contains(FULL), "{refused}");
    let net = Net::up(&format!("{}[host.last]\n", star(2, 0..2)));
    let connection = Connection::open(&net.socket).unwrap();
    let refused = connection.manage(json!({ "add_link": { "ends": ["last", "s1"] } })).unwrap_err().to_string();
    assert!(refused.contains(FULL), "{refused}");
    // Where there is no signalling yet, its port must not have a link either.
    let silent = |text: String| text.replace("prefix = \"47000580ffe100000000000001\"\n", "");
    let net = Net::up(&silent(star(3, 2..5)));
    let refused = net.daemon.reload(config(&star(2, 4..5))).unwrap_err().to_string();
    assert!(refused.contains("s1 has ports: 2 is less than it uses, 3"), "{refused}");
    net.daemon.reload(config(&star(3, 4..5))).unwrap();
}
