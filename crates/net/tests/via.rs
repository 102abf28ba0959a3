//! Circuits whose description names links on their way: the labels are those, and the way is over them.

use net::LinkConfig;
use net::topology::{CircuitDescription, LinkDescription, Router, StationKind, TopologyError};

/// Two hosts behind a square of four switches, A to D.
fn router() -> Router {
    let mut router = Router::new();
    for host in ["r1", "r2"] {
        router.add_station(host, StationKind::Host).unwrap();
    }
    for switch in ["A", "B", "C", "D"] {
        router.add_station(switch, StationKind::Switch(net::SwitchElementConfig::default())).unwrap();
    }
    for [a, b] in [["r1", "A:1"], ["A:2", "B:1"], ["B:2", "D:2"], ["A:3", "C:1"], ["C:2", "D:3"], ["D:1", "r2"]] {
        let link = LinkDescription { ends: [a.parse().unwrap(), b.parse().unwrap()], config: LinkConfig::default() };
        router.add_link(&link).unwrap();
    }
    router
}

fn circuit(ends: &[&str], via: &[&str]) -> CircuitDescription {
    let [ends, via] = [ends, via].map(|all| all.iter().map(|end| end.parse().unwrap()).collect());
    CircuitDescription { ends, via, ..CircuitDescription::default() }
}

/// The label on each link of the way.
fn labels(router: &mut Router, circuit: &CircuitDescription) -> Result<Vec<String>, TopologyError> {
    let hops = router.add_circuit(circuit)?.route.hops.clone();
    let name = |hop: &net::topology::Hop| format!("{} {}", router.link_name(hop.link).unwrap(), hop.label);
    Ok(hops.iter().map(name).collect())
}

#[test]
fn a_circuit_passes_the_links_that_it_names_with_their_labels() {
    let mut router = router();
    let over_c = circuit(&["r1 0.100", "r2 0.200"], &["A:3 8.35", "C:2 9.36"]);
    let expected = ["r1:0 - A:1 0.100", "A:3 - C:1 8.35", "C:2 - D:3 9.36", "D:1 - r2:0 0.200"];
    assert_eq!(labels(&mut router, &over_c).unwrap(), expected);
    let routes = router.switch_hops(router.find_circuit(&over_c.ends[0]).unwrap()).len();
    assert_eq!(routes, 6, "two at each of three switches");
    // One link of the way is named; the label of the next is free to choose.
    let by_one = labels(&mut router, &circuit(&["r1 0.101", "r2 0.101"], &["D:3 7.7"])).unwrap();
    assert_eq!(by_one, ["r1:0 - A:1 0.101", "A:3 - C:1 0.101", "C:2 - D:3 7.7", "D:1 - r2:0 0.101"]);
    // Every link is named, those of the ends too.
    let all = circuit(&["r1 0.102", "r2 0.103"], &["A:1 0.102", "A:2 0.52", "B:1 0.52", "B:2 0.53", "D:1 0.103"]);
    let expected = ["r1:0 - A:1 0.102", "A:2 - B:1 0.52", "B:2 - D:2 0.53", "D:1 - r2:0 0.103"];
    assert_eq!(labels(&mut router, &all).unwrap(), expected);
}

#[test]
fn what_cannot_be_is_refused_and_takes_nothing() {
    let mut router = router();
    labels(&mut router, &circuit(&["r1 0.99", "r2 0.99"], &["A:2 5.5"])).unwrap();
    let mut refused = |ends: &[&str], via: &[&str]| labels(&mut router, &circuit(ends, via)).unwrap_err();
    let ends = ["r1 0.100", "r2 0.100"];
    assert!(matches!(refused(&ends, &["A:2 5.5"]), TopologyError::LabelInUse { .. }));
    assert!(matches!(refused(&ends, &["A:9 5.6"]), TopologyError::NoLinkAt { port: 9, .. }));
    assert!(matches!(refused(&ends, &["A 5.6"]), TopologyError::EndsAtSwitch(_)));
    assert!(matches!(refused(&ends, &["A:2 5.6", "B:1 5.7"]), TopologyError::TwoLabels { .. }));
    assert!(matches!(refused(&ends, &["A:1 5.6"]), TopologyError::TwoLabels { .. }));
    assert!(matches!(refused(&ends, &["A:2 7.*"]), TopologyError::MixedEnds));
    // Forth over B and back over it is no way.
    assert!(matches!(refused(&ends, &["D:2 0.61", "A:2 0.62"]), TopologyError::NoWay { .. }));
    let many = ["r1 0.100", "r2 0.100", "A:3 0.100"];
    assert_eq!(refused(&many, &["A:2 5.6"]), TopologyError::ViaManyEnds);
    assert_eq!(router.circuit_count(), 1);
}
