//! A daemon that dies at any call that writes its state is started anew, and has the state that it was to have or the
//! one before. A disk that is full, read-only or stalls is told of, and holds up nobody.

use crate::failing_files::{Failing, Mode};
use crate::kept_daemon::{Kept, WAIT, add, network, turn, within};
use control::objects::ObjectId;
use control::sources::commands;
use control::state::StateFolder;
use control::state::files::Files;
use control::state::stored::Stored;
use rustix::io::Errno;
use serde_json::{Value, json};

/// More calls than any change makes.
const MOST_CALLS: usize = 40;

fn stored(n: usize) -> Stored {
    let down = (0..n).map(|i| ObjectId::Link(format!("a - s:{i}"), 0)).collect();
    let commands = commands::Kept { down, ..commands::Kept::default() };
    Stored { revision: n as u64, commands, ..Stored::default() }
}

#[test]
fn a_kill_or_a_power_cut_at_any_call_of_a_state_write_leaves_that_state_or_the_one_before() {
    let _turn = turn();
    for power in [false, true] {
        let mut points = 0;
        for calls in 0..MOST_CALLS {
            let (folder, failing) = (tempfile::tempdir().unwrap(), Failing::new());
            let path = folder.path().join("state");
            let mut state = StateFolder::open_with(&path, failing.files()).unwrap();
            assert_eq!(state.read(false).unwrap(), None);
            (1..3).for_each(|n| state.write(&stored(n)).unwrap());
            failing.set(Mode::DiesAfter(calls));
            let done = state.write(&stored(3)).is_ok();
            let died = failing.calls() > calls;
            drop(state);
            if power {
                failing.cut_power(&path);
            }
            let found = StateFolder::open(&path).unwrap().read(false).unwrap().map(|stored| stored.revision);
            assert!(found == Some(3) || found == Some(2) && !done, "after {calls} calls: {found:?}, done: {done}");
            points += usize::from(died);
            if !died {
                break;
            }
        }
        assert!((6..MOST_CALLS).contains(&points), "{points}");
    }
}

#[test]
fn a_change_whose_daemon_dies_at_any_call_is_in_force_once_when_it_is_asked_for_again() {
    for calls in 0..MOST_CALLS {
        let failing = Failing::new();
        let mut net = Kept::up(&network(&[100]), failing.files());
        failing.set(Mode::DiesAfter(calls));
        let answer = net.once("a", add(200)).unwrap();
        let died = failing.calls() > calls;
        assert_eq!(answer["not_kept"].is_string(), died, "after {calls} calls: {answer}");
        net.restart(&network(&[100]), Files::default());
        let found = net.circuits();
        assert!(found == [100, 200] || found == [100] && died, "after {calls} calls: {found:?}");
        // The client has had no answer, and asks again.
        let again = net.once("a", add(200)).unwrap();
        assert_eq!(again["done"], true, "after {calls} calls");
        assert_eq!(net.circuits(), [100, 200]);
        if !died {
            assert!(calls > 6, "{calls}");
            return;
        }
    }
    panic!("a change makes more than {MOST_CALLS} calls");
}

#[test]
fn an_apply_on_trial_whose_daemon_dies_at_any_call_is_undone_or_was_not_made() {
    let (old, new) = (network(&[100]), network(&[100, 101]));
    for calls in 0..MOST_CALLS {
        let failing = Failing::new();
        let mut net = Kept::up(&old, failing.files());
        net.ask(add(200)).unwrap();
        failing.set(Mode::DiesAfter(calls));
        let apply = json!({ "apply": { "text": &new, "name": "net.toml", "folder": "", "dry_run": false,
            "exact": true, "confirm_seconds": 3600 } });
        let applied = net.once("a", apply);
        let died = failing.calls() > calls;
        let was = net.circuits();
        match &applied {
            Ok(_) => assert_eq!(was, [100, 101], "after {calls} calls"),
            Err(why) => assert!(was == [100, 200] && why.contains("nothing was changed"), "{calls}: {was:?}, {why}"),
        }
        // Its operator's file has the new description.
        net.restart(&new, Files::default());
        let found = net.circuits();
        match applied {
            Ok(_) => assert_eq!(found, [100, 200], "after {calls} calls: nobody has confirmed it"),
            // It starts from the file, with what commands had added; or from what was before.
            Err(_) => assert!(found == [100, 101, 200] || found == [100, 200], "after {calls} calls: {found:?}"),
        }
        if !died {
            assert!(calls > 6, "{calls}");
            return;
        }
    }
    panic!("an apply makes more than {MOST_CALLS} calls");
}

#[test]
fn a_disk_that_is_full_or_read_only_is_told_and_nothing_is_lost_once_it_is_not() {
    for errno in [Errno::NOSPC, Errno::ROFS] {
        let failing = Failing::new();
        let mut net = Kept::up(&network(&[]), failing.files());
        let told = |net: &Kept| net.ask(json!("status")).unwrap()["state"]["not_kept"].as_str().map(str::to_owned);
        assert_eq!(told(&net), None);
        failing.set(Mode::Refuses(errno));
        let why = std::io::Error::from(errno).to_string();
        for vci in 200..203 {
            let answer = net.ask(add(vci)).unwrap();
            assert!(answer["not_kept"].as_str().unwrap().contains(&why), "{answer}");
        }
        assert_eq!(net.circuits(), [200, 201, 202], "they are in force");
        assert!(told(&net).unwrap().contains(&why));
        failing.set(Mode::Works);
        within("all is kept", || told(&net).is_none());
        net.restart(&network(&[]), Files::default());
        assert_eq!(net.circuits(), [200, 201, 202]);
        let log = std::fs::read_to_string(net.state().join("audit.jsonl")).unwrap();
        let adds = log.lines().filter(|line| serde_json::from_str::<Value>(line).unwrap()["verb"] == "add");
        assert_eq!(adds.count(), 3, "{log}");
    }
}

#[test]
fn a_disk_that_stalls_is_told_and_neither_the_network_nor_a_change_waits_for_it() {
    let failing = Failing::new();
    let mut net = Kept::up(&network(&[]), failing.files());
    failing.set(Mode::Stalls);
    let controller = net.daemon().controller().clone();
    let circuit = control::config::Circuit { ends: vec!["alpha 0.200".into(), "beta 0.200".into()], ..circuit() };
    let spec = control::objects::Spec::Circuit(circuit.describe().unwrap());
    let written = control::sources::commands::Written::Circuit(Box::new(circuit));
    controller.add(spec, None, Some(written), &control::audit::Who::Operator, &|_| Ok(())).unwrap();
    within("the stall is told", || {
        // Each look is a command between two rounds.
        assert_eq!(net.circuits(), [200]);
        let status = net.ask(json!("status")).unwrap();
        status["state"]["not_kept"].as_str().is_some_and(|why| why.contains("the disk has taken more than"))
    });
    failing.set(Mode::Works);
    assert_eq!(controller.not_kept(WAIT), None);
    drop(controller);
    net.restart(&network(&[]), Files::default());
    assert_eq!(net.circuits(), [200]);
}

fn circuit() -> control::config::Circuit {
    serde_json::from_value(json!({ "ends": [] })).unwrap()
}
