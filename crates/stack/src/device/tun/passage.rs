//! The passage between a device and circuits, in both directions. In: packets of the device, SDUs. Out: SDUs in a
//! carrier's buffers, packets to the device. What work a packet has left over is done here, unless its peer does it.

use super::{Device, LONG_TURN_OCTETS, TURN, TURN_OCTETS};
use crate::ip::{Cut, Fragments, IpInterface, Join, MAX_MESSAGE_OCTETS, Verdict, VnetHeader, too_big};
use std::io::{self, ErrorKind};
use std::net::Ipv4Addr;
use std::time::Duration;
use wire::{DropReason, Time};

/// The device's queue is full.
const ENOBUFS: i32 = 105;
/// Turns that follow each other so soon are of a stream of packets.
const SOON: Duration = Duration::from_micros(200);
/// Packets of so many octets on the average are few for what they carry.
const LONG: usize = 16 * 1024;
/// The device has been taken down.
const EIO: i32 = 5;

/// Whether packets of so many octets together are long.
fn are_long(packets: usize, octets: usize) -> bool {
    packets > 0 && octets >= LONG * packets
}

/// The octets at which a turn ends, after these packets of it.
fn most_octets(packets: usize, octets: usize) -> usize {
    if are_long(packets, octets) { LONG_TURN_OCTETS } else { TURN_OCTETS }
}

/// Where SDUs go: an endpoint, or a link.
pub(super) trait Carrier {
    /// A buffer for one SDU.
    type Buffer: std::fmt::Debug;

    /// A buffer to write.
    fn take(&mut self) -> Option<Self::Buffer>;

    /// All octets of a buffer.
    fn octets<'a>(&'a mut self, buffer: &'a mut Self::Buffer) -> &'a mut [u8];

    /// A buffer to read and another to write.
    fn both<'a>(&'a mut self, from: &'a Self::Buffer, to: &'a mut Self::Buffer) -> (&'a [u8], &'a mut [u8]);

    /// Gives a buffer back.
    fn give_back(&mut self, buffer: Self::Buffer);

    /// Whether an SDU can be sent now.
    fn has_room(&mut self) -> bool;

    /// Sends the first `octets` of a buffer, where there is room; false if it cannot be an SDU.
    fn send(&mut self, circuit: u32, buffer: Self::Buffer, octets: usize) -> bool;
}

/// What is still to be sent of one packet.
#[derive(Debug)]
struct Outgoing<B> {
    source: B,
    octets: usize,
    header: VnetHeader,
    /// The circuit, or the last one that a packet for all has been sent on.
    circuit: Option<u32>,
    to_all: bool,
    parts: Parts,
    next: usize,
}

/// How a packet goes.
#[derive(Debug, Clone, Copy)]
enum Parts {
    /// In one SDU, with its work left over.
    Offloaded,
    /// In one SDU, whole.
    Whole,
    Segments(Cut),
    Fragments(Fragments),
}

/// A device, the interface behind it, and the packet that is on its way out.
#[derive(Debug)]
pub(super) struct Passage<B> {
    pub(super) device: Device,
    pub(super) ip: IpInterface,
    /// Where the IP header begins in what the device gives: behind the Ethernet header of a TAP device.
    ethernet_octets: usize,
    /// What becomes one packet for the device, if that takes long ones.
    join: Option<Join>,
    outgoing: Option<Outgoing<B>>,
    /// A buffer for the next packet.
    buffer: Option<B>,
    /// There was no buffer for the next packet.
    starved: bool,
    /// Packets of the next turn at most: as many as lately came at once, twice as many if more may have come. What
    /// comes alone goes on at once, without a look whether more has come.
    burst: usize,
    /// When a turn last ended with a packet, not for want of one.
    filled: Time,
    /// The packets that come lately, or one that was just written, are long: cut by nobody yet.
    has_long: bool,
}

impl<B: std::fmt::Debug> Passage<B> {
    /// A device that does not block, and its interface.
    pub(super) fn new(device: Device, mut ip: IpInterface) -> io::Result<Self> {
        device.set_nonblocking()?;
        if let Some(mac) = device.mac() {
            ip.set_station(mac, None);
        }
        let ethernet_octets = if ip.config().encapsulation.is_bridged() { 14 } else { 0 };
        let join = device.has_header().then(|| Join::new(ethernet_octets));
        Ok(Passage {
            device,
            ip,
            ethernet_octets,
            join,
            outgoing: None,
            buffer: None,
            starved: false,
            burst: 1,
            filled: Time::ZERO,
            has_long: false,
        })
    }

    /// Whether a packet waits for room on its circuit, or for a buffer: until then the device is of no interest.
    pub(super) fn is_blocked(&self) -> bool {
        self.outgoing.is_some() || self.starved
    }

    /// Whether the device, just written to, is to be read at once: its stack answers while it is written to. Where
    /// packets come one by one, or are as long as they can be, that spares a wake-up; in a stream of short ones it
    /// would cut batches short.
    pub(super) fn may_answer(&self) -> bool {
        self.burst == 1 || self.has_long
    }

    /// An SDU of a circuit: what packet is in it goes to the device, now or with those that follow it;
    /// [`Passage::flush`] comes after the last.
    pub(super) fn deliver(&mut self, circuit: u32, sdu: &[u8], now: Time) -> io::Result<()> {
        let Some(delivery) = self.ip.handle_pdu(circuit, sdu, now) else { return Ok(()) };
        if self.join.as_mut().is_some_and(|join| delivery.header.is_plain() && join.append(delivery.packet)) {
            let is_complete = self.join.as_ref().is_some_and(Join::is_complete);
            return if is_complete { self.flush() } else { Ok(()) };
        }
        self.flush()?;
        if self.join.as_mut().is_some_and(|join| delivery.header.is_plain() && join.begin(delivery.packet)) {
            return Ok(());
        }
        self.has_long |= delivery.header.is_long();
        let written = self.device.write(&delivery.header.to_octets(), delivery.packet);
        self.lost_or(written, 1)
    }

    /// Writes what waits for more to follow it.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let Some((header, packet, packets)) = self.join.as_mut().and_then(Join::poll_packet) else { return Ok(()) };
        let written = self.device.write(&header.to_octets(), packet);
        self.lost_or(written, packets as u64)
    }

    /// What the interface itself has to say, then packets of the device, a turn of them. True if anything moved.
    pub(super) fn turn(&mut self, carrier: &mut impl Carrier<Buffer = B>, now: Time) -> io::Result<bool> {
        let mut any = self.speak(carrier);
        let (mut packets, mut octets) = (0, 0);
        while packets < self.burst && octets < most_octets(packets, octets) {
            any |= self.advance(carrier);
            if self.outgoing.is_some() {
                return Ok(any);
            }
            let Some(read) = self.read(carrier, now)? else {
                self.burst = packets.max(1);
                self.has_long = are_long(self.burst, octets);
                return Ok(any);
            };
            (packets, octets, any) = (packets + 1, octets + read, true);
        }
        self.has_long = are_long(packets, octets);
        if now.since(self.filled) < SOON {
            self.burst = (self.burst * 2).min(TURN);
        }
        self.filled = now;
        Ok(any)
    }

    /// Sends what the interface itself has to say, as far as there is room. True if anything was.
    pub(super) fn speak(&mut self, carrier: &mut impl Carrier<Buffer = B>) -> bool {
        let mut any = false;
        while self.ip.has_pdu() && carrier.has_room() {
            let Some(mut buffer) = carrier.take() else { break };
            let Some((circuit, octets)) = self.ip.poll_pdu(carrier.octets(&mut buffer)) else {
                carrier.give_back(buffer);
                break;
            };
            any |= carrier.send(circuit, buffer, octets);
        }
        any
    }

    /// One packet from the device, or that had waited, and its octets. `None` if there is none, or no buffer for it.
    fn read(&mut self, carrier: &mut impl Carrier<Buffer = B>, now: Time) -> io::Result<Option<usize>> {
        let buffer = self.buffer.take().or_else(|| carrier.take());
        self.starved = buffer.is_none();
        let Some(mut buffer) = buffer else { return Ok(None) };
        let head = self.ip.headroom();
        let room = &mut carrier.octets(&mut buffer)[head..];
        // What waited for its address comes again, before what came after it.
        let (header, octets) = match self.ip.poll_kept(room).map_or_else(|| self.device.read(room), Ok) {
            Ok(read) => read,
            Err(e) => {
                self.buffer = Some(buffer);
                return if e.kind() == ErrorKind::WouldBlock { Ok(None) } else { Err(e) };
            }
        };
        let packet = &mut carrier.octets(&mut buffer)[head..head + octets];
        let Some((header, circuit, parts)) = self.judge(&header, packet, now)? else {
            self.buffer = Some(buffer);
            return Ok(Some(octets));
        };
        let to_all = circuit.is_none();
        self.outgoing = Some(Outgoing { source: buffer, octets, header, circuit, to_all, parts, next: 0 });
        self.advance(carrier);
        Ok(Some(octets))
    }

    /// Where a packet goes, and how; its checksum is completed where nobody else will. `None` if it goes nowhere, or
    /// not yet.
    fn judge(
        &mut self,
        octets: &[u8; crate::ip::VNET_OCTETS],
        packet: &mut [u8],
        now: Time,
    ) -> io::Result<Option<(VnetHeader, Option<u32>, Parts)>> {
        let header = VnetHeader::parse(octets, packet.len());
        let cut = header.filter(|h| h.is_long()).and_then(|h| h.cut(packet, self.ethernet_octets));
        let Some(header) = header.filter(|h| h.is_long() == cut.is_some()) else {
            self.ip.sent.drop_one(DropReason::Malformed);
            return Ok(None);
        };
        // The interface judges a long packet by one of its segments.
        let judged = cut.map_or(packet.len(), |c| c.octets(packet).min(packet.len()));
        let (circuit, parts) = match self.ip.route(&packet[..judged], now) {
            Verdict::Dropped => return Ok(None),
            Verdict::Waits(hop) => {
                self.ip.keep(hop, octets, packet, now);
                return Ok(None);
            }
            Verdict::All => (None, Parts::Whole),
            Verdict::To(circuit) => (Some(circuit), Parts::Whole),
            Verdict::TooLong { circuit, mtu } => match Fragments::new(packet, mtu).filter(|_| cut.is_none()) {
                Some(fragments) => (Some(circuit), Parts::Fragments(fragments)),
                None => return self.refuse(packet, mtu).map(|()| None),
            },
        };
        let offloaded = circuit.is_some_and(|c| !header.is_plain() && self.ip.takes_offload(c, packet));
        let parts = match (cut, parts) {
            (_, Parts::Whole) if offloaded => Parts::Offloaded,
            (Some(cut), Parts::Whole) => Parts::Segments(cut),
            (_, parts) => {
                let may_omit = circuit.is_some_and(|c| self.ip.ends_at_destination(c, packet));
                header.complete(packet, may_omit);
                parts
            }
        };
        Ok(Some((header, circuit, parts)))
    }

    /// Tells the machine's own stack that a packet is too long for its circuit.
    fn refuse(&mut self, packet: &[u8], mtu: usize) -> io::Result<()> {
        self.ip.sent.drop_one(DropReason::Oversize);
        let mut message = [0; MAX_MESSAGE_OCTETS];
        let address = self.ip.config().address.unwrap_or(Ipv4Addr::UNSPECIFIED).octets();
        let Some(n) = too_big(packet, mtu, address, &mut message) else { return Ok(()) };
        let written = self.device.write_whole(&message[..n]);
        self.lost_or(written, 1)
    }

    /// Sends what is left of a packet, as far as room and buffers allow. True if anything was sent.
    pub(super) fn advance(&mut self, carrier: &mut impl Carrier<Buffer = B>) -> bool {
        let mut any = false;
        while let Some(mut out) = self.outgoing.take() {
            if !carrier.has_room() {
                self.outgoing = Some(out);
                break;
            }
            match (out.circuit, out.parts) {
                (Some(circuit), Parts::Whole) if !out.to_all => self.send(carrier, circuit, out.source, out.octets),
                (Some(circuit), Parts::Offloaded) => {
                    let sdu = carrier.octets(&mut out.source);
                    match self.ip.encapsulate_offloaded(sdu, out.octets, out.header) {
                        Some(n) => drop(carrier.send(circuit, out.source, n)),
                        None => carrier.give_back(out.source),
                    }
                }
                _ => match carrier.take() {
                    Some(buffer) => self.send_part(carrier, out, buffer),
                    None => {
                        self.outgoing = Some(out);
                        break;
                    }
                },
            }
            any = true;
        }
        any
    }

    /// Sends the next of several packets that one becomes, in `buffer`; after the last gives all buffers back.
    fn send_part(&mut self, carrier: &mut impl Carrier<Buffer = B>, mut out: Outgoing<B>, mut buffer: B) {
        let head = self.ip.headroom();
        // A copy for each circuit; the last copy is not the buffer itself, which costs one more and is simple.
        let circuit = if out.to_all { self.ip.circuit_after(out.circuit) } else { out.circuit };
        let (from, to) = carrier.both(&out.source, &mut buffer);
        let packet = &from[head..head + out.octets];
        let written = match out.parts {
            Parts::Segments(cut) => cut.write(packet, out.next, &mut to[head..]),
            Parts::Fragments(fragments) => fragments.write(packet, out.next, &mut to[head..]),
            Parts::Whole | Parts::Offloaded => circuit.map(|_| {
                to[head..head + out.octets].copy_from_slice(packet);
                out.octets
            }),
        };
        match (circuit, written) {
            (Some(circuit), Some(octets)) => {
                self.send(carrier, circuit, buffer, octets);
                (out.circuit, out.next) = (Some(circuit), out.next + 1);
                self.outgoing = Some(out);
            }
            _ => {
                carrier.give_back(buffer);
                carrier.give_back(out.source);
            }
        }
    }

    /// Sends the packet that stands behind the headroom of `buffer`. There is room.
    fn send(&mut self, carrier: &mut impl Carrier<Buffer = B>, circuit: u32, mut buffer: B, octets: usize) {
        match self.ip.encapsulate(carrier.octets(&mut buffer), octets) {
            Some(n) => {
                if !carrier.send(circuit, buffer, n) {
                    self.ip.sent.drop_one(DropReason::Oversize);
                }
            }
            None => carrier.give_back(buffer),
        }
    }

    /// A packet that the device's queue has no room for, or that the kernel takes for no packet, is lost, as on any
    /// interface, and with it all `packets` that it is made of.
    fn lost_or(&mut self, written: io::Result<()>, packets: u64) -> io::Result<()> {
        let Err(e) = written else { return Ok(()) };
        let reason = match (e.kind(), e.raw_os_error()) {
            (ErrorKind::WouldBlock, _) | (_, Some(ENOBUFS)) => DropReason::QueueFull,
            (_, Some(EIO)) => DropReason::LinkDown,
            (ErrorKind::InvalidInput, _) => DropReason::Malformed,
            _ => return Err(e),
        };
        self.ip.received.drop_n(reason, packets);
        Ok(())
    }

    /// Gives all buffers back to a carrier that stays; gives the number of packets that were in them, or waited.
    pub(super) fn clear(&mut self, carrier: &mut impl Carrier<Buffer = B>) -> u64 {
        let outgoing = self.outgoing.take().map(|out| out.source);
        let waiting = self.ip.forget_kept() + u64::from(outgoing.is_some());
        for buffer in [outgoing, self.buffer.take()].into_iter().flatten() {
            carrier.give_back(buffer);
        }
        waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many packets of so many octets a turn takes that begins with these.
    fn packets_of_a_turn(begins_with: &[usize], octets_of_each: usize) -> usize {
        let (mut packets, mut octets) = (0, 0);
        let mut lengths = begins_with.iter().copied().chain(std::iter::repeat(octets_of_each));
        while packets < TURN && octets < most_octets(packets, octets) {
            (packets, octets) = (packets + 1, octets + lengths.next().unwrap());
        }
        packets
    }

    #[test]
    fn a_turn_is_two_of_the_longest_packets_and_many_short_ones() {
        let turns = [65_226, LONG, LONG - 1, 9180, 1500, 40].map(|octets| packets_of_a_turn(&[], octets));
        assert_eq!(turns, [2, 4, 9, 15, TURN, TURN]);
        // An acknowledgement or two before it do not matter; a stream of them is short packets.
        assert_eq!((packets_of_a_turn(&[40], 65_226), packets_of_a_turn(&[40; 60], 65_226)), (3, 62));
    }
}
