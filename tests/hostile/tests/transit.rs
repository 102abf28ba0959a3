//! The system counts descriptors in transit by user, and refuses more than a process may have open. A user who fills the
//! count of its own proxy leaves others' proxies theirs.

use endpoint::control::Request;
use endpoint::seqpacket::Packets;
use endpoint::{DataPath, Events};
use hostile::{Field, Program, Raw, as_user, child, until};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{Shutdown, shutdown};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use std::os::unix::fs::PermissionsExt;

const EVE: u32 = 60_001;
const BOB: u32 = 60_002;
const NETWORK: &str = "[host.alpha]\n[host.beta]\n[[link]]\nends = [\"alpha\", \"beta\"]\n\
     [[circuit]]\nends = [\"alpha 0.100\", \"beta 0.100\"]\n";
/// Descriptors that the acceptor and its proxies may have open, and so in transit.
const FEW: u64 = 256;
/// Answers with descriptors: an answer has two at least.
const MANY: usize = FEW as usize;

fn is_readable(packets: &Packets, milliseconds: i64) -> bool {
    let patience = Timespec { tv_sec: 0, tv_nsec: milliseconds * 1_000_000 };
    matches!(poll(&mut [PollFd::new(packets, PollFlags::IN)], Some(&patience)), Ok(1..))
}

/// A connection that has asked for an endpoint.
fn asking(program: &Program) -> Packets {
    let packets = Packets::connect(program.socket()).expect("a service");
    packets.send(&Request::hello(), &[]).expect("a service");
    packets.receive::<endpoint::control::Response>().expect("a service").expect("a welcome");
    let (geometry, events, path) = (Raw::GEOMETRY, Events::Interrupt, DataPath::Shared);
    let create = Request::CreateEndpoint { host: "alpha".into(), geometry, events, path };
    packets.send(&create, &[]).expect("a service");
    packets
}

/// Leaves answers in sockets that nobody reads, until the system lets no further one be sent.
fn fill(program: &Program) -> Vec<Packets> {
    let mut unread = Vec::new();
    while unread.len() < MANY {
        let packets = asking(program);
        let is_answered = is_readable(&packets, 900);
        // The connection, and with it the endpoint, ends; what its socket holds stays.
        let _ = shutdown(&packets, Shutdown::Write);
        unread.push(packets);
        if !is_answered {
            return unread;
        }
    }
    panic!("{MANY} answers are in transit, and the system still lets one be sent");
}

#[test]
fn a_user_who_has_as_many_descriptors_in_transit_as_the_system_allows_keeps_no_other_user_waiting() {
    let allow = |user| format!("[[allow]]\nusers = [{user}]\ncircuits = [\"0.100\"]\n");
    let program = Program::up(&format!("{NETWORK}{}{}", allow(EVE), allow(BOB)));
    let folder = program.socket().parent().unwrap();
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    let acceptor = Pid::from_raw(child(program.id(), "cellway-accept") as i32);
    let few = Rlimit { current: Some(FEW), maximum: Some(FEW) };
    if !rustix::process::geteuid().is_root() || prlimit(acceptor, Resource::Nofile, few).is_err() {
        return;
    }
    let unread = as_user(EVE, || fill(&program)).unwrap();
    let bob = as_user(BOB, || asking(&program)).unwrap();
    until("another user has its endpoint", || is_readable(&bob, 1));
    // Eve has harmed herself alone, and not for ever.
    let eve = as_user(EVE, || asking(&program)).unwrap();
    assert!(!is_readable(&eve, 300), "there is no room for Eve");
    drop(unread);
    until("Eve has an endpoint again", || is_readable(&eve, 1));
}
