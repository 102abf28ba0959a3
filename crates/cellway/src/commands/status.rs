//! `cellway status`: links, circuits and endpoints, with what passed and what was dropped and why.

use crate::client;
use crate::client::ask;
use crate::context::Context;
use crate::output;
use anyhow::Result;
use clap::Args;
use control::manage::Request;
use serde_json::Value;
use std::time::Duration;

/// Shows links, circuits and endpoints.
#[derive(Debug, Args)]
pub(crate) struct Status {
    /// Show it again each second until Ctrl-C
    #[arg(long)]
    watch: bool,
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
