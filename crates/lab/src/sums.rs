//! What was sent was delivered or dropped for a reason: the sum over each element of a network.
//!
//! [`World::settle`](crate::World::settle) asks for it each time that it returns, so every test of a world does, those
//! with faults included.

use adapter::desk::Desk;
use adapter::myrinet::Myrinet;
use host::HostInterface;
use net::{End, Network, NodeId, Switch};

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
            if let Some(host) = network.peek_node::<HostInterface>(node) {
                wrong.extend(host.intake_mismatch(port, carries, &line).map(|what| format!("host {node:?}: {what}")));
            }
            if let Some(net) = network.peek_node::<Myrinet>(node) {
                wrong.extend(net.intake_mismatch(port, carries, &line).map(|what| format!("Myrinet {node:?}: {what}")));
            }
        }
        if let End::Port(node, port) = by
            && let Some(net) = network.peek_node::<Myrinet>(node)
        {
            wrong.extend(net.output_mismatch(port, carries, &line).map(|what| format!("Myrinet {node:?}: {what}")));
        }
    }
    let nodes: Vec<(NodeId, String)> = network.nodes().map(|(id, name)| (id, name.to_owned())).collect();
    for (id, name) in nodes {
        if let Some(switch) = network.node_mut::<Switch>(id) {
            wrong.extend(of_switch(switch).map(|what| format!("switch {name}: {what}")));
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

/// Cells that a route took went to each branch, wait there or were dropped there. Routes that convert count PDUs on one side.
fn of_switch(switch: &Switch) -> impl Iterator<Item = String> {
    let routes = switch.routes().filter(|route| route.received.pdus == 0 && route.received.dropped_total() == 0);
    let wrong = routes.filter_map(|route| {
        let short = route.branches.iter().find(|branch| {
            let out = branch.sent.cells.wrapping_add(branch.sent.dropped_total()).wrapping_add(branch.queued);
            branch.sent.pdus == 0 && out != route.received.cells
        })?;
        Some(format!("{:?} of {:?}", short, route.received))
    });
    wrong.collect::<Vec<_>>().into_iter()
}
