//! The stock `atmsigd` and `ilmid` under `cellway run`, as the signalling of a host of ours, served `ATMSIGD_CTRL` as by a kernel. At
//! the other end are our switch and a host whose signalling is ours.

use interop::peer::Peer;
use interop::up::Up;
use interop::{have, pattern, program, tshark};
use serde_json::Value;
use std::process::Command;
use std::time::{Duration, Instant};

const WAIT: Duration = Duration::from_secs(30);

const NETWORK: &str = r#"
[host.alpha]
esi = "020000000001"
[host.beta]
[switch.s1]
prefix = "47000580ffe100000000000001"
[[link]]
ends = ["alpha", "s1:0"]
signalling = { version = "uni31", by = "program" }
[[link]]
ends = ["beta", "s1:1"]
signalling = { version = "uni40" }
"#;
const ALPHA: &str = "47000580ffe10000000000000102000000000100";
/// An address that nobody has.
const NOBODY: &str = "47000580ffe100000000000001aaaaaaaaaaaa00";

fn tools() -> bool {
    let names = ["atmsigd", "ilmid", "svc_recv", "svc_send", "ttcp_atm", "atmaddr"];
    have(&names.map(|name| (name, "atm-tools")))
}

fn calls(up: &Up) -> Value {
    serde_json::from_slice(&up.run("call list --json").stdout).unwrap()
}

fn on(up: &Up, host: &str, command: &str) -> Command {
    up.command(&format!("run --host {host} -- {command}"))
}

fn start(up: &Up, host: &str, command: &str) -> Peer {
    Peer::start(&mut on(up, host, command)).unwrap()
}

/// Standard output and error of a program.
fn said(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn until(up: &Up, what: &str, is: impl Fn(&Value) -> bool) {
    let begin = Instant::now();
    loop {
        let all = calls(up);
        if is(&all) {
            return;
        }
        assert!(begin.elapsed() < WAIT, "not {what}: {all:#}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn interfaces(all: &Value) -> impl Iterator<Item = &Value> {
    all["interfaces"].as_array().into_iter().flatten()
}

/// Waits until no call is left anywhere.
fn quiet(up: &Up) {
    until(up, "quiet", |all| interfaces(all).all(|interface| interface["calls"] == 0 && interface["labels"] == 0));
}

/// Until an attempt is successful: whoever is called may not listen yet.
fn until_called(up: &Up, mut attempt: impl FnMut() -> std::process::Output) -> String {
    let begin = Instant::now();
    loop {
        let output = attempt();
        if output.status.success() {
            return said(&output);
        }
        assert!(begin.elapsed() < WAIT, "{} {:#}", said(&output), calls(up));
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The network, with the daemons of host alpha. They are dropped before the service, whose end `ilmid` would not survive in peace.
struct Site {
    atmsigd: Peer,
    ilmid: Peer,
    beta: String,
    up: Up,
}

fn site() -> Site {
    let up = Up::new(NETWORK);
    let ilmid = start(&up, "alpha", "ilmid -u 3.1 -i 10.0.0.1 0");
    let atmsigd = start(&up, "alpha", "atmsigd -c /dev/null -n -u uni31 -m user");
    until(&up, "registered and up", |all| {
        interfaces(all).all(|interface| interface["up"] == true && !interface["addresses"][0].is_null())
    });
    let all = calls(&up);
    let address = |station: &str, port: u64| {
        let mut all = interfaces(&all);
        let found = all.find(|i| i["station"] == station && i["port"] == port).unwrap();
        found["addresses"][0].as_str().unwrap().replace('.', "")
    };
    assert_eq!([address("alpha", 0), address("s1", 0)], [ALPHA, ALPHA], "registered with our switch, and at the host");
    Site { atmsigd, ilmid, beta: address("beta", 0), up }
}

#[test]
fn without_the_daemon_calls_have_nobody_to_make_them() {
    if !tools() {
        return;
    }
    let up = Up::new(NETWORK);
    let output = on(&up, "alpha", &format!("svc_send {NOBODY}")).output().unwrap();
    // EUNATCH
    assert!(said(&output).contains("Protocol driver not attached"), "{}", said(&output));
    let output = up.run(&format!("call alpha {NOBODY}"));
    assert!(said(&output).contains("cellway run --host alpha -- atmsigd"), "{}", said(&output));
    // Beta's signalling is ours.
    let output = on(&up, "beta", "atmsigd -c /dev/null").output().unwrap();
    assert!(said(&output).contains("by = \"program\""), "{}", said(&output));
}

#[test]
fn the_stock_daemons_register_and_signal_for_a_host_in_both_directions() {
    if !tools() {
        return;
    }
    let Site { up, beta, .. } = &site();
    let address = up.run("run --host alpha -- atmaddr -n");
    let address = said(&address).replace(['.', '\n', ' '], "").to_lowercase();
    assert!(address.contains(ALPHA), "{address}");

    let mut capture = up.command("capture");
    capture.args(["alpha - s1:0", "link.pcapng", "--circuit", "0.5"]);
    let mut capture = Peer::start(&mut capture).unwrap();
    capture.wait_for("capturing", WAIT).unwrap();

    for (from, to, address) in [("alpha", "beta", beta.as_str()), ("beta", "alpha", ALPHA)] {
        let mut sink = start(up, to, "stdbuf -oL svc_recv");
        let sent = until_called(up, || on(up, from, &format!("svc_send {address}")).output().unwrap());
        assert!(sent.contains("sending") && !sent.contains("failed"), "{sent}");
        let count = sent.split_whitespace().find_map(|word| word.parse::<u32>().ok()).unwrap();
        let (status, got) = sink.wait(WAIT).unwrap();
        // It does not count the last one.
        let received = format!("received {} PDUs", count - 1);
        assert!(status.success() && got.iter().any(|line| line.contains(&received)), "{sent}: {got:?}");
        quiet(up);

        let mut sink = start(up, to, "ttcp_atm -r -s -a -l 8192");
        until_called(up, || {
            on(up, from, &format!("ttcp_atm -t -s -a -l 8192 -n 2000 -P ubr {address}")).output().unwrap()
        });
        let (status, got) = sink.wait(WAIT).unwrap();
        let bytes = format!("{} bytes", 8192 * 2000);
        assert!(status.success() && got.iter().any(|line| line.contains(&bytes)), "{got:?}");
        quiet(up);
    }

    let pid = rustix::process::Pid::from_raw(capture.id() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    capture.wait(WAIT).unwrap();
    let path = up.path("link.pcapng");
    // tshark reads beyond AAL parameters that end a message, as they do in the CONNECT of stock `atmsigd`.
    assert_eq!(tshark::count(&path, "_ws.malformed && sscop && q2931.message_type != 0x07").unwrap(), 0);
    // SETUP, CONNECT and RELEASE of the two calls each way at least.
    for message in ["0x05", "0x07", "0x4d"] {
        let seen = tshark::count(&path, &format!("q2931.message_type == {message}")).unwrap();
        assert!(seen >= 4, "{seen} of {message}");
    }
}

#[test]
fn new_programs_call_by_the_stock_daemon_too_and_what_it_refuses_is_told() {
    if !tools() {
        return;
    }
    let Site { up, beta, .. } = &site();
    let file = pattern(100_000);
    std::fs::write(up.path("file"), &file).unwrap();
    for (from, to, address) in [("alpha", "beta", beta.as_str()), ("beta", "alpha", ALPHA)] {
        let mut receive = up.start_command(&format!("receive {to} {address} got"));
        until_called(up, || up.run(&format!("send {from} {address} file")));
        assert!(receive.wait(WAIT).unwrap().0.success());
        assert!(std::fs::read(up.path("got")).unwrap() == file, "{from} to {to}: the file came otherwise");
        quiet(up);
    }
    // Nobody has the address; nobody listens.
    for (host, address) in [("alpha", NOBODY), ("alpha", beta.as_str()), ("beta", ALPHA)] {
        let output = up.run(&format!("send {host} {address} file"));
        assert!(!output.status.success() && said(&output).contains("released"), "{}", said(&output));
        let output = on(up, host, &format!("svc_send {address}")).output().unwrap();
        assert!(said(&output).contains("connect"), "{}", said(&output));
    }
    quiet(up);
}

#[test]
fn sockets_for_calls_answer_as_the_kernels_do_with_the_stock_daemon() {
    if !tools() || !have(&[("cc", "gcc")]) {
        return;
    }
    let Site { up, beta, .. } = &site();
    program::compile("svc.c", &up.path("svc"), &[]).unwrap();
    for how in ["wait", "poll", "exec"] {
        for (server, client, address) in [("beta", "alpha", beta.as_str()), ("alpha", "beta", ALPHA)] {
            let mut served = start(up, server, &format!("./svc server {how}"));
            served.wait_for("listen ok", WAIT).unwrap();
            let mut asked = start(up, client, &format!("./svc client {address} {NOBODY}"));
            let (status, got) = asked.wait(WAIT).unwrap();
            assert!(status.success(), "{client} {how}: {got:?}");
            for line in ["connect EINPROGRESS", "connect ok", "connect again EISCONN", "echo number 2"] {
                assert!(got.iter().any(|got| got == line), "{client} {how}: no {line} in {got:?}");
            }
            let (status, got) = served.wait(WAIT).unwrap();
            assert!(status.success(), "{server} {how}: {got:?}");
            for line in ["listen again EADDRINUSE", "accept ok", "end ok", "write after the end EPIPE"] {
                assert!(got.iter().any(|got| got == line), "{server} {how}: no {line} in {got:?}");
            }
            quiet(up);
        }
    }
}

#[test]
fn calls_and_listeners_end_with_the_daemon_and_another_one_takes_over() {
    if !tools() {
        return;
    }
    let Site { atmsigd, ilmid, beta, up } = &mut site();
    let output = on(up, "alpha", "atmsigd -c /dev/null").output().unwrap();
    assert!(said(&output).contains("Address already in use"), "{}", said(&output));
    let mut listener = start(up, "alpha", "svc_recv");
    let mut receiver = up.start_command("listen beta");
    receiver.wait_for("beta:", WAIT).unwrap();
    let mut caller = up.start_command(&format!("call alpha {beta}"));
    caller.wait_for("circuit alpha", WAIT).unwrap();
    atmsigd.kill();
    // The listener's connection and the call are over at once; the switch finds out by SSCOP.
    listener.wait(WAIT).unwrap();
    caller.wait(WAIT).unwrap();
    let mut second = start(up, "alpha", "atmsigd -c /dev/null -n -u uni31 -m user");
    until(up, "up again", |all| interfaces(all).all(|interface| interface["up"] == true));
    let mut sink = start(up, "alpha", "svc_recv");
    until_called(up, || on(up, "beta", &format!("svc_send {ALPHA}")).output().unwrap());
    assert!(sink.wait(WAIT).unwrap().0.success());
    // Stock `atmsigd` ends with the service; `ilmid` would say without end that it cannot read.
    ilmid.kill();
    up.kill();
    second.wait(WAIT).unwrap();
}
