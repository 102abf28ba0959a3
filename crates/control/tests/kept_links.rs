//! Links that commands removed and added in the place of a description's, then and after a restart.

use crate::kept_daemon::Kept;
use control::audit::Who;
use control::config::parse;
use control::controller::Applying;
use control::state::files::Files;
use serde_json::json;

#[test]
fn a_host_whose_link_with_signalling_a_command_removed_signals_at_another() {
    let text = "[host.alpha]\n[switch.s1]\nprefix = \"47000580ffe100000000000001\"\n\
         [switch.s2]\nprefix = \"47000580ffe100000000000002\"\n\
         [[link]]\nends = [\"alpha\", \"s1:0\"]\nsignalling = { version = \"uni40\" }\n";
    let mut net = Kept::up(text, Files::default());
    let signal = |net: &Kept| {
        let interfaces = net.daemon().controller().calls().report().interfaces.into_iter();
        let mut stations: Vec<String> = interfaces.map(|interface| interface.station).collect();
        stations.sort();
        stations
    };
    net.ask(json!({ "remove_link": { "name": "alpha - s1:0" } })).unwrap();
    net.ask(json!({ "add_link": { "ends": ["alpha", "s2:0"], "signalling": { "version": "uni40" } } })).unwrap();
    assert_eq!(signal(&net), ["alpha", "s2"]);
    net.restart(text, Files::default());
    assert_eq!(signal(&net), ["alpha", "s2"]);
    // The description by itself has its own back, and a host has one.
    let exactly = Applying { exact: true, ..Applying::default() };
    net.daemon().controller().apply(parse(text, "net.toml").unwrap(), &Who::Operator, &|_| Ok(()), exactly).unwrap();
    assert_eq!(signal(&net), ["alpha", "s1"]);
}
