//! A description that is read again (SIGHUP), and what was added and removed by command meanwhile.

use crate::up::{Net, within};
use std::net::TcpListener;
use std::time::Duration;

const WAIT: Duration = Duration::from_secs(60);

impl Net {
    /// The names of what it lists.
    fn names(&self, what: &str) -> Vec<String> {
        let listed = self.done(&[what, "list"]);
        listed.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Has another description read, which has one circuit more, and waits until that is there.
    fn apply_with(&self, description: &str, circuit: &str) {
        self.apply(&format!("{description}[[circuit]]\nends = [\"alpha {circuit}\", \"beta {circuit}\"]\n"));
        within(WAIT, circuit, || self.names("circuit").contains(&pair(circuit)));
    }
}

fn pair(circuit: &str) -> String {
    format!("alpha {circuit} - beta {circuit}")
}

const NETWORK: &str = "[host.alpha]\n[host.beta]\n[[link]]\nends = [\"alpha\", \"beta\"]\n";

#[test]
fn what_was_added_and_removed_by_command_stays_so_when_the_description_is_read_again() {
    let net = Net::up(WAIT, &format!("{NETWORK}[[circuit]]\nends = [\"alpha 0.100\", \"beta 0.100\"]\n"));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("atmtcp://{}", listener.local_addr().unwrap());
    net.done(&["circuit", "add", "alpha 0.200", "beta 0.200"]);
    let link = net.done(&["link", "add", "alpha", &url])["link"].as_str().unwrap().to_owned();
    let outside = link.split(" - ").find(|end| end.starts_with("connect-")).unwrap().split(':').next().unwrap();
    net.done(&["circuit", "add", "alpha 0.300", &format!("{outside} 0.300")]);
    net.done(&["circuit", "remove", "alpha 0.100", "beta 0.100"]);
    // The connection that the added link has made outlives what follows.
    let (connection, _) = listener.accept().unwrap();
    let is_up =
        || net.done(&["link", "list"]).as_array().unwrap().iter().any(|l| l["name"] == *link && l["up"] == true);
    within(WAIT, "the link is up", is_up);

    let with_it = format!("{NETWORK}[[circuit]]\nends = [\"alpha 0.100\", \"beta 0.100\"]\n");
    net.apply_with(&with_it, "0.101");
    let all = net.names("circuit");
    assert!(!all.contains(&pair("0.100")), "a command removed it: {all:?}");
    for circuit in [pair("0.200"), format!("alpha 0.300 - {outside} 0.300")] {
        assert!(all.contains(&circuit), "no {circuit}: {all:?}");
    }
    assert!(net.names("link").contains(&link) && is_up(), "the link is not as it was");
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "it has connected anew");
    drop(connection);

    // What contradicts the description goes: its circuit 0.200 has a contract.
    let contract = with_it.replace("0.100", "0.200") + "category = \"cbr\"\npcr = \"5000 cell/s\"\n";
    net.apply_with(&contract, "0.102");
    let listed = net.done(&["circuit", "list"]);
    let categories = listed.as_array().unwrap().iter().filter(|one| one["name"] == pair("0.200").as_str());
    assert_eq!(categories.map(|one| one["category"].as_str().unwrap()).collect::<Vec<_>>(), ["cbr"]);
    let all = net.names("circuit");
    assert!(!all.contains(&pair("0.101")) && net.names("link").contains(&link), "{all:?}");
    // What was added and then removed does not come back.
    net.done(&["link", "remove", &link]);
    net.apply_with(NETWORK, "0.103");
    assert_eq!((net.names("circuit"), net.names("link").len()), (vec![pair("0.103")], 1));
}
