//! The program as its users meet it: processes, a socket, exit statuses; peers where it has them.

use interop::guest::{Guest, PATIENCE, aread_sdu};
use interop::peer::Peer;
use interop::{have, pattern, program, tshark};
use serde_json::Value;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

const WAIT: Duration = Duration::from_secs(30);

const TWO_HOSTS: &str = r#"
[host.alpha]
[host.beta]
[switch.s1]
[[link]]
ends = ["alpha", "s1:0"]
[[link]]
ends = ["beta", "s1:1"]
[[circuit]]
ends = ["alpha 0.102", "beta 0.102"]
[[circuit]]
ends = ["alpha 0.103", "beta 0.103"]
"#;

/// `cellway up`, and a folder for what a test leaves.
struct Up {
    program: PathBuf,
    folder: tempfile::TempDir,
    daemon: Peer,
}

impl Up {
    fn new(description: &str) -> Self {
        let program = program::cellway().unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("net.toml"), description).unwrap();
        let daemon = Self::start(&program, &folder);
        Up { program, folder, daemon }
    }

    fn start(program: &PathBuf, folder: &tempfile::TempDir) -> Peer {
        let mut command = Command::new(program);
        command.env("CELLWAY_SOCKET", folder.path().join("socket")).arg("up").arg(folder.path().join("net.toml"));
        let mut daemon = Peer::start(&mut command).unwrap();
        daemon.wait_for("up: ", WAIT).unwrap();
        daemon
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.env("CELLWAY_SOCKET", self.path("socket")).args(line.split(' ')).current_dir(self.folder.path());
        command
    }

    fn start_command(&self, line: &str) -> Peer {
        Peer::start(&mut self.command(line)).unwrap()
    }

    fn run(&self, line: &str) -> Output {
        self.command(line).output().unwrap()
    }

    /// How many endpoints the service has.
    fn endpoints(&self) -> usize {
        let output = self.run("status --json");
        let status: Value = serde_json::from_slice(&output.stdout).unwrap();
        status["endpoints"].as_array().unwrap().len()
    }

    fn wait_for_endpoints(&self, n: usize, within: Duration) {
        let deadline = Instant::now() + within;
        while self.endpoints() != n {
            assert!(Instant::now() < deadline, "{} endpoints, {n} expected", self.endpoints());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn open_files(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.daemon.id())).unwrap().count()
    }
}

#[test]
fn a_client_killed_in_mid_transfer_leaves_nothing_behind_and_disturbs_no_other() {
    let up = Up::new(TWO_HOSTS);
    let before = up.open_files();
    let file = pattern(3_000_000);
    std::fs::write(up.path("file"), &file).unwrap();

    let mut sink = up.start_command("receive beta 0.102 sink");
    up.wait_for_endpoints(1, WAIT);
    let mut victim = up.start_command("ttcp -t alpha 0.102 -l 9180 -n 1000000000");
    up.wait_for_endpoints(2, WAIT);
    let mut receiver = up.start_command("receive beta 0.103 copy --reliable");
    up.wait_for_endpoints(3, WAIT);
    let mut sender = up.start_command("send alpha 0.103 file --reliable");
    let sink_grows = |octets: u64| std::fs::metadata(up.path("sink")).is_ok_and(|file| file.len() > octets);
    let deadline = Instant::now() + WAIT;
    while !sink_grows(1_000_000) {
        assert!(Instant::now() < deadline, "nothing of the victim's transfer arrives");
        std::thread::sleep(Duration::from_millis(10));
    }
    victim.kill();

    // Within a second its circuit is free: somebody else can open it.
    std::thread::sleep(Duration::from_secs(1));
    let again = up.run("ttcp -t alpha 0.102 -l 100 -n 10");
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
    for transfer in [&mut sender, &mut receiver] {
        let (status, said) = transfer.wait(WAIT).unwrap();
        assert!(status.success(), "{said:?}");
    }
    assert!(std::fs::read(up.path("copy")).unwrap() == file, "the other transfer came changed");
    sink.kill();
    up.wait_for_endpoints(0, Duration::from_secs(1));
    assert_eq!(up.open_files(), before, "file descriptors of the service before and after");
}

#[test]
fn when_the_service_is_killed_its_clients_say_so_and_a_restart_needs_no_cleaning() {
    let mut up = Up::new(TWO_HOSTS);
    let mut receiver = up.start_command("receive beta 0.102 copy");
    up.wait_for_endpoints(1, WAIT);
    up.daemon.kill();
    let (status, said) = receiver.wait(WAIT).unwrap();
    assert_eq!(status.code(), Some(3), "{said:?}");
    assert!(!said.is_empty(), "it ended without a word");
    let without = up.run("status");
    assert_eq!(without.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&without.stderr).contains("is `cellway up` running"), "{without:?}");

    up.daemon = Up::start(&up.program, &up.folder);
    std::fs::write(up.path("file"), b"after the restart").unwrap();
    let mut receiver = up.start_command("receive beta 0.102 copy --count 1");
    up.wait_for_endpoints(1, WAIT);
    assert!(up.run("send alpha 0.102 file").status.success());
    assert!(receiver.wait(WAIT).unwrap().0.success());
    assert_eq!(std::fs::read(up.path("copy")).unwrap(), b"after the restart");
}

#[test]
fn the_demo_leaves_a_capture_that_tshark_decodes_down_to_ip() {
    if !have(tshark::TOOLS) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), pattern(300_000)).unwrap();
    let mut demo = Command::new(program::cellway().unwrap());
    let output = demo.args(["demo", "file"]).current_dir(folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let out = folder.path().join("out/demo");
    let report = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(report.contains("<svg") && !report.contains("src=\"http"), "the report is not self-contained");
    serde_json::from_slice::<Value>(&std::fs::read(out.join("results.json")).unwrap()).unwrap();

    let capture = out.join("capture.pcapng");
    let packets = tshark::decode(&capture, "ip").unwrap();
    for line in ["AAL5 CRC: 0x", "(correct)", "Internet Control Message Protocol", "Transmission Control Protocol"] {
        assert!(packets.contains(line), "tshark finds no {line:?} in the capture");
    }
    let everything = tshark::decode(&capture, "frame").unwrap();
    assert!(everything.contains("OAM Cell Loopback"), "no OAM cells");
    assert!(!everything.contains("(incorrect"), "a PDU whose CRC is wrong");
}

#[test]
fn a_guest_joins_a_network_that_cellway_up_brought_up() {
    if !Guest::available() {
        return;
    }
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let up = Up::new(&format!(
        r#"
[host.alpha]
[switch.s1]
[outside.linux]
[[link]]
ends = ["alpha", "s1:0"]
rate = "OC-3c"
[[link]]
ends = ["s1:1", "linux"]
atmtcp = "listen 127.0.0.1:{port}"
[[circuit]]
ends = ["alpha 0.100", "linux 0.100"]
[[circuit]]
ends = ["alpha 0.101", "linux 0.101"]
[[circuit]]
ends = ["alpha 0.102", "linux 0.102"]
[[circuit]]
ends = ["alpha 0.103", "linux 0.103"]
"#
    ));
    let file = pattern(70_000);
    std::fs::write(up.path("download"), &file).unwrap();
    std::fs::write(up.path("note"), b"a PDU of the program").unwrap();
    let mut line = up.start_command("receive alpha 0.100 line --count 1");
    // 70 000 octets are 7 PDUs of 9180 and a shorter one; what ttcp sends after those is only its mark of the end.
    let mut upload = up.start_command("receive alpha 0.102 upload --count 8");
    up.wait_for_endpoints(2, WAIT);
    let script = format!(
        r#"
        atmtcp virtual connect 10.0.2.2 {port} 2>&1 &
        sleep 1
        aread 0.101 &
        ttcp_atm -r -a -l 9180 0.103 > /tmp/download &
        sleep 0.5
        awrite 0.100 "a PDU of the guest"
        ttcp_atm -t -a -l 9180 0.102 < /test/file
        say ready
        while [ "$(stat -c %s /tmp/download)" -lt 70000 ]; do sleep 0.2; done
        sleep 0.5
        emit /tmp/download
        "#
    );
    let mut guest = Guest::boot(&script, &[("file", &file)]).unwrap();
    guest.wait_for("guest: ready").unwrap();
    for receiver in [&mut line, &mut upload] {
        let (status, said) = receiver.wait(PATIENCE).unwrap();
        assert!(status.success(), "{said:?}");
    }
    assert_eq!(std::fs::read(up.path("line")).unwrap(), b"a PDU of the guest");
    assert!(std::fs::read(up.path("upload")).unwrap() == file, "the file came changed from the guest");
    for send in ["send alpha 0.101 note", "send alpha 0.103 download"] {
        let sent = up.run(send);
        assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
    }
    let report = guest.finish().unwrap();
    assert!(report.file("/tmp/download").unwrap() == file, "the file came changed to the guest");
    let read: Vec<Vec<u8>> = report.console.iter().filter_map(|line| aread_sdu(line)).collect();
    assert_eq!(read, [b"a PDU of the program".to_vec()]);
}
