//! A TOML text as sections whose parts know where they are written. What is wrong does not end the reading: syntax goes
//! on at the next line that can be understood, and a key that cannot be used is left out of its table and the rest is
//! used.

use super::hints::Hints;
use super::{Circuit, Engine, File, Host, Interface, Link, Outside, Switch};
use crate::diagnostic::{Diagnostic, Source};
use crate::fault::Part;
use crate::kinds::{Kinds, Sections};
use crate::policy::Allow;
use serde::de::{DeserializeOwned, IntoDeserializer as _};
use std::collections::BTreeMap;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The sections that name what they describe, and are ends of links by that name; so are those of registered kinds.
const STATIONS: [&str; 3] = ["host", "switch", "outside"];
/// Those whose ends have another name, which `host` says.
const GUESTS: [&str; 2] = ["adapter", "interface"];
/// The sections before those of registered kinds, and behind them.
const SECTIONS: [&[&str]; 2] = [&["engine", "host", "switch", "outside"], &["interface", "link", "circuit", "allow"]];

/// A text that has been read, and what was wrong with it.
pub(super) struct Document<'a> {
    pub(super) source: &'a Source,
    kinds: Kinds,
    root: Spanned<DeTable<'a>>,
    pub(super) wrong: Vec<Diagnostic>,
    pub(super) hints: Hints,
}

/// The whole, with what was left out because it was wrong.
#[derive(Debug, Default)]
pub(super) struct Written {
    pub(super) file: File,
    /// Places in the text of the links, circuits and rules of `file`.
    pub(super) places: [Vec<usize>; 3],
    /// The keys that were left out.
    pub(super) left_out: Vec<Vec<Part>>,
}

impl<'a> Document<'a> {
    /// Reads a text.
    pub(super) fn parse(source: &'a Source, kinds: Kinds) -> Self {
        let (root, errors) = DeTable::parse_recoverable(&source.text);
        let wrong = errors.iter().map(|e| source.wrong(e.span().unwrap_or(0..0), e.message().trim()));
        Document { source, kinds, wrong: wrong.collect(), root, hints: Hints::default() }
    }

    /// Where a part is written; of one that is not there, where the part is that it would be in.
    pub(super) fn locate(&self, way: &[Part]) -> Range<usize> {
        let mut at = 0..0;
        let Some((Part::Key(section), rest)) = way.split_first() else { return at };
        let Some((key, mut value)) = self.root.get_ref().get_key_value(section.as_str()) else { return at };
        if rest.is_empty() {
            return key.span();
        }
        for (n, part) in rest.iter().enumerate() {
            let last = n + 1 == rest.len();
            match (part, value.get_ref()) {
                (Part::Key(name), DeValue::Table(table)) => {
                    let Some((key, inner)) = table.get_key_value(name.as_str()) else { return at };
                    // A table with a header is written over many lines: its name stands for it.
                    at = if last && n > 0 { inner.span() } else { key.span() };
                    value = inner;
                }
                (Part::Index(index), DeValue::Array(array)) => {
                    let Some(inner) = array.get(*index) else { return at };
                    at = inner.span();
                    value = inner;
                }
                _ => return at,
            }
        }
        at
    }

    /// Where keys of links are written that have another name, and that name.
    pub(super) fn keys_of_links(
        &self,
        other: impl Fn(&str) -> Option<&'static str>,
    ) -> Vec<(Range<usize>, &'static str)> {
        let links = self.root.get_ref().get("link").and_then(|links| links.get_ref().as_array());
        let tables = links.into_iter().flat_map(|links| links.iter()).filter_map(|link| link.get_ref().as_table());
        let keys = tables.flat_map(|table| table.keys());
        keys.filter_map(|key| Some((key.span(), other(key.get_ref())?))).collect()
    }

    /// The way to what has this name in the network.
    pub(super) fn station(&self, name: &str) -> Vec<Part> {
        let root = self.root.get_ref();
        let table = |section: &str| root.get(section).and_then(|value| value.get_ref().as_table());
        let mut sections = STATIONS.into_iter().chain(self.kinds.sections());
        let named = sections.find(|section| table(section).is_some_and(|table| table.contains_key(name)));
        if let Some(section) = named {
            return vec![section.into(), name.into()];
        }
        for (section, within) in self.kinds.named_within() {
            for (station, value) in table(section).into_iter().flatten() {
                let inner = value.get_ref().get(within).and_then(|inner| inner.get_ref().as_table());
                if inner.is_some_and(|inner| inner.contains_key(name)) {
                    return vec![section.into(), (&station.get_ref().to_string()).into(), within.into(), name.into()];
                }
            }
        }
        for section in GUESTS {
            for (key, value) in table(section).into_iter().flatten() {
                if value.get_ref().get("host").and_then(|host| host.get_ref().as_str()) == Some(name) {
                    return vec![section.into(), (&key.get_ref().to_string()).into(), "host".into()];
                }
            }
        }
        Vec::new()
    }

    /// What the sections say.
    pub(super) fn file(&mut self) -> Written {
        let mut written = Written::default();
        written.file.of_kinds = Sections::new(self.kinds.clone());
        let keys: Vec<(String, Range<usize>)> =
            self.root.get_ref().keys().map(|key| (key.get_ref().to_string(), key.span())).collect();
        for (key, span) in keys {
            let file = &mut written.file;
            match key.as_str() {
                "engine" => {
                    let value = self.root.get_ref().get("engine").cloned();
                    let read = value.and_then(|value| {
                        self.item(vec!["engine".into()], value, read::<Engine>, &mut written.left_out)
                    });
                    file.engine = read.unwrap_or_default();
                }
                "host" => file.host = self.named::<Host>(&key, &mut written.left_out),
                "switch" => file.switch = self.named::<Switch>(&key, &mut written.left_out),
                "outside" => file.outside = self.named::<Outside>(&key, &mut written.left_out),
                "interface" => file.interface = self.named::<Interface>(&key, &mut written.left_out),
                "link" => (file.link, written.places[0]) = self.listed::<Link>(&key, &mut written.left_out),
                "circuit" => (file.circuit, written.places[1]) = self.listed::<Circuit>(&key, &mut written.left_out),
                "allow" => (file.allow, written.places[2]) = self.listed::<Allow>(&key, &mut written.left_out),
                _ => match (self.kinds.section(&key), self.kinds.adapter()) {
                    (Some(read), _) => {
                        let stations = self.named_with(&key, read, &mut written.left_out);
                        file.of_kinds.set(&key, stations);
                    }
                    (None, Some(read)) if key == "adapter" => {
                        file.adapter = self.named_with(&key, read, &mut written.left_out);
                    }
                    _ => {
                        let [before, behind] = SECTIONS.map(|some| some.iter().copied());
                        let adapter = self.kinds.adapter().map(|_| "adapter");
                        let known = before.chain(self.kinds.sections()).chain(adapter).chain(behind);
                        let hint = self.hints.word(&key, known);
                        self.wrong.push(self.source.wrong(span, format!("unknown section `{key}`{hint}")));
                    }
                },
            }
        }
        written
    }

    fn named<T: DeserializeOwned>(&mut self, section: &str, left_out: &mut Vec<Vec<Part>>) -> BTreeMap<String, T> {
        self.named_with(section, read::<T>, left_out)
    }

    fn named_with<T>(
        &mut self,
        section: &str,
        read: impl Fn(Spanned<DeValue<'_>>) -> Result<T, toml::de::Error>,
        left_out: &mut Vec<Vec<Part>>,
    ) -> BTreeMap<String, T> {
        let Some(value) = self.root.get_ref().get(section).cloned() else { return BTreeMap::new() };
        let span = value.span();
        let DeValue::Table(table) = value.into_inner() else {
            let says = format!("a {section} has a name: write [{section}.NAME] as a line of its own");
            self.wrong.push(self.source.wrong(span, says));
            return BTreeMap::new();
        };
        let mut all = BTreeMap::new();
        for (key, value) in table {
            let name = key.into_inner().into_owned();
            if let Some(item) = self.item(vec![section.into(), (&name).into()], value, &read, left_out) {
                all.insert(name, item);
            }
        }
        all
    }

    fn listed<T: DeserializeOwned>(&mut self, section: &str, left_out: &mut Vec<Vec<Part>>) -> (Vec<T>, Vec<usize>) {
        let Some(value) = self.root.get_ref().get(section).cloned() else { return (Vec::new(), Vec::new()) };
        let span = value.span();
        let DeValue::Array(array) = value.into_inner() else {
            let says = format!("there may be several of `{section}`: write [[{section}]], with two brackets");
            self.wrong.push(self.source.wrong(span, says));
            return (Vec::new(), Vec::new());
        };
        let (mut all, mut places) = (Vec::new(), Vec::new());
        for (place, value) in array.into_iter().enumerate() {
            if let Some(item) = self.item(vec![section.into(), place.into()], value, read::<T>, left_out) {
                all.push(item);
                places.push(place);
            }
        }
        (all, places)
    }

    /// A table as a type. What cannot be used is left out of it, and told, until the rest can be used.
    fn item<T>(
        &mut self,
        way: Vec<Part>,
        mut value: Spanned<DeValue<'a>>,
        read: impl Fn(Spanned<DeValue<'_>>) -> Result<T, toml::de::Error>,
        left_out: &mut Vec<Vec<Part>>,
    ) -> Option<T> {
        let mut gone: Vec<String> = Vec::new();
        loop {
            let e = match read(value.clone()) {
                Ok(item) => return Some(item),
                Err(e) => e,
            };
            let message = e.message().trim();
            let missing = message.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`'));
            if missing.is_some_and(|missing| gone.iter().any(|gone| gone == missing)) {
                return None;
            }
            // What is missing in the table itself is missing at its name, and nothing can be left out for it.
            let span = e.span().filter(|span| missing.is_none() || *span != value.span());
            let place = span.clone().unwrap_or_else(|| self.locate(&way));
            let says = said(message, &mut self.hints);
            self.wrong.push(self.source.wrong(place, says));
            let key = take_out(&mut value, span?.start)?;
            left_out.push(way.iter().cloned().chain([(&key).into()]).collect());
            gone.push(key);
        }
    }
}

fn read<T: DeserializeOwned>(value: Spanned<DeValue<'_>>) -> Result<T, toml::de::Error> {
    T::deserialize(value.into_deserializer())
}

/// Takes the entry out of a table that an octet of the text belongs to, or out of the innermost table in it; gives its
/// key.
fn take_out(value: &mut Spanned<DeValue<'_>>, octet: usize) -> Option<String> {
    let DeValue::Table(table) = value.get_mut() else { return None };
    let within = |span: Range<usize>| span.contains(&octet);
    let key =
        table.iter().find(|(key, value)| within(key.span()) || within(value.span())).map(|(key, _)| key.clone())?;
    let inner =
        table.get_mut(key.get_ref().as_ref()).filter(|_| !within(key.span())).and_then(|value| take_out(value, octet));
    inner.or_else(|| table.remove(key.get_ref().as_ref()).map(|_| key.get_ref().to_string()))
}

/// Serde's message, with the nearest of the words that could have been meant.
fn said(message: &str, hints: &mut Hints) -> String {
    let mut quoted = message.split('`').skip(1).step_by(2);
    let unknown = ["unknown field", "unknown variant"].iter().any(|start| message.starts_with(start));
    match quoted.next() {
        Some(word) if unknown => {
            let known: Vec<&str> = quoted.collect();
            let hint = hints.word(word, known.iter().copied());
            let expected = known.join(", ");
            format!("unknown key `{word}`{hint}: the keys here are {expected}")
        }
        _ => message.to_owned(),
    }
}
