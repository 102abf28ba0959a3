//! Stations of kinds as a description has them.

use super::{Kinds, StationKeys};
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

/// The sections of registered kinds in a description. Sections without stations are not written.
#[derive(Debug, Clone, Default)]
pub struct Sections {
    kinds: Kinds,
    /// By section and name, in the order of the kinds.
    stations: Vec<(&'static str, BTreeMap<String, StationKeys>)>,
}

impl Sections {
    /// Without stations.
    pub fn new(kinds: Kinds) -> Self {
        let stations = kinds.sections().map(|section| (section, BTreeMap::new())).collect();
        Sections { kinds, stations }
    }

    /// The kinds.
    pub fn kinds(&self) -> &Kinds {
        &self.kinds
    }

    /// Sets the stations of a section.
    pub fn set(&mut self, section: &str, stations: BTreeMap<String, StationKeys>) {
        if let Some((_, own)) = self.stations.iter_mut().find(|(own, _)| *own == section) {
            *own = stations;
        }
    }

    /// All stations, each with its section and its name: kind by kind, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &String, &StationKeys)> {
        self.stations.iter().flat_map(|(section, all)| all.iter().map(move |(name, keys)| (*section, name, keys)))
    }

    /// A station by its name.
    pub fn get(&self, name: &str) -> Option<&StationKeys> {
        self.stations.iter().find_map(|(_, all)| all.get(name))
    }
}

impl Serialize for Sections {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        for (section, stations) in self.stations.iter().filter(|(_, stations)| !stations.is_empty()) {
            map.serialize_entry(section, stations)?;
        }
        map.end()
    }
}
