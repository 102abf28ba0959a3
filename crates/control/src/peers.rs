//! The `real` role of an ATM-over-TCP link: what its peer opens becomes a circuit to a host of the network, with the same label at both ends,
//! as a real interface would have it; what it closes goes.

use host::engine::{Core, EngineHandle};
use net::topology::CircuitDescription;
use net::{Aal, LinkId};
use std::sync::{Mutex, PoisonError};

/// Circuits that one peer may make.
const MAX_CIRCUITS: usize = 1024;

struct Real {
    link: LinkId,
    /// What is outside at the link.
    outside: String,
    host: String,
    made: Vec<CircuitDescription>,
}

/// The links of that role.
#[derive(Default)]
pub struct PeerCircuits(Mutex<Vec<Real>>);

impl PeerCircuits {
    /// A link has, or has no more (`host` `None`), this role.
    pub fn set(&self, link: LinkId, outside: &str, host: Option<&str>) {
        let mut peers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        peers.retain(|r| r.link != link);
        if let Some(host) = host {
            peers.push(Real { link, outside: outside.to_owned(), host: host.to_owned(), made: Vec::new() });
        }
    }

    /// Does what peers have asked for since the last time.
    pub fn serve(&self, engine: &EngineHandle) {
        let mut peers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if peers.is_empty() {
            return;
        }
        let mut taken = std::mem::take(&mut *peers);
        let served = engine.with(move |core| {
            taken.retain_mut(|real| real.serve(core));
            taken
        });
        // Otherwise the engine has ended, and with it all links.
        *peers = served.unwrap_or_default();
    }
}

impl Real {
    /// False if the link is gone.
    fn serve(&mut self, core: &mut Core) -> bool {
        if core.fabric.link_name(self.link).is_none() {
            return false;
        }
        let Core { network, fabric, .. } = core;
        while let Some(event) = network.poll_peer(self.link) {
            let ends = [&self.outside, &self.host].map(|station| format!("{station} {}", event.circuit).parse());
            let [Ok(outside), Ok(host)] = ends else { continue };
            let ends = vec![outside, host];
            let result = match event.opened {
                Some(aal) if self.made.len() < MAX_CIRCUITS && self.made.iter().all(|c| c.ends != ends) => {
                    let aal = match aal {
                        Some(0) => Aal::Aal0,
                        Some(3) => Aal::Aal34,
                        _ => Aal::Aal5,
                    };
                    let circuit = CircuitDescription { ends, aal, contract: Default::default() };
                    fabric.add_circuit(network, &circuit).map(|()| self.made.push(circuit))
                }
                Some(_) => Ok(()),
                None => match self.made.iter().position(|c| c.ends == ends) {
                    Some(place) => fabric.remove_circuit(network, &self.made.swap_remove(place)),
                    None => Ok(()),
                },
            };
            if let Err(e) = result {
                tracing::info!("{} {}: {e}", self.outside, event.circuit);
            }
        }
        true
    }
}
