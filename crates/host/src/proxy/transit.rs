//! A test of what a user's proxies have in common: nothing that the system counts.

use super::{Connection, Connections, frame};
use crate::sys;
use endpoint::control::Response;
use endpoint::seqpacket::Packets;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::AsRawFd;
use rustix::net::{Shutdown, shutdown};
use rustix::process::{Resource, Rlimit, Uid, geteuid, setrlimit};
use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

const EVE: u32 = 60_001;
const BOB: u32 = 60_002;
/// Descriptors that a process of the proxy may have, and so in transit.
const FEW: u64 = 256;

fn connect_as(user: u32, socket: &Path) -> Packets {
    let connect = || {
        rustix::thread::set_thread_uid(Uid::from_raw(user)).unwrap();
        Packets::connect(socket).unwrap()
    };
    std::thread::scope(|scope| scope.spawn(connect).join().unwrap())
}

fn is_readable(client: &Packets, patience: Duration) -> bool {
    let patience = Timespec { tv_sec: 0, tv_nsec: patience.as_nanos() as i64 };
    matches!(poll(&mut [PollFd::new(client, PollFlags::IN)], Some(&patience)), Ok(1..))
}

fn until<R>(what: &str, mut f: impl FnMut() -> Option<R>) -> R {
    let begin = Instant::now();
    loop {
        if let Some(found) = f() {
            return found;
        }
        assert!(begin.elapsed() < Duration::from_secs(30), "not in time: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A user's new connection, to which the service has given an answer with three descriptors.
fn answered(connections: &mut Connections, user: u32, socket: &Path) -> (Packets, Connection) {
    let client = connect_as(user, socket);
    let mut connection = until("the connection comes", || connections.next());
    let fds = (0..3).map(|_| eventfd(0, EventfdFlags::CLOEXEC).unwrap()).collect();
    connection.line.send(&Response::Memory, fds, 0).unwrap();
    (client, connection)
}

/// In a process of its own, whose children have its bound on descriptors.
fn fill_the_count_of_one_user() {
    let few = Rlimit { current: Some(FEW), maximum: Some(FEW) };
    setrlimit(Resource::Nofile, few).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let mut connections = Connections::open(Packets::listen(&socket).unwrap()).unwrap();
    set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    set_permissions(&socket, Permissions::from_mode(0o666)).unwrap();
    // What a socket holds stays in transit when its connection has ended.
    let mut unread = Vec::new();
    loop {
        let (eve, connection) = answered(&mut connections, EVE, &socket);
        let comes = is_readable(&eve, Duration::from_millis(900));
        let _ = shutdown(&eve, Shutdown::Write);
        unread.push(eve);
        drop(connection);
        if !comes {
            break;
        }
        assert!(3 * unread.len() < 2 * FEW as usize, "the system counts no descriptors in transit");
    }
    let (bob, _his) = answered(&mut connections, BOB, &socket);
    until("another user's answer comes", || is_readable(&bob, Duration::from_millis(1)).then_some(()));
    // Eve has harmed herself alone, and not for ever.
    let (eve, _hers) = answered(&mut connections, EVE, &socket);
    assert!(!is_readable(&eve, Duration::from_millis(300)), "there is no room for Eve");
    drop(unread);
    until("Eve's answer comes", || is_readable(&eve, Duration::from_millis(1)).then_some(()));
}

/// Runs a test of this program by itself: in a process without those of others, whose descriptors and proxies would count.
fn by_itself(name: &str) -> bool {
    const ALONE: &str = "CELLWAY_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return false;
    }
    let name = format!("{}::{name}", module_path!().split_once("::").unwrap().1);
    let mut program = std::process::Command::new(std::env::current_exe().unwrap());
    let output = program.args(["--exact", &name, "--nocapture"]).env(ALONE, "1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}{}", String::from_utf8_lossy(&output.stderr));
    true
}

#[test]
fn answers_that_one_user_does_not_read_leave_another_users_descriptors_room() {
    if !geteuid().is_root() || by_itself("answers_that_one_user_does_not_read_leave_another_users_descriptors_room") {
        return;
    }
    let (ours, theirs) = frame::pair().unwrap();
    let mut child = sys::fork_child(c"test", &[theirs.as_raw_fd()], || {
        let done = std::panic::catch_unwind(fill_the_count_of_one_user);
        let says = done.map_or_else(
            |panic| panic.downcast_ref::<String>().cloned().unwrap_or_else(|| "a panic".to_owned()),
            |()| "done".to_owned(),
        );
        frame::send(&theirs, &[says.as_bytes()], &[]).unwrap();
    })
    .unwrap();
    drop(theirs);
    let _ = poll(&mut [PollFd::new(&ours, PollFlags::IN)], Some(&Timespec { tv_sec: 120, tv_nsec: 0 }));
    let frame::ReceiveResult::Frame(said) = frame::receive(&ours, 0) else { panic!("it says nothing") };
    child.end(Duration::from_secs(1));
    assert_eq!(String::from_utf8_lossy(&said.octets), "done");
}
