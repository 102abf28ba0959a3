//! The running network as a description, which `apply` finds unchanged: the description that was read last, with what
//! commands have added, removed, taken down and up. Circuits of calls and of peers are not in it: whoever opened them
//! opens them again.

use crate::config::{File, Outside};
use crate::intent::Intent;
use crate::objects::{Object, ObjectId, Spec};
use crate::protocol::Exported;
use crate::sources::commands::{Written, find_by_ends};
use crate::sources::file::link_ids;
use anyhow::{Context as _, Result};
use std::collections::BTreeMap;
use std::path::Path;
use toml::Value;

/// The network as it is, in TOML.
///
/// # Errors
/// It cannot be written.
pub fn exported(intent: &Intent) -> Result<Exported> {
    let mut value = Value::try_from(file(intent)).context("writing the description")?;
    absolute(&mut value, &intent.config().folder);
    let head = "# The running network, as `cellway export` wrote it.\n\n";
    let description = head.to_owned() + &toml::to_string_pretty(&value).context("writing the description")?;
    Ok(Exported { revision: intent.revision(), description })
}

/// The network as a description that is not written yet; paths are as they were written.
pub fn file(intent: &Intent) -> File {
    let config = intent.config();
    let mut file = config.file.clone();
    let mut written: BTreeMap<&ObjectId, &Written> = intent.commands().written().collect();
    let links = std::mem::take(&mut file.link).into_iter();
    for (link, id) in links.zip(link_ids(&config.description.links)) {
        let link = match written.remove(&id) {
            Some(Written::Link(other)) => (**other).clone(),
            _ => link,
        };
        file.link.extend(as_it_is(intent, &id, link));
    }
    let circuits = std::mem::take(&mut file.circuit).into_iter();
    for (circuit, description) in circuits.zip(&config.description.circuits) {
        let id = ObjectId::circuit(description);
        let circuit = match written.remove(&id) {
            Some(Written::Circuit(other)) => (**other).clone(),
            _ => circuit,
        };
        file.circuit.extend(intent.applied().contains_key(&id).then_some(circuit));
    }
    // In the order of the commands: of links that are written alike, the first has the first name.
    for (id, more) in intent.commands().written().filter(|(id, _)| written.contains_key(id)) {
        match more {
            Written::Link(link) => file.link.extend(as_it_is(intent, id, (**link).clone())),
            Written::Circuit(circuit) if intent.applied().contains_key(id) => file.circuit.push((**circuit).clone()),
            Written::Circuit(_) => {}
        }
    }
    for (id, object) in intent.applied() {
        if let (ObjectId::Station(name), Spec::Outside) = (id, &object.spec)
            && intent.commands().is_added(id)
        {
            file.outside.insert(name.clone(), Outside::default());
        }
    }
    file
}

/// A link as it is now; `None`: it is gone.
fn as_it_is(intent: &Intent, id: &ObjectId, mut link: crate::config::Link) -> Option<crate::config::Link> {
    let Some(Object { spec: Spec::Link(spec), .. }) = intent.applied().get(id) else { return None };
    link.enabled = spec.enabled;
    // A link that is gone cannot be followed.
    link.follows = link.follows.filter(|other| find_by_ends(intent.applied(), other).is_some());
    Some(link)
}

/// Makes paths that are relative to the description's folder mean the same in every folder.
fn absolute(description: &mut Value, folder: &Path) {
    let join = |value: &mut Value| {
        if let Some(path) = value.as_str() {
            *value = Value::String(folder.join(path).to_string_lossy().into_owned());
        }
    };
    let adapters = description.get_mut("adapter").and_then(Value::as_table_mut);
    adapters.into_iter().flatten().filter_map(|(_, adapter)| adapter.get_mut("socket")).for_each(join);
    let links = description.get_mut("link").and_then(Value::as_array_mut);
    for tls in links.into_iter().flatten().filter_map(|link| link.get_mut("tls")) {
        for key in ["certificate", "key", "trust"] {
            tls.get_mut(key).into_iter().for_each(join);
        }
    }
}
