//! `[myrinet.NAME]`: hosts that a Myrinet joins, its switches and cables, and which of its mechanisms are on.

use crate::fabric::mapper::Settings;
use crate::fabric::{Config as Links, FabricError, Marks, Switching};
use crate::myrinet::{Cable, Layout, LayoutError, Plug};
use crate::{MulticastBy, Switches};
use control::fault::{Faults, word};
use control::kinds::{Far, LinkEnd, OwnLink};
use control::quantity;
use net::topology::{Attachment, LinkDescription};
use net::{Carries, LinkConfig};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Symbols that a slack buffer may hold.
const SLACK: std::ops::RangeInclusive<u32> = 16..=65_536;
/// Metres of a cable.
const METRES: std::ops::RangeInclusive<f64> = 0.0..=1000.0;
/// Milliseconds from the end of a run of mapping to the next.
const MAPPING_MS: std::ops::RangeInclusive<u64> = 10..=600_000;

/// `[myrinet.NAME]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Myrinet {
    /// Hosts, or switches of cells, that have an interface to it.
    pub hosts: Vec<String>,
    /// Its own switches, and how many ports each has: 4 to 16.
    pub switches: BTreeMap<String, usize>,
    /// Cables.
    pub cables: Vec<MyrinetCable>,
    /// `640 Mbit/s` (LAN) or `1.28 Gbit/s` (SAN).
    pub rate: String,
    /// `cut-through`, or `store-and-forward`.
    pub switching: String,
    /// Symbols that a slack buffer holds.
    pub slack_symbols: u32,
    /// A receiver says STOP when so many symbols are in its slack buffer; by each cable's length if it is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_mark: Option<u32>,
    /// It says GO when no more than so many are left; with `stop_mark`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub go_mark: Option<u32>,
    /// A packet that has stood for so many milliseconds is given up; 0: never.
    #[serde(deserialize_with = "quantity::millis")]
    #[schemars(with = "quantity::TimeText")]
    pub timeout_ms: u64,
    /// Interfaces move contiguous memory in one transfer; else in one for each page.
    pub copy_block: bool,
    /// Hosts write short messages into the interface.
    pub immediate: bool,
    /// An interface without a free buffer stops the link; else it drops what comes.
    pub stop_link: bool,
    /// Point-to-multipoint: `cycle`, from member to member, or `repetition`, one packet to each.
    pub multicast: String,
    /// Milliseconds from the end of a run of mapping to the next.
    #[serde(deserialize_with = "quantity::millis")]
    #[schemars(with = "quantity::TimeText")]
    pub map_every_ms: u64,
}

/// A cable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MyrinetCable {
    /// A host, or a switch with its port: `m1:0`.
    pub ends: [String; 2],
    /// Its length.
    #[serde(default = "metres")]
    pub metres: f64,
}

fn metres() -> f64 {
    10.0
}

impl Default for Myrinet {
    fn default() -> Self {
        let (links, mapping) = (Links::default(), Settings::default());
        Myrinet {
            hosts: Vec::new(),
            switches: BTreeMap::new(),
            cables: Vec::new(),
            rate: "640 Mbit/s".into(),
            switching: "cut-through".into(),
            slack_symbols: links.slack,
            stop_mark: None,
            go_mark: None,
            timeout_ms: links.timeout.as_millis() as u64,
            copy_block: true,
            immediate: true,
            stop_link: true,
            multicast: "cycle".into(),
            map_every_ms: mapping.period.as_millis() as u64,
        }
    }
}

impl Myrinet {
    /// What it means.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn describe(&self) -> Result<Layout, Faults> {
        let mut faults = Faults::default();
        let layout = self.understand(&mut faults);
        if let Some(layout) = layout.as_ref().filter(|_| faults.0.is_empty()) {
            for (cable, problem) in layout.problems() {
                match cable {
                    Some(cable) => faults.add(("cables", cable), self.said(cable, &problem)),
                    None => faults.add("switches", problem),
                }
            }
        }
        faults.or(layout)
    }

    /// What is wrong with a cable, in the description's names.
    fn said(&self, cable: usize, problem: &LayoutError) -> String {
        use FabricError as E;
        use LayoutError::Cable;
        let [a, b] = &self.cables[cable].ends;
        match problem {
            Cable(E::Taken(_)) => format!("{a} - {b}: one of the ends has a cable already, or both are one"),
            Cable(E::NoEnd(_)) => format!("{a} - {b}: one of the switches has fewer ports"),
            Cable(E::TooLong { metres, under_way, .. }) => format!(
                "{a} - {b}: {metres} m of cable hold {under_way} symbols after STOP: \
                 give slack_symbols more than {under_way}"
            ),
            other => format!("{a} - {b}: {other}"),
        }
    }

    fn understand(&self, faults: &mut Faults) -> Option<Layout> {
        let symbol_ps = word(faults, "rate", &self.rate, &[("640 Mbit/s", 12_500), ("1.28 Gbit/s", 6_250)]);
        let ways = [("cut-through", Switching::CutThrough), ("store-and-forward", Switching::StoreAndForward)];
        let switching = word(faults, "switching", &self.switching, &ways);
        let ways = [("cycle", MulticastBy::Cycle), ("repetition", MulticastBy::Repetition)];
        let multicast = word(faults, "multicast", &self.multicast, &ways);
        if !SLACK.contains(&self.slack_symbols) {
            faults.add("slack_symbols", format!("slack_symbols = {}: write 16 to 65536", self.slack_symbols));
        }
        let marks = match (self.stop_mark, self.go_mark) {
            (None, None) => Marks::ByLength,
            (Some(stop), Some(go)) if go < stop && stop <= self.slack_symbols => Marks::Fixed { stop, go },
            _ => {
                faults.add("stop_mark", "stop_mark and go_mark belong together: go_mark < stop_mark <= slack_symbols");
                Marks::ByLength
            }
        };
        if !MAPPING_MS.contains(&self.map_every_ms) {
            faults.add("map_every_ms", format!("map_every_ms = {}: write 10 to 600000", self.map_every_ms));
        }
        for (n, host) in self.hosts.iter().enumerate() {
            if self.hosts[..n].contains(host) {
                faults.add(("hosts", n), format!("`{host}` is there twice: a host has one interface"));
            }
            if self.switches.contains_key(host) {
                faults.add(
                    ("hosts", n),
                    format!("a switch of this Myrinet is called `{host}` too: give it another name"),
                );
            }
        }
        let switches: Vec<(String, usize)> = self.switches.iter().map(|(name, ports)| (name.clone(), *ports)).collect();
        let cables = (0..self.cables.len()).filter_map(|n| self.cable(n, &switches, faults)).collect();
        let (timeout, period) = (Duration::from_millis(self.timeout_ms), Duration::from_millis(self.map_every_ms));
        let (copy_block, immediate, stop_link) = (self.copy_block, self.immediate, self.stop_link);
        let symbol_ps = symbol_ps?;
        Some(Layout {
            hosts: self.hosts.clone(),
            switches,
            cables,
            links: Links {
                symbol_ps,
                slack: self.slack_symbols,
                marks,
                switching: switching?,
                timeout,
                ..Links::default()
            },
            lanai: crate::Config {
                // The interface's clock goes with the link's.
                link_mb_s: 1e6 / symbol_ps as f64,
                sram_mb_s: 2e6 / symbol_ps as f64,
                switches: Switches { immediate, copy_block, stop_link, multicast: multicast? },
                ..crate::Config::default()
            },
            mapping: Settings { period, ..Settings::default() },
        })
    }

    fn cable(&self, n: usize, switches: &[(String, usize)], faults: &mut Faults) -> Option<Cable> {
        let MyrinetCable { ends, metres } = &self.cables[n];
        if !METRES.contains(metres) {
            faults.add(("cables", n), format!("metres = {metres}: write 0 to 1000"));
        }
        let mut plug = |end: &String| {
            let found = match end.split_once(':') {
                Some((name, port)) => switches.iter().position(|(own, _)| own == name).zip(port.parse().ok()),
                None => return self.hosts.iter().position(|host| host == end).map(Plug::Host).or_else(|| {
                    let says = format!(
                        "`{end}` is none of this Myrinet's hosts: add it there, or write a switch's port, such as m1:0"
                    );
                    faults.add(("cables", n), says);
                    None
                }),
            };
            if found.is_none() {
                faults.add(
                    ("cables", n),
                    format!("`{end}` is no port of this Myrinet's switches: write a name of `switches` and a number"),
                );
            }
            found.map(|(switch, port)| Plug::Switch(switch, port))
        };
        let [a, b] = ends.each_ref().map(&mut plug);
        Some(Cable { ends: [a?, b?], metres: *metres })
    }

    /// The links between its hosts and it, in the order of the hosts: PDUs pass them at once.
    pub(super) fn links(&self, name: &str) -> Vec<OwnLink> {
        let link = |(place, host): (usize, &String)| OwnLink {
            part: ("hosts", place).into(),
            description: LinkDescription {
                ends: [
                    Attachment { station: host.clone(), port: None },
                    Attachment { station: name.to_owned(), port: u16::try_from(place).ok() },
                ],
                config: LinkConfig { carries: Carries::Frames, ..LinkConfig::default() },
            },
            far: Far::Station(host.clone()),
        };
        self.hosts.iter().enumerate().map(link).collect()
    }

    /// What is wrong with a link to it that it does not make by itself: everything.
    pub(super) fn check_link(end: &LinkEnd<'_>, faults: &mut Faults) {
        faults.add(("ends", end.place), "cables of a Myrinet are in its section, and so are the hosts that it joins");
    }
}

#[cfg(test)]
mod tests {
    use crate::kind::MyrinetKind;
    use control::config::{Config, parse_with};
    use control::diagnostic::Diagnostics;
    use control::kinds::Kinds;

    const GOOD: &str = "[host.a]\n[host.b]\n[myrinet.lab]\nhosts = [\"a\", \"b\"]\nswitches = { m1 = 8 }\n\
        cables = [{ ends = [\"a\", \"m1:0\"] }, { ends = [\"b\", \"m1:5\"], metres = 25 }]\n\
        [[circuit]]\nends = [\"a 0.100\", \"b 0.100\"]\n";

    fn parse(text: &str, name: &str) -> Result<Config, Diagnostics> {
        parse_with(&Kinds::none().with::<MyrinetKind>(), text, name)
    }

    #[test]
    fn its_hosts_have_a_link_each_and_circuits_between_them_a_way() {
        let config = parse(GOOD, "x").unwrap();
        assert_eq!(config.description.links.len(), 2);
        assert_eq!(config.layouts["lab"].get::<MyrinetKind>().unwrap().cables[1].metres, 25.0);
        control::description::rehearse(&config).unwrap();
    }

    #[test]
    fn what_is_wrong_is_told_at_its_place() {
        for (from, to, says) in [
            ("m1:5", "m1:8", "net.toml:6:37: b - m1:8: one of the switches has fewer ports"),
            ("m1:5", "m1:0", "has a cable already"),
            ("m1:5", "m2:0", "`m2:0` is no port of this Myrinet's switches"),
            ("\"b\", \"m1:5\"", "\"c\", \"m1:5\"", "`c` is none of this Myrinet's hosts"),
            ("metres = 25", "metres = 2500", "write 0 to 1000"),
            ("metres = 25", "metres = 250", "give slack_symbols more than"),
            ("m1 = 8", "m1 = 3", "write 4 to 16"),
            ("hosts = [\"a\", \"b\"]", "hosts = [\"a\", \"b\", \"z\"]", "net.toml:4:20: there is no station `z`"),
            (
                "hosts = [\"a\", \"b\"]",
                "hosts = [\"a\", \"b\"]\nrate = \"1 Mbit/s\"",
                "write 640 Mbit/s or 1.28 Gbit/s",
            ),
            ("hosts = [\"a\", \"b\"]", "hosts = [\"a\", \"b\"]\nstop_mark = 50\ngo_mark = 4", "belong together"),
            ("[myrinet.lab]", "[myrinet.a]", "two stations are called `a`"),
            ("[[circuit]]", "[[link]]\nends = [\"a\", \"lab:0\"]\n[[circuit]]", "cables of a Myrinet"),
        ] {
            let e = format!("{:#}", parse(&GOOD.replacen(from, to, 1), "net.toml").unwrap_err());
            assert!(e.contains(says), "{to}: {e}");
        }
    }
}
