//! The life of a guest on our ENI155P: its line fails and comes back, its counters are ours, it reboots, it is killed, and
//! it talks to a guest on ATM over TCP and to programs of this machine.

use interop::frames::free_port;
use interop::guest::{Guest, Kernel, Machine, PATIENCE, aread_sdu};
use interop::peer::Peer;
use interop::up::Up;
use interop::{have, pattern};
use serde_json::Value;
use std::time::{Duration, Instant};

/// The kernel of the guest with the adapter.
const KERNEL: Kernel = Kernel::Linux6_1;

/// Does what comes by the circuit 0.150, a line each, until one of them ends it.
const OBEY: &str = r#"
    mkfifo /tmp/orders
    ttcp_atm -r -a -l 1000 0.150 > /tmp/orders 2> /dev/null &
    (opened 150; say listening) &
    while read -r order; do eval "$order"; done < /tmp/orders
"#;

/// A guest behind an adapter, hosts alpha and beta, and an ATM-over-TCP link; `link` is added to the adapter's link.
fn description(port: u16, link: &str) -> String {
    let circuits: String = [150, 151, 152, 161, 162]
        .iter()
        .map(|vci| format!("[[circuit]]\nends = [\"alpha 0.{vci}\", \"guest 0.{vci}\"]\n"))
        .chain([170, 171].iter().map(|vci| format!("[[circuit]]\nends = [\"guest 0.{vci}\", \"linux 0.{vci}\"]\n")))
        .chain([180, 181].iter().map(|vci| format!("[[circuit]]\nends = [\"alpha 0.{vci}\", \"linux 0.{vci}\"]\n")))
        .chain([190].iter().map(|vci| format!("[[circuit]]\nends = [\"alpha 0.{vci}\", \"beta 0.{vci}\"]\n")))
        .collect();
    format!(
        r#"
[host.alpha]
[host.beta]
[outside.linux]
[switch.s1]
[adapter.eni0]
host = "guest"
socket = "eni0.sock"
[[link]]
ends = ["guest", "s1:0"]
{link}
[[link]]
ends = ["alpha", "s1:1"]
[[link]]
ends = ["beta", "s1:2"]
[[link]]
ends = ["s1:3", "linux"]
atmtcp = "listen 127.0.0.1:{port}"
{circuits}
"#
    )
}

fn status(up: &Up) -> Value {
    serde_json::from_slice(&up.run("status --json").stdout).unwrap()
}

fn adapter(up: &Up) -> Value {
    status(up)["adapters"][0].take()
}

/// A guest that obeys.
struct Obedient<'a> {
    up: &'a Up,
    guest: Guest,
    orders: u32,
}

impl<'a> Obedient<'a> {
    fn boot(up: &'a Up, files: &[(&str, &[u8])]) -> Self {
        let socket = up.path("eni0.sock");
        let guest = Guest::boot_kernel(KERNEL, Machine::Rebooting(&socket), OBEY, files).unwrap();
        let mut guest = Obedient { up, guest, orders: 0 };
        guest.guest.wait_for("guest: listening").unwrap();
        guest
    }

    fn order(&self, line: &str) {
        std::fs::write(self.up.path("order"), format!("{line}\n")).unwrap();
        let sent = self.up.run("send alpha 0.150 order");
        assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
    }

    /// Gives an order and waits until it is done; what the console said meanwhile.
    fn ask(&mut self, line: &str) -> String {
        self.orders += 1;
        let (begin, end) = (format!("guest: begin {}", self.orders), format!("guest: done {}", self.orders));
        self.order(&format!("say begin {0}; {line}; say done {0}", self.orders));
        self.guest.wait_for(&end).unwrap();
        let log = self.guest.log();
        let from = log.iter().rposition(|said| *said == begin).unwrap_or_default();
        log[from + 1..].iter().take_while(|said| **said != end).cloned().collect::<Vec<_>>().join("\n")
    }

    /// The guest's own word on its line.
    fn waits_for_carrier(&mut self, carrier: u8) {
        let from = Instant::now();
        while !self
            .guest
            .log()
            .iter()
            .rev()
            .find(|line| line.starts_with("guest: carrier "))
            .is_some_and(|line| line.ends_with(&carrier.to_string()))
        {
            assert!(from.elapsed() < PATIENCE, "no carrier {carrier}:\n{}", self.guest.log().join("\n"));
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn numbers(text: &str, line: &str) -> Vec<u64> {
    let found = text.lines().find(|l| l.contains(line)).unwrap_or_else(|| panic!("no {line:?} in:\n{text}"));
    let (_, rest) = found.split_once(line).unwrap_or_default();
    rest.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// `sonetdiag` asks the framer, `atmdiag` the driver: both have counted what our adapter has.
fn counters_agree(guest: &mut Obedient<'_>) {
    // The driver looks at the framer once a second.
    let said = guest.ask("sleep 2.5; sonetdiag 0; atmdiag 0; cat /proc/net/atm/devices");
    let counters = adapter(guest.up)["counters"].take();
    let of = |name: &str, what: &str| counters[name][what].as_u64().unwrap();
    assert_eq!(numbers(&said, "TX cells:"), [of("line_sent", "cells")], "{said}\n{counters}");
    assert_eq!(numbers(&said, "RX cells:"), [of("line_received", "cells")], "{said}\n{counters}");
    assert_eq!(numbers(&said, "Uncorrectable HCS:"), [0], "{said}");
    let [sent, send_errors, received, receive_errors, dropped] = numbers(&said, "AAL5")[..] else { panic!("{said}") };
    assert_eq!([sent, received], [of("sent", "pdus"), of("received", "pdus")], "{said}\n{counters}");
    assert_eq!([send_errors, receive_errors, dropped], [0; 3], "{said}");
    assert!(sent >= 8 && received >= 2, "too little has passed to compare:\n{said}");
    // The two tools and the kernel's own file are of one mind.
    assert_eq!(numbers(&said, "5 ("), [sent, send_errors, received, receive_errors, dropped], "{said}");
}

/// Debian's tools in a guest on our adapter, in a guest on ATM over TCP, and on this machine under `cellway run`: each sends
/// to each. The second guest is still there when this returns.
fn three_kinds_of_users_talk(guest: &mut Obedient<'_>, port: u16, file: &[u8]) -> Guest {
    let up = guest.up;
    let run = |command: &str| up.command(&format!("run --host alpha -- {command}"));
    let mut from_guest = Peer::start(&mut run("stdbuf -oL aread 0.0.161")).unwrap();
    let mut from_linux = Peer::start(&mut run("stdbuf -oL aread 0.0.181")).unwrap();
    guest.ask("aread 0.170 & aread 0.162 & ttcp_atm -r -a -l 9180 0.171 > /tmp/copy 2> /dev/null & opened 170 162 171");
    up.wait_for_endpoints(2, PATIENCE);
    let script = format!(
        r#"
        atmtcp virtual connect 10.0.2.2 {port} 2>&1 &
        until grep -q atmtcp /proc/net/atm/devices; do sleep 0.1; done
        aread 0.170 &
        aread 0.180 &
        opened 170 180
        say ready
        awrite 0.170 "over TCP to the adapter"
        awrite 0.181 "over TCP to a program"
        ttcp_atm -t -a -l 9180 0.171 < /test/file
        ttcp_atm -r -a -l 100 0.171 > /tmp/end 2> /dev/null &
        say listening
        while [ ! -s /tmp/end ]; do sleep 0.2; done
        cat /proc/net/atm/devices
        "#
    );
    let mut linux = Guest::boot(&script, &[("file", file)]).unwrap();
    linux.wait_for("guest: ready").unwrap();
    // What comes before the connection is there is lost.
    let is_up =
        || status(up)["links"].as_array().unwrap().iter().any(|l| l["name"] == "s1:3 - linux:0" && l["up"] == true);
    let from = Instant::now();
    while !is_up() {
        assert!(from.elapsed() < PATIENCE, "no connection");
        std::thread::sleep(Duration::from_millis(50));
    }
    guest.ask("awrite 0.170 'the adapter to TCP'; awrite 0.161 'the adapter to a program'");
    for (circuit, text) in [("0.0.162", "a-program-to-the-adapter"), ("0.0.180", "a-program-to-TCP")] {
        let written = run(&format!("awrite {circuit} {text}")).output().unwrap();
        assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
    }
    let reads = |peer: &mut Peer, text: &str| {
        let line = peer.wait_for(&format!("{}:", text.len()), PATIENCE).unwrap();
        assert_eq!(aread_sdu(&line).unwrap(), text.as_bytes());
    };
    reads(&mut from_guest, "the adapter to a program");
    reads(&mut from_linux, "over TCP to a program");
    linux.wait_for("guest: listening").unwrap();
    let same = "while [ $(stat -c %s /tmp/copy) -lt $(stat -c %s /test/file) ]; do sleep 0.2; done; \
                head -c $(stat -c %s /test/file) /tmp/copy | cmp /test/file - && say same";
    assert!(guest.ask(same).contains("guest: same"));
    let sdus = |log: &[String]| log.iter().filter_map(|line| aread_sdu(line)).collect::<Vec<_>>();
    let mut in_guest = sdus(guest.guest.log());
    in_guest.sort();
    assert_eq!(in_guest, [b"a-program-to-the-adapter".to_vec(), b"over TCP to the adapter".to_vec()]);
    let from = Instant::now();
    while sdus(linux.log()).len() < 2 && from.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut in_linux = sdus(linux.log());
    in_linux.sort();
    assert_eq!(in_linux, [b"a-program-to-TCP".to_vec(), b"the adapter to TCP".to_vec()]);
    linux
}

/// Cut by hand, pulled and plugged in again, and lost with the link to the other guest, which it follows.
fn the_line_fails_and_comes_back(guest: &mut Obedient<'_>, port: u16, linux: Guest) {
    let up = guest.up;
    guest.ask("dmesg -c > /dev/null");
    guest.order(
        "(last=; while :; do now=$(cat /sys/class/atm/eni0/carrier); \
         [ \"$now\" = \"$last\" ] || say carrier $now; last=$now; sleep 0.1; done) &",
    );
    let done = |line: &str, last: &str| {
        let output = up.command(line).arg(last).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    // With the link that a command has removed.
    let apply = |link: &str| {
        let path = up.path("net.toml");
        std::fs::write(&path, description(port, link)).unwrap();
        done("apply --exact", path.to_str().unwrap());
    };
    guest.waits_for_carrier(1);
    done("link down", "guest - s1:0");
    guest.waits_for_carrier(0);
    assert_eq!(adapter(up)["signal"], false);
    done("link up", "guest - s1:0");
    guest.waits_for_carrier(1);

    done("link remove", "guest - s1:0");
    guest.waits_for_carrier(0);
    apply("follows = \"s1:3 - linux\"");
    guest.waits_for_carrier(1);
    guest.order("awrite 0.171 'an end of its own'");
    linux.finish().unwrap();
    guest.waits_for_carrier(0);
    apply("");
    guest.waits_for_carrier(1);
    let said = guest.ask("dmesg");
    let count = |what: &str| said.lines().filter(|line| line.contains(what)).count();
    assert_eq!([count("signal lost"), count("signal detected again")], [3, 3], "{said}");
}

#[test]
fn a_guest_counts_what_we_count_talks_to_everybody_and_sees_its_line_fail_and_come_back() {
    if !have(&[("atmdiag", "atm-tools"), ("sonetdiag", "atm-tools"), ("aread", "atm-tools")]) || !Guest::available() {
        return;
    }
    let port = free_port();
    let up = Up::new(&description(port, ""));
    let file = pattern(18_000);
    let mut guest = Obedient::boot(&up, &[("file", &file)]);
    // Nobody reads these: they have left the adapter all the same.
    guest.ask("for n in 1 2 3 4 5 6 7 8; do head -c $((n * 100)) /test/file | ttcp_atm -t -a -l 2000 0.151 2> /dev/null; done");
    counters_agree(&mut guest);
    let linux = three_kinds_of_users_talk(&mut guest, port, &file);
    the_line_fails_and_comes_back(&mut guest, port, linux);
    guest.order("exit 0");
    guest.guest.finish().unwrap();
}

/// Octets that came to alpha from the guest by way of 0.152.
fn upload(up: &Up, guest: &Obedient<'_>, octets: usize) {
    let mut receiver = up.start_command("receive alpha 0.152 upload --count 1 --timeout 60");
    up.wait_for_endpoints(1, PATIENCE);
    guest.order(&format!("head -c {octets} /test/file | ttcp_atm -t -a -l {octets} 0.152 2> /dev/null"));
    let (ended, said) = receiver.wait(PATIENCE).unwrap();
    assert!(ended.success(), "{said:?}");
}

#[test]
fn a_guest_reboots_and_is_killed_in_mid_dma_and_each_time_its_adapter_is_as_new_and_others_undisturbed() {
    if !Guest::available() {
        return;
    }
    let up = Up::new(&description(free_port(), ""));
    let file = pattern(9000);
    let mut guest = Obedient::boot(&up, &[("file", &file)]);
    let attached = |guest: &mut Obedient<'_>| {
        let said = guest.ask("dmesg | grep 'eni(itf'; cat /proc/net/atm/devices");
        assert!(said.contains("eni(itf 0)") && said.contains("ASIC"), "{said}");
        said
    };
    attached(&mut guest);

    // The guest starts again, not QEMU: the bus is reset, and the driver finds the adapter as after power-on.
    guest.order("reboot -f");
    guest.guest.wait_for("guest: listening").unwrap();
    attached(&mut guest);
    guest.ask("true");
    let loss = "ttcp_atm -t -a -l 9000 0.151 < /test/file 2> /dev/null";
    guest.ask(loss);
    assert!(guest.ask("atmdiag 0").contains("AAL5"));

    // Others send all the while; a guest that sends as fast as it can dies in the middle of it.
    std::fs::write(up.path("big"), pattern(3_000_000)).unwrap();
    let mut receiver = up.start_command("receive beta 0.190 copy --reliable --timeout 120");
    up.wait_for_endpoints(1, PATIENCE);
    let mut sender = up.start_command("send alpha 0.190 big --reliable");
    guest.order("while :; do ttcp_atm -t -a -l 9000 0.151 < /test/file 2> /dev/null; done");
    let cells = |up: &Up| adapter(up)["counters"]["line_sent"]["cells"].as_u64().unwrap();
    let (from, begin) = (cells(&up), Instant::now());
    while cells(&up) < from + 500 {
        assert!(begin.elapsed() < PATIENCE, "the guest sends nothing");
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(guest);
    let begin = Instant::now();
    while adapter(&up)["attached"] == true {
        assert!(begin.elapsed() < PATIENCE, "the adapter still has its client");
        std::thread::sleep(Duration::from_millis(10));
    }
    let (ended, said) = sender.wait(PATIENCE).unwrap();
    assert!(ended.success(), "{said:?}");
    let (ended, said) = receiver.wait(PATIENCE).unwrap();
    assert!(ended.success(), "{said:?}");
    assert!(std::fs::read(up.path("copy")).unwrap() == pattern(3_000_000), "others were disturbed");

    let mut guest = Obedient::boot(&up, &[("file", &file)]);
    let said = attached(&mut guest);
    assert!(said.contains("eni"), "{said}");
    upload(&up, &guest, 9000);
    assert!(std::fs::read(up.path("upload")).unwrap() == file, "the new guest's PDU came changed");
    guest.order("exit 0");
    guest.guest.finish().unwrap();
}
