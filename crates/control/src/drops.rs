//! What was dropped, where and why, in rows: made of a [`Status`], so that looking costs the network nothing. In: one
//! status, or two of different moments. Out: a row for each place, circuit, direction and reason.

use crate::results::drops::Dropped;
use crate::status::{CircuitStatus, CounterStatus, Status, SwitchStatus};
use std::collections::BTreeMap;

/// Drops of an endpoint that belong to no circuit; all others are counted at their circuit too.
const OF_ENDPOINT: [&str; 3] = ["bad_descriptor", "not_permitted", "unknown_circuit"];

/// Counts by reason.
type Counts = BTreeMap<String, u64>;

/// All that was dropped. Cells that a switch dropped belong to their circuits as far as the status has these, else to
/// the port.
pub fn rows(status: &Status) -> Vec<Dropped> {
    let mut rows = Vec::new();
    for link in &status.links {
        push(&mut rows, &link.name, None, "from_a", &link.from_a.sent.dropped);
        push(&mut rows, &link.name, None, "from_b", &link.from_b.sent.dropped);
    }
    let mut ports = port_drops(&status.switches);
    for circuit in &status.circuits {
        of_ends(&mut rows, circuit);
        of_hops(&mut rows, circuit, &mut ports);
    }
    for (place, rest) in &ports {
        push(&mut rows, place, None, "through", rest);
    }
    for (host, stray) in &status.stray {
        push(&mut rows, host, None, "received", &stray.dropped);
    }
    for endpoint in &status.endpoints {
        let place = format!("{} {}", endpoint.host, endpoint.endpoint);
        let own = endpoint.sent.dropped.iter().filter(|(reason, _)| OF_ENDPOINT.contains(&reason.as_str()));
        push(&mut rows, &place, None, "sent", &own.map(|(reason, n)| (reason.clone(), *n)).collect());
    }
    for adapter in &status.adapters {
        for (name, counters) in &adapter.counters {
            push(&mut rows, &adapter.name, None, name, &counters.dropped);
        }
    }
    rows
}

fn push(rows: &mut Vec<Dropped>, place: &str, circuit: Option<&str>, direction: &str, counts: &Counts) {
    rows.extend(counts.iter().filter(|(_, n)| **n > 0).map(|(reason, n)| Dropped {
        place: place.to_owned(),
        circuit: circuit.map(str::to_owned),
        direction: direction.to_owned(),
        reason: reason.clone(),
        count: *n,
    }));
}

fn port_drops(switches: &[SwitchStatus]) -> BTreeMap<String, Counts> {
    let of_switch = |switch: &SwitchStatus| {
        let name = switch.name.clone();
        let ports = switch.port_drops.clone().into_iter();
        ports.map(move |(port, counts)| (format!("{name}:{port}"), counts)).collect::<Vec<_>>()
    };
    switches.iter().flat_map(of_switch).collect()
}

fn of_ends(rows: &mut Vec<Dropped>, circuit: &CircuitStatus) {
    for end in &circuit.ends {
        let place = end.end.split(' ').next().unwrap_or_default();
        let mut counted = |direction, counters: &Option<CounterStatus>| {
            if let Some(counters) = counters {
                push(rows, place, Some(&circuit.name), direction, &counters.dropped);
            }
        };
        counted("sent", &end.sent);
        counted("received", &end.received);
    }
}

/// What switches dropped of a circuit, which is taken off what is left to their ports.
fn of_hops(rows: &mut Vec<Dropped>, circuit: &CircuitStatus, ports: &mut BTreeMap<String, Counts>) {
    for hop in &circuit.hops {
        let place = format!("{}:{}", hop.switch, hop.to_port);
        let Some(left) = ports.get_mut(&place) else { continue };
        let direction = if hop.forward { "forward" } else { "backward" };
        let mut take = |reason: &str, n: u64| {
            let of_port = left.entry(reason.to_owned()).or_default();
            let taken = n.min(*of_port);
            *of_port -= taken;
            push(rows, &place, Some(&circuit.name), direction, &Counts::from([(reason.to_owned(), taken)]));
            n - taken
        };
        take("non_conforming", hop.policed);
        take("queue_full", hop.queue_dropped);
        let rests = take("early_discard", hop.pdu_dropped);
        take("partial_discard", rests);
    }
}

/// What has been dropped between two moments. What counts less than before has begun anew.
pub fn since(before: &[Dropped], now: Vec<Dropped>) -> Vec<Dropped> {
    let key = |row: &Dropped| (row.place.clone(), row.circuit.clone(), row.direction.clone(), row.reason.clone());
    let had: BTreeMap<_, u64> = before.iter().map(|row| (key(row), row.count)).collect();
    let more = now.into_iter().map(|row| {
        let had = had.get(&key(&row)).copied().unwrap_or(0);
        let count = if row.count < had { row.count } else { row.count - had };
        Dropped { count, ..row }
    });
    more.filter(|row| row.count > 0).collect()
}

/// What somebody asks about: a circuit, or a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A circuit, by its name.
    Circuit(String),
    /// A link, a station, or a port of a switch.
    Place(String),
}

impl Subject {
    /// The circuit or place of this name, or the circuit with this end; `None` if there is none.
    pub fn named(status: &Status, name: &str) -> Option<Self> {
        let circuit = status
            .circuits
            .iter()
            .find(|circuit| circuit.name == name || circuit.ends.iter().any(|end| end.end == name));
        if let Some(circuit) = circuit {
            return Some(Subject::Circuit(circuit.name.clone()));
        }
        let station = name.split(':').next().unwrap_or_default();
        let known = status.links.iter().any(|link| link.name == name)
            || status.stations.contains_key(station)
            || status.adapters.iter().any(|adapter| adapter.name == name);
        known.then(|| Subject::Place(name.to_owned()))
    }

    /// Whether a row is about it.
    pub fn covers(&self, row: &Dropped) -> bool {
        match self {
            Subject::Circuit(name) => row.circuit.as_ref() == Some(name),
            Subject::Place(name) => {
                let within = |rest: &str| rest.is_empty() || rest.starts_with(':') && !name.contains(':');
                row.place.strip_prefix(name.as_str()).is_some_and(within)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(place: &str, reason: &str, count: u64) -> Dropped {
        let [place, direction, reason] = [place, "sent", reason].map(str::to_owned);
        Dropped { place, circuit: None, direction, reason, count }
    }

    #[test]
    fn a_difference_has_what_is_new_and_what_began_anew() {
        let before = [row("a", "crc", 3), row("b", "crc", 9), row("c", "lost", 1)];
        let now = vec![row("a", "crc", 5), row("b", "crc", 2), row("c", "lost", 1), row("d", "aborted", 4)];
        assert_eq!(since(&before, now), [row("a", "crc", 2), row("b", "crc", 2), row("d", "aborted", 4)]);
    }

    #[test]
    fn a_switch_covers_its_ports_and_no_others() {
        let subject = Subject::Place("s1".into());
        assert!(subject.covers(&row("s1", "crc", 1)) && subject.covers(&row("s1:3", "crc", 1)));
        assert!(!subject.covers(&row("s11:3", "crc", 1)) && !subject.covers(&row("s2", "crc", 1)));
        assert!(!Subject::Place("s1:1".into()).covers(&row("s1:11", "crc", 1)));
    }

    #[test]
    fn what_a_circuit_lost_at_a_port_is_not_told_of_the_port_again() {
        use crate::status::HopStatus;
        let counts = Counts::from([("non_conforming".into(), 5), ("early_discard".into(), 3), ("link_down".into(), 2)]);
        let mut ports = BTreeMap::from([("s1:1".to_owned(), counts)]);
        let hop = HopStatus {
            switch: "s1".into(),
            to_port: 1,
            forward: true,
            offered: 100,
            conformed: 96,
            tagged: 0,
            policed: 4,
            queue_dropped: 0,
            pdu_dropped: 3,
            sent: 93,
            queued: 0,
            rate_cells_per_s: None,
            contract_cells_per_s: None,
            jitter_s: None,
        };
        let circuit = CircuitStatus {
            name: "alpha 0.100 - beta 0.100".into(),
            category: "cbr".into(),
            pcr_cells_per_s: None,
            aal: "aal5".into(),
            one_way: false,
            ends: Vec::new(),
            way: Vec::new(),
            hops: vec![hop],
        };
        let mut rows = Vec::new();
        of_hops(&mut rows, &circuit, &mut ports);
        let told: Vec<_> = rows.iter().map(|row| (row.reason.as_str(), row.count)).collect();
        assert_eq!(told, [("non_conforming", 4), ("early_discard", 3)]);
        let left: Vec<_> = ports["s1:1"].iter().filter(|(_, n)| **n > 0).collect();
        assert_eq!(left, [(&"link_down".to_owned(), &2), (&"non_conforming".to_owned(), &1)]);
    }
}
