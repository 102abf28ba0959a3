//! Whose the endpoints are: which process of which user has made each, as the kernel says of its connection. In: endpoints
//! that are made and end. Out: what `status` shows beside a circuit that is open.

use endpoint::seqpacket::Peer;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Octets of a program's name that are kept: the kernel has 15.
const NAME_OCTETS: usize = 64;

/// Who has something open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Opener {
    /// The user's number.
    pub uid: u32,
    /// The process.
    pub pid: i32,
    /// The program's name when it made its endpoint; empty where the system did not say.
    pub program: String,
}

impl Opener {
    fn of(peer: Peer) -> Self {
        let name = std::fs::read(format!("/proc/{}/comm", peer.pid)).unwrap_or_default();
        let name = String::from_utf8_lossy(&name[..name.len().min(NAME_OCTETS)]);
        Opener { uid: peer.uid, pid: peer.pid, program: name.trim_end().to_owned() }
    }
}

/// The owners of all endpoints: as many as there are endpoints, which have a bound.
#[derive(Debug, Default)]
pub struct Openers(Mutex<HashMap<String, HashMap<u64, Opener>>>);

impl Openers {
    /// An endpoint was made.
    pub fn handle_made(&self, peer: Peer, host: &str, endpoint: u64) {
        let opener = Opener::of(peer);
        self.with(|all| all.entry(host.to_owned()).or_default().insert(endpoint, opener));
    }

    /// An endpoint has ended.
    pub fn handle_ended(&self, host: &str, endpoint: u64) {
        self.with(|all| {
            let Some(of_host) = all.get_mut(host) else { return };
            of_host.remove(&endpoint);
            if of_host.is_empty() {
                all.remove(host);
            }
        });
    }

    /// Whose an endpoint is.
    pub fn of(&self, host: &str, endpoint: u64) -> Option<Opener> {
        self.with(|all| all.get(host)?.get(&endpoint).cloned())
    }

    fn with<R>(&self, f: impl FnOnce(&mut HashMap<String, HashMap<u64, Opener>>) -> R) -> R {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_its_process_until_it_ends() {
        let (openers, pid) = (Openers::default(), std::process::id() as i32);
        let peer = Peer { pid, uid: 7, gid: 7, groups: endpoint::seqpacket::Groups::default() };
        openers.handle_made(peer, "alpha", 3);
        let opener = openers.of("alpha", 3).unwrap();
        assert_eq!((opener.uid, opener.pid), (7, pid));
        let own = std::fs::read_to_string("/proc/self/comm").unwrap();
        assert_eq!(opener.program, own.trim_end());
        assert_eq!((openers.of("alpha", 4), openers.of("beta", 3)), (None, None));
        openers.handle_ended("alpha", 3);
        assert_eq!(openers.of("alpha", 3), None);
        assert!(openers.with(|all| all.is_empty()));
    }
}
