//! Schemas of control's types with what registered kinds add to them.

use super::registry::AnyKind;
use super::{Kinds, RequestWords};
use schemars::{JsonSchema, Schema, SchemaGenerator, schema_for};
use serde_json::{Map, Value, json};

/// What the section of virtual adapters has.
const ADAPTERS: &str = "Virtual adapters by name.";
/// A variant of requests before which those of kinds stand.
const REQUESTS_BEFORE: &str = "oam";
/// What a name may stand for before which kinds stand.
const STATIONS_BEFORE: &str = "outside";

impl Kinds {
    /// The schema of a type, with what kinds add to it.
    pub fn schema_for<T: JsonSchema>(&self) -> Value {
        let mut schema = schema_for!(T).into();
        self.complete(&mut schema);
        schema
    }

    /// Adds what is of kinds to a schema: sections of a description, lists of a status, requests, and what a name
    /// stands for. These types are found by their names, at the root or among the definitions.
    pub fn complete(&self, schema: &mut Value) {
        extend(schema, "File", |file, generator| {
            for kind in &self.stations {
                let section = described(kind.keys_schema(generator), kind.words().section_meaning);
                insert(file, kind.words().section, section);
            }
            let mut adapters = self.adapters.iter().map(|kind| Value::from(kind.keys_schema(generator)));
            if let Some(first) = adapters.next() {
                let all: Vec<Value> = std::iter::once(first.clone()).chain(adapters).collect();
                let of = if all.len() == 1 { first } else { json!({ "anyOf": all }) };
                let adapters = json!({ "additionalProperties": of, "description": ADAPTERS, "type": "object" });
                insert(file, "adapter", adapters);
            }
        });
        extend(schema, "Status", |status, generator| {
            for kind in &self.stations {
                let mut list = described(kind.statuses_schema(generator), kind.words().list_meaning);
                list["default"] = json!([]);
                insert(status, kind.words().list, list);
            }
        });
        extend(schema, "StationKind", |stations, _| {
            let words = self.stations.iter().map(|kind| kind.words());
            let variant = |words: &super::Words| json!({ "const": words.section, "description": words.station_meaning, "type": "string" });
            insert_variants(stations, STATIONS_BEFORE, words.map(variant).collect());
        });
        extend(schema, "Request", |requests, generator| {
            let with_requests = self.stations.iter().filter(|kind| !kind.requests().is_empty());
            let variants = with_requests.flat_map(|kind| variants_of(*kind, generator)).collect();
            insert_variants(requests, REQUESTS_BEFORE, variants);
        });
    }

    /// The schemas of the answers to their requests, by the requests' names.
    pub fn answers(&self) -> impl Iterator<Item = (&'static str, Schema)> {
        let all = self.stations.iter().flat_map(|kind| kind.requests());
        all.map(|RequestWords { name, answer, .. }| (*name, answer()))
    }
}

/// Extends a type where a schema has it, and adds the definitions that this needs.
fn extend(schema: &mut Value, name: &str, f: impl FnOnce(&mut Value, &mut SchemaGenerator)) {
    let mut generator = SchemaGenerator::default();
    if schema["title"] == name {
        f(schema, &mut generator);
    } else if let Some(one) = schema.get_mut("$defs").and_then(|definitions| definitions.get_mut(name)) {
        f(one, &mut generator);
    }
    let more = generator.take_definitions(true);
    if more.is_empty() {
        return;
    }
    let Some(schema) = schema.as_object_mut() else { return };
    let definitions = schema.entry("$defs").or_insert_with(|| Map::new().into());
    for (name, one) in more {
        definitions.as_object_mut().map(|definitions| definitions.entry(name).or_insert(one));
    }
}

fn described(schema: Schema, meaning: &str) -> Value {
    let mut schema = Value::from(schema);
    schema["description"] = meaning.into();
    schema
}

fn insert(schema: &mut Value, name: &str, property: Value) {
    schema["properties"][name] = property;
}

/// The variants of a kind's requests.
fn variants_of(kind: &dyn AnyKind, generator: &mut SchemaGenerator) -> Vec<Value> {
    let requests = Value::from(kind.requests_schema(generator));
    requests["oneOf"].as_array().cloned().unwrap_or_default()
}

fn insert_variants(schema: &mut Value, before: &str, more: Vec<Value>) {
    let Some(variants) = schema["oneOf"].as_array_mut() else { return };
    let is = |one: &Value| one["const"] == before || one["properties"].get(before).is_some();
    let place = variants.iter().position(is).unwrap_or(variants.len());
    variants.splice(place..place, more);
}
