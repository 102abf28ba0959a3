//! The description of a network: one TOML file in the field's words. `config show` prints every default.

mod adapter;
mod engine;
mod interface;
mod tcp;

use crate::names::written;
use crate::policy::{Allow, Rule};
use anyhow::{Context as _, Result, anyhow, bail};
use net::topology::{
    Attachment, CircuitDescription, CircuitEnd, Description, LinkDescription, Station, parse_circuit_rate,
    parse_link_rate,
};
use net::{Aal, Carries, FaultConfig, LinkConfig};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;
use toml::Spanned;
use traffic::Contract;

pub use adapter::{Adapter, Served};
pub use engine::Engine;
pub use interface::{Device, Interface, parse_address};
pub use tcp::{LinkTls, host as atmtcp_host, parse_atmtcp};

/// The whole file.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct File {
    /// The thread that carries everything.
    #[serde(skip_serializing_if = "Engine::is_default")]
    pub engine: Engine,
    /// Hosts by name.
    pub host: BTreeMap<String, Host>,
    /// Switches by name.
    pub switch: BTreeMap<String, Switch>,
    /// Far ends of links that leave this program, by name.
    pub outside: BTreeMap<String, Outside>,
    /// Virtual adapters by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub adapter: BTreeMap<String, Adapter>,
    /// IP interfaces by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub interface: BTreeMap<String, Interface>,
    /// Links.
    pub link: Vec<Spanned<Link>>,
    /// Circuits.
    pub circuit: Vec<Spanned<Circuit>>,
    /// Who may open which of them, besides the user who runs the network.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<Spanned<Allow>>,
}

/// `[host.NAME]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Host {
    /// Address and prefix for `cellway ip`, such as `10.0.0.1/24`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip: Option<String>,
    /// Endpoints at most.
    pub max_endpoints: usize,
}

impl Default for Host {
    fn default() -> Self {
        Host { ip: None, max_endpoints: 256 }
    }
}

/// `[switch.NAME]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Switch {
    /// Ports, numbered from 0.
    pub ports: u16,
    /// Routes at most.
    pub max_routes: usize,
}

impl Switch {
    /// The bounds as the network takes them.
    pub fn config(&self) -> net::SwitchConfig {
        net::SwitchConfig { ports: self.ports, max_routes: self.max_routes }
    }
}

impl Default for Switch {
    fn default() -> Self {
        let default = net::SwitchConfig::default();
        Switch { ports: default.ports, max_routes: default.max_routes }
    }
}

/// `[outside.NAME]`
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outside {}

/// `[[link]]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Two names, with a port after a colon where it matters.
    pub ends: [String; 2],
    /// `unlimited`, `OC-3c`, `20 Mbit/s`, ...
    #[serde(default = "unlimited")]
    pub rate: String,
    /// Microseconds from end to end.
    #[serde(default)]
    pub delay_us: u64,
    /// `cells` or `frames`.
    #[serde(default = "cells")]
    pub carries: String,
    /// Cells (or frames) that wait at most.
    #[serde(default = "queue_cells")]
    pub queue_cells: usize,
    /// Faults on purpose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub faults: Option<LinkFaults>,
    /// ATM over TCP: `listen ADDRESS:PORT` or `connect ADDRESS:PORT`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub atmtcp: Option<String>,
    /// With `atmtcp`: circuits that the peer opens lead to this host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub real: Option<String>,
    /// With `atmtcp`: by TLS, with certificates at both ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<LinkTls>,
    /// Cells in UDP datagrams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub udp: Option<Udp>,
    /// Another link's ends as written there, `s1:1 - far`: while that one is down, this one is too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follows: Option<String>,
}

fn unlimited() -> String {
    "unlimited".into()
}
fn cells() -> String {
    "cells".into()
}
fn queue_cells() -> usize {
    LinkConfig::default().queue_cells
}

/// `faults = { ... }` of a link: probabilities per cell.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LinkFaults {
    /// Same seed, same faults.
    pub seed: u64,
    /// Lost.
    pub loss: f64,
    /// Arriving twice.
    pub duplication: f64,
    /// Arriving late.
    pub reordering: f64,
    /// With a bit flipped.
    pub corruption: f64,
}

/// `udp = { ... }` of a link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Udp {
    /// This end.
    pub local: SocketAddr,
    /// The far end.
    pub peer: SocketAddr,
    /// `cell`: one 53-octet cell to a datagram; `batch`: up to 27.
    #[serde(default = "one_cell")]
    pub form: String,
    /// With `cell`: the header at the `uni` (8 bits of VPI) or at the `nni` (12 bits).
    #[serde(default = "uni", skip_serializing_if = "is_uni")]
    pub header: String,
}

impl Udp {
    /// What a datagram holds.
    ///
    /// # Errors
    /// A word is none of those.
    pub fn form(&self) -> Result<links::udp::Form> {
        use wire::octets::Format;
        Ok(match (self.form.as_str(), self.header.as_str()) {
            ("batch", "uni" | "nni") => links::udp::Form::Batch,
            ("cell", "uni") => links::udp::Form::Cell(Format::Uni),
            ("cell", "nni") => links::udp::Form::Cell(Format::Nni),
            ("cell" | "batch", other) => bail!("header = \"{other}\": write uni or nni"),
            (other, _) => bail!("form = \"{other}\": write cell or batch"),
        })
    }
}

fn uni() -> String {
    "uni".into()
}
fn is_uni(header: &str) -> bool {
    header == "uni"
}

fn one_cell() -> String {
    "cell".into()
}

/// `[[circuit]]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Circuit {
    /// `"alpha 0.100"` for each end, or `"s1:0 7.*"` for a path; more than two: from the first to all others.
    pub ends: Vec<String>,
    /// `cbr`, `rt-vbr`, `nrt-vbr`, `abr` or `ubr`.
    #[serde(default = "ubr")]
    pub category: String,
    /// `best-effort`, or `credit`: no cell is dropped for want of room.
    #[serde(default = "best_effort")]
    pub flow: String,
    /// Peak cell rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pcr: Option<String>,
    /// Sustainable cell rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scr: Option<String>,
    /// Maximum burst size in cells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mbs: Option<u32>,
    /// Cell delay variation tolerance in microseconds.
    #[serde(default = "cdvt_us")]
    pub cdvt_us: u64,
    /// `aal5`, `aal0` or `aal34`.
    #[serde(default = "aal5")]
    pub aal: String,
    /// Whether data goes from the first end to the second only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub one_way: bool,
}

fn best_effort() -> String {
    "best-effort".into()
}

fn ubr() -> String {
    "ubr".into()
}
fn aal5() -> String {
    "aal5".into()
}
/// A thread on a general-purpose machine wakes this late now and then; it may catch up then.
fn cdvt_us() -> u64 {
    1000
}

/// What is outside at a link.
#[derive(Debug, Clone, PartialEq)]
pub enum Shell {
    /// ATM over TCP.
    AtmTcp {
        /// Who connects.
        role: links::tcp::Role,
        /// The host to which circuits of the peer's lead.
        real: Option<String>,
        /// The texts of its TLS.
        tls: Option<links::tcp::TlsTexts>,
    },
    /// Cells in datagrams.
    Udp(Udp),
    /// A virtual adapter, and whoever drives it.
    Adapter(Served),
    /// An IP interface on a device.
    Interface(Box<Device>),
}

impl Shell {
    /// What the far end of a link to it is called in messages, and what such a link carries.
    pub(crate) fn of_its_own(&self) -> Option<(&'static str, &str, Carries)> {
        match self {
            Shell::Adapter(served) => Some(("adapter", &served.name, Carries::Cells)),
            Shell::Interface(device) => Some(("interface", &device.name, Carries::Frames)),
            Shell::AtmTcp { .. } | Shell::Udp(_) => None,
        }
    }
}

/// A file read and understood.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// The file as it was written.
    pub file: File,
    /// Its stations, links and circuits.
    pub description: Description,
    /// The outside of links, by the place of the link among the links.
    pub shells: BTreeMap<usize, Shell>,
    /// Links that are down while another is, both by their places.
    pub follows: BTreeMap<usize, usize>,
    /// `[[allow]]`, understood.
    pub rules: Vec<Rule>,
}

impl Config {
    /// The virtual adapters.
    pub fn served(&self) -> impl Iterator<Item = &Served> {
        self.shells.values().filter_map(|shell| match shell {
            Shell::Adapter(served) => Some(served),
            _ => None,
        })
    }
}

impl Link {
    /// What it means; files that it names are looked for in `folder`.
    pub fn describe(&self, folder: &Path) -> Result<(LinkDescription, Option<Shell>)> {
        let shell = match (&self.atmtcp, &self.udp) {
            (Some(_), Some(_)) => bail!("a link has `atmtcp` or `udp`, not both"),
            (Some(text), None) => {
                let tls = self.tls.as_ref().map(|tls| tls.read(folder, tcp::host(text))).transpose()?;
                Some(Shell::AtmTcp { role: tcp::parse_atmtcp(text)?, real: self.real.clone(), tls })
            }
            (None, _) if self.real.is_some() => bail!("`real` belongs to a link with `atmtcp`"),
            (None, _) if self.tls.is_some() => bail!("`tls` belongs to a link with `atmtcp`"),
            (None, Some(udp)) => {
                udp.form()?;
                Some(Shell::Udp(udp.clone()))
            }
            (None, None) => None,
        };
        let carries = match (self.carries.as_str(), &shell) {
            ("frames", Some(Shell::Udp(_))) => bail!("a UDP link carries cells"),
            (_, Some(Shell::AtmTcp { .. })) | ("frames", None) => Carries::Frames,
            ("cells", _) => Carries::Cells,
            (other, _) => bail!("carries = \"{other}\": write cells or frames"),
        };
        let faults = self.faults.as_ref().map(|f| FaultConfig {
            seed: f.seed,
            loss: f.loss,
            duplication: f.duplication,
            reordering: f.reordering,
            reorder_by: Duration::from_micros(100),
            corruption: f.corruption,
            outages: Vec::new(),
        });
        let config = LinkConfig {
            carries,
            rate: parse_link_rate(&self.rate)?,
            delay: Duration::from_micros(self.delay_us),
            queue_cells: self.queue_cells.clamp(16, 1 << 20),
            faults,
            max_vpi: if self.udp.as_ref().is_some_and(|udp| udp.form == "cell") {
                wire::Vpi::MAX_UNI
            } else {
                wire::Vpi::MAX
            },
        };
        let ends: [Attachment; 2] = [self.ends[0].parse()?, self.ends[1].parse()?];
        Ok((LinkDescription { ends, config }, shell))
    }
}

impl Circuit {
    /// What it means.
    ///
    /// # Errors
    /// A part of it cannot be understood.
    pub fn describe(&self) -> Result<CircuitDescription> {
        if self.ends.len() < 2 {
            bail!("a circuit has two ends at least, such as ends = [\"alpha 0.100\", \"beta 0.100\"]");
        }
        let ends = self.ends.iter().map(|e| e.parse::<CircuitEnd>()).collect::<Result<Vec<_>, _>>()?;
        let rate = |text: &Option<String>| text.as_deref().map(parse_circuit_rate).transpose();
        let contract = Contract {
            category: self.category.parse().with_context(|| format!("category = \"{}\"", self.category))?,
            pcr: rate(&self.pcr)?,
            scr: rate(&self.scr)?,
            mbs: self.mbs,
            cdvt: Duration::from_micros(self.cdvt_us),
            flow: match self.flow.as_str() {
                "best-effort" => traffic::Flow::BestEffort,
                "credit" => traffic::Flow::Credit,
                other => bail!("flow = \"{other}\": write best-effort or credit"),
            },
        };
        let aal = match self.aal.as_str() {
            "aal5" => Aal::Aal5,
            "aal0" => Aal::Aal0,
            "aal34" => Aal::Aal34,
            other => bail!("aal = \"{other}\": write aal5, aal0 or aal34"),
        };
        Ok(CircuitDescription { ends, aal, contract: contract.checked()?, one_way: self.one_way })
    }
}

/// Reads a description.
pub fn load(path: &Path) -> Result<Config> {
    let text = std::fs::read_to_string(path).with_context(|| format!("{}", path.display()))?;
    // What a description names beside itself is found wherever it is read from.
    let folder = std::path::absolute(path)?.parent().map(Path::to_path_buf).unwrap_or_default();
    let mut config = parse_in(&text, &path.display().to_string(), &folder)?;
    for shell in config.shells.values_mut() {
        if let Shell::Adapter(served) = shell {
            served.socket = folder.join(&served.socket);
        }
    }
    Ok(config)
}

/// Understands a description that names no files; `name` stands in messages.
pub fn parse(text: &str, name: &str) -> Result<Config> {
    parse_in(text, name, Path::new(""))
}

/// The same for one that does: they are in `folder`.
///
/// # Errors
/// What is wrong with it, and where.
pub fn parse_in(text: &str, name: &str, folder: &Path) -> Result<Config> {
    let file: File = toml::from_str(text).map_err(|e| {
        let line = e.span().map_or(1, |s| line_of(text, s.start));
        anyhow!("{name}:{line}: {}{}", e.message().trim(), nearest(e.message()))
    })?;
    let mut config = Config::default();
    let stations = &mut config.description.stations;
    for (names, station) in [
        (file.host.keys().collect::<Vec<_>>(), Station::Host),
        (file.switch.keys().collect(), Station::Switch),
        (file.outside.keys().collect(), Station::Outside),
    ] {
        for station_name in names {
            if stations.insert(station_name.clone(), station).is_some() {
                bail!("{name}: two stations are called `{station_name}`: give one of them another name");
            }
        }
    }
    // What has a line of its own is outside: a guest behind its adapter, a machine's stack behind its interface.
    let mut own_lines = BTreeMap::new();
    let at = |kind: &str, which: &str| format!("{name}: {kind} {which}");
    let adapters = file.adapter.iter().map(|(adapter, settings)| {
        let served = settings.describe(adapter).with_context(|| at("adapter", adapter))?;
        Ok((settings.host.as_str(), Shell::Adapter(served)))
    });
    let interfaces = file.interface.iter().map(|(interface, settings)| {
        let device = settings.describe(interface).with_context(|| at("interface", interface))?;
        Ok((settings.host.as_str(), Shell::Interface(Box::new(device))))
    });
    for shell in adapters.chain(interfaces).collect::<Result<Vec<_>>>()? {
        let (host, shell) = shell;
        let (kind, which, _) = shell.of_its_own().unwrap_or_default();
        if stations.insert(host.to_owned(), Station::Outside).is_some() {
            return Err(
                anyhow!("another station is called `{host}` too: give one another name").context(at(kind, which))
            );
        }
        own_lines.insert(host, Some(shell));
    }
    for link in &file.link {
        let at = || format!("{name}:{}", line_of(text, link.span().start));
        let (mut description, mut shell) = link.get_ref().describe(folder).with_context(at)?;
        for end in &description.ends {
            known(&config.description, &end.station).with_context(at)?;
        }
        if let Some(host) = &link.get_ref().real
            && config.description.stations.get(host) != Some(&Station::Host)
        {
            return Err(anyhow!("real = \"{host}\": there is no host of this name").context(at()));
        }
        for end in description.ends.clone() {
            let Some(own) = own_lines.get_mut(end.station.as_str()) else { continue };
            let has_one = || anyhow!("`{}` has a link already: an adapter or interface has one line", end.station);
            let own = own.take().ok_or_else(has_one).with_context(at)?;
            let (kind, _, carries) = own.of_its_own().unwrap_or_default();
            // Packets travel whole to an interface, as PDUs do over ATM over TCP; an adapter's driver deals in cells.
            if carries == Carries::Frames {
                description.config.carries = Carries::Frames;
            }
            if shell.is_some() || description.config.carries != carries {
                let carried = if carries == Carries::Cells { "cells" } else { "packets" };
                return Err(anyhow!("a link to an {kind} carries {carried}, and neither atmtcp nor udp").context(at()));
            }
            shell = Some(own);
        }
        let outside = description.ends.iter().any(|e| config.description.stations[&e.station] == Station::Outside);
        match (outside, &shell) {
            (true, None) => {
                return Err(
                    anyhow!("this link leads outside: say how, by atmtcp = \"...\" or udp = {{...}}").context(at())
                );
            }
            (false, Some(_)) => {
                return Err(
                    anyhow!("a link with atmtcp or udp leads to an [outside.NAME]: name one as an end").context(at())
                );
            }
            _ => {}
        }
        if let Some(shell) = shell {
            config.shells.insert(config.description.links.len(), shell);
        }
        config.description.links.push(description);
    }
    for (place, link) in file.link.iter().enumerate() {
        let Some(other) = &link.get_ref().follows else { continue };
        let at = || format!("{name}:{}", line_of(text, link.span().start));
        let plain = |text: &str| text.split_whitespace().collect::<String>();
        let other = config.description.links.iter().position(|link| plain(&written(link)) == plain(other));
        let other =
            other.ok_or_else(|| anyhow!("follows: no link has these ends; write them as that link does, `a - b`"));
        config.follows.insert(place, other.with_context(at)?);
    }
    for (host, shell) in own_lines {
        if let Some((kind, which, _)) = shell.as_ref().and_then(Shell::of_its_own) {
            bail!("{name}: {kind} {which}: no link leads to `{host}`: add [[link]] with it as an end");
        }
    }
    for circuit in &file.circuit {
        let at = || format!("{name}:{}", line_of(text, circuit.span().start));
        let description = circuit.get_ref().describe().with_context(at)?;
        for end in &description.ends {
            known(&config.description, &end.station).with_context(at)?;
        }
        config.description.circuits.push(description);
    }
    for allow in &file.allow {
        let at = || format!("{name}:{}", line_of(text, allow.span().start));
        let rule = allow.get_ref().describe().with_context(at)?;
        if let Some(host) = &allow.get_ref().host {
            known(&config.description, host).with_context(at)?;
        }
        config.rules.push(rule);
    }
    for (host, settings) in &file.host {
        if let Some(ip) = &settings.ip {
            parse_address(ip).with_context(|| format!("{name}: host {host}"))?;
        }
    }
    config.file = file;
    Ok(config)
}

fn known(description: &Description, station: &str) -> Result<()> {
    if description.stations.contains_key(station) {
        return Ok(());
    }
    let near = description.stations.keys().min_by_key(|k| distance(k, station));
    let hint = near.map(|n| format!(" (is it `{n}`?)")).unwrap_or_default();
    bail!("there is no station `{station}`{hint}: add [host.{station}], [switch.{station}] or [outside.{station}]")
}

fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes().iter().take(at).filter(|b| **b == b'\n').count() + 1
}

/// Of serde's "unknown field `x`, expected one of `a`, `b`": the nearest of those.
fn nearest(message: &str) -> String {
    let mut quoted = message.split('`').skip(1).step_by(2);
    match (message.starts_with("unknown field"), quoted.next()) {
        (true, Some(unknown)) => quoted
            .min_by_key(|known| distance(known, unknown))
            .map(|known| format!(" (is it `{known}`?)"))
            .unwrap_or_default(),
        _ => String::new(),
    }
}

/// Levenshtein's.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replace = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replace.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GOOD: &str = "[host.alpha]\n[host.beta]\nip = \"10.0.0.2/24\"\n[switch.s1]\n\n[[link]]\nends = [\"alpha\", \"s1:0\"]\nrate = \"OC-3c\"\n[[link]]\nends = [\"beta\", \"s1:1\"]\n\n[[circuit]]\nends = [\"alpha 0.100\", \"beta 0.100\"]\ncategory = \"cbr\"\npcr = \"20 Mbit/s\"\n";

    fn error(text: &str) -> String {
        format!("{:#}", parse(text, "net.toml").unwrap_err())
    }

    #[test]
    fn the_designs_example_is_understood() {
        let config = parse(GOOD, "x").unwrap();
        assert_eq!(config.description.links.len(), 2);
        let circuit = &config.description.circuits[0];
        assert_eq!(circuit.contract.pcr.unwrap().payload_bits_per_s().round(), 20e6);
    }

    #[test]
    fn errors_name_file_line_and_cure() {
        let e = error(&GOOD.replace("rate =", "rat ="));
        assert!(e.starts_with("net.toml:8: unknown field `rat`") && e.contains("is it `rate`?"), "{e}");
        let e = error(&GOOD.replace("\"beta\", ", "\"bata\", "));
        assert!(e.starts_with("net.toml:9:") && e.contains("no station `bata` (is it `beta`?)"), "{e}");
        let e = error(&GOOD.replace("20 Mbit/s", "fast"));
        assert!(e.starts_with("net.toml:12:") && e.contains("fast"), "{e}");
        let e = error(&GOOD.replace("OC-3c", "OC-3d"));
        assert!(e.contains("OC-3d") && e.contains("write"), "{e}");
        assert!(error("[host.a]\n[switch.a]\n").contains("two stations"));
        assert!(error("[host.a]\nip = \"10.0.0/8\"\n").contains("host a"));
    }

    #[test]
    fn an_adapter_stands_for_its_guest_at_the_end_of_one_link() {
        const WITH: &str = "[adapter.eni0]\nhost = \"guest\"\nsocket = \"eni0.sock\"\n[switch.s]\n[[link]]\nends = [\"guest\", \"s:0\"]\n";
        let config = parse(WITH, "x").unwrap();
        assert_eq!(config.description.stations["guest"], Station::Outside);
        assert!(config.served().map(|served| served.name.as_str()).eq(["eni0"]));
        let again = format!("{WITH}[[link]]\nends = [\"guest\", \"s:1\"]\n");
        for (text, says) in [
            (again.as_str(), "has a link already"),
            (&WITH.replace("\"guest\", \"s:0\"", "\"s:0\", \"s:1\""), "no link leads to `guest`"),
            (&WITH.replace("[switch.s]", "board = \"vlsi\"\n[switch.s]"), "write asic or fpga"),
            (&WITH.replace("[switch.s]", "[switch.guest]\n[switch.s]"), "another station is called `guest`"),
            (&format!("{WITH}carries = \"frames\"\n"), "carries cells"),
        ] {
            let e = error(text);
            assert!(e.contains(says), "{e}");
        }
    }

    #[test]
    fn every_example_is_in_order() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
        let mut n = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|e| e == "toml") {
                load(&path).unwrap();
                n += 1;
            }
        }
        assert!(n >= 5, "{n} examples");
    }

    #[test]
    fn what_show_prints_means_the_same() {
        let config = parse(GOOD, "x").unwrap();
        let again = parse(&toml::to_string_pretty(&config.file).unwrap(), "y").unwrap();
        assert_eq!(again.description, config.description);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[\\[\\]a-z.=\"0-9 \n:{},/-]{0,200}", cut in 0usize..250) {
            let _ = parse(&text, "x");
            let _ = parse(&GOOD[..cut.min(GOOD.len())], "x");
        }
    }
}
