//! Two daemons joined by UDP: one that dies without a word is an alarm at the other until it is back; what the links
//! between them tolerate is shown.

use crate::up::{Net, within};
use serde_json::Value;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

const WAIT: Duration = Duration::from_secs(60);

/// Two addresses that nobody has.
fn addresses() -> [String; 2] {
    let sockets = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    sockets.map(|socket| socket.local_addr().unwrap().to_string())
}

fn description(local: &str, peer: &str, form: &str) -> String {
    format!(
        "[host.alpha]\n[outside.far]\n[[link]]\nends = [\"alpha\", \"far\"]\nrate = \"OC-3c\"\n\
         cells_udp = {{ local = \"{local}\", peer = \"{peer}\", form = \"{form}\" }}\n\
         [[circuit]]\nends = [\"alpha 0.100\", \"far 0.100\"]\n"
    )
}

fn link(net: &Net) -> Value {
    net.done(&["link", "list"])[0].clone()
}

fn is_up(net: &Net) -> bool {
    link(net)["up"] == true
}

fn alarms(net: &Net) -> usize {
    net.done(&["oam", "status"])["circuits"].as_array().map_or(0, Vec::len)
}

#[test]
fn a_peer_that_is_killed_is_an_alarm_until_it_is_back() {
    let [a, b] = addresses();
    let here = Net::up(WAIT, &description(&a, &b, "batch"));
    let mut there = Net::up(WAIT, &description(&b, &a, "batch"));
    let hears = |net: &Net| !link(net)["outside"].as_str().unwrap().contains("does not hear");
    // Each answers the other: only then is it watched.
    assert!(here.run(&["ping", "alpha", "0.100", "-c", "1"]).status.success());
    within(WAIT, "both hear each other", || is_up(&here) && is_up(&there) && hears(&here) && hears(&there));
    assert_eq!(alarms(&here), 0);

    there.daemon.kill().unwrap();
    there.daemon.wait().unwrap();
    let killed = Instant::now();
    within(WAIT, "the link is down", || !is_up(&here));
    println!("down {:?} after the kill", killed.elapsed());
    within(WAIT, "the alarm stands", || alarms(&here) == 1);
    let says = link(&here)["outside"].as_str().unwrap().to_owned();
    assert!(says.contains("no heartbeat for"), "{says}");

    let again = Net::up(WAIT, &description(&b, &a, "batch"));
    within(WAIT, "the link is up again", || is_up(&here) && is_up(&again));
    within(WAIT, "the alarm is cleared", || alarms(&here) == 0);
    assert!(here.run(&["ping", "alpha", "0.100", "-c", "1"]).status.success());
}

#[test]
fn a_link_taken_down_at_one_end_is_down_at_the_other() {
    let [a, b] = addresses();
    let here = Net::up(WAIT, &description(&a, &b, "batch"));
    let there = Net::up(WAIT, &description(&b, &a, "batch"));
    assert!(here.run(&["ping", "alpha", "0.100", "-c", "1"]).status.success());
    let name = link(&there)["name"].as_str().unwrap().to_owned();
    there.done(&["link", "down", &name]);
    within(WAIT, "the other end is down", || !is_up(&here));
    let says = link(&here)["outside"].as_str().unwrap().to_owned();
    assert!(says.contains("taken down at the far end"), "{says}");
    there.done(&["link", "up", &name]);
    within(WAIT, "the other end is up", || is_up(&here));
}

#[test]
fn a_link_between_machines_tolerates_their_jitter_and_says_so() {
    let [a, b] = addresses();
    let net = Net::up(WAIT, &description(&a, &b, "cell"));
    assert_eq!(link(&net)["cdvt_s"], 0.05);
    let file = net.folder.path().join("net.toml");
    let shown = net.done(&["config", "show", file.to_str().unwrap()]);
    assert_eq!(shown["link"][0]["cdvt_us"], 50_000);
    net.apply(&description(&a, &b, "cell").replace("rate = \"OC-3c\"", "rate = \"OC-3c\"\ncdvt_us = 7000"));
    within(WAIT, "the key counts", || link(&net)["cdvt_s"] == 0.007);
}

#[test]
fn drops_are_shown_with_place_and_reason_and_explained() {
    let [a, b] = addresses();
    let here = Net::up(WAIT, &description(&a, &b, "batch"));
    let there = Net::up(WAIT, &description(&b, &a, "batch"));
    assert!(here.run(&["ping", "alpha", "0.100", "-c", "1"]).status.success());
    let file = here.folder.path().join("data");
    std::fs::write(&file, [7; 4000]).unwrap();
    // Nobody has the circuit open at the far end.
    here.run(&["send", "alpha", "0.100", file.to_str().unwrap()]);
    let mut rows = Value::Null;
    within(WAIT, "the drop is shown", || {
        rows = there.done(&["drops"]);
        rows.as_array().unwrap().iter().any(|row| row["reason"] == "not_open")
    });
    let row = rows.as_array().unwrap().iter().find(|row| row["reason"] == "not_open").unwrap();
    assert_eq!((&row["place"], &row["direction"]), (&Value::from("alpha"), &Value::from("received")));
    assert!(row["circuit"].as_str().unwrap().contains("alpha 0.100") && row["count"].as_u64().unwrap() > 0, "{row}");
    assert_eq!(there.done(&["drops", "alpha 0.100"]).as_array().unwrap().len(), 1);
    assert!(!there.run(&["drops", "nowhere"]).status.success());
    let explained = there.done(&["explain", "not_open"]);
    assert_eq!(explained.as_array().unwrap().len(), 1);
    assert!(explained[0]["cure"].as_str().unwrap().contains("cellway receive"), "{explained}");
    assert_eq!(there.run(&["explain", "no_such_reason"]).status.code(), Some(2));
}

#[test]
fn the_last_point_that_answers_is_named() {
    let [a, b] = addresses();
    let net = Net::up(
        WAIT,
        &format!(
            "[host.alpha]\n[switch.first]\n[outside.far]\n[[link]]\nends = [\"alpha\", \"first:0\"]\n\
             [[link]]\nends = [\"first:1\", \"far\"]\ncells_udp = {{ local = \"{a}\", peer = \"{b}\", form = \"cell\" }}\n\
             [[circuit]]\nends = [\"alpha 0.100\", \"far 0.100\"]\n"
        ),
    );
    let output = net.run(&["ping", "alpha", "0.100", "-c", "1", "-W", "2000"]);
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &said["last_point"]), (Some(1), &Value::from("first")), "{said}");
    let output = net.run(&["trace", "alpha", "0.100"]);
    let says = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && says.contains("beyond first"), "{says}");
}

#[test]
fn a_ping_over_atm_over_tcp_says_that_oam_cannot_pass() {
    let net = Net::up(
        WAIT,
        "[host.alpha]\n[outside.far]\n[[link]]\nends = [\"alpha\", \"far\"]\natmtcp = \"listen 127.0.0.1:0\"\n\
         [[circuit]]\nends = [\"alpha 0.100\", \"far 0.100\"]\n",
    );
    let output = net.run(&["ping", "alpha", "0.100", "-c", "1", "-W", "500"]);
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    let test = said["pdu_test"].as_str().unwrap();
    assert!(test.contains("OAM cells cannot pass") && test.contains("is down"), "{said}");
    assert_eq!(output.status.code(), Some(1));
}
