//! The service: who accepts connections, and the memory that its users have.

use host::quota::Pool;
use host::service::Accepting;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, OnceLock};

/// The service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ServiceStatus {
    /// Whether the process runs that accepts connections.
    pub accepts: bool,
    /// How often it was started anew, since it had ended.
    pub acceptor_restarts: u64,
    /// Octets of memory that all users have together: segments, registered memory, memory of direct circuits, and what is
    /// kept for endpoints and circuits.
    pub users_octets: u64,
    /// Octets that they may have: `max_users_octets`, or what the control group or the machine allows.
    pub max_users_octets: u64,
    /// Requests that were refused since they would have had more.
    pub memory_refusals: u64,
}

/// What a running service tells of itself.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(crate) accepting: Arc<Accepting>,
    pub(crate) pool: Arc<Pool>,
}

/// Where a controller finds it, once the service runs.
#[derive(Debug, Default)]
pub(crate) struct ServiceSlot(OnceLock<Source>);

impl ServiceSlot {
    /// The service runs.
    pub(crate) fn set(&self, source: Source) {
        let _ = self.0.set(source);
    }

    /// How it is.
    pub(crate) fn status(&self) -> ServiceStatus {
        self.0.get().map_or_else(ServiceStatus::default, |Source { accepting, pool }| ServiceStatus {
            accepts: accepting.accepts(),
            acceptor_restarts: accepting.restarts(),
            users_octets: pool.has(),
            max_users_octets: pool.limit(),
            memory_refusals: pool.refused(),
        })
    }
}
