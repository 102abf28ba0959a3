//! The description as a source of objects.

use crate::config::{Config, Switch};
use crate::kinds::StationKeys;
use crate::objects::{LinkSpec, Object, ObjectId, Objects, Owner, Spec};
use net::topology::{LinkDescription, Station};
use std::collections::HashMap;

/// The objects of a description.
pub fn objects(config: &Config) -> Objects {
    let mut objects = Objects::new();
    let mut add = |id, spec| {
        let order = objects.len() as u64;
        objects.insert(id, Object { spec, owner: Owner::File, revision: 0, order });
    };
    for (name, station) in &config.description.stations {
        let spec = match station {
            Station::Host => Spec::Host(config.file.host.get(name).cloned().unwrap_or_default()),
            Station::Switch if config.file.of_kinds.get(name).is_some() => {
                // One that is not understood is not made; the description is refused as a whole.
                let empty = || config.file.of_kinds.get(name).map(StationKeys::empty);
                let Some(layout) = config.layouts.get(name).cloned().or_else(empty) else { continue };
                Spec::OfKind(layout)
            }
            Station::Switch => {
                let written = config.file.switch.get(name);
                let mut switch = written.map_or_else(Default::default, Switch::config);
                // Signalling has the port behind the last one, whoever adds links with it. One that has none left is
                // refused.
                switch.kept_ports = written.is_some_and(Switch::has_signalling).into();
                switch.ports = switch.ports.saturating_add(switch.kept_ports);
                Spec::Switch(switch)
            }
            Station::Outside => Spec::Outside,
        };
        add(ObjectId::Station(name.clone()), spec);
    }
    let ids = link_ids(&config.description.links);
    for ((place, description), id) in config.description.links.iter().enumerate().zip(&ids) {
        let shell = config.shells.get(&place).cloned();
        let follows = config.follows.get(&place).and_then(|other| ids.get(*other)).cloned();
        let written = config.file.link.get(place);
        let signalling = written.and_then(|link| link.signalling.clone());
        let enabled = written.is_none_or(|link| link.enabled);
        let link = LinkSpec { description: description.clone(), shell, follows, enabled, signalling };
        add(id.clone(), Spec::Link(Box::new(link)));
    }
    for circuit in &config.description.circuits {
        add(ObjectId::circuit(circuit), Spec::Circuit(circuit.clone()));
    }
    objects
}

/// The names of links: those that are written alike are numbered.
pub fn link_ids(links: &[LinkDescription]) -> Vec<ObjectId> {
    let mut alike: HashMap<String, usize> = HashMap::new();
    links
        .iter()
        .map(|link| {
            let ObjectId::Link(name, _) = ObjectId::link(link, 0) else { return ObjectId::link(link, 0) };
            let nth = alike.entry(name.clone()).or_default();
            *nth += 1;
            ObjectId::Link(name, *nth - 1)
        })
        .collect()
}
