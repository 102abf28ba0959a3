//! A user's proxy, and what becomes of its connections' places when clients do not take their answers, end in the middle, or come
//! and go by hundreds at once. A test program of its own: it counts its process's children.

use endpoint::control::{Request, Response};
use endpoint::seqpacket::{Packets, Peer};
use endpoint::{DataPath, Events};
use host::service::Handler;
use hostile::{Field, Ground, Raw, as_user, lingering};
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown, sockopt};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::fs::Permissions;
use std::io::{IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use wire::CircuitId;

/// The processes of a ground are found by their names: one ground at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
const SOON: Duration = Duration::from_secs(5);
/// How long a user proxy is looked at, and what it may take of that at rest.
const LOOK: Duration = Duration::from_millis(400);
const REST: Duration = Duration::from_millis(60);

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A process, as `/proc` tells of it.
struct Process {
    id: i32,
    parent: i32,
    name: String,
    computed: Duration,
}

fn process(id: i32) -> Option<Process> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let (head, rest) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    let ticks = |at: usize| fields.get(at)?.parse::<u64>().ok();
    // Fields 4, 14 and 15 of proc(5); a tick is 10 ms.
    let computed = Duration::from_millis(10 * (ticks(11)? + ticks(12)?));
    Some(Process { id, parent: fields.get(1)?.parse().ok()?, name: head.split_once(" (")?.1.into(), computed })
}

/// Children of a process that are called so.
fn children(of: i32, name: &str) -> Vec<Process> {
    let ids = std::fs::read_dir("/proc").unwrap().flatten();
    let all = ids.filter_map(|entry| process(entry.file_name().to_str()?.parse().ok()?));
    all.filter(|process| process.parent == of && process.name == name).collect()
}

fn acceptor() -> i32 {
    let found = children(std::process::id() as i32, "cellway-accept");
    assert_eq!(found.len(), 1, "one ground at a time");
    found[0].id
}

fn user_proxy() -> i32 {
    let found = children(acceptor(), "cellway-proxy");
    assert_eq!(found.len(), 1, "one user");
    found[0].id
}

fn signal(id: i32, signal: Signal) {
    kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
}

/// What a user proxy computes while nothing is asked of it.
fn computes(user_proxy: i32) -> Duration {
    std::thread::sleep(Duration::from_millis(100));
    let before = process(user_proxy).expect("the user proxy lives").computed;
    std::thread::sleep(LOOK);
    process(user_proxy).expect("the user proxy lives").computed - before
}

/// Sends without waiting; false if there is no room.
fn try_send(packets: &Packets, text: &[u8]) -> bool {
    rustix::net::send(packets.as_fd(), text, SendFlags::DONTWAIT | SendFlags::NOSIGNAL).is_ok()
}

fn hello() -> Vec<u8> {
    serde_json::to_vec(&Request::hello()).unwrap()
}

fn greet(ground: &Ground) -> Packets {
    let packets = Packets::connect(ground.socket()).unwrap();
    packets.send(&Request::hello(), &[]).unwrap();
    let answer = packets.receive::<Response>().unwrap().expect("an answer").0;
    assert!(matches!(answer, Response::Welcome { .. }), "{answer:?}");
    packets
}

/// Lets every user reach the socket.
fn open_to_all(ground: &Ground) {
    let open = |path: &std::path::Path, mode| std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    open(ground.socket(), 0o666);
    open(ground.socket().parent().unwrap(), 0o755);
}

fn endpoints(ground: &Ground) -> usize {
    ground.engine().with(|core| core.host("alpha").unwrap().1.endpoints().len()).unwrap()
}

fn until(what: &str, is_so: impl FnMut() -> bool) {
    hostile::within(SOON, what, is_so);
}

#[test]
fn a_connection_that_has_ended_and_whose_answers_nobody_takes_keeps_no_porter_awake() {
    let _alone = alone();
    let ground = Ground::two_circuits();
    let _innocent = greet(&ground);
    // So many that the client's socket is full, and the way to the service is not: the service ends the connection.
    let crowd: Vec<Packets> = (100..=600)
        .step_by(25)
        .map(|answers| {
            let packets = Packets::connect(ground.socket()).unwrap();
            for _ in 0..answers {
                try_send(&packets, &hello());
                std::thread::sleep(Duration::from_micros(50));
            }
            try_send(&packets, b"garbage");
            packets
        })
        .collect();
    let computed = computes(user_proxy());
    assert!(computed < REST, "{computed:?} of {LOOK:?} at rest, with {} connections", crowd.len());
}

#[test]
fn a_connection_that_ends_one_way_with_all_queues_full_gives_back_what_it_had() {
    let _alone = alone();
    let ground = Ground::two_circuits();
    // So many that the service waits for room for an answer and has no more questions: how many that is the system says.
    let crowd: Vec<Packets> = (500..=850)
        .step_by(50)
        .map(|asked| {
            let packets = greet(&ground);
            let what = (Raw::GEOMETRY, Events::Interrupt, DataPath::Shared);
            let create =
                Request::CreateEndpoint { host: "alpha".into(), geometry: what.0, events: what.1, path: what.2 };
            packets.send(&create, &[]).unwrap();
            for _ in 0..asked {
                try_send(&packets, &hello());
                std::thread::sleep(Duration::from_micros(50));
            }
            packets
        })
        .collect();
    until("the endpoints are there", || endpoints(&ground) == crowd.len());
    for packets in &crowd {
        rustix::net::shutdown(packets.as_fd(), Shutdown::Write).unwrap();
    }
    // Some have questions left, which nobody takes before the answers: they end when they are closed.
    std::thread::sleep(Duration::from_millis(200));
    drop(crowd);
    until("the endpoints have ended", || endpoints(&ground) == 0);
}

/// Says much to whoever manages, and ends.
struct Talker;

impl Handler for Talker {
    fn admit(&self, _: Peer) -> Result<(), String> {
        Ok(())
    }
    fn may_open(&self, _: Peer, _: &str, _: CircuitId) -> Result<(), String> {
        Ok(())
    }
    fn manage(&self, _: Peer, _: serde_json::Value, fds: Vec<OwnedFd>) -> Result<String, String> {
        let mut to = UnixStream::from(fds.into_iter().next().ok_or("a capture needs a socket")?);
        to.set_nonblocking(true).unwrap();
        std::thread::spawn(move || {
            // Until the client's socket, the user proxy and the way there are full.
            for _ in 0..100 {
                while to.write(&[7; 4096]).is_ok() {}
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        Ok("1".into())
    }
}

#[test]
fn a_capture_that_has_ended_and_that_nobody_reads_keeps_no_porter_awake() {
    let _alone = alone();
    let ground = Ground::build().handler(Arc::new(Talker)).host("alpha").up();
    let packets = greet(&ground);
    let (_ours, theirs) = UnixStream::pair().unwrap();
    packets.send(&Request::Manage(json!({})), &[theirs.as_fd()]).unwrap();
    let answer = packets.receive::<Response>().unwrap().expect("an answer").0;
    assert!(matches!(answer, Response::Managed { .. }), "{answer:?}");
    drop(theirs);
    std::thread::sleep(Duration::from_millis(300));
    let computed = computes(user_proxy());
    assert!(computed < REST, "{computed:?} of {LOOK:?} at rest");
}

#[test]
fn places_of_hundreds_of_connections_that_end_at_once_come_back_however_late_the_gate_is() {
    const MANY: usize = 900;
    let _alone = alone();
    let ground = Ground::two_circuits();
    let crowd: Vec<Packets> = (0..MANY).map(|_| greet(&ground)).collect();
    let acceptor = acceptor();
    signal(acceptor, Signal::STOP);
    drop(crowd);
    std::thread::sleep(Duration::from_millis(500));
    signal(acceptor, Signal::CONT);
    let begin = Instant::now();
    let again: Vec<Packets> = (0..MANY)
        .map(|n| {
            let packets = Packets::connect(ground.socket()).unwrap();
            packets.send(&Request::hello(), &[]).unwrap();
            sockopt::set_socket_timeout(packets.as_fd(), sockopt::Timeout::Recv, Some(SOON)).unwrap();
            let answer = packets.receive::<Response>().unwrap();
            assert!(matches!(answer, Some((Response::Welcome { .. }, _))), "connection {n}: {answer:?}");
            packets
        })
        .collect();
    assert!(begin.elapsed() < SOON, "{} connections took {:?}", again.len(), begin.elapsed());
}

#[test]
fn connections_that_come_by_hundreds_while_a_porter_is_busy_end_none_of_its_others() {
    let _alone = alone();
    let ground = Ground::two_circuits();
    let innocent = greet(&ground);
    let user_proxy = user_proxy();
    signal(user_proxy, Signal::STOP);
    let _crowd: Vec<Packets> = (0..600).map(|_| Packets::connect(ground.socket()).unwrap()).collect();
    std::thread::sleep(Duration::from_millis(300));
    signal(user_proxy, Signal::CONT);
    innocent.send(&Request::hello(), &[]).expect("the user proxy is there");
    let answer = innocent.receive::<Response>().expect("the user proxy is there").expect("an answer").0;
    assert!(matches!(answer, Response::Welcome { .. }), "{answer:?}");
    // And who comes now is served.
    drop(greet(&ground));
}

#[test]
fn a_user_who_has_all_connections_of_the_service_keeps_no_other_user_out() {
    const ALICE: u32 = 60_002;
    let _alone = alone();
    let ground = Ground::two_circuits();
    open_to_all(&ground);
    let all: Vec<Packets> = (0..1024).map(|_| greet(&ground)).collect();
    let alice = || (0..8).map(|_| greet(&ground)).collect::<Vec<_>>();
    let Some(others) = as_user(ALICE, alice) else { return };
    drop((all, others));
}

#[test]
fn connections_with_descriptors_inside_for_a_porter_that_is_stuck_fill_the_gate_with_no_processes() {
    const EVE: u32 = 60_003;
    const MANY: usize = 1000;
    let _alone = alone();
    let ground = Ground::two_circuits();
    open_to_all(&ground);
    let Some(_first) = as_user(EVE, || greet(&ground)) else { return };
    // As a descriptor would hold it up whose end takes time.
    signal(user_proxy(), Signal::STOP);
    let crowd = || {
        let inside = rustix::event::eventfd(0, rustix::event::EventfdFlags::empty()).unwrap();
        let (begin, mut sent) = (Instant::now(), 0);
        while sent < MANY && begin.elapsed() < SOON {
            let packets = Packets::connect(ground.socket()).unwrap();
            // The acceptor may have ended it already.
            sent += usize::from(packets.send(&"inside", &[inside.as_fd()]).is_ok());
        }
        sent
    };
    let others = || {
        let begin = Instant::now();
        drop(greet(&ground));
        begin.elapsed()
    };
    let worst = std::thread::scope(|scope| {
        let attack = scope.spawn(|| as_user(EVE, crowd));
        let mut worst = Duration::ZERO;
        while !attack.is_finished() {
            worst = worst.max(others());
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(attack.join().unwrap(), Some(MANY), "so many have descriptors inside");
        worst.max(others())
    });
    assert!(worst < Duration::from_millis(500), "a connection of another user took {worst:?}");
    // Those that have ended and that nobody has waited for count too.
    let many = children(acceptor(), "cellway-proxy").len();
    assert!(many <= 16, "the acceptor has {many} processes");
    until("all have ended but the user proxies", || children(acceptor(), "cellway-proxy").len() <= 2);
}

#[test]
fn more_descriptors_in_a_packet_than_anybody_has_a_use_for_do_not_keep_their_own_users_next_connection_waiting() {
    let _alone = alone();
    let ground = Ground::two_circuits();
    let _first = greet(&ground);
    let (slow, _far) = lingering(Duration::from_secs(2));
    let user_proxy = user_proxy();
    // The user proxy is the last to have it.
    signal(user_proxy, Signal::STOP);
    let packets = Packets::connect(ground.socket()).unwrap();
    let other = rustix::event::eventfd(0, rustix::event::EventfdFlags::empty()).unwrap();
    let mut fds = [other.as_fd(); 20];
    fds[19] = slow.as_fd();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(20))];
    let mut rights = SendAncillaryBuffer::new(&mut space);
    assert!(rights.push(SendAncillaryMessage::ScmRights(&fds)));
    rustix::net::sendmsg(packets.as_fd(), &[IoSlice::new(&hello())], &mut rights, SendFlags::NOSIGNAL).unwrap();
    drop(slow);
    signal(user_proxy, Signal::CONT);
    std::thread::sleep(Duration::from_millis(50));
    let begin = Instant::now();
    drop(greet(&ground));
    assert!(begin.elapsed() < Duration::from_millis(1500), "{:?}", begin.elapsed());
}
