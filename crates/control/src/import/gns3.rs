//! A project of GNS3 (`.gns3`): its nodes of the type `atm_switch` with their mappings, and the links at these.

use super::tables::{Entry, Tables};
use anyhow::{Context as _, Result, bail};
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
struct Project {
    topology: Topology,
}

#[derive(Deserialize)]
struct Topology {
    #[serde(default)]
    nodes: Vec<Node>,
    #[serde(default)]
    links: Vec<Link>,
}

#[derive(Deserialize)]
struct Node {
    node_id: String,
    name: String,
    node_type: String,
    #[serde(default)]
    properties: Properties,
}

#[derive(Default, Deserialize)]
struct Properties {
    #[serde(default)]
    mappings: BTreeMap<String, serde_json::Value>,
}

#[derive(Deserialize)]
struct Link {
    nodes: Vec<LinkEnd>,
}

#[derive(Deserialize)]
struct LinkEnd {
    node_id: String,
    #[serde(default)]
    port_number: u16,
}

pub(super) fn read(text: &str) -> Result<Tables> {
    let project: Project = serde_json::from_str(text).context("no project of GNS3")?;
    let nodes = project.topology.nodes;
    let by_id: BTreeMap<&str, &Node> = nodes.iter().map(|node| (node.node_id.as_str(), node)).collect();
    let mut tables = Tables::default();
    for node in nodes.iter().filter(|node| node.node_type == "atm_switch") {
        tables.switches.entry(node.name.clone()).or_default();
        for (from, to) in &node.properties.mappings {
            match (Entry::parse(from), to.as_str().and_then(Entry::parse)) {
                (Some(from), Some(to)) => tables.map(&node.name, from, to),
                _ => tables.remarks.push(format!("{}: the mapping {from} = {to} is none: left out", node.name)),
            }
        }
    }
    if tables.switches.is_empty() {
        bail!("the project has no ATM switch");
    }
    for link in &project.topology.links {
        let ends: Option<Vec<(&Node, u16)>> =
            link.nodes.iter().map(|end| Some((*by_id.get(end.node_id.as_str())?, end.port_number))).collect();
        let Some([a, b]) = ends.as_deref() else { continue };
        if [a, b].iter().any(|(node, _)| node.node_type == "atm_switch") {
            // The ports of other nodes are numbered otherwise.
            tables.links.push(
                [a, b].map(|(node, port)| (node.name.clone(), (node.node_type == "atm_switch").then_some(*port))),
            );
        }
    }
    let others =
        nodes.iter().filter(|node| ["frame_relay_switch", "ethernet_switch"].contains(&node.node_type.as_str()));
    tables.remarks.extend(others.map(|node| format!("{} is no ATM switch: left out", node.name)));
    Ok(tables)
}
