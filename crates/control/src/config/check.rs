//! A description as a whole: names that there are, ends that fit, one line to each adapter and interface. All that is
//! wrong is found; what only follows from something else that is wrong is not told.

use super::document::{Document, Written};
use super::fits::{self, SignallingEnd};
use super::hints::Hints;
use super::mappings;
use super::shell::Shell;
use super::signalling;
use super::single;
use super::{Config, Served, Switch, parse_address};
use crate::fault::{Faults, Part};
use crate::kinds::{Far, OwnLink};
use crate::names::written as ends_of;
use net::Carries;
use net::topology::{Description, LinkDescription, Station};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The links that stations make by themselves, by section and name.
type OwnLinks = BTreeMap<(&'static str, String), Vec<OwnLink>>;

/// A description on its way to being understood.
struct Check<'a> {
    document: Document<'a>,
    written: Written,
    config: Config,
    /// Names that adapters and interfaces have in the network: the way to each, and its line until a link has it.
    guests: BTreeMap<String, (Vec<Part>, Option<Shell>)>,
    /// Names of what is there but could not be understood.
    unclear: Vec<String>,
    /// Ends of links with signalling.
    signalling: Vec<SignallingEnd>,
}

/// Understands what sections say; with what is wrong so far, and with them.
pub(super) fn check(
    document: Document<'_>,
    written: Written,
    folder: &Path,
) -> (Config, Vec<crate::diagnostic::Diagnostic>) {
    let config = Config { source: document.source.clone(), ..Config::default() };
    let mut check =
        Check { document, written, config, guests: BTreeMap::new(), unclear: Vec::new(), signalling: Vec::new() };
    check.stations();
    check.guests(folder);
    let own_links = check.own_links(folder);
    check.links(folder);
    check.layouts(own_links);
    check.calls();
    check.circuits();
    check.rules();
    for (way, faults) in single::check(&check.written.file, &check.config, folder) {
        check.wrong(&way, faults);
    }
    check.config.file = check.written.file;
    (check.config, check.document.wrong)
}

impl Check<'_> {
    /// Something is wrong with a part of what `way` leads to, unless that part was left out because it was wrong.
    fn wrong(&mut self, way: &[Part], faults: Faults) {
        for fault in faults.0 {
            let first: Vec<Part> = way.iter().cloned().chain(fault.at.0.first().cloned()).collect();
            if self.written.left_out.contains(&first) {
                continue;
            }
            let part: Vec<Part> = way.iter().cloned().chain(fault.at.0).collect();
            let place = self.document.locate(&part);
            self.document.wrong.push(self.document.source.wrong(place, fault.says));
        }
    }

    fn wrong_at(&mut self, way: &[Part], says: impl ToString) {
        let mut faults = Faults::default();
        faults.add(crate::fault::PartPath::default(), says.to_string());
        self.wrong(way, faults);
    }

    fn stations(&mut self) {
        self.shards();
        let file = &self.written.file;
        let names = |station, names: Vec<&String>| names.into_iter().map(|n| (station, n.clone())).collect::<Vec<_>>();
        let all = [
            ("host", names(Station::Host, file.host.keys().collect())),
            ("switch", names(Station::Switch, file.switch.keys().collect())),
            ("outside", names(Station::Outside, file.outside.keys().collect())),
        ];
        // Circuits pass stations of a registered kind as they pass a switch.
        let of_kinds: Vec<_> = file.of_kinds.iter().map(|(section, name, _)| (section, name.clone())).collect();
        let addresses: Vec<(String, String)> =
            file.host.iter().filter_map(|(name, host)| Some((name.clone(), host.ip.clone()?))).collect();
        for (section, all) in all {
            for (station, name) in all {
                if *self.config.description.stations.entry(name.clone()).or_insert(station) != station {
                    self.named_twice(section, &name);
                }
            }
        }
        for (section, name) in of_kinds {
            if self.config.description.stations.contains_key(&name) {
                self.named_twice(section, &name);
            }
            self.config.description.stations.entry(name).or_insert(Station::Switch);
        }
        for (name, ip) in addresses {
            let mut faults = Faults::default();
            faults.take("ip", parse_address(&ip));
            self.wrong(&["host".into(), (&name).into()], faults);
        }
    }

    fn named_twice(&mut self, section: &str, name: &str) {
        let says = format!("two stations are called `{name}`: give one of them another name");
        self.wrong_at(&[section.into(), name.into()], says);
    }

    fn shards(&mut self) {
        let file = &self.written.file;
        let engine = file.engine.clone();
        let mut faults = Faults::default();
        engine.check(&mut faults);
        let hosts = file.host.iter().map(|(name, host)| ("host", name, host.shard));
        let switches = file.switch.iter().map(|(name, switch)| ("switch", name, switch.shard));
        let stations: Vec<(&str, String, Option<usize>)> =
            hosts.chain(switches).map(|(section, name, shard)| (section, name.clone(), shard)).collect();
        self.wrong(&["engine".into()], faults);
        for (section, name, shard) in stations {
            let mut faults = Faults::default();
            engine.check_shard(shard, &mut faults);
            self.wrong(&[section.into(), (&name).into()], faults);
        }
    }

    /// What has a line of its own is outside: a guest behind its adapter, a machine's stack behind its interface.
    fn guests(&mut self, folder: &Path) {
        let file = &self.written.file;
        let adapters = file.adapter.iter().map(|(name, adapter)| {
            let (host, socket) = (adapter.host().to_owned(), folder.join(adapter.socket()));
            let served = |card| Served { name: name.clone(), host: host.clone(), socket, card };
            let shell = adapter.describe(name).map(served).map(Shell::Adapter);
            ("adapter", name.clone(), host, shell)
        });
        let interfaces = file.interface.iter().map(|(name, interface)| {
            let shell = interface.describe(name).map(|device| Shell::Interface(Box::new(device)));
            ("interface", name.clone(), interface.host.clone(), shell)
        });
        let all: Vec<_> = adapters.chain(interfaces).collect();
        for (section, name, host, shell) in all {
            let way: Vec<Part> = vec![section.into(), (&name).into()];
            let shell = shell.map_err(|faults| self.wrong(&way, faults)).ok();
            if self.config.description.stations.insert(host.clone(), Station::Outside).is_some() {
                let mut faults = Faults::default();
                faults.add("host", format!("another station is called `{host}` too: give one another name"));
                self.wrong(&way, faults);
            }
            if shell.is_none() {
                self.unclear.push(host.clone());
            }
            self.guests.insert(host, (way, shell));
        }
    }

    fn links(&mut self, folder: &Path) {
        let links = self.written.file.link.clone();
        // In the order of the file, `None` where a link cannot be understood.
        let mut understood: Vec<Option<usize>> = Vec::new();
        for (nth, link) in links.iter().enumerate() {
            let way: Vec<Part> = vec!["link".into(), self.written.places[0][nth].into()];
            let mut faults = Faults::default();
            let meant = link.understand(folder, &mut faults);
            let mut place = None;
            if let Some((mut description, shell)) = meant {
                let known =
                    self.know("ends", &description.ends.each_ref().map(|end| end.station.as_str()), &mut faults);
                let signalling = link.signalling.as_ref().filter(|_| known);
                let stations = &self.config.description.stations;
                let (file, peer_circuits_to) = (&self.written.file, link.peer_circuits_to.as_deref());
                self.signalling.extend(fits::link(
                    stations,
                    file,
                    &description,
                    peer_circuits_to,
                    signalling,
                    &mut faults,
                ));
                if known {
                    let leads_out = link.leads_out();
                    let shell = self.line_of(&mut description, shell, leads_out, &mut faults);
                    let at = self.config.description.links.len();
                    if let Some(shell) = shell {
                        self.config.shells.insert(at, shell);
                    }
                    self.config.description.links.push(description);
                    self.config.places[0].push(self.written.places[0][nth]);
                    place = Some(at);
                }
            }
            understood.push(place);
            self.wrong(&way, faults);
        }
        let all_clear = understood.iter().all(Option::is_some) && self.written.left_out.is_empty();
        let plain = |text: &str| text.split_whitespace().collect::<String>();
        for (nth, link) in links.iter().enumerate() {
            let (Some(other), Some(place)) = (&link.follows, understood[nth]) else { continue };
            let others = &self.config.description.links;
            match others.iter().position(|link| plain(&ends_of(link)) == plain(other)) {
                Some(other) => drop(self.config.follows.insert(place, other)),
                None if !all_clear => {}
                None => {
                    let way: Vec<Part> = vec!["link".into(), self.written.places[0][nth].into()];
                    let mut faults = Faults::default();
                    faults.add("follows", "follows: no link has these ends; write them as that link does, `a - b`");
                    self.wrong(&way, faults);
                }
            }
        }
        let loose: Vec<(Vec<Part>, String)> = self
            .guests
            .iter()
            .filter(|(_, (_, shell))| all_clear && shell.is_some())
            .map(|(host, (way, _))| (way.clone(), host.clone()))
            .collect();
        for (way, host) in loose {
            let mut faults = Faults::default();
            faults.add("host", format!("no link leads to `{host}`: add [[link]] with it as an end"));
            self.wrong(&way, faults);
        }
    }

    /// The links that stations of registered kinds make by themselves. What these bring along at the
    /// far ends is outside.
    fn own_links(&mut self, folder: &Path) -> OwnLinks {
        let mut all = BTreeMap::new();
        for (section, name, station) in self.written.file.of_kinds.clone().iter() {
            let mut faults = Faults::default();
            let links = station.own_links(name, folder, &mut faults);
            for link in &links {
                let Far::Outside(far, _) = &link.far else { continue };
                if self.config.description.stations.insert(far.clone(), Station::Outside).is_some() {
                    let says = format!("another station is called `{far}` too: give one another name");
                    faults.add(link.part.clone(), says);
                }
            }
            self.wrong(&[section.into(), name.into()], faults);
            all.insert((section, name.clone()), links);
        }
        all
    }

    /// What stations of registered kinds are made of, and their own links behind those that are written.
    fn layouts(&mut self, mut own_links: OwnLinks) {
        for (section, name, station) in self.written.file.of_kinds.clone().iter() {
            let links = own_links.remove(&(section, name.clone())).unwrap_or_default();
            let mut faults = Faults::default();
            for link in &links {
                let Far::Station(far) = &link.far else { continue };
                if far == name || self.config.description.stations.get(far) == Some(&Station::Outside) {
                    faults.add(link.part.clone(), format!("`{far}` is no host or switch of this network"));
                } else if let Some(says) = unknown(&self.config.description, far, &mut self.document.hints) {
                    faults.add(link.part.clone(), says);
                }
            }
            let all_known = faults.0.is_empty();
            match station.describe() {
                Ok(layout) => drop(self.config.layouts.insert(name.clone(), layout)),
                Err(wrong) => faults.0.extend(wrong.0),
            }
            let way: Vec<Part> = vec![section.into(), name.into()];
            for link in links.into_iter().filter(|_| all_known) {
                let at = self.config.description.links.len();
                self.config.description.links.push(link.description);
                if let Far::Outside(_, end) = link.far {
                    self.config.shells.insert(at, Shell::Own(end));
                }
                self.config.own_links.insert(at, way.iter().cloned().chain(link.part.0).collect());
            }
            self.wrong(&way, faults);
        }
    }

    /// What is outside at a link: what it says itself, or the adapter or interface that has its line there.
    fn line_of(
        &mut self,
        link: &mut LinkDescription,
        mut shell: Option<Shell>,
        said: bool,
        faults: &mut Faults,
    ) -> Option<Shell> {
        let mut guest = false;
        for (n, end) in link.ends.clone().iter().enumerate() {
            let Some((_, line)) = self.guests.get_mut(&end.station) else { continue };
            guest = true;
            let Some(own) = line.take() else {
                if !self.unclear.contains(&end.station) {
                    let says = format!("`{}` has a link already: an adapter or interface has one line", end.station);
                    faults.add(("ends", n), says);
                }
                continue;
            };
            let (kind, _, carries) = own.of_its_own().unwrap_or_default();
            // Packets travel whole to an interface, as PDUs do over ATM over TCP; an adapter's driver deals in cells.
            if carries == Carries::Frames {
                link.config.carries = Carries::Frames;
            }
            if said || link.config.carries != carries {
                let carried = if carries == Carries::Cells { "cells" } else { "packets" };
                let says =
                    format!("a link to an {kind} carries {carried}, and neither atmtcp, cells_tcp nor cells_udp");
                faults.add(if said { "ends" } else { "carries" }, says);
            }
            if let (Shell::Adapter(served), Some(calls)) = (&own, link.config.calls) {
                faults.take("signalling", served.card.check_labels(&calls));
            }
            shell = Some(own);
        }
        let station = |n: usize| self.config.description.stations.get(&link.ends[n].station);
        let outside = [0, 1].into_iter().find(|n| station(*n) == Some(&Station::Outside));
        match outside {
            Some(n) if !said && !guest => {
                faults.add(
                    ("ends", n),
                    "this link leads outside: say how, by atmtcp = \"...\", cells_tcp = \"...\", cells_udp = {...} or \
                     pseudowire = {...}",
                );
            }
            None if said => {
                let says = "a link with atmtcp, cells_tcp, cells_udp or pseudowire leads to an [outside.NAME]: name one as an end";
                faults.add("ends", says);
            }
            _ => {}
        }
        shell
    }

    /// What belongs together for calls, beyond one link.
    fn calls(&mut self) {
        let file = &self.written.file;
        let ends = self.signalling.iter().map(|(end, station)| (end, *station));
        let mut wrong: Vec<(Vec<Part>, Faults)> = Vec::new();
        if let Err((station, says)) =
            signalling::check_ends(ends, |name| file.switch.get(name).map(Switch::has_signalling))
        {
            let section = if file.switch.contains_key(&station) { "switch" } else { "host" };
            let mut faults = Faults::default();
            faults.add(crate::fault::PartPath::default(), says);
            wrong.push((vec![section.into(), (&station).into()], faults));
        }
        for (name, switch) in &file.switch {
            let mut faults = Faults::default();
            if let Some(prefix) = &switch.prefix {
                faults.take("prefix", signalling::parse_prefix(prefix));
                if switch.ports == u16::MAX {
                    let most = u16::MAX - 1;
                    let says = format!("a switch with a prefix has a port more, for signalling: write {most} at most");
                    faults.add("ports", says);
                }
            }
            wrong.push((vec!["switch".into(), name.into()], faults));
        }
        for (name, host) in &file.host {
            let mut faults = Faults::default();
            let key = if host.esi.is_some() { "esi" } else { "address" };
            faults.take(key, signalling::Identity::of(name, host.esi.as_deref(), host.address.as_deref()));
            wrong.push((vec!["host".into(), name.into()], faults));
        }
        for (way, faults) in wrong {
            self.wrong(&way, faults);
        }
    }

    /// Circuits that are written switch by switch become the circuits that they form.
    fn join_mappings(&mut self) {
        if !self.written.file.circuit.iter().any(mappings::may_join) {
            return;
        }
        let router = fits::router(&self.config);
        let (joined, wrong) = mappings::join(&self.written.file.circuit, &router);
        for (nth, key, says) in wrong {
            let mut faults = Faults::default();
            faults.add(key, says);
            self.wrong(&["circuit".into(), self.written.places[1][nth].into()], faults);
        }
        let mut goes = vec![false; self.written.file.circuit.len()];
        for joined in joined {
            let Some(first) = joined.members.iter().copied().min() else { continue };
            joined.members.iter().for_each(|member| goes[*member] = *member != first);
            self.written.file.circuit[first] = joined.circuit;
        }
        let mut gone = goes.iter();
        self.written.file.circuit.retain(|_| gone.next() != Some(&true));
        let mut gone = goes.iter();
        self.written.places[1].retain(|_| gone.next() != Some(&true));
    }

    fn circuits(&mut self) {
        self.join_mappings();
        let mut names = BTreeSet::new();
        for (nth, circuit) in std::mem::take(&mut self.written.file.circuit).into_iter().enumerate() {
            let mut faults = Faults::default();
            let place = self.written.places[1][nth];
            if let Some(description) = circuit.understand(&mut faults) {
                let stations: Vec<&str> = description.ends.iter().map(|end| end.station.as_str()).collect();
                let via: Vec<&str> = description.via.iter().map(|via| via.station.as_str()).collect();
                let known = self.know("via", &via, &mut faults);
                if !names.insert(description.name()) {
                    faults.add("ends", "a circuit with these ends is described above: leave one of the two out");
                } else if self.know("ends", &stations, &mut faults) && known {
                    self.config.description.circuits.push(description);
                    self.config.places[1].push(place);
                }
            }
            self.wrong(&["circuit".into(), place.into()], faults);
            self.written.file.circuit.push(circuit);
        }
    }

    fn rules(&mut self) {
        for (nth, allow) in self.written.file.allow.clone().into_iter().enumerate() {
            let mut faults = Faults::default();
            match allow.describe() {
                Ok(rule) => self.config.rules.push(rule),
                Err(wrong) => faults = wrong,
            }
            if let Some(host) = &allow.host
                && let Some(says) = unknown(&self.config.description, host, &mut self.document.hints)
            {
                faults.add("host", says);
            }
            self.wrong(&["allow".into(), self.written.places[2][nth].into()], faults);
        }
    }

    /// Whether all these stations are there; the faults are those of `key`.
    fn know(&mut self, key: &str, stations: &[&str], faults: &mut Faults) -> bool {
        let mut all = true;
        for (n, station) in stations.iter().enumerate() {
            if self.config.description.stations.contains_key(*station) {
                continue;
            }
            all = false;
            if !self.left_out(station)
                && let Some(says) = unknown(&self.config.description, station, &mut self.document.hints)
            {
                faults.add((key, n), says);
            }
        }
        all
    }

    /// Whether a station is missing only because what it is could not be read.
    fn left_out(&self, station: &str) -> bool {
        !self.document.station(station).is_empty()
    }
}

/// What is wrong with the name of a station that is not there.
fn unknown(description: &Description, station: &str, hints: &mut Hints) -> Option<String> {
    if description.stations.contains_key(station) {
        return None;
    }
    let hint = hints.station(station, description.stations.keys().map(String::as_str));
    Some(format!(
        "there is no station `{station}`{hint}: add [host.{station}], [switch.{station}] or [outside.{station}]"
    ))
}
