//! What is attacked.

use endpoint::{ChannelId, Endpoint, EndpointConfig, Error, OpenOptions};
use std::path::Path;
use wire::CircuitId;

/// A circuit of VPI 0.
///
/// # Panics
/// If the number is none of a circuit.
pub fn circuit(vci: u16) -> CircuitId {
    CircuitId::new(0, vci).expect("a VCI")
}
/// A running network under attack.
pub trait Field: Sync {
    /// Where its service listens.
    fn socket(&self) -> &Path;

    /// An endpoint.
    ///
    /// # Errors
    /// As the service refuses it.
    fn endpoint(&self, config: &EndpointConfig) -> Result<Endpoint, Error> {
        Endpoint::create(self.socket(), config)
    }

    /// An endpoint of a host, with a circuit open both ways.
    ///
    /// # Panics
    /// If the service refuses it.
    fn open(&self, host: &str, vci: u16) -> (Endpoint, ChannelId) {
        self.open_as(vci, &EndpointConfig { host: host.into(), ..EndpointConfig::default() })
    }

    /// The same with a configuration.
    ///
    /// # Panics
    /// If the service refuses it.
    fn open_as(&self, vci: u16, config: &EndpointConfig) -> (Endpoint, ChannelId) {
        let mut endpoint = self.endpoint(config).expect("an endpoint");
        let channel = endpoint.open(circuit(vci), OpenOptions::default()).expect("the circuit");
        (endpoint, channel)
    }
}
