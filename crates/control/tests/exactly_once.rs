//! A change is made once under its id, on the revision that its client expects, and a description on trial is undone
//! unless somebody confirms it.

use crate::kept_daemon::{Kept, add, network, within};
use control::state::files::Files;
use serde_json::{Value, json};

fn up(circuits: &[u16]) -> Kept {
    Kept::up(&network(circuits), Files::default())
}

fn remove(vci: u16) -> Value {
    json!({ "remove_circuit": { "ends": [format!("alpha 0.{vci}"), format!("beta 0.{vci}")] } })
}

fn apply(circuits: &[u16], confirm_seconds: Option<u64>) -> Value {
    let mut apply = json!({ "text": network(circuits), "name": "net.toml", "folder": "", "dry_run": false });
    if let Some(seconds) = confirm_seconds {
        apply["confirm_seconds"] = seconds.into();
    }
    json!({ "apply": apply })
}

#[test]
fn a_repeated_id_is_answered_with_what_was_done_then_and_after_a_restart() {
    let mut net = up(&[100]);
    let link = json!({ "add_link": { "ends": ["alpha:1", "beta:1"] } });
    let first = net.once("link", link.clone()).unwrap();
    net.once("add", add(200)).unwrap();
    let down = json!({ "set_link": { "name": first["link"], "up": false } });
    let set = net.once("down", down.clone()).unwrap();
    let removed = net.once("remove", remove(100)).unwrap();
    let applied = net.once("apply", apply(&[101], None)).unwrap();
    let refused = net.once("no", remove(999)).unwrap_err();
    let revision = net.ask(json!("status")).unwrap()["revision"].clone();
    let again = |net: &Kept| {
        assert_eq!(net.once("link", link.clone()).unwrap(), first);
        assert_eq!(net.once("add", add(200)).unwrap()["done"], true);
        assert_eq!(net.once("down", down.clone()).unwrap(), set);
        assert_eq!(net.once("remove", remove(100)).unwrap(), removed);
        assert_eq!(net.once("apply", apply(&[101], None)).unwrap(), applied);
        assert_eq!(net.circuits(), [101, 200]);
    };
    again(&net);
    assert_eq!(net.once("no", remove(999)).unwrap_err(), refused);
    assert_eq!(net.ask(json!("status")).unwrap()["revision"], revision, "nothing was done");
    // Without an id it is another request, and so it is under another one.
    assert!(net.ask(add(200)).unwrap_err().contains("exists already"));
    assert!(net.once("more", add(200)).unwrap_err().contains("exists already"));
    assert!(net.once("add", add(201)).unwrap_err().contains("another request"));
    net.restart(&network(&[101]), Files::default());
    again(&net);
}

#[test]
fn a_change_that_expects_another_revision_is_not_made_and_says_what_has_changed_since() {
    let mut net = up(&[]);
    let revision = |net: &Kept| net.ask(json!("status")).unwrap()["revision"].as_u64().unwrap();
    let expecting = |net: &Kept, revision: u64, request: Value| {
        net.ask(json!({ "version": 2, "request": request, "expect": revision }))
    };
    let known = revision(&net);
    assert_eq!(expecting(&net, known, add(200)).unwrap()["done"], true);
    net.ask(add(201)).unwrap();
    for request in [add(202), remove(200), apply(&[100], None), json!({ "reset": { "dry_run": false } })] {
        let wrong = expecting(&net, known, request.clone()).unwrap();
        assert_eq!((&wrong["expected_revision"], &wrong["revision"]), (&json!(known), &json!(known + 2)), "{request}");
        let since = wrong["changes_since"].as_array().unwrap();
        assert_eq!((since.len(), &wrong["complete"]), (2, &json!(true)), "{wrong}");
        assert!(since[1]["what"][0].as_str().unwrap().contains("alpha 0.201"), "{wrong}");
    }
    // Under an id the answer stays, though the revision would fit now.
    let stale = json!({ "version": 2, "request": add(203), "id": "stale", "expect": known });
    let first = net.ask(stale.clone()).unwrap();
    assert_eq!(net.ask(stale).unwrap(), first);
    assert_eq!(net.circuits(), [200, 201]);
    // Numbers go on over a restart: no revision of before stands for another network.
    let before = revision(&net);
    net.restart(&network(&[]), Files::default());
    assert!(revision(&net) > before);
    assert_eq!(expecting(&net, before, add(204)).unwrap()["expected_revision"], before);
}

#[test]
fn a_description_on_trial_is_undone_in_time_and_commands_wait_for_its_end() {
    let net = up(&[100]);
    net.ask(add(200)).unwrap();
    net.ask(remove(100)).unwrap();
    assert_eq!(net.ask(apply(&[100, 101], Some(1))).unwrap()["confirm_seconds"], 1);
    assert_eq!(net.circuits(), [101, 200]);
    within("it is undone", || {
        net.daemon().undo_unconfirmed();
        let on_trial = net.daemon().controller().trial_left().is_some();
        let refused = net.ask(add(300));
        assert!(!on_trial || refused.is_ok() || refused.unwrap_err().contains("cellway confirm"));
        !on_trial
    });
    let circuits = net.circuits();
    assert!(circuits == [200] || circuits == [200, 300], "{circuits:?}");
    assert!(net.ask(json!({ "confirm": {} })).unwrap_err().contains("no description is on trial"));
}

#[test]
fn a_description_that_is_confirmed_stays_and_one_that_is_not_is_undone_by_a_restart() {
    let mut net = up(&[100]);
    net.ask(add(200)).unwrap();
    net.ask(apply(&[101], Some(3600))).unwrap();
    let status = net.ask(json!("status")).unwrap();
    assert!(status["trial_seconds"].as_u64().unwrap() > 3000);
    assert!(net.ask(add(300)).unwrap_err().contains("on trial"));
    assert!(net.ask(apply(&[102], None)).unwrap_err().contains("on trial"));
    assert_eq!(net.once("c", json!({ "confirm": {} })).unwrap()["confirmed"], true);
    assert_eq!(net.once("c", json!({ "confirm": {} })).unwrap()["confirmed"], true, "asked again");
    net.restart(&network(&[101]), Files::default());
    assert_eq!(net.circuits(), [101, 200]);
    // Undone by command.
    net.ask(apply(&[102], Some(3600))).unwrap();
    assert_eq!(net.ask(json!({ "confirm": { "undo": true } })).unwrap()["confirmed"], false);
    assert_eq!(net.circuits(), [101, 200]);
    // By the daemon's death, whose file has the description that nobody has confirmed: now and at later starts.
    net.ask(apply(&[103], Some(3600))).unwrap();
    for _ in 0..2 {
        net.restart(&network(&[103]), Files::default());
        assert_eq!(net.circuits(), [101, 200]);
    }
    // The signal that a log was rotated does not apply it; who asks for it does.
    let wanted = control::config::parse(&network(&[103]), "net.toml").unwrap();
    let refused = net.daemon().reload_with(wanted, &Default::default()).unwrap_err();
    assert!(format!("{refused:#}").contains("nobody has confirmed it"), "{refused:#}");
    net.ask(apply(&[103], None)).unwrap();
    net.restart(&network(&[103]), Files::default());
    assert_eq!(net.circuits(), [103, 200]);
    // Another file wins over what is on trial.
    net.ask(apply(&[104], Some(3600))).unwrap();
    net.restart(&network(&[105]), Files::default());
    assert_eq!(net.circuits(), [105, 200]);
}
