//! What a running network tells of itself: links, circuits and endpoints, with what passed and what was dropped and why.

use crate::adapters::Adapters;
use crate::config::Config;
use crate::names::circuit_name;
use host::engine::Core;
use net::topology::{CircuitDescription, Station};
use serde_json::{Map, Value, json};
use wire::Counters;

/// Counters as status writes them.
pub fn counters(c: &Counters) -> Value {
    let dropped: Map<String, Value> = c.drops().map(|(reason, n)| (reason.name().to_owned(), n.into())).collect();
    json!({ "cells": c.cells, "pdus": c.pdus, "octets": c.octets, "dropped": dropped })
}

/// Everything, on the engine's thread.
pub fn collect(core: &mut Core, adapters: &Adapters, config: &Config) -> Value {
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
