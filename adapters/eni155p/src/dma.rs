//! DMA: two queues of entries in the RAM, from the host's memory to a channel's ring and from a circuit's ring to the
//! host's memory.
//!
//! An entry may be as large as 4 MB; work is done in portions, so that no call takes long, whatever the entries say. An
//! access that fails, or an entry that is none, is counted, shown in the interrupt status and passed over.

use super::Eni155p;
use super::registers as r;
use super::registers::dma_type;
use bus::memory::HostMemory;
use wire::DropReason;

/// Octets moved in one go.
const PORTION: u32 = 4096;
/// What a portion costs beside its octets: as much as so many of them.
const PORTION_COST: usize = 128;

/// A direction's queue, and its entry in hand.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Queue {
    pub(super) write: u32,
    pub(super) read: u32,
    /// The entry in hand, read once: the host may write over its place meanwhile.
    hand: Option<Transfer>,
}

/// An entry, taken apart.
#[derive(Debug, Clone, Copy)]
struct Transfer {
    /// Octets still to be moved; for a jump, where to.
    count: u32,
    jump: bool,
    /// Words, whose octets are swapped where the bridge says so.
    words: bool,
    end: bool,
    /// Circuit or channel.
    whose: u32,
    address: u32,
}

impl Transfer {
    /// `None`: no such type.
    fn parse(word0: u32, address: u32, receive: bool) -> Option<Self> {
        let count = word0 >> 16;
        let end = word0 & r::DMA_END != 0;
        let whose = if receive { word0 >> 6 & 0x3ff } else { word0 >> 6 & 7 };
        let of = |unit: u32, words| Some(Transfer { count: count * unit, jump: false, words, end, whose, address });
        match word0 & 0xf {
            dma_type::WORD => of(4, true),
            dma_type::BYTE if !receive => of(1, false),
            dma_type::HALF if !receive => of(2, false),
            dma_type::JUMP => Some(Transfer { count, jump: true, words: false, end, whose, address }),
            burst => {
                let (_, words) = dma_type::BURSTS.iter().find(|(kind, _)| *kind == burst & 7)?;
                of(4 * words, true)
            }
        }
    }
}

impl Eni155p {
    /// Whether an entry of either queue waits, and DMA may run.
    pub fn dma_waits(&self) -> bool {
        let waits = |queue: &Queue| queue.read != queue.write;
        let may_run = self.control & r::DMA_ENABLE != 0 && self.bridge.is_master();
        may_run && (waits(&self.rx_queue) || waits(&self.tx_queue))
    }

    /// Moves up to about `octets` octets, both directions in turn; gives whether entries still wait.
    pub fn run_dma(&mut self, memory: &mut impl HostMemory, octets: usize) -> bool {
        self.move_portions(memory, octets);
        self.dma_waits()
    }

    /// The same; gives how many octets of the bus's time it took. Each portion counts as some octets more than it moves, so
    /// that this ends.
    pub fn move_portions(&mut self, memory: &mut impl HostMemory, octets: usize) -> usize {
        let mut taken = 0;
        while taken < octets && self.dma_waits() {
            let moved = self.receive_portion(memory) + self.transmit_portion(memory);
            taken += moved as usize + PORTION_COST;
        }
        taken
    }

    /// A failed entry: the rest of it is passed over.
    fn dma_error(&mut self) {
        self.status |= r::DMA_ERR;
        self.dma_errors.drop_one(DropReason::BadDescriptor);
    }

    fn receive_portion(&mut self, memory: &mut impl HostMemory) -> u32 {
        let queue = self.rx_queue;
        if queue.read == queue.write {
            return 0;
        }
        let at = r::RX_QUEUE + 8 * queue.read;
        let parse = || Transfer::parse(self.ram.word(at), self.ram.word(at + 4), true);
        let Some(mut transfer) = queue.hand.or_else(parse) else {
            self.dma_error();
            self.advance_rx(false);
            return 0;
        };
        let entry = self.entry(transfer.whose);
        let Some(ring) = entry.ring else {
            self.dma_error();
            self.advance_rx(transfer.end);
            return 0;
        };
        if transfer.jump {
            self.set_read(&entry, ring.wrap(transfer.count));
            self.advance_rx(transfer.end);
            return 0;
        }
        let swap = self.bridge.swaps_dma();
        let part = ring.side_by_side(&mut self.ram, 4 * entry.read, PORTION.min(transfer.count));
        let moved = part.len() as u32;
        let address = transfer.address;
        let result = if swap { memory.write(address.into(), part) } else { write_swapped(memory, address, part) };
        self.dma_address = address.wrapping_add(moved);
        // After a failure the read pointer goes where it would have gone, so that the host's count holds.
        let passed = if result.is_ok() { moved } else { transfer.count };
        self.set_read(&entry, ring.wrap(entry.read + passed / 4));
        transfer.count -= passed;
        transfer.address = self.dma_address;
        if result.is_err() {
            self.dma_error();
        }
        if transfer.count == 0 {
            self.advance_rx(transfer.end);
        } else {
            self.rx_queue.hand = Some(transfer);
        }
        moved
    }

    fn advance_rx(&mut self, end: bool) {
        self.rx_queue.read = (self.rx_queue.read + 1) % r::DMA_ENTRIES;
        self.rx_queue.hand = None;
        if end {
            self.status |= r::RX_DMA_COMPLETE;
        }
    }

    fn transmit_portion(&mut self, memory: &mut impl HostMemory) -> u32 {
        let queue = self.tx_queue;
        if queue.read == queue.write {
            return 0;
        }
        let at = r::TX_QUEUE + 8 * queue.read;
        let parse = || Transfer::parse(self.ram.word(at), self.ram.word(at + 4), false);
        let Some(mut transfer) = queue.hand.or_else(parse) else {
            self.dma_error();
            self.advance_tx(None);
            return 0;
        };
        let number = transfer.whose as usize;
        let end = transfer.end.then_some(number);
        let Some(ring) = self.channel_ring(number) else {
            self.dma_error();
            self.advance_tx(end);
            return 0;
        };
        if transfer.jump {
            self.channels[number].write_octet = 4 * ring.wrap(transfer.count);
            self.advance_tx(end);
            return 0;
        }
        let channel = &self.channels[number];
        // What the PDU may take: up to the first word that has not been sent, less one.
        let free = 4 * ring.distance(channel.start + 1, channel.next_word());
        let taken = channel.write_octet.wrapping_sub(4 * channel.start) & (ring.octets() - 1);
        let room = free.saturating_sub(taken);
        if room == 0 && transfer.count > 0 {
            self.status |= r::TX_DMA_OVFL;
            self.dma_errors.drop_one(DropReason::Oversize);
            if self.control & r::TX_LOCK_MODE != 0 {
                self.control &= !r::TX_ENABLE;
            }
            self.advance_tx(end);
            return 0;
        }
        let (swap, address) = (self.bridge.swaps_dma() || !transfer.words, transfer.address);
        let part = ring.side_by_side(&mut self.ram, channel.write_octet, PORTION.min(transfer.count).min(room));
        let moved = part.len() as u32;
        let result = if swap { memory.read(address.into(), part) } else { read_swapped(memory, address, part) };
        self.dma_address = address.wrapping_add(moved);
        let passed = if result.is_ok() { moved } else { transfer.count };
        let write_octet = channel.write_octet + passed.min(room);
        self.channels[number].write_octet = write_octet & (ring.octets() - 1);
        transfer.count -= passed;
        transfer.address = self.dma_address;
        if result.is_err() {
            self.dma_error();
        }
        if transfer.count == 0 {
            self.advance_tx(end);
        } else {
            self.tx_queue.hand = Some(transfer);
        }
        moved
    }

    /// The entry is done; with `end`, so is the PDU of that channel.
    fn advance_tx(&mut self, end: Option<usize>) {
        self.tx_queue.read = (self.tx_queue.read + 1) % r::DMA_ENTRIES;
        self.tx_queue.hand = None;
        let Some(number) = end else { return };
        self.status |= r::TX_DMA_COMPLETE;
        if let Some(ring) = self.channel_ring(number) {
            let channel = &mut self.channels[number];
            channel.start = ring.wrap(channel.write_octet.div_ceil(4));
            channel.write_octet = 4 * channel.start;
            self.note_ready(number);
        }
    }
}

/// A portion with the octets of its words in the other order.
fn write_swapped(memory: &mut impl HostMemory, address: u32, part: &[u8]) -> Result<(), bus::Unmapped> {
    let mut swapped = [0; PORTION as usize];
    // No caller writes more than a portion, or less than words.
    let places = swapped.as_chunks_mut::<4>().0.iter_mut().zip(part.as_chunks::<4>().0);
    let mut octets = 0;
    for (place, word) in places {
        *place = *word;
        place.reverse();
        octets += 4;
    }
    memory.write(address.into(), &swapped[..octets])
}

/// The same when reading. A tail of fewer than four octets cannot be: words are words, unless the
/// pointer is not on one, and then the rest of the word comes as it is.
fn read_swapped(memory: &mut impl HostMemory, address: u32, part: &mut [u8]) -> Result<(), bus::Unmapped> {
    memory.read(address.into(), part)?;
    for word in part.chunks_exact_mut(4) {
        word.reverse();
    }
    Ok(())
}
