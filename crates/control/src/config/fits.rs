//! Whether a link fits the stations and sections of a description, whoever adds it.

use super::signalling::{Signalling, check_ends};
use super::{Config, File, Shell, Switch};
use crate::fault::Faults;
use crate::kinds::LinkEnd;
use anyhow::{Result, bail};
use net::topology::{Attachment, LinkDescription, Router, Station, StationKind};
use net::{Carries, SwitchElementConfig};
use std::collections::{BTreeMap, BTreeSet};

/// An end of a link with signalling.
pub(super) type SignallingEnd = (Attachment, Station);

/// What is wrong with one link beside stations that there are. Gives its ends if it has signalling.
pub(super) fn link(
    stations: &BTreeMap<String, Station>,
    file: &File,
    description: &LinkDescription,
    peer_circuits_to: Option<&str>,
    signalling: Option<&Signalling>,
    faults: &mut Faults,
) -> Vec<SignallingEnd> {
    if let Some(host) = peer_circuits_to
        && stations.get(host) != Some(&Station::Host)
    {
        faults.add("peer_circuits_to", format!("peer_circuits_to = \"{host}\": there is no host of this name"));
    }
    for (n, end) in description.ends.iter().enumerate() {
        if let Some(switch) = file.switch.get(&end.station).filter(|switch| switch.has_signalling())
            && end.port == Some(switch.ports)
        {
            // The one behind them is for signalling.
            let last = switch.ports.saturating_sub(1);
            faults.add(("ends", n), format!("`{}` has the ports 0 to {last}", end.station));
        }
        if let Some(station) = file.of_kinds.get(&end.station) {
            let (carries, signalling) = (description.config.carries, signalling.is_some());
            let end = LinkEnd { place: n, station: &end.station, port: end.port, carries, signalling };
            station.check_link(&end, faults);
        }
    }
    let Some(signalling) = signalling else { return Vec::new() };
    // What commands name and nobody else is outside.
    let kind = |end: &Attachment| stations.get(&end.station).copied().unwrap_or(Station::Outside);
    let kinds = description.ends.each_ref().map(kind);
    faults.take("signalling", signalling.check(kinds, &description.config));
    description.ends.iter().cloned().zip(kinds).collect()
}

/// What is wrong with a link that a command adds to a description's. `taken`: stations at links with signalling that
/// there are. It is one more of them, if it has signalling.
///
/// # Errors
/// All that is wrong.
pub fn added(
    config: &Config,
    description: &LinkDescription,
    shell: Option<&Shell>,
    signalling: Option<&Signalling>,
    taken: &mut BTreeSet<String>,
) -> Result<(), Faults> {
    let mut faults = Faults::default();
    let peer_circuits_to = match shell {
        Some(Shell::AtmTcp { peer_circuits_to, .. }) => peer_circuits_to.as_deref(),
        _ => None,
    };
    let (stations, file) = (&config.description.stations, &config.file);
    let own = link(stations, file, description, peer_circuits_to, signalling, &mut faults);
    if let (Some(Shell::Adapter(served)), Some(calls)) = (shell, &description.config.calls) {
        faults.take("signalling", served.card.check_labels(calls));
    }
    // Each host that has a link is there once more.
    let others = own.iter().filter(|(end, _)| taken.contains(&end.station));
    let ends = others.chain(&own).map(|(end, station)| (end, *station));
    if let Err((station, says)) = check_ends(ends, |name| file.switch.get(name).map(Switch::has_signalling)) {
        faults.add("signalling", format!("{station}: {says}"));
    }
    faults.or(Some(()))?;
    taken.extend(own.into_iter().map(|(end, _)| end.station));
    Ok(())
}

/// What has a line of its own at a link, if anything has, with its name in the network. `is_outside`: whether a station
/// is.
pub fn guest_of<'a>(
    shell: &'a Shell,
    ends: [&'a str; 2],
    is_outside: impl Fn(&str) -> bool,
) -> Option<(&'a str, &'a Shell)> {
    match shell {
        Shell::Adapter(served) => Some((&served.host, shell)),
        Shell::Interface(_) => ends.into_iter().find(|name| is_outside(name)).map(|name| (name, shell)),
        _ => None,
    }
}

/// What is outside at a link that a command adds: what it says itself, or the adapter or interface that has its line
/// there. `guests`: those that there are.
///
/// # Errors
/// It says something else, or does not carry what an adapter takes.
pub fn far_end<'a>(
    guests: impl IntoIterator<Item = (&'a str, &'a Shell)>,
    description: &mut LinkDescription,
    shell: Option<Shell>,
) -> Result<Option<Shell>> {
    let at = |host: &str| description.ends.iter().any(|end| end.station == host);
    let Some((_, guest)) = guests.into_iter().find(|(host, _)| at(host)) else { return Ok(shell) };
    let (kind, _, carries) = guest.of_its_own().unwrap_or_default();
    // Packets travel whole to an interface, as PDUs do over ATM over TCP; an adapter's driver deals in cells.
    if carries == Carries::Frames {
        description.config.carries = Carries::Frames;
    }
    if shell.is_some() || description.config.carries != carries {
        let carried = if carries == Carries::Cells { "cells" } else { "packets" };
        bail!("a link to an {kind} carries {carried}, and neither atmtcp, cells_tcp nor cells_udp");
    }
    Ok(Some(guest.clone()))
}

/// The stations of a description and the links between them, as far as they fit together, with the ports that links
/// have.
pub(super) fn router(config: &Config) -> Router {
    let mut router = Router::new();
    for (name, station) in &config.description.stations {
        let switch = || match config.file.switch.get(name) {
            Some(switch) => switch.config(),
            // One of another kind has as many ports as links name.
            None => SwitchElementConfig { ports: u16::MAX, ..SwitchElementConfig::default() },
        };
        let kind = match station {
            Station::Host => StationKind::Host,
            Station::Switch => StationKind::Switch(switch()),
            Station::Outside => StationKind::Outside,
        };
        // Names are those of a table, and a link that does not fit is told of when the whole is tried.
        _ = router.add_station(name, kind);
    }
    for link in &config.description.links {
        _ = router.add_link(link);
    }
    router
}
