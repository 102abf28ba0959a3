//! `cellway myrinet`: the map that control programs have drawn, routes, monitoring variables, and a traffic generator.

use crate::client::{self, ask_kind};
use crate::context::Context;
use crate::output::{self, drops};
use anyhow::{Result, anyhow, bail};
use clap::{Args, Subcommand};
use control::protocol::Done;
use lanai::kind::{
    MyrinetHostStatus, MyrinetMap, MyrinetPortStatus, MyrinetRequest, MyrinetRoutes, MyrinetRun, MyrinetSend,
    MyrinetStatus, MyrinetSwitchStatus,
};
use std::time::Duration;

/// How often a run is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// Myrinets.
#[derive(Debug, Subcommand)]
pub(crate) enum MyrinetCommand {
    /// The mapper's map: hosts, switches and the cables between them.
    ///
    /// The interface with the highest address is the mapper. It sends scouts to each port that it knows: a host
    /// answers, and a loop through a switch returns. If a cable is pulled or plugged, the next run of the mapper
    /// detects it.
    Map(Which),
    /// The routes that the mapper has told each host.
    ///
    /// A route is a number for each switch: the output port minus the input port. Routes lead up to the root of a tree
    /// and then down again (up*/down*), so packets cannot deadlock.
    Routes(Which),
    /// Send messages from host to host, as `ht` did, and report how many arrived and how fast.
    ///
    /// Try `cellway myrinet send barbican temple --octets 8192`, then with `--acknowledged`, and small messages with
    /// and without `--immediate`. Several receivers are a group, which a message reaches around a cycle.
    Send(Send),
    /// Monitoring variables of the interfaces' control programs, and traffic at each port of the switches.
    ///
    /// `link stops` counts how often an interface had no free buffer and stopped its link; `stops` counts the STOP
    /// symbols of a switch's port.
    Monitor(Monitor),
}

/// Which Myrinet.
#[derive(Debug, Args)]
pub(crate) struct Which {
    /// The Myrinet's name; the only one if it is not given
    net: Option<String>,
}

/// `cellway myrinet monitor`
#[derive(Debug, Args)]
pub(crate) struct Monitor {
    #[command(flatten)]
    which: Which,
    /// Show it again each second until Ctrl-C
    #[arg(long)]
    watch: bool,
}

/// `cellway myrinet send`
#[derive(Debug, Args)]
pub(crate) struct Send {
    /// The host that sends
    from: String,
    /// The host that receives; several are a group
    #[arg(required = true)]
    to: Vec<String>,
    /// The Myrinet's name; the only one if it is not given
    #[arg(long)]
    net: Option<String>,
    /// Octets of a message: 1 to 65536
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    octets: u32,
    /// Messages
    #[arg(long, default_value_t = 1000)]
    count: u32,
    /// Send each message only after the receivers have acknowledged the previous one
    #[arg(long)]
    acknowledged: bool,
    /// The host writes messages into the interface; at most 1024 octets
    #[arg(long)]
    immediate: bool,
}

impl MyrinetCommand {
    /// Whether it runs until Ctrl-C.
    pub(crate) fn is_endless(&self) -> bool {
        matches!(self, MyrinetCommand::Monitor(monitor) if monitor.watch)
    }
}

/// `cellway myrinet`
pub(crate) fn run(context: &Context, command: &MyrinetCommand) -> Result<()> {
    match command {
        MyrinetCommand::Map(which) => {
            let net = find(context, which.net.as_deref())?;
            output::print(context, &net.map, || map_text(&net))
        }
        MyrinetCommand::Routes(which) => {
            let net = find(context, which.net.as_deref())?;
            let routes = net.hosts.iter().map(|h| (h.name.clone(), h.routes.clone())).collect();
            let routes = MyrinetRoutes(routes);
            output::print(context, &routes, || routes_text(&net))
        }
        MyrinetCommand::Send(options) => send(context, options),
        MyrinetCommand::Monitor(monitor) => {
            let stop = client::interrupted()?;
            loop {
                let net = find(context, monitor.which.net.as_deref())?;
                output::print(context, &net, || monitor_text(&net))?;
                if !monitor.watch || !client::goes_on(&stop) {
                    return Ok(());
                }
                std::thread::sleep(Duration::from_secs(1));
                if !client::goes_on(&stop) {
                    return Ok(());
                }
            }
        }
    }
}

fn find(context: &Context, name: Option<&str>) -> Result<MyrinetStatus> {
    let all = ask_kind::<Vec<MyrinetStatus>>(context, &MyrinetRequest::Myrinets)?;
    let names = all.iter().map(|net| net.name.as_str()).collect::<Vec<_>>().join(", ");
    match (name, all.len()) {
        (_, 0) => bail!("this network has no Myrinet: see examples/myrinet.toml"),
        (None, 1) => Ok(all.into_iter().next().ok_or_else(|| anyhow!("no Myrinet"))?),
        (None, _) => bail!("which Myrinet? There are {names}"),
        (Some(name), _) => {
            let found = all.into_iter().find(|net| net.name == name);
            found.ok_or_else(|| anyhow!("no Myrinet is called `{name}`: there is {names}"))
        }
    }
}

fn send(context: &Context, options: &Send) -> Result<()> {
    let net = find(context, options.net.as_deref())?.name;
    let Send { from, to, octets, count, acknowledged, immediate, .. } = options;
    let (from, to) = (from.clone(), to.clone());
    let (octets, count, acknowledged, immediate) = (*octets, *count, *acknowledged, *immediate);
    let request = MyrinetSend { net: net.clone(), from, to, octets, count, acknowledged, immediate };
    ask_kind::<Done>(context, &MyrinetRequest::MyrinetSend(request))?;
    let stop = client::interrupted()?;
    loop {
        let run = find(context, Some(&net))?.run.ok_or_else(|| anyhow!("the run is gone"))?;
        if run.done || !client::goes_on(&stop) {
            output::print(context, &run, || run_text(&run))?;
            let wanted = u64::from(run.count) * run.to.len() as u64;
            if run.done && (u64::from(run.received) < wanted || run.damaged > 0) {
                bail!("{} of {wanted} messages arrived, {} of them damaged", run.received, run.damaged);
            }
            return Ok(());
        }
        std::thread::sleep(LOOK);
    }
}

fn map_text(net: &MyrinetStatus) -> String {
    let Some(map) = &net.map else { return "no map is drawn yet: try again in a second".into() };
    let mapper = net.mapper.as_deref().unwrap_or("-");
    let agrees = if net.map_agrees { "as the cables are plugged" } else { "a cable has changed since" };
    let head = format!("{} switches, {} hosts, by the mapper {mapper}: {agrees}", map.switches, map.hosts.len());
    let rows: Vec<Vec<String>> = (0..map.switches).map(|switch| switch_row(map, switch)).collect();
    let note = "Ports are counted from the first that is plugged; a switch has no name on a Myrinet.";
    format!("{head}\n\n{}\n{note}", output::table(&["switch", "hosts (port)", "switches (port - port there)"], &rows))
}

fn switch_row(map: &MyrinetMap, switch: usize) -> Vec<String> {
    let here = |at: &[i32; 2]| usize::try_from(at[0]) == Ok(switch);
    let hosts = map.hosts.iter().filter_map(|(name, at)| Some((name, at.filter(here)?)));
    let hosts: Vec<String> = hosts.map(|(name, at)| format!("{name} ({})", at[1])).collect();
    let ends = map.cables.iter().flat_map(|[a, b]| [(a, b), (b, a)]).filter(|(near, _)| here(near));
    let switches: Vec<String> = ends.map(|(near, far)| format!("{} ({} - {})", far[0], near[1], far[1])).collect();
    vec![switch.to_string(), hosts.join(", "), switches.join(", ")]
}

fn routes_text(net: &MyrinetStatus) -> String {
    let mut rows = Vec::new();
    for host in &net.hosts {
        for (to, turns) in &host.routes {
            let turns: Vec<String> = turns.iter().map(|turn| format!("{turn:+}")).collect();
            rows.push(vec![host.name.clone(), to.clone(), turns.len().to_string(), turns.join(" ")]);
        }
    }
    output::table(&["from", "to", "switches", "ports beyond the input, switch by switch"], &rows)
}

fn monitor_text(net: &MyrinetStatus) -> String {
    let host = |h: &MyrinetHostStatus| {
        vec![
            h.name.clone(),
            h.address.clone(),
            h.plugged.clone().unwrap_or_else(|| "no cable".into()),
            h.mapper.clone().unwrap_or_else(|| "-".into()),
            h.route_count.to_string(),
            h.monitor.sent.pdus.to_string(),
            h.monitor.received.pdus.to_string(),
            h.monitor.forwarded.to_string(),
            h.monitor.link_stops.to_string(),
            format!("{:.3}", h.monitor.processor_s),
            drops(
                &[&h.monitor.sent, &h.monitor.received, &h.monitor.packets_sent, &h.monitor.packets_received]
                    .into_iter()
                    .flat_map(|c| c.dropped.clone())
                    .collect(),
            ),
        ]
    };
    let head = [
        "host",
        "address",
        "plugged",
        "mapper",
        "routes",
        "sent",
        "received",
        "forwarded",
        "link stops",
        "processor s",
        "dropped",
    ];
    let hosts = output::table(&head, &net.hosts.iter().map(host).collect::<Vec<_>>());
    let ports = net.switches.iter().flat_map(|switch| switch.ports.iter().map(move |port| (switch, port)));
    let port = |(switch, port): (&MyrinetSwitchStatus, &MyrinetPortStatus)| {
        let numbers = [port.packets, port.stops, port.slack_peak.into(), port.timeouts].map(|n| n.to_string());
        [vec![format!("{}:{}", switch.name, port.port), port.to.clone()], numbers.to_vec()].concat()
    };
    let ports = output::table(
        &["port", "to", "packets out", "stops", "most in slack", "timed out"],
        &ports.map(port).collect::<Vec<_>>(),
    );
    let stood = if net.stood_s > 0.0 {
        format!("\nIts time has stood still for {:.3} s: the processor cannot keep up.", net.stood_s)
    } else {
        String::new()
    };
    let lost = drops(&net.packets.dropped);
    let lost = if lost.is_empty() { "none lost".into() } else { format!("lost: {lost}") };
    let mapping = format!("{} of mapping and {} that found no host", net.mapping_packets, net.mapping_unfound);
    format!("{hosts}\n{ports}\n{} packets arrived, {lost}; {mapping}{stood}", net.packets.pdus)
}

fn run_text(run: &MyrinetRun) -> String {
    let mut text = format!(
        "{} messages of {} octets from {} to {}: {} arrived, {:.1} Mbit/s to each receiver, in {:.3} ms of the Myrinet's time",
        run.sent,
        run.octets,
        run.from,
        run.to.join(", "),
        run.received,
        run.mbit_s,
        run.took_s * 1e3
    );
    if let Some([least, mean, most]) = run.round_trip_us {
        text.push_str(&format!("\nround trip: {least:.1} us at least, {mean:.1} mean, {most:.1} at most"));
    }
    text
}
