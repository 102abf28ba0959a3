//! Messages about calls between an application and the service: JSON, inside management requests (`calls`).
//!
//! A connection is a session: what it listens for and the calls that it has end with it. [`Request::Wait`],
//! [`Request::Next`] and [`Request::Steps`] that waits are answered when something has happened; any other request
//! meanwhile ends the wait, whose answer comes first and may be empty.

use super::{Order, Report, Traffic};
use serde::{Deserialize, Serialize};

/// What an application asks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "SessionRequest"))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Present incoming calls of a host to this session.
    Listen {
        /// The host.
        host: String,
        /// Calls to this selector only.
        #[serde(default)]
        selector: Option<u8>,
        /// Calls to this service access point only, as [`super::Sap`] writes it.
        #[serde(default)]
        sap: Option<String>,
    },
    /// Call an address.
    Call {
        /// The host that calls.
        host: String,
        /// Whom: 40 hexadecimal digits.
        to: String,
        /// The service access point, as [`super::Sap`] writes it.
        #[serde(default)]
        sap: Option<String>,
        /// What is asked of the network, in either direction.
        #[serde(default)]
        traffic: Traffic,
        /// What is asked in the direction from the called user, if that is something else.
        #[serde(default)]
        backward: Option<Traffic>,
        /// The call is the root's of a point-to-multipoint call: nothing is sent back, and parties can be added.
        #[serde(default)]
        multipoint: bool,
    },
    /// Have a call that was presented to this session, or to another one of the same user: it is this session's from
    /// then on. Its circuit is there from then on too, so that it can be opened before the caller hears of the answer.
    Take {
        /// Which.
        call: u64,
    },
    /// Answer a call.
    Accept {
        /// Which.
        call: u64,
    },
    /// End this connection when the call ends: for a program that is told of the end by its circuit alone.
    Tie {
        /// Which.
        call: u64,
    },
    /// Add a party to a point-to-multipoint call that this session began.
    AddParty {
        /// The call.
        call: u64,
        /// Whom: 40 hexadecimal digits.
        to: String,
    },
    /// Drop a party. The call ends with its last one.
    DropParty {
        /// The call.
        call: u64,
        /// The party's number.
        party: u16,
        /// The cause's number (Q.850).
        cause: u8,
    },
    /// Refuse a call, or release one.
    Release {
        /// Which.
        call: u64,
        /// The cause's number (Q.850).
        cause: u8,
    },
    /// Wait until something happens.
    Wait,
    /// The same, answered by one event: others that there are wait for the next request.
    Next,
    /// Many steps at once, answered together ([`Answer::Stepped`]) with the events that there are. A step that is
    /// refused does not keep others from being taken.
    Steps {
        /// The host that calls.
        host: String,
        /// At most [`MAX_STEPS`], in this order.
        steps: Vec<Step>,
        /// If all steps are taken and nothing has happened, the answer waits for the first event, as of
        /// [`Request::Wait`].
        #[serde(default)]
        wait: bool,
    },
    /// The calls, addresses and failures that there are.
    List,
    /// Signal for a host whose link leaves its side to a program (`by = "program"`): this session is told
    /// [`Event::Order`]s.
    Serve {
        /// The host.
        host: String,
    },
    /// What the program that signals for a host says, by any session of its user.
    Report {
        /// The host.
        host: String,
        /// What it says.
        report: Box<Report>,
    },
    /// Give such a host an address, or take it away.
    SetAddress {
        /// The host.
        host: String,
        /// 40 hexadecimal digits.
        address: String,
        /// Whether the host has it from now on.
        present: bool,
    },
    /// Take all addresses of such a host away.
    ResetAddresses {
        /// The host.
        host: String,
    },
}

/// Steps of one [`Request::Steps`] at most.
pub const MAX_STEPS: usize = 64;

/// A step of a call, one of many in a request ([`Request::Steps`]).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "CallStep"))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Step {
    /// As [`Request::Call`], of the request's host. Gives [`StepOutcome::Calling`].
    Call {
        /// Whom: 40 hexadecimal digits.
        to: String,
        /// The service access point, as [`super::Sap`] writes it; absent: any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sap: Option<String>,
        /// What is asked of the network, in either direction; absent: best effort.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        traffic: Option<Traffic>,
        /// What is asked in the direction from the called user, if that is something else.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        backward: Option<Traffic>,
    },
    /// As [`Request::Accept`]. Gives [`StepOutcome::Accepted`]: the circuit, which is there before the caller hears of
    /// the answer.
    Accept {
        /// Which.
        call: u64,
    },
    /// As [`Request::Release`]. Gives [`StepOutcome::Done`].
    Release {
        /// Which.
        call: u64,
        /// The cause's number (Q.850).
        cause: u8,
    },
}

/// What became of a [`Step`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "StepOutcome"))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StepOutcome {
    /// It is done.
    Done,
    /// The call is being set up.
    Calling {
        /// Its number.
        call: u64,
    },
    /// The call is answered, and its circuit can be opened.
    Accepted {
        /// Its number.
        call: u64,
        /// VPI and VCI at the host.
        circuit: String,
    },
    /// It is refused, for this reason.
    Refused(String),
}

/// The answer to all but [`Request::List`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "SessionAnswer"))]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It is done.
    Done,
    /// Calls are presented from now on.
    Listening {
        /// The number of this listening.
        listen: u64,
        /// The addresses under which the host can be called now.
        addresses: Vec<String>,
    },
    /// The call is being set up.
    Calling {
        /// Its number.
        call: u64,
    },
    /// The call is this session's.
    Taken {
        /// The host.
        host: String,
        /// VPI and VCI there.
        circuit: String,
    },
    /// The party is being added.
    Adding {
        /// Its number in the call.
        party: u16,
    },
    /// What has happened since the last time, perhaps nothing.
    Events(Vec<Event>),
    /// To [`Request::Steps`].
    Stepped {
        /// What became of each step, in their order.
        outcomes: Vec<StepOutcome>,
        /// What has happened since the last time.
        events: Vec<Event>,
    },
}

/// What happened to a call of the session's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "CallEvent"))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// Somebody calls.
    Incoming {
        /// The call.
        call: u64,
        /// For this listening.
        listen: u64,
        /// Who calls, as far as the network says.
        from: Option<String>,
        /// Who is called.
        to: Option<String>,
        /// The service access point, as [`super::Sap`] writes it.
        #[serde(default)]
        sap: String,
        /// What the caller may send, and what it may be sent.
        #[serde(default)]
        traffic: Box<[Traffic; 2]>,
    },
    /// The called user is alerted.
    Alerting {
        /// The call.
        call: u64,
    },
    /// The circuit is there.
    Connected {
        /// The call.
        call: u64,
        /// The host.
        host: String,
        /// VPI and VCI at the host.
        circuit: String,
    },
    /// The call is gone, and its circuit.
    Released {
        /// The call.
        call: u64,
        /// The cause's number.
        cause: u8,
        /// What it means.
        text: String,
    },
    /// A party was added to a call.
    PartyAdded {
        /// The call.
        call: u64,
        /// The party's number.
        party: u16,
    },
    /// A party was refused, or has left.
    PartyDropped {
        /// The call.
        call: u64,
        /// The party's number.
        party: u16,
        /// The cause's number.
        cause: u8,
        /// What it means.
        text: String,
    },
    /// The program that signals for a host is to do something.
    Order(Box<Order>),
}

impl Event {
    /// The call that it is about. An order has none, whose number is 0.
    pub const fn call(&self) -> u64 {
        match self {
            Event::Incoming { call, .. }
            | Event::Alerting { call }
            | Event::Connected { call, .. }
            | Event::Released { call, .. }
            | Event::PartyAdded { call, .. }
            | Event::PartyDropped { call, .. } => *call,
            Event::Order(_) => 0,
        }
    }
}
