//! The description of a network: one TOML file in the field's words. `config show` prints every default.
//!
//! In: a text. It is read into keys and values that know their places (`document`), these become the types of each
//! section, and the whole is checked (`check`). Out: a [`Config`], or everything that is wrong, each at its line and
//! column.

mod adapter;
mod check;
mod circuit;
mod document;
mod engine;
mod file;
mod fits;
mod hints;
mod interface;
mod internet;
mod link;
pub(crate) mod mappings;
mod pseudowire;
mod renamed;
mod shell;
mod shown;
pub mod signalling;
mod single;
mod tcp;
mod traffic;
mod udp;
mod whole;

use crate::diagnostic::{Diagnostic, Diagnostics, Source};
use crate::fault::{Faults, Part, PartPath, word};
use crate::kinds::{Kinds, StationLayout};
use crate::policy::Rule;
use anyhow::{Context as _, Result};
use net::topology::{Description, Station};
use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

pub use adapter::{Served, parse_mac};
pub use circuit::{Circuit, Oam};
pub use engine::Engine;
pub use file::{File, Host, Outside, Switch};
pub use fits::{added, far_end, guest_of};
pub use interface::{Device, Interface, Route, parse_address, parse_station_mac};
pub use internet::{Addresses, Internet, parse_ip_address};
pub use link::{Link, LinkFaults, OUTSIDE_CDVT, RENAMED};
pub use pseudowire::Pseudowire;
pub use shell::Shell;
pub use shown::shown;
pub use signalling::Signalling;
pub use tcp::{LinkTls, host as atmtcp_host, parse_atmtcp};
pub(crate) use traffic::CDVT_US;
pub use traffic::Traffic;
pub use udp::Udp;
pub use whole::Whole;

/// A description is no longer than this.
pub const MAX_DESCRIPTION_OCTETS: usize = 64 << 20;

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
    /// What stations of registered kinds are made of, by name.
    pub layouts: BTreeMap<String, StationLayout>,
    /// Links that stations of registered kinds make by themselves: by their places, the way to what says so.
    own_links: BTreeMap<usize, Vec<Part>>,
    /// `[[allow]]`, understood.
    pub rules: Vec<Rule>,
    /// Its text.
    pub source: Source,
    /// Where the files are that it names.
    pub folder: PathBuf,
    /// Keys by old names.
    pub renamed: Vec<Diagnostic>,
    /// Former names of stations, with those that they have now.
    former: BTreeMap<String, String>,
    /// The place in the text's `[[link]]` of each link, and in `[[circuit]]` of each circuit.
    places: [Vec<usize>; 2],
}

impl Config {
    /// The kinds of station that it was read with.
    pub fn kinds(&self) -> &Kinds {
        self.file.of_kinds.kinds()
    }

    /// The virtual adapters.
    pub fn served(&self) -> impl Iterator<Item = &Served> {
        self.shells.values().filter_map(|shell| match shell {
            Shell::Adapter(served) => Some(served),
            _ => None,
        })
    }

    /// What has a line of its own: virtual adapters and interfaces, each with its name in the network.
    pub fn guests(&self) -> impl Iterator<Item = (&str, &Shell)> {
        self.shells.iter().filter_map(|(place, shell)| {
            let ends = &self.description.links.get(*place)?.ends;
            guest_of(shell, ends.each_ref().map(|end| end.station.as_str()), |name| {
                self.description.stations.get(name) == Some(&Station::Outside)
            })
        })
    }

    /// The place in the text's `[[link]]` of a link that is understood.
    fn place_of_link(&self, nth: usize) -> usize {
        self.places[0].get(nth).copied().unwrap_or(nth)
    }

    /// What its text says wrong at some parts of it, given as sections with the ways into them.
    pub fn wrong(&self, all: impl IntoIterator<Item = (Section, PartPath, String)>) -> Vec<Diagnostic> {
        let document = document::Document::parse(&self.source, self.kinds().clone());
        let wrong = all.into_iter().map(|(section, part, message)| {
            let listed = |kind: usize, n: usize| self.places[kind].get(n).copied().unwrap_or(n).into();
            let mut way = match section {
                Section::Station(name) => document.station(&name),
                Section::Link(n) => match self.own_links.get(&n) {
                    Some(way) => way.clone(),
                    None => vec!["link".into(), listed(0, n)],
                },
                Section::Circuit(n) => vec!["circuit".into(), listed(1, n)],
            };
            way.extend(part.0);
            self.source.wrong(document.locate(&way), message)
        });
        wrong.collect()
    }
}

/// What of a description something is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Section {
    /// A host, switch, adapter, interface or something outside, by its name in the network.
    Station(String),
    /// A link, by its place among those that are understood.
    Link(usize),
    /// A circuit, by its place among those that are understood.
    Circuit(usize),
}

/// Reads a description that may have stations of these kinds.
///
/// # Errors
/// The file cannot be read, or [`Diagnostics`]: all that is wrong with it.
pub fn load(kinds: &Kinds, path: &Path) -> Result<Config> {
    let (text, folder) = read(path)?;
    Ok(parse_in(kinds, &text, &path.display().to_string(), &folder)?)
}

/// The text of a description, and the folder where the files are that it names: they are found wherever it is read
/// from.
///
/// # Errors
/// The file cannot be read.
pub fn read(path: &Path) -> Result<(String, std::path::PathBuf)> {
    let open = || -> std::io::Result<Option<String>> {
        let mut text = String::new();
        let octets = std::fs::File::open(path)?.take(MAX_DESCRIPTION_OCTETS as u64 + 1).read_to_string(&mut text)?;
        Ok((octets <= MAX_DESCRIPTION_OCTETS).then_some(text))
    };
    let text = open().with_context(|| format!("{}", path.display()))?;
    let text = text
        .with_context(|| format!("{}: more than the {MAX_DESCRIPTION_OCTETS} octets that are read", path.display()))?;
    let folder = std::path::absolute(path)?.parent().map(Path::to_path_buf).unwrap_or_default();
    Ok((text, folder))
}

/// Understands a description of hosts and switches that names no files; `name` stands in messages.
///
/// # Errors
/// All that is wrong with it.
pub fn parse(text: &str, name: &str) -> Result<Config, Diagnostics> {
    parse_with(&Kinds::none(), text, name)
}

/// The same for one that may have stations of these kinds.
///
/// # Errors
/// All that is wrong with it.
pub fn parse_with(kinds: &Kinds, text: &str, name: &str) -> Result<Config, Diagnostics> {
    parse_in(kinds, text, name, Path::new(""))
}

/// The same for one that does: they are in `folder`.
///
/// # Errors
/// All that is wrong with it.
pub fn parse_in(kinds: &Kinds, text: &str, name: &str, folder: &Path) -> Result<Config, Diagnostics> {
    let (config, wrong) = understand(kinds, text, name, folder);
    if wrong.is_empty() { Ok(config) } else { Err(Diagnostics::new(config.source, wrong)) }
}

/// What of a description can be understood, and all that is wrong with it.
pub fn understand(kinds: &Kinds, text: &str, name: &str, folder: &Path) -> (Config, Vec<Diagnostic>) {
    let source = Source::new(name, text);
    let mut document = document::Document::parse(&source, kinds.clone());
    let mut written = document.file();
    let (mut renamed, mut twice) = (Vec::new(), Vec::new());
    for (link, place) in written.file.link.iter_mut().zip(&written.places[0]) {
        let mut faults = Faults::default();
        let at = |key: &str| document.locate(&["link".into(), (*place).into(), key.into()]);
        for (old, new) in link.take_old_names(&mut faults) {
            let says =
                format!("`{old}` is an old name, read for one release: write `{new}`, or run `cellway config upgrade`");
            renamed.push(source.wrong(at(old), says));
        }
        twice.extend(faults.0.into_iter().map(|fault| {
            let way = ["link".into(), (*place).into()].into_iter().chain(fault.at.0).collect::<Vec<Part>>();
            source.wrong(document.locate(&way), fault.says)
        }));
    }
    renamed.iter().for_each(|key: &Diagnostic| tracing::warn!("{key}"));
    let (mut config, mut wrong) = check::check(document, written, folder);
    (config.renamed, config.folder) = (renamed, folder.to_path_buf());
    wrong.extend(twice);
    (config, wrong)
}

/// A description with today's names of keys in the place of old ones; nothing else in it changes. Gives how many there were.
///
/// # Errors
/// All that is wrong with it.
pub fn upgrade(kinds: &Kinds, text: &str, name: &str, folder: &Path) -> Result<(String, usize), Diagnostics> {
    parse_in(kinds, text, name, folder)?;
    let source = Source::new(name, text);
    let document = document::Document::parse(&source, kinds.clone());
    let mut places = document.keys_of_links(|key| RENAMED.iter().find(|(old, _)| *old == key).map(|(_, new)| *new));
    places.sort_by_key(|(at, _)| std::cmp::Reverse(at.start));
    let mut upgraded = text.to_owned();
    for (at, new) in &places {
        upgraded.replace_range(at.clone(), new);
    }
    Ok((upgraded, places.len()))
}

#[cfg(test)]
mod tests;
