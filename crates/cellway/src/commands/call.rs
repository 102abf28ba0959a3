//! `cellway call`, `cellway listen` and `cellway address`: calls by hand, and what there is of them.

use crate::client::{self, ask_for, goes_on, interrupted};
use crate::context::Context;
use crate::output;
use crate::ready::Ready;
use crate::units;
use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use control::calls::report::CallsStatus;
use control::protocol::Request;
use control::results::HostAddresses;
use control::status::HopStatus;
use endpoint::calls::{Event, Sap, Session, Traffic};
use std::time::Duration;
use wire::aesa::Aesa;
use wire::q2931::CauseValue;

/// Between two looks at Ctrl-C.
const LOOK: Duration = Duration::from_millis(200);

/// Calls an address and holds the call until Ctrl-C or its release; `cellway call list` shows all calls.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Call {
    #[command(subcommand)]
    list: Option<List>,
    /// The host that calls
    #[arg(required = true)]
    host: Option<String>,
    /// The address to call: 40 hexadecimal digits, as `cellway address` shows them
    #[arg(required = true)]
    address: Option<Aesa>,
    /// The service access point: any, llc, l2:0c, l3:0b or snap:00a03e-0001
    #[arg(long, default_value_t = Sap::ANY)]
    sap: Sap,
    /// ubr, cbr, rt-vbr or nrt-vbr
    #[arg(long, default_value = "ubr", value_parser = ["ubr", "cbr", "rt-vbr", "nrt-vbr"])]
    category: String,
    /// Peak cell rate, such as "20 Mbit/s" of payload or "5000 cell/s"
    #[arg(long, value_name = "RATE", value_parser = units::cells_per_second)]
    pcr: Option<u32>,
    /// Sustainable cell rate (VBR)
    #[arg(long, value_name = "RATE", value_parser = units::cells_per_second)]
    scr: Option<u32>,
    /// Maximum burst size in cells (VBR)
    #[arg(long)]
    mbs: Option<u32>,
    /// The longest SDU in octets, in either direction; a listener under a stock atmsigd accepts only its own value
    #[arg(long, value_name = "OCTETS", default_value_t = 9188, value_parser = clap::value_parser!(u16).range(1..))]
    sdu: u16,
    /// One more party of a point-to-multipoint call, added once the call is up (may be repeated)
    #[arg(long = "party", value_name = "ADDRESS")]
    parties: Vec<Aesa>,
    /// Seconds to wait for an answer
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = units::seconds)]
    timeout: Duration,
}

/// Lists of calls.
#[derive(Debug, Subcommand)]
enum List {
    /// Calls, interfaces, and the last hundred that failed
    List,
}

/// Answers calls to a host and holds them until Ctrl-C.
#[derive(Debug, Args)]
pub(crate) struct Listen {
    /// The host that is called
    host: String,
    /// Calls to this selector only, the address's last octet
    #[arg(long)]
    selector: Option<u8>,
    /// Calls to this service access point only: llc, l2:0c, l3:0b or snap:00a03e-0001
    #[arg(long, default_value_t = Sap::ANY)]
    sap: Sap,
    /// Refuse calls with this cause instead (17 busy, 21 rejected)
    #[arg(long)]
    reject: Option<u8>,
    /// End after so many calls have been released
    #[arg(long)]
    count: Option<u64>,
    #[command(flatten)]
    ready: Ready,
}

/// Shows the addresses of hosts.
#[derive(Debug, Args)]
pub(crate) struct Address {
    /// Only this host
    host: Option<String>,
}

/// What happens, on standard output, for people or as a line of JSON.
fn say(context: &Context, event: &Event) -> Result<()> {
    if context.json {
        return output::say(event);
    }
    output::print_lines(&match event {
        Event::Incoming { call, from, to, .. } => {
            let unknown = || "unknown".to_owned();
            let (from, to) = (from.clone().unwrap_or_else(unknown), to.clone().unwrap_or_else(unknown));
            format!("call {call}: from {from} to {to}")
        }
        Event::Alerting { call } => format!("call {call}: alerting"),
        Event::Connected { call, host, circuit } => format!("call {call}: circuit {host} {circuit}"),
        Event::Released { call, cause, text } => format!("call {call}: released, cause {cause} ({text})"),
        Event::PartyAdded { call, party } => format!("call {call}: party {party} added"),
        Event::PartyDropped { call, party, cause, text } => {
            format!("call {call}: party {party} dropped, cause {cause} ({text})")
        }
        // Of no call of this command's.
        _ => return Ok(()),
    })
}

/// `cellway call`
pub(crate) fn run(context: &Context, call: &Call) -> Result<()> {
    let (Some(host), Some(address)) = (&call.host, call.address) else {
        let status = ask_for::<CallsStatus>(context, &Request::Calls(endpoint::calls::Request::List))?;
        return output::print(context, &status, || text(&status));
    };
    let stop = interrupted()?;
    client::within(call.timeout);
    let mut session = Session::open(&context.socket, host)?;
    let Call { category, pcr, scr, mbs, sdu, .. } = call;
    let traffic = Traffic { category: category.clone(), pcr: *pcr, scr: *scr, mbs: *mbs, sdu_octets: *sdu };
    let number = if call.parties.is_empty() {
        session.begin_call(address, call.sap, &traffic)?
    } else {
        session.begin_multipoint(address, call.sap, &traffic)?
    };
    let begin = std::time::Instant::now();
    let mut up = false;
    while goes_on(&stop) {
        match session.next_event(Some(LOOK))? {
            Some(event) => {
                say(context, &event)?;
                if matches!(event, Event::Connected { .. }) && !std::mem::replace(&mut up, true) {
                    for party in &call.parties {
                        session.begin_party(number, *party)?;
                    }
                }
                if let Event::Released { cause, .. } = event {
                    if up {
                        return Ok(());
                    }
                    bail!("the call was released: {}", CauseValue(cause));
                }
            }
            None if !up && begin.elapsed() > call.timeout => {
                session.release(number, CauseValue::NO_ANSWER)?;
                bail!("no answer within {:?}", call.timeout);
            }
            None => {}
        }
    }
    Ok(session.release(number, CauseValue::NORMAL)?)
}

/// `cellway listen`
pub(crate) fn run_listen(context: &Context, listen: &Listen) -> Result<()> {
    let stop = interrupted()?;
    listen.ready.check()?;
    let mut session = Session::open(&context.socket, &listen.host)?;
    let (_, addresses) = session.listen(listen.selector, listen.sap)?;
    if !context.json {
        let own = if addresses.is_empty() { "none yet".to_owned() } else { addresses.join(", ") };
        output::note(format_args!("{}: {own}", listen.host));
    }
    listen.ready.say(context, &listen.host)?;
    let mut released = 0;
    while goes_on(&stop) && listen.count.is_none_or(|count| released < count) {
        let Some(event) = session.next_event(Some(LOOK))? else { continue };
        say(context, &event)?;
        match event {
            Event::Incoming { call, .. } => {
                let answered = match listen.reject {
                    Some(cause) => {
                        released += 1;
                        session.release(call, CauseValue(cause))
                    }
                    None => session.begin_accept(call),
                };
                // It may have been given up meanwhile.
                if let Err(e) = answered
                    && e.is_no_service()
                {
                    return Err(e.into());
                }
            }
            Event::Released { .. } => released += 1,
            _ => {}
        }
    }
    Ok(())
}

/// `cellway address`
pub(crate) fn run_address(context: &Context, address: &Address) -> Result<()> {
    let status = ask_for::<CallsStatus>(context, &Request::Calls(endpoint::calls::Request::List))?;
    let hosts = status.interfaces.iter().filter(|interface| interface.side == "user" && interface.version != "iisp");
    let hosts: Vec<_> =
        hosts.filter(|interface| address.host.as_ref().is_none_or(|host| *host == interface.station)).collect();
    if let Some(host) = address.host.as_ref().filter(|_| hosts.is_empty()) {
        bail!(
            "host {host} has no signalling, or you may not call there (give its link signalling = {{ version = \"uni31\" }}, \
             or an [[allow]] of the description calls)"
        );
    }
    let of = |i: &control::calls::report::InterfaceStatus| {
        let (host, addresses) = (i.station.clone(), i.addresses.clone());
        HostAddresses { host, addresses, up: i.up }
    };
    let hosts: Vec<HostAddresses> = hosts.into_iter().map(of).collect();
    output::print(context, &hosts, || {
        let line = |HostAddresses { host, addresses, .. }: &HostAddresses| {
            let own = if addresses.is_empty() { "none".into() } else { addresses.join(" ") };
            format!("{host} {own}")
        };
        hosts.iter().map(line).collect::<Vec<_>>().join("\n")
    })
}

fn text(status: &CallsStatus) -> String {
    let dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".into());
    let interfaces: Vec<Vec<String>> = status
        .interfaces
        .iter()
        .map(|i| {
            let state = if i.up { "up" } else { "down" };
            let fields = [format!("{}:{}", i.station, i.port), i.version.clone(), i.side.clone(), state.into()];
            fields.into_iter().chain([i.calls.to_string(), i.addresses.join(" ")]).collect()
        })
        .collect();
    let calls: Vec<Vec<String>> = status
        .calls
        .iter()
        .map(|c| {
            let way = if c.outgoing { "out" } else { "in" };
            let fields = [c.call.to_string(), c.host.clone(), way.into(), c.state.clone(), dash(&c.circuit)];
            fields.into_iter().chain([dash(&c.from), dash(&c.to), format!("{:.1}", c.seconds)]).collect()
        })
        .collect();
    let through: Vec<Vec<String>> = status
        .through
        .iter()
        .map(|t| {
            let sum = |of: fn(&HopStatus) -> u64| t.counters.iter().map(of).sum::<u64>().to_string();
            let counted = [sum(|c| c.offered), sum(|c| c.policed), sum(|c| c.queue_dropped + c.pdu_dropped)];
            [t.from.clone(), dash(&t.to), t.category.clone(), dash(&t.called)].into_iter().chain(counted).collect()
        })
        .collect();
    let failures: Vec<Vec<String>> = status
        .failures
        .iter()
        .map(|f| {
            vec![f.switch.clone(), format!("{:.0}", f.seconds), dash(&f.called), format!("{} {}", f.cause, f.text)]
        })
        .collect();
    let mut parts = vec![output::table(&["interface", "version", "side", "link", "calls", "addresses"], &interfaces)];
    if !calls.is_empty() {
        let head = ["call", "host", "way", "state", "circuit", "from", "to", "seconds"];
        parts.push(output::table(&head, &calls));
    }
    if !through.is_empty() {
        parts.push(output::table(
            &["through a switch", "to", "category", "called", "cells", "policed", "dropped"],
            &through,
        ));
    }
    if !failures.is_empty() {
        parts.push(output::table(&["failed at", "seconds ago", "called", "cause"], &failures));
    }
    parts.join("\n")
}
