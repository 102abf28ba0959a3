//! Links of a running network taken down and up, and a virtual adapter whose cable is cut, pulled and plugged in again.

use crate::up::{Net, within};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

const WAIT: Duration = Duration::from_secs(20);

impl Net {
    fn adapter(&self) -> Value {
        self.done(&["status"])["adapters"].get_mut(0).map_or(Value::Null, Value::take)
    }

    fn waits_for_signal(&self, signal: bool) {
        within(WAIT, &format!("signal {signal}"), || self.adapter()["signal"] == signal);
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn a_link_taken_down_passes_nothing_until_it_is_taken_up() {
    let net = Net::up(
        WAIT,
        "[host.alpha]\n[host.beta]\n[[link]]\nends = [\"alpha\", \"beta\"]\n\
         [[circuit]]\nends = [\"alpha 0.100\", \"beta 0.100\"]\n",
    );
    let ping = || net.run(&["ping", "alpha", "0.100", "--count", "2", "--timeout-ms", "500"]);
    let link = |word: &str| net.done(&["link", word, "alpha - beta"]);
    assert_eq!(link("down")["enabled"], false);
    let status = net.done(&["status"]);
    assert_eq!([&status["links"][0]["up"], &status["links"][0]["enabled"]], [false, false]);
    assert!(!ping().status.success());
    let dropped = &net.done(&["status"])["links"][0]["from_a"]["sent"]["dropped"]["link_down"];
    assert!(dropped.as_u64().is_some_and(|n| n > 0), "{dropped}");
    assert_eq!(link("up")["enabled"], true);
    let answered = ping();
    assert!(answered.status.success(), "{}", String::from_utf8_lossy(&answered.stderr));
    assert!(!net.run(&["link", "down", "alpha - gamma"]).status.success());
}

#[test]
fn an_adapter_loses_its_signal_with_its_cable_and_not_its_guest() {
    let port = free_port();
    let description = |follows: &str| {
        format!(
            "[adapter.eni0]\nhost = \"guest\"\nsocket = \"eni0.sock\"\n[host.alpha]\n[switch.s1]\n[outside.far]\n\
             [[link]]\nends = [\"guest\", \"s1:0\"]\n{follows}\n[[link]]\nends = [\"alpha\", \"s1:1\"]\n\
             [[link]]\nends = [\"s1:2\", \"far\"]\natmtcp = \"listen 127.0.0.1:{port}\"\n\
             [[circuit]]\nends = [\"guest 0.100\", \"alpha 0.100\"]\n"
        )
    };
    let net = Net::up(WAIT, &description(""));
    net.waits_for_signal(true);
    // A client that says nothing is attached all the same; none of what follows may end it.
    let client = UnixStream::connect(net.folder.path().join("eni0.sock")).unwrap();
    within(WAIT, "the client is attached", || net.adapter()["attached"] == true);

    net.done(&["link", "down", "guest - s1:0"]);
    assert_eq!(net.adapter()["signal"], false);
    assert!(net.adapter()["state"].as_str().unwrap().contains("no signal"));
    net.done(&["link", "up", "guest - s1:0"]);
    assert_eq!(net.adapter()["signal"], true);

    let removed = net.done(&["link", "remove", "guest - s1:0"]);
    assert_eq!(removed["removed_circuits"], serde_json::json!(["guest 0.100 - alpha 0.100"]));
    assert_eq!((&net.adapter()["signal"], &net.adapter()["link"]), (&false.into(), &Value::Null));
    net.done(&["link", "add", "guest", "s1:5"]);
    assert_eq!(net.adapter()["signal"], true);
    assert!(!net.run(&["link", "add", "guest", "s1:6"]).status.success(), "an adapter has one line");
    assert_eq!((&net.adapter()["signal"], &net.adapter()["link"]), (&true.into(), &"guest:0 - s1:5".into()));

    // Back to the description, and with a fault beyond the switch that is passed on.
    net.apply_exactly(&description("follows = \"s1:2 - far\""));
    within(WAIT, "the description's link", || net.adapter()["link"] == "guest:0 - s1:0");
    net.waits_for_signal(false);
    let far = TcpStream::connect(("127.0.0.1", port)).unwrap();
    net.waits_for_signal(true);
    drop(far);
    net.waits_for_signal(false);
    net.apply(&description(""));
    net.waits_for_signal(true);

    assert_eq!(net.adapter()["attached"], true);
    drop(client);
    within(WAIT, "the client has gone", || net.adapter()["attached"] == false);
    // An adapter that is wanted no more goes, and its socket with it.
    net.apply("[host.alpha]\n");
    within(WAIT, "no adapter", || net.adapter().is_null());
    assert!(!net.folder.path().join("eni0.sock").exists());
}

/// Asks an adapter as a virtual machine does: a header of vfio-user (number, command, octets, flags, error), and the version where that is
/// what is asked. Whether an answer comes.
fn answers(mut machine: &UnixStream, command: u16) -> bool {
    const VERSION: u16 = 1;
    let version: &[u8] = if command == VERSION { &[0; 4] } else { &[] };
    let [head, octets, rest] = [&command.to_ne_bytes()[..], &(16 + version.len() as u32).to_ne_bytes(), &[0; 8]];
    let asked = machine.write_all(&[&[1, 0], head, octets, rest, version].concat());
    asked.is_ok() && machine.read(&mut [0; 1024]).is_ok_and(|octets| octets >= 16)
}

#[test]
fn an_adapter_stays_with_its_guest_when_another_cannot_be_made_and_two_exchange_their_sockets() {
    const GREETING: u16 = 1;
    const RESET: u16 = 13;
    let description = |sockets: [&str; 2], more: &str| {
        let [a, b] = sockets;
        format!(
            "[adapter.eni0]\nhost = \"guest0\"\nsocket = \"{a}\"\n{more}[adapter.eni1]\nhost = \"guest1\"\nsocket = \"{b}\"\n\
             [switch.s1]\n[[link]]\nends = [\"guest0\", \"s1:0\"]\n[[link]]\nends = [\"guest1\", \"s1:1\"]\n"
        )
    };
    let net = Net::up(WAIT, &description(["a.sock", "b.sock"], ""));
    let attach = |socket: &str| {
        let machine = UnixStream::connect(net.folder.path().join(socket)).unwrap();
        machine.set_read_timeout(Some(WAIT)).unwrap();
        assert!(answers(&machine, GREETING), "{socket}");
        machine
    };
    let adapters = || {
        let mut adapters = net.done(&["status"])["adapters"].as_array_mut().map(std::mem::take).unwrap();
        adapters.sort_by_key(|adapter| adapter["name"].to_string());
        let name = |path: &Value| path.as_str().unwrap().rsplit('/').next().unwrap().to_owned();
        adapters.iter().map(|a| (name(&a["socket"]), a["attached"] == true, a["signal"] == true)).collect::<Vec<_>>()
    };
    let is = |a: (&str, bool), b: (&str, bool)| [a, b].map(|(socket, attached)| (socket.to_owned(), attached, true));
    let apply = |description: &str| {
        let file = net.folder.path().join("next.toml");
        std::fs::write(&file, description).unwrap();
        net.run(&["apply", file.to_str().unwrap()])
    };
    let machines = [attach("a.sock"), attach("b.sock")];
    within(WAIT, "both are attached", || adapters() == is(("a.sock", true), ("b.sock", true)));
    // A socket that cannot be, alone and after one that can, and beside a link that cannot be made.
    for sockets in [["/nowhere/x.sock", "b.sock"], ["c.sock", "/nowhere/x.sock"]] {
        let refused = apply(&description(sockets, ""));
        assert!(!refused.status.success(), "{sockets:?}");
        assert_eq!(adapters(), is(("a.sock", true), ("b.sock", true)), "{sockets:?}");
        assert!(machines.iter().all(|machine| answers(machine, RESET)), "{sockets:?}");
    }
    // What takes another step, which fails: adapters that have been replaced by then are there again.
    let taken = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let far = |local: &str| {
        format!(
            "[outside.far]\n[[link]]\nends = [\"s1:7\", \"far\"]\ncells_udp = {{ local = \"{local}\", peer = \"127.0.0.1:9\" }}\n"
        )
    };
    let free = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    assert!(apply(&(description(["a.sock", "b.sock"], "") + &far(&free))).status.success());
    let fails = description(["b.sock", "a.sock"], "ram = \"2 MB\"\n") + &far(&taken.local_addr().unwrap().to_string());
    assert!(!apply(&fails).status.success());
    within(WAIT, "both are attached still", || adapters() == is(("a.sock", true), ("b.sock", true)));
    assert!(machines.iter().all(|machine| answers(machine, RESET)));

    // The sockets change hands, and their guests come anew.
    let applied = apply(&description(["b.sock", "a.sock"], ""));
    assert!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stdout));
    assert!(machines.iter().all(|machine| !answers(machine, RESET)));
    assert_eq!(adapters(), is(("b.sock", false), ("a.sock", false)));
    let machine = attach("b.sock");
    within(WAIT, "the first one is attached", || adapters() == is(("b.sock", true), ("a.sock", false)));
    // Another card at the same socket.
    assert!(apply(&description(["b.sock", "a.sock"], "ram = \"2 MB\"\n")).status.success());
    assert!(!answers(&machine, RESET));
    let _machines = [attach("a.sock"), attach("b.sock")];
    within(WAIT, "both are attached anew", || adapters() == is(("b.sock", true), ("a.sock", true)));
    assert!(apply("[switch.s1]\n").status.success());
    let left = std::fs::read_dir(net.folder.path()).unwrap().flatten().map(|file| file.file_name());
    let left: Vec<_> = left.filter(|name| name.to_string_lossy().contains("sock")).collect();
    assert!(left.is_empty(), "{left:?}");
}
