//! Active Messages on endpoints, after the layer that U-Net had (von Eicken and others, 1995; compared as an interface by
//! Kazantzidis, 1997): each message names the handler that runs when it has arrived.
//!
//! In: requests of the application, messages from a transport, the time. Out: messages for the transport, calls of
//! handlers. A circuit loses PDUs, so each peer's messages are numbered and sent again from the first one that is missing
//! (go-back-N); a receiver grants requests, so no buffer overflows. A request and its reply of up to four words fit a cell
//! each.
//!
//! | module | what |
//! |---|---|
//! | [`message`] | the octets of a message |
//! | [`peer`] | one circuit: sequence numbers, acknowledgements, retransmission, credits |
//! | [`node`] | all circuits of an application: handlers, areas of memory, bulk transfers |
//! | [`transport`] | a node's messages on an endpoint's circuits, or on direct circuits |
//! | [`port`] | a node on a transport: the loop around both |
//!
//! The rules of Active Messages hold: a request's handler may reply once and send nothing else, a reply's handler sends
//! nothing. So a node that only answers never waits, and two nodes that wait for each other's answers both get them. A
//! circuit carries the messages of one pair of ports: the numbers begin with the ports, and both begin together.
//!
//! ```
//! use active_messages::{Call, Config, Node, PeerId};
//! use wire::Time;
//!
//! fn double(_: &mut u32, call: &mut Call<'_>) {
//!     let _ = call.reply(1, &[2 * call.word(0)], &[]);
//! }
//! fn answer(state: &mut u32, call: &mut Call<'_>) {
//!     *state = call.word(0);
//! }
//! let mut nodes = [Node::new(1, Config::default()), Node::new(1, Config::default())];
//! nodes[1].handle_with(0, double);
//! nodes[0].handle_with(1, answer);
//! let (mut states, now) = ([0, 0], Time::ZERO);
//! nodes[0].request(PeerId(0), 0, &[21], &[])?;
//! for (from, to) in [(0, 1), (1, 0)] {
//!     let message = nodes[from].poll_transmit(PeerId(0), now).unwrap().to_vec();
//!     nodes[from].sent(PeerId(0), now);
//!     nodes[to].handle(PeerId(0), &message, &mut states[to], now);
//! }
//! assert_eq!(states[0], 42);
//! # Ok::<(), active_messages::Error>(())
//! ```
#![forbid(unsafe_code)]

mod bulk;
pub mod message;
pub mod node;
pub mod peer;
pub mod port;
pub mod transport;

pub use bulk::{AreaId, Rights, TransferId};
pub use message::MAX_WORDS;
pub use node::{Call, Handler, Node};
pub use peer::{Config, PeerId, Statistics};
pub use port::Port;
pub use transport::{Circuits, DirectCircuits, Transport, TransportError};

/// Why nothing was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is no such peer.
    #[error("there is no peer {0}")]
    NoPeer(usize),
    /// The peer has granted no more requests: handle what comes, and ask again.
    #[error("the peer has granted no more requests: handle what comes, and ask again")]
    Busy,
    /// The peer has not acknowledged anything for too long.
    #[error("the peer has acknowledged nothing for too long")]
    Lost,
    /// A message has at most four words.
    #[error("{0} words: a message has {MAX_WORDS} at most")]
    Words(usize),
    /// More payload than a message may have.
    #[error("{octets} octets of payload: a message has {most} at most")]
    Payload {
        /// Asked for.
        octets: usize,
        /// The configuration's.
        most: usize,
    },
    /// A reply that is not the one reply of a request.
    #[error("a handler may reply once, and only to a request")]
    NoReply,
    /// No such area, or not so much of it, or not this way.
    #[error("the area does not have these octets, or not with this right")]
    Area,
}
