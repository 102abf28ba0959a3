//! Whether a value is what a JSON schema says (draft 2020-12, the words that our schemas use). Stricter than the standard: a
//! member that the schema does not name is wrong too.

use serde_json::{Map, Value};

/// All that is wrong with a value.
pub fn wrong(schema: &Value, value: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    check(schema, schema, value, "", &mut wrong);
    wrong
}

/// Words that say nothing of a value's form.
const NOTES: [&str; 8] = ["$schema", "$defs", "title", "description", "default", "format", "minimum", "maximum"];

fn check(root: &Value, schema: &Value, value: &Value, at: &str, wrong: &mut Vec<String>) {
    let schema = match schema {
        Value::Bool(true) => return,
        Value::Object(schema) => schema,
        other => return wrong.push(format!("{at}: the schema is {other}")),
    };
    for (word, says) in schema {
        match word.as_str() {
            "$ref" => match says.as_str().and_then(|to| root.pointer(to.strip_prefix('#')?)) {
                Some(schema) => check(root, schema, value, at, wrong),
                None => wrong.push(format!("{at}: the schema has no {says}")),
            },
            "type" if !is_of(says, value) => wrong.push(format!("{at}: {value} is no {says}")),
            "const" if says != value => wrong.push(format!("{at}: {value} is not {says}")),
            "enum" if !list(says).contains(value) => wrong.push(format!("{at}: {value} is none of {says}")),
            "anyOf" | "oneOf" => {
                let errors = |one: &Value| {
                    let mut errors = Vec::new();
                    check(root, one, value, at, &mut errors);
                    errors
                };
                let all: Vec<_> = list(says).iter().map(errors).collect();
                if !all.iter().any(Vec::is_empty) {
                    wrong.push(format!("{at}: {value} is none of {} forms: {all:?}", all.len()));
                }
            }
            "items" => {
                let all = value.as_array().into_iter().flatten().enumerate();
                all.for_each(|(n, item)| check(root, says, item, &format!("{at}/{n}"), wrong));
            }
            "minItems" if value.as_array().is_some_and(|a| (a.len() as u64) < says.as_u64().unwrap()) => {
                wrong.push(format!("{at}: fewer than {says} items"));
            }
            "maxItems" if value.as_array().is_some_and(|a| a.len() as u64 > says.as_u64().unwrap()) => {
                wrong.push(format!("{at}: more than {says} items"));
            }
            "required" => {
                let lacks = |name: &&Value| value.is_object() && value.get(name.as_str().unwrap()).is_none();
                wrong.extend(list(says).iter().filter(lacks).map(|name| format!("{at}: lacks {name}")));
            }
            "type"
            | "const"
            | "enum"
            | "minItems"
            | "maxItems"
            | "properties"
            | "additionalProperties"
            | "patternProperties" => {}
            note if NOTES.contains(&note) => {}
            other => wrong.push(format!("{at}: the schema says `{other}`, which this does not know")),
        }
    }
    members(root, schema, value, at, wrong);
}

fn members(root: &Value, schema: &Map<String, Value>, value: &Value, at: &str, wrong: &mut Vec<String>) {
    // The only pattern of names is that of numbers.
    let numbers = schema.get("patternProperties").and_then(|all| all.get(r"^\d+$"));
    let (named, others) = (schema.get("properties"), numbers.or(schema.get("additionalProperties")));
    if named.is_none() && others.is_none() {
        return;
    }
    for (name, member) in value.as_object().into_iter().flatten() {
        let at = format!("{at}/{name}");
        match (named.and_then(|named| named.get(name)), others) {
            (Some(schema), _) => check(root, schema, member, &at, wrong),
            (None, Some(schema @ Value::Object(_))) => check(root, schema, member, &at, wrong),
            (None, _) => wrong.push(format!("{at}: the schema does not name it")),
        }
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn is_of(types: &Value, value: &Value) -> bool {
    let one = |name: &str| match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    };
    types.as_str().map_or_else(|| list(types).iter().filter_map(Value::as_str).any(one), one)
}

#[test]
fn what_differs_from_a_schema_is_found() {
    let schema = serde_json::json!({
        "$defs": { "n": { "type": ["integer", "null"] } },
        "type": "object",
        "properties": { "a": { "$ref": "#/$defs/n" }, "b": { "type": "array", "items": { "enum": ["x", "y"] } } },
        "required": ["a"],
    });
    let count = |value: Value| wrong(&schema, &value).len();
    assert_eq!(count(serde_json::json!({ "a": null, "b": ["x"] })), 0);
    assert_eq!(count(serde_json::json!({ "a": 1.5 })), 1);
    assert_eq!(count(serde_json::json!({ "b": ["z", 1] })), 3);
    assert_eq!(count(serde_json::json!({ "a": 1, "c": 1 })), 1);
    assert_eq!(count(serde_json::json!([])), 1);
}
