//! A daemon whose standard error takes nothing, such as a pipe that nobody reads or a terminal that is stopped, serves and ends
//! as any other.

use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const PATIENCE: Duration = Duration::from_secs(20);

fn cellway(socket: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cellway"));
    command.arg("--socket").arg(socket).args(arguments).stdin(Stdio::null());
    command
}

/// Waits until the daemon answers.
fn status(socket: &Path) -> Value {
    let begun = Instant::now();
    loop {
        let output = cellway(socket, &["--json", "status"]).output().unwrap();
        if output.status.success() {
            return serde_json::from_slice(&output.stdout).unwrap();
        }
        assert!(begun.elapsed() < PATIENCE, "{}", String::from_utf8_lossy(&output.stderr));
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn network(port: u16) -> String {
    format!(
        "[host.alpha]\n[outside.far]\n[[link]]\nends = [\"alpha\", \"far\"]\natmtcp = \"listen 127.0.0.1:{port}\"\n\
         [[circuit]]\nends = [\"alpha 0.100\", \"far 0.100\"]\n"
    )
}

#[test]
fn a_daemon_whose_standard_error_takes_nothing_serves_and_ends() {
    let folder = tempfile::tempdir().unwrap();
    let (socket, file) = (folder.path().join("s"), folder.path().join("net.toml"));
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    std::fs::write(&file, network(port)).unwrap();
    let (mut reader, mut writer) = std::io::pipe().unwrap();
    // Full before the daemon says its first word.
    rustix::io::ioctl_fionbio(&writer, true).unwrap();
    while writer.write(&[b'.'; 4096]).is_ok() {}
    while writer.write(b".").is_ok() {}
    rustix::io::ioctl_fionbio(&writer, false).unwrap();
    let up = cellway(&socket, &["up", file.to_str().unwrap()]).stdout(Stdio::null()).stderr(writer).spawn();
    let mut daemon = Daemon(up.unwrap());
    status(&socket);
    // Lines of the engine, of whoever accepts connections, and of the main thread.
    for n in 0..40 {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let _ = stream.write_all(&[n; 100]);
    }
    std::fs::write(&file, "[host.alpha]\nnonsense = 1\n").unwrap();
    let hang_up = || rustix::process::kill_process(pid(&daemon.0), rustix::process::Signal::HUP).unwrap();
    hang_up();
    std::thread::sleep(Duration::from_millis(200));
    std::fs::write(&file, network(port) + "[host.beta]\n").unwrap();
    hang_up();
    let begun = Instant::now();
    while !status(&socket)["stations"].to_string().contains("beta") {
        assert!(begun.elapsed() < PATIENCE, "the second description is not applied");
    }
    rustix::process::kill_process(pid(&daemon.0), rustix::process::Signal::TERM).unwrap();
    let begun = Instant::now();
    let ended = loop {
        if let Some(ended) = daemon.0.try_wait().unwrap() {
            break ended;
        }
        assert!(begun.elapsed() < PATIENCE, "it does not end");
        std::thread::sleep(Duration::from_millis(10));
    };
    assert!(ended.success(), "{ended}");
    let mut said = Vec::new();
    reader.read_to_end(&mut said).unwrap();
    assert!(said.iter().all(|octet| *octet == b'.'), "it had no room for a word");
}

fn pid(child: &Child) -> rustix::process::Pid {
    rustix::process::Pid::from_child(child)
}
