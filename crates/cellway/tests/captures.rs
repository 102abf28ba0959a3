//! Captures side by side and in series of files, what is read of them again, and single PDUs in the forms of `receive`.

use crate::up::{Net, within};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const WAIT: Duration = Duration::from_secs(120);
const LINK: &str = "alpha:0 - s1:0";
const NETWORK: &str = r#"
[host.alpha]
[host.beta]
[switch.s1]
[[link]]
ends = ["alpha", "s1:0"]
[[link]]
ends = ["beta", "s1:1"]
[[circuit]]
ends = ["alpha 8.35", "beta 8.35"]
[[circuit]]
ends = ["alpha 8.36", "beta 8.36"]
"#;
/// LLC/SNAP, IPv4, and an octet: an SDU that RFC 1483's link type has room for.
const LLC: [u8; 9] = [0xaa, 0xaa, 3, 0, 0, 0, 8, 0, 0x45];

/// A command that does not outlive its test, once it has said on standard error that it has begun.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    pub fn start(net: &Net, arguments: &[&str]) -> Running {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cellway"));
        command.arg("--socket").arg(net.folder.path().join("s")).arg("--json").args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = Running(command.spawn().unwrap());
        let mut line = String::new();
        BufReader::new(running.0.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let said: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{arguments:?}: {line}"));
        assert!(said.get("error").is_none(), "{arguments:?}: {line}");
        running
    }

    /// Ends it as Ctrl-C does; gives its result.
    pub fn end(mut self) -> Value {
        assert!(Command::new("kill").args(["-INT", &self.0.id().to_string()]).status().unwrap().success());
        let result = serde_json::from_reader(self.0.stdout.take().unwrap()).unwrap();
        assert!(self.0.wait().unwrap().success());
        result
    }

    /// What it has written, once it has ended by itself.
    pub fn output(mut self) -> Vec<u8> {
        let mut out = Vec::new();
        std::io::Read::read_to_end(&mut self.0.stdout.take().unwrap(), &mut out).unwrap();
        assert!(self.0.wait().unwrap().success());
        out
    }
}

fn path(net: &Net, name: &str) -> String {
    net.folder.path().join(name).to_str().unwrap().to_owned()
}

/// Sends these octets as one PDU, to whoever receives.
fn send(net: &Net, circuit: &str, sdu: &[u8]) {
    let receiver = Running::start(net, &["receive", "beta", circuit, "--count", "1"]);
    let file = path(net, "sdu");
    std::fs::write(&file, sdu).unwrap();
    net.done(&["send", "alpha", circuit, &file, "--datagrams"]);
    assert_eq!(receiver.output(), sdu);
}

/// What `replay` finds in a file: stream, circuit, SDUs and octets of each row.
fn contents(net: &Net, file: &str, more: &[&str]) -> Vec<(u64, String, u64, u64)> {
    let rows = net.done(&[&["replay", file], more].concat());
    let row = |row: &Value| {
        let number = |key: &str| row[key].as_u64().unwrap();
        (number("stream"), row["circuit"].as_str().unwrap().to_owned(), number("sdus"), number("octets"))
    };
    rows.as_array().unwrap().iter().map(row).collect()
}

#[test]
fn several_captures_of_one_link_each_in_its_form_have_the_same_and_are_read_again() {
    let net = Net::up(WAIT, NETWORK);
    let forms = ["pcapng", "sunatm", "rfc1483", "atmtcp"];
    let files = forms.map(|form| path(&net, form));
    let captures: Vec<_> = forms
        .iter()
        .zip(&files)
        .map(|(form, file)| Running::start(&net, &["capture", LINK, file, "--format", form]))
        .collect();
    send(&net, "8.35", &LLC);
    send(&net, "8.36", b"no LLC");
    for (capture, (form, [records, missed])) in
        captures.into_iter().zip(forms.into_iter().zip([[2, 0], [2, 0], [1, 1], [2, 0]]))
    {
        let came = capture.end();
        assert_eq!((&came["records"], &came["missed"]), (&json!(records), &json!(missed)), "{form}");
    }
    let both = [(0, "8.35".to_owned(), 1, 9), (0, "8.36".to_owned(), 1, 6)];
    for (form, file) in forms.iter().zip(&files).filter(|(form, _)| **form != "rfc1483") {
        assert_eq!(contents(&net, file, &[]), both, "{form}");
        assert_eq!(contents(&net, file, &["--circuit", "8.36"]), both[1..], "{form}");
    }
    assert_eq!(contents(&net, &files[2], &["--onto", "8.36"]), [(0, "8.36".to_owned(), 1, 9)]);
    // The link is free again, for as many as may look at it; one more is refused with a sentence.
    let eight: Vec<_> =
        (0..8).map(|n| Running::start(&net, &["capture", LINK, &path(&net, &format!("c{n}"))])).collect();
    let refused = net.run(&["capture", LINK, &path(&net, "ninth")]);
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("8 captures"), "{refused:?}");
    drop(eight);
    within(WAIT, "a capture whose recorder died leaves its place", || {
        net.run(&["capture", LINK, &path(&net, "ninth"), "--seconds", "0.01", "--force"]).status.success()
    });
}

#[test]
fn what_was_captured_is_played_back_pdu_for_pdu() {
    let net = Net::up(WAIT, NETWORK);
    for form in ["pcapng", "sunatm", "rfc1483", "atmtcp"] {
        let file = path(&net, form);
        let capture = Running::start(&net, &["capture", LINK, &file, "--format", form]);
        send(&net, "8.35", &LLC);
        capture.end();
        let receiver = Running::start(&net, &["receive", "beta", "8.36", "--count", "1", "--format", "hex"]);
        // On another circuit than it was captured on.
        let played = net.done(&["replay", &file, "alpha", "--onto", "8.36"]);
        assert_eq!((&played[0]["sdus"], &played[0]["left_out"]), (&json!(1), &json!(0)), "{form}");
        assert_eq!(receiver.output(), b"aaaa03000000080045\n", "{form}");
    }
    // Without a circuit there is nowhere to send it.
    let nowhere = net.run(&["replay", &path(&net, "rfc1483"), "alpha"]);
    assert_eq!(nowhere.status.code(), Some(2));
    std::fs::write(path(&net, "other"), "no capture").unwrap();
    let other = net.run(&["replay", &path(&net, "other")]);
    assert!(String::from_utf8_lossy(&other.stderr).contains("pcapng"), "{other:?}");
}

#[test]
fn cells_of_a_cell_capture_are_played_back_cell_for_cell() {
    let net = Net::up(WAIT, NETWORK);
    let file = path(&net, "cells");
    let capture = Running::start(&net, &["capture", LINK, &file, "--what", "cells"]);
    send(&net, "8.35", &[7; 200]);
    assert_eq!(capture.end()["records"], 5);
    assert_eq!(contents(&net, &file, &[]), [(0, "8.35".to_owned(), 5, 5 * 52)]);
    let again = path(&net, "again");
    let capture = Running::start(&net, &["capture", LINK, &again, "--what", "cells"]);
    net.done(&["replay", &file, "alpha"]);
    assert_eq!(capture.end()["records"], 5);
    let cells = |file: &str| {
        let octets = std::fs::read(file).unwrap();
        let mut reader = wire::pcap::Reader::new(&octets).unwrap();
        // Behind the time, which is another.
        std::iter::from_fn(|| reader.next_packet().unwrap())
            .map(|packet| packet.octets[8..].to_vec())
            .collect::<Vec<_>>()
    };
    assert_eq!(cells(&file), cells(&again));
}

#[test]
fn a_series_of_files_has_all_records_and_keeps_as_many_files_as_it_may() {
    let net = Net::up(WAIT, NETWORK);
    let file = path(&net, "c.pcap");
    let series = ["--format", "sunatm", "--rotate-mib", "1"];
    let all = Running::start(&net, &[&["capture", LINK, &file][..], &series].concat());
    let kept = path(&net, "k.pcap");
    let some = Running::start(&net, &[&["capture", LINK, &kept][..], &series, &["--keep", "1"]].concat());
    let sdus = 70u64;
    let receiver = Running::start(&net, &["receive", "beta", "8.35", "/dev/null", "--count", &sdus.to_string()]);
    std::fs::write(path(&net, "sdu"), vec![7; 60_000 * sdus as usize]).unwrap();
    net.done(&["send", "alpha", "8.35", &path(&net, "sdu"), "--datagrams", "--pdu", "60000"]);
    receiver.output();
    assert_eq!([all.end()["records"].clone(), some.end()["records"].clone()], [json!(sdus), json!(sdus)]);
    let files = |stem: &str| {
        let mut files: Vec<PathBuf> =
            std::fs::read_dir(net.folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.retain(|path| path.file_name().unwrap().to_string_lossy().starts_with(stem));
        files.sort();
        files
    };
    let records = |path: &Path| contents(&net, path.to_str().unwrap(), &[])[0].2;
    let (series, last) = (files("c-"), files("k-"));
    assert!(series.len() >= 4, "{series:?}");
    assert_eq!(series.iter().map(|path| records(path)).sum::<u64>(), sdus);
    assert_eq!(last.len(), 1, "{last:?}");
    for contradiction in [&["--keep", "2"][..], &["--rotate-mib", "1", "--format", "atmtcp"]] {
        assert_eq!(net.run(&[&["capture", LINK, &file], contradiction].concat()).status.code(), Some(2));
    }
}

#[test]
fn single_pdus_are_received_in_each_form_and_sent_again() {
    let net = Net::up(WAIT, NETWORK);
    let receive = |form: &str| {
        let receiver = Running::start(&net, &["receive", "beta", "8.35", "--count", "1", "--format", form]);
        let file = path(&net, "sdu");
        std::fs::write(&file, LLC).unwrap();
        net.done(&["send", "alpha", "8.35", &file, "--datagrams"]);
        receiver.output()
    };
    assert_eq!(receive("hex"), b"aaaa03000000080045\n");
    let line: Value = serde_json::from_slice(&receive("jsonl")).unwrap();
    assert_eq!(
        (&line["circuit"], &line["octets"], &line["sdu"]),
        (&json!("8.35"), &json!(9), &json!("aaaa03000000080045"))
    );
    let capture = path(&net, "received.pcap");
    std::fs::write(&capture, receive("pcap")).unwrap();
    assert_eq!(contents(&net, &capture, &[]), [(1, "8.35".to_owned(), 1, 9)]);
    let stream = net.run(&["receive", "beta", "8.35", "--reliable", "--format", "hex"]);
    assert_eq!(stream.status.code(), Some(2));
}
