//! `cellway relay` beside the stock `atmtcp` with as many links: the same frames and control texts through both, and the
//! streams at every link compared octet for octet. Then what the stock program does not do: links that come and go.

use interop::frames::{connect, free_port, receive, send};
use interop::have;
use interop::peer::Peer;
use interop::program;
use interop::up::Up;
use std::io::Read as _;
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use wire::CircuitId;
use wire::recording::{Record, What};

const WAIT: Duration = Duration::from_secs(60);

type Frame = (CircuitId, Vec<u8>);

/// What link `n` says: texts as a kernel and as the stock program write them, and PDUs of many sizes.
fn said_by(n: u16) -> Vec<Frame> {
    let control = |text: String| (CircuitId::default(), text.into_bytes());
    let circuit = CircuitId::new(n, 100).unwrap();
    let sdu = |octets: usize| interop::pattern(octets + usize::from(n)).split_off(usize::from(n));
    let mut all = vec![
        control(format!("O {n}.100 0.{n}.100 ubr,aal5:tx:none,rx:max_sdu=1024")),
        control(format!("O {n}.101 0.{n}.101 cbr,aal5:max_pcr=1000,max_sdu=9180")),
        control(format!("O {n}.102 0.{n}.102 ubr,aal0:max_sdu=52")),
    ];
    all.extend([1, 40, 48, 52, 1500, 9188, 65_535].map(|octets| (circuit, sdu(octets))));
    all.push(control(format!("C {n}.101")));
    // Without octets; beyond the VPIs of a UNI; on a circuit of which nothing was said.
    all.extend([(circuit, vec![]), (CircuitId::new(300 + n, 65_535).unwrap(), sdu(7))]);
    all.extend((0..40u8).map(|i| (CircuitId::new(n, 33).unwrap(), vec![i; 100])));
    // What says nothing is passed on by neither.
    all.extend(["X 1.100", "", "O 1.100", "C"].map(|text| control(text.into())));
    all.push(control(format!("C {n}.100")));
    all.push((circuit, format!("the last of link {n}").into_bytes()));
    all
}

/// Says it all at every link, waits for the last word at each link of those that it hears, and gives what came at each until
/// `end` has made an end. A round of link after link, so that no queue needs to hold more than a few frames.
fn exchange(mut links: Vec<TcpStream>, end: impl FnOnce()) -> Vec<Vec<Frame>> {
    let n = links.len();
    let readers: Vec<_> = links
        .iter()
        .map(|link| {
            let mut link = link.try_clone().unwrap();
            let (sender, frames) = std::sync::mpsc::channel();
            std::thread::spawn(move || {
                let mut head = [0; 1];
                // Until the connection ends, which it may only between two frames.
                while link.peek(&mut head).is_ok_and(|octets| octets > 0) {
                    sender.send(receive(&mut link)).unwrap();
                }
            });
            frames
        })
        .collect();
    let mut got: Vec<Vec<Frame>> = vec![Vec::new(); n];
    for (from, link) in links.iter_mut().enumerate() {
        for (circuit, octets) in said_by(from as u16) {
            send(link, circuit, &octets);
        }
        // Who hears link `from`, by the manual; what else comes will be seen in the end.
        for to in (0..n).filter(|to| *to != from && (*to != 0 || from == 1)) {
            let last = (CircuitId::new(from as u16, 100).unwrap(), format!("the last of link {from}").into_bytes());
            while got[to].last() != Some(&last) {
                let next = readers[to].recv_timeout(WAIT);
                got[to].push(next.unwrap_or_else(|e| panic!("link {to} hears no more of link {from}: {e}")));
            }
        }
    }
    end();
    for link in &links {
        let _ = link.shutdown(Shutdown::Write);
    }
    for (frames, got) in readers.iter().zip(&mut got) {
        got.extend(std::iter::from_fn(|| frames.recv_timeout(WAIT).ok()));
    }
    got
}

fn stock(n: usize, record: &Path) -> Vec<Vec<Frame>> {
    let ports: Vec<u16> = (0..n).map(|_| free_port()).collect();
    let mut atmtcp = Command::new(interop::find("atmtcp").unwrap());
    for port in &ports {
        atmtcp.args(["listen", &port.to_string()]);
    }
    let mut atmtcp = Peer::start(atmtcp.arg("write").arg(record)).unwrap();
    let mut links = Vec::new();
    for (n, port) in ports.iter().enumerate() {
        links.push(connect(*port, WAIT));
        atmtcp.wait_for(&format!("Link {n}: incoming"), WAIT).unwrap();
    }
    // It ends with the first connection.
    exchange(links, || {})
}

/// `cellway relay`, each of its links listening at a port of the system's choice; a folder for its files.
struct Ours {
    relay: Peer,
    folder: tempfile::TempDir,
    ports: Vec<u16>,
}

impl Ours {
    fn start(n: usize, more: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(program::cellway().unwrap());
        command.current_dir(folder.path()).args(["--json", "relay"]);
        command.args(std::iter::repeat_n("atmtcp-listen://127.0.0.1:0", n)).args(more);
        let mut relay = Peer::start(&mut command).unwrap();
        let port = |n| {
            let line = relay.wait_for(&format!("link {n}: listening on "), WAIT).unwrap();
            line.rsplit_once(':').unwrap().1.parse().unwrap()
        };
        let ports = (0..n).map(port).collect();
        Ours { relay, folder, ports }
    }

    fn connect(&mut self, n: usize) -> TcpStream {
        let stream = connect(self.ports[n], WAIT);
        self.relay.wait_for(&format!("link {n}: connected"), WAIT).unwrap();
        stream
    }

    /// Ctrl-C, and what it says then.
    fn finish(&mut self) -> serde_json::Value {
        assert!(Command::new("kill").args(["-INT", &self.relay.id().to_string()]).status().unwrap().success());
        let (status, said) = self.relay.wait(WAIT).unwrap();
        assert!(status.success(), "{said:?}");
        // Standard error comes as it likes.
        let json: String = said.iter().filter(|line| !line.starts_with("link ")).cloned().collect();
        serde_json::from_str(&json).unwrap_or_else(|e| panic!("{e}: {said:?}"))
    }
}

/// The frames of one source: control texts name their circuit, too.
fn of(source: usize, frames: &[Frame]) -> Vec<&Frame> {
    let vpi = |(circuit, octets): &&Frame| match circuit.key() {
        0 => String::from_utf8_lossy(octets)[2..].split('.').next().unwrap().parse().unwrap(),
        _ => usize::from(circuit.vpi.get()) % 300,
    };
    frames.iter().filter(|frame| vpi(frame) == source).collect()
}

/// What a recording holds, link by link.
fn recorded(file: &Path, links: usize) -> Vec<Vec<String>> {
    let octets = std::fs::read(file).unwrap();
    let (mut all, mut rest) = (vec![Vec::new(); links], octets.as_slice());
    while let Some((record, after)) = Record::parse(rest).unwrap() {
        let what = match record.what {
            What::Sdu(sdu) => format!("{} octets, {}", sdu.len(), interop::sha256(sdu)),
            other => format!("{other:?}"),
        };
        all[record.stream as usize].push(format!("{}: {what}", record.circuit));
        rest = after;
    }
    all
}

#[test]
fn two_three_and_four_links_hear_what_the_stock_programs_links_hear_octet_for_octet() {
    if !have(&[("atmtcp", "atm-tools")]) {
        return;
    }
    for n in 2..=4 {
        let folder = tempfile::tempdir().unwrap();
        let stock_record = folder.path().join("stock");
        let theirs = stock(n, &stock_record);

        let mut ours = Ours::start(n, &["write", "rec"]);
        let links: Vec<TcpStream> = (0..n).map(|link| ours.connect(link)).collect();
        let mut report = serde_json::Value::Null;
        let got = exchange(links, || report = ours.finish());
        for to in 0..n {
            assert_eq!(theirs[to].len(), got[to].len(), "{n} links, link {to}: number of frames");
            for from in 0..n {
                let (theirs, got) = (of(from, &theirs[to]), of(from, &got[to]));
                assert!(theirs == got, "{n} links: link {to} hears something else of link {from}");
                let hears = to != from && (to != 0 || from == 1);
                assert_eq!(!got.is_empty(), hears, "{n} links: link {to} and link {from}");
            }
            let link = &report["links"][to];
            assert_eq!(link["from"]["dropped"], serde_json::json!({ "malformed": 4 }), "{report}");
            assert_eq!(link["to"]["dropped"], serde_json::json!({}), "{report}");
            assert_eq!(link["to"]["frames"], got[to].len(), "{report}");
        }
        assert_eq!(report["recorded"]["missed"], 0);
        let (theirs, got) = (recorded(&stock_record, n), recorded(&ours.folder.path().join("rec"), n));
        assert!(theirs == got, "{n} links: other records: {theirs:#?} {got:#?}");
    }
}

#[test]
fn a_peer_that_sends_nonsense_loses_its_link_with_a_reason_and_comes_back_while_the_others_go_on() {
    let mut ours = Ours::start(3, &[]);
    let mut links: Vec<TcpStream> = (0..3).map(|link| ours.connect(link)).collect();
    let circuit: CircuitId = "0.100".parse().unwrap();
    let open = |vci: u16| format!("O 0.{vci} 0.0.{vci} ubr,aal5").into_bytes();
    send(&mut links[2], CircuitId::default(), &open(200));
    assert_eq!(receive(&mut links[1]).1, open(200));
    // A giant PDU, as `atmtcp` calls it; the stock program ends of it, and with it all links.
    std::io::Write::write_all(&mut links[2], &[0, 0, 0, 100, 0, 1, 0, 0, 1, 2, 3]).unwrap();
    let said = ours.relay.wait_for("link 2: listening", WAIT).unwrap();
    assert!(said.contains("length"), "{said}");
    let mut rest = Vec::new();
    let _ = links[2].read_to_end(&mut rest);
    // What it had opened is closed with it; whoever comes in its place is told what is open.
    assert_eq!(receive(&mut links[1]).1, b"C 0.200");
    send(&mut links[0], CircuitId::default(), &open(100));
    assert_eq!(receive(&mut links[1]).1, open(100));
    send(&mut links[0], circuit, b"to link 1 alone");
    assert_eq!(receive(&mut links[1]), (circuit, b"to link 1 alone".to_vec()));
    links[2] = ours.connect(2);
    assert_eq!(receive(&mut links[2]), (CircuitId::default(), open(100)));
    send(&mut links[0], circuit, b"to both");
    assert_eq!((receive(&mut links[1]).1, receive(&mut links[2]).1), (b"to both".to_vec(), b"to both".to_vec()));
    let report = ours.finish();
    assert_eq!(report["links"][2]["to"]["dropped"], serde_json::json!({ "link_down": 1 }), "{report}");
    assert_eq!((&report["links"][0]["connections"], &report["links"][2]["connections"]), (&1.into(), &2.into()));
}

#[test]
fn a_deaf_link_loses_what_it_does_not_take_and_the_others_lose_nothing() {
    let mut ours = Ours::start(3, &[]);
    let mut links: Vec<TcpStream> = (0..3).map(|link| ours.connect(link)).collect();
    let circuit: CircuitId = "0.100".parse().unwrap();
    let sdu = interop::pattern(65_535);
    // More than link 2's sockets and its queue hold, for it reads nothing yet.
    const FRAMES: usize = 600;
    for _ in 0..FRAMES {
        send(&mut links[0], circuit, &sdu);
        assert!(receive(&mut links[1]) == (circuit, sdu.clone()));
    }
    let report = ours.finish();
    let lost = report["links"][2]["to"]["dropped"]["queue_full"].as_u64().unwrap();
    let mut n = 0;
    let mut octets = Vec::new();
    links[2].read_to_end(&mut octets).unwrap();
    for frame in octets.chunks(8 + sdu.len()) {
        assert!(frame.len() < 8 + sdu.len() || frame[8..] == sdu, "a damaged frame");
        n += 1;
    }
    assert!(lost > 0 && n + lost as usize <= FRAMES, "{lost} lost, {n} received");
    assert_eq!(report["links"][1]["to"]["dropped"], serde_json::json!({}), "{report}");
}

#[test]
fn with_patience_the_only_listener_may_be_deaf_and_its_sender_goes_on() {
    let mut ours = Ours::start(2, &["--patience", "0.2"]);
    let (mut left, mut right) = (ours.connect(0), ours.connect(1));
    let circuit: CircuitId = "0.100".parse().unwrap();
    let sdu = interop::pattern(65_535);
    // More than all sockets and queues hold: without patience this would end with the deaf link's connection, after 30 s.
    const FRAMES: usize = 600;
    (0..FRAMES).for_each(|_| send(&mut left, circuit, &sdu));
    // What goes the other way was never held up.
    send(&mut right, circuit, b"back");
    assert_eq!(receive(&mut left), (circuit, b"back".to_vec()));
    let report = ours.finish();
    let mut octets = Vec::new();
    right.read_to_end(&mut octets).unwrap();
    let frames = octets.chunks(8 + sdu.len());
    let n = frames.filter(|frame| frame.len() == 8 + sdu.len() && frame[8..] == sdu).count();
    let to = &report["links"][1]["to"];
    let lost = to["dropped"]["queue_full"].as_u64().unwrap();
    assert_eq!(report["links"][1]["connections"], 1, "it was not given up by TCP: {report}");
    assert!(lost > 0 && n + lost as usize <= FRAMES, "{lost} lost, {n} received: {report}");
}

#[test]
fn all_that_a_peer_says_before_it_goes_arrives() {
    let mut ours = Ours::start(2, &[]);
    let (mut left, mut right) = (ours.connect(0), ours.connect(1));
    let circuit: CircuitId = "0.100".parse().unwrap();
    let sdu = interop::pattern(9000);
    const FRAMES: usize = 2000;
    let sender = std::thread::spawn({
        let sdu = sdu.clone();
        move || (0..FRAMES).for_each(|_| send(&mut left, circuit, &sdu))
    });
    // A fast sender waits for a slow receiver, for there is no other.
    std::thread::sleep(Duration::from_millis(300));
    for n in 0..FRAMES {
        assert!(receive(&mut right) == (circuit, sdu.clone()), "{n}");
    }
    sender.join().unwrap();
    let report = ours.finish();
    assert_eq!(
        report["links"][1]["to"],
        serde_json::json!({ "frames": FRAMES, "octets": FRAMES * 9000, "dropped": {} })
    );
}

#[test]
fn a_recording_is_played_to_whoever_connects_and_networks_talk_across_a_relay() {
    let port = free_port();
    let mut ours = Ours::start(1, &["connect", "127.0.0.1", &port.to_string(), "write", "rec"]);
    let description = |host: &str, atmtcp: &str| {
        format!(
            "[host.{host}]\n[outside.far]\n[[link]]\nends = [\"{host}\", \"far\"]\natmtcp = \"{atmtcp}\"\n\
             [[circuit]]\nends = [\"{host} 0.100\", \"far 0.100\"]\n"
        )
    };
    // One connects to the relay; to the other the relay connects, again and again until it is there.
    let alpha = Up::new(&description("alpha", &format!("connect 127.0.0.1:{}", ours.ports[0])));
    let beta = Up::new(&description("beta", &format!("listen 127.0.0.1:{port}")));
    ours.relay.wait_for("link 1: connected", WAIT).unwrap();
    let note = interop::pattern(100_000);
    for (from, to, host, other) in [(&alpha, &beta, "alpha", "beta"), (&beta, &alpha, "beta", "alpha")] {
        let mut receiver = to.start_command(&format!("receive {other} 0.100 got --reliable"));
        to.wait_for_endpoints(1, WAIT);
        std::fs::write(from.path("note"), &note).unwrap();
        let sent = from.run(&format!("send {host} 0.100 note --reliable"));
        assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
        let (status, said) = receiver.wait(WAIT).unwrap();
        assert!(status.success(), "{said:?}");
        assert!(std::fs::read(to.path("got")).unwrap() == note, "other octets than were sent");
    }
    ours.finish();
    drop((alpha, beta));

    let streams = recorded(&ours.folder.path().join("rec"), 2);
    assert!(streams.iter().all(|stream| stream.len() > 5), "{streams:#?}");
    let rec = ours.folder.path().join("rec");
    let mut player = Ours::start(2, &["read", rec.to_str().unwrap(), "0", "write", "again"]);
    let (first, mut second) = (player.connect(0), player.connect(1));
    // Link 2, the file, is not heard by link 0.
    first.set_nonblocking(true).unwrap();
    let mut played = Vec::new();
    while played.len() < streams[0].len() {
        let (circuit, octets) = receive(&mut second);
        played.push(match circuit.key() {
            0 => String::from_utf8(octets).unwrap(),
            _ => format!("{circuit}: {} octets, {}", octets.len(), interop::sha256(&octets)),
        });
    }
    assert_eq!(first.peek(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    assert_eq!(played[0], "O 0.100 0.0.100 ubr,aal5:max_sdu=65535");
    assert_eq!(played[1..], streams[0][1..]);
    player.finish();
    assert_eq!(recorded(&player.folder.path().join("again"), 3)[2], streams[0]);
}
