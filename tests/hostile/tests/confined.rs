//! The processes that take what clients send have few rights, also those that begin later.

use endpoint::Connection;
use hostile::{Field, Program, child, children, kill, until};

/// A line of a process's status.
fn says(id: u32, key: &str) -> String {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':').map(str::trim));
    line.unwrap_or_default().to_owned()
}

fn is_confined(id: u32) -> bool {
    // A filter of system calls, and a process that has closed them to itself has the other measures, which come first.
    says(id, "Seccomp") == "2"
}

/// The user of the acceptor, and the group of all.
const OWN: &str = "65533";
/// The user of root's proxy; those of other users follow.
const OF_ROOT: u32 = 0x7000_0000;
/// `CAP_SETUID`, with which the acceptor gives each proxy its user. A filter lets it take on proxies' users only.
const SETUID: u64 = 1 << 7;

/// Users: real, effective, saved, and for files.
fn assert_confined(id: u32, name: &str, uids: [&str; 4], capabilities: u64) {
    // A proxy has the acceptor's filter before it has its own user.
    until(name, || is_confined(id) && (!rustix::process::geteuid().is_root() || says(id, "Uid").starts_with(uids[0])));
    assert_eq!(says(id, "NoNewPrivs"), "1", "{name}");
    let is_root = rustix::process::geteuid().is_root();
    let has = |set| u64::from_str_radix(&says(id, set), 16);
    for (set, expected) in [("CapInh", 0), ("CapPrm", capabilities), ("CapEff", capabilities), ("CapAmb", 0)] {
        until(&format!("{name}: {set}"), || has(set) == Ok(if is_root { expected } else { 0 }));
    }
    if is_root {
        assert_eq!(has("CapBnd"), Ok(0), "{name}");
        assert_eq!(says(id, "Uid").split_whitespace().collect::<Vec<_>>(), uids, "{name}");
        assert_eq!(says(id, "Gid").split_whitespace().collect::<Vec<_>>(), [OWN; 4], "{name}");
        assert_eq!(says(id, "Groups"), "", "{name}");
    }
}

#[test]
fn acceptor_and_proxies_have_users_of_their_own_hardly_a_capability_and_few_system_calls() {
    let program = Program::up("[host.alpha]\n");
    for round in 0..2 {
        let connection = Connection::open(program.socket()).unwrap();
        let acceptor = child(program.id(), "cellway-accept");
        assert_confined(acceptor, "acceptor", [OWN; 4], SETUID);
        if round == 0 {
            let own = (OF_ROOT + rustix::process::geteuid().as_raw()).to_string();
            // The acceptor may kill whom it has begun, by the saved user.
            assert_confined(child(acceptor, "cellway-proxy"), "proxy", [&own, &own, OWN, &own], 0);
        }
        drop(connection);
        kill(acceptor);
        until("another acceptor", || children(program.id(), "cellway-accept").iter().any(|id| *id != acceptor));
    }
}
