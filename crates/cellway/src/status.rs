//! `cellway status`: links, circuits and endpoints, with what passed and what was dropped and why.

use crate::adapters::Adapters;
use crate::config::Config;
use crate::manage::{Request, ask};
use crate::{Context, client, output};
use anyhow::Result;
use clap::Args;
use host::engine::Core;
use net::topology::{CircuitDescription, Station};
use serde_json::{Map, Value, json};
use std::time::Duration;
use wire::Counters;

/// Shows links, circuits and endpoints.
#[derive(Debug, Args)]
pub(crate) struct Status {
    /// Show it again each second until Ctrl-C
    #[arg(long)]
    watch: bool,
}

pub(crate) fn counters(c: &Counters) -> Value {
    let dropped: Map<String, Value> = c.drops().map(|(reason, n)| (reason.name().to_owned(), n.into())).collect();
    json!({ "cells": c.cells, "pdus": c.pdus, "octets": c.octets, "dropped": dropped })
}

/// A circuit's name in output: its ends.
pub(crate) fn circuit_name(c: &CircuitDescription) -> String {
    c.ends.iter().map(ToString::to_string).collect::<Vec<_>>().join(" - ")
}

/// Everything, on the engine's thread.
pub(crate) fn collect(core: &mut Core, adapters: &Adapters, config: &Config) -> Value {
    let mut links = Vec::new();
    for (id, description, _) in core.fabric.links() {
        let Some(info) = core.network.link_info(id) else { continue };
        let outside = core.network.externals().find(|(link, _)| *link == id).map(|(_, e)| e.status());
        links.push(json!({
            "name": core.fabric.link_name(id),
            "carries": format!("{:?}", info.config.carries).to_lowercase(),
            "rate_cells_per_s": info.config.rate.map(|r| r.cells_per_s()),
            "up": info.up,
            "enabled": info.enabled,
            "outside": outside,
            "ends": description.ends.each_ref().map(ToString::to_string),
            "from_a": { "sent": counters(&info.from_a.sent), "delivered": counters(&info.from_a.delivered) },
            "from_b": { "sent": counters(&info.from_b.sent), "delivered": counters(&info.from_b.delivered) },
        }));
    }
    let described: Vec<CircuitDescription> = core.fabric.circuits().cloned().collect();
    let mut circuits = Vec::new();
    for description in &described {
        let ends: Vec<Value> = description
            .ends
            .iter()
            .map(|end| {
                let status = core
                    .host(&end.station)
                    .and_then(|(_, host)| host.circuits().into_iter().find(|c| c.circuit == end.circuit));
                match status {
                    Some(s) => json!({
                        "end": end.to_string(), "open": s.open, "endpoint": s.endpoint.map(|e| e.0),
                        "sent": counters(&s.sent), "received": counters(&s.received),
                    }),
                    None => json!({ "end": end.to_string() }),
                }
            })
            .collect();
        circuits.push(json!({
            "name": circuit_name(description),
            "category": description.contract.category.name(),
            "pcr_cells_per_s": description.contract.pcr.map(|r| r.cells_per_s()),
            "ends": ends,
        }));
    }
    let mut endpoints = Vec::new();
    let mut stray = Map::new();
    let names: Vec<String> = core.fabric.stations().map(|(name, _)| name.to_owned()).collect();
    for name in names {
        let Some((_, host)) = core.host(&name) else { continue };
        stray.insert(name.clone(), counters(host.stray()));
        for e in host.endpoints() {
            endpoints.push(json!({
                "host": name, "endpoint": e.id.0, "events": e.events, "event_counts": e.event_counts,
                "path": e.path, "channels": e.channels, "segment_octets": e.segment_octets, "sent": counters(&e.sent),
                "received": counters(&e.received),
            }));
        }
    }
    let hosts: Map<String, Value> = config.file.host.iter().map(|(n, h)| (n.clone(), json!({ "ip": h.ip }))).collect();
    let kind = |station| match station {
        Station::Host => "host",
        Station::Switch => "switch",
        Station::Outside => "outside",
    };
    let stations: Map<String, Value> = core.fabric.stations().map(|(n, s)| (n.to_owned(), kind(s).into())).collect();
    let adapters = adapters.report(core);
    json!({
        "stations": stations, "hosts": hosts, "links": links, "circuits": circuits, "endpoints": endpoints,
        "stray": stray, "adapters": adapters,
    })
}

fn number(v: &Value) -> String {
    v.as_u64().map_or_else(String::new, |n| n.to_string())
}

fn drops(v: &Value) -> String {
    let all = v["dropped"].as_object().map(|m| m.iter().map(|(k, n)| format!("{k} {n}")).collect::<Vec<_>>());
    all.unwrap_or_default().join(", ")
}

fn list<'a>(v: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    v[key].as_array().into_iter().flatten()
}

/// The links as a table.
pub(crate) fn links_text(status: &Value) -> String {
    let mut rows = Vec::new();
    for link in list(status, "links") {
        let name = link["name"].as_str().unwrap_or_default();
        for (direction, arrow) in [("from_a", "->"), ("from_b", "<-")] {
            let (sent, delivered) = (&link[direction]["sent"], &link[direction]["delivered"]);
            let state = match (link["enabled"].as_bool(), link["up"].as_bool(), link["outside"].as_str()) {
                (Some(false), ..) => "taken down (`cellway link up`)".into(),
                (_, _, Some(outside)) => outside.to_owned(),
                (_, Some(false), None) => "down".into(),
                _ => String::new(),
            };
            let state = if direction == "from_a" { state } else { String::new() };
            rows.push(vec![
                format!("{} {arrow}", if direction == "from_a" { name } else { "" }),
                number(&sent["cells"]),
                number(&delivered["cells"]),
                number(&delivered["pdus"]),
                drops(sent),
                state,
            ]);
        }
    }
    output::table(&["link", "cells in", "cells out", "PDUs out", "dropped", "state"], &rows)
}

/// The circuits as a table.
pub(crate) fn circuits_text(status: &Value) -> String {
    let mut rows = Vec::new();
    for circuit in list(status, "circuits") {
        for end in list(circuit, "ends") {
            rows.push(vec![
                end["end"].as_str().unwrap_or_default().to_owned(),
                circuit["category"].as_str().unwrap_or_default().to_owned(),
                end["open"].as_str().unwrap_or("-").to_owned(),
                number(&end["sent"]["pdus"]),
                number(&end["received"]["pdus"]),
                drops(&end["received"]),
            ]);
        }
    }
    output::table(&["circuit end", "category", "open", "PDUs sent", "PDUs received", "dropped"], &rows)
}

/// The virtual adapters as a table; nothing without any.
fn adapters_text(status: &Value) -> String {
    let rows: Vec<Vec<String>> = list(status, "adapters")
        .map(|a| {
            let word = |key: &str| a[key].as_str().unwrap_or("-").to_owned();
            let signal = if a["signal"] == true { "yes" } else { "no" };
            let counts = &a["counters"];
            let cells = [&counts["line_received"]["cells"], &counts["line_sent"]["cells"]].map(number);
            let [received, sent] = cells;
            vec![word("name"), word("link"), signal.into(), received, sent, word("state")]
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let head = ["adapter", "link", "signal", "cells received", "cells sent", "state"];
    format!("\n{}", output::table(&head, &rows))
}

fn text(status: &Value) -> String {
    let endpoints: Vec<Vec<String>> = list(status, "endpoints")
        .map(|e| {
            vec![
                format!("{} {}", e["host"].as_str().unwrap_or_default(), number(&e["endpoint"])),
                e["events"].as_str().unwrap_or_default().to_owned(),
                e["path"].as_str().unwrap_or_default().to_owned(),
                number(&e["channels"]),
                number(&e["sent"]["pdus"]),
                number(&e["received"]["pdus"]),
                drops(&e["received"]),
            ]
        })
        .collect();
    let head = ["endpoint", "events", "path", "channels", "PDUs sent", "PDUs received", "dropped"];
    let endpoints = output::table(&head, &endpoints);
    format!("{}\n{}\n{endpoints}{}", links_text(status), circuits_text(status), adapters_text(status))
}

/// `cellway status`
pub(crate) fn run(context: &Context, status: &Status) -> Result<()> {
    let stop = client::interrupted()?;
    loop {
        let now = ask(context, &Request::Status)?;
        if status.watch && !context.json {
            print!("\x1b[H\x1b[2J");
        }
        output::print(context, &now, || text(&now))?;
        if !status.watch {
            return Ok(());
        }
        for _ in 0..10 {
            std::thread::sleep(Duration::from_millis(100));
            if !client::goes_on(&stop) {
                return Ok(());
            }
        }
    }
}
