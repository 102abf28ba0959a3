//! Calls of unmodified programs under `cellway run`: Debian's own tools, and a program of socket calls (`svc.c`).

use interop::peer::Peer;
use interop::up::Up;
use interop::{have, pattern, program};
use serde_json::Value;
use std::process::Command;
use std::time::{Duration, Instant};

const WAIT: Duration = Duration::from_secs(30);

const NETWORK: &str = r#"
[host.alpha]
[host.beta]
[host.gamma]
[switch.s1]
prefix = "47000580ffe100000000000001"
[switch.s2]
prefix = "47000580ffe100000000000002"
[[link]]
ends = ["alpha", "s1:0"]
signalling = { version = "uni31" }
[[link]]
ends = ["beta", "s2:0"]
signalling = { version = "uni40" }
[[link]]
ends = ["gamma", "s2:1"]
signalling = { version = "uni31" }
[[link]]
ends = ["s1:1", "s2:2"]
signalling = { version = "iisp" }
"#;
/// An address that nobody has.
const NOBODY: &str = "47000580ffe100000000000001aaaaaaaaaaaa00";

/// The network with its signalling links up; the addresses of alpha, beta and gamma as 40 digits.
fn up() -> (Up, [String; 3]) {
    let up = Up::new(NETWORK);
    let begin = Instant::now();
    loop {
        let hosts: Value = serde_json::from_slice(&up.run("address --json").stdout).unwrap();
        let address = |host: &str| {
            let row = hosts.as_array().unwrap().iter().find(|row| row["host"] == host)?;
            row["addresses"][0].as_str().map(|address| address.replace('.', ""))
        };
        let calls = calls(&up);
        let links = calls["interfaces"].as_array().unwrap().iter().all(|interface| interface["up"] == true);
        if let (true, [Some(alpha), Some(beta), Some(gamma)]) = (links, ["alpha", "beta", "gamma"].map(address)) {
            return (up, [alpha, beta, gamma]);
        }
        assert!(begin.elapsed() < WAIT, "{hosts} {calls}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn calls(up: &Up) -> Value {
    serde_json::from_slice(&up.run("call list --json").stdout).unwrap()
}

/// Waits until no call is left anywhere.
fn quiet(up: &Up) {
    let begin = Instant::now();
    loop {
        let all = calls(up);
        let interfaces = all["interfaces"].as_array().unwrap();
        if interfaces.iter().all(|interface| interface["calls"] == 0 && interface["labels"] == 0) {
            return;
        }
        assert!(begin.elapsed() < WAIT, "{all}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn on(up: &Up, host: &str, command: &str) -> Command {
    up.command(&format!("run --host {host} -- {command}"))
}

fn start(up: &Up, host: &str, command: &str) -> Peer {
    Peer::start(&mut on(up, host, command)).unwrap()
}

/// What a program prints until it ends.
fn lines(mut peer: Peer) -> Vec<String> {
    let (status, said) = peer.wait(WAIT).unwrap();
    let said: Vec<String> = said.iter().filter(|line| !line.starts_with("cellway: ")).cloned().collect();
    assert!(status.success(), "{said:?}");
    said
}

/// Waits until somebody at a host listens: calls to it are refused before.
fn listening(peer: &mut Peer) {
    peer.wait_for("listen ok", WAIT).unwrap();
}

fn compiled() -> (Up, [String; 3]) {
    let (up, addresses) = up();
    program::compile("svc.c", &up.path("svc"), &["-lpthread"]).unwrap();
    (up, addresses)
}

#[test]
fn sockets_for_calls_answer_as_the_kernels_do_and_carry_what_is_sent() {
    if !have(&[("cc", "gcc")]) {
        return;
    }
    let (up, [alpha, beta, _]) = compiled();
    for how in ["wait", "poll", "exec"] {
        let mut server = start(&up, "beta", &format!("./svc server {how}"));
        listening(&mut server);
        let client = lines(start(&up, "alpha", &format!("./svc client {beta} {NOBODY}")));
        let own = format!("own {alpha}");
        let peer = format!("peer {beta}");
        assert_eq!(
            client,
            [
                "connect without qos EBADFD",
                "connect to nobody EHOSTUNREACH",
                "connect for another service ECONNREFUSED",
                "connect EINPROGRESS",
                "connect to nobody EHOSTUNREACH",
                "connect EINPROGRESS",
                "poll 1",
                "connect ok",
                "connect again EISCONN",
                &own,
                &peer,
                "circuit 0.0.call",
                "echo number 0",
                "echo number 1",
                "echo number 2",
            ]
        );
        let (from, to) = (format!("from {alpha}"), format!("to {beta}"));
        let mut wanted = vec![
            "bind without qos EBADFD",
            "bind elsewhere EADDRNOTAVAIL",
            "bind ok",
            "listen ok",
            "listen again EADDRINUSE",
        ];
        if how == "poll" {
            wanted.extend(["accept EAGAIN", "poll 0"]);
        }
        wanted.extend(["accept ok", &from, &to, "sap 2 TEST 0c", "end ok", "write after the end EPIPE"]);
        assert_eq!(lines(server), wanted, "{how}");
        quiet(&up);
    }
}

#[test]
fn a_root_of_many_adds_and_drops_parties_by_ioctl_though_signals_interrupt_it() {
    if !have(&[("cc", "gcc")]) {
        return;
    }
    let (up, [_, beta, gamma]) = compiled();
    for timed in ["", " timed"] {
        let mut leaves = ["beta", "gamma"].map(|host| start(&up, host, "./svc leaf"));
        leaves.iter_mut().for_each(listening);
        let root = lines(start(&up, "alpha", &format!("./svc root {beta} {gamma}{timed}")));
        assert_eq!(
            root,
            [
                "add without many EINVAL",
                "listen EINVAL",
                "connect ok",
                "party 1",
                "add nobody EHOSTUNREACH",
                "drop nobody EINVAL",
                "drop ok"
            ],
            "{timed}"
        );
        let [first, second] = leaves.map(lines);
        assert_eq!(first, ["listen ok", "accept ok", "got to the first", "got to both", "end ok"]);
        assert_eq!(second, ["listen ok", "accept ok", "got to both", "got to the second", "end ok"]);
        quiet(&up);
    }
}

#[test]
fn signals_lose_no_incoming_call_and_end_accept_as_they_do_in_the_kernel() {
    const CALLS: usize = 12;
    if !have(&[("cc", "gcc")]) {
        return;
    }
    let (up, [_, beta, _]) = compiled();
    let mut server = start(&up, "beta", &format!("./svc timed {CALLS}"));
    listening(&mut server);
    let client = lines(start(&up, "alpha", &format!("./svc calls {beta} {CALLS}")));
    assert_eq!(client, vec!["connect ok"; CALLS]);
    let mut wanted = vec!["bind ok".to_owned(), "listen ok".to_owned()];
    wanted.extend((0..CALLS).map(|n| format!("got number {n}")));
    let end = ["interrupted 1", "accept EINTR", "accept EAGAIN", "cancelled 1", "close ok", "bind ok", "listen ok"];
    wanted.extend(end.map(str::to_owned));
    assert_eq!(lines(server), wanted);
    quiet(&up);
}

#[test]
fn a_call_that_there_is_no_descriptor_for_waits_until_there_is_one() {
    if !have(&[("cc", "gcc")]) {
        return;
    }
    let (up, [_, beta, _]) = compiled();
    let mut server = start(&up, "beta", "./svc full");
    listening(&mut server);
    assert_eq!(lines(start(&up, "alpha", &format!("./svc calls {beta} 1"))), ["connect ok"]);
    let without = "accept without a descriptor EMFILE";
    assert_eq!(lines(server), ["bind ok", "listen ok", without, without, "accept ok", "got number 0"]);
    quiet(&up);
}

#[test]
fn receive_of_a_call_ends_with_its_call_and_has_all_that_was_sent() {
    let (up, [_, beta, _]) = up();
    for octets in [5, 100_000] {
        let file = pattern(octets);
        std::fs::write(up.path("file"), &file).unwrap();
        let mut receive = up.start_command(&format!("receive beta {beta} got"));
        let said = until_called(&up, || up.run(&format!("send alpha {beta} file")));
        let (status, log) = receive.wait(WAIT).unwrap();
        assert!(status.success(), "{log:?} {said}");
        assert!(std::fs::read(up.path("got")).unwrap() == file, "{octets} octets came otherwise");
        quiet(&up);
    }
}

fn tools() -> bool {
    have(&[("svc_recv", "atm-tools"), ("svc_send", "atm-tools"), ("ttcp_atm", "atm-tools"), ("atmaddr", "atm-tools")])
}

/// Waits until a host's programs are called: by the state that a call to them leaves.
fn until_called(up: &Up, mut attempt: impl FnMut() -> std::process::Output) -> String {
    let begin = Instant::now();
    loop {
        let output = attempt();
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        if output.status.success() {
            return said;
        }
        assert!(begin.elapsed() < WAIT, "{said} {}", calls(up));
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn svc_send_calls_svc_recv_and_addresses_are_shown() {
    if !tools() {
        return;
    }
    let (up, [_, beta, _]) = up();
    let sink = start(&up, "beta", "stdbuf -oL svc_recv");
    let said = until_called(&up, || on(&up, "alpha", &format!("svc_send {beta}")).output().unwrap());
    assert!(said.contains("sending") && !said.contains("failed"), "{said}");
    let got = lines(sink);
    let count = said.split_whitespace().find_map(|word| word.parse::<u32>().ok()).unwrap();
    // It does not count the last one.
    assert!(got.iter().any(|line| line.contains(&format!("received {} PDUs", count - 1))), "{said}: {got:?}");
    let shown = up.run("run --host beta -- atmaddr -n");
    let shown = String::from_utf8_lossy(&shown.stdout).replace(['.', '\n', ' '], "").to_lowercase();
    assert!(shown.contains(&beta), "{shown}");
    let esi = String::from_utf8_lossy(&up.run("run --host beta -- esi").stdout).trim().to_lowercase();
    assert_eq!(esi, beta[26..38]);
    quiet(&up);
}

#[test]
fn ttcp_atm_calls_by_address_and_by_a_name_of_hosts_atm_and_proc_shows_the_call() {
    if !tools() || !have(&[("unshare", "util-linux"), ("mount", "mount")]) {
        return;
    }
    let (up, [alpha, beta, _]) = up();
    let mut sink = start(&up, "beta", "ttcp_atm -r -s -a -l 8192");
    let begin = Instant::now();
    // It has no line for "listening" that comes at once; the first call that is answered tells.
    let said = until_called(&up, || {
        on(&up, "alpha", &format!("ttcp_atm -t -s -a -l 8192 -n 5000 -P ubr {beta}")).output().unwrap()
    });
    assert!(said.contains("ttcp_atm -t") || said.contains("ttcp-t:"), "{said}");
    let (status, got) = sink.wait(WAIT).unwrap();
    assert!(status.success() && got.iter().any(|line| line.contains(&format!("{} bytes", 8192 * 5000))), "{got:?}");
    assert!(begin.elapsed() < WAIT);

    // By name: the file is this machine's own, in a name space of mounts.
    let folder = up.path("etc");
    let file = pattern(200_000);
    std::fs::write(up.path("file"), &file).unwrap();
    std::fs::write(up.path("sink"), "exec ttcp_atm -r -a -l 8192 > copy").unwrap();
    let mut sink = start(&up, "beta", "sh sink");
    let script = format!(
        "cp -a /etc {0} && echo '{beta} beta' >> {0}/hosts.atm && mount --bind {0} /etc && \
         exec \"$0\" run --host alpha -- ttcp_atm -t -a -l 8192 -P ubr beta < file",
        folder.display()
    );
    let cellway = program::cellway().unwrap();
    let said = until_called(&up, || {
        let _ = std::fs::remove_dir_all(&folder);
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", &script]).arg(&cellway).current_dir(up.path(""));
        command.env("CELLWAY_SOCKET", up.path("socket")).output().unwrap()
    });
    let copy = || std::fs::read(up.path("copy")).unwrap_or_default();
    let begin = Instant::now();
    while copy().len() < file.len() {
        assert!(begin.elapsed() < WAIT, "{} octets came: {said}", copy().len());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(copy()[..file.len()] == file, "the file came changed");
    sink.kill();

    // A call that is up is in the table of calls.
    let mut receive = up.start_command("listen beta");
    receive.wait_for("beta:", WAIT).unwrap();
    let mut held = up.start_command(&format!("call alpha {beta}"));
    held.wait_for("circuit alpha", WAIT).unwrap();
    let table = up.run("run --host alpha -- cat /proc/net/atm/svc");
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    let row: Vec<&str> = table.lines().nth(1).unwrap_or_default().split_whitespace().collect();
    assert_eq!((row[0], row[1], row[3], row[4]), ("0", "0", "CONNECTED", &*beta), "{table}");
    let table = up.run("run --host beta -- cat /proc/net/atm/svc");
    assert!(String::from_utf8_lossy(&table.stdout).contains(&alpha));
}
