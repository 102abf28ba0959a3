//! What was sent was delivered or dropped for a reason: the sum over each element of a network.
//!
//! [`World::settle`](crate::World::settle) asks for it each time that it returns, so every test of a world does, those
//! with faults included.

use apic::desk::Desk;
use host::HostInterface;
use lanai::myrinet::Myrinet;
use net::{Carries, End, LineCounters, Network, NodeId, SwitchElement};

/// Elements whose counters do not add up, a line each.
pub fn mismatches(network: &mut Network) -> Vec<String> {
    let (mut wrong, mut lines) = (Vec::new(), Vec::new());
    for link in network.links() {
        let carries = link.config.carries;
        for (from, line, by, to) in
            [("a", link.from_a, link.ends[0], link.ends[1]), ("b", link.from_b, link.ends[1], link.ends[0])]
        {
            if !line.add_up(carries) {
                wrong.push(format!("link {:?} from {from}: {line:?}", link.id));
            }
            lines.push((by, to, carries, line));
        }
    }
    for (by, to, carries, line) in lines {
        if let End::Port(node, port) = to {
            let what = intake_mismatch(network, node, port, carries, &line);
            wrong.extend(what.map(|what| format!("{node:?}: {what}")));
        }
        if let End::Port(node, port) = by {
            let what = output_mismatch(network, node, port, carries, &line);
            wrong.extend(what.map(|what| format!("{node:?}: {what}")));
        }
    }
    let nodes: Vec<(NodeId, String)> = network.nodes().map(|(id, name)| (id, name.to_owned())).collect();
    for (id, name) in nodes {
        if let Some(switch) = network.node_mut::<SwitchElement>(id) {
            wrong.extend(switch.mismatch().map(|what| format!("switch {name}: {what}")));
        }
        if let Some(desk) = network.node_mut::<Desk>(id) {
            wrong.extend(desk.mismatch().map(|what| format!("desk {name}: {what}")));
        }
        if let Some(net) = network.node_mut::<Myrinet>(id) {
            wrong.extend(net.mismatch().map(|what| format!("Myrinet {name}: {what}")));
        }
        if let Some(host) = network.node_mut::<HostInterface>(id) {
            wrong.extend(host.mismatch().map(|what| format!("host {name}: {what}")));
        }
    }
    wrong
}

/// What is wrong if what an element took in at a port is not what its link has delivered.
fn intake_mismatch(
    network: &mut Network,
    node: NodeId,
    port: u16,
    carries: Carries,
    line: &LineCounters,
) -> Option<String> {
    if let Some(host) = network.peek_node::<HostInterface>(node) {
        return host.intake_mismatch(port, carries, line);
    }
    if let Some(switch) = network.peek_node::<SwitchElement>(node) {
        return switch.intake_mismatch(port, carries, line);
    }
    network.peek_node::<Myrinet>(node)?.intake_mismatch(port, carries, line)
}

/// What is wrong if what left an element by a port is not what its link was given.
fn output_mismatch(
    network: &mut Network,
    node: NodeId,
    port: u16,
    carries: Carries,
    line: &LineCounters,
) -> Option<String> {
    if let Some(switch) = network.peek_node::<SwitchElement>(node) {
        return switch.output_mismatch(port, carries, line);
    }
    network.peek_node::<Myrinet>(node)?.output_mismatch(port, carries, line)
}
