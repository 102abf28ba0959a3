//! Links, switches and the topology that joins them.
//!
//! A [`Network`] holds nodes (host interfaces, switches) and links. [`Network::run`] does one bounded round at a moment
//! `now` that the caller gives: live from a clock, in tests from a virtual one. In: cells and frames that nodes and
//! socket shells write; out: the same at the far ends, later, fewer or other if a link's rate, delay or faults say so.
//! A network is one [`Shard`] or several, and each is one thread's at a time. Links between two shards hand over what
//! they carry at the end of a visit; the shards of a network that one thread runs come one after the other in their
//! order.
//!
//! A link carries either cells or frames ([`Carries`]); a switch converts between them with `sar`.
#![forbid(unsafe_code)]

mod bell;
mod crossing;
pub mod external;
pub mod fault;
pub mod frame;
mod label_change;
mod line;
mod link;
mod mailbox;
pub mod network;
pub mod node;
pub mod parcel;
pub mod random;
mod ready;
pub mod ring;
mod shard;
pub mod sparse;
pub mod switch;
mod sync;
pub mod tap;
pub mod topology;

pub use ::switch::CircuitCounters;
pub use bell::{Bell, MAX_SHARDS};
pub use external::{CircuitNotice, External, PeerCircuit};
pub use fault::{FaultConfig, Outage};
pub use frame::{Frame, FrameAal, FramePool};
pub use label_change::{LabelChange, LabelChanges};
pub use line::{Carries, LineCounters, Side};
pub use network::{CallShare, ConnectError, End, LinkConfig, LinkId, LinkInfo, Network, NodeId, RemovedLink};
pub use node::{LinkProperties, Node, NodeIo};
pub use parcel::{Parcel, SduAt, SduMemory};
pub use ring::Ring;
pub use shard::Shard;
pub use sparse::SparseCounters;
pub use switch::{Label, Room, RouteError, RouteOptions, RouteTable, SwitchElement, SwitchElementConfig};
pub use tap::{TapBuffer, TapConfig, TapId, TapRecord};
