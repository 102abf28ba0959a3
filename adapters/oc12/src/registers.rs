//! The board's registers by number.

/// [`super::IDENTIFIER`].
pub const IDENTIFIER: u32 = 0;
/// [`super::RECEIVED`] and the others; reading clears what is an event.
pub const STATUS: u32 = 1;
/// Which of these assert the interrupt.
pub const ENABLE: u32 = 2;
/// The circuit that [`SPLIT`] opens and [`TX_READY`] sends on.
pub const VCI: u32 = 3;
/// Octets of a header, at most [`super::DATA_AT`]; a write opens the circuit.
pub const SPLIT: u32 = 4;
/// A write closes the circuit of that number.
pub const CLOSE: u32 = 5;
/// Takes a block to send from.
pub const TX_FREE: u32 = 6;
/// The block of a transfer, and of [`INSERT`].
pub const BLOCK: u32 = 7;
/// Where in it a transfer begins.
pub const OFFSET: u32 = 8;
/// Where in the host's memory a transfer begins: a word's address.
pub const ADDRESS: u32 = 9;
/// A write of a number of octets starts a transfer to the board.
pub const TO_BOARD: u32 = 10;
/// The same to the host.
pub const TO_HOST: u32 = 11;
/// The sum of all that has crossed to the board since this was written, from the value that was written.
pub const SUM: u32 = 12;
/// A write of a place in [`BLOCK`] puts the checksum there.
pub const INSERT: u32 = 13;
/// Octets of the PDU that [`TX_READY`] sends.
pub const OCTETS: u32 = 14;
/// A write of a block's number sends what is at its front.
pub const TX_READY: u32 = 15;
/// Takes a received block, and shows the next four.
pub const RX_READY: u32 = 16;
/// Its circuit.
pub const RX_VCI: u32 = 17;
/// Octets of its PDU.
pub const RX_OCTETS: u32 = 18;
/// Octets of these before [`super::DATA_AT`].
pub const RX_SPLIT: u32 = 19;
/// The sum of the others.
pub const RX_SUM: u32 = 20;
/// A write gives a block back.
pub const RX_FREE: u32 = 21;
/// How many there are.
pub const COUNT: usize = 22;
