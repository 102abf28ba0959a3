//! What passes between the service and a program that signals for a host: the meaning of the messages that Linux's ATM
//! has with `atmsigd` (`struct atmsvc_msg` of `linux/atmsvc.h`), whose sockets are numbers of listenings and calls
//! here.

use super::Traffic;
use serde::{Deserialize, Serialize};

/// What the program is to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "SignallingOrder"))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Order {
    /// `as_listen`: indicate calls that fit. [`Report::Okay`] or [`Report::Failed`] follows.
    Listen {
        /// The number of the listening.
        listener: u64,
        /// Calls to this address only.
        address: Option<String>,
        /// Calls to this service access point, as [`super::Sap`] writes it.
        sap: String,
    },
    /// `as_connect`: call. [`Report::Okay`] or [`Report::Failed`] follows.
    Connect {
        /// The number of the call.
        call: u64,
        /// Whom.
        to: String,
        /// The service access point.
        sap: String,
        /// What is sent to the called user, and what comes from there.
        traffic: Box<[Traffic; 2]>,
    },
    /// `as_accept`: answer the oldest call that was indicated to a listener; its number is this one from now on.
    /// [`Report::Okay`] or [`Report::Failed`] follows.
    Accept {
        /// The number of the call.
        call: u64,
        /// The listener.
        listener: u64,
    },
    /// `as_reject`: refuse the oldest call that was indicated to a listener.
    Reject {
        /// The listener.
        listener: u64,
    },
    /// `as_close`: end a listening or a call, or acknowledge its end.
    Close {
        /// Its number.
        socket: u64,
    },
    /// `as_itf_notify`: the host has other addresses.
    Readdress,
}

/// What the program says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "SignallingReport"))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Report {
    /// `as_okay`: what was asked for is there.
    Okay {
        /// The listening or call.
        socket: u64,
        /// The circuit of a call that was made, VPI and VCI.
        circuit: Option<String>,
    },
    /// `as_error`: it is not, and the program has forgotten it.
    Failed {
        /// The listening or call.
        socket: u64,
        /// Why, as a number of `errno.h`.
        errno: i32,
    },
    /// `as_indicate`: somebody calls.
    Indicate {
        /// For this listening.
        listener: u64,
        /// The circuit, VPI and VCI.
        circuit: String,
        /// Who calls, as far as the network says.
        from: Option<String>,
        /// Who is called.
        to: Option<String>,
        /// The service access point.
        sap: String,
        /// What the caller may send, and what it may be sent.
        traffic: Box<[Traffic; 2]>,
    },
    /// `as_close`: the listening or call has ended.
    Closed {
        /// Its number.
        socket: u64,
        /// Why, as a number of `errno.h`; zero: it was asked for.
        errno: i32,
    },
}
