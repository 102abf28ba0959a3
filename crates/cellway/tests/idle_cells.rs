//! A peer that fills its line with idle and unassigned cells (I.361, I.432.1).

use crate::up::{Net, within};
use serde_json::Value;
use std::net::UdpSocket;
use std::time::Duration;

const WAIT: Duration = Duration::from_secs(60);

/// A port of this machine that was free a moment ago.
fn free_port() -> u16 {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn sum(dropped: &Value) -> u64 {
    dropped.as_object().into_iter().flatten().filter_map(|(_, n)| n.as_u64()).sum()
}

#[test]
fn idle_and_unassigned_cells_are_counted_neither_as_drops_nor_as_cells_of_a_circuit() {
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (local, far) = (free_port(), peer.local_addr().unwrap());
    let net = Net::up(
        WAIT,
        &format!(
            "[host.alpha]\n[outside.line]\n[switch.s1]\n[[link]]\nends = [\"alpha\", \"s1:0\"]\n[[link]]\nends = [\"s1:1\", \"line\"]\n\
             cells_udp = {{ local = \"127.0.0.1:{local}\", peer = \"{far}\", form = \"cell\", header = \"uni\" }}\n\
             [[circuit]]\nends = [\"alpha 8.35\", \"line 8.35\"]\n"
        ),
    );
    let cell = |header: [u8; 5], filling: u8| [&header[..], &[filling; 48]].concat();
    let (idle, unassigned) = (cell([0, 0, 0, 1, 0x52], 0x6a), cell([0, 0, 0, 0, 0x55], 0));
    // A cell of a circuit that there is not: a drop, and the last one to come.
    let stranger = wire::octets::emit53(
        &wire::Cell::new(
            wire::CellHeader { circuit: wire::CircuitId::new(9, 99).unwrap(), ..wire::CellHeader::default() },
            [0; 48],
        ),
        wire::octets::Format::Uni,
    );
    for _ in 0..50 {
        peer.send_to(&idle, ("127.0.0.1", local)).unwrap();
        peer.send_to(&unassigned, ("127.0.0.1", local)).unwrap();
    }
    let dropped = || sum(&net.done(&["status"])["switches"][0]["dropped"]);
    within(WAIT, "the cell of no circuit came", || {
        peer.send_to(&stranger, ("127.0.0.1", local)).unwrap();
        dropped() > 0
    });
    let before = dropped();
    for octets in [&idle, &unassigned] {
        peer.send_to(octets, ("127.0.0.1", local)).unwrap();
    }
    peer.send_to(&stranger, ("127.0.0.1", local)).unwrap();
    within(WAIT, "another one came", || dropped() > before);
    let status = net.done(&["status"]);
    let reasons = status["switches"][0]["dropped"].as_object().unwrap();
    // Those that were sent, and not a hundred more.
    assert!(reasons.keys().all(|reason| reason == "unknown_circuit") && dropped() < 50, "{reasons:?}");
    let link = status["links"].as_array().unwrap().iter().find(|link| link["name"] == "s1:1 - line:0").unwrap();
    assert!(!link.to_string().contains("header_error"), "{link:#}");
}
