//! Looking and changing cost the network nothing: with two thousand circuits no command makes the engine's thread compute for a
//! millisecond between two of its rounds, and with twenty thousand it is no more. Measured in the thread's own processor time, so that neighbours do not count.

#[path = "rounds/bounds.rs"]
mod bounds;

use cellway::kinds::kinds;
use control::config::parse_with;
use control::daemon::Daemon;
use endpoint::{ChannelId, Connection, Endpoint, EndpointConfig, OpenOptions, sealed};
use host::engine::Core;
use serde_json::json;
use std::fmt::Write as _;
use std::os::fd::AsFd;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use wire::CircuitId;

/// The program's. That of the C library puts all small pieces together that have been given back when it is next asked for a large
/// one: 13 ms after a start with 20 000 circuits.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A round with a command in it.
const BOUND: Duration = Duration::from_millis(1);
/// The same with ten times the circuits, in a build with less optimisation.
const BOUND_OF_MANY: Duration = Duration::from_micros(if cfg!(debug_assertions) { 2000 } else { 1000 });
/// Time of the thread's own processor is what counts, so other programs do not matter. A virtual processor may be taken
/// away, though, and that time counts as the thread's. Nobody takes it each time.
const ATTEMPTS: usize = 5;

/// Circuits through two switches, and signalling on one link.
fn description(circuits: u32, changed: u32, ports: u16, without: std::ops::Range<u32>) -> String {
    let mut text = format!(
        "[host.alpha]\n[host.beta]\n[switch.s1]\nports = {ports}\nprefix = \"47000580ffe1000000f21a26d8\"\n[switch.s2]\n\
         [[link]]\nends = [\"alpha\", \"s1:0\"]\nsignalling = {{ version = \"uni40\", labels = \"200.32-2000\" }}\n[[link]]\nends = [\"s1:1\", \"s2:1\"]\n[[link]]\nends = [\"s2:0\", \"beta\"]\n"
    );
    for n in (0..circuits).filter(|n| !without.contains(n)) {
        let (vci, pcr) = (100 + n, if n < changed { "pcr = \"1000 cell/s\"\n" } else { "" });
        let _ = writeln!(text, "[[circuit]]\nends = [\"alpha 0.{vci}\", \"beta 0.{vci}\"]\n{pcr}");
    }
    text
}

/// One network of this process at a time: threads of several wait for each other where they take memory, and that time
/// counts as theirs.
static ALONE: Mutex<()> = Mutex::new(());

struct Net {
    circuits: u32,
    bound: Duration,
    daemon: Daemon,
    /// Octets of memory before there was a network.
    before: u64,
    socket: PathBuf,
    _folder: tempfile::TempDir,
    _alone: MutexGuard<'static, ()>,
}

impl Net {
    fn up(circuits: u32, bound: Duration) -> Self {
        Net::of(&description(circuits, 0, 64, 0..0), circuits, bound)
    }

    fn of(text: &str, circuits: u32, bound: Duration) -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("socket");
        let config = parse_with(&kinds(), text, "net.toml").expect("a description");
        let before = resident(std::process::id());
        let daemon = Daemon::start(config, &socket).expect("a network");
        Net { circuits, bound, daemon, before, socket, _folder: folder, _alone: alone }
    }

    /// The longest round since the last time that this was asked, and what most of it was.
    fn longest(&self) -> (Duration, &'static str) {
        let longest = self.daemon.engine.with(|core| {
            let stats = core.stats();
            Core::clear_longest(core);
            (stats.longest_round, stats.longest_round_work)
        });
        longest.expect("a running engine")
    }

    /// Does something that leaves all as it was; the shortest of its longest rounds is below the bound.
    fn measure(&self, name: &str, act: impl FnMut(&Path)) {
        self.measure_some(1, name, act);
    }

    /// The same, and more attempts than not have no longer round.
    fn measure_often(&self, name: &str, act: impl FnMut(&Path)) {
        self.measure_some(ATTEMPTS / 2 + 1, name, act);
    }

    /// With CELLWAY_LONG all attempts are made, and printed.
    fn measure_some(&self, below: usize, name: &str, mut act: impl FnMut(&Path)) {
        let all = std::env::var_os("CELLWAY_LONG").is_some();
        let mut rounds = Vec::new();
        for _ in 0..ATTEMPTS {
            self.longest();
            act(&self.socket);
            rounds.push(self.longest());
            if !all && rounds.iter().filter(|round| round.0 < self.bound).count() == below {
                break;
            }
        }
        rounds.sort();
        println!("{name}: {rounds:?}");
        let is_short = rounds.get(below - 1).is_some_and(|round| round.0 < self.bound);
        assert!(is_short, "{name}: rounds of {rounds:?} with {} circuits", self.circuits);
    }
}

fn manage(socket: &Path, request: serde_json::Value) -> String {
    Connection::open(socket).and_then(|c| c.manage_text(request, &[])).expect("an answer")
}

fn apply(socket: &Path, text: &str, dry_run: bool) {
    let memory = sealed::write(text.as_bytes()).expect("memory");
    let request = json!({ "apply_file": { "name": "net.toml", "folder": "/", "dry_run": dry_run } });
    let done = Connection::open(socket).and_then(|c| c.manage_text(request, &[memory.as_fd()]));
    done.expect("it is applied");
}

#[test]
fn no_command_takes_long_between_two_rounds_however_many_circuits_there_are() {
    // As the program does: clearing one takes a virtual machine 5 ms.
    rustix::thread::disable_transparent_huge_pages(true).expect("a system that takes them away");
    no_command_takes_long(2_000, BOUND);
    no_command_takes_long(20_000, BOUND_OF_MANY);
}

/// Octets of a process's own memory, shared with its parent or not.
fn resident(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.expect("a process with memory") << 10
}

/// The processes at the door of a network of this process.
fn gates() -> Vec<u32> {
    hostile::children(std::process::id(), "cellway-accept")
}

/// A network whose start had no long round.
fn started(circuits: u32, bound: Duration) -> Net {
    let mut starts = Vec::new();
    for _ in 0..ATTEMPTS {
        let net = Net::up(circuits, bound);
        let start = net.longest();
        println!("start: {start:?}");
        if start.0 < bound {
            return net;
        }
        starts.push(start);
    }
    panic!("start: rounds of {starts:?} with {circuits} circuits");
}

fn no_command_takes_long(circuits: u32, bound: Duration) {
    let net = started(circuits, bound);
    // A page that the door's processes share is copied by whoever writes to it: they share none of the network's.
    let (gates, before) = (gates(), net.before);
    assert!(!gates.is_empty());
    for acceptor in gates {
        let (shared, grown) = (resident(acceptor), resident(std::process::id()).saturating_sub(before));
        assert!(shared <= before + grown / 4, "an acceptor shares {shared} octets of {before} and {grown} more");
    }
    let description = |changed, ports, without| description(circuits, changed, ports, without);
    let (as_it_was, changed) = (description(0, 64, 0..0), description(100, 64, 0..0));
    let fewer = description(0, 64, 500..1500);
    net.measure("status", |socket| assert!(manage(socket, json!("status")).len() > 100 * circuits as usize));
    net.measure("overview", |socket| drop(manage(socket, json!("overview"))));
    for request in ["circuits", "circuit_rows", "links"] {
        // These harvest what status does.
        if circuits <= 2_000 {
            net.measure(request, |socket| assert!(!manage(socket, json!(request)).is_empty()));
        }
    }
    net.measure("circuit add, circuit remove", |socket| {
        manage(socket, json!({ "add_circuit": { "ends": ["alpha 1.50", "beta 1.50"] } }));
        manage(socket, json!({ "remove_circuit": { "ends": ["alpha 1.50", "beta 1.50"] } }));
    });
    let mut paths = 2..;
    net.measure("circuit add, the first of a path", |socket| {
        let path = paths.next().unwrap_or_default();
        let ends = [format!("alpha {path}.50"), format!("beta {path}.50")];
        manage(socket, json!({ "add_circuit": { "ends": ends } }));
    });
    let one_more = description(0, 64, 0..0) + "[switch.s3]\n[[link]]\nends = [\"s2:2\", \"s3:0\"]\n";
    net.measure("apply, a switch more and less", |socket| {
        apply(socket, &one_more, false);
        apply(socket, &as_it_was, false);
    });
    net.measure("link down, link up", |socket| {
        for up in [false, true] {
            manage(socket, json!({ "set_link": { "name": "s1:1 - s2:1", "up": up } }));
        }
    });
    net.measure("link add, link remove", |socket| {
        manage(socket, json!({ "add_link": { "ends": ["alpha", "s2:9"] } }));
        manage(socket, json!({ "remove_link": { "name": "alpha - s2:9" } }));
    });
    net.measure("apply --dry-run", |socket| apply(socket, &changed, true));
    net.measure("apply, 100 contracts", |socket| {
        apply(socket, &changed, false);
        apply(socket, &as_it_was, false);
    });
    for ports in [66, 200, 65_534] {
        let bounds = description(0, ports, 0..0);
        net.measure(&format!("apply, {ports} ports of a switch"), |socket| {
            apply(socket, &bounds, false);
            apply(socket, &as_it_was, false);
        });
    }
    net.measure("apply, 1000 circuits less and more", |socket| {
        apply(socket, &fewer, false);
        apply(socket, &as_it_was, false);
    });
    net.measure("reload", |_| {
        net.daemon.reload(parse_with(&kinds(), &changed, "net.toml").expect("a description")).expect("it is applied");
        net.daemon.reload(parse_with(&kinds(), &as_it_was, "net.toml").expect("a description")).expect("it is applied");
    });
    net.measure("capture", |socket| {
        let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
        let request = json!({ "capture_start": { "link": "s1:1 - s2:1", "circuits": [], "buffer_mib": 64 } });
        let started = Connection::open(socket).and_then(|c| c.manage_with(request, &[theirs.as_fd()]));
        started.expect("a capture");
        drop((ours, theirs));
        // The next one has to wait until this one has ended.
        while manage(socket, json!("overview")).is_empty() {}
        std::thread::sleep(Duration::from_millis(50));
    });
    net.measure("open, close, end", |socket| {
        let config = EndpointConfig { host: "alpha".into(), ..EndpointConfig::default() };
        let mut endpoint = Endpoint::create(socket, &config).expect("an endpoint");
        let open = |vci| endpoint.open(CircuitId::new(0, vci).expect("a VCI"), OpenOptions::default());
        let channels: Vec<_> = (100..400).map(open).collect::<Result<_, _>>().expect("300 circuits");
        for channel in channels.into_iter().take(100) {
            endpoint.close(channel).expect("a channel");
        }
        drop(endpoint);
        // The service has ended it before it answers the next one's greeting.
        drop(manage(socket, json!("overview")));
    });
}

/// A description of two hosts with a link of a rate and a queue of cells, and what else there is.
fn queue(rate: u32, more: &str) -> String {
    format!(
        "[host.alpha]\n[host.beta]\n[[link]]\nends = [\"alpha\", \"beta\"]\nrate = \"{rate} cell/s\"\nqueue_cells = {QUEUE}\n{more}"
    )
}

/// The most that a description may ask for.
const QUEUE: usize = 1 << 20;
const PATIENCE: Duration = Duration::from_secs(60);

fn open(socket: &Path, host: &str, vci: u16) -> (Endpoint, ChannelId) {
    let config = EndpointConfig { host: host.into(), ..EndpointConfig::default() };
    let mut endpoint = Endpoint::create(socket, &config).expect("an endpoint");
    let circuit = CircuitId::new(0, vci).expect("a VCI");
    let channel = endpoint.open(circuit, OpenOptions::default()).expect("the circuit");
    (endpoint, channel)
}

#[test]
fn a_long_queue_costs_nothing_until_it_is_used_and_changes_of_a_full_one_take_no_long_round() {
    rustix::thread::disable_transparent_huge_pages(true).expect("a system that takes them away");
    let circuit = "[[circuit]]\nends = [\"alpha 0.100\", \"beta 0.100\"]\n";
    let link = |ends: &str| format!("{circuit}[[link]]\nends = [{ends}]\nrate = \"OC-3c\"\nqueue_cells = {QUEUE}\n");
    let net = Net::of(&queue(1000, circuit), 1, BOUND);
    net.measure("apply, links with long queues more and less", |socket| {
        apply(
            socket,
            &queue(1000, &(link("\"alpha:7\", \"beta:7\"") + &link("\"alpha:8\", \"beta:8\"").replace(circuit, ""))),
            false,
        );
        apply(socket, &queue(1000, circuit), false);
    });
    let (mut sender, channel) = open(&net.socket, "alpha", 100);
    let queued = || {
        let status: serde_json::Value = serde_json::from_str(&manage(&net.socket, json!("status"))).expect("status");
        status["links"][0]["from_a"]["queued"].as_u64().expect("a number") as usize
    };
    let begin = Instant::now();
    while queued() < QUEUE - 1000 {
        assert!(begin.elapsed() < PATIENCE, "the queue does not fill: {} cells", queued());
        for _ in 0..100 {
            if sender.send_copy(channel, &[7; 9180]).is_err() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
    net.measure("apply, another rate of a link whose queue is full", |socket| {
        apply(socket, &queue(2000, circuit), false);
        apply(socket, &queue(1000, circuit), false);
    });
    assert!(queued() > QUEUE / 2);
    // It can be emptied once: by the shortest of no more than this attempt.
    net.longest();
    apply(&net.socket, "[host.alpha]\n[host.beta]\n", false);
    let longest = net.longest();
    assert!(longest.0 < 4 * BOUND, "the end of a link whose queue is full: {longest:?}");
}

#[test]
fn a_desk_is_made_and_changed_in_short_rounds() {
    rustix::thread::disable_transparent_huge_pages(true).expect("a system that takes them away");
    let text = |bypass: bool| {
        let mut text = format!(
            "[host.alpha]\n[host.beta]\n[desk.den]\nchips = 64\nbypass = {bypass}\n[[link]]\nends = [\"alpha\", \"den:0\"]\n[[link]]\nends = [\"beta\", \"den:63\"]\n"
        );
        for vci in 100..600 {
            let _ = writeln!(text, "[[circuit]]\nends = [\"alpha 0.{vci}\", \"beta 0.{vci}\"]");
        }
        text
    };
    // 500 circuits through 64 chips.
    let net = Net::of(&text(true), 500, BOUND_OF_MANY);
    net.measure("apply, chips of a desk", |socket| {
        apply(socket, &text(false), false);
        apply(socket, &text(true), false);
    });
    let status: serde_json::Value = serde_json::from_str(&manage(&net.socket, json!("status"))).expect("status");
    let desk = &status["desks"][0];
    assert_eq!((&desk["circuit_routes"], &desk["lost_routes"]), (&json!(1000), &json!(0)), "{desk}");
    net.measure("apply, a desk less and more", |socket| {
        apply(socket, "[host.alpha]\n[host.beta]\n", false);
        apply(socket, &text(true), false);
    });
}

#[test]
fn circuits_from_one_chip_of_a_desk_to_all_others_are_laid_anew_in_short_rounds() {
    rustix::thread::disable_transparent_huge_pages(true).expect("a system that takes them away");
    const CHIPS: usize = 256;
    let mut stations = String::new();
    for n in 0..CHIPS {
        let _ = writeln!(stations, "[host.h{n}]\n[[link]]\nends = [\"h{n}\", \"den:{n}\"]");
    }
    let ends = |vci: u16| (0..CHIPS).map(|n| format!("h{n} 0.{vci}")).collect::<Vec<_>>();
    let text = |bypass: bool, vcis: std::ops::Range<u16>| {
        let mut text = format!("{stations}[desk.den]\nchips = {CHIPS}\nbypass = {bypass}\n");
        for vci in vcis {
            let _ = writeln!(text, "[[circuit]]\nends = {:?}", ends(vci));
        }
        text
    };
    // A circuit is laid whole: 255 links and as many ends.
    let net = Net::of(&text(true, 100..110), 10, BOUND_OF_MANY * 3 / 2);
    net.measure("apply, chips of a desk with circuits to 255", |socket| {
        apply(socket, &text(false, 100..110), false);
        apply(socket, &text(true, 100..110), false);
    });
    let on = text(true, 100..110);
    let off = on.replace("chips = 256", &format!("chips = 256\noff = {:?}", (0..CHIPS).collect::<Vec<_>>()));
    net.measure("apply, power of all chips of a desk", |socket| {
        apply(socket, &off, false);
        apply(socket, &on, false);
    });
    let status: serde_json::Value = serde_json::from_str(&manage(&net.socket, json!("status"))).expect("status");
    let desk = &status["desks"][0];
    assert_eq!((&desk["circuit_routes"], &desk["lost_routes"]), (&json!(10), &json!(0)), "{desk}");
}

#[test]
fn a_myrinet_is_made_and_changed_in_short_rounds() {
    rustix::thread::disable_transparent_huge_pages(true).expect("a system that takes them away");
    const HOSTS: usize = 60;
    const MULTIPOINT: usize = 500;
    let text = |switching: &str| {
        let mut text = String::from("[host.alpha]\n[host.beta]\n");
        let mut cables = String::new();
        for n in 0..HOSTS {
            let _ = writeln!(text, "[host.h{n}]");
            let _ = writeln!(cables, "{{ ends = [\"h{n}\", \"m{}:{}\"] }},", n / 12, n % 12);
        }
        for n in 0..HOSTS / 12 {
            let _ = writeln!(cables, "{{ ends = [\"m{n}:12\", \"hub:{n}\"] }},");
        }
        let hosts: Vec<String> = (0..HOSTS).map(|n| format!("h{n}")).collect();
        let switches: Vec<String> = (0..HOSTS / 12).map(|n| format!("m{n} = 16")).collect();
        let _ = writeln!(
            text,
            "[myrinet.ssn]\nhosts = {hosts:?}\nswitches = {{ {}, hub = 8 }}\ncables = [\n{cables}]\nswitching = \"{switching}\"",
            switches.join(", ")
        );
        // Each to some: all interfaces know whom.
        for n in 0..MULTIPOINT {
            let ends = [0, 1, 7, 13, 29].map(|step| format!("h{} 0.{}", (n + step) % HOSTS, 100 + n));
            let _ = writeln!(text, "[[circuit]]\nends = {ends:?}");
        }
        text
    };
    // 500 circuits to many, each looked at whole.
    let net = Net::of(&text("cut-through"), MULTIPOINT as u32, BOUND_OF_MANY);
    net.measure("apply, switches of a Myrinet", |socket| {
        apply(socket, &text("store-and-forward"), false);
        apply(socket, &text("cut-through"), false);
    });
    net.measure("apply, a Myrinet less and more", |socket| {
        apply(socket, "[host.alpha]\n[host.beta]\n", false);
        apply(socket, &text("cut-through"), false);
    });
}

#[test]
fn a_capture_between_two_shards_that_is_far_behind_is_put_in_order_elsewhere() {
    rustix::thread::disable_transparent_huge_pages(true).expect("a system that takes them away");
    let text = "[engine]\nshards = 2\n[host.alpha]\nshard = 0\n[host.beta]\nshard = 1\n[[link]]\nends = [\"alpha\", \"beta\"]\n\
        [[circuit]]\nends = [\"alpha 0.100\", \"beta 0.100\"]\n[[circuit]]\nends = [\"alpha 0.101\", \"beta 0.101\"]\n";
    let net = Net::of(text, 2, BOUND);
    let attempts = (0..ATTEMPTS).map(|_| {
        let (mut ours, theirs) = UnixStream::pair().expect("a pair of sockets");
        let request = json!({ "capture_start": { "link": "alpha - beta", "circuits": [], "buffer_mib": 32 } });
        let started = Connection::open(&net.socket).and_then(|c| c.manage_with(request, &[theirs.as_fd()]));
        started.expect("a capture");
        drop(theirs);
        // Nobody reads, so that what passes waits where it was seen.
        let mut senders = [open(&net.socket, "alpha", 100), open(&net.socket, "beta", 101)];
        for _ in 0..1500 {
            for (sender, channel) in &mut senders {
                let begin = Instant::now();
                while sender.send_copy(*channel, &[7; 9180]).is_err() {
                    assert!(begin.elapsed() < PATIENCE, "the sender stands still");
                    std::thread::sleep(Duration::from_micros(100));
                }
            }
        }
        std::thread::sleep(Duration::from_millis(50));
        net.longest();
        ours.shutdown(std::net::Shutdown::Write).expect("a socket");
        let (mut octets, mut piece) = (0, vec![0; 1 << 20]);
        loop {
            match std::io::Read::read(&mut ours, &mut piece).expect("the stream") {
                0 => break,
                n => octets += n,
            }
        }
        assert!(octets > 300_000 * 61, "{octets} octets of a capture");
        drop(senders);
        net.longest()
    });
    let best = attempts.into_iter().min().expect("an attempt");
    println!("a capture between two shards: {best:?}");
    assert!(best.0 < BOUND, "a round of {best:?}");
}

/// A path in a folder on which the system goes through ten thousands of names: whoever asks for it takes milliseconds each time.
fn long_way(folder: &Path) {
    std::fs::create_dir(folder.join("d")).unwrap();
    for n in 0..LINKS {
        let next = if n + 1 < LINKS { format!("way{}", n + 1) } else { ".".to_owned() };
        symlink("d/../".repeat(800) + &next, folder.join(format!("way{n}"))).unwrap();
    }
}

/// Symbolic links that the system follows in one path.
const LINKS: usize = 38;

#[test]
fn an_adapter_whose_socket_takes_long_to_reach_is_made_and_ended_in_short_rounds() {
    let folder = tempfile::tempdir().expect("a folder");
    long_way(folder.path());
    let socket = folder.path().join("way0/eni0.sock");
    let none = "[switch.s1]\n";
    let one = format!(
        "{none}[adapter.eni0]\nhost = \"guest\"\nsocket = {socket:?}\n[[link]]\nends = [\"guest\", \"s1:0\"]\n"
    );
    let net = Net::of(none, 0, BOUND);
    net.measure("apply, an adapter more and less", |to| {
        apply(to, &one, false);
        assert!(socket.exists());
        apply(to, none, false);
        assert!(!socket.exists());
    });
}

#[test]
fn circuits_from_one_host_to_all_others_come_and_go_in_short_rounds() {
    rustix::thread::disable_transparent_huge_pages(true).expect("a system that takes them away");
    const HOSTS: usize = 256;
    let mut text = format!("[switch.hub]\nports = {HOSTS}\n");
    for n in 0..HOSTS {
        let _ = writeln!(text, "[host.h{n}]\n[[link]]\nends = [\"h{n}\", \"hub:{n}\"]");
    }
    let with = |vcis: std::ops::Range<u16>| {
        let mut text = text.clone();
        for vci in vcis {
            let ends: Vec<String> = (0..HOSTS).map(|n| format!("h{n} 0.{vci}")).collect();
            // The delay to each end is added up.
            let contract = "category = \"cbr\"\npcr = \"10 cell/s\"\nmax_ctd_us = 1000000";
            let _ = writeln!(text, "[[circuit]]\nends = {ends:?}\n{contract}");
        }
        text
    };
    // A circuit is laid whole.
    let net = Net::of(&with(100..103), 3, BOUND_OF_MANY * 3);
    net.measure("apply, circuits to 255", |socket| {
        apply(socket, &with(100..110), false);
        apply(socket, &with(100..103), false);
    });
}
