//! What `top` shows as a table: the columns of each view, and a sample's rows in them, sorted and filtered. In: a sample
//! and a view's settings. Out: rows of text, each with the key that stays the same from sample to sample.

use super::view::{Sort, Tab};
use control::openers::Opener;
use control::results::top::{TopCircuit, TopPath, TopSample};
use std::cmp::Ordering;

/// How much attention a row is to get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Tone {
    /// None.
    #[default]
    Plain,
    /// Something passes.
    Active,
    /// Something is dropped, or waits.
    Warning,
    /// Something is broken.
    Bad,
}

/// What a row has in a column.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell {
    /// Words, sorted as they are written.
    Text(String),
    /// A number, shown briefly.
    Number(f64),
    /// A share, shown in per cent; none is less than every other.
    Share(Option<f64>),
    /// A time in seconds; none is less than every other.
    Time(Option<f64>),
}

impl Cell {
    /// As it is shown.
    pub(crate) fn text(&self) -> String {
        match self {
            Cell::Text(text) => text.clone(),
            Cell::Number(number) => brief(*number),
            Cell::Share(share) => share.map_or_else(|| "-".to_owned(), |share| format!("{:.0}%", share * 100.0)),
            Cell::Time(time) => time.map_or_else(|| "-".to_owned(), duration),
        }
    }

    fn compare(&self, other: &Cell) -> Ordering {
        let number = |cell: &Cell| match cell {
            Cell::Number(number) => Some(*number),
            Cell::Share(number) | Cell::Time(number) => Some(number.unwrap_or(f64::NEG_INFINITY)),
            Cell::Text(_) => None,
        };
        match (self, other) {
            (Cell::Text(one), Cell::Text(two)) => one.cmp(two),
            _ => number(self).unwrap_or_default().total_cmp(&number(other).unwrap_or_default()),
        }
    }
}

/// A number in at most five characters: `999`, `1.2k`, `35.3M`.
pub(crate) fn brief(number: f64) -> String {
    if number == 0.0 {
        return "0".to_owned();
    }
    if number < 9.95 && number.fract() != 0.0 {
        return format!("{number:.1}");
    }
    let mut scaled = number;
    for unit in ["", "k", "M", "G", "T"] {
        if scaled < 999.5 {
            return match unit {
                "" => format!("{scaled:.0}"),
                _ if scaled < 99.95 => format!("{scaled:.1}{unit}"),
                _ => format!("{scaled:.0}{unit}"),
            };
        }
        scaled /= 1000.0;
    }
    format!("{scaled:.0}P")
}

/// Seconds in at most six characters: `12 s`, `3 min`, `5 h`, `12 d`.
pub(crate) fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 99.5 => format!("{s:.0} s"),
        s if s < 99.5 * 60.0 => format!("{:.0} min", s / 60.0),
        s if s < 99.5 * 3600.0 => format!("{:.0} h", s / 3600.0),
        s => format!("{:.0} d", s / 86400.0),
    }
}

/// A row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    /// What stays the same from sample to sample.
    pub(crate) key: String,
    /// In the order of the columns.
    pub(crate) cells: Vec<Cell>,
    /// How much attention it is to get.
    pub(crate) tone: Tone,
}

/// The columns of a view: the first one takes the room that is left, and those at the end go first where there is too
/// little.
pub(crate) fn columns(tab: Tab) -> &'static [&'static str] {
    match tab {
        Tab::Links => &["link", "cells/s >", "< cells/s", "use", "queued", "drops/s", "state", "circuits", "PDUs/s"],
        Tab::Circuits => &["circuit", "PDUs/s", "bit/s", "drops/s", "alarm", "class", "open by", "queued"],
        Tab::Calls => &["call", "state", "from", "to", "age", "user", "circuit"],
        Tab::Endpoints => &[
            "endpoint", "user", "program", "sent/s", "got/s", "bit/s", "waiting", "drops/s", "channels", "events",
            "path",
        ],
        Tab::Queues => &["queue", "waiting", "of", "full"],
        Tab::Drops => &["place", "reason", "per s", "total", "way", "circuit"],
        Tab::Alarms => &["place", "alarm", "for", "defect", "location"],
    }
}

/// The columns of a followed circuit.
pub(crate) const HOPS: &[&str] = &["hop", "there/s", "back/s", "drops/s", "queued", "note"];

/// Names of users by their numbers.
pub(crate) type Names<'a> = &'a dyn Fn(u32) -> String;

fn text(words: &str) -> Cell {
    Cell::Text(words.to_owned())
}

fn warns(bad: bool, warning: bool, active: bool) -> Tone {
    match (bad, warning, active) {
        (true, ..) => Tone::Bad,
        (_, true, _) => Tone::Warning,
        (_, _, true) => Tone::Active,
        _ => Tone::Plain,
    }
}

/// The rows of a view, those that the filter leaves, in order.
pub(crate) fn rows(tab: Tab, sample: &TopSample, names: Names<'_>, filter: &str, sort: Sort) -> Vec<Row> {
    let mut rows = match tab {
        Tab::Links => links(sample),
        Tab::Circuits => sample.circuits.iter().map(|circuit| of_circuit(circuit, names)).collect(),
        Tab::Calls => calls(sample, names),
        Tab::Endpoints => endpoints(sample, names),
        Tab::Queues => queues(sample),
        Tab::Drops => drops(sample),
        Tab::Alarms => alarms(sample),
    };
    let wanted = filter.to_lowercase();
    rows.retain(|row| wanted.is_empty() || row.cells.iter().any(|cell| cell.text().to_lowercase().contains(&wanted)));
    // Rows that are equal keep the network's order: they do not change places from sample to sample.
    rows.sort_by(|one, two| {
        let order = one.cells.get(sort.column).zip(two.cells.get(sort.column)).map(|(one, two)| one.compare(two));
        let order = order.unwrap_or(Ordering::Equal);
        if sort.descending { order.reverse() } else { order }
    });
    rows
}

fn links(sample: &TopSample) -> Vec<Row> {
    let of_link = |link: &control::results::top::TopLink| {
        let both = [&link.from_a, &link.from_b];
        let utilization = both.iter().filter_map(|of| of.utilization).reduce(f64::max);
        let [drops, cells, pdus] = [
            both.iter().map(|of| of.dropped_per_s).sum(),
            both.iter().map(|of| of.cells_per_s).sum::<f64>(),
            both.iter().map(|of| of.pdus_per_s).sum(),
        ];
        let queued: u64 = both.iter().map(|of| of.queued).sum();
        Row {
            key: link.link.clone(),
            tone: warns(!link.up, drops > 0.0, cells + pdus > 0.0),
            cells: vec![
                text(&link.link),
                Cell::Number(link.from_a.cells_per_s),
                Cell::Number(link.from_b.cells_per_s),
                Cell::Share(utilization),
                Cell::Number(queued as f64),
                Cell::Number(drops),
                text(&link.state),
                Cell::Number(link.circuits as f64),
                Cell::Number(pdus),
            ],
        }
    };
    sample.links.iter().map(of_link).collect()
}

/// `ada cellway[42]`
fn shown(opener: &Opener, names: Names<'_>) -> String {
    format!("{} {}[{}]", names(opener.uid), opener.program, opener.pid)
}

fn of_circuit(circuit: &TopCircuit, names: Names<'_>) -> Row {
    let mut alarms: Vec<&str> = circuit.ends.iter().flat_map(|end| &end.alarms).map(String::as_str).collect();
    alarms.sort_unstable();
    alarms.dedup();
    let users: Vec<String> =
        circuit.ends.iter().filter_map(|end| end.opener.as_ref()).map(|opener| shown(opener, names)).collect();
    Row {
        key: circuit.circuit.clone(),
        tone: warns(!alarms.is_empty(), circuit.dropped_per_s > 0.0, circuit.pdus_per_s > 0.0),
        cells: vec![
            text(&circuit.circuit),
            Cell::Number(circuit.pdus_per_s),
            Cell::Number(circuit.bits_per_s),
            Cell::Number(circuit.dropped_per_s),
            text(&alarms.join(",")),
            text(&circuit.category),
            text(&users.join(", ")),
            Cell::Number(circuit.queued as f64),
        ],
    }
}

fn calls(sample: &TopSample, names: Names<'_>) -> Vec<Row> {
    let of_call = |call: &control::results::top::TopCall| {
        let name = call.call.map_or_else(|| call.station.clone(), |number| format!("{} {number}", call.station));
        Row {
            key: format!("{name} {} {}", call.from, call.to),
            tone: warns(false, false, call.state == "up"),
            cells: vec![
                text(&name),
                text(&call.state),
                text(&call.from),
                text(&call.to),
                Cell::Time(call.seconds),
                Cell::Text(call.uid.map(names).unwrap_or_default()),
                text(call.circuit.as_deref().unwrap_or_default()),
            ],
        }
    };
    sample.calls.iter().map(of_call).collect()
}

fn endpoints(sample: &TopSample, names: Names<'_>) -> Vec<Row> {
    let of_endpoint = |endpoint: &control::results::top::TopEndpoint| {
        let name = format!("{} {}", endpoint.host, endpoint.endpoint);
        let opener = endpoint.opener.as_ref();
        let passes = endpoint.sent_pdus_per_s + endpoint.received_pdus_per_s > 0.0;
        Row {
            tone: warns(false, endpoint.dropped_per_s > 0.0, passes),
            cells: vec![
                text(&name),
                Cell::Text(opener.map(|opener| names(opener.uid)).unwrap_or_default()),
                Cell::Text(opener.map(|opener| format!("{}[{}]", opener.program, opener.pid)).unwrap_or_default()),
                Cell::Number(endpoint.sent_pdus_per_s),
                Cell::Number(endpoint.received_pdus_per_s),
                Cell::Number(endpoint.bits_per_s),
                Cell::Number(endpoint.waiting_sdus as f64),
                Cell::Number(endpoint.dropped_per_s),
                Cell::Number(endpoint.channels as f64),
                text(&endpoint.events),
                text(&endpoint.path),
            ],
            key: name,
        }
    };
    sample.endpoints.iter().map(of_endpoint).collect()
}

fn queues(sample: &TopSample) -> Vec<Row> {
    let of_queue = |queue: &control::results::top::TopQueue| {
        let full = queue.bound.filter(|bound| *bound > 0).map(|bound| queue.queued as f64 / bound as f64);
        Row {
            key: queue.place.clone(),
            tone: warns(false, full.is_some_and(|full| full > 0.5), true),
            cells: vec![
                text(&queue.place),
                Cell::Number(queue.queued as f64),
                queue.bound.map_or_else(|| text("-"), |bound| Cell::Number(bound as f64)),
                Cell::Share(full),
            ],
        }
    };
    sample.queues.iter().map(of_queue).collect()
}

fn drops(sample: &TopSample) -> Vec<Row> {
    let of_drop = |drop: &control::results::top::TopDrop| {
        let circuit = drop.circuit.as_deref().unwrap_or_default();
        Row {
            key: format!("{} {circuit} {} {}", drop.place, drop.direction, drop.reason),
            tone: warns(false, drop.per_s > 0.0, false),
            cells: vec![
                text(&drop.place),
                text(&drop.reason),
                Cell::Number(drop.per_s),
                Cell::Number(drop.count as f64),
                text(&drop.direction),
                text(circuit),
            ],
        }
    };
    sample.drops.iter().map(of_drop).collect()
}

fn alarms(sample: &TopSample) -> Vec<Row> {
    let of_alarm = |alarm: &control::results::top::TopAlarm| Row {
        key: format!("{} {} {}", alarm.place, alarm.alarm, alarm.location),
        tone: Tone::Bad,
        cells: vec![
            text(&alarm.place),
            text(&alarm.alarm),
            Cell::Time(alarm.seconds),
            text(&alarm.defect),
            text(&alarm.location),
        ],
    };
    sample.alarms.iter().map(of_alarm).collect()
}

/// The hops of a followed circuit, in its order.
pub(crate) fn hops(path: &TopPath) -> Vec<Row> {
    let of_hop = |hop: &control::results::top::TopHop| {
        let place = if hop.kind == "end" { hop.place.clone() } else { format!("  {} {}", hop.kind, hop.place) };
        Row {
            key: place.clone(),
            tone: warns(
                hop.note == "down" || hop.note == "taken down",
                hop.dropped_per_s > 0.0,
                hop.forward_per_s + hop.backward_per_s > 0.0,
            ),
            cells: vec![
                Cell::Text(place),
                Cell::Number(hop.forward_per_s),
                Cell::Number(hop.backward_per_s),
                Cell::Number(hop.dropped_per_s),
                Cell::Number(hop.queued as f64),
                text(&hop.note),
            ],
        }
    };
    path.hops.iter().map(of_hop).collect()
}
