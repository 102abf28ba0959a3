//! `cellway status`: links, circuits and endpoints, with what passed and what was dropped and why.

use crate::client::{self, ask_for, ask_text};
use crate::commands::explain;
use crate::context::Context;
use crate::kinds::kinds;
use crate::output::{self, drops};
use crate::users::Users;
use anyhow::Result;
use clap::Args;
use control::protocol::Request;
use control::status::{CircuitRow, LinkStatus, Status as Everything};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

/// Shows links, circuits and endpoints.
#[derive(Debug, Args)]
pub(crate) struct Status {
    /// Show it again each second until Ctrl-C
    #[arg(long)]
    pub(crate) watch: bool,
    /// Show what has ended within the last hour too, with its last counters: calls' circuits, endpoints, links
    #[arg(long)]
    ended: bool,
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
pub(crate) fn circuits_text(circuits: &[CircuitRow]) -> String {
    let pdus = |pdus: Option<u64>| pdus.map_or(Cow::Borrowed(""), |pdus| Cow::Owned(pdus.to_string()));
    let mut rows = Vec::with_capacity(2 * circuits.len());
    let mut users = Users::default();
    for circuit in circuits {
        rows.extend(circuit.ends.iter().map(|end| {
            [
                Cow::Borrowed(end.end.as_str()),
                Cow::Borrowed(circuit.category.as_str()),
                Cow::Borrowed(end.open.as_deref().unwrap_or("-")),
                end.opener.as_ref().map_or(Cow::Borrowed(""), |opener| Cow::Owned(users.shown(opener))),
                pdus(end.pdus_sent),
                pdus(end.pdus_received),
                if end.dropped.is_empty() { Cow::Borrowed("") } else { Cow::Owned(drops(&end.dropped)) },
            ]
        }));
    }
    output::table(&["circuit end", "category", "open", "by", "PDUs sent", "PDUs received", "dropped"], &rows)
        + &contracts_text(circuits)
}

/// What switches make of circuits that have a rate, as a table; nothing without any.
fn contracts_text(circuits: &[CircuitRow]) -> String {
    let hops = circuits.iter().flat_map(|circuit| circuit.hops.iter().map(move |hop| (circuit, hop)));
    let rows: Vec<Vec<String>> = hops
        .filter(|(_, hop)| hop.contract_cells_per_s.is_some())
        .map(|(circuit, hop)| {
            let ends = circuit.ends.iter().map(|end| end.end.as_str());
            let ends: Vec<&str> = if hop.forward { ends.collect() } else { ends.rev().collect() };
            let rate = |rate: Option<f64>| rate.map_or_else(|| "-".into(), |rate| format!("{rate:.1}"));
            vec![
                ends.join(" - "),
                format!("{}:{}", hop.switch, hop.to_port),
                hop.offered.to_string(),
                hop.conformed.to_string(),
                hop.tagged.to_string(),
                hop.policed.to_string(),
                hop.queue_dropped.to_string(),
                hop.pdu_dropped.to_string(),
                rate(hop.rate_cells_per_s),
                rate(hop.contract_cells_per_s),
                hop.jitter_s.map_or_else(|| "-".into(), |jitter| format!("{:.0}", jitter * 1e6)),
            ]
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let head = [
        "contract at",
        "switch port",
        "cells offered",
        "conforming",
        "tagged",
        "policed",
        "queue full",
        "with PDU",
        "cell/s",
        "contract",
        "jitter, us",
    ];
    format!("\n{}", output::table(&head, &rows))
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
            let numbers = [s.ports.into(), s.routes, s.max_routes, s.queued].map(|n: usize| n.to_string());
            [vec![s.name.clone()], numbers.to_vec(), vec![drops(&s.dropped)]].concat()
        })
        .collect();
    format!("\n{}", output::table(&["switch", "ports", "routes", "at most", "queued", "dropped"], &rows))
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

/// What is not on the disk, and a description on trial.
fn state_text(status: &Everything) -> String {
    let mut text = String::new();
    if let Some(why) = status.state.as_ref().and_then(|state| state.not_kept.as_ref()) {
        text.push_str(&format!(
            "state: changes are in force, but not kept: {why}; the daemon tries again until they are\n"
        ));
    }
    if let Some(lines) = status.state.as_ref().map(|state| state.log_left_out).filter(|lines| *lines > 0) {
        text.push_str(&format!("state: {lines} lines of the log of changes were left out: the disk took none\n"));
    }
    if let Some(seconds) = status.trial_seconds {
        text.push_str(&format!("description on trial: undone in {seconds} s unless confirmed (`cellway confirm`)\n"));
    }
    text
}

/// What has ended as a table; nothing without any.
fn ended_text(status: &Everything) -> String {
    let rows: Vec<Vec<String>> = status
        .ended
        .iter()
        .map(|e| {
            let dropped: Vec<String> =
                [&e.sent, &e.received].map(|c| drops(&c.dropped)).into_iter().filter(|d| !d.is_empty()).collect();
            let name = format!("{} {}", e.kind, e.name);
            let figures = [e.seconds.round(), e.sent.pdus as f64, e.received.pdus as f64].map(|n| n.to_string());
            [vec![name], figures.to_vec(), vec![dropped.join(", ")]].concat()
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    format!("\n{}", output::table(&["ended", "seconds ago", "PDUs sent", "PDUs received", "dropped"], &rows))
}

fn overview(status: &Everything) -> String {
    let endpoints: Vec<Vec<String>> = status
        .endpoints
        .iter()
        .map(|e| {
            vec![
                format!("{} {}", e.host, e.endpoint),
                e.events.clone(),
                e.path.clone(),
                e.channels.to_string(),
                e.sent.pdus.to_string(),
                e.received.pdus.to_string(),
                drops(&e.received.dropped),
            ]
        })
        .collect();
    let circuits: Vec<CircuitRow> = status.circuits.iter().map(CircuitRow::from).collect();
    let head = ["endpoint", "events", "path", "channels", "PDUs sent", "PDUs received", "dropped"];
    let engine = &status.engine;
    format!(
        "{}{}{}\n{}{}\n{}{}{}\n{}engine: {:.1} % busy in {:.0} s, {} rounds, {} sleeps, longest round {:.0} us; revision {}{}\n{}",
        links_text(&status.links),
        switches_text(status),
        status.of_kinds.overview(),
        circuits_text(&circuits),
        others_text(status),
        output::table(&head, &endpoints),
        adapters_text(status),
        ended_text(status),
        state_text(status),
        engine.busy_share * 100.0,
        engine.uptime_s,
        engine.rounds,
        engine.sleeps,
        engine.longest_recent_round_s * 1e6,
        status.revision,
        if engine.log_lines_dropped > 0 {
            format!("; {} lines of the log dropped", engine.log_lines_dropped)
        } else {
            String::new()
        },
        explain::footnotes(all_drops(status, &circuits)),
    )
}

/// All counts of drops that the overview shows.
fn all_drops<'a>(
    status: &'a Everything,
    circuits: &'a [CircuitRow],
) -> impl Iterator<Item = &'a BTreeMap<String, u64>> {
    let links = status.links.iter().flat_map(|link| [&link.from_a.sent.dropped, &link.from_b.sent.dropped]);
    let ends = circuits.iter().flat_map(|circuit| circuit.ends.iter().map(|end| &end.dropped));
    let endpoints = status.endpoints.iter().map(|endpoint| &endpoint.received.dropped);
    links.chain(status.switches.iter().map(|switch| &switch.dropped)).chain(ends).chain(endpoints)
}

/// `cellway status`
pub(crate) fn run(context: &Context, status: &Status) -> Result<()> {
    let stop = client::interrupted()?;
    loop {
        if context.json {
            let request = if status.ended { Request::Ended } else { Request::Status };
            output::print_text::<Everything>(&ask_text(context, &request)?)?;
        } else {
            let request = if status.ended { Request::Ended } else { Request::Overview };
            let mut now = ask_for::<Everything>(context, &request)?;
            kinds().read_statuses(&mut now.of_kinds)?;
            if status.watch && std::io::stdout().is_terminal() {
                output::stdout().write_all(b"\x1b[H\x1b[2J")?;
            }
            output::print(context, &now, || overview(&now))?;
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
