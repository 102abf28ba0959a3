//! A description as `config show` prints it: every key with its value or default, and those without a value as comments.
//! What is printed is a description again.

use super::File;
use super::link::RENAMED;
use super::whole::Whole;
use serde_json::{Map, Value};
use std::fmt::Write as _;

/// Sections in front of those of registered kinds, and behind them.
const ORDER: [&[&str]; 2] =
    [&["engine", "host", "switch", "outside"], &["adapter", "interface", "link", "circuit", "allow"]];

/// The text.
///
/// # Errors
/// The description cannot be written.
pub fn shown(file: &File) -> Result<String, serde_json::Error> {
    let mut text = String::new();
    let Value::Object(mut sections) = serde_json::to_value(Whole(file.clone()))? else { return Ok(text) };
    let [before, behind] = ORDER.map(|names| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
    let others: Vec<String> =
        sections.keys().filter(|name| !before.contains(name) && !behind.contains(name)).cloned().collect();
    for name in before.into_iter().chain(others).chain(behind) {
        match sections.remove(&name) {
            Some(Value::Array(items)) => items.iter().for_each(|item| listed(&mut text, &name, item)),
            Some(Value::Object(engine)) if name == "engine" => table(&mut text, &name, &engine, "[", "]"),
            Some(Value::Object(named)) => {
                for (own, keys) in named.iter().filter_map(|(own, keys)| Some((own, keys.as_object()?))) {
                    table(&mut text, &format!("{name}.{}", key(own)), keys, "[", "]");
                }
            }
            _ => {}
        }
    }
    Ok(text)
}

fn listed(text: &mut String, name: &str, item: &Value) {
    let Some(keys) = item.as_object() else { return };
    let mut keys = keys.clone();
    if name == "link" {
        RENAMED.iter().for_each(|(old, _)| drop(keys.remove(*old)));
    }
    table(text, name, &keys, "[[", "]]");
}

/// A table: its keys with a value, those without, and then the tables in it.
fn table(text: &mut String, name: &str, keys: &Map<String, Value>, begin: &str, end: &str) {
    if !text.is_empty() {
        text.push('\n');
    }
    let _ = writeln!(text, "{begin}{name}{end}");
    let (tables, plain): (Vec<_>, Vec<_>) = keys.iter().partition(|(_, value)| value.is_object());
    for (own, value) in plain {
        let _ = match value {
            Value::Null => writeln!(text, "# {own} is not set"),
            value => writeln!(text, "{} = {}", key(own), scalar(value)),
        };
    }
    for (own, value) in tables {
        if let Some(keys) = value.as_object().filter(|keys| !keys.is_empty()) {
            table(text, &format!("{name}.{}", key(own)), keys, "[", "]");
        }
    }
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => toml::Value::String(text.clone()).to_string(),
        Value::Array(items) => format!("[{}]", items.iter().map(scalar).collect::<Vec<_>>().join(", ")),
        // Numbers and truth values are written alike in both.
        other => other.to_string(),
    }
}

fn key(name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.chars().all(bare) { name.to_owned() } else { scalar(&Value::String(name.to_owned())) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Circuit, parse};

    const TEXT: &str = "[host.alpha]\n[host.\"b c\"]\nip = \"10.0.0.1/24\"\n[switch.s1]\n[outside.far]\n\
        [interface.atm0]\nhost = \"stack\"\naddress = \"10.0.1.1/24\"\npeers = { \"0.100\" = \"10.0.1.2\" }\n\
        [[link]]\nends = [\"alpha\", \"s1:0\"]\nfaults = { loss = 0.5 }\n\
        [[link]]\nends = [\"s1:1\", \"far\"]\nudp = { local = \"[::1]:1\", peer = \"[::1]:2\" }\n\
        [[link]]\nends = [\"s1:2\", \"stack\"]\nenabled = false\n\
        [[circuit]]\nends = [\"alpha 0.100\", \"far 0.100\"]\nback = { category = \"cbr\", pcr = \"9 cell/s\" }\n";

    #[test]
    fn what_is_shown_is_the_same_description() {
        let file = parse(TEXT, "x").unwrap().file;
        let text = shown(&file).unwrap();
        let again = parse(&text, "shown").unwrap_or_else(|e| panic!("{e}\n{text}")).file;
        assert_eq!(serde_json::to_value(Whole(again)).unwrap(), serde_json::to_value(Whole(file)).unwrap(), "{text}");
    }

    #[test]
    fn every_key_is_there_with_its_default() {
        let text = shown(&parse(TEXT, "x").unwrap().file).unwrap();
        for line in [
            "cycle_limit_percent = 50",
            "# esi is not set",
            "header = \"uni\"",
            "discard = \"early\"",
            "one_way = false",
            "enabled = true",
            "[circuit.oam]",
            "continuity = false",
            "# monitoring is not set",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        }
        let schema: Value = schemars::schema_for!(Circuit).into();
        for key in schema["properties"].as_object().unwrap().keys().filter(|key| *key != "ends") {
            let says = [format!("\n{key} = "), format!("# {key} is not set"), format!("circuit.{key}]")];
            assert!(says.iter().any(|one| text.contains(one)), "{key}\n{text}");
        }
    }
}
