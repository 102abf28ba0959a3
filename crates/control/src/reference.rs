//! Pages of reference made of JSON schemas, which are made of types: keys of descriptions, requests and answers of the
//! management protocol, results of commands. In: schemas. Out: Markdown.

mod drops;

pub use drops::drops;

use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Says at the head of a page where it comes from.
const MADE: &str = "Generated from the types by `scripts/reference`: change their comments, not this page.\n";

/// Types by name.
#[derive(Debug, Default)]
struct Types {
    all: BTreeMap<String, Value>,
    /// Those that a page has named so far, in this order.
    named: Vec<String>,
}

impl Types {
    /// Takes the types that a schema defines.
    fn learn(&mut self, schema: &Value) {
        let defined = schema["$defs"].as_object().into_iter().flatten();
        self.all.extend(defined.map(|(name, one)| (name.clone(), one.clone())));
        if let Some(title) = schema["title"].as_str().filter(|title| is_section(schema) && !title.starts_with("Array_"))
        {
            self.all.insert(title.to_owned(), schema.clone());
        }
    }

    /// What a value is, in words, with links to the sections of types.
    fn words(&mut self, schema: &Value) -> String {
        if let Some(name) = schema["$ref"].as_str().and_then(|to| to.rsplit('/').next()) {
            return self.named(name);
        }
        if let Some(name) = schema["title"].as_str().filter(|name| self.all.contains_key(*name)) {
            return self.named(name);
        }
        for several in ["anyOf", "oneOf"] {
            if let Some(all) = schema[several].as_array() {
                let all: Vec<String> = all.iter().map(|one| self.words(one)).collect();
                return all.join(" or ");
            }
        }
        if let Some(value) = schema.get("const") {
            return format!("`{value}`");
        }
        if let Some(values) = schema["enum"].as_array() {
            return values.iter().map(|value| format!("`{value}`")).collect::<Vec<_>>().join(", ");
        }
        let kinds = match &schema["type"] {
            Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
            one => one.as_str().into_iter().collect::<Vec<_>>(),
        };
        let kinds: Vec<String> = kinds.into_iter().map(|kind| self.kind(kind, schema)).collect();
        if kinds.is_empty() { "anything".into() } else { kinds.join(" or ") }
    }

    fn kind(&mut self, kind: &str, schema: &Value) -> String {
        match kind {
            "array" => {
                let of = self.words(&schema["items"]);
                match (schema["minItems"].as_u64(), schema["maxItems"].as_u64()) {
                    (Some(n), Some(m)) if n == m => format!("{n} times {of}"),
                    _ => format!("list of {of}"),
                }
            }
            "object" => match schema.get("additionalProperties").filter(|others| others.is_object()) {
                Some(others) => format!("table of {} by name", self.words(others)),
                None if schema["patternProperties"].is_object() => {
                    let members = schema["patternProperties"].as_object().into_iter().flatten();
                    let members: Vec<String> = members.map(|(_, one)| self.words(one)).collect();
                    format!("table of {} by number", members.join(" or "))
                }
                None if schema.get("properties").is_some() => {
                    let members = schema["properties"].as_object().into_iter().flatten();
                    let members: Vec<String> =
                        members.map(|(name, one)| format!("`{name}`: {}", self.words(one))).collect();
                    format!("{{ {} }}", members.join(", "))
                }
                None => "table".into(),
            },
            "null" => "`null`".into(),
            "integer" if schema["minimum"] == 0 => "integer, 0 or more".into(),
            other => other.into(),
        }
    }

    fn named(&mut self, name: &str) -> String {
        if !self.named.iter().any(|known| known == name) {
            self.named.push(name.to_owned());
        }
        format!("[{name}](#{})", name.to_lowercase())
    }

    /// Sections of the types that have been named, and of those that these name.
    fn sections(&mut self, page: &mut String, done: &mut usize) {
        while let Some(name) = self.named.get(*done).cloned() {
            *done += 1;
            let Some(schema) = self.all.get(&name).cloned() else { continue };
            let _ = writeln!(page, "\n### {name}\n{}\n", text(&schema));
            self.section(page, &schema);
        }
    }

    fn section(&mut self, page: &mut String, schema: &Value) {
        let variants = schema["oneOf"].as_array().or_else(|| schema["anyOf"].as_array());
        if let Some(variants) = variants {
            page.push_str("| form | meaning |\n|---|---|\n");
            for one in variants {
                let _ = writeln!(page, "| {} | {} |", self.words(one), cell(one));
            }
        } else if let Some(values) = schema["enum"].as_array() {
            let values: Vec<String> = values.iter().map(|value| format!("`{value}`")).collect();
            let _ = writeln!(page, "One of {}.", values.join(", "));
        } else if schema.get("properties").is_some() {
            self.fields(page, schema);
        } else {
            let _ = writeln!(page, "{}.", self.words(&untitled(schema)));
        }
    }

    fn fields(&mut self, page: &mut String, schema: &Value) {
        page.push_str("| field | type | meaning |\n|---|---|---|\n");
        for (name, one) in members(schema) {
            let _ = writeln!(page, "| `{name}` | {} | {} |", self.words(one), cell(one));
        }
    }
}

/// Whether a schema is worth a section of its own.
fn is_section(schema: &Value) -> bool {
    schema.get("properties").is_some() || schema.get("oneOf").is_some()
}

fn untitled(schema: &Value) -> Value {
    let mut schema = schema.clone();
    schema.as_object_mut().map(|schema| schema.remove("title"));
    schema
}

fn members(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema["properties"].as_object().into_iter().flatten()
}

/// What a type's comment says, as lines of a page.
fn text(schema: &Value) -> String {
    schema["description"].as_str().unwrap_or_default().to_owned()
}

/// The same in a cell of a table.
fn cell(schema: &Value) -> String {
    text(schema).replace('\n', " ").replace('|', "\\|")
}

/// The page of the keys of descriptions. In: the schema of a [`crate::config::File`].
pub fn configuration(schema: &Value) -> String {
    let mut page = format!(
        "# Reference: keys of a description\n\n{MADE}\n[configuration.md](../configuration.md) explains them.\n\
         A key without a default is needed. `cellway config show` prints all of a file with their defaults.\n"
    );
    let mut types = Types::default();
    types.learn(schema);
    for (name, section) in members(schema) {
        let (head, of) = if section["type"] == "array" {
            (format!("[[{name}]]"), &section["items"])
        } else if section["additionalProperties"].is_object() {
            (format!("[{name}.NAME]"), &section["additionalProperties"])
        } else {
            (format!("[{name}]"), section)
        };
        let _ = writeln!(page, "\n## `{head}`\n{}\n", text(section));
        let of = of["$ref"].as_str().and_then(|to| schema.pointer(to.strip_prefix('#')?)).unwrap_or(of).clone();
        keys(&mut page, &mut types, &of);
    }
    page.push_str("\n## Tables within these\n");
    let mut done = 0;
    while let Some(name) = types.named.get(done).cloned() {
        done += 1;
        let Some(schema) = types.all.get(&name).cloned() else { continue };
        let _ = writeln!(page, "\n### {name}\n{}\n", text(&schema));
        if schema.get("properties").is_some() {
            keys(&mut page, &mut types, &schema);
        } else {
            types.section(&mut page, &schema);
        }
    }
    page
}

fn keys(page: &mut String, types: &mut Types, schema: &Value) {
    if schema["properties"].as_object().is_none_or(Map::is_empty) {
        page.push_str("No keys.\n");
        return;
    }
    let needed: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    page.push_str("| key | type | default | meaning |\n|---|---|---|---|\n");
    for (name, one) in members(schema) {
        let default = match one.get("default") {
            _ if needed.contains(&name.as_str()) => String::new(),
            None | Some(Value::Null) => "none".into(),
            Some(Value::Array(all)) if all.is_empty() => "none".into(),
            Some(Value::Object(all)) if all.is_empty() => "none".into(),
            Some(value) => format!("`{value}`"),
        };
        // A key that may be left out is never written as null.
        let kind = types.words(one).replace(" or `null`", "");
        let _ = writeln!(page, "| `{name}` | {kind} | {default} | {} |", cell(one));
    }
}

/// The page of the management protocol. In: [`crate::protocol::schema`].
pub fn protocol(schema: &Value) -> String {
    let mut page = format!(
        "# Reference: management protocol, version {}\n\n{MADE}\nA request is a JSON object on the service's socket, \
         `{{ \"manage\": {{ \"version\": {0}, \"request\": REQUEST }} }}`.\n\
         [operating.md](../operating.md#roles) says who may ask what. `cellway schema` prints the schema.\n",
        schema["version"]
    );
    let mut types = Types::default();
    let message = &schema["message"];
    types.learn(message);
    let answers = schema["answers"].as_object().into_iter().flatten();
    answers.clone().for_each(|(_, answer)| types.learn(answer));
    let answer = |types: &mut Types, name: &str| types.words(&schema["answers"][name]);
    let _ = writeln!(
        page,
        "\nBeside `request`, a change may have `id` and `expect`: it is made once under its id, and only if the revision\n\
         `expect` is the current one. Otherwise the answer is {}\n\
         ([operating.md](../operating.md#changes-are-made-once)).",
        answer(&mut types, "wrong_revision")
    );
    page.push_str("\n## Requests\n| request | parameters | answer | meaning |\n|---|---|---|---|\n");
    for one in message["$defs"]["Request"]["oneOf"].as_array().into_iter().flatten() {
        if let Some(name) = one["const"].as_str() {
            let answer = answer(&mut types, name);
            let _ = writeln!(page, "| `\"{name}\"` | | {answer} | {} |", cell(one));
        }
        for (name, parameters) in members(one) {
            let (parameters, answer) = (types.words(&undescribed(parameters)), answer(&mut types, name));
            let _ = writeln!(page, "| `{{ \"{name}\": ... }}` | {parameters} | {answer} | {} |", cell(one));
        }
        for name in one["enum"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            let answer = answer(&mut types, name);
            let _ = writeln!(page, "| `\"{name}\"` | | {answer} | {} |", cell(one));
        }
    }
    page.push_str("\n## Types\n");
    types.sections(&mut page, &mut 0);
    page
}

fn undescribed(schema: &Value) -> Value {
    let mut schema = schema.clone();
    schema.as_object_mut().map(|schema| schema.remove("description"));
    schema
}

/// The page of what commands print with `--json`: command and schema.
pub fn results(program: &str, commands: &Map<String, Value>) -> String {
    let mut page = format!(
        "# Reference: what commands of `{program}` print with `--json`\n\n{MADE}\nA result is one JSON value on standard output.\n\
         `call`, `listen` and commands with `--watch` print one for each event.\n\
         Where standard output has the data (`receive` and `capture` without a file), the result is on standard error.\n\
         A value that is not known is `null`; no member is left out.\n"
    );
    let mut types = Types::default();
    commands.values().for_each(|schema| types.learn(schema));
    page.push_str("\n| command | result |\n|---|---|\n");
    for (command, schema) in commands {
        let _ = writeln!(page, "| `{command}` | {} |", types.words(schema));
    }
    page.push_str("\n## Types\n");
    types.sections(&mut page, &mut 0);
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keys_have_types_defaults_and_meanings() {
        let page = configuration(&schemars::schema_for!(crate::config::File).into());
        for row in [
            "## `[[link]]`",
            "## `[host.NAME]`",
            "| `delay_us` | [TimeText](#timetext) | `0` |",
            "| `ends` | 2 times string |  |",
            "| `tls` | [LinkTls](#linktls) | none |",
            "### LinkTls",
        ] {
            assert!(page.contains(row), "{row}\n{page}");
        }
        assert!(!page.contains("| anything |"), "{page}");
    }

    #[test]
    fn requests_have_parameters_and_answers() {
        let page = protocol(&crate::protocol::schema(&crate::kinds::Kinds::none()));
        let row = page.lines().find(|line| line.starts_with("| `{ \"set_link\": ... }`")).unwrap();
        assert!(row.contains("`name`: string") && row.contains("[LinkSet](#linkset)"), "{row}");
        assert!(page.contains("| `\"status\"` | | [Status](#status) |"), "{page}");
        assert!(page.contains("\n### CircuitStatus\n") && !page.contains("| anything |"), "{page}");
        let links = page.split("](#").skip(1).filter_map(|rest| rest.split(')').next());
        for link in links {
            let has =
                page.lines().any(|line| line.strip_prefix("### ").is_some_and(|name| name.to_lowercase() == link));
            assert!(has, "{link} has no section");
        }
    }

    #[test]
    fn what_has_no_name_is_told_in_place() {
        let mut types = Types::default();
        assert_eq!(types.words(&json!({ "type": ["string", "null"] })), "string or `null`");
        assert_eq!(types.words(&json!({ "type": "array", "items": { "type": "number" } })), "list of number");
    }
}
