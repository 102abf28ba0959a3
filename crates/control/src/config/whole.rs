//! A description with nothing left out: in TOML what has no value is not written, in JSON it is `null`.

use super::File;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// A description, written as JSON with every key.
#[derive(Debug, Clone)]
pub struct Whole(pub File);

impl Serialize for Whole {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut value = serde_json::to_value(&self.0).map_err(serde::ser::Error::custom)?;
        let schema = self.0.of_kinds.kinds().schema_for::<File>();
        complete(&schema, &schema, &mut value);
        value.serialize(to)
    }
}

impl JsonSchema for Whole {
    fn schema_name() -> Cow<'static, str> {
        File::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        File::json_schema(generator)
    }
}

/// Adds the members that a schema names and a value lacks: their default, or `null`.
fn complete(root: &Value, schema: &Value, value: &mut Value) {
    if let Some(to) = schema["$ref"].as_str().and_then(|to| root.pointer(to.strip_prefix('#')?)) {
        complete(root, to, value);
    }
    for one in schema["anyOf"].as_array().into_iter().flatten() {
        complete(root, one, value);
    }
    match value {
        Value::Array(all) => all.iter_mut().for_each(|item| complete(root, &schema["items"], item)),
        Value::Object(members) => complete_members(root, schema, members),
        _ => {}
    }
}

fn complete_members(root: &Value, schema: &Value, members: &mut Map<String, Value>) {
    let named = schema["properties"].as_object();
    for (name, schema) in named.into_iter().flatten() {
        let member =
            members.entry(name.clone()).or_insert_with(|| schema.get("default").cloned().unwrap_or(empty(schema)));
        complete(root, schema, member);
    }
    let others = members.iter_mut().filter(|(name, _)| named.is_none_or(|named| !named.contains_key(*name)));
    others.for_each(|(_, member)| complete(root, &schema["additionalProperties"], member));
}

/// What stands for no value of a type: `null` where that may be.
fn empty(schema: &Value) -> Value {
    match schema["type"].as_str() {
        Some("array") => Value::Array(Vec::new()),
        Some("object") => Value::Object(Map::new()),
        None if schema.get("$ref").is_some() => Value::Object(Map::new()),
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_toml_leaves_out_is_null_or_its_default_in_json() {
        let text = "[host.a]\n[outside.b]\n[[link]]\nends = [\"a\", \"b\"]\n\
            cells_udp = { local = \"[::1]:1\", peer = \"[::1]:2\" }\n";
        let file = crate::config::parse(text, "x").unwrap().file;
        let json = serde_json::to_value(Whole(file)).unwrap();
        assert_eq!((&json["host"]["a"]["esi"], &json["link"][0]["tls"]), (&Value::Null, &Value::Null));
        assert!(json["host"]["a"].as_object().unwrap().contains_key("esi"));
        assert_eq!(
            (&json["link"][0]["cells_udp"]["header"], &json["engine"]["processor"]),
            (&"uni".into(), &Value::Null)
        );
        assert_eq!(json["allow"], serde_json::json!([]));
    }
}
