//! What a client of the management protocol's version before says is understood by this daemon: its messages are kept as
//! they were written.

use crate::up::Net;
use endpoint::seqpacket::Packets;
use serde_json::Value;
use std::time::Duration;

const WAIT: Duration = Duration::from_secs(30);
const CLIENT: &str = include_str!("protocol/client-1.json");
const NETWORK: &str = "[host.alpha]\n[host.beta]\n[[link]]\nends = [\"alpha\", \"beta\"]\n";

/// An answer whole: its kind, and its text.
fn answer(service: &Packets) -> (String, String) {
    let mut all = String::new();
    loop {
        let (answer, _fds) = service.receive::<Value>().unwrap().expect("the service is there");
        // An answer without members is its name alone.
        let kind = answer.as_str().map(str::to_owned);
        let kind = kind.or_else(|| answer.as_object()?.keys().next().cloned()).expect("a kind of answer");
        let Some(text) = answer["managed"]["text"].as_str() else { return (kind, answer.to_string()) };
        all.push_str(text);
        if answer["managed"]["last"] == true {
            return (kind, all);
        }
    }
}

#[test]
fn what_a_client_of_the_version_before_says_is_understood() {
    let net = Net::up(WAIT, NETWORK);
    let service = Packets::connect(&net.folder.path().join("s")).unwrap();
    let steps: Vec<Value> = serde_json::from_str(CLIENT).unwrap();
    assert!(steps.len() > 5);
    for step in steps {
        service.send(&step["says"], &[]).unwrap();
        let (kind, text) = answer(&service);
        assert_eq!(kind, step["hears"], "{}: {text}", step["says"]);
        if let Some(with) = step["with"].as_str() {
            assert!(text.contains(with), "{}: {text}", step["says"]);
        }
        assert!(!text.contains("not understood"), "{}: {text}", step["says"]);
    }
}
