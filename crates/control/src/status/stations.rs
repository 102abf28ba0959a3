//! What a name of a network stands for.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;

/// What a name stands for. In JSON it is a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StationKind {
    /// A host.
    Host,
    /// A switch.
    Switch,
    /// A station of a registered kind: the kind's section in descriptions.
    OfKind(String),
    /// Something outside.
    Outside,
}

/// The words of what control itself knows, each with what it means.
const WORDS: [(&str, StationKind, &str); 3] = [
    ("host", StationKind::Host, "A host."),
    ("switch", StationKind::Switch, "A switch."),
    ("outside", StationKind::Outside, "Something outside."),
];

impl Serialize for StationKind {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let own = WORDS.iter().find(|(_, kind, _)| kind == self).map(|(word, ..)| *word);
        match self {
            StationKind::OfKind(section) => to.serialize_str(section),
            _ => to.serialize_str(own.unwrap_or_default()),
        }
    }
}

impl<'de> Deserialize<'de> for StationKind {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let word = Cow::<'_, str>::deserialize(from)?;
        let own = WORDS.into_iter().find(|(own, ..)| *own == word).map(|(_, kind, _)| kind);
        Ok(own.unwrap_or_else(|| StationKind::OfKind(word.into_owned())))
    }
}

impl JsonSchema for StationKind {
    fn schema_name() -> Cow<'static, str> {
        "StationKind".into()
    }

    /// Without registered kinds: [`crate::kinds::Kinds::complete`] adds them.
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let variant = |(word, _, meaning): (&str, _, &str)| json_schema!({ "const": word, "description": meaning, "type": "string" });
        json_schema!({ "description": "What a name stands for.", "oneOf": WORDS.map(variant) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_a_kind_and_a_kind_a_word() {
        let of_kind = StationKind::OfKind("ring".into());
        for (word, kind) in WORDS.into_iter().map(|(word, kind, _)| (word, kind)).chain([("ring", of_kind)]) {
            let text = format!("\"{word}\"");
            assert_eq!(serde_json::to_string(&kind).unwrap(), text);
            assert_eq!(serde_json::from_str::<StationKind>(&text).unwrap(), kind);
        }
    }
}
