//! What is told of the stations of kinds.

use super::Kind;
use prometheus_client::encoding::DescriptorEncoder;
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use std::any::Any;
use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::sync::Arc;

trait AnyStatuses: Debug + Send + Sync {
    fn list(&self) -> &'static str;
    fn metrics(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result;
    fn overview(&self) -> String;
    fn as_serialize(&self) -> &dyn erased_serde::Serialize;
    fn as_any(&self) -> &dyn Any;
}

#[derive(Debug)]
struct StatusesOf<K: Kind>(Vec<K::Status>);

impl<K: Kind> AnyStatuses for StatusesOf<K> {
    fn list(&self) -> &'static str {
        K::WORDS.list
    }

    fn metrics(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        K::metrics(&self.0, encoder)
    }

    fn overview(&self) -> String {
        K::overview(&self.0)
    }

    fn as_serialize(&self) -> &dyn erased_serde::Serialize {
        &self.0
    }

    fn as_any(&self) -> &dyn Any {
        &self.0
    }
}

/// What is told of the stations of one kind.
#[derive(Debug, Clone)]
pub struct KindStatuses(Arc<dyn AnyStatuses>);

impl KindStatuses {
    /// Of a kind.
    pub fn of<K: Kind>(stations: Vec<K::Status>) -> Self {
        KindStatuses(Arc::new(StatusesOf::<K>(stations)))
    }
}

/// What is told of the stations of all registered kinds: a list for each kind.
///
/// A text does not say which kinds there are. What was read from one has no types until [`super::Kinds::read_statuses`]
/// gives it those of the kinds.
#[derive(Debug, Clone, Default)]
pub struct Statuses {
    kinds: Vec<KindStatuses>,
    /// Lists of which no kind is known, by their names.
    others: BTreeMap<String, Value>,
}

impl Statuses {
    /// Of these kinds.
    pub fn new(kinds: Vec<KindStatuses>) -> Self {
        Statuses { kinds, others: BTreeMap::new() }
    }

    /// A list of which no kind was known.
    pub(super) fn take(&mut self, list: &str) -> Option<Value> {
        self.others.remove(list)
    }

    /// One kind more.
    pub(super) fn push(&mut self, kind: KindStatuses) {
        self.kinds.push(kind);
    }

    /// The stations of a kind.
    pub fn get<K: Kind>(&self) -> &[K::Status] {
        let found = self.kinds.iter().find_map(|kind| kind.0.as_any().downcast_ref::<Vec<K::Status>>());
        found.map_or(&[], Vec::as_slice)
    }

    /// As metrics.
    ///
    /// # Errors
    /// The encoder fails.
    pub fn metrics(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        self.kinds.iter().try_for_each(|kind| kind.0.metrics(encoder))
    }

    /// What `cellway status` shows of them.
    pub fn overview(&self) -> String {
        self.kinds.iter().map(|kind| kind.0.overview()).collect()
    }
}

impl Serialize for Statuses {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        struct List<'a>(&'a KindStatuses);
        impl Serialize for List<'_> {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                erased_serde::serialize(self.0.0.as_serialize(), to)
            }
        }
        let mut map = to.serialize_map(Some(self.kinds.len() + self.others.len()))?;
        for kind in &self.kinds {
            map.serialize_entry(kind.0.list(), &List(kind))?;
        }
        for (list, stations) in &self.others {
            map.serialize_entry(list, stations)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Statuses {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        BTreeMap::deserialize(from).map(|others| Statuses { kinds: Vec::new(), others })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::Kinds;

    #[test]
    fn lists_of_which_no_kind_is_known_are_written_as_they_were_read() {
        let text = r#"{"rings":[{"name":"r1","stood_s":0.25}]}"#;
        let mut statuses: Statuses = serde_json::from_str(text).unwrap();
        Kinds::none().read_statuses(&mut statuses).unwrap();
        assert_eq!(serde_json::to_string(&statuses).unwrap(), text);
        assert_eq!(statuses.overview(), "");
    }
}
