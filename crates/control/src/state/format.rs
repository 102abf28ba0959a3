//! The format of the state's files, its versions, and how an older one becomes the present one.
//!
//! | version | JSON after the first line |
//! |---|---|
//! | 1 | what commands want: `added`, `ids`, `removed`, `down`, `up` |
//! | 2 | [`Stored`]: the same under `commands`, the last revision, answered requests, a description on trial |
//!
//! A change of what is written raises [`VERSION`] and adds a function to `MIGRATIONS` and a fixture to
//! `tests/state/`.

use super::stored::{Stored, digest};
use serde_json::{Map, Value, json};

const MAGIC: &str = "cellway-state";
/// The version that is written.
pub const VERSION: usize = 2;
/// Each makes the JSON of a version that of the next one, the first that of version 1.
const MIGRATIONS: [fn(Value) -> Value; VERSION - 1] = [to_version_2];
/// More than any network's; what is larger is not ours.
pub(super) const MAX_OCTETS: u64 = 256 << 20;

/// What a file of the state has.
pub(super) enum Found {
    Nothing,
    Whole(Box<Stored>),
    Torn(String),
    /// It is as it was written, by another version of this program.
    Foreign(String),
}

/// The first line.
pub(super) fn head(version: usize, body: &[u8]) -> String {
    format!("{MAGIC} {version} {} {}", body.len(), digest(body))
}

/// What is written.
pub(super) fn written(stored: &Stored) -> serde_json::Result<Vec<u8>> {
    let body = serde_json::to_vec(stored)?;
    Ok([head(VERSION, &body).as_bytes(), b"\n", &body].concat())
}

/// What some octets are.
pub(super) fn found(all: &[u8]) -> Found {
    if all.len() as u64 > MAX_OCTETS {
        return Found::Torn(format!("is damaged: more than {MAX_OCTETS} octets are no state of a network"));
    }
    let mut halves = all.splitn(2, |octet| *octet == b'\n');
    let first = String::from_utf8_lossy(halves.next().unwrap_or_default());
    let mut words = first.split(' ');
    let version = match (words.next(), words.next().map(str::parse::<usize>), words.next()) {
        (Some(MAGIC), Some(Ok(version)), Some(_)) => version,
        _ => return Found::Torn("is torn: its first line is not whole".into()),
    };
    if !(1..=VERSION).contains(&version) {
        return Found::Foreign(format!(
            "is of version {version}, which another version of Cellway wrote; this program reads versions 1 to {VERSION}"
        ));
    }
    let Some(body) = halves.next() else { return Found::Torn("is torn: its first line is not whole".into()) };
    if first != head(version, body) {
        return Found::Torn("is torn: its first line does not fit what follows".into());
    }
    match read(version, body) {
        Ok(stored) => Found::Whole(Box::new(stored)),
        Err(e) => Found::Foreign(format!("is of another version of this program: {e}")),
    }
}

fn read(version: usize, body: &[u8]) -> serde_json::Result<Stored> {
    let value = serde_json::from_slice(body)?;
    let migrations = MIGRATIONS.iter().skip(version - 1);
    serde_json::from_value(migrations.fold(value, |value, migrate| migrate(value)))
}

/// Version 1 had what commands want and nothing else; links by keys that have other names now.
fn to_version_2(mut commands: Value) -> Value {
    let links = commands["added"].as_array_mut().into_iter().flatten();
    for link in links.filter_map(|added| added.get_mut("link")?.as_object_mut()) {
        for (old, new) in [("real", "peer_circuits_to"), ("tcp", "cells_tcp"), ("udp", "cells_udp")] {
            rename(link, old, new);
        }
    }
    json!({ "revision": 0, "commands": commands })
}

fn rename(members: &mut Map<String, Value>, old: &str, new: &str) {
    if let Some(value) = members.remove(old) {
        members.insert(new.to_owned(), value);
    }
}
