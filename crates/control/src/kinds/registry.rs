//! The kinds that a program links.

use super::{
    AdapterKeys, AdapterKind, Kind, KindRequest, KindStatuses, RequestWords, Running, StationKeys, Statuses, Words,
};
use anyhow::{Context as _, Result};
use schemars::{JsonSchema as _, Schema, SchemaGenerator};
use serde::Deserialize as _;
use serde::de::IntoDeserializer as _;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use toml::Spanned;
use toml::de::DeValue;

/// A kind of whatever type.
pub(super) trait AnyKind: Sync {
    fn words(&self) -> &'static Words;
    fn requests(&self) -> &'static [RequestWords];
    fn read_keys(&self, value: Spanned<DeValue<'_>>) -> Result<StationKeys, toml::de::Error>;
    fn read_request(&self, request: &Value, words: &RequestWords) -> serde_json::Result<KindRequest>;
    fn read_statuses(&self, list: &Value) -> serde_json::Result<KindStatuses>;
    fn statuses(&self, running: &Running<'_>) -> Result<KindStatuses>;
    fn keys_schema(&self, generator: &mut SchemaGenerator) -> Schema;
    fn statuses_schema(&self, generator: &mut SchemaGenerator) -> Schema;
    fn requests_schema(&self, generator: &mut SchemaGenerator) -> Schema;
}

struct Registered<K>(PhantomData<fn() -> K>);

impl<K: Kind> Registered<K> {
    const WORDS: &'static Words = &K::WORDS;
}

impl<K: Kind> AnyKind for Registered<K> {
    fn words(&self) -> &'static Words {
        Self::WORDS
    }

    fn requests(&self) -> &'static [RequestWords] {
        K::REQUESTS
    }

    fn read_keys(&self, value: Spanned<DeValue<'_>>) -> Result<StationKeys, toml::de::Error> {
        K::Keys::deserialize(value.into_deserializer()).map(StationKeys::of::<K>)
    }

    fn read_request(&self, request: &Value, words: &RequestWords) -> serde_json::Result<KindRequest> {
        K::Request::deserialize(request).map(|request| KindRequest::of::<K>(request, words.needs))
    }

    fn read_statuses(&self, list: &Value) -> serde_json::Result<KindStatuses> {
        Vec::<K::Status>::deserialize(list).map(KindStatuses::of::<K>)
    }

    fn statuses(&self, running: &Running<'_>) -> Result<KindStatuses> {
        let all = running.stations.iter().filter_map(|name| K::status(running, name).transpose());
        all.collect::<Result<Vec<_>>>().map(KindStatuses::of::<K>)
    }

    fn keys_schema(&self, generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<BTreeMap<String, K::Keys>>()
    }

    fn statuses_schema(&self, generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<Vec<K::Status>>()
    }

    fn requests_schema(&self, generator: &mut SchemaGenerator) -> Schema {
        K::Request::json_schema(generator)
    }
}

/// A kind of virtual adapter of whatever type.
pub(super) trait AnyAdapterKind: Sync {
    fn kind(&self) -> &'static str;
    fn read_keys(&self, value: Spanned<DeValue<'_>>) -> Result<AdapterKeys, toml::de::Error>;
    fn keys_schema(&self, generator: &mut SchemaGenerator) -> Schema;
}

struct RegisteredAdapter<K>(PhantomData<fn() -> K>);

impl<K: AdapterKind> AnyAdapterKind for RegisteredAdapter<K> {
    fn kind(&self) -> &'static str {
        K::KIND
    }

    fn read_keys(&self, value: Spanned<DeValue<'_>>) -> Result<AdapterKeys, toml::de::Error> {
        K::Keys::deserialize(value.into_deserializer()).map(AdapterKeys::of::<K>)
    }

    fn keys_schema(&self, generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<K::Keys>()
    }
}

/// The kinds that a program links, in the order in which it names them.
#[derive(Clone, Default)]
pub struct Kinds {
    pub(super) stations: Vec<&'static dyn AnyKind>,
    pub(super) adapters: Vec<&'static dyn AnyAdapterKind>,
}

impl fmt::Debug for Kinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.sections()).entries(self.adapters.iter().map(|adapter| adapter.kind())).finish()
    }
}

impl Kinds {
    /// None: hosts and switches alone.
    pub fn none() -> Self {
        Kinds::default()
    }

    /// One kind of station more.
    #[must_use]
    pub fn with<K: Kind>(mut self) -> Self {
        self.stations.push(&Registered::<K>(PhantomData));
        self
    }

    /// One kind of virtual adapter more.
    #[must_use]
    pub fn with_adapter<K: AdapterKind>(mut self) -> Self {
        self.adapters.push(&RegisteredAdapter::<K>(PhantomData));
        self
    }

    /// Their sections in descriptions.
    pub fn sections(&self) -> impl Iterator<Item = &'static str> {
        self.stations.iter().map(|kind| kind.words().section)
    }

    /// The sections that have tables of names, and these tables.
    pub fn named_within(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.stations.iter().filter_map(|kind| Some((kind.words().section, kind.words().named_within?)))
    }

    /// How the keys of a section are read; `None` if it is of no kind.
    pub(crate) fn section(
        &self,
        section: &str,
    ) -> Option<impl Fn(Spanned<DeValue<'_>>) -> Result<StationKeys, toml::de::Error> + use<>> {
        let kind = *self.stations.iter().find(|kind| kind.words().section == section)?;
        Some(move |value: Spanned<DeValue<'_>>| kind.read_keys(value))
    }

    /// How the keys of a virtual adapter are read: as those of the first kind if they say no other one. `None` without
    /// any kind.
    pub(crate) fn adapter(
        &self,
    ) -> Option<impl Fn(Spanned<DeValue<'_>>) -> Result<AdapterKeys, toml::de::Error> + use<>> {
        let (first, all) = (*self.adapters.first()?, self.adapters.clone());
        Some(move |value: Spanned<DeValue<'_>>| {
            let said = value.get_ref().get("kind").and_then(|kind| kind.get_ref().as_str());
            let kind = all.iter().find(|kind| Some(kind.kind()) == said).copied();
            kind.unwrap_or(first).read_keys(value)
        })
    }

    /// A request, if it is of a kind.
    ///
    /// # Errors
    /// It is, but its parameters are wrong.
    pub fn request(&self, request: &Value) -> serde_json::Result<Option<KindRequest>> {
        let name = match request {
            Value::String(name) => Some(name),
            Value::Object(members) => members.keys().next(),
            _ => None,
        };
        for kind in &self.stations {
            if let Some(words) = kind.requests().iter().find(|words| Some(words.name) == name.map(String::as_str)) {
                return kind.read_request(request, words).map(Some);
            }
        }
        Ok(None)
    }

    /// What is told of all stations; `running`: the running network, as the kind of a section sees it.
    ///
    /// # Errors
    /// The engine has stopped.
    pub fn statuses(&self, stations: impl Fn(&str) -> Vec<String>, running: Running<'_>) -> Result<Statuses> {
        let of_kind = |kind: &&'static dyn AnyKind| {
            let stations = stations(kind.words().section);
            kind.statuses(&Running { stations: &stations, ..running })
        };
        Ok(Statuses::new(self.stations.iter().map(of_kind).collect::<Result<_>>()?))
    }

    /// Gives what was read of a status the types of the kinds.
    ///
    /// # Errors
    /// A list is of other types.
    pub fn read_statuses(&self, statuses: &mut Statuses) -> Result<()> {
        for kind in &self.stations {
            let Some(list) = statuses.take(kind.words().list) else { continue };
            statuses.push(kind.read_statuses(&list).with_context(|| kind.words().list)?);
        }
        Ok(())
    }
}
