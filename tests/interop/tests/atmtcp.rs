//! The stock `atmtcp` program as a judge of our ATM over TCP frames: it relays between two links of ours, and records
//! what it understood. It needs no kernel support for that.

use endpoint::OpenOptions;
use interop::frames::{connect, free_port, receive, send};
use interop::lan::Lan;
use interop::peer::Peer;
use interop::up::Up;
use interop::{have, pattern};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use wire::CircuitId;
use wire::atmtcp::{Control, HEAD_OCTETS, Head};

const WAIT: Duration = Duration::from_secs(20);

#[test]
fn stock_atmtcp_relays_our_frames_and_records_what_we_meant() {
    if !have(&[("atmtcp", "atm-tools")]) {
        return;
    }
    let (left_port, right_port) = (free_port(), free_port());
    let record = tempfile::NamedTempFile::new().unwrap();
    let mut atmtcp = Command::new(interop::find("atmtcp").unwrap());
    atmtcp.args(["listen", &left_port.to_string(), "listen", &right_port.to_string(), "write"]).arg(record.path());
    let mut atmtcp = Peer::start(&mut atmtcp).unwrap();
    // It listens on the second port when somebody has come to the first.
    let mut left = connect(left_port, WAIT);
    atmtcp.wait_for("Link 0: incoming ATMTCP connection", WAIT).unwrap();
    let mut right = connect(right_port, WAIT);
    atmtcp.wait_for("Link 1: incoming ATMTCP connection", WAIT).unwrap();

    let circuit: CircuitId = "1.42".parse().unwrap();
    let qos = "cbr,aal5:max_pcr=1000,max_sdu=9180";
    let open = Control::Open { circuit, qos }.to_string();
    let mut recorded = Vec::new();
    send(&mut left, CircuitId::default(), open.as_bytes());
    let (on, text) = receive(&mut right);
    assert_eq!(on, CircuitId::default());
    // It parses the quality of service and prints it anew: what comes out is what it understood.
    let Ok(Control::Open { circuit: opened, qos: understood }) = Control::parse(&text) else {
        panic!("not an open: {}", String::from_utf8_lossy(&text));
    };
    assert_eq!((opened, understood), (circuit, qos));

    for octets in [1, 40, 48, 1500, 9188, 65_535] {
        let sdu = pattern(octets);
        send(&mut left, circuit, &sdu);
        assert!(receive(&mut right) == (circuit, sdu.clone()), "{octets} octets from left to right");
        send(&mut right, circuit, &sdu);
        assert!(receive(&mut left) == (circuit, sdu.clone()), "{octets} octets from right to left");
        recorded.push((0, sdu.clone()));
        recorded.push((1, sdu));
    }
    send(&mut right, CircuitId::default(), Control::Close { circuit }.to_string().as_bytes());
    let (_, text) = receive(&mut left);
    assert_eq!(Control::parse(&text), Ok(Control::Close { circuit }));

    wait_until_written(record.path(), &recorded);
    drop((left, right));
    atmtcp.kill();
    let data = records(&std::fs::read(record.path()).unwrap());
    assert!(data == recorded, "its record has {} data frames, {} were sent", data.len(), recorded.len());
}

/// Waits until a record has room for these data frames: it is written after a frame has been passed on.
fn wait_until_written(record: &Path, frames: &[(u32, Vec<u8>)]) {
    let octets: usize = frames.iter().map(|(_, sdu)| wire::recording::HEAD_OCTETS + sdu.len()).sum();
    until("the record is written", || std::fs::metadata(record).is_ok_and(|file| file.len() >= octets as u64));
}

/// The data frames of a record of `atmtcp write`: a link number, then the head as on the wire, then the octets.
fn records(mut file: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let mut out = Vec::new();
    while let Some((stream, rest)) = file.split_first_chunk::<4>() {
        let (head, rest) = rest.split_first_chunk::<HEAD_OCTETS>().unwrap();
        // All ones: a control structure of the machine's own shape, 120 octets with the head.
        if head[4..] == [0xFF; 4] {
            file = &rest[112..];
            continue;
        }
        let head = Head::parse(head).unwrap();
        if !head.is_control() {
            out.push((u32::from_be_bytes(*stream), rest[..head.octets].to_vec()));
        }
        file = &rest[head.octets..];
    }
    out
}

#[test]
fn stock_atmtcp_joins_two_of_our_links_and_applications_talk_across_it() {
    if !have(&[("atmtcp", "atm-tools")]) {
        return;
    }
    let lan = Lan::with(&[("alpha", "left", &[100]), ("beta", "right", &[100])]).unwrap();
    let record = tempfile::NamedTempFile::new().unwrap();
    let mut atmtcp = Command::new(interop::find("atmtcp").unwrap());
    for outside in [0, 1] {
        atmtcp.args(["connect", "127.0.0.1", &lan.port(outside).to_string()]);
    }
    let mut atmtcp = Peer::start(atmtcp.arg("write").arg(record.path())).unwrap();
    atmtcp.wait_for("Link 1: ATMTCP connection", WAIT).unwrap();
    // It has connected before we have accepted.
    for outside in [0, 1] {
        lan.wait_until_up(outside, WAIT).unwrap();
    }

    let circuit: CircuitId = "0.100".parse().unwrap();
    let (mut alpha, mut beta) = (lan.endpoint("alpha").unwrap(), lan.endpoint("beta").unwrap());
    let to_beta = alpha.open(circuit, OpenOptions::default()).unwrap();
    let to_alpha = beta.open(circuit, OpenOptions::default()).unwrap();
    let mut recorded = Vec::new();
    for octets in [1, 40, 48, 1500, 9188, 65_535] {
        let sdu = pattern(octets);
        alpha.send_copy(to_beta, &sdu).unwrap();
        assert!(beta.receive(Some(WAIT)).unwrap().expect("an SDU")[..] == sdu, "{octets} octets to beta");
        beta.send_copy(to_alpha, &sdu).unwrap();
        assert!(alpha.receive(Some(WAIT)).unwrap().expect("an SDU back")[..] == sdu, "{octets} octets to alpha");
        recorded.push((0, sdu.clone()));
        recorded.push((1, sdu));
    }
    wait_until_written(record.path(), &recorded);
    atmtcp.kill();
    assert!(records(&std::fs::read(record.path()).unwrap()) == recorded, "its record differs from what was sent");
}

/// The ends of a network's circuits, as `circuit list` has them.
fn circuits(up: &Up) -> Vec<String> {
    let listed = up.run("circuit list --json");
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    let ends = listed.as_array().unwrap().iter().flat_map(|c| c["ends"].as_array().cloned().unwrap_or_default());
    ends.filter_map(|end| end["end"].as_str().map(str::to_owned)).collect()
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + WAIT;
    while !done() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_circuit_that_one_program_adds_becomes_one_to_a_real_host_of_the_other_and_carries_data() {
    let port = free_port();
    let listener = format!(
        "[host.alpha]\n[outside.far]\n[[link]]\nends = [\"alpha\", \"far\"]\natmtcp = \"listen 127.0.0.1:{port}\"\nreal = \"alpha\"\n"
    );
    let (near, far) = (Up::new(&listener), Up::new("[host.beta]\n"));
    let added = far.run(&format!("link add beta atmtcp://127.0.0.1:{port}"));
    assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
    let outside = format!("connect-127-0-0-1-{port}");
    let ends = ["beta 0.100".to_owned(), format!("{outside} 0.100")];
    for round in 0..2 {
        let added = far.command("circuit add").args(&ends).output().unwrap();
        assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
        until("the circuit has come", || circuits(&near).contains(&"alpha 0.100".to_owned()));
        let mut receiver = near.start_command("receive alpha 0.100 got --count 1");
        near.wait_for_endpoints(1, WAIT);
        let text = format!("round {round}");
        std::fs::write(far.path("note"), &text).unwrap();
        let sent = far.run("send beta 0.100 note");
        assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
        let (status, said) = receiver.wait(WAIT).unwrap();
        assert!(status.success(), "{said:?}");
        assert_eq!(std::fs::read_to_string(near.path("got")).unwrap(), text);
        let removed = far.command("circuit remove").args(&ends).output().unwrap();
        assert!(removed.status.success(), "{}", String::from_utf8_lossy(&removed.stderr));
        until("the circuit has gone", || circuits(&near).is_empty());
    }
}
