//! What is outside the program and takes its time: files that give nothing, or too much, in the place of those that a description
//! names, and in the description's own; names of hosts. Who asks for them waits alone.

use endpoint::control::{Request, Response};
use endpoint::seqpacket::{Packets, Peer};
use endpoint::{Connection, Error};
use host::service::{Handler, Takes};
use hostile::{Field, Ground, Program};
use interop::up::Up;
use rustix::fd::OwnedFd;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use wire::CircuitId;

const NETWORK: &str = "[host.alpha]\n[host.beta]\n[[link]]\nends = [\"alpha\", \"beta\"]\n";
/// Of a command beside it, and of the end.
const SOON: Duration = Duration::from_secs(3);

fn fifo(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

/// What the service says of a description. Meanwhile another command is answered.
fn apply_beside_a_command(field: &Program, folder: &Path, text: &str) -> Result<Value, Error> {
    let connection = Connection::open(field.socket()).unwrap();
    let apply = json!({ "apply": { "text": text, "name": "net.toml", "folder": folder, "dry_run": false } });
    let (says, said) = channel();
    // An apply that never ends must not keep the test from it.
    std::thread::spawn(move || says.send(connection.manage(apply)));
    std::thread::sleep(Duration::from_millis(100));
    let begin = Instant::now();
    field.run("status --json");
    assert!(begin.elapsed() < SOON, "a command beside it took {:?}: {text}", begin.elapsed());
    said.recv_timeout(SOON).unwrap_or_else(|_| panic!("no answer: {text}"))
}

#[test]
fn a_description_that_names_a_fifo_or_a_device_is_refused_and_keeps_no_command_waiting() {
    let field = Program::up(NETWORK);
    let folder = field.socket().parent().unwrap().to_path_buf();
    fifo(&folder.join("fifo.pem"));
    let secured = |file: &str| {
        format!(
            "{NETWORK}[outside.far]\n[[link]]\nends = [\"alpha:1\", \"far\"]\ncells_tcp = \"listen 127.0.0.1:0\"\n\
             tls = {{ certificate = \"{file}\", key = \"{file}\", trust = \"{file}\" }}\n"
        )
    };
    for text in [secured("fifo.pem"), secured("/dev/zero")] {
        let applied = apply_beside_a_command(&field, &folder, &text).expect("an answer");
        assert!(applied.to_string().contains("problems"), "{applied}");
    }
}

#[test]
fn files_of_devices_and_namespaces_that_are_fifos_or_have_no_end_are_refused_and_keep_no_command_waiting() {
    let field = Program::up(NETWORK);
    let folder = field.socket().parent().unwrap().to_path_buf();
    fifo(&folder.join("fifo"));
    let desk = |device: &str| {
        format!(
            "{NETWORK}[desk.den]\nchips = 2\ndevices = {{ eye = {{ chip = 0, {device} }} }}\n[[link]]\nends = [\"alpha:1\", \"den:1\"]\n"
        )
    };
    let interface = "[interface.ip0]\nhost = \"ip0\"\naddress = \"10.9.0.1/24\"\nnamespace = \"FILE\"\n[[link]]\nends = [\"alpha:1\", \"ip0\"]\ncarries = \"frames\"\n";
    let uses = [
        desk("kind = \"store\", play = \"FILE\""),
        desk("kind = \"store\", record = \"FILE\""),
        desk("kind = \"camera\", file = \"FILE\""),
        desk("kind = \"display\", file = \"FILE\""),
    ];
    let fifo = folder.join("fifo").display().to_string();
    let texts = uses.iter().flat_map(|text| ["/dev/zero", &fifo].map(|file| text.replace("FILE", file)));
    for text in texts.chain([format!("{NETWORK}{}", interface.replace("FILE", &fifo))]) {
        let refused = apply_beside_a_command(&field, &folder, &text).expect_err("it is refused").to_string();
        assert!(
            refused.contains("regular file") || refused.contains("namespace") || refused.contains("No such device"),
            "{refused}"
        );
    }
}

#[test]
fn a_daemon_whose_description_has_become_a_fifo_serves_and_ends() {
    let up = Up::new(NETWORK);
    let description = up.path("net.toml");
    std::fs::remove_file(&description).unwrap();
    fifo(&description);
    up.hang_up();
    std::thread::sleep(Duration::from_millis(300));
    assert!(up.run("status").status.success());
    let id = Pid::from_raw(up.id() as i32).unwrap();
    kill_process(id, Signal::TERM).unwrap();
    let begin = Instant::now();
    let stat = || std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    while !stat().contains(") Z ") {
        assert!(begin.elapsed() < SOON, "the daemon does not end at SIGTERM: {}", stat());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Answers once it is told to.
struct Waits(Mutex<Receiver<()>>);

impl Handler for Waits {
    fn admit(&self, _: Peer) -> Result<(), String> {
        Ok(())
    }
    fn may_open(&self, _: Peer, _: &str, _: CircuitId) -> Result<(), String> {
        Ok(())
    }
    fn takes(&self, _: Peer, _: &Value) -> Takes {
        Takes::AsLongAsOthersLike
    }
    fn manage(&self, _: Peer, _: Value, _: Vec<OwnedFd>) -> Result<String, String> {
        let _ = self.0.lock().unwrap().recv();
        Ok("1".into())
    }
}

#[test]
fn requests_that_wait_for_what_is_outside_keep_nobody_else_waiting_and_are_few() {
    let (told, tells) = channel();
    let ground = Ground::build().handler(Arc::new(Waits(Mutex::new(tells)))).host("alpha").up();
    let ask = || {
        let packets = Packets::connect(ground.socket()).unwrap();
        packets.send(&Request::hello(), &[]).unwrap();
        packets.receive::<Response>().unwrap().expect("an answer");
        // What is asked after it is answered after it.
        packets.send(&Request::Manage(json!({})), &[]).unwrap();
        packets.send(&Request::hello(), &[]).unwrap();
        packets
    };
    let answer = |packets: &Packets| packets.receive::<Response>().unwrap().expect("an answer").0;
    let mut asked: Vec<Packets> = (0..8).map(|_| ask()).collect();
    let one_more = answer(&ask());
    assert!(matches!(&one_more, Response::Refused { reason, .. } if reason.contains("8 requests")), "{one_more:?}");
    // Who goes meanwhile takes nothing with it, and its request has its place until it has ended.
    drop(asked.pop());
    let begin = Instant::now();
    drop(Connection::open(ground.socket()).unwrap());
    assert!(begin.elapsed() < SOON, "a connection took {:?}", begin.elapsed());
    (0..8).for_each(|_| told.send(()).unwrap());
    for packets in &asked {
        assert!(matches!(answer(packets), Response::Managed { .. }));
        assert!(matches!(answer(packets), Response::Welcome { .. }));
    }
    // One that is never answered does not keep the service from ending.
    let _waits = ask();
    std::thread::sleep(Duration::from_millis(100));
    let begin = Instant::now();
    drop(ground);
    assert!(begin.elapsed() < SOON, "the end took {:?}", begin.elapsed());
    drop(told);
}
