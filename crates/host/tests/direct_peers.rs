//! Direct circuits with a peer that dies at any instant, and with one that writes nonsense into all that it may write.
//!
//! The peer is this program started again. `KILLS` (1000 to be thorough, 60 by default) and `HOSTILE_SECONDS` (60; 5 by
//! default) say how much. A test program of its own: it counts its process's descriptors and mappings.

mod lan;

use endpoint::control::{Request, Response};
use endpoint::direct::memory::{Ours, Theirs};
use endpoint::direct::ring::{ReadLines, WriteLines};
use endpoint::direct::{Direct, DirectConfig, DirectGeometry, Gone, layout};
use endpoint::negotiate;
use endpoint::seqpacket::Packets;
use lan::{Lan, circuit, lingering, pass_by};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::SendFlags;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const SMALL: DirectGeometry = DirectGeometry { ring: 16, returns: 64, blocks: 32, block_octets: 192 };
const SECONDS_20: Option<Duration> = Some(Duration::from_secs(20));

fn config() -> DirectConfig {
    DirectConfig { geometry: SMALL, patience: SECONDS_20, ..DirectConfig::default() }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}

/// Starts this program again as a peer at `beta`.
fn peer(role: &str, socket: &Path, vci: u16, seed: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_peer", "--nocapture"])
        .env("CELLWAY_PEER", role)
        .env("CELLWAY_SOCKET", socket)
        .env("CELLWAY_VCI", vci.to_string())
        .env("CELLWAY_SEED", seed.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Not a test of its own: what a peer does.
#[test]
fn the_peer() {
    let Ok(role) = std::env::var("CELLWAY_PEER") else { return };
    let socket = std::env::var("CELLWAY_SOCKET").unwrap();
    let vci = number("CELLWAY_VCI", 0) as u16;
    match role.as_str() {
        "busy" => busy(Direct::open(Path::new(&socket), "beta", circuit(vci), &config()).unwrap()),
        _ => hostile(Path::new(&socket), vci, number("CELLWAY_SEED", 0)),
    }
}

/// Sends, receives, holds loans and messages, sleeps now and then, until it is killed.
fn busy(mut direct: Direct) {
    for i in 0u64.. {
        let octets = 1 + (i as usize * 37) % 1500;
        if let Some(mut loan) = direct.sender.loan(octets) {
            loan[..octets].fill(i as u8);
            let _ = loan.send(octets);
        }
        while let Some(message) = direct.receiver.try_receive() {
            std::hint::black_box(message.to_vec());
        }
        if i % 64 == 0 && direct.receiver.receive(Some(Duration::from_micros(100))).is_err() {
            return;
        }
    }
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn mappings() -> usize {
    std::fs::read_to_string("/proc/self/maps").unwrap().lines().filter(|l| l.contains("cellway-direct")).count()
}

#[test]
fn a_peer_killed_at_any_instant_is_noticed_and_leaves_nothing_behind() {
    let kills = number("KILLS", 60);
    let seed = number("SEED", 1);
    let mut random = StdRng::seed_from_u64(seed);
    let lan = Lan::new();
    // Another circuit, which is to notice nothing.
    let (mut c, mut d) = lan.both(101);
    let mut before = None;
    for kill in 0..kills {
        let mut child = peer("busy", &lan.socket, 100, kill);
        let mut direct = match Direct::open(&lan.socket, "alpha", circuit(100), &config()) {
            Ok(direct) => direct,
            Err(e) => panic!("kill {kill} of seed {seed}: {e}"),
        };
        let at = Instant::now() + Duration::from_micros(random.random_range(0..3000));
        let (mut killed, deadline) = (false, Instant::now() + Duration::from_secs(20));
        let gone = loop {
            if !killed && Instant::now() >= at {
                child.kill().unwrap();
                killed = true;
            }
            let _ = direct.sender.send_copy(&[kill as u8; 300]);
            match direct.receiver.receive(Some(Duration::from_micros(200))) {
                Ok(Some(message)) => assert!(message.to_vec().windows(2).all(|w| w[0] == w[1]), "torn"),
                Ok(None) => {}
                Err(gone) => break gone,
            }
            assert!(Instant::now() < deadline, "kill {kill} of seed {seed} was not noticed");
        };
        assert_eq!(gone, Gone::Peer);
        child.wait().unwrap();
        assert!(direct.sender.alive().is_err());
        assert_eq!(direct.sender.away_blocks(), 0, "reclaimed");
        drop(direct);
        lan.until_free("alpha", 100);
        lan.until_free("beta", 100);
        c.sender.send_copy(&[kill as u8; 100]).unwrap();
        assert_eq!(
            d.receiver.receive(SECONDS_20).unwrap().expect("the other circuit goes on").to_vec(),
            [kill as u8; 100]
        );
        // What is opened once (the engine's and the test's own) is there after the first. The service closes the last of a
        // connection's descriptors a moment after the end is free.
        let now = || (open_descriptors(), mappings());
        let before = *before.get_or_insert_with(|| {
            std::thread::sleep(Duration::from_millis(100));
            now()
        });
        lan::until("nothing is left behind", || now().0 <= before.0 && now().1 <= before.1);
    }
}

/// Opens a circuit with memory of its own making: the connection, that memory, and what the service has passed.
fn open_by_hand(socket: &Path, vci: u16) -> (Packets, Ours, Vec<OwnedFd>) {
    let packets = Packets::connect(socket).unwrap();
    let next = || packets.receive::<Response>().unwrap().unwrap();
    packets.send(&Request::hello(), &[]).unwrap();
    assert!(matches!(next().0, Response::Welcome { features, .. } if features == negotiate::FEATURES));
    let (evil, memory) = Ours::create(&SMALL).unwrap();
    let request = Request::OpenDirect {
        host: "beta".into(),
        vpi_vci: circuit(vci).to_string(),
        layout: layout::VERSION,
        geometry: SMALL,
    };
    packets.send(&request, &[memory.as_fd()]).unwrap();
    let (_, fds) = next();
    (packets, evil, fds)
}

/// Opens a circuit by hand, and then writes into its memory what no library would.
fn hostile(socket: &Path, vci: u16, seed: u64) {
    let (_packets, evil, fds) = open_by_hand(socket, vci);
    let mut random = StdRng::seed_from_u64(seed);
    let theirs = Theirs::open(&fds[0], &SMALL).unwrap();
    let lines = SMALL.octets() / layout::LINE_OCTETS;
    let (mut returned, mut returned_at) = (0u32, Instant::now());
    for step in 0u64.. {
        match random.random_range(0..8) {
            // Lines that the victim takes next, with blocks and lengths of all kinds.
            0..4 => {
                let index = theirs.load(layout::CONSUMED_LINE, 0, Ordering::Acquire) as u32 + random.random_range(0..4);
                let line = layout::RING_LINE + (index % SMALL.ring) as usize;
                let block = [layout::INLINE, random.random_range(0..34), random.random()][random.random_range(0..3)];
                let octets = [random.random_range(0..60u32), 192, random.random()][random.random_range(0..3)];
                evil.store(line, layout::BLOCK_WORD, u64::from(block), Ordering::Relaxed);
                let sequence = u64::from(index.wrapping_add(1)) | u64::from(octets) << 32;
                evil.store(line, layout::SEQUENCE_WORD, sequence, Ordering::Release);
            }
            // Blocks that come back although nobody has them, or twice; each is left there for a while to be taken.
            4 if returned_at.elapsed() > Duration::from_millis(2) => {
                returned_at = Instant::now();
                let (at, block) = ((returned % SMALL.returns) as usize, random.random_range(0..34u32));
                returned += 1;
                let (line, word) = (at / layout::RETURNS_PER_LINE, at % layout::RETURNS_PER_LINE);
                let entry = u64::from(returned) | u64::from(block) << 32;
                evil.store(SMALL.returns_line() + line, word, entry, Ordering::Release);
            }
            // Counts and sleeps that cannot be.
            5 => evil.store(random.random_range(1..4), 0, random.random_range(0..40), Ordering::Release),
            6 => evil.store(random.random_range(1..4), 0, random.random(), Ordering::Release),
            // The messages themselves, while they are read, and everything else but the return ring.
            7 => {
                let line = random.random_range(SMALL.blocks_at() / layout::LINE_OCTETS..lines);
                evil.store(line, random.random_range(0..8), random.random(), Ordering::Release);
            }
            _ => {}
        }
        if step % 1000 == 0 {
            for bell in &fds[1..] {
                let flags = rustix::net::SendFlags::DONTWAIT | rustix::net::SendFlags::NOSIGNAL;
                let _ = rustix::net::send(bell, &[7; 64], flags);
                // Whatever it does to its ends, the other side's do not block.
                let _ = rustix::io::ioctl_fionbio(bell, step % 2000 == 0);
            }
        }
    }
}

/// How long it takes.
fn timed<T>(what: impl FnOnce() -> T) -> (T, Duration) {
    let begin = Instant::now();
    let done = what();
    (done, begin.elapsed())
}

#[test]
fn descriptors_that_take_long_to_close_do_not_come_through_a_bell() {
    let lan = Lan::new();
    let at_once = Duration::from_secs(5);
    // Found when its victim waits, by either half; or only when it ends. In turn with the other octets, and out of band.
    for (way, by) in (0..3).flat_map(|way| [(way, SendFlags::empty()), (way, SendFlags::OOB)]) {
        let (mut victim, (packets, _evil, fds)) = std::thread::scope(|scope| {
            let peer = scope.spawn(|| open_by_hand(&lan.socket, 100));
            (Direct::open(&lan.socket, "alpha", circuit(100), &config()).unwrap(), peer.join().unwrap())
        });
        let mut far = Vec::new();
        // In front of it, what an honest peer sends.
        let [messages, room] = &fds[1..] else { panic!("{fds:?}") };
        for bell in [messages, room] {
            assert_eq!(rustix::net::send(bell, &[1; 100], SendFlags::NOSIGNAL), Ok(100));
            let (slow, its_far) = lingering();
            pass_by(bell, &[7], slow, by);
            far.push(its_far);
        }
        if way < 2 {
            let wait = Some(Duration::from_millis(100));
            let (waited, took) = timed(|| match way {
                0 => (0..3).map(|_| victim.receiver.receive(wait).map(|_| ())).find(Result::is_err),
                _ => {
                    let wait = || victim.sender.wait_room(SMALL.max_message_octets() + 1, wait).map(|_| ());
                    std::iter::repeat_with(wait).take(3).find(Result::is_err)
                }
            });
            assert!(took < at_once, "way {way} by {by:?}: it has waited for {took:?}");
            assert_eq!(waited, Some(Err(Gone::Peer)), "way {way} by {by:?}: the circuit is over");
        }
        let ((), took) = timed(|| drop(victim));
        assert!(took < at_once, "way {way} by {by:?}: to end has taken {took:?}");
        // Who closes the sockets waits no longer than their other ends are there.
        drop((far, fds, packets));
        lan.until_free("alpha", 100);
        lan.until_free("beta", 100);
    }
}

#[test]
fn a_hostile_peer_harms_nobody_but_itself() {
    let lan = Lan::new();
    let seed = number("SEED", 1);
    let (mut c, mut d) = lan.both(101);
    let mut child = peer("hostile", &lan.socket, 100, seed);
    let mut victim = Direct::open(&lan.socket, "alpha", circuit(100), &config()).unwrap();
    let until = Instant::now() + Duration::from_secs(number("HOSTILE_SECONDS", 5));
    let (mut rounds, mut received, mut worst) = (0u64, 0u64, Duration::ZERO);
    while Instant::now() < until {
        let begin = Instant::now();
        for octets in [1, 40, 41, 192, 193, 3000] {
            let _ = victim.sender.send_copy(&vec![1; octets]);
        }
        let _ = victim.sender.wait_room(500, Some(Duration::from_micros(50)));
        assert!(victim.sender.room() <= 16 && victim.sender.away_blocks() <= 32);
        for _ in 0..32 {
            match victim.receiver.receive(Some(Duration::from_micros(50))) {
                Ok(Some(message)) => {
                    let mut copy = [0; 8192];
                    assert!(message.len() <= SMALL.max_message_octets());
                    let _ = message.checked_copy(&mut copy);
                    received += 1;
                }
                Ok(None) => break,
                Err(gone) => panic!("seed {seed}: {gone}"),
            }
        }
        worst = worst.max(begin.elapsed());
        // Others go on.
        c.sender.send_copy(&rounds.to_ne_bytes()).unwrap();
        let got = d.receiver.receive(SECONDS_20).unwrap().expect("the other circuit goes on");
        assert_eq!(got.private(), Some(&rounds.to_ne_bytes()[..]));
        rounds += 1;
    }
    let counters = victim.receiver.counters();
    eprintln!(
        "{rounds} rounds, {received} messages, {} bad lines, {} forged returns, worst round {worst:?}",
        counters.dropped(wire::DropReason::BadDescriptor),
        victim.sender.forged_returns()
    );
    assert!(worst < Duration::from_secs(5), "seed {seed}: stalled for {worst:?}");
    let bad = counters.dropped(wire::DropReason::BadDescriptor);
    assert!(rounds > 0 && received > 0 && bad > 0, "it was not hostile at all");
    child.kill().unwrap();
    child.wait().unwrap();
}
