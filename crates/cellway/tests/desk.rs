//! Desk-area networks in a running network: a camera's frames on displays at two desks with a switch between them.

use crate::up::{Net, within};
use serde_json::Value;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

fn example() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/desk.toml")).unwrap()
}

fn desk<'a>(status: &'a Value, name: &str) -> &'a Value {
    status["desks"].as_array().unwrap().iter().find(|desk| desk["name"] == name).unwrap()
}

/// Whole frames at a display: how late they are depends on what else the machine does.
fn whole(status: &Value, at: &str, port: &str) -> u64 {
    frames(status, at, port, "shown") + frames(status, at, port, "late")
}

/// Frames that a display counts by a name.
fn frames(status: &Value, at: &str, port: &str, name: &str) -> u64 {
    desk(status, at)["ports"][port]["counters"][name]["pdus"].as_u64().unwrap()
}

#[test]
fn a_cameras_frames_are_on_displays_of_two_desks_and_a_chip_without_power_takes_them_away() {
    let net = Net::up(PATIENCE, &example());
    let status = || net.done(&["status"]);
    within(PATIENCE, "both displays show frames", || {
        let status = status();
        whole(&status, "den", "3") > 10 && whole(&status, "hall", "1") > 10
    });
    let seen = status();
    for (at, port) in [("den", "3"), ("hall", "1")] {
        // A switch is between: where this machine is late and makes up for it, that polices cells of the one behind.
        let damaged = frames(&seen, at, port, "damaged");
        assert!(damaged == 0 || (at == "hall" && damaged < whole(&seen, at, port)), "{at}: {damaged} damaged");
        assert_eq!(frames(&seen, at, port, "refused"), 0);
    }
    assert_eq!((&seen["stations"]["den"], seen["switches"].as_array().unwrap().len()), (&Value::from("desk"), 1));
    assert_eq!(desk(&seen, "den")["ports"]["0"]["station"], "laptop");
    let eye = desk(&seen, "den")["ports"]["1"]["device"].as_str().unwrap().to_owned();
    assert!(eye.starts_with("camera: 160x120, 25 frames/s"), "{eye}");
    // The laptop looks on: its chip passes as many cells to it as the camera sends, within what is under way.
    let cells =
        |chip: usize, way: &str, port: usize| desk(&seen, "den")["chips"][chip][way][port]["cells"].as_u64().unwrap();
    assert!(cells(0, "sent", 2).abs_diff(cells(1, "received", 2)) < 100);

    // The last chip of the first desk has no power: frames stop at its display and behind, and the camera goes on.
    let file = net.folder.path().join("net.toml");
    std::fs::write(&file, example().replace("chips = 4", "chips = 4\noff = [3]")).unwrap();
    let applied = net.done(&["apply", file.to_str().unwrap()]);
    assert_eq!((&applied["changed"], applied["interrupted"].as_array().unwrap().len()), (&Value::from(1), 0));
    let camera = |status: &Value| frames(status, "den", "1", "frames");
    let displays = |status: &Value| [("den", "3"), ("hall", "1")].map(|(at, port)| whole(status, at, port));
    // What was under way may come yet.
    let mut after = status();
    within(PATIENCE, "the camera goes on, and no frame comes", || {
        let before = after.clone();
        within(PATIENCE, "the camera goes on", || camera(&status()) > camera(&before) + 10);
        after = status();
        displays(&before) == displays(&after)
    });
    assert_eq!(desk(&after, "den")["chips"][3]["power"], false);

    std::fs::write(&file, example()).unwrap();
    net.done(&["apply", file.to_str().unwrap()]);
    let shown = |status: &Value| whole(status, "den", "3");
    within(PATIENCE, "frames are there again", || shown(&status()) > shown(&after) + 5);

    // A device less and another shape: what the rest carries goes on after that.
    let smaller = example().replace("shape = \"chain\"", "shape = \"shuffle\"").replace("den:5", "den:2");
    std::fs::write(&file, smaller).unwrap();
    net.done(&["apply", file.to_str().unwrap()]);
    let again = status();
    within(PATIENCE, "frames pass the shuffle", || shown(&status()) > shown(&again) + 5);
    let text = String::from_utf8(net.run(&["status"]).stdout).unwrap();
    assert!(text.contains("shuffle"), "{text}");
}
