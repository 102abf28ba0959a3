//! Another name of a host or switch: nothing that passes is interrupted, and the description, exports and restarts know it.

use control::audit::Who;
use control::config::parse;
use control::controller::Controller;
use control::daemon::{Daemon, DaemonOptions};
use control::status;
use endpoint::{ChannelId, Endpoint, EndpointConfig, OpenOptions};
use std::path::Path;
use std::time::Duration;
use wire::CircuitId;

const NETWORK: &str = r#"
[host.alpha]
[host.beta]
[switch.s1]
[switch.s2]
[[link]]
ends = ["alpha", "s1:0"]
[[link]]
ends = ["s1:1", "s2:1"]
[[link]]
ends = ["beta", "s2:0"]
follows = "s1:1 - s2:1"
[[circuit]]
ends = ["alpha 0.100", "beta 0.100"]
via = ["s1:1 7.7"]
[[circuit]]
ends = ["s1:0 9.*", "s2:0 9.*"]
"#;

fn rename(controller: &Controller, from: &str, to: &str) -> Result<(), String> {
    let renamed = controller.rename(from, to, &Who::Operator, &|_| Ok(()));
    renamed.map(drop).map_err(|e| format!("{e:#}"))
}

fn names(controller: &Controller) -> Vec<String> {
    controller.objects().into_iter().map(|(id, ..)| id.to_string()).collect()
}

fn open(socket: &Path, host: &str) -> (Endpoint, ChannelId) {
    let config = EndpointConfig { host: host.into(), ..EndpointConfig::default() };
    let mut endpoint = Endpoint::create(socket, &config).unwrap();
    let channel = endpoint.open(CircuitId::new(0, 100).unwrap(), OpenOptions::default()).unwrap();
    (endpoint, channel)
}

/// A PDU passes between two ends that are open.
fn passes(from: &mut (Endpoint, ChannelId), to: &mut (Endpoint, ChannelId), word: &str) {
    from.0.send_copy(from.1, word.as_bytes()).unwrap();
    let got = to.0.receive(Some(Duration::from_secs(120))).unwrap().unwrap_or_else(|| panic!("`{word}` has not come"));
    assert_eq!(&got[..], word.as_bytes());
}

#[test]
fn circuits_and_endpoints_stay_as_they_are_while_their_stations_get_other_names() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s");
    let daemon = Daemon::start(parse(NETWORK, "x").unwrap(), &socket).unwrap();
    let controller = daemon.controller();
    let (mut alpha, mut beta) = (open(&socket, "alpha"), open(&socket, "beta"));
    passes(&mut alpha, &mut beta, "before");
    rename(controller, "s1", "core").unwrap();
    passes(&mut alpha, &mut beta, "a switch has another name");
    rename(controller, "beta", "delta").unwrap();
    passes(&mut alpha, &mut beta, "a host has another name");
    passes(&mut beta, &mut alpha, "and back");
    // All that there is has the new names.
    let all = names(controller);
    for name in ["station core", "station delta", "circuit alpha 0.100 - delta 0.100", "link core:1 - s2:1"] {
        assert!(all.iter().any(|other| other == name), "{name}: {all:?}");
    }
    let exported = controller.with_intent(|intent| control::export::exported(intent).unwrap().description);
    assert!(exported.contains("core:1 7.7") && !exported.contains("s1") && !exported.contains("beta"), "{exported}");
    control::description::rehearse(&parse(&exported, "x").unwrap()).unwrap();
    let seen = status::collect(controller).unwrap();
    let circuit = seen.circuits.iter().find(|c| c.name == "alpha 0.100 - delta 0.100");
    assert!(circuit.is_some_and(|c| format!("{c:?}").contains("core")), "{:?}", seen.circuits);
    // Who has it open is known by its former name, and new ones come by the new one.
    let path = control::path::of(controller, "beta", "0.100").unwrap();
    assert_eq!(path, control::path::of(controller, "delta", "0.100").unwrap());
    drop(beta);
    let mut delta = open(&socket, "delta");
    passes(&mut alpha, &mut delta, "to a new endpoint");

    // The description still has the former names; then it has the new ones itself.
    for text in [NETWORK.to_owned(), NETWORK.replace("s1", "core").replace("beta", "delta")] {
        let outcome = daemon.reload(parse(&text, "x").unwrap()).unwrap();
        assert_eq!((outcome.summary.added, outcome.summary.removed), (0, 0), "{:?}", outcome.lines);
        assert!(outcome.interrupted.is_empty(), "{:?}", outcome.interrupted);
        passes(&mut alpha, &mut delta, "after a reload");
    }
    // Its time is over: a description with the former name has another station.
    let outcome = daemon.reload(parse(NETWORK, "x").unwrap()).unwrap();
    assert!(outcome.summary.added > 0 && outcome.summary.removed > 0, "{:?}", outcome.lines);
}

#[test]
fn a_name_that_a_command_gave_outlives_the_daemon() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s");
    let options = || DaemonOptions { state: Some(folder.path().join("state")), ..DaemonOptions::default() };
    let daemon = Daemon::start_with(parse(NETWORK, "x").unwrap(), &socket, &options()).unwrap();
    rename(daemon.controller(), "s1", "core").unwrap();
    rename(daemon.controller(), "core", "middle").unwrap();
    assert_eq!(daemon.controller().not_kept(Duration::from_secs(60)), None);
    drop(daemon);
    let daemon = Daemon::start_with(parse(NETWORK, "x").unwrap(), &socket, &options()).unwrap();
    let all = names(daemon.controller());
    assert!(all.contains(&"station middle".into()) && !all.contains(&"station s1".into()), "{all:?}");
    // Back to the name that the description has.
    rename(daemon.controller(), "middle", "s1").unwrap();
    assert!(names(daemon.controller()).contains(&"station s1".into()));
}

#[test]
fn what_cannot_be_renamed_is_refused_and_stays() {
    let folder = tempfile::tempdir().unwrap();
    let calls = "[host.gamma]\n[switch.s3]\nprefix = \"47000580ffe100000000000001\"\n[[link]]\nends = [\"gamma\", \"s3:0\"]\n\
        signalling = { version = \"uni31\" }\n";
    let daemon = Daemon::start(parse(&(NETWORK.to_owned() + calls), "x").unwrap(), &folder.path().join("s")).unwrap();
    let before = names(daemon.controller());
    for (from, to, says) in [
        ("nobody", "x", "no host and no switch"),
        ("alpha", "beta", "another station"),
        ("alpha", "a b", "no name"),
        ("alpha", "a:1", "no name"),
        ("gamma", "x", "signalling"),
        ("s3", "x", "signalling"),
    ] {
        let e = rename(daemon.controller(), from, to).unwrap_err();
        assert!(e.contains(says), "{from} {to}: {e}");
    }
    assert_eq!(names(daemon.controller()), before);
}
