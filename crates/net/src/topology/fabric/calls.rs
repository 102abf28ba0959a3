//! Circuits of calls: what signalling joins in one switch after another becomes a path of one contract, as a permanent
//! circuit has from the start. Each switch polices by the contract with the tolerance of its input, which grows from
//! hop to hop.
//!
//! A call is answered from its far end, so the switch that cells reach last is joined first. Whichever switch is joined
//! later tells those behind it by how much the delays of cells may differ where they come in.

use super::{CircuitTable, Fabric, ROUNDING};
use crate::frame::FrameAal;
use crate::line::Side;
use crate::network::{Network, NodeId};
use crate::switch::{Label, RouteOptions, SwitchElement};
use crate::topology::inventory::other;
use crate::topology::{LinkKey, TopologyError};
use std::collections::BTreeMap;
use std::time::Duration;
use traffic::{Category, Contract};
use wire::CircuitId;

/// Inputs that one change may reach: a path is shorter, and a circle ends here.
const MAX_REACHED: usize = 1024;

/// A circuit on a link, at the switch at one of its ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Point {
    link: LinkKey,
    side: Side,
    circuit: CircuitId,
}

impl Point {
    /// The same circuit at the link's other end.
    fn across(self) -> Self {
        Point { side: other(self.side), ..self }
    }
}

/// A port of a switch and a circuit there.
type PortCircuit = (u16, CircuitId);

/// What comes in at a point, for one or several outputs.
#[derive(Debug)]
struct Input {
    /// The switch. It goes after its links, and with them all that comes in there.
    node: NodeId,
    from: PortCircuit,
    to: Vec<(PortCircuit, Point)>,
    contract: Contract,
    /// By how much delays of cells may differ where they come in, as the switch has been told.
    variation: Duration,
}

// Each call has two in each switch.
const _: () = assert!(size_of::<Input>() <= 160);

/// The circuits of calls through switches, each direction apart.
#[derive(Debug, Default)]
pub(super) struct CallTable {
    /// Boxed: circuits are mostly added in their order, so the tree's nodes are half empty.
    inputs: BTreeMap<Point, Box<Input>>,
    /// The input of what leaves at a point.
    outputs: BTreeMap<Point, Point>,
}

/// A call's contract as a switch keeps it: there is no ABR, whose cells are those of best effort. The peak of best
/// effort is not policed, which TM 4.1 leaves to the network (UBR.1): Linux names its adapter's line rate there and
/// does not keep it where cells travel in a stream of octets, which brings what has waited at once.
fn kept(contract: Contract) -> Contract {
    match contract.category {
        Category::Ubr => Contract { pcr: None, ..contract },
        Category::Abr => Contract { cdvt: contract.cdvt, ..Contract::default() },
        _ => contract,
    }
}

fn options(contract: Contract, variation: Duration) -> RouteOptions {
    RouteOptions { aal: FrameAal::Aal5, contract: contract.delayed_by(variation + ROUNDING) }
}

fn label((port, circuit): PortCircuit) -> (u16, Label) {
    (port, Label::Vc(circuit))
}

impl<H: CircuitTable + 'static> Fabric<H> {
    /// Joins a call's circuits at two ports of a switch, with contracts from the first to the second and back.
    ///
    /// # Errors
    /// A circuit is in use, a port has no link, or the switch refuses; nothing has changed.
    pub fn join_call(
        &mut self,
        network: &mut Network,
        switch: &str,
        ends: [(u16, CircuitId); 2],
        contracts: [Contract; 2],
    ) -> Result<(), TopologyError> {
        for end in ends {
            let point = self.point(switch, end)?;
            let node = self.node(switch).and_then(|id| network.node_mut::<SwitchElement>(id));
            if node.is_some_and(|node| node.has_route(end.0, Label::Vc(end.1))) {
                let link = self.router.link_name(point.link).unwrap_or_default();
                return Err(TopologyError::LabelInUse { label: Label::Vc(end.1), link });
            }
        }
        let [a, b] = ends;
        self.branch_call(network, switch, [a, b], contracts[0])?;
        self.branch_call(network, switch, [b, a], contracts[1])
            .inspect_err(|_| self.prune_call(network, switch, [a, b]))
    }

    /// Lets a call's circuit at one port of a switch go out at another port too, with this contract.
    ///
    /// # Errors
    /// A port has no link, or the switch refuses; nothing has changed.
    pub fn branch_call(
        &mut self,
        network: &mut Network,
        switch: &str,
        [from, to]: [(u16, CircuitId); 2],
        contract: Contract,
    ) -> Result<(), TopologyError> {
        let (input, output) = (self.point(switch, from)?, self.point(switch, to)?);
        let (contract, variation) = (kept(contract), self.variation_into(input));
        let node = self.node(switch).ok_or_else(|| TopologyError::NoStation(switch.to_owned()))?;
        let table = self.table(network, node).ok_or_else(|| TopologyError::NoStation(switch.to_owned()))?;
        table
            .add_route(label(from), label(to), options(contract, variation))
            .map_err(|cause| TopologyError::Route { switch: switch.to_owned(), cause })?;
        let empty = || Box::new(Input { node, from, to: Vec::with_capacity(1), contract, variation });
        let known = self.calls.inputs.entry(input).or_insert_with(empty);
        known.to.push((to, output));
        self.calls.outputs.insert(output, input);
        self.promise(network, contract, [input.across(), output], true);
        self.tell_behind(network, input).inspect_err(|_| self.prune_call(network, switch, [from, to]))
    }

    /// Ends one branch of a call's circuit in a switch; what is not there is passed over.
    pub fn prune_call(&mut self, network: &mut Network, switch: &str, [from, to]: [(u16, CircuitId); 2]) {
        if let Some(table) = self.node(switch).and_then(|node| self.table(network, node)) {
            table.remove_route(from.0, Label::Vc(from.1), Some(to.0));
        }
        let Ok(input) = self.point(switch, from) else { return };
        let Some(known) = self.calls.inputs.get_mut(&input) else { return };
        let (contract, Some(at)) = (known.contract, known.to.iter().position(|(place, _)| *place == to)) else {
            return;
        };
        let (_, output) = known.to.remove(at);
        if known.to.is_empty() {
            self.calls.inputs.remove(&input);
        }
        self.calls.outputs.remove(&output);
        self.promise(network, contract, [input.across(), output], false);
    }

    /// Ends a call's circuits in a switch, in both directions; what is not there is passed over.
    pub fn part_call(&mut self, network: &mut Network, switch: &str, ends: [(u16, CircuitId); 2]) {
        let [a, b] = ends;
        self.prune_call(network, switch, [a, b]);
        self.prune_call(network, switch, [b, a]);
    }

    /// A link is gone, with the circuits of calls on it; its switches still have their routes.
    pub(super) fn forget_calls(&mut self, network: &mut Network, link: LinkKey) {
        let first = |side| Point { link, side, circuit: CircuitId::default() };
        let on_link = |point: &Point| point.link == link;
        let from = first(Side::A.min(Side::B));
        let inputs: Vec<Point> = self.calls.inputs.range(from..).map(|(point, _)| *point).take_while(on_link).collect();
        let outputs = self.calls.outputs.range(from..).take_while(|(point, _)| on_link(point));
        let leaving: Vec<(Point, Point)> = outputs.map(|(output, input)| (*output, *input)).collect();
        for point in inputs {
            let Some(Input { to, contract, .. }) = self.calls.inputs.remove(&point).map(|input| *input) else {
                continue;
            };
            for (_, output) in to {
                self.calls.outputs.remove(&output);
                self.promise(network, contract, [point.across(), output], false);
            }
        }
        for (output, input) in leaving {
            self.calls.outputs.remove(&output);
            let Some(known) = self.calls.inputs.get_mut(&input) else { continue };
            known.to.retain(|(_, point)| *point != output);
            let (contract, empty) = (known.contract, known.to.is_empty());
            if empty {
                self.calls.inputs.remove(&input);
            }
            self.promise(network, contract, [input.across(), output], false);
        }
    }

    fn point(&self, switch: &str, (port, circuit): PortCircuit) -> Result<Point, TopologyError> {
        let none = || TopologyError::NoLinkAt { station: switch.to_owned(), port };
        let (link, side) = self.router.link_at(switch, port).ok_or_else(none)?;
        Ok(Point { link, side, circuit })
    }

    /// By how much the delays of cells may differ at an input: what the switch before it saw, and the link between.
    fn variation_into(&self, input: Point) -> Duration {
        let before = self.calls.outputs.get(&input.across()).and_then(|before| self.calls.inputs.get(before));
        self.router.link_variation(input.link) + before.map_or(Duration::ZERO, |before| before.variation)
    }

    /// Tells the switches behind an input what they get to see.
    fn tell_behind(&mut self, network: &mut Network, input: Point) -> Result<(), TopologyError> {
        let mut reached = vec![input];
        let mut at = 0;
        while let Some(point) = reached.get(at).copied().filter(|_| at < MAX_REACHED) {
            at += 1;
            let Some(known) = self.calls.inputs.get(&point) else { continue };
            let next: Vec<Point> = known.to.iter().map(|(_, output)| output.across()).collect();
            for behind in next {
                let variation = self.variation_into(behind);
                let Some(known) = self.calls.inputs.get_mut(&behind).filter(|known| known.variation != variation)
                else {
                    continue;
                };
                known.variation = variation;
                let (from, node, options) = (known.from, known.node, options(known.contract, variation));
                let outputs: Vec<PortCircuit> = known.to.iter().map(|(place, _)| *place).collect();
                if let Some(table) = self.table(network, node) {
                    for to in outputs {
                        if let Err(cause) = table.change_route(label(from), label(to), options) {
                            let switch = network.node_name(node).unwrap_or_default().to_owned();
                            return Err(TopologyError::Route { switch, cause });
                        }
                    }
                }
                reached.push(behind);
            }
        }
        Ok(())
    }

    /// Counts a contract at the senders of the links before and behind a switch: where something is promised of a link,
    /// its queue is short.
    fn promise(&mut self, network: &mut Network, contract: Contract, senders: [Point; 2], more: bool) {
        if contract.reserved().is_none() {
            return;
        }
        for Point { link, side, .. } in senders {
            self.router.count_call(link, side, more);
            if let Some(id) = self.link_id(link) {
                network.set_link_window(id, side, self.router.window(link, side));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::FramePool;
    use crate::network::LinkConfig;
    use crate::node::{Node, NodeIo};
    use crate::switch::SwitchElementConfig;
    use crate::topology::{CircuitDescription, CircuitOptions, LinkDescription};
    use std::any::Any;
    use wire::{CellRate, Time};

    /// A fabric without hosts.
    struct NoHost;

    impl Node for NoHost {
        fn run(&mut self, _: &mut NodeIo<'_>, _: Time) -> bool {
            false
        }
        fn poll_timeout(&self) -> Option<Time> {
            None
        }
        fn as_any_mut(&mut self) -> &mut dyn Any {
            self
        }
    }

    impl CircuitTable for NoHost {
        fn add_circuit(&mut self, _: u16, _: CircuitId, _: &CircuitOptions) -> Result<(), String> {
            Ok(())
        }
        fn remove_circuit(&mut self, _: u16, _: CircuitId) {}
    }

    fn id(text: &str) -> CircuitId {
        text.parse().unwrap()
    }

    /// near - s1 - s2 - s3 - far, each link slower than the one before, and run every millisecond.
    fn fabric() -> (Network, Fabric<NoHost>) {
        let (mut network, mut fabric) = (Network::new(FramePool::new(8, 64)), Fabric::new());
        fabric.set_round(Duration::from_millis(1));
        for name in ["near", "far"] {
            fabric.add_outside(name).unwrap();
        }
        for name in ["s1", "s2", "s3"] {
            fabric.add_switch(&mut network, name, SwitchElementConfig::default()).unwrap();
        }
        for (ends, cells_per_s) in
            [(["near", "s1:0"], 4e5), (["s1:1", "s2:0"], 3e5), (["s2:1", "s3:0"], 2e5), (["s3:1", "far"], 1e5)]
        {
            let config = LinkConfig { rate: CellRate::from_cells_per_s(cells_per_s), ..LinkConfig::default() };
            let link = LinkDescription { ends: ends.map(|end| end.parse().unwrap()), config };
            fabric.add_link(&mut network, &link).unwrap();
        }
        (network, fabric)
    }

    fn cbr(cells_per_s: f64) -> Contract {
        let pcr = CellRate::from_cells_per_s(cells_per_s);
        Contract { category: Category::Cbr, pcr, cdvt: Duration::from_millis(1), ..Contract::default() }
    }

    const CIRCUITS: [&str; 4] = ["0.1024", "0.1025", "0.1026", "0.1027"];

    fn ends(nth: usize) -> [(u16, CircuitId); 2] {
        [(0, id(CIRCUITS[nth])), (1, id(CIRCUITS[nth + 1]))]
    }

    fn windows(fabric: &Fabric<NoHost>) -> Vec<[bool; 2]> {
        let keys = fabric.router.links().map(|(key, ..)| key);
        keys.map(|key| [Side::A, Side::B].map(|side| fabric.router.window(key, side).is_some())).collect()
    }

    #[test]
    fn switches_tolerate_of_a_call_what_they_tolerate_of_a_permanent_circuit_in_whatever_order_they_are_joined() {
        let (mut network, mut fabric) = fabric();
        let permanent = CircuitDescription {
            ends: vec!["near 0.100".parse().unwrap(), "far 0.100".parse().unwrap()],
            contract: cbr(10.0),
            back: Some(cbr(20.0)),
            ..CircuitDescription::default()
        };
        fabric.add_circuit(&mut network, &permanent).unwrap();
        let placed = fabric.router.find_circuit(&permanent.ends[0]).unwrap();
        let mut expected: Vec<_> = fabric
            .routes_of(placed)
            .into_iter()
            .map(|(route, options)| (route.switch.to_owned(), route.from.0, options.contract))
            .collect();
        expected.sort_by_key(|(switch, port, _)| (switch.clone(), *port));
        assert_eq!(expected.len(), 6);
        for order in [[2, 1, 0], [0, 1, 2], [1, 2, 0], [0, 2, 1]] {
            for nth in order {
                let switch = ["s1", "s2", "s3"][nth];
                fabric.join_call(&mut network, switch, ends(nth), [cbr(10.0), cbr(20.0)]).unwrap();
            }
            let kept = |input: &Input| {
                let switch = network.node_name(input.node).unwrap().to_owned();
                (switch, input.from.0, options(input.contract, input.variation).contract)
            };
            let mut calls: Vec<_> = fabric.calls.inputs.values().map(|input| kept(input)).collect();
            calls.sort_by_key(|(switch, port, _)| (switch.clone(), *port));
            assert_eq!(calls, expected, "{order:?}");
            for nth in order {
                fabric.part_call(&mut network, ["s1", "s2", "s3"][nth], ends(nth));
            }
            assert!(fabric.calls.inputs.is_empty() && fabric.calls.outputs.is_empty());
        }
    }

    #[test]
    fn queues_before_links_are_short_while_a_call_was_promised_a_rate_there() {
        let (mut network, mut fabric) = fabric();
        let plain = Contract::default();
        for (contracts, short) in [([plain; 2], [false; 2]), ([cbr(10.0), plain], [true, false])] {
            for nth in 0..3 {
                fabric.join_call(&mut network, ["s1", "s2", "s3"][nth], ends(nth), contracts).unwrap();
            }
            assert_eq!(windows(&fabric), [short; 4]);
            // A second join finds its labels taken, and changes nothing.
            assert!(fabric.join_call(&mut network, "s1", ends(0), contracts).is_err());
            let trunk = fabric.find_link("s2:1 - s3:0").unwrap();
            fabric.remove_link(&mut network, trunk).unwrap();
            for nth in 0..3 {
                fabric.part_call(&mut network, ["s1", "s2", "s3"][nth], ends(nth));
            }
            assert_eq!(windows(&fabric), [[false; 2]; 3]);
            assert!(fabric.calls.inputs.is_empty() && fabric.calls.outputs.is_empty());
            for name in ["s1", "s2", "s3"] {
                let node = fabric.node(name).unwrap();
                assert_eq!(network.node_mut::<SwitchElement>(node).unwrap().routes().count(), 0);
            }
            let config = LinkConfig { rate: CellRate::from_cells_per_s(2e5), ..LinkConfig::default() };
            let link = LinkDescription { ends: ["s2:1", "s3:0"].map(|end| end.parse().unwrap()), config };
            fabric.add_link(&mut network, &link).unwrap();
        }
    }

    #[test]
    fn best_effort_is_not_held_to_the_peak_that_it_names_and_promised_rates_are() {
        let (mut network, mut fabric) = fabric();
        // What a stock Linux asks for: its adapter's line rate.
        let line = Contract { category: Category::Ubr, ..cbr(353_207.0) };
        fabric.join_call(&mut network, "s1", ends(0), [line, cbr(10.0)]).unwrap();
        let policed = |from: u16| {
            let input = fabric.calls.inputs.values().find(|input| input.from.0 == from).unwrap();
            options(input.contract, input.variation).contract.peak().is_some()
        };
        assert_eq!([policed(0), policed(1)], [false, true]);
    }

    #[test]
    fn a_branch_of_a_root_is_policed_as_the_root_and_ends_alone() {
        let (mut network, mut fabric) = fabric();
        let link =
            LinkDescription { ends: ["s1:2", "other"].map(|end| end.parse().unwrap()), config: LinkConfig::default() };
        fabric.add_outside("other").unwrap();
        fabric.add_link(&mut network, &link).unwrap();
        let (root, leaves) = ((0, id("0.1024")), [(1, id("0.1025")), (2, id("0.1030"))]);
        for leaf in leaves {
            fabric.branch_call(&mut network, "s1", [root, leaf], cbr(10.0)).unwrap();
        }
        fabric.branch_call(&mut network, "s2", ends(1), cbr(10.0)).unwrap();
        let behind =
            fabric.calls.inputs.values().find(|input| network.node_name(input.node) == Some("s2")).unwrap().variation;
        assert_eq!(behind, Duration::from_nanos(203 * 2500 + 203 * 10_000 / 3) + Duration::from_millis(2));
        fabric.prune_call(&mut network, "s1", [root, leaves[0]]);
        let node = fabric.node("s1").unwrap();
        let route = network.node_mut::<SwitchElement>(node).unwrap().routes().next().unwrap();
        assert_eq!(route.branches.iter().map(|branch| branch.port).collect::<Vec<_>>(), [2]);
        fabric.prune_call(&mut network, "s1", [root, leaves[1]]);
        assert_eq!(network.node_mut::<SwitchElement>(node).unwrap().routes().count(), 0);
    }
}
