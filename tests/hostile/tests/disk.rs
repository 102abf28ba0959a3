//! A full disk under the state folder: changes go on and are told that they are not kept, nobody waits, and once there is room all is
//! kept that was not.

use crate::managed::Managed;
use control::config::parse;
use control::daemon::DaemonOptions;
use endpoint::Connection;
use hostile::{Class, Field, Trial};
use serde_json::{Value, json};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// A file system of a few pages.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// `None`, with the reason on standard error, where this machine lets this user mount none.
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        let mounted = mount.args(["-t", "tmpfs", "-o", "size=256k", "small"]).arg(folder.path()).output().ok()?;
        if !mounted.status.success() {
            eprintln!("skipped: {}", String::from_utf8_lossy(&mounted.stderr).trim_end());
            return None;
        }
        Some(SmallDisk(folder))
    }

    fn state(&self) -> PathBuf {
        self.0.path().join("state")
    }

    fn filler(&self) -> PathBuf {
        self.0.path().join("filler")
    }

    fn fill(&self) {
        let mut filler = File::create(self.filler()).unwrap();
        for octets in [4096, 1] {
            while filler.write_all(&vec![0; octets]).is_ok() {}
        }
    }

    fn make_room(&self) {
        std::fs::remove_file(self.filler()).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).output();
    }
}

/// A network whose state is on such a disk.
struct Ground {
    managed: Managed,
    disk: SmallDisk,
}

const NETWORK: &str = "[host.alpha]\n[host.beta]\n[[link]]\nends = [\"alpha\", \"beta\"]\n\
    [[circuit]]\nends = [\"alpha 0.100\", \"beta 0.100\"]\n";

fn up(state: PathBuf) -> Managed {
    let options = |_: &Path| DaemonOptions { state: Some(state), ..DaemonOptions::default() };
    Managed::up(parse(NETWORK, "net.toml").unwrap(), options)
}

fn ground() -> Ground {
    let disk = SmallDisk::mount().expect("it could be mounted before");
    let managed = up(disk.state());
    disk.fill();
    Ground { managed, disk }
}

impl Field for Ground {
    fn socket(&self) -> &Path {
        self.managed.socket()
    }
}

fn change(socket: &Path, verb: &str, vci: u16) -> Value {
    let ends = json!([format!("alpha 0.{vci}"), format!("beta 0.{vci}")]);
    let connection = Connection::open(socket).unwrap();
    connection.manage(json!({ verb: { "ends": ends } })).unwrap()
}

fn circuits(socket: &Path) -> String {
    Connection::open(socket).unwrap().manage(json!("circuits")).unwrap().to_string()
}

/// The revisions in the log, and those that it says it lacks.
fn logged(state: &Path) -> (Vec<u64>, u64) {
    let text = std::fs::read_to_string(state.join("audit.jsonl")).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("whole lines"));
    let all: Vec<Value> = lines.collect();
    let left_out = all.iter().filter_map(|line| line["left_out"].as_u64()).sum();
    (all.iter().filter_map(|line| line["revision"].as_u64()).collect(), left_out)
}

#[test]
fn a_full_disk_holds_up_nobody_and_what_was_not_kept_is_once_there_is_room() {
    if SmallDisk::mount().is_none() {
        return;
    }
    Trial::new(Class::Other, ground).length(Duration::from_secs(1)).withstand(|ground, attack| {
        let mut changes = 0;
        while attack.goes_on() {
            let added = change(ground.socket(), "add_circuit", 200);
            assert!(added["not_kept"].as_str().is_some_and(|why| why.contains("No space left")), "{added}");
            change(ground.socket(), "remove_circuit", 200);
            changes += 2;
        }
        ground.disk.make_room();
        let kept = change(ground.socket(), "add_circuit", 201);
        assert_eq!(kept["not_kept"], Value::Null, "{kept}");
        changes += 1;
        // The description was the first change.
        let (revisions, left_out) = logged(&ground.disk.state());
        assert_eq!(revisions.len() as u64 + left_out, 1 + changes);
        assert!(revisions.is_sorted() && revisions.last().is_some_and(|last| *last <= 1 + changes));
    });
}

#[test]
fn a_daemon_that_ends_on_a_full_disk_ends_at_once_and_the_next_one_has_what_was_kept() {
    let Some(disk) = SmallDisk::mount() else { return };
    let first = up(disk.state());
    assert_eq!(change(first.socket(), "add_circuit", 200)["not_kept"], Value::Null);
    disk.fill();
    assert!(change(first.socket(), "add_circuit", 201)["not_kept"].is_string());
    let begin = Instant::now();
    drop(first);
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    // It starts on a full disk, too.
    let second = up(disk.state());
    let all = circuits(second.socket());
    assert!(all.contains("0.200") && !all.contains("0.201"), "{all}");
    // What was kept last is tried again as long as it is not kept: a daemon that ends when there is room again has kept it.
    assert!(change(second.socket(), "add_circuit", 202)["not_kept"].is_string());
    disk.make_room();
    drop(second);
    let all = circuits(up(disk.state()).socket());
    assert!(all.contains("0.200") && all.contains("0.202"), "{all}");
}
