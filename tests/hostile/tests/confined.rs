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

fn assert_confined(id: u32, name: &str) {
    until(name, || is_confined(id));
    assert_eq!(says(id, "NoNewPrivs"), "1", "{name}");
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert_eq!(u64::from_str_radix(&says(id, set), 16), Ok(0), "{name}: {set}");
    }
    if rustix::process::geteuid().is_root() {
        assert_eq!(u64::from_str_radix(&says(id, "CapBnd"), 16), Ok(0), "{name}");
        for key in ["Uid", "Gid"] {
            assert!(says(id, key).split_whitespace().all(|number| number == "65533"), "{name}: {}", says(id, key));
        }
        assert_eq!(says(id, "Groups"), "", "{name}");
    }
}

#[test]
fn acceptor_and_proxies_have_no_capability_a_user_of_their_own_and_few_system_calls() {
    let program = Program::up("[host.alpha]\n");
    for round in 0..2 {
        let connection = Connection::open(program.socket()).unwrap();
        let acceptor = child(program.id(), "cellway-accept");
        assert_confined(acceptor, "acceptor");
        if round == 0 {
            assert_confined(child(acceptor, "cellway-proxy"), "proxy");
        }
        drop(connection);
        kill(acceptor);
        until("another acceptor", || children(program.id(), "cellway-accept").iter().any(|id| *id != acceptor));
    }
}
