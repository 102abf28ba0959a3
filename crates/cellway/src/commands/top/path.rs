//! One circuit hop by hop: its ends, the links and the switches between them, each with rates. In: two statuses. Out: a
//! [`TopPath`] in the order of the circuit, from its first end.

use super::counters::{Clock, by_name, circuit_name, dropped_at, host_of, link_name, link_state, of_end};
use control::results::top::{TopHop, TopPath};
use control::status::{CircuitStatus, CounterStatus, EndStatus, HopStatus, LinkStatus, Status};
use std::collections::{BTreeSet, HashMap};

/// The circuit of this name, or with this end.
pub(crate) fn circuit_named<'a>(status: &'a Status, name: &str) -> Option<&'a CircuitStatus> {
    status.circuits.iter().find(|circuit| circuit.name == name || circuit.ends.iter().any(|end| end.end == name))
}

/// What the hops of a circuit are made of.
struct Walk<'a> {
    circuit: &'a CircuitStatus,
    before: Option<&'a CircuitStatus>,
    links: HashMap<&'a str, &'a LinkStatus>,
    links_before: HashMap<&'a str, &'a LinkStatus>,
    clock: Clock,
}

/// The hops of the circuit of this name; `None` if there is none.
pub(super) fn path(status: &Status, earlier: Option<&Status>, name: &str, clock: Clock) -> Option<TopPath> {
    let circuit = circuit_named(status, name)?;
    let before =
        earlier.and_then(|earlier| by_name(&earlier.circuits, circuit_name).get(circuit.name.as_str()).copied());
    let links_before = earlier.map(|earlier| by_name(&earlier.links, link_name)).unwrap_or_default();
    let walk = Walk { circuit, before, links: by_name(&status.links, link_name), links_before, clock };
    Some(TopPath { circuit: circuit.name.clone(), hops: walk.hops() })
}

/// The station of an end of a link's name.
fn stations(link: &str) -> Option<[&str; 2]> {
    let (a, b) = link.split_once(" - ")?;
    Some([a, b].map(host_of))
}

impl Walk<'_> {
    fn hops(&self) -> Vec<TopHop> {
        let Some((first, others)) = self.circuit.ends.split_first() else { return Vec::new() };
        let mut seen = BTreeSet::from([host_of(&first.end).to_owned()]);
        let mut hops = vec![self.end(0, first)];
        for label in &self.circuit.way {
            let link = label.rsplit_once(' ').map_or(label.as_str(), |(link, _)| link);
            let Some([a, b]) = stations(link) else { continue };
            let from_a = seen.contains(a);
            let next = if from_a { b } else { a };
            hops.push(self.link(label, link, from_a));
            if seen.insert(next.to_owned()) {
                hops.extend(self.switch(next));
            }
        }
        hops.extend(others.iter().zip(1..).map(|(end, nth)| self.end(nth, end)));
        hops
    }

    fn end(&self, nth: usize, end: &EndStatus) -> TopHop {
        let rates = of_end(end, self.before.and_then(|before| before.ends.get(nth)), self.clock);
        let (away, back) = (rates.sent_pdus_per_s, rates.received_pdus_per_s);
        let note = match (&rates.opener, &rates.open) {
            (Some(opener), Some(aal)) => format!("{aal}, {}[{}] of user {}", opener.program, opener.pid, opener.uid),
            (None, Some(aal)) => aal.clone(),
            (_, None) if end.sent.is_some() => "not open".to_owned(),
            _ => "outside".to_owned(),
        };
        let note = if rates.alarms.is_empty() { note } else { format!("{}; {note}", rates.alarms.join(", ")) };
        TopHop {
            place: rates.end,
            kind: "end".to_owned(),
            forward_per_s: if nth == 0 { away } else { back },
            backward_per_s: if nth == 0 { back } else { away },
            queued: 0,
            dropped_per_s: rates.dropped_per_s,
            note,
        }
    }

    fn link(&self, label: &str, name: &str, from_a: bool) -> TopHop {
        let (now, before) = (self.links.get(name), self.links_before.get(name));
        let delivered = |link: &&LinkStatus, a: bool| {
            let of: &CounterStatus = if a { &link.from_a.delivered } else { &link.from_b.delivered };
            of.cells.max(of.pdus)
        };
        let lost = |link: &&LinkStatus| {
            [&link.from_a, &link.from_b].map(|of| of.sent.dropped.values().sum::<u64>()).iter().sum::<u64>()
        };
        let rate = |a: bool| {
            now.map_or(0.0, |now| self.clock.rate(delivered(now, a), before.map(|before| delivered(before, a))))
        };
        TopHop {
            place: label.to_owned(),
            kind: "link".to_owned(),
            forward_per_s: rate(from_a),
            backward_per_s: rate(!from_a),
            queued: now.map_or(0, |now| now.from_a.queued + now.from_b.queued),
            dropped_per_s: now.map_or(0.0, |now| self.clock.rate(lost(now), before.map(lost))),
            note: now.map_or_else(String::new, |now| link_state(now)),
        }
    }

    /// A switch, if it tells of the circuit.
    fn switch(&self, name: &str) -> Option<TopHop> {
        let here: Vec<&HopStatus> = self.circuit.hops.iter().filter(|hop| hop.switch == name).collect();
        if here.is_empty() {
            return None;
        }
        let before = |hop: &HopStatus| {
            let same = |other: &&HopStatus| {
                (&other.switch, other.to_port, other.forward) == (&hop.switch, hop.to_port, hop.forward)
            };
            self.before.and_then(|before| before.hops.iter().find(same))
        };
        let rate = |hop: &HopStatus, of: fn(&HopStatus) -> u64| self.clock.rate(of(hop), before(hop).map(of));
        let sent = |forward: bool| {
            here.iter().filter(|hop| hop.forward == forward).map(|hop| rate(hop, |hop| hop.sent)).sum::<f64>()
        };
        let contract = here.iter().find_map(|hop| hop.contract_cells_per_s);
        Some(TopHop {
            place: name.to_owned(),
            kind: "switch".to_owned(),
            forward_per_s: sent(true),
            backward_per_s: sent(false),
            queued: here.iter().map(|hop| hop.queued).sum(),
            dropped_per_s: here.iter().map(|hop| rate(hop, dropped_at)).sum(),
            note: contract.map_or_else(String::new, |rate| format!("contract {rate:.0} cell/s")),
        })
    }
}
