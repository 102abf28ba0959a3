//! Messages between an application and the service: JSON, one to a packet of a `SOCK_SEQPACKET` UNIX socket.
//!
//! The client speaks first ([`Request::Hello`]); each request has one answer, in order. A connection has one endpoint
//! at most, and what it has opened ends with it. The answer to [`Request::CreateEndpoint`] carries three file
//! descriptors (`SCM_RIGHTS`): the segment, the eventfd that wakes the host, the bell that wakes the client: a stream
//! socket on which [`BELL_OCTETS`] come for each ring. The request may carry an end of a pair of UNIX stream sockets
//! instead; then that one is the bell, and the answer carries two. A descriptor that is sent into a bell ends the
//! connection. Long answers to management requests come as sealed memory files ([`crate::negotiate::MEMORY_ANSWERS`]),
//! or in parts.

pub use crate::events::Events;
pub use crate::negotiate::{DIRECT, VERSION};

use crate::ChannelId;
use crate::layout::Geometry;
use crate::layout::direct::DirectGeometry;
use crate::negotiate;
use serde::{Deserialize, Serialize};
use wire::CircuitId;

/// Most octets of one packet.
pub const MAX_PACKET_OCTETS: usize = 64 * 1024;

/// The adaptation layer of a channel.
///
/// ```
/// use endpoint::{Aal, OpenOptions};
///
/// let cells = OpenOptions { aal: Aal::Aal0, ..OpenOptions::default() };
/// assert_ne!(cells.aal, Aal::default());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Aal {
    /// Bare cells: messages of 52 octets, four of header (network order) and 48 of payload.
    Aal0,
    /// SDUs of 1 to 65 535 octets.
    #[default]
    Aal5,
    /// The same, by AAL3/4, under MID 0; PDUs of any MID are received ([`crate::negotiate::AAL34`]).
    Aal34,
    /// The circuit's OAM cells, as AAL0 messages, beside whatever else has the circuit open.
    Oam,
}

/// How an SDU gets from the application's memory into cells.
///
/// ```
/// assert_eq!(endpoint::DataPath::ZeroCopy.name(), "zero-copy");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DataPath {
    /// The host copies the SDU into memory of its own first: the buffer is free at once.
    Copying,
    /// The host reads and writes the application's own memory, besides the segment ([`crate::app_memory`]).
    SingleCopy,
    /// Cells are made from the shared segment, where the application has put a copy.
    #[default]
    Shared,
    /// The same, and the application composes its SDUs there ([`crate::Endpoint::loan`]) and reads them there: no copy.
    ZeroCopy,
}

impl DataPath {
    /// All of them.
    pub const ALL: [DataPath; 4] = [DataPath::Copying, DataPath::SingleCopy, DataPath::Shared, DataPath::ZeroCopy];

    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            DataPath::Copying => "copying",
            DataPath::SingleCopy => "single-copy",
            DataPath::Shared => "shared",
            DataPath::ZeroCopy => "zero-copy",
        }
    }
}

/// Octets of one ring of a bell that is a socket.
pub const BELL_OCTETS: usize = 8;

/// Which way SDUs go on a channel. One opener may send and another receive on the same circuit.
///
/// ```
/// use endpoint::Direction;
///
/// assert!(Direction::Send.sends() && !Direction::Send.receives());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Direction {
    /// Both ways.
    #[default]
    Both,
    /// From the application only.
    Send,
    /// To the application only.
    Receive,
}

impl Direction {
    /// Whether the application sends.
    pub fn sends(self) -> bool {
        self != Direction::Receive
    }

    /// Whether the application receives.
    pub fn receives(self) -> bool {
        self != Direction::Send
    }
}

/// How a circuit is opened.
///
/// ```
/// use endpoint::{Direction, OpenOptions};
///
/// let listener = OpenOptions { direction: Direction::Receive, ..OpenOptions::default() };
/// assert!(!listener.reliable);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OpenOptions {
    /// Adaptation layer.
    pub aal: Aal,
    /// Which way.
    pub direction: Direction,
    /// Whether the application speaks Cellway's reliable transfer on the circuit (`docs/transfer.md`). The service tells
    /// the other end's application. A service without [`crate::negotiate::RELIABLE`] is not told.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub reliable: bool,
}

/// Why something was refused, for programs; the reason in words stands beside it.
///
/// ```
/// fn exit_status(e: &endpoint::Error) -> u8 {
///     match e.refusal() {
///         Some(endpoint::Refusal::NoHost | endpoint::Refusal::NoCircuit) => 2,
///         _ => 1,
///     }
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Refusal {
    /// There is no such host.
    NoHost,
    /// No such circuit ends at the host.
    NoCircuit,
    /// Somebody else has the circuit open.
    InUse,
    /// The policy says no.
    NotAllowed,
    /// A limit of the configuration.
    Limit,
    /// The request cannot be granted to anybody: its values contradict each other, or the object is of another sort.
    Invalid,
    /// Anything else, and what a newer service has a word for that this library does not know.
    #[default]
    #[serde(other)]
    Other,
}

impl Refusal {
    /// As it is written in messages: `no_circuit`.
    pub fn name(self) -> &'static str {
        match self {
            Refusal::Other => "other",
            Refusal::NoHost => "no_host",
            Refusal::NoCircuit => "no_circuit",
            Refusal::InUse => "in_use",
            Refusal::NotAllowed => "not_allowed",
            Refusal::Limit => "limit",
            Refusal::Invalid => "invalid",
        }
    }
}

/// What an application asks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// First of all.
    Hello {
        /// Newest version that the client speaks: [`VERSION`].
        version: u32,
        /// Oldest version that it speaks; absent: the same.
        #[serde(default)]
        oldest: Option<u32>,
        /// Features that it knows ([`crate::negotiate`]).
        #[serde(default)]
        features: Vec<String>,
    },
    /// Make this connection's endpoint.
    CreateEndpoint {
        /// The host it belongs to.
        host: String,
        /// Sizes of the segment.
        geometry: Geometry,
        /// Event strategy.
        events: Events,
        /// Data path.
        path: DataPath,
    },
    /// Open a circuit of the host's on the endpoint.
    Open {
        /// VPI and VCI.
        vpi_vci: String,
        /// How.
        options: OpenOptions,
    },
    /// Make memory to send from and receive into, of this size; its descriptor comes with the answer.
    Memory {
        /// How much.
        octets: u64,
    },
    /// Use the memory that was made last, which the application has mapped. From here on nobody else can map it to
    /// write.
    Register {
        /// Where the application has it.
        address: u64,
        /// How much.
        octets: u64,
    },
    /// The endpoint's segment may be read by whoever borrows from its one channel, which is opened after this
    /// ([`crate::negotiate::LEND`]).
    Lend,
    /// SDUs of a channel may be delivered where a sender that lends its memory has them.
    Borrow {
        /// Which channel.
        channel: ChannelId,
    },
    /// The memory of a region that a descriptor has named; its descriptor comes with the answer.
    Borrowed {
        /// The region's number.
        region: u16,
    },
    /// End the endpoint; from the answer on, the host touches nothing of the application's any more.
    Release,
    /// Change the endpoint's event strategy.
    SetEvents {
        /// To this one.
        events: Events,
    },
    /// Close a channel.
    Close {
        /// Which.
        channel: ChannelId,
    },
    /// Open this end of a circuit directly; the answer comes when the other end has been opened directly too. Carries
    /// one file descriptor: this side's memory ([`crate::direct::memory`]). For a connection without an endpoint.
    OpenDirect {
        /// The host that the end is at.
        host: String,
        /// VPI and VCI.
        vpi_vci: String,
        /// Version of the layout ([`crate::direct::layout::VERSION`]).
        layout: u32,
        /// Sizes of the memory.
        geometry: DirectGeometry,
    },
    /// For the program behind the service: status, circuits, links.
    Manage(serde_json::Value),
}

/// What the service answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Response {
    /// To a greeting.
    Welcome {
        /// The version of these messages that is spoken from here on.
        version: u32,
        /// Those of the client's features that the service has.
        #[serde(default)]
        features: Vec<String>,
    },
    /// The endpoint is there; three file descriptors come along.
    Created {
        /// Its number, as `status` shows it.
        endpoint: u64,
    },
    /// The circuit is open.
    Opened {
        /// Its channel.
        channel: ChannelId,
    },
    /// The memory is there, and its file descriptor comes along.
    Memory,
    /// The memory is in use.
    Registered,
    /// The endpoint lends.
    Lends,
    /// The channel borrows.
    Borrows,
    /// The memory of a region, to be mapped for reading; its file descriptor comes along.
    Borrowed {
        /// Sizes of the segment that it is.
        geometry: Geometry,
    },
    /// The endpoint has ended.
    Released,
    /// The event strategy is in force.
    EventsSet,
    /// The direct circuit is open. Carries three file descriptors: the other side's memory, the bell of messages, the
    /// bell of room (each one end of a pair of UNIX stream sockets).
    DirectOpened {
        /// Sizes of the other side's memory.
        geometry: DirectGeometry,
    },
    /// The channel is closed.
    Closed,
    /// Part of an answer to a management request, as JSON text; `last` ends it.
    Managed {
        /// The part.
        text: String,
        /// Whether it is the last.
        last: bool,
    },
    /// The answer to a management request is in the memory file that comes along, as JSON text ([`crate::sealed`]).
    ManagedMemory {
        /// How long it is.
        octets: u64,
    },
    /// The request is refused.
    Refused {
        /// Why, and what to do.
        reason: String,
        /// Why, for programs.
        #[serde(default)]
        kind: Refusal,
    },
}

impl Request {
    /// The greeting of this version of the library.
    pub fn hello() -> Self {
        let features = negotiate::all_features();
        Request::Hello { version: VERSION, oldest: Some(negotiate::OLDEST), features }
    }

    /// A request to open `circuit`.
    pub fn open(circuit: CircuitId, options: OpenOptions) -> Self {
        Request::Open { vpi_vci: circuit.to_string(), options }
    }
}
