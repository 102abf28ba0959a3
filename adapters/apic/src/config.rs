//! What a chip has and which of its mechanisms are on.

use core::time::Duration;

/// Mechanisms that can be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Switches {
    /// Queues have a bypass for low-latency connections; else all cells wait in one queue.
    pub bypass: bool,
    /// Only active connections are on the chip, [`Config::cache`] of them; else all are.
    pub cache: bool,
    /// Channels keep their intervals; else all send as fast as memory and links allow.
    pub pacing: bool,
}

/// A chip's properties. The papers give the rate; the other sizes are chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Config {
    /// Bits a second of each link in each direction, 53 octets a cell. Two links in both directions: 2.4 Gbit/s in
    /// and as much out.
    pub link_bits_per_s: f64,
    /// Cells that an Input Framer holds until the chip's clock takes them.
    pub framer_cells: usize,
    /// Cells of the Cell SRAM.
    pub sram_cells: usize,
    /// Of those, what only low-latency connections may take.
    pub reserved_cells: usize,
    /// Cells of other connections that wait for an output at most.
    pub queue_cells: usize,
    /// Connections in the table.
    pub connections: usize,
    /// VPIs and VCIs of a port that the table has room for: labels are below these.
    pub vpis: u16,
    /// See there.
    pub vcis: u32,
    /// Connections whose state is on the chip at once.
    pub cache: usize,
    /// How long the state of a connection takes to come from memory.
    pub miss: Duration,
    /// Cells that wait for the state of their connections at most.
    pub miss_cells: usize,
    /// Channels between memory and cells.
    pub channels: usize,
    /// Areas of memory that can be granted.
    pub areas: usize,
    /// Bits a second that the host's memory gives the chip: 500 Mbit/s is what Kazantzidis calls usual.
    pub memory_bits_per_s: f64,
    /// What each transfer takes beside its octets: the bus, the memory's row.
    pub memory_setup: Duration,
    /// Cells of one transfer: 1 to 16.
    pub batch: usize,
    /// Pacing tags of the TagFIFO.
    pub tags: usize,
    /// Cells of the Transmit FIFO.
    pub transmit_cells: usize,
    /// Transfers to memory that may wait, or be collected.
    pub receive_batches: usize,
    /// Own cells are inserted while fewer than so many wait for their output: transit goes first.
    pub insert_below: usize,
    /// See there.
    pub switches: Switches,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            link_bits_per_s: 1.2e9,
            framer_cells: 4,
            sram_cells: 256,
            reserved_cells: 32,
            queue_cells: 128,
            connections: 1024,
            vpis: 16,
            vcis: 4096,
            cache: 64,
            miss: Duration::from_micros(2),
            miss_cells: 32,
            channels: 64,
            areas: 256,
            memory_bits_per_s: 500e6,
            memory_setup: Duration::from_nanos(200),
            batch: 4,
            tags: 4,
            transmit_cells: 32,
            receive_batches: 64,
            insert_below: 2,
            switches: Switches { bypass: true, cache: true, pacing: true },
        }
    }
}
