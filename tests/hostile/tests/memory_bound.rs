//! The memory of all users together has a bound, and what would exceed it is refused before the kernel kills the daemon.

use endpoint::{Endpoint, EndpointConfig, Geometry};
use hostile::{Field, Program, Watch, as_user};
use serde_json::Value;
use std::path::{Path, PathBuf};

const EVE: u32 = 60_001;
const BOB: u32 = 60_002;
const NETWORK: &str = "[host.alpha]\n[host.beta]\n[[link]]\nends = [\"alpha\", \"beta\"]\n\
     [[circuit]]\nends = [\"alpha 0.100\", \"beta 0.100\"]\n";
const MIB: usize = 1 << 20;

fn rules(engine: &str) -> String {
    let allow = |user| format!("[[allow]]\nusers = [{user}]\ncircuits = [\"0.100\"]\n");
    format!("{engine}{NETWORK}{}{}", allow(EVE), allow(BOB))
}

/// About 4 MiB.
fn large() -> EndpointConfig {
    let geometry = Geometry { send_ring: 64, receive_ring: 64, free_ring: 64, buffers: 256, buffer_octets: 16_384 };
    EndpointConfig { host: "alpha".into(), geometry, ..EndpointConfig::default() }
}

/// Endpoints of a user, as many as there are to be had, and why there are no more.
fn take(socket: &Path, most: usize) -> (Vec<Endpoint>, String) {
    let mut all = Vec::new();
    for _ in 0..most {
        match Endpoint::create(socket, &large()) {
            Ok(endpoint) => all.push(endpoint),
            Err(e) => return (all, e.to_string()),
        }
    }
    (all, String::new())
}

/// Lets other users reach a daemon's socket.
fn open_to_all(program: &Program) {
    use std::os::unix::fs::PermissionsExt;
    let folder = program.socket().parent().unwrap();
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn users_have_no_more_memory_together_than_the_description_says_and_one_leaves_something_for_the_next() {
    let program = Program::up(&rules("[engine]\nmax_users_octets = 67108864\n"));
    open_to_all(&program);
    let Some((eve, why)) = as_user(EVE, || take(program.socket(), 64)) else { return };
    // Three quarters of 64 MiB.
    assert!((9..=12).contains(&eve.len()), "{} endpoints of {} octets", eve.len(), large().geometry.octets());
    for cause_or_cure in ["memory", "max_users_octets", "memory.max"] {
        assert!(why.contains(cause_or_cure), "{cause_or_cure}: {why}");
    }
    let (bob, _) = as_user(BOB, || take(program.socket(), 64)).unwrap();
    assert!(!bob.is_empty(), "another user gets something");
    let status: Value = serde_json::from_str(&program.run("status --json")).unwrap();
    let service = &status["service"];
    let has = service["users_octets"].as_u64().unwrap();
    assert!(has <= 64 << 20 && has >= (eve.len() + bob.len()) as u64 * large().geometry.octets() as u64, "{service}");
    assert!(service["memory_refusals"].as_u64().unwrap() >= 2, "{service}");
    drop((eve, bob));
    hostile::until("what has ended is free again", || {
        as_user(EVE, || take(program.socket(), 9)).is_some_and(|(again, _)| again.len() == 9)
    });
    // A larger one is in force once the description is read again.
    program.reload(&rules("[engine]\nmax_users_octets = 134217728\n"));
    hostile::until("more can be had", || {
        as_user(EVE, || take(program.socket(), 20)).is_some_and(|(more, _)| more.len() == 20)
    });
}

/// A control group of this test's own, with so much memory; `None` where this process may not have one.
struct Group(PathBuf);

impl Group {
    fn of(octets: usize) -> Option<Self> {
        let name = format!("cellway-test-{}", std::process::id());
        let kinds = [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];
        kinds.into_iter().find_map(|(root, file)| {
            let folder = Path::new(root).join(&name);
            std::fs::create_dir(&folder).ok()?;
            let group = Group(folder);
            std::fs::write(group.0.join(file), octets.to_string()).ok()?;
            Some(group)
        })
    }

    /// Puts this process in, which those that it starts are in, too.
    fn enter(&self) -> bool {
        std::fs::write(self.0.join("cgroup.procs"), std::process::id().to_string()).is_ok()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Processes that have ended may be in it for a moment.
        let _ = (0..100).find(|_| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            std::fs::remove_dir(&self.0).is_ok()
        });
    }
}

/// Says to this program that it is to start a daemon inside this group.
const GROUP: &str = "HOSTILE_MEMORY_GROUP";

/// Not a test of its own: a user who takes all the memory that there is, in a process of a small control group.
#[test]
fn greedy() {
    let Some(group) = std::env::var_os(GROUP) else { return };
    // The folder is the other process's to remove.
    let group = std::mem::ManuallyDrop::new(Group(group.into()));
    assert!(group.enter());
    let program = Program::up(&rules(""));
    open_to_all(&program);
    let mut watch = Watch::new(&program, "alpha", "beta", 100, Geometry { buffers: 64, ..large().geometry });
    let (eve, why) = as_user(EVE, || take(program.socket(), 32)).expect("root");
    assert!(!eve.is_empty() && eve.len() < 32, "{} endpoints: the bound is below the default of a user", eve.len());
    assert!(why.contains("memory.max"), "{why}");
    let report = watch.run(|| false);
    assert_eq!((report.lost, report.damaged), (0, 0), "{report:?}");
    println!("survived with {} endpoints", eve.len());
}

#[test]
fn a_daemon_in_a_small_control_group_is_not_killed_by_an_admitted_user_with_default_bounds() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let Some(group) = Group::of(192 * MIB) else {
        println!("skipped: this process may make no control group with memory");
        return;
    };
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "memory_bound::greedy", "--nocapture"]).env(GROUP, &group.0);
    let output = child.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("survived with"), "{said}");
}
