//! What calls do to a running network, between two of its rounds: the channels of interfaces, and the circuits of
//! calls.
//!
//! The signalling of a switch's ports goes to its control port, which has a host of its own behind it: cells are
//! reassembled there by the engine, for one bounded endpoint for each port. Nothing on the engine's thread reads what
//! is in them.

use super::call_controller::{Change, Channel};
use super::channel::{HostSide, MAX_SDU_OCTETS};
use crate::ended::Record;
use endpoint::Aal;
use host::engine::Core;
use host::{CircuitConfig, EndpointId, HostInterface};
use net::topology::CircuitTable;
use net::{End, LinkConfig, LinkId, NodeId, RouteOptions, SwitchElement};
use std::collections::HashMap;
use traffic::Contract;
use wire::{CircuitId, Counters, DropReason, Label, Vci, Vpi};

/// Where an interface's channels end.
#[derive(Debug, Clone)]
pub struct Installed {
    /// The host or switch.
    pub station: String,
    /// Its port.
    pub port: u16,
    /// The host or switch when this was made: another one of the same name has none of it.
    pub node: NodeId,
    /// Of a switch: its control port.
    pub control: Option<u16>,
    host: NodeId,
    /// `None`: the host's circuits are for a program to open.
    endpoint: Option<EndpointId>,
    /// The link, if it leads outside: what is there hears of circuits.
    outside: Option<LinkId>,
}

impl Installed {
    /// Whether its link leads outside.
    pub fn leads_outside(&self) -> bool {
        self.outside.is_some()
    }
}

/// The circuit of a port's channel at the control port.
fn at_control(port: u16, channel: Channel) -> Option<CircuitId> {
    let vci = Vci::FIRST_USER.get().checked_add(port.checked_mul(2)?)?;
    Some(CircuitId { vpi: Vpi::default(), vci: Vci(vci.checked_add(u16::from(channel == Channel::Ilmi))?) })
}

fn control_name(switch: &str) -> String {
    // No station of a description has a blank in its name.
    format!("{switch} signalling")
}

/// Lets the channels of an interface end at an endpoint; gives the endpoint's channels. Without one they wait for a
/// program that opens them.
///
/// # Errors
/// Why not, in words.
pub fn install(
    core: &mut Core,
    station: &str,
    port: u16,
    control: Option<u16>,
    side: Option<HostSide>,
) -> Result<(Installed, [u32; 2]), String> {
    let node = core.fabric.node(station).ok_or("the station is gone")?;
    let host = match control {
        Some(control) => control_host(core, station, node, control)?,
        None => node,
    };
    let outside = outside_link(core, node, port);
    let mut circuits = [CircuitId::default(); 2];
    for (circuit, channel) in circuits.iter_mut().zip(Channel::ALL) {
        *circuit = match control {
            Some(_) => at_control(port, channel).ok_or("signalling is for ports 0 to 32750")?,
            None => channel.circuit(),
        };
    }
    if let Some(control) = control {
        let switch = core.network.node_mut::<SwitchElement>(node).ok_or("no switch")?;
        for (circuit, channel) in circuits.iter().zip(Channel::ALL) {
            let (outer, inner) = ((port, Label::Vc(channel.circuit())), (control, Label::Vc(*circuit)));
            if switch.has_route(outer.0, outer.1) {
                return Err(format!("circuit {} at port {port} is in use", channel.circuit()));
            }
            join(switch, outer, inner)?;
        }
    }
    let interface = core.network.node_mut::<HostInterface>(host).ok_or("no host")?;
    let config = CircuitConfig {
        max_sdu_octets: MAX_SDU_OCTETS,
        port: if control.is_some() { 0 } else { port },
        ..CircuitConfig::default()
    };
    for circuit in circuits {
        if interface.circuit(circuit).is_some() {
            return Err(format!("circuit {circuit} of the host is in use"));
        }
    }
    for circuit in circuits {
        interface.add_circuit(circuit, config.clone());
    }
    let mut numbers = [0; 2];
    let mut endpoint = None;
    if let Some(side) = side {
        let attached = interface.attach(side.endpoint).map_err(|e| e.to_string())?;
        for (number, circuit) in numbers.iter_mut().zip(circuits) {
            *number = interface.open(attached, circuit, Aal::Aal5).map_err(|e| e.to_string())?.0;
        }
        core.add_doorbell(host, attached, side.doorbell);
        endpoint = Some(attached);
    }
    let installed = Installed { station: station.to_owned(), port, node, control, host, endpoint, outside };
    for channel in Channel::ALL {
        tell(core, &installed, channel.circuit(), Some(Contract::default()));
    }
    Ok((installed, numbers))
}

/// The link at a port, if it leads outside.
fn outside_link(core: &Core, node: NodeId, port: u16) -> Option<LinkId> {
    let at_link = |link: &net::LinkInfo<'_>| link.ends.contains(&End::Port(node, port));
    let link = core.network.links().find(|link| at_link(link)).filter(|link| link.ends.contains(&End::External));
    link.map(|link| link.id)
}

/// Tells what is outside at an interface of its channels once more: after a change the link, or what is there, may be
/// another one.
pub fn tell_again(core: &mut Core, installed: &mut Installed) {
    let Some(link) = installed.outside else { return };
    if core.network.link_info(link).is_none() {
        installed.outside = outside_link(core, installed.node, installed.port);
    }
    for channel in Channel::ALL {
        tell(core, installed, channel.circuit(), Some(Contract::default()));
    }
}

/// The host behind a switch's control port.
fn control_host(core: &mut Core, station: &str, switch: NodeId, control: u16) -> Result<NodeId, String> {
    let name = control_name(station);
    let known = core.network.node_named(&name);
    if let Some(host) = known
        && core.network.links().any(|link| link.ends == [End::Port(switch, control), End::Port(host, 0)])
    {
        return Ok(host);
    }
    if let Some(stale) = known {
        core.network.remove_node(stale);
    }
    let host = core.network.add_node(&name, Box::new(HostInterface::new(usize::from(u16::MAX))));
    // Beside its switch: the doorbell was made for that shard.
    if let Some(shard) = core.network.shard_of(switch) {
        core.network.move_node(host, shard);
    }
    let ends = [End::Port(switch, control), End::Port(host, 0)];
    core.network.connect(ends[0], ends[1], LinkConfig::default()).map_err(|e| e.to_string())?;
    Ok(host)
}

/// Ends an interface's channels, as far as they are still there. `last`: no other interface of the switch is left.
pub fn uninstall(core: &mut Core, installed: &Installed, last: bool) {
    for channel in Channel::ALL {
        tell(core, installed, channel.circuit(), None);
    }
    if let Some(endpoint) = installed.endpoint {
        core.remove_endpoint(installed.host, endpoint, true);
    }
    let circuits = Channel::ALL.map(|channel| match installed.control {
        Some(_) => at_control(installed.port, channel),
        None => Some(channel.circuit()),
    });
    if let Some(host) = core.network.node_mut::<HostInterface>(installed.host) {
        circuits.iter().flatten().for_each(|circuit| {
            host.remove_circuit(*circuit);
        });
    }
    if let (Some(control), Some(switch)) = (installed.control, core.network.node_mut::<SwitchElement>(installed.node)) {
        for (circuit, channel) in circuits.iter().zip(Channel::ALL) {
            switch.remove_route(installed.port, Label::Vc(channel.circuit()), Some(control));
            if let Some(circuit) = circuit {
                switch.remove_route(control, Label::Vc(*circuit), None);
            }
        }
    }
    if installed.control.is_some() && last {
        core.network.remove_node(installed.host);
    }
}

/// Cells and SDUs of an interface's channels that were dropped at the host where they end.
pub fn dropped(core: &mut Core, installed: &Installed) -> u64 {
    let circuits = Channel::ALL.iter().filter_map(|channel| match installed.control {
        Some(_) => at_control(installed.port, *channel),
        None => Some(channel.circuit()),
    });
    let Some(host) = core.network.node_mut::<HostInterface>(installed.host) else { return 0 };
    circuits.filter_map(|circuit| host.circuit_counts(circuit)).map(|counts| counts.received.dropped_total()).sum()
}

fn tell(core: &mut Core, installed: &Installed, circuit: CircuitId, contract: Option<Contract>) {
    if let Some(link) = installed.outside {
        let notice = contract.map(|contract| net::CircuitNotice { aal: net::FrameAal::Aal5, contract });
        core.network.set_circuit(link, circuit, notice);
    }
}

fn join(switch: &mut SwitchElement, a: (u16, Label), b: (u16, Label)) -> Result<(), String> {
    let options = RouteOptions::default();
    switch.add_route(a, b, options).map_err(|e| e.to_string())?;
    switch.add_route(b, a, options).map_err(|e| {
        switch.remove_route(a.0, a.1, None);
        e.to_string()
    })
}

/// Carries changes out, in order; gives those that failed.
/// With them come the last counters of circuits in switches that end and have dropped something.
pub fn carry_out(
    core: &mut Core,
    changes: &[Change],
    places: &HashMap<(String, u16), Installed>,
) -> (Vec<usize>, Vec<Record>) {
    let (mut failed, mut ended) = (Vec::new(), Vec::new());
    for (at, change) in changes.iter().enumerate() {
        note_ended(core, change, &mut ended);
        if let Err(why) = one(core, change, places) {
            tracing::debug!("a call's circuit was not made: {why}");
            failed.push(at);
        }
    }
    (failed, ended)
}

/// Keeps what a switch has dropped of a call's circuit that a change ends.
fn note_ended(core: &mut Core, change: &Change, ended: &mut Vec<Record>) {
    let (switch, ways) = match change {
        Change::Part { switch, ends: [a, b] } => (switch, vec![[a, b], [b, a]]),
        Change::Branch { switch, ends: [root, leaf], contract: None, .. } => (switch, vec![[root, leaf]]),
        _ => return,
    };
    let node = core.fabric.node(switch).and_then(|node| core.network.peek_node::<SwitchElement>(node));
    let Some(element) = node else { return };
    for [from, to] in ways {
        let counted = element.circuit_counters((from.0, Label::Vc(from.1)), (to.0, Label::Vc(to.1)));
        let Some(counted) = counted.filter(|counted| counted.dropped > 0) else { continue };
        let (mut given, mut passed) = (Counters::default(), Counters::default());
        given.pass([counted.received, 0, 0]);
        passed.pass([counted.sent(), 0, 0]);
        given.drop_n(DropReason::NonConforming, counted.policed);
        given.drop_n(DropReason::EarlyDiscard, counted.early);
        given.drop_n(DropReason::QueueFull, counted.overflowed());
        ended.push(Record { kind: "switch", name: format!("{switch}:{} {}", to.0, to.1), counters: [given, passed] });
    }
}

fn one(core: &mut Core, change: &Change, places: &HashMap<(String, u16), Installed>) -> Result<(), String> {
    let place = |station: &str, port: u16| places.get(&(station.to_owned(), port));
    match change {
        Change::Join { switch, ends, contracts, .. } => {
            core.fabric.join_call(&mut core.network, switch, *ends, *contracts).map_err(|e| e.to_string())?;
            // What leaves by an end is what the other may send.
            for ((port, circuit), leaving) in ends.iter().zip(contracts.iter().rev()) {
                if let Some(installed) = place(switch, *port) {
                    tell(core, installed, *circuit, Some(*leaving));
                }
            }
        }
        Change::Part { switch, ends } => {
            core.fabric.part_call(&mut core.network, switch, *ends);
            for (port, circuit) in ends {
                if let Some(installed) = place(switch, *port) {
                    tell(core, installed, *circuit, None);
                }
            }
        }
        Change::Branch { switch, ends: [root, leaf], contract, .. } => {
            match contract {
                Some(contract) => core
                    .fabric
                    .branch_call(&mut core.network, switch, [*root, *leaf], *contract)
                    .map_err(|e| e.to_string())?,
                None => core.fabric.prune_call(&mut core.network, switch, [*root, *leaf]),
            }
            let node = core.fabric.node(switch).and_then(|node| core.network.node_mut::<SwitchElement>(node));
            let root_stays = node.is_some_and(|node| node.has_route(root.0, Label::Vc(root.1)));
            for ((port, circuit), leaving) in [(root, Contract::default()), (leaf, contract.unwrap_or_default())] {
                let stays = contract.is_some() || (port == &root.0 && root_stays);
                if let Some(installed) = place(switch, *port) {
                    tell(core, installed, *circuit, stays.then_some(leaving));
                }
            }
        }
        Change::Add { host, port, circuit, contract, .. } => {
            let node = core.fabric.node(host).ok_or("the host is gone")?;
            let interface = core.network.node_mut::<HostInterface>(node).ok_or("no host")?;
            if interface.circuit(*circuit).is_some() {
                return Err("the circuit is there already".into());
            }
            let config = CircuitConfig { contract: *contract, port: *port, ..CircuitConfig::default() };
            interface.add_circuit(*circuit, config);
            if let Some(installed) = place(host, *port) {
                tell(core, installed, *circuit, Some(*contract));
            }
        }
        Change::Remove { host, port, circuit } => {
            let Some(node) = core.fabric.node(host) else { return Ok(()) };
            if let Some(interface) = core.network.node_mut::<HostInterface>(node) {
                // A circuit of that label at another port is not the call's: it was there before, and the call was
                // refused.
                CircuitTable::remove_circuit(interface, *port, *circuit);
            }
            if let Some(installed) = place(host, *port) {
                tell(core, installed, *circuit, None);
            }
        }
    }
    Ok(())
}
