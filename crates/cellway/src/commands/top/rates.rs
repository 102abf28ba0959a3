//! Two statuses of a network become rates each second. In: what the service told at two moments, by its own clock. Out:
//! a [`TopSample`]. An object that the earlier status does not have has a rate of 0 until the next one; a counter that
//! has become smaller has begun anew.

use super::counters::{Clock, by_name, circuit_name, dropped, dropped_at, host_of, link_name, link_state, of_end};
use super::path::path;
use control::calls::report::CallsStatus;
use control::drops::rows;
use control::openers::Opener;
use control::results::drops::Dropped;
use control::results::top::{
    TopAlarm, TopCall, TopCircuit, TopDirection, TopDrop, TopEnd, TopEndpoint, TopLink, TopQueue, TopSample,
};
use control::status::{CircuitStatus, CounterStatus, DirectionStatus, EndpointStatus, LinkStatus, Status};
use std::collections::{BTreeMap, HashMap};

/// What the service told at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Told {
    /// Of the network.
    pub(crate) status: Status,
    /// Of calls.
    pub(crate) calls: CallsStatus,
}

/// The rates between two moments; `circuit` is followed hop by hop.
///
/// `before` is of the same engine, or it is not looked at: an engine that began anew has a smaller uptime.
pub(crate) fn sample(before: Option<&Told>, now: &Told, circuit: Option<&str>) -> TopSample {
    let uptime = |told: &Told| told.status.engine.uptime_s;
    let before = before.filter(|before| uptime(before) < uptime(now));
    let clock = Clock(before.map_or(0.0, |before| uptime(now) - uptime(before)));
    let earlier = before.map(|before| &before.status);
    let status = &now.status;
    TopSample {
        seconds: clock.0,
        uptime_s: uptime(now),
        busy_share: busy(status, earlier),
        revision: status.revision,
        circuit_count: status.circuit_count,
        links: links(status, earlier, clock),
        circuits: circuits(status, earlier, clock),
        calls: calls(&now.calls),
        endpoints: endpoints(status, earlier, clock),
        queues: queues(status),
        drops: drops(status, earlier, clock),
        alarms: alarms(status),
        path: circuit.and_then(|name| path(status, earlier, name, clock)),
    }
}

/// Busy time between the moments; without an earlier one, since the engine began.
fn busy(now: &Status, before: Option<&Status>) -> f64 {
    let seconds = |status: &Status| status.engine.busy_share * status.engine.uptime_s;
    match before {
        Some(before) => {
            let passed = now.engine.uptime_s - before.engine.uptime_s;
            ((seconds(now) - seconds(before)) / passed).clamp(0.0, 1.0)
        }
        None => now.engine.busy_share,
    }
}

fn list<T>(of: Option<&Status>, list: fn(&Status) -> &Vec<T>) -> &[T] {
    of.map(list).map(Vec::as_slice).unwrap_or_default()
}

fn links(status: &Status, earlier: Option<&Status>, clock: Clock) -> Vec<TopLink> {
    let before = by_name(list(earlier, |status| &status.links), link_name);
    let of_link = |link: &LinkStatus| {
        let before = before.get(link.name.as_str());
        let of = |now: &DirectionStatus, before: Option<&DirectionStatus>| {
            let cells_per_s = clock.rate(now.delivered.cells, before.map(|before| before.delivered.cells));
            TopDirection {
                cells_per_s,
                pdus_per_s: clock.rate(now.delivered.pdus, before.map(|before| before.delivered.pdus)),
                dropped_per_s: clock.rate(dropped(&now.sent), before.map(|before| dropped(&before.sent))),
                queued: now.queued,
                utilization: link.rate_cells_per_s.map(|rate| cells_per_s / rate),
            }
        };
        TopLink {
            link: link.name.clone(),
            state: link_state(link),
            up: link.up && link.enabled,
            circuits: link.circuits,
            from_a: of(&link.from_a, before.map(|before| &before.from_a)),
            from_b: of(&link.from_b, before.map(|before| &before.from_b)),
        }
    };
    status.links.iter().map(of_link).collect()
}

fn circuits(status: &Status, earlier: Option<&Status>, clock: Clock) -> Vec<TopCircuit> {
    let before = by_name(list(earlier, |status| &status.circuits), circuit_name);
    status
        .circuits
        .iter()
        .map(|circuit| of_circuit(circuit, before.get(circuit.name.as_str()).copied(), clock))
        .collect()
}

fn of_circuit(circuit: &CircuitStatus, before: Option<&CircuitStatus>, clock: Clock) -> TopCircuit {
    let received = |circuit: &CircuitStatus, what: fn(&CounterStatus) -> u64| {
        circuit.ends.iter().filter_map(|end| end.received.as_ref()).map(what).sum::<u64>()
    };
    let rate = |what| clock.rate(received(circuit, what), before.map(|before| received(before, what)));
    let in_switches = |circuit: &CircuitStatus| circuit.hops.iter().map(dropped_at).sum::<u64>();
    let ends: Vec<TopEnd> = (circuit.ends.iter().enumerate())
        .map(|(nth, end)| of_end(end, before.and_then(|before| before.ends.get(nth)), clock))
        .collect();
    TopCircuit {
        circuit: circuit.name.clone(),
        category: circuit.category.clone(),
        pdus_per_s: rate(|counter| counter.pdus),
        bits_per_s: 8.0 * rate(|counter| counter.octets),
        dropped_per_s: clock.rate(in_switches(circuit), before.map(in_switches))
            + ends.iter().map(|end| end.dropped_per_s).sum::<f64>(),
        queued: circuit.hops.iter().map(|hop| hop.queued).sum(),
        ends,
    }
}

fn calls(told: &CallsStatus) -> Vec<TopCall> {
    let at_hosts = told.calls.iter().map(|call| TopCall {
        station: call.host.clone(),
        call: Some(call.call),
        state: call.state.clone(),
        from: call.from.clone().unwrap_or_default(),
        to: call.to.clone().unwrap_or_default(),
        circuit: call.circuit.clone(),
        uid: Some(call.user),
        seconds: Some(call.seconds),
    });
    let through = told.through.iter().map(|call| TopCall {
        station: call.switch.clone(),
        state: "passing".to_owned(),
        from: call.from.clone(),
        to: call.to.clone().or_else(|| call.called.clone()).unwrap_or_default(),
        ..TopCall::default()
    });
    at_hosts.chain(through).collect()
}

/// Who has the endpoints, as far as circuits tell.
fn openers(status: &Status) -> HashMap<(&str, u64), &Opener> {
    let ends = status.circuits.iter().flat_map(|circuit| &circuit.ends);
    let known = ends.filter_map(|end| Some(((host_of(&end.end), end.endpoint?), end.opener.as_ref()?)));
    known.collect()
}

fn endpoints(status: &Status, earlier: Option<&Status>, clock: Clock) -> Vec<TopEndpoint> {
    let before: HashMap<(&str, u64), &EndpointStatus> = list(earlier, |status| &status.endpoints)
        .iter()
        .map(|endpoint| ((endpoint.host.as_str(), endpoint.endpoint), endpoint))
        .collect();
    let openers = openers(status);
    let of_endpoint = |endpoint: &EndpointStatus| {
        let key = (endpoint.host.as_str(), endpoint.endpoint);
        let before = before.get(&key);
        let rate = |of: fn(&EndpointStatus) -> u64| clock.rate(of(endpoint), before.map(|before| of(before)));
        TopEndpoint {
            host: endpoint.host.clone(),
            endpoint: endpoint.endpoint,
            opener: openers.get(&key).map(|opener| (*opener).clone()),
            events: endpoint.events.clone(),
            path: endpoint.path.clone(),
            channels: endpoint.channels,
            waiting_sdus: endpoint.waiting_sdus,
            sent_pdus_per_s: rate(|endpoint| endpoint.sent.pdus),
            received_pdus_per_s: rate(|endpoint| endpoint.received.pdus),
            bits_per_s: 8.0 * rate(|endpoint| endpoint.sent.octets + endpoint.received.octets),
            dropped_per_s: rate(|endpoint| dropped(&endpoint.sent) + dropped(&endpoint.received)),
        }
    };
    status.endpoints.iter().map(of_endpoint).collect()
}

/// Queues in which something waits: of links, of ports of switches, of endpoints.
fn queues(status: &Status) -> Vec<TopQueue> {
    let of_links = status.links.iter().flat_map(|link| {
        [("->", &link.from_a), ("<-", &link.from_b)].map(|(way, direction)| TopQueue {
            place: format!("{} {way}", link.name),
            queued: direction.queued,
            bound: Some(link.queue_cells as u64),
        })
    });
    let of_ports = status.switches.iter().flat_map(|switch| {
        switch.port_queued.iter().map(|(port, queued)| TopQueue {
            place: format!("{}:{port}", switch.name),
            queued: *queued as u64,
            bound: None,
        })
    });
    let of_endpoints = status.endpoints.iter().map(|endpoint| TopQueue {
        place: format!("{} endpoint {}", endpoint.host, endpoint.endpoint),
        queued: endpoint.waiting_sdus as u64,
        bound: None,
    });
    of_links.chain(of_ports).chain(of_endpoints).filter(|queue| queue.queued > 0).collect()
}

fn drops(status: &Status, earlier: Option<&Status>, clock: Clock) -> Vec<TopDrop> {
    type Key = (String, Option<String>, String, String);
    let key = |row: &Dropped| (row.place.clone(), row.circuit.clone(), row.direction.clone(), row.reason.clone());
    let before: BTreeMap<Key, u64> =
        earlier.map(|earlier| rows(earlier).iter().map(|row| (key(row), row.count)).collect()).unwrap_or_default();
    let circuits = by_name(list(earlier, |status| &status.circuits), circuit_name);
    let of_row = |row: Dropped| {
        // A reason that is new counts from 0; a circuit that was not told of before says nothing of what was before.
        let is_known = row.circuit.as_ref().is_none_or(|circuit| circuits.contains_key(circuit.as_str()));
        let had = before.get(&key(&row)).copied().unwrap_or(0);
        TopDrop {
            per_s: clock.rate(row.count, (earlier.is_some() && is_known).then_some(had)),
            place: row.place,
            circuit: row.circuit,
            direction: row.direction,
            reason: row.reason,
            count: row.count,
        }
    };
    rows(status).into_iter().map(of_row).collect()
}

fn alarms(status: &Status) -> Vec<TopAlarm> {
    let uptime = status.engine.uptime_s;
    let since = |at: f64| Some((uptime - at).max(0.0));
    let down = status.links.iter().filter(|link| !(link.up && link.enabled)).map(|link| TopAlarm {
        place: link.name.clone(),
        alarm: "link down".to_owned(),
        location: link_state(link),
        ..TopAlarm::default()
    });
    let of_switches = status.switches.iter().flat_map(|switch| {
        switch.alarms.iter().map(move |alarm| TopAlarm {
            place: match alarm.path {
                Some(vpi) => format!("{}:{} path {vpi}", switch.name, alarm.port),
                None => format!("{}:{}", switch.name, alarm.port),
            },
            alarm: "defect".to_owned(),
            defect: alarm.defect.clone(),
            location: alarm.location.clone(),
            seconds: since(alarm.since_s),
        })
    });
    let of_ends = status.circuits.iter().flat_map(|circuit| &circuit.ends).flat_map(|end| {
        end.alarms.iter().map(move |alarm| TopAlarm {
            place: end.end.clone(),
            alarm: alarm.alarm.clone(),
            defect: alarm.defect.clone(),
            location: alarm.location.clone(),
            seconds: since(alarm.since_s),
        })
    });
    down.chain(of_switches).chain(of_ends).collect()
}
