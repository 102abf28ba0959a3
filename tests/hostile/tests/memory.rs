//! Memory that an attacker shares with the host, and what it does to the file behind it.

use endpoint::control::{Request, Response};
use endpoint::direct::memory::Ours;
use endpoint::direct::{DirectGeometry, layout};
use endpoint::seqpacket::Packets;
use endpoint::{Connection, DataPath, Events, Geometry};
use hostile::{Attack, Class, Field, Ground, Raw, Trial, as_user, circuit};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{FallocateFlags, Mode, OFlags, SealFlags};
use rustix::io::Errno;
use rustix::net::sockopt;
use std::fs::Permissions;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Says to this program that it is another user's, and where the service is.
const REMAPPER: &str = "HOSTILE_REMAPPER";
/// A user who is not the service's.
const STRANGER: u32 = 65_534;

/// 256 MiB: pages that take a tenth of a second to take away.
const LARGE: Geometry =
    Geometry { send_ring: 64, receive_ring: 64, free_ring: 64, buffers: 4096, buffer_octets: 65_536 };

/// The innocent circuit 0.100, and eve's, 0.200.
fn ground() -> Ground {
    Ground::two_circuits()
}

/// Whatever can be done to a memory file that makes those wait who use its pages; gives what became of the hole.
fn harass(memory: &OwnedFd, octets: u64) -> Result<(), Errno> {
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let _ = rustix::fs::fallocate(memory, FallocateFlags::empty(), 0, octets);
    let punched = rustix::fs::fallocate(memory, hole, 0, octets);
    let _ = rustix::fs::ftruncate(memory, 4096);
    let _ = rustix::io::pwrite(memory, &[0xff; 4096], 0);
    let _ = rustix::fs::fadvise(memory, 0, None, rustix::fs::Advice::DontNeed);
    let _ = rustix::fs::fcntl_add_seals(memory, SealFlags::WRITE);
    punched
}

/// Harasses a file while messages go through the endpoint whose it is.
fn attack_with(eve: &mut Raw, memory: &OwnedFd, octets: u64, attack: &Attack) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while attack.goes_on() {
                assert_eq!(harass(memory, octets), Err(Errno::PERM), "a hole in memory that the host uses");
            }
        });
        while attack.goes_on() {
            eve.send.push(eve.message());
            eve.ring();
            std::thread::sleep(Duration::from_micros(500));
        }
    });
}

#[test]
fn holes_in_an_endpoints_own_segment_do_not_hold_up_the_engine() {
    Trial::new(Class::Engine, ground).withstand(|ground, attack| {
        let mut eve = Raw::with(ground.socket(), "alpha", 200, (LARGE, Events::Interrupt, DataPath::Shared));
        let memory = eve.fds[0].try_clone().unwrap();
        attack_with(&mut eve, &memory, LARGE.octets() as u64, attack);
    });
}

/// Page faults of the calling thread that needed no disk, since it began.
fn faults() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    // The name before may have blanks: fields are counted from the third on.
    stat.rsplit_once(')').unwrap().1.split_whitespace().nth(7).unwrap().parse().unwrap()
}

#[test]
fn the_engine_meets_no_page_fault_in_the_memory_of_endpoints() {
    let ground = ground();
    let ((mut sender, channel), (mut receiver, _)) = (ground.open("alpha", 200), ground.open("beta", 200));
    // What the link takes for the first PDUs is no endpoint's.
    let mut exchange = |pdus: usize, octets: usize| {
        for n in 0..pdus {
            sender.send_copy(channel, &vec![n as u8; octets]).unwrap();
            let got = receiver.receive(Some(Duration::from_secs(5))).unwrap().expect("it comes");
            assert_eq!((got.len(), got[octets - 1]), (octets, n as u8));
        }
    };
    exchange(6, 65_000);
    let before = ground.engine().with(|_| faults()).unwrap();
    // Several times the buffers that go round: 32 of 16 pages each, at both ends.
    exchange(200, 65_000);
    let more = ground.engine().with(|_| faults()).unwrap() - before;
    assert!(more < 64, "{more} page faults of the engine's thread");
}

#[test]
fn a_segment_that_its_owner_has_not_mapped_is_not_touched_and_holds_up_nobody() {
    Trial::new(Class::Engine, ground).withstand(|ground, attack| {
        let eve = Raw::new(ground.socket(), "alpha", 200);
        assert!(matches!(eve.ask(&Request::Release), Response::Released));
        let create = Request::CreateEndpoint {
            host: "alpha".into(),
            geometry: LARGE,
            events: Events::Polling,
            path: DataPath::Shared,
        };
        eve.packets.send(&create, &[]).unwrap();
        let (created, fds) = eve.packets.receive::<Response>().unwrap().unwrap();
        assert!(matches!(created, Response::Created { .. }), "{created:?}");
        let mut slowest = Duration::ZERO;
        while attack.goes_on() {
            // Before anything more is said, its memory is not sealed; and nobody uses it.
            assert_eq!(harass(&fds[0], LARGE.octets() as u64), Ok(()));
            let begin = Instant::now();
            Connection::open(ground.socket()).unwrap();
            slowest = slowest.max(begin.elapsed());
        }
        attack.took("another connection", slowest, Duration::from_millis(500));
    });
}

#[test]
fn holes_in_registered_memory_do_not_hold_up_the_engine() {
    Trial::new(Class::Engine, ground).withstand(|ground, attack| {
        let own = (Raw::GEOMETRY, Events::Interrupt, DataPath::SingleCopy);
        let mut eve = Raw::with(ground.socket(), "alpha", 200, own);
        let octets = 128 << 20;
        eve.packets.send(&Request::Memory { octets }, &[]).unwrap();
        let (made, fds) = eve.packets.receive::<Response>().unwrap().unwrap();
        assert!(matches!(made, Response::Memory), "{made:?}");
        let address = 1 << 40;
        let registered = eve.ask(&Request::Register { address, octets });
        assert!(matches!(registered, Response::Registered), "{registered:?}");
        attack_with(&mut eve, &fds[0], octets, attack);
    });
}

#[test]
fn memory_of_an_applications_own_making_is_not_registered() {
    let ground = ground();
    let own = (Raw::GEOMETRY, Events::Polling, DataPath::SingleCopy);
    let eve = Raw::with(ground.socket(), "alpha", 200, own);
    let (_, fd) = endpoint::shared::SharedMemory::create(1 << 20).unwrap();
    let register = Request::Register { address: 1 << 40, octets: 1 << 20 };
    eve.packets.send(&register, &[rustix::fd::AsFd::as_fd(&fd)]).unwrap();
    let answer = eve.packets.receive::<Response>().unwrap().unwrap().0;
    assert!(matches!(answer, Response::Refused { .. }), "{answer:?}");
    // And memory that its asker has kept from being sealed is not used either.
    eve.packets.send(&Request::Memory { octets: 4096 }, &[]).unwrap();
    let (_, fds) = eve.packets.receive::<Response>().unwrap().unwrap();
    rustix::fs::fcntl_add_seals(&fds[0], SealFlags::SEAL).unwrap();
    let answer = eve.ask(&Request::Register { address: 1 << 40, octets: 4096 });
    assert!(matches!(answer, Response::Refused { .. }), "{answer:?}");
}

/// Asks for a segment that stays unsealed. Gives whether it is promised, and what became of a hole once a circuit is open.
fn remap(socket: &Path) -> (bool, Result<(), Errno>) {
    let packets = endpoint::seqpacket::Packets::connect(socket).unwrap();
    let ask = |request: &Request| {
        packets.send(request, &[]).unwrap();
        packets.receive::<Response>().unwrap().unwrap()
    };
    let mut hello = Request::hello();
    if let Request::Hello { features, .. } = &mut hello {
        features.push(endpoint::negotiate::REMAP.to_owned());
    }
    let Response::Welcome { features, .. } = ask(&hello).0 else { panic!("no welcome") };
    let (geometry, events, path) = (Raw::GEOMETRY, Events::Interrupt, DataPath::Shared);
    let (_, fds) = ask(&Request::CreateEndpoint { host: "alpha".into(), geometry, events, path });
    let opened = ask(&Request::open(hostile::circuit(200), endpoint::OpenOptions::default())).0;
    assert!(matches!(opened, Response::Opened { .. }), "{opened:?}");
    // Whoever keeps its pages from being sealed: its size is sealed from the beginning, so no access beyond it ends the daemon.
    for octets in [0, 4096, geometry.octets() as u64 + 4096] {
        assert_eq!(rustix::fs::ftruncate(&fds[0], octets), Err(Errno::PERM));
    }
    let promised = features.iter().any(|feature| feature == endpoint::negotiate::REMAP);
    (promised, harass(&fds[0], geometry.octets() as u64))
}

/// Not a test of its own: a program of another user's.
#[test]
fn remapper() {
    let Ok(socket) = std::env::var(REMAPPER) else { return };
    assert_eq!(remap(Path::new(&socket)), (false, Err(Errno::PERM)));
}

#[test]
fn only_the_services_own_user_has_a_segment_that_is_not_sealed() {
    let ground = ground();
    assert_eq!(remap(ground.socket()), (true, Ok(())), "who could do worse to the service");
    if !rustix::process::geteuid().is_root() {
        return;
    }
    // The folder of the socket is its owner's; the program is where another user may not look.
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("remapper");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    for path in [folder.path(), &program, ground.socket().parent().unwrap()] {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    std::fs::set_permissions(ground.socket(), std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    let mut other = Command::new(&program);
    other.args(["--exact", "memory::remapper"]).env(REMAPPER, ground.socket()).uid(STRANGER).gid(STRANGER);
    let output = other.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

/// A connection to the service that has been greeted, if the answer comes soon.
fn greet(socket: &Path) -> Option<Packets> {
    let packets = Packets::connect(socket).unwrap();
    sockopt::set_socket_timeout(packets.as_fd(), sockopt::Timeout::Recv, Some(Duration::from_secs(2))).unwrap();
    packets.send(&Request::hello(), &[]).unwrap();
    let answer = packets.receive::<Response>().ok()??.0;
    matches!(answer, Response::Welcome { .. }).then_some(packets)
}

#[test]
fn memory_of_a_direct_circuit_whose_place_in_the_file_somebody_holds_for_ever_holds_up_no_other_user() {
    const EVE: u32 = 60_004;
    let ground = ground();
    let open = |path: &Path, mode| std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    open(ground.socket(), 0o666);
    open(ground.socket().parent().unwrap(), 0o755);
    let geometry = DirectGeometry { ring: 16, returns: 64, blocks: 32, block_octets: 192 };
    let (_ours, memory) = Ours::create(&geometry).unwrap();
    // Opened by its name its place in the file is locked while somebody reads, which it is not as it was made.
    let path = format!("/proc/self/fd/{}", memory.as_raw_fd());
    let memory = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).unwrap();
    let mut holder = Command::new("python3");
    holder.args(["-c", include_str!("hold.py")]).stdin(memory.try_clone().unwrap());
    let mut holder = match holder.stdout(Stdio::piped()).stderr(Stdio::null()).spawn() {
        Ok(holder) => holder,
        Err(e) => return println!("skipped: python3: {e}"),
    };
    let has_begun = holder.stdout.as_mut().unwrap().read_exact(&mut [0; 6]).is_ok();
    let offer = || {
        let packets = greet(ground.socket()).expect("it has said nothing yet");
        let (host, vpi_vci) = ("alpha".into(), circuit(200).to_string());
        packets
            .send(&Request::OpenDirect { host, vpi_vci, layout: layout::VERSION, geometry }, &[memory.as_fd()])
            .unwrap();
        packets
    };
    let offered = if has_begun { as_user(EVE, offer) } else { None };
    std::thread::sleep(Duration::from_millis(100));
    let other = greet(ground.socket());
    holder.kill().unwrap();
    holder.wait().unwrap();
    if offered.is_none() {
        return println!("skipped: this user has no userfaultfd, or cannot become another one");
    }
    assert!(other.is_some(), "another user waits for the service");
}
