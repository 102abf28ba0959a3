//! Transmission: eight channels, each a ring of PDUs in the RAM, become cells at the rate that each PDU's segmentation
//! descriptor names.
//!
//! A PDU is sent once its DMA has ended. Channels whose cells are due take turns; none may leave faster than the line.

use super::Eni155p;
use super::ram::Ring;
use super::registers as r;
use crate::suni::Loop;
use core::time::Duration;
use wire::cell::PAYLOAD_OCTETS;
use wire::crc::Crc32;
use wire::{Cell, CellHeader, DropReason, Time};

pub(super) const CELL_WORDS: u32 = PAYLOAD_OCTETS as u32 / 4;
/// Words of a segmentation descriptor.
pub(super) const DESCRIPTOR_WORDS: u32 = 2;
/// A cell's "last of its PDU" bit in the header word.
pub(super) const END_BIT: u32 = 2;

// The set of those that are ready is an octet.
const _: () = assert!(r::CHANNELS == u8::BITS as usize);

/// What a channel may wait for the line while seven others have a cell: lateness that costs a shaped channel no rate.
const CONTENTION: Duration = Duration::from_nanos(7 * 2832);

/// The rate of a channel: its interval is a whole number of nanoseconds, so that nothing drifts.
#[derive(Debug, Clone, Copy)]
struct Shaper {
    interval: Duration,
    /// When the next cell may leave.
    next: Time,
}

impl Shaper {
    /// A cell leaves at `now`, which may be `late` after its time without being held against the next one.
    fn sent(&mut self, now: Time, late: Duration) {
        let earliest = Time::from_nanos(now.as_nanos().saturating_sub(late.as_nanos() as u64));
        self.next = self.next.max(earliest) + self.interval;
    }
}

/// A PDU on its way out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pdu {
    pub(super) aal5: bool,
    pub(super) cells: u32,
    pub(super) sent: u32,
    /// Cells of it have left for the line, not only for this adapter's own receiver.
    pub(super) outside: bool,
    pub(super) header_word: u32,
    pub(super) crc: Crc32,
}

/// A transmit channel.
#[derive(Debug, Clone)]
pub(super) struct Channel {
    pub(super) place: u32,
    /// The word where the PDU that is sent next, or is being sent, begins.
    pub(super) read: u32,
    /// The word where the PDU that DMA brings begins.
    pub(super) start: u32,
    /// The octet where DMA goes on.
    pub(super) write_octet: u32,
    pub(super) pdu: Option<Pdu>,
    /// Words of the PDU being sent that have left.
    passed: u32,
    rate: (u32, u32),
    /// None for the fastest rate, which is faster than the line.
    shaper: Option<Shaper>,
    /// Nothing was left to send: the next PDU's rate begins with it.
    idle: bool,
}

impl Channel {
    pub(super) const fn new() -> Self {
        Channel {
            place: 0,
            read: 0,
            start: 0,
            write_octet: 0,
            pdu: None,
            passed: 0,
            rate: (0, 0),
            shaper: None,
            idle: true,
        }
    }

    fn is_ready(&self) -> bool {
        self.pdu.is_some() || self.read != self.start
    }

    /// A cell takes its time of the channel's rate.
    pub(super) fn count_cell(&mut self) {
        if let Some(shaper) = &mut self.shaper {
            shaper.next += shaper.interval;
        }
    }

    /// What the read pointer's register shows: the next word to leave.
    pub(super) const fn next_word(&self) -> u32 {
        self.read.wrapping_add(self.passed)
    }
}

impl Eni155p {
    pub(super) fn channel_ring(&self, channel: usize) -> Option<Ring> {
        let place = self.channels[channel].place;
        self.ram.ring(place, place >> 11)
    }

    pub(super) fn place(&mut self, channel: usize, value: u32) {
        self.end_pdus(channel);
        // The shaper stays: who places a channel anew gains no cell.
        let Channel { shaper, rate, .. } = self.channels[channel];
        self.channels[channel] = Channel { place: value & 0x3fff, shaper, rate, ..Channel::new() };
        self.note_ready(channel);
    }

    /// A channel has got a PDU, or has sent one.
    pub(super) fn note_ready(&mut self, channel: usize) {
        let bit = 1 << channel;
        self.ready = if self.channels[channel].is_ready() { self.ready | bit } else { self.ready & !bit };
    }

    /// Channels that are ready, by their turns from `first` on.
    fn ready_from(&self, first: usize) -> impl Iterator<Item = usize> + use<> {
        let mut left = self.ready.rotate_right(first as u32);
        core::iter::from_fn(move || {
            let n = left.trailing_zeros() as usize;
            (left != 0).then(|| {
                left &= left - 1;
                (first + n) % r::CHANNELS
            })
        })
    }

    /// Sends cells that are due at `now`, in the order of their channels' turns, to the front of `out`; gives how many.
    /// Cells that loop back inside count against `out`'s length too, so that the work is bounded.
    pub fn fill(&mut self, out: &mut [Cell], now: Time) -> usize {
        let mut filled = 0;
        if self.phy.loop_back() != Loop::Line {
            self.line_loop.clear();
        }
        let mut turns = 0;
        while turns < out.len() {
            turns += 1;
            if let Some(cell) = self.line_loop.pop_front() {
                out[filled] = cell;
                filled += 1;
                self.phy.count_transmitted(1);
                continue;
            }
            if self.line.is_some_and(|line| line.allowed(now, 1) == 0) {
                break;
            }
            if let Some(abort) = self.aborts.pop_front() {
                out[filled] = abort;
                filled += 1;
                if let Some(line) = &mut self.line {
                    line.sent(1, now);
                }
                self.sent.cells = self.sent.cells.wrapping_add(1);
                self.phy.count_transmitted(1);
                continue;
            }
            if self.control & r::TX_ENABLE == 0 {
                break;
            }
            let Some(channel) = self.due(now) else { break };
            self.turn = (channel + 1) % r::CHANNELS;
            if self.phy.loop_back() == Loop::Off && self.is_alone(channel) {
                let n = self.segment_run(channel, &mut out[filled..], now);
                (filled, turns) = (filled + n, turns + n - 1);
                continue;
            }
            if let Some(line) = &mut self.line {
                line.sent(1, now);
            }
            self.segment(channel, &mut out[filled], now);
            self.sent.cells = self.sent.cells.wrapping_add(1);
            if self.phy.loop_back() == Loop::Diagnostic {
                let cell = out[filled];
                self.receive(&cell);
            } else {
                self.phy.count_transmitted(1);
                filled += 1;
            }
        }
        filled
    }

    /// Whether a channel that is due has nobody to take turns with and no rate of its own.
    fn is_alone(&self, number: usize) -> bool {
        self.channels[number].shaper.is_none() && self.ready & !(1 << number) == 0
    }

    /// Makes cells of a channel that is due and alone until its PDU ends, the line's rate says stop or `out` is full; one at
    /// least. What it does is what [`Eni155p::fill`] would do with each.
    fn segment_run(&mut self, number: usize, out: &mut [Cell], now: Time) -> usize {
        let left = self.channels[number].pdu.map_or(1, |pdu| (pdu.cells - pdu.sent) as usize);
        let room = out.len().min(left);
        let n = self.line.as_ref().map_or(room, |line| line.allowed(now, room)).max(1);
        if let Some(line) = &mut self.line {
            line.sent(n, now);
        }
        // A PDU's last cell has the trailer's checksum, and an end.
        let alike = n.min(left - 1);
        self.segment_alike(number, &mut out[..alike]);
        for cell in &mut out[alike..n] {
            self.segment(number, cell, now);
        }
        self.sent.cells = self.sent.cells.wrapping_add(n as u64);
        self.phy.count_transmitted(n);
        n
    }

    /// Makes cells of a channel without a rate whose PDU has begun and does not end in them: one checksum over all.
    fn segment_alike(&mut self, number: usize, out: &mut [Cell]) {
        let ring = self.channel_ring(number);
        let channel = &mut self.channels[number];
        let (Some(ring), Some(pdu)) = (ring, &mut channel.pdu) else { return };
        let header = CellHeader::from_word(pdu.header_word);
        let from = 4 * (channel.read + channel.passed);
        for (at, cell) in (from..).step_by(PAYLOAD_OCTETS).zip(&mut *out) {
            cell.clear(header);
            ring.read_cell(&self.ram, at, &mut cell.payload);
        }
        if pdu.aal5 {
            for part in ring.parts(&self.ram, from, (out.len() * PAYLOAD_OCTETS) as u32) {
                pdu.crc = (self.checksum)(pdu.crc, part);
            }
        }
        pdu.sent += out.len() as u32;
        pdu.outside |= !out.is_empty();
        channel.passed += CELL_WORDS * out.len() as u32;
    }

    /// When [`Eni155p::fill`] will have a cell; a time that has passed, if it has one now.
    pub fn next_transmit(&self) -> Option<Time> {
        if self.phy.loop_back() == Loop::Line && !self.line_loop.is_empty() {
            return Some(Time::ZERO);
        }
        let line = self.line.as_ref().map_or(Time::ZERO, traffic::Pacer::next_time);
        if !self.aborts.is_empty() {
            return Some(line);
        }
        if self.control & r::TX_ENABLE == 0 {
            return None;
        }
        let due = self.ready_from(0).map(|channel| match (self.channels[channel].shaper, self.channels[channel].pdu) {
            (Some(shaper), Some(_)) => shaper.next,
            // The rate of a PDU that has not begun stands in its descriptor: look.
            _ => Time::ZERO,
        });
        due.min().map(|due| due.max(line))
    }

    /// The channel whose turn it is among those that may send a cell at `now`.
    fn due(&mut self, now: Time) -> Option<usize> {
        for channel in self.ready_from(self.turn) {
            if !self.begin(channel, now) {
                // What stands there is no descriptor: the Midway stops sending.
                self.status |= r::TX_IDENT_MISM;
                self.control &= !r::TX_ENABLE;
                self.sent.drop_one(DropReason::BadDescriptor);
                return None;
            }
            if self.channels[channel].shaper.is_none_or(|shaper| shaper.next <= now) {
                return Some(channel);
            }
        }
        None
    }

    /// Reads the descriptor of a channel's next PDU, if none is on its way; false if it is none, or says more cells than
    /// DMA has brought.
    fn begin(&mut self, number: usize, now: Time) -> bool {
        if self.channels[number].pdu.is_some() {
            return true;
        }
        let Some(ring) = self.channel_ring(number) else { return false };
        let channel = &self.channels[number];
        let [word0, word1] = [0, 1].map(|n| ring.word(&self.ram, channel.read + n));
        let cells = word0 & r::CELLS;
        let words = DESCRIPTOR_WORDS + CELL_WORDS * cells;
        if word0 & 0xf << 28 != r::TX_IDENT || cells == 0 || words > ring.distance(channel.read, channel.start) {
            return false;
        }
        let rate = (word0 >> 25 & 3, word0 >> 19 & 63);
        let channel = &mut self.channels[number];
        if channel.rate != rate || channel.shaper.is_none() {
            channel.rate = rate;
            channel.shaper = shaper(rate, now);
        }
        if let Some(shaper) = &mut channel.shaper
            && core::mem::take(&mut channel.idle)
        {
            shaper.next = shaper.next.max(now);
        }
        channel.passed = DESCRIPTOR_WORDS;
        channel.pdu = Some(Pdu {
            aal5: word0 & r::TX_AAL5 != 0,
            cells,
            sent: 0,
            outside: false,
            // VCI, PTI and CLP stand where the header has them; no VPI, no flow control.
            header_word: word1 & 0x3fff,
            crc: Crc32::new(),
        });
        true
    }

    /// Makes the next cell of a channel whose PDU has begun.
    fn segment(&mut self, number: usize, out: &mut Cell, now: Time) {
        let ring = self.channel_ring(number);
        let late = self.tolerance + CONTENTION;
        let outside = self.phy.loop_back() != Loop::Diagnostic;
        let channel = &mut self.channels[number];
        let (Some(ring), Some(mut pdu)) = (ring, channel.pdu) else { return };
        if let Some(shaper) = &mut channel.shaper {
            shaper.sent(now, late);
        }
        let last = pdu.sent + 1 == pdu.cells;
        let end = if last && pdu.aal5 { END_BIT } else { 0 };
        out.clear(CellHeader::from_word(pdu.header_word | end));
        ring.read_cell(&self.ram, 4 * (channel.read + channel.passed), &mut out.payload);
        if pdu.aal5 && last {
            let (data, checksum) = out.payload.split_at_mut(PAYLOAD_OCTETS - 4);
            pdu.crc = (self.checksum)(pdu.crc, data);
            checksum.copy_from_slice(&pdu.crc.finish().to_be_bytes());
            ring.write(&mut self.ram, 4 * (channel.read + channel.passed + CELL_WORDS - 1), checksum);
        } else if pdu.aal5 {
            pdu.crc = (self.checksum)(pdu.crc, &out.payload);
        }
        channel.passed += CELL_WORDS;
        pdu.sent += 1;
        pdu.outside |= outside;
        channel.pdu = Some(pdu);
        if last {
            channel.read = ring.wrap(channel.next_word());
            (channel.pdu, channel.passed) = (None, 0);
            channel.idle = channel.read == channel.start;
            self.note_ready(number);
            self.status |= r::TX_COMPLETE_0 << number;
            self.sent.pdus = self.sent.pdus.wrapping_add(1);
            let octets = u64::from(pdu.cells) * PAYLOAD_OCTETS as u64;
            self.sent.octets = self.sent.octets.wrapping_add(octets);
        }
    }
}

/// The shaper of a prescaler and a rate.
fn shaper((prescaler, rate): (u32, u32), now: Time) -> Option<Shaper> {
    let interval = Duration::from_nanos(r::interval_nanos(prescaler, rate));
    ((prescaler, rate) != (0, 0)).then_some(Shaper { interval, next: now })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shapers_slowest_rate_is_190_cells_per_second_and_its_fastest_beyond_the_line() {
        let rate = |prescaler, rate| 1e9 / r::interval_nanos(prescaler, rate) as f64;
        assert!((rate(3, 63) - 25e6 / 2048.0 / 64.0).abs() < 1e-6);
        assert!(rate(0, 0) > wire::CellRate::OC3C.cells_per_s());
        assert!(shaper((0, 0), Time::ZERO).is_none() && shaper((0, 1), Time::ZERO).is_some());
    }
}
