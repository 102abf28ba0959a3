//! The head of a message between users of interfaces, after the type of packets of type message or IP. Cellway's own,
//! as the vendor's is not public.
//!
//! | octets | what |
//! |---|---|
//! | 0..8 | the sender's address |
//! | 8, 9 | the sender's user interface, the receiver's |
//! | 10..12 | the group, 0 for one receiver |
//! | 12..16 | the message's number at its sender |
//! | 16..20 | octets of the whole message |
//! | 20..24 | where this packet's part of it begins |
//! | 24.. | the part |

use super::mapping::Address;
use wire::Error;

const WHAT: &str = "Myrinet message";
/// Octets of the head.
pub const HEAD_OCTETS: usize = 24;

/// A head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Head {
    /// The sender's address.
    pub from: Address,
    /// The sender's user interface.
    pub from_interface: u8,
    /// The receiver's.
    pub to_interface: u8,
    /// The group, 0 for one receiver.
    pub group: u16,
    /// The message's number at its sender.
    pub number: u32,
    /// Octets of the whole message.
    pub total: u32,
    /// Where this part begins.
    pub offset: u32,
}

impl Head {
    /// Reads a head, and gives the part after it.
    ///
    /// # Errors
    /// Fewer octets than a head has; a part that does not lie in the message.
    pub fn parse(octets: &[u8]) -> Result<(Self, &[u8]), Error> {
        let Some((head, part)) = octets.split_first_chunk::<HEAD_OCTETS>() else {
            return Err(Error::Truncated { what: WHAT, need: HEAD_OCTETS, got: octets.len() });
        };
        let number = |from: usize, to: usize| head[from..to].iter().fold(0, |n: u64, o| n << 8 | u64::from(*o));
        let parsed = Head {
            from: number(0, 8),
            from_interface: head[8],
            to_interface: head[9],
            group: number(10, 12) as u16,
            number: number(12, 16) as u32,
            total: number(16, 20) as u32,
            offset: number(20, 24) as u32,
        };
        let end = u64::from(parsed.offset) + part.len() as u64;
        if end > u64::from(parsed.total) || part.is_empty() && parsed.total > 0 {
            return Err(Error::Field { what: WHAT, field: "offset", value: parsed.offset.into() });
        }
        Ok((parsed, part))
    }

    /// As it stands in a packet.
    pub fn emit(&self) -> [u8; HEAD_OCTETS] {
        let mut head = [0; HEAD_OCTETS];
        head[..8].copy_from_slice(&self.from.to_be_bytes());
        (head[8], head[9]) = (self.from_interface, self.to_interface);
        head[10..12].copy_from_slice(&self.group.to_be_bytes());
        head[12..16].copy_from_slice(&self.number.to_be_bytes());
        head[16..20].copy_from_slice(&self.total.to_be_bytes());
        head[20..24].copy_from_slice(&self.offset.to_be_bytes());
        head
    }
}
