//! Whom a client believes, where a daemon puts its socket, and whom a service refuses: each with a user who is somebody else.

use control::config::parse;
use control::daemon::Daemon;
use endpoint::seqpacket::{Packets, Peer, TRUST_VARIABLE};
use endpoint::{Connection, Error};
use host::service::Handler;
use hostile::{Class, Field, Ground, Trial};
use net::LinkConfig;
use std::fs::Permissions;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use traffic::Contract;
use wire::CircuitId;

/// Says to this program that it is another user's, and where the socket is to be, or is.
const IMPOSTOR: &str = "HOSTILE_IMPOSTOR";
const CALLER: &str = "HOSTILE_CALLER";
const REFUSED: &str = "HOSTILE_REFUSED";
/// A user who is not this one.
const STRANGER: u32 = 65_534;

/// A test of this program, run by the stranger. `None` where this user may not become another one.
fn as_stranger(folder: &Path, test: &str, variable: &str, socket: &Path) -> Option<Child> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    // The program is where another user may not look.
    let program = folder.join("other");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    std::fs::set_permissions(folder, Permissions::from_mode(0o777)).unwrap();
    std::fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(program);
    command.args(["--exact", test]).env(variable, socket).uid(STRANGER).gid(STRANGER);
    Some(command.stdout(Stdio::null()).stderr(Stdio::inherit()).spawn().unwrap())
}

/// Not a test of its own: another user's service. It ends well if nobody has said anything to it.
#[test]
fn impostor() {
    let Ok(socket) = std::env::var(IMPOSTOR) else { return };
    let listener = Packets::listen(Path::new(&socket)).unwrap();
    std::fs::set_permissions(&socket, Permissions::from_mode(0o666)).unwrap();
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(10) {
        if let Some(client) = Packets::accept(&listener).unwrap() {
            std::thread::sleep(Duration::from_millis(200));
            let said = client.receive::<serde_json::Value>();
            std::process::exit(i32::from(matches!(said, Ok(Some(_)))));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    std::process::exit(2);
}

/// Not a test of its own: a client that has been told to believe the stranger. Its greeting gets no answer.
#[test]
fn caller() {
    let Ok(socket) = std::env::var(CALLER) else { return };
    let opened = Connection::open(Path::new(&socket));
    assert!(opened.as_ref().is_err_and(|error| !matches!(error, Error::Untrusted { .. })), "{opened:?}");
}

#[test]
fn a_client_says_nothing_to_a_service_of_another_user_unless_that_one_is_named() {
    for named in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let Some(mut impostor) = as_stranger(folder.path(), "trust::impostor", IMPOSTOR, &socket) else { return };
        let patience = Instant::now() + Duration::from_secs(10);
        while std::fs::metadata(&socket).map_or(0, |found| found.permissions().mode()) & 0o777 != 0o666 {
            assert!(Instant::now() < patience, "nobody listens");
            std::thread::sleep(Duration::from_millis(5));
        }
        if named {
            let mut caller = Command::new(std::env::current_exe().unwrap());
            caller.args(["--exact", "trust::caller"]).env(CALLER, &socket).env(TRUST_VARIABLE, STRANGER.to_string());
            let output = caller.output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        } else {
            let opened = Connection::open(&socket);
            assert!(matches!(opened, Err(Error::Untrusted { uid: STRANGER, .. })), "{opened:?}");
        }
        assert_eq!(impostor.wait().unwrap().code(), Some(i32::from(named)), "1: it was greeted");
    }
}

#[test]
fn a_daemon_puts_its_socket_where_nobody_else_can_exchange_it() {
    let start = |socket: &Path| Daemon::start(parse("[host.alpha]\n", "net.toml").unwrap(), socket);
    let outer = tempfile::tempdir().unwrap();
    // A folder that the daemon makes is its user's alone.
    let own = outer.path().join("own");
    let daemon = start(&own.join("socket")).unwrap();
    assert_eq!(std::fs::metadata(&own).unwrap().permissions().mode() & 0o7777, 0o700);
    // Without rules, only this user reaches the socket.
    assert_eq!(std::fs::metadata(own.join("socket")).unwrap().permissions().mode() & 0o777, 0o600);
    drop(daemon);
    for (mode, may) in [(0o700, true), (0o755, true), (0o770, false), (0o707, false), (0o777, false), (0o1777, true)] {
        let folder = outer.path().join(format!("{mode:o}"));
        std::fs::create_dir(&folder).unwrap();
        std::fs::set_permissions(&folder, Permissions::from_mode(mode)).unwrap();
        let started = start(&folder.join("socket"));
        assert_eq!(started.is_ok(), may, "{mode:o}: {:?}", started.err());
        assert_eq!(folder.join("socket").exists(), may, "{mode:o}");
    }
    if rustix::process::geteuid().is_root() {
        let theirs = outer.path().join("theirs");
        std::fs::create_dir(&theirs).unwrap();
        std::fs::set_permissions(&theirs, Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::chown(&theirs, Some(STRANGER), None).unwrap();
        let refused = start(&theirs.join("socket")).map(drop).unwrap_err().to_string();
        assert!(refused.contains("belongs to user 65534"), "{refused}");
    }
}

#[test]
fn what_has_taken_the_place_of_the_socket_keeps_its_rights() {
    let folder = tempfile::tempdir().unwrap();
    let (socket, secret) = (folder.path().join("socket"), folder.path().join("secret"));
    std::fs::write(&secret, "secret").unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let config = |rules: &str| parse(&format!("[host.alpha]\n{rules}"), "net.toml").unwrap();
    let rule = format!("[[allow]]\nusers = [{STRANGER}]\ncircuits = [\"*\"]\n");
    let daemon = Daemon::start(config(""), &socket).unwrap();
    daemon.reload(config(&rule)).unwrap();
    assert_eq!(mode(&socket), 0o666);
    daemon.reload(config("")).unwrap();
    assert_eq!(mode(&socket), 0o600);
    for taken in ["a symbolic link", "a file"] {
        std::fs::remove_file(&socket).unwrap();
        if taken == "a file" {
            std::fs::rename(&secret, &socket).unwrap();
        } else {
            std::os::unix::fs::symlink(&secret, &socket).unwrap();
        }
        std::fs::set_permissions(&socket, Permissions::from_mode(0o600)).unwrap();
        daemon.reload(config(&rule)).unwrap();
        assert_eq!(mode(&socket), 0o600, "{taken}");
        daemon.reload(config("")).unwrap();
    }
}

#[test]
fn a_folder_for_the_socket_is_looked_at_where_it_leads() {
    let start = |socket: &Path| Daemon::start(parse("[host.alpha]\n", "net.toml").unwrap(), socket);
    let outer = tempfile::tempdir().unwrap();
    let (real, link) = (outer.path().join("real"), outer.path().join("link"));
    std::os::unix::fs::symlink(&real, &link).unwrap();
    assert!(start(&link.join("socket")).is_err(), "it leads nowhere");
    std::fs::create_dir(&real).unwrap();
    for (mode, may) in [(0o700, true), (0o777, false)] {
        std::fs::set_permissions(&real, Permissions::from_mode(mode)).unwrap();
        assert_eq!(start(&link.join("socket")).is_ok(), may, "{mode:o}");
    }
    std::fs::write(outer.path().join("file"), "").unwrap();
    assert!(start(&outer.path().join("file").join("socket")).is_err());
    if rustix::process::geteuid().is_root() {
        std::fs::set_permissions(&real, Permissions::from_mode(0o700)).unwrap();
        std::os::unix::fs::lchown(&link, Some(STRANGER), None).unwrap();
        let refused = start(&link.join("socket")).map(drop).unwrap_err().to_string();
        assert!(refused.contains("belongs to user 65534"), "{refused}");
    }
}

/// The stranger has no right to anything.
struct NoStranger;

impl Handler for NoStranger {
    fn admit(&self, peer: Peer) -> Result<(), String> {
        if peer.uid == STRANGER { Err("no rule names you".into()) } else { Ok(()) }
    }
    fn may_open(&self, _: Peer, _: &str, _: CircuitId) -> Result<(), String> {
        Ok(())
    }
    fn manage(&self, _: Peer, _: serde_json::Value, _: Vec<OwnedFd>) -> Result<String, String> {
        Err("nothing to manage here".into())
    }
}

/// Not a test of its own: a user who is refused, and does not take it for an answer.
#[test]
fn refused() {
    let Ok(socket) = std::env::var(REFUSED) else { return };
    let mut kept = Vec::new();
    loop {
        assert!(Connection::open(Path::new(&socket)).is_err());
        kept.extend((0..50).filter_map(|_| Packets::connect(Path::new(&socket)).ok()));
        if kept.len() > 800 {
            kept.clear();
        }
    }
}

#[test]
fn a_user_who_is_refused_keeps_nobody_out_however_often_they_connect() {
    fn ground() -> Ground {
        let ground = Ground::build()
            .handler(Arc::new(NoStranger))
            .host("alpha")
            .host("beta")
            .link("alpha", "beta", LinkConfig::default())
            .circuit("alpha 0.100", "beta 0.100", Contract::default())
            .up();
        std::fs::set_permissions(ground.socket(), Permissions::from_mode(0o666)).unwrap();
        ground
    }
    Trial::new(Class::Other, ground).length(Duration::from_secs(1)).withstand(|ground, attack| {
        let folder = ground.socket().parent().unwrap();
        let Some(mut eve) = as_stranger(folder, "trust::refused", REFUSED, ground.socket()) else { return };
        let mut slowest = Duration::ZERO;
        while attack.goes_on() {
            let begin = Instant::now();
            drop(Connection::open(ground.socket()).unwrap());
            slowest = slowest.max(begin.elapsed());
            std::thread::sleep(Duration::from_millis(10));
        }
        let goes_on = eve.try_wait().unwrap().is_none();
        eve.kill().unwrap();
        eve.wait().unwrap();
        assert!(goes_on, "the attack has failed");
        attack.took("another user's connection", slowest, Duration::from_millis(500));
    });
}
