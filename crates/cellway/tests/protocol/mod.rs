//! The management protocol stays what programs of the same version know: its schema is compared with the stored one.

mod compatible;

use cellway::kinds::kinds;
use compatible::broken;
use control::protocol::{VERSION, schema};
use serde_json::{Value, json};
use std::path::PathBuf;

fn stored() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/protocol/version-{VERSION}.json"))
}

/// Types without their comments, which nobody's program reads.
fn without_comments(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let is_text = |name: &str, value: &Value| ["description", "title"].contains(&name) && value.is_string();
            let kept = members.iter().filter(|(name, value)| !is_text(name, value));
            kept.map(|(name, value)| (name.clone(), without_comments(value))).collect()
        }
        Value::Array(all) => all.iter().map(without_comments).collect(),
        other => other.clone(),
    }
}

#[test]
fn programs_of_the_same_version_still_understand_the_protocol() {
    let (now, path) = (without_comments(&schema(&kinds())), stored());
    let writes = std::env::var_os("CELLWAY_WRITE").is_some();
    let known: Option<Value> = std::fs::read(&path).ok().map(|text| serde_json::from_slice(&text).expect("JSON"));
    let broken = known.as_ref().map(|known| broken(known, &now)).unwrap_or_default();
    assert!(
        broken.is_empty(),
        "programs that speak version {VERSION} of the management protocol would not understand it any more:\n  {}\n\
         Keep what they know, or raise VERSION in crates/control/src/version.rs to {} and run scripts/reference.",
        broken.join("\n  "),
        VERSION + 1
    );
    if writes {
        std::fs::write(&path, serde_json::to_string_pretty(&now).expect("text") + "\n").expect("a file written");
        return;
    }
    assert!(
        known.as_ref() == Some(&now),
        "the management protocol has more than {} knows: run scripts/reference, and commit what it writes",
        path.display()
    );
}

/// A protocol of one request and one answer.
fn protocol(request: &Value, answer: &Value) -> Value {
    json!({ "version": 1, "message": request, "answers": { "status": answer } })
}

fn object(members: Value, required: &[&str]) -> Value {
    json!({ "type": "object", "properties": members, "required": required })
}

#[test]
fn what_would_not_be_understood_is_named() {
    let text = json!({ "type": "string" });
    let number = json!({ "type": "integer", "format": "uint64" });
    let old = protocol(&object(json!({ "a": text }), &["a"]), &object(json!({ "up": number }), &["up"]));
    let same = |request: Value, answer: Value| broken(&old, &protocol(&request, &answer));
    let (request, answer) = (&old["message"], &old["answers"]["status"]);

    // More of both is understood, but not what old programs do not send.
    let more = object(json!({ "a": text, "b": text }), &["a"]);
    let told = object(json!({ "up": number, "down": number }), &["up", "down"]);
    assert_eq!(same(more, told), Vec::<String>::new());
    let needed = object(json!({ "a": text, "b": text }), &["a", "b"]);
    assert_eq!(same(needed, answer.clone()), ["field b of request is needed, and was not"]);

    for (answer, says) in [
        (object(json!({}), &[]), "field up of answer to status was removed"),
        (object(json!({ "up": text }), &["up"]), "was integer, and is string"),
        (
            object(json!({ "up": { "type": "integer", "format": "uint32" } }), &["up"]),
            "was \"uint64\", and is \"uint32\"",
        ),
        (object(json!({ "up": { "type": ["integer", "null"], "format": "uint64" } }), &["up"]), "may be null"),
        (object(json!({ "up": number }), &[]), "may be left out"),
    ] {
        let found = same(request.clone(), answer);
        assert!(found[0].contains(says), "{found:?}");
    }
    let refused = same(object(json!({ "a": number }), &["a"]), answer.clone());
    assert!(refused[0].contains("field a of request was string, and is integer"), "{refused:?}");
}

#[test]
fn variants_and_types_by_name_are_compared_too() {
    let of = |variants: Value, inner: Value| {
        let root = json!({ "$defs": { "Inner": inner, "Kind": { "oneOf": variants } }, "type": "object",
            "properties": { "kind": { "$ref": "#/$defs/Kind" }, "list": { "type": "array", "items": { "$ref": "#/$defs/Inner" } } } });
        protocol(&root, &root)
    };
    let inner = object(
        json!({ "x": { "type": "number" }, "more": { "anyOf": [{ "$ref": "#/$defs/Inner" }, { "type": "null" }] } }),
        &[],
    );
    let variant = json!({ "type": "object", "properties": { "add": { "type": "string" } }, "required": ["add"], "additionalProperties": false });
    let old = of(json!([{ "const": "status" }, variant]), inner.clone());
    assert!(broken(&old, &old).is_empty());
    let more = of(json!([{ "const": "status" }, { "const": "other" }, variant]), inner.clone());
    assert!(broken(&old, &more).is_empty());
    let fewer = of(json!([{ "const": "status" }]), inner);
    let found = broken(&old, &fewer);
    assert!(found.iter().any(|one| one.contains("was {add}")), "{found:?}");
    let changed = of(json!([{ "const": "status" }, variant]), object(json!({ "more": { "type": "null" } }), &[]));
    let found = broken(&old, &changed);
    assert!(found.iter().any(|one| one.contains("field x of item of field list of request was removed")), "{found:?}");
}
