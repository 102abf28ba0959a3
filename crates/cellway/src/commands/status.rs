//! `cellway status`: links, circuits and endpoints, with what passed and what was dropped and why.

use crate::client::{self, ask_for, ask_text};
use crate::context::Context;
use crate::output;
use anyhow::Result;
use clap::Args;
use control::protocol::Request;
use control::status::{CircuitStatus, LinkStatus, Status as Everything};
use std::collections::BTreeMap;
use std::time::Duration;

/// Shows links, circuits and endpoints.
#[derive(Debug, Args)]
pub(crate) struct Status {
    /// Show it again each second until Ctrl-C
    #[arg(long)]
    watch: bool,
}

fn drops(dropped: &BTreeMap<String, u64>) -> String {
    dropped.iter().map(|(reason, n)| format!("{reason} {n}")).collect::<Vec<_>>().join(", ")
}

/// The links as a table.
pub(crate) fn links_text(links: &[LinkStatus]) -> String {
    let mut rows = Vec::new();
    for link in links {
        let state = match &link.outside {
            _ if !link.enabled => "taken down (`cellway link up`)".to_owned(),
            Some(outside) => outside.clone(),
            None if !link.up => "down".to_owned(),
            None => String::new(),
        };
        for (direction, name, state) in
            [(&link.from_a, format!("{} ->", link.name), state), (&link.from_b, " <-".into(), String::new())]
        {
            rows.push(vec![
                name,
                direction.sent.cells.to_string(),
                direction.delivered.cells.to_string(),
                direction.delivered.pdus.to_string(),
                drops(&direction.sent.dropped),
                state,
            ]);
        }
    }
    output::table(&["link", "cells in", "cells out", "PDUs out", "dropped", "state"], &rows)
}

/// The circuits as a table.
pub(crate) fn circuits_text(circuits: &[CircuitStatus]) -> String {
    let mut rows = Vec::new();
    for circuit in circuits {
        for end in &circuit.ends {
            let pdus = |counters: &Option<control::status::CounterStatus>| {
                counters.as_ref().map_or_else(String::new, |c| c.pdus.to_string())
            };
            rows.push(vec![
                end.end.clone(),
                circuit.category.clone(),
                end.open.clone().unwrap_or_else(|| "-".into()),
                pdus(&end.sent),
                pdus(&end.received),
                end.received.as_ref().map_or_else(String::new, |c| drops(&c.dropped)),
            ]);
        }
    }
    output::table(&["circuit end", "category", "open", "PDUs sent", "PDUs received", "dropped"], &rows)
}

/// The virtual adapters as a table; nothing without any.
fn adapters_text(status: &Everything) -> String {
    let rows: Vec<Vec<String>> = status
        .adapters
        .iter()
        .map(|a| {
            let cells = |key: &str| a.counters.get(key).map_or_else(String::new, |c| c.cells.to_string());
            let signal = if a.signal { "yes" } else { "no" };
            let link = a.link.clone().unwrap_or_else(|| "-".into());
            vec![a.name.clone(), link, signal.into(), cells("line_received"), cells("line_sent"), a.state.clone()]
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let head = ["adapter", "link", "signal", "cells received", "cells sent", "state"];
    format!("\n{}", output::table(&head, &rows))
}

/// The switches as a table; nothing without any.
fn switches_text(status: &Everything) -> String {
    if status.switches.is_empty() {
        return String::new();
    }
    let rows: Vec<Vec<String>> = status
        .switches
        .iter()
        .map(|s| {
            vec![s.name.clone(), s.ports.to_string(), s.routes.to_string(), s.max_routes.to_string(), drops(&s.dropped)]
        })
        .collect();
    format!("\n{}", output::table(&["switch", "ports", "routes", "at most", "dropped"], &rows))
}

/// What is said of circuits that are not shown.
fn others_text(status: &Everything) -> String {
    let (all, shown) = (status.circuit_count, status.circuits.len());
    if all <= shown {
        return String::new();
    }
    format!(
        "{} circuits more; those that are shown are open or have passed something (`cellway circuit list`)\n",
        all - shown
    )
}

fn text(status: &Everything) -> String {
    let word = |v: &serde_json::Value| v.as_str().unwrap_or_default().to_owned();
    let endpoints: Vec<Vec<String>> = status
        .endpoints
        .iter()
        .map(|e| {
            vec![
                format!("{} {}", e.host, e.endpoint),
                word(&e.events),
                word(&e.path),
                e.channels.to_string(),
                e.sent.pdus.to_string(),
                e.received.pdus.to_string(),
                drops(&e.received.dropped),
            ]
        })
        .collect();
    let head = ["endpoint", "events", "path", "channels", "PDUs sent", "PDUs received", "dropped"];
    let engine = &status.engine;
    format!(
        "{}{}\n{}{}\n{}{}\nengine: {:.1} % busy in {:.0} s, {} rounds, {} sleeps, longest round {:.0} us; revision {}\n",
        links_text(&status.links),
        switches_text(status),
        circuits_text(&status.circuits),
        others_text(status),
        output::table(&head, &endpoints),
        adapters_text(status),
        engine.busy_share * 100.0,
        engine.uptime_s,
        engine.rounds,
        engine.sleeps,
        engine.longest_recent_round_s * 1e6,
        status.revision,
    )
}

/// `cellway status`
pub(crate) fn run(context: &Context, status: &Status) -> Result<()> {
    let stop = client::interrupted()?;
    loop {
        if context.json {
            output::print_json(&ask_text(context, &Request::Status)?)?;
        } else {
            let now = ask_for::<Everything>(context, &Request::Overview)?;
            if status.watch {
                print!("\x1b[H\x1b[2J");
            }
            output::print(context, &now, || text(&now))?;
        }
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
