//! Recording files of the stock `atmtcp`: what we record it plays back, and what it records we play back, octet for octet.

use interop::frames::{connect, free_port, receive, send};
use interop::peer::Peer;
use interop::up::Up;
use interop::{have, pattern};
use std::process::Command;
use std::time::Duration;
use wire::CircuitId;
use wire::atmtcp::Control;

const WAIT: Duration = Duration::from_secs(20);
const SIZES: [usize; 5] = [1, 48, 1500, 9188, 65_535];

/// Two hosts on one link: of frames, or of cells.
fn network(carries: &str) -> String {
    format!(
        "[host.alpha]\n[host.beta]\n[[link]]\nends = [\"alpha\", \"beta\"]\ncarries = \"{carries}\"\n\
         [[circuit]]\nends = [\"alpha 0.100\", \"beta 0.100\"]\n"
    )
}

fn stock(words: &[&str]) -> Peer {
    Peer::start(Command::new(interop::find("atmtcp").unwrap()).args(words)).unwrap()
}

#[test]
fn the_stock_program_plays_what_we_have_recorded_on_a_frame_link_and_on_a_cell_link() {
    if !have(&[("atmtcp", "atm-tools")]) {
        return;
    }
    for carries in ["frames", "cells"] {
        let up = Up::new(&network(carries));
        let mut capture = up.start_command("capture alpha-beta rec --format atmtcp");
        capture.wait_for("capturing", WAIT).unwrap();
        for octets in SIZES {
            for (from, to) in [("alpha", "beta"), ("beta", "alpha")] {
                std::fs::write(up.path("sdu"), pattern(octets)).unwrap();
                let mut receiver = up.start_command(&format!("receive {to} 0.100 got --count 1"));
                up.wait_for_endpoints(1, WAIT);
                let sent = up.run(&format!("send {from} 0.100 sdu --pdu 65535"));
                assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
                assert!(receiver.wait(WAIT).unwrap().0.success());
            }
        }
        let interrupted = Command::new("kill").args(["-INT", &capture.id().to_string()]).status().unwrap();
        assert!(interrupted.success());
        let (status, said) = capture.wait(WAIT).unwrap();
        assert!(status.success() && said.iter().any(|line| line.contains("10 records, 0 missed")), "{said:?}");

        for stream in ["0", "1"] {
            let port = free_port().to_string();
            let record = up.path("rec");
            let _stock = stock(&["listen", &port, "read", record.to_str().unwrap(), stream]);
            let mut peer = connect(port.parse().unwrap(), WAIT);
            // It has understood the opening if it says it anew.
            let (on, text) = receive(&mut peer);
            assert_eq!(on, CircuitId::default());
            let text = String::from_utf8(text).unwrap();
            assert_eq!(text, "O 0.100 0.0.100 ubr,aal5:max_sdu=65535", "{carries}, stream {stream}");
            for octets in SIZES {
                let got = receive(&mut peer);
                assert!(got == ("0.100".parse().unwrap(), pattern(octets)), "{carries}, stream {stream}: {octets}");
            }
        }
    }
}

#[test]
fn we_play_what_the_stock_program_has_recorded() {
    if !have(&[("atmtcp", "atm-tools")]) {
        return;
    }
    let up = Up::new(&network("cells"));
    let (left, right) = (free_port().to_string(), free_port().to_string());
    let record = up.path("rec");
    let mut atmtcp = stock(&["listen", &left, "listen", &right, "write", record.to_str().unwrap()]);
    let mut left = connect(left.parse().unwrap(), WAIT);
    atmtcp.wait_for("Link 0: incoming", WAIT).unwrap();
    let mut right = connect(right.parse().unwrap(), WAIT);
    atmtcp.wait_for("Link 1: incoming", WAIT).unwrap();
    let circuit: CircuitId = "0.100".parse().unwrap();
    let open = Control::Open { circuit, qos: "ubr,aal5:max_sdu=65535" }.to_string();
    send(&mut left, CircuitId::default(), open.as_bytes());
    receive(&mut right);
    for octets in SIZES {
        // What is relayed has been recorded.
        send(&mut left, circuit, &pattern(octets));
        receive(&mut right);
        send(&mut right, circuit, b"from the other link");
        receive(&mut left);
    }
    drop((left, right));
    atmtcp.wait(WAIT).unwrap();

    let listed = up.run("replay rec --json");
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    let octets: usize = SIZES.iter().sum();
    let expected = serde_json::json!([
        { "stream": 0, "circuit": "0.100", "aal": "aal5", "sdus": 5, "octets": octets, "left_out": 0 },
        { "stream": 1, "circuit": "0.100", "aal": "aal5", "sdus": 5, "octets": 5 * 19, "left_out": 0 },
    ]);
    assert_eq!(listed, expected);
    let mut receiver = up.start_command("receive beta 0.100 got --count 5");
    up.wait_for_endpoints(1, WAIT);
    let played = up.run("replay rec alpha --stream 0");
    assert!(played.status.success(), "{}", String::from_utf8_lossy(&played.stderr));
    let (status, said) = receiver.wait(WAIT).unwrap();
    assert!(status.success(), "{said:?}");
    let expected: Vec<u8> = SIZES.into_iter().flat_map(pattern).collect();
    assert!(std::fs::read(up.path("got")).unwrap() == expected, "other octets than were recorded");
}
