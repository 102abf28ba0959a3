//! Two networks joined by a pseudowire of cells, and one of a circuit's SDUs: files pass whole in both directions.

use crate::captures::Running;
use crate::up::{Net, within};
use std::net::UdpSocket;
use std::time::Duration;

const WAIT: Duration = Duration::from_secs(120);

/// Two ports of UDP that nobody has at this moment.
fn ports() -> [u16; 2] {
    let sockets = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    sockets.map(|socket| socket.local_addr().unwrap().port())
}

/// A host, a switch, and a pseudowire to the other network.
fn network(local: u16, peer: u16, labels: [u32; 2], more: &str) -> String {
    let [label_out, label_in] = labels;
    format!(
        r#"
[host.alpha]
[switch.s1]
[outside.far]
[[link]]
ends = ["alpha", "s1:0"]
[[link]]
ends = ["s1:1", "far"]
pseudowire = {{ local = "127.0.0.1:{local}", peer = "127.0.0.1:{peer}", label_out = {label_out}, label_in = {label_in}{more} }}
[[circuit]]
ends = ["alpha 0.100", "far 0.100"]
"#
    )
}

#[test]
fn a_file_passes_on_pseudowires_of_cells_and_of_sdus() {
    for more in ["", ", control_word = false", ", mode = \"aal5\", circuit = \"0.100\""] {
        let [a, b] = ports();
        let nets = [network(a, b, [100, 200], more), network(b, a, [200, 100], more)].map(|text| Net::up(WAIT, &text));
        let file = nets[0].folder.path().join("file");
        let octets: Vec<u8> = (0..50_000u32).map(|n| (n * 7) as u8).collect();
        std::fs::write(&file, &octets).unwrap();
        let got = nets[1].folder.path().join("got");
        let receiver = Running::start(&nets[1], &["receive", "alpha", "0.100", got.to_str().unwrap(), "--reliable"]);
        nets[0].done(&["send", "alpha", "0.100", file.to_str().unwrap(), "--reliable"]);
        receiver.output();
        assert!(std::fs::read(&got).unwrap() == octets, "{more}");
    }
}

#[test]
fn packets_with_another_label_are_counted() {
    let [a, b] = ports();
    let nets = [network(a, b, [300, 200], ""), network(b, a, [200, 100], "")].map(|text| Net::up(WAIT, &text));
    nets[0].done(&["inject", "alpha", "0.100", "--hex", "00", "--count", "3"]);
    within(WAIT, "the far end counts packets of no pseudowire", || {
        nets[1].done(&["link", "list"]).to_string().contains("unknown_circuit")
    });
}
