//! A description with another name of one of its stations.

use super::{Config, File, parse_in};
use crate::names::renamed_ends;
use anyhow::{Context as _, Result, bail};
use net::topology::Attachment;

impl Config {
    /// The same network with another name of a host or switch.
    ///
    /// # Errors
    /// There is no such host or switch, another station has the name, or what the station does goes by its name.
    pub fn renamed(&self, from: &str, to: &str) -> Result<Config> {
        if !self.file.host.contains_key(from) && !self.file.switch.contains_key(from) {
            bail!("`{from}` is no host and no switch of the description: only these are renamed");
        }
        if !to.parse::<Attachment>().is_ok_and(|name| name.port.is_none()) {
            bail!("`{to}` is no name: write one without blanks and colons");
        }
        if self.description.stations.contains_key(to) {
            bail!("another station is called `{to}`: choose another name");
        }
        let signals = self.file.link.iter().enumerate().any(|(n, link)| {
            let ends = self.description.links.get(n).map(|link| &link.ends);
            link.signalling.is_some() && ends.is_some_and(|ends| ends.iter().any(|end| end.station == from))
        });
        if signals || self.file.switch.get(from).is_some_and(super::Switch::has_signalling) {
            bail!("`{from}` has signalling, whose calls go by its name: it cannot be renamed while it runs");
        }
        if self.file.of_kinds.iter().next().is_some() {
            bail!("the description has stations of other kinds, whose parts go by names: nothing is renamed");
        }
        let value = toml::Value::try_from(self.file.renamed(from, to)).context("writing the description")?;
        let text = toml::to_string_pretty(&value).context("writing the description")?;
        let mut config = parse_in(self.kinds(), &text, &self.source.name, &self.folder)?;
        config.former = self.former.clone();
        config.former.values_mut().filter(|name| *name == from).for_each(|name| to.clone_into(name));
        config.former.insert(from.to_owned(), to.to_owned());
        config.former.retain(|former, name| former != name);
        Ok(config)
    }

    /// The name that a station has now, by that or by a former one.
    pub fn current_name<'a>(&'a self, name: &'a str) -> &'a str {
        if self.description.stations.contains_key(name) {
            return name;
        }
        self.former.get(name).map_or(name, String::as_str)
    }
}

impl File {
    fn renamed(&self, from: &str, to: &str) -> File {
        let mut file = self.clone();
        if let Some(host) = file.host.remove(from) {
            file.host.insert(to.to_owned(), host);
        }
        if let Some(switch) = file.switch.remove(from) {
            file.switch.insert(to.to_owned(), switch);
        }
        file.link.iter_mut().for_each(|link| link.rename(from, to));
        file.circuit.iter_mut().for_each(|circuit| circuit.rename(from, to));
        let hosts = file.allow.iter_mut().filter_map(|allow| allow.host.as_mut());
        hosts.filter(|host| *host == from).for_each(|host| to.clone_into(host));
        file
    }
}

impl super::Link {
    /// Another name of a station, wherever the link names it.
    pub(crate) fn rename(&mut self, from: &str, to: &str) {
        for end in self.ends.iter_mut().chain(&mut self.follows) {
            *end = renamed_ends(end, from, to);
        }
        let hosts = [&mut self.peer_circuits_to, &mut self.real].into_iter().flatten();
        hosts.filter(|host| *host == from).for_each(|host| to.clone_into(host));
    }
}

impl super::Circuit {
    /// Another name of a station, wherever the circuit names it.
    pub(crate) fn rename(&mut self, from: &str, to: &str) {
        for end in self.ends.iter_mut().chain(&mut self.via) {
            *end = renamed_ends(end, from, to);
        }
    }
}
