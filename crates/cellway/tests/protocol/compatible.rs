//! Whether programs that speak a stored version of the protocol still understand a new one of the same number: what they
//! send is taken, and every field that they read is there and is what it was.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Who writes the values of a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// Who asks: the new service must take what old programs send.
    Asker,
    /// The service: old programs must be able to read what it answers.
    Service,
}

/// All that old programs would not understand.
pub fn broken(old: &Value, new: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare(&old["message"], &new["message"], "request", From::Asker, &mut found);
    for (name, answer) in old["answers"].as_object().into_iter().flatten() {
        match new["answers"].get(name) {
            Some(now) => compare(answer, now, &format!("answer to {name}"), From::Service, &mut found),
            None => found.push(format!("the answer to {name} was removed")),
        }
    }
    found
}

fn compare(old: &Value, new: &Value, at: &str, from: From, found: &mut Vec<String>) {
    let mut pair = Pair { roots: [old, new], seen: BTreeSet::new(), from, found };
    pair.values(old, new, at);
}

struct Pair<'a> {
    roots: [&'a Value; 2],
    /// Where the forms are that have been compared: a type may contain itself.
    seen: BTreeSet<[*const Value; 2]>,
    from: From,
    found: &'a mut Vec<String>,
}

/// Forms that a value may have, by what tells them apart.
type Forms<'a> = BTreeMap<String, &'a Value>;

impl<'a> Pair<'a> {
    fn values(&mut self, old: &'a Value, new: &'a Value, at: &str) {
        let (was, is) = (forms(self.roots[0], old), forms(self.roots[1], new));
        for (form, schema) in &was {
            match is.get(form) {
                // Nothing is nothing, whatever else the value may be.
                Some(_) if form == "null" => {}
                Some(now) => self.same_form(schema, now, at),
                // A value that is always there now is what old programs can read.
                None if form == "null" && self.from == From::Service => {}
                None => self.found.push(format!("{at} was {form}, and is {}", list(&is))),
            }
        }
        let simple =
            |form: &&String| ["null", "string", "integer", "number", "boolean", "array"].contains(&form.as_str());
        if self.from == From::Service {
            let more = is.keys().filter(|form| !was.contains_key(*form)).filter(simple);
            self.found.extend(more.map(|form| format!("{at} was {}, and may be {form}", list(&was))));
        }
    }

    fn same_form(&mut self, old: &'a Value, new: &'a Value, at: &str) {
        if !self.seen.insert([std::ptr::from_ref(old), std::ptr::from_ref(new)]) {
            return;
        }
        if old["format"] != new["format"] {
            self.found.push(format!("{at} was {}, and is {}", old["format"], new["format"]));
        }
        for (inner, what) in [("items", "item of"), ("additionalProperties", "member of")] {
            match (&old[inner], &new[inner]) {
                (was @ Value::Object(_), is @ Value::Object(_)) => self.values(was, is, &format!("{what} {at}")),
                (Value::Object(_), _) => self.found.push(format!("{what} {at} is not described any more")),
                _ => {}
            }
        }
        let patterns = old["patternProperties"].as_object().into_iter().flatten();
        for (pattern, was) in patterns {
            match new["patternProperties"].get(pattern) {
                Some(is) => self.values(was, is, &format!("member of {at}")),
                None => self.found.push(format!("member of {at} is not described any more")),
            }
        }
        self.members(old, new, at);
    }

    fn members(&mut self, old: &'a Value, new: &'a Value, at: &str) {
        let (was, is) = (old["properties"].as_object(), new["properties"].as_object());
        for (name, schema) in was.into_iter().flatten() {
            match is.and_then(|is| is.get(name)) {
                Some(now) => self.values(schema, now, &format!("field {name} of {at}")),
                None => self.found.push(format!("field {name} of {at} was removed")),
            }
        }
        let needs = |schema: &Value, name: &str| {
            schema["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name))
        };
        for name in is.into_iter().flat_map(|is| is.keys()) {
            match (needs(old, name), needs(new, name)) {
                (false, true) if self.from == From::Asker => {
                    self.found.push(format!("field {name} of {at} is needed, and was not"));
                }
                (true, false) if self.from == From::Service => {
                    self.found.push(format!("field {name} of {at} was always there, and may be left out"));
                }
                _ => {}
            }
        }
    }
}

fn list(forms: &Forms<'_>) -> String {
    forms.keys().cloned().collect::<Vec<_>>().join(" or ")
}

fn forms<'a>(root: &'a Value, schema: &'a Value) -> Forms<'a> {
    let mut all = Forms::new();
    collect(root, schema, &mut all);
    all
}

fn collect<'a>(root: &'a Value, schema: &'a Value, all: &mut Forms<'a>) {
    if let Some(to) = schema["$ref"].as_str() {
        let to = to.strip_prefix('#').and_then(|to| root.pointer(to));
        return collect(root, to.expect("a type that is defined"), all);
    }
    for several in ["anyOf", "oneOf"] {
        schema[several].as_array().into_iter().flatten().for_each(|one| collect(root, one, all));
    }
    if let Some(value) = schema.get("const") {
        all.insert(value.to_string(), schema);
        return;
    }
    if let Some(values) = schema["enum"].as_array() {
        all.extend(values.iter().map(|value| (value.to_string(), schema)));
        return;
    }
    let kinds = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        kind => kind.as_str().into_iter().collect::<Vec<_>>(),
    };
    for kind in kinds {
        // A variant of an enumeration with fields is an object with one member, which names it.
        let members =
            schema["properties"].as_object().filter(|_| kind == "object" && schema["additionalProperties"] == false);
        let variant = members.filter(|members| members.len() == 1).and_then(|members| members.keys().next());
        all.insert(variant.map_or_else(|| kind.to_owned(), |name| format!("{{{name}}}")), schema);
    }
}
