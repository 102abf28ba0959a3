//! Links of a running network taken down and up, and a virtual adapter whose cable is cut, pulled and plugged in again.

use crate::up::{Net, within};
use serde_json::Value;
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
    net.apply(&description("follows = \"s1:2 - far\""));
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
