//! The Midway's registers, interrupt bits and fixed tables, and the word formats of descriptors and queues.

/// Where the FPGA board's ROM begins in the memory window.
pub const EPROM_AT: u32 = 0;
/// Octets of the ROM.
pub const EPROM_OCTETS: u32 = 0x1_0000;
/// Where the framer's registers begin: one per four octets.
pub const PHY_AT: u32 = 0x2_0000;
/// Where the Midway's registers begin: 32 bits each.
pub const REGISTERS_AT: u32 = 0x4_0000;
/// Where the adapter's RAM begins.
pub const RAM_AT: u32 = 0x20_0000;
/// Octets of the window from there on.
pub const RAM_WINDOW: u32 = 0x20_0000;

/// Identity; a write resets.
pub const RES_ID_MCON: u32 = 0x00;
/// Interrupt status, acknowledged by the read.
pub const ISA: u32 = 0x01;
/// Interrupt status, as it is.
pub const IS: u32 = 0x02;
/// Interrupt enable.
pub const IE: u32 = 0x03;
/// Master control and status.
pub const MC_S: u32 = 0x04;
/// Cells trashed; cleared by the read.
pub const STAT: u32 = 0x05;
/// Next free place of the service list.
pub const SERV_WRITE: u32 = 0x06;
/// Where DMA is.
pub const DMA_ADDR: u32 = 0x07;
/// Receive DMA queue: where the host writes.
pub const DMA_WR_RX: u32 = 0x08;
/// Receive DMA queue: where the adapter reads.
pub const DMA_RD_RX: u32 = 0x09;
/// Transmit DMA queue: where the host writes.
pub const DMA_WR_TX: u32 = 0x0a;
/// Transmit DMA queue: where the adapter reads.
pub const DMA_RD_TX: u32 = 0x0b;
/// Channel 0's place and size; each channel has four registers, of which three exist.
pub const TX_PLACE: u32 = 0x10;
/// Offset from a channel's place to its read pointer.
pub const TX_RDPTR: u32 = 1;
/// Offset from a channel's place to the start of the PDU that DMA brings.
pub const TX_DESCRSTART: u32 = 2;
/// Registers, with the unused places.
pub const REGISTERS: u32 = 0x30;

/// Identity: set by the ASIC, clear in the FPGA.
pub const ID_ASIC: u32 = 0x200;
/// Identity: a SUNI is on the board.
pub const ID_SUNI: u32 = 0x40;
/// Identity: unshielded twisted pair.
pub const ID_UTP: u32 = 4;

/// Interrupt: channel 0 has sent a PDU; channel n is n bits up.
pub const TX_COMPLETE_0: u32 = 0x200;
/// Interrupt: DMA ran into data that has not been sent.
pub const TX_DMA_OVFL: u32 = 0x100;
/// Interrupt: what should be a segmentation descriptor is none.
pub const TX_IDENT_MISM: u32 = 0x80;
/// Interrupt: a DMA access failed, or a queue entry is none.
pub const DMA_ERR: u32 = 0x20;
/// Interrupt: a receive DMA entry with END is done.
pub const RX_DMA_COMPLETE: u32 = 0x10;
/// Interrupt: a transmit DMA entry with END is done.
pub const TX_DMA_COMPLETE: u32 = 0x08;
/// Interrupt: something stands in the service list.
pub const SERVICE: u32 = 0x04;
/// Interrupt: the framer's.
pub const SUNI_INT: u32 = 0x02;
/// Interrupt: a statistics counter is half full.
pub const STAT_OVFL: u32 = 0x01;

/// Control: the interrupt level; zero is off.
pub const INT_LEVEL: u32 = 0x1c0;
/// Control: transmission stops when DMA overflows.
pub const TX_LOCK_MODE: u32 = 0x20;
/// Control: DMA runs. This and the next two: one sets, zero changes nothing.
pub const DMA_ENABLE: u32 = 0x10;
/// Control: transmission runs.
pub const TX_ENABLE: u32 = 0x08;
/// Control: reception runs.
pub const RX_ENABLE: u32 = 0x04;
/// Control: no interrupt for 1 ms.
pub const WAIT_1MS: u32 = 0x02;
/// Control: no interrupt for 0.5 ms.
pub const WAIT_500US: u32 = 0x01;

/// Circuits: VCI 0 to 1023 of VPI 0.
pub const CIRCUITS: u32 = 1024;
/// Entries of each DMA queue.
pub const DMA_ENTRIES: u32 = 512;
/// Transmit channels.
pub const CHANNELS: usize = 8;
/// RAM offset of the VCI table, 16 octets each.
pub const VCI_TABLE: u32 = 0x0000;
/// RAM offset of the receive DMA queue, 8 octets each.
pub const RX_QUEUE: u32 = 0x4000;
/// RAM offset of the transmit DMA queue.
pub const TX_QUEUE: u32 = 0x5000;
/// RAM offset of the service list, 4 octets each.
pub const SERVICE_LIST: u32 = 0x6000;
/// RAM offset of what is left for buffers.
pub const BUFFERS: u32 = 0x7000;

/// The shaper's clock.
pub const CLOCK_HZ: u32 = 25_000_000;
/// The clock's divisor by prescaler.
pub const PRESCALE: [u32; 4] = [4, 16, 128, 2048];

/// Receive descriptor: identity, bits 31 to 25.
pub const RX_IDENT: u32 = 0x1b << 25;
/// Receive descriptor: cell loss priority.
pub const RX_CLP: u32 = 1 << 24;
/// Receive descriptor: congestion experienced.
pub const RX_CE: u32 = 1 << 16;
/// Receive descriptor: trashed; no data follows.
pub const RX_T: u32 = 1 << 12;
/// Receive descriptor: the CRC is wrong.
pub const RX_CRC_ERR: u32 = 1 << 11;
/// Both descriptors: cells, bits 10 to 0.
pub const CELLS: u32 = 0x7ff;
/// Segmentation descriptor: identity, bits 31 to 28.
pub const TX_IDENT: u32 = 0xb << 28;
/// Segmentation descriptor: AAL5.
pub const TX_AAL5: u32 = 1 << 27;

/// DMA queue: END, the host wants to know.
pub const DMA_END: u32 = 0x20;
/// DMA types.
pub mod dma_type {
    /// A word.
    pub const WORD: u32 = 0;
    /// An octet; transmit only.
    pub const BYTE: u32 = 1;
    /// Two octets; transmit only.
    pub const HALF: u32 = 2;
    /// No data: sets the pointer.
    pub const JUMP: u32 = 3;
    /// Bursts of 4, 8, 16 and 2 words. With bit 3 set, a burst that "may" end early: the same here.
    pub const BURSTS: [(u32, u32); 4] = [(4, 4), (5, 8), (6, 16), (7, 2)];
}

/// Words of a buffer of size order `order`: 1 kB times a power of two.
pub const fn words(order: u32) -> u32 {
    256 << (order & 7)
}

/// The nanoseconds from one cell to the next that a prescaler and a rate select: a whole number.
pub const fn interval_nanos(prescaler: u32, rate: u32) -> u64 {
    (1_000_000_000 / CLOCK_HZ) as u64 * PRESCALE[(prescaler & 3) as usize] as u64 * ((rate & 63) + 1) as u64
}
