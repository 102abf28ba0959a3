//! AAL2 common part sublayer (I.363.2): short packets of up to 248 channels share the cells of one circuit.
//!
//! A [`Sender`] packs packets one behind the other, over the borders of cells, and lets a half-filled cell wait no
//! longer than Timer_CU. A [`Receiver`] cuts them out again; each cell says where its first packet starts, so that
//! whatever went wrong before is over there. Header and place of a packet are protected, its octets are not: that is
//! the matter of the layer above (I.366.1).
//!
//! ```
//! use sar::aal2::{Packet, Receiver, ReceiverConfig, Sender, SenderConfig};
//! use wire::{Cell, CircuitId, Time};
//!
//! let mut out = Sender::new(CircuitId::new(0, 100).unwrap(), SenderConfig::default());
//! let mut cells = [Cell::default(); 2];
//! let voice = Packet { cid: 8, uui: 0, payload: &[7; 30] };
//! assert_eq!(out.push(voice, &mut cells, Time::ZERO)?, 0);
//! assert_eq!(out.push(Packet { cid: 9, ..voice }, &mut cells, Time::ZERO)?, 1);
//! let due = out.poll_timeout().unwrap();
//! assert!(out.handle_timeout(due, &mut cells[1]));
//!
//! let mut back = Receiver::new(ReceiverConfig::default());
//! let mut from = Vec::new();
//! back.push(&cells, |packet| from.push((packet.cid, packet.payload.len())));
//! assert_eq!(from, [(8, 30), (9, 30)]);
//! # Ok::<(), sar::aal2::PacketError>(())
//! ```

mod receive;
mod send;

pub use receive::{Channels, Fault, Receiver, ReceiverConfig};
pub use send::{PacketError, Sender, SenderConfig};

/// A packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Channel: 1 is layer management's, 2 to 7 are reserved, 8 to 255 are users'.
    pub cid: u8,
    /// User-to-user indication, 0 to 31; 28 and 29 are reserved, 30 and 31 layer management's.
    pub uui: u8,
    /// 1 to 45 octets, or to 64 where the circuit has agreed on it.
    pub payload: &'a [u8],
}

#[cfg(test)]
mod tests;
