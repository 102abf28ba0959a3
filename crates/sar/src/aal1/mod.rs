//! AAL1 (I.363.1): a stream of constant bit rate in cells, and out of them again with its octets in their places.
//!
//! A [`Sender`] cuts the stream into cells as its octets come: 47 each, 46 where a pointer says where the next block of
//! a structure starts. A [`Receiver`] puts single wrong bits of the sequence number right, finds lost and misinserted
//! cells, and hands on octets and gaps of the right size. Either can carry the residual time stamp ([`srts`]) by which
//! the receiver recovers the source's clock. When cells go out, and how long octets wait before they are played out,
//! are the callers' matters.
//!
//! ```
//! use sar::aal1::{Piece, Receiver, ReceiverConfig, Sender, SenderConfig};
//! use wire::{Cell, CircuitId, Time};
//!
//! // 24 channels of 64 kbit/s: blocks of 24 octets.
//! let circuit = CircuitId::new(0, 100).unwrap();
//! let mut out = Sender::new(circuit, SenderConfig { block_octets: Some(24), ..Default::default() })?;
//! let stream: Vec<u8> = (0..24).cycle().take(480).collect();
//! let mut cells = [Cell::default(); 10];
//! let filled = out.fill(&stream, &mut cells);
//! assert_eq!((filled.cells, filled.octets_used), (10, 2 * 46 + 8 * 47));
//!
//! let mut back = Receiver::new(ReceiverConfig { block_octets: Some(24), ..Default::default() })?;
//! let mut received = Vec::new();
//! back.push(&cells, |piece| {
//!     let Piece::Octets { octets, block_at } = piece else { panic!() };
//!     assert_eq!(usize::from(octets[0]), block_at);
//!     received.extend_from_slice(octets);
//! }, Time::ZERO);
//! assert_eq!(received, stream[..filled.octets_used]);
//! # Ok::<(), sar::aal1::BlockError>(())
//! ```

mod blocks;
mod receive;
mod send;
mod sequence;
pub mod srts;

pub use blocks::BlockError;
pub use receive::{Piece, Receiver, ReceiverConfig, Statistics};
pub use send::{Filled, Sender, SenderConfig};

#[cfg(test)]
mod tests;
