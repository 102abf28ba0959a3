//! The whole description as it is written, and what has few keys: hosts, switches, and what is outside.

use super::{Circuit, Engine, Interface, Link};
use crate::kinds::{AdapterKeys, Sections};
use crate::policy::Allow;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The whole file. [`crate::kinds::Kinds::schema_for`] gives its schema with the sections of registered kinds.
#[derive(Debug, Clone, Default, Serialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields, default, description = "The whole file.")]
pub struct File {
    /// The threads that carry everything.
    #[serde(skip_serializing_if = "Engine::is_default")]
    pub engine: Engine,
    /// Hosts by name.
    pub host: BTreeMap<String, Host>,
    /// Switches by name.
    pub switch: BTreeMap<String, Switch>,
    /// Far ends of links that leave this program, by name.
    pub outside: BTreeMap<String, Outside>,
    /// Stations of registered kinds, by section and name.
    #[serde(flatten)]
    #[schemars(skip)]
    pub of_kinds: Sections,
    /// Virtual adapters by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(skip)]
    pub adapter: BTreeMap<String, AdapterKeys>,
    /// IP interfaces by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub interface: BTreeMap<String, Interface>,
    /// Links.
    pub link: Vec<Link>,
    /// Circuits.
    pub circuit: Vec<Circuit>,
    /// Who may open which of them, besides the user who runs the network.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<Allow>,
}

/// `[host.NAME]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Host {
    /// Address and prefix for `cellway ip`, such as `10.0.0.1/24`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip: Option<String>,
    /// Endpoints at most.
    pub max_endpoints: usize,
    /// The end system identifier of its address, 12 hexadecimal digits; made of its name if it is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub esi: Option<String>,
    /// Its whole address, 40 hexadecimal digits, where the network's prefix is not to be taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The shard that it is in, from 0; without, one is chosen. A host that exists stays in its shard.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shard: Option<usize>,
}

impl Default for Host {
    fn default() -> Self {
        Host { ip: None, max_endpoints: 256, esi: None, address: None, shard: None }
    }
}

/// `[switch.NAME]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Switch {
    /// Ports, numbered from 0.
    pub ports: u16,
    /// Routes at most.
    pub max_routes: usize,
    /// The first 13 octets of its users' addresses, 26 hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// The shard that it is in, from 0; without, one is chosen. A switch that exists stays in its shard.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shard: Option<usize>,
}

impl Switch {
    /// Whether there can be calls through it: then a port behind the others is for signalling.
    pub fn has_signalling(&self) -> bool {
        self.prefix.is_some()
    }

    /// The bounds as the network takes them.
    pub fn config(&self) -> net::SwitchElementConfig {
        net::SwitchElementConfig { ports: self.ports, kept_ports: 0, max_routes: self.max_routes }
    }
}

impl Default for Switch {
    fn default() -> Self {
        let default = net::SwitchElementConfig::default();
        Switch { ports: default.ports, max_routes: default.max_routes, prefix: None, shard: None }
    }
}

/// `[outside.NAME]`
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Outside {}
