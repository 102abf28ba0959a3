//! Circuits that are written switch by switch: each switch has a table of ports and labels, and one line of it maps two
//! of them onto each other. Lines that meet on a link, with the same label there, are one circuit.
//!
//! In: circuits as they are written, and the links between stations. Out: the circuits that they form, each with its
//! labels in `via`.

use super::Circuit;
use net::topology::{CircuitEnd, Router, Station};
use std::collections::HashMap;

/// A circuit that is written with an end at a switch's port, and its ends.
#[derive(Debug, Clone)]
struct Segment {
    place: usize,
    ends: [CircuitEnd; 2],
}

/// What some written circuits form together.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Joined {
    /// The circuit.
    pub(crate) circuit: Circuit,
    /// The places of those that form it, in their order.
    pub(crate) members: Vec<usize>,
}

/// Segments that cannot be one circuit: the place of one of them, the key, and what is wrong.
pub(crate) type Unjoined = (usize, &'static str, String);

/// Whether a circuit may be a part of another: it has an end at a station's port.
pub(crate) fn may_join(circuit: &Circuit) -> bool {
    circuit.ends.len() == 2 && circuit.ends.iter().any(|end| end.contains(':'))
}

/// The circuits that these form; circuits that form nothing are left out. Ends of channels at a switch's port with a
/// host, or something outside, at the far end of the link are those of that station.
pub(crate) fn join(circuits: &[Circuit], router: &Router) -> (Vec<Joined>, Vec<Unjoined>) {
    let segments: Vec<Segment> = circuits
        .iter()
        .enumerate()
        .filter(|(_, circuit)| may_join(circuit))
        .filter_map(|(place, circuit)| {
            let ends: Vec<CircuitEnd> = circuit.ends.iter().filter_map(|end| end.parse().ok()).collect();
            let ends: [CircuitEnd; 2] = ends.try_into().ok()?;
            Some(Segment { place, ends })
        })
        .collect();
    let by_end: HashMap<&CircuitEnd, usize> =
        segments.iter().enumerate().flat_map(|(n, segment)| segment.ends.iter().map(move |end| (end, n))).collect();
    let mut used = vec![false; segments.len()];
    let (mut joined, mut wrong) = (Vec::new(), Vec::new());
    for n in 0..segments.len() {
        if used[n] {
            continue;
        }
        let chain = chain(n, &segments, &by_end, router);
        chain.iter().for_each(|(n, _)| used[*n] = true);
        match of_chain(&chain, &segments, circuits, router) {
            Ok(circuit) => {
                let members: Vec<usize> = chain.iter().map(|(n, _)| segments[*n].place).collect();
                if circuit != circuits[segments[n].place] || members.len() > 1 {
                    joined.push(Joined { circuit, members });
                }
            }
            Err(unjoined) => wrong.push(unjoined),
        }
    }
    (joined, wrong)
}

/// The same end of a circuit as its far station has it, where that is no switch.
pub(crate) fn settled(end: &CircuitEnd, router: &Router) -> CircuitEnd {
    let beyond = || {
        let port = end.port.filter(|_| !end.path && router.station(&end.station) == Some(Station::Switch))?;
        let (station, port, kind) = router.neighbour(&end.station, port)?;
        let port = (router.links_at(station) > 1).then_some(port);
        let end = CircuitEnd { port, ..CircuitEnd::new(station, end.circuit) };
        (kind != Station::Switch).then_some(end)
    };
    beyond().unwrap_or_else(|| end.clone())
}

/// The end of another segment that would continue this one: the far end of the link, with the same label.
pub(crate) fn continuation(end: &CircuitEnd, router: &Router) -> Option<CircuitEnd> {
    let port = end.port.filter(|_| router.station(&end.station) == Some(Station::Switch))?;
    let (station, port, kind) = router.neighbour(&end.station, port)?;
    let continued = CircuitEnd { station: station.to_owned(), port: Some(port), ..end.clone() };
    (kind == Station::Switch).then_some(continued)
}

/// All segments that are one with the `n`th, each with whether it is passed from its second end to its first.
fn chain(n: usize, segments: &[Segment], by_end: &HashMap<&CircuitEnd, usize>, router: &Router) -> Vec<(usize, bool)> {
    let walk = |from_second: bool| {
        let mut walked: Vec<(usize, bool)> = Vec::new();
        let mut end = &segments[n].ends[usize::from(from_second)];
        while let Some(next) = continuation(end, router).and_then(|entry| Some((*by_end.get(&entry)?, entry))) {
            let (other, entry) = next;
            if other == n || walked.iter().any(|(seen, _)| *seen == other) {
                break;
            }
            let entered_by_first = segments[other].ends[0] == entry;
            walked.push((other, entered_by_first));
            end = &segments[other].ends[usize::from(entered_by_first)];
        }
        walked
    };
    // Before the `n`th, one that is entered by its first end is passed from its second to its first on the way there.
    let mut chain = walk(false);
    chain.reverse();
    let after = walk(true).into_iter().map(|(n, by_first)| (n, !by_first));
    chain.push((n, false));
    for next in after {
        if chain.iter().all(|(seen, _)| *seen != next.0) {
            chain.push(next);
        }
    }
    chain
}

/// The circuit of a chain of segments.
fn of_chain(
    chain: &[(usize, bool)],
    segments: &[Segment],
    circuits: &[Circuit],
    router: &Router,
) -> Result<Circuit, Unjoined> {
    let ends = |(n, reversed): (usize, bool)| {
        let [first, second] = &segments[n].ends;
        if reversed { [second, first] } else { [first, second] }
    };
    let written = |n: usize| &circuits[segments[n].place];
    let plain = |circuit: &Circuit| Circuit { ends: Vec::new(), via: Vec::new(), ..circuit.clone() };
    let Some((first, _)) = chain.first() else { return Ok(Circuit::default()) };
    let all = plain(written(*first));
    let mut via: Vec<String> = Vec::new();
    for (nth, (n, reversed)) in chain.iter().copied().enumerate() {
        let (place, own) = (segments[n].place, written(n));
        if plain(own) != all {
            let says = format!(
                "this and `{}` are one circuit, since they meet on links with the same label: give both the same keys",
                written(*first).ends.join(" - ")
            );
            return Err((place, "ends", says));
        }
        if reversed && (own.one_way || own.back.is_some()) {
            let says = "this is passed from its second end to its first: write its ends in the other order";
            return Err((place, "ends", says.to_owned()));
        }
        if nth > 0 {
            via.push(ends((n, reversed))[0].to_string());
        }
        let labels = own.via.iter().cloned();
        if reversed { via.extend(labels.rev()) } else { via.extend(labels) }
    }
    let (from, to) = (ends(chain[0])[0], ends(chain[chain.len() - 1])[1]);
    if chain.len() > 1 && continuation(to, router).as_ref() == Some(from) {
        let says = "these mappings lead in a circle: a circuit has two ends";
        return Err((segments[chain[0].0].place, "ends", says.to_owned()));
    }
    // Ends stay as they are written where nothing else is meant.
    let text = |end: &CircuitEnd, written: &str| {
        let meant = settled(end, router);
        if meant == *end { written.to_owned() } else { meant.to_string() }
    };
    let as_written =
        |(n, reversed): (usize, bool), second: bool| written(n).ends[usize::from(second != reversed)].as_str();
    let last = chain[chain.len() - 1];
    let ends = vec![text(from, as_written(chain[0], false)), text(to, as_written(last, true))];
    Ok(Circuit { ends, via, ..all })
}
