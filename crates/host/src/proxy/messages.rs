//! What the acceptor and the service tell each other, each in a packet of JSON.

use serde::{Deserialize, Serialize};

/// From the acceptor.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ToService {
    /// What the system does not have to confine the acceptor.
    Unconfined { missing: Vec<String> },
    /// A user's proxy has begun. Descriptors: the acceptor's end of its channel, its board, its process.
    Begun { user_proxy: u64, uid: u32 },
    /// It was ended.
    Ended { user_proxy: u64 },
    /// A connection has come.
    Arrival(Arrival),
}

/// A connection. Descriptors: the socket pair's end, and the board.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Arrival {
    pub(super) pid: i32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) groups: Vec<u32>,
    pub(super) user_proxy: u64,
    pub(super) slot: u32,
}

/// To the acceptor.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ToAcceptor {
    /// A user was admitted: the user's proxy does not end for others'.
    Admit { uid: u32 },
    /// A user's proxy of an acceptor that has ended. Descriptors as of [`ToService::Begun`].
    Adopt { user_proxy: u64, uid: u32, admitted: bool },
    /// It has all proxies that there are, and accepts from now on; the next proxy has this number.
    Accept { next: u64 },
}
