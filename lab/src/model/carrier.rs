//! What carries ttcp's data between the two hosts of [`super::pair`]: raw PDUs, UDP over the real IP interface, or the real
//! TCP in process (smoltcp), with its segments, acknowledgements and window, in virtual time.
//!
//! In: what the application writes, PDUs that came. Out: PDUs to send, what the application may read. Every datagram is compared
//! when it has come, and TCP's octets when they are read. It charges nothing: that is done by whoever calls.

use smoltcp::iface::SocketHandle;
use stack::device::netstack::NetStack;
use stack::ip::{self, IpInterface, Verdict};
use std::net::Ipv4Addr;
use wire::Time;

const CIRCUIT: u32 = 1;
const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];
const PORTS: [u16; 2] = [1030, 5001];
/// Octets of the start datagram: ttcp's least UDP message.
pub(super) const START_OCTETS: usize = 4;
/// LLC/SNAP, IP and UDP.
const LLC: usize = 8;
const IP: usize = 20;
const UDP: usize = 8;

/// What carries the burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// AAL5 PDUs, unbounded kernel buffers.
    Raw,
    /// UDP with its socket buffer, checksummed or not.
    Udp {
        /// Checksummed.
        checksum: bool,
    },
    /// TCP: checksummed, a window of the socket buffer.
    Tcp,
}

/// What a PDU turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrival {
    /// A datagram as it was sent.
    Datagram,
    /// One that is not, or that nobody can take.
    Damaged,
    /// A segment of TCP's: what it brings can be read later.
    Segment,
}

enum Protocol {
    Raw,
    Udp { interface: Box<IpInterface>, checksum: bool },
    Tcp { stack: Box<NetStack>, socket: SocketHandle },
}

impl std::fmt::Debug for Protocol {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Protocol::Raw => "Raw",
            Protocol::Udp { .. } => "Udp",
            Protocol::Tcp { .. } => "Tcp",
        })
    }
}

/// One end: the sender (0) or the receiver (1).
#[derive(Debug)]
pub(super) struct Carrier {
    protocol: Protocol,
    number: usize,
    octets: usize,
    written: u64,
    /// Datagrams that were made, and that came.
    made: u64,
    came: u64,
    /// Octets of TCP's that were read.
    read: u64,
    pattern: Vec<u8>,
    /// The PDU that goes next, if there is one.
    pdu: Vec<u8>,
    ready: Option<usize>,
}

/// The Internet checksum (RFC 1071) over pieces that each but the last have an even length.
fn checksum(pieces: &[&[u8]]) -> u16 {
    let mut sum = 0u32;
    for pair in pieces.iter().flat_map(|piece| piece.chunks(2)) {
        sum += u32::from(pair[0]) << 8 | pair.get(1).copied().map_or(0, u32::from);
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// The checksum of a UDP packet with its pseudo header: 0 if the packet's own is right.
fn udp_checksum(packet: &[u8]) -> u16 {
    let octets = ((packet.len() - IP) as u16).to_be_bytes();
    checksum(&[&packet[12..20], &[0, 17], &octets, &packet[IP..]])
}

impl Carrier {
    /// An end for writes of `octets`, datagrams after a start datagram, and TCP with sockets of so many octets.
    pub(super) fn new(transport: Transport, number: usize, octets: usize, socket_octets: usize) -> Option<Self> {
        let protocol = match transport {
            Transport::Raw => Protocol::Raw,
            Transport::Udp { checksum } => {
                let mut interface = Box::new(IpInterface::new(ip::Config::new(ADDRESSES[number])));
                interface.add_circuit(CIRCUIT, Some(ADDRESSES[1 - number]), Time::ZERO);
                Protocol::Udp { interface, checksum }
            }
            Transport::Tcp => {
                let stack = NetStack::new(ADDRESSES[number], 24, ip::MTU, number as u64);
                let mut stack = Box::new(stack.with_buffers(socket_octets));
                stack.ip().add_circuit(CIRCUIT, Some(ADDRESSES[1 - number]), Time::ZERO);
                let socket = match number {
                    0 => stack.connect(ADDRESSES[1], PORTS[1], PORTS[0]).ok()?,
                    _ => stack.listen(PORTS[1]).ok()?,
                };
                Protocol::Tcp { stack, socket }
            }
        };
        let pattern = (0..octets).map(|i| (i as u8).wrapping_mul(31) ^ (i >> 8) as u8).collect();
        let pdu = vec![0; octets.max(ip::MTU) + 64];
        Some(Carrier { protocol, number, octets, written: 0, made: 0, came: 0, read: 0, pattern, pdu, ready: None })
    }

    /// Octets of datagram `n`: ttcp's first is small, and starts the receiver's timer.
    pub(super) fn datagram_octets(&self, n: u64) -> usize {
        if n == 0 { START_OCTETS.min(self.octets) } else { self.octets }
    }

    fn datagram(&mut self, n: u64) -> &[u8] {
        let octets = self.datagram_octets(n);
        let number = (n as u32).to_be_bytes();
        let head = octets.min(4);
        self.pattern[..head].copy_from_slice(&number[4 - head..]);
        &self.pattern[..octets]
    }

    /// Whether a write finds room.
    pub(super) fn takes_a_write(&mut self) -> bool {
        let octets = self.octets;
        match &mut self.protocol {
            Protocol::Tcp { stack, socket } => {
                let socket = stack.tcp_socket(*socket);
                socket.can_send() && socket.send_capacity() - socket.send_queue() >= octets
            }
            _ => true,
        }
    }

    /// A write. Datagrams wait in kernel buffers, which are not bounded; TCP's octets in the socket's.
    pub(super) fn write(&mut self, now: Time) {
        self.written += 1;
        if let Protocol::Tcp { stack, socket } = &mut self.protocol {
            self.pattern[..4].copy_from_slice(&(self.written as u32).to_be_bytes());
            // There is room: whoever calls has asked.
            let _ = stack.tcp_socket(*socket).send_slice(&self.pattern);
            stack.run(now);
        }
    }

    /// The PDU that goes next.
    pub(super) fn pending(&mut self, now: Time) -> Option<&[u8]> {
        if matches!(self.protocol, Protocol::Raw) {
            return (self.made < self.written).then(|| self.datagram(self.made));
        }
        if self.ready.is_none() {
            self.ready = self.next(now);
        }
        self.ready.map(|octets| &self.pdu[..octets])
    }

    /// The pending PDU was taken.
    pub(super) fn taken(&mut self) {
        self.ready = None;
        self.made += 1;
    }

    fn next(&mut self, now: Time) -> Option<usize> {
        if let Protocol::Tcp { stack, .. } = &mut self.protocol {
            return stack.poll_pdu(&mut self.pdu, now).map(|(_, octets)| octets);
        }
        if self.made == self.written {
            return None;
        }
        let mut pdu = std::mem::take(&mut self.pdu);
        let n = self.made;
        let octets = self.datagram_octets(n);
        let packet = &mut pdu[LLC..LLC + IP + UDP + octets];
        packet[IP + UDP..].copy_from_slice(self.datagram(n));
        let known = self.emit(packet, now);
        let made = match &mut self.protocol {
            Protocol::Udp { interface, .. } if known => interface.encapsulate(&mut pdu, IP + UDP + octets),
            _ => None,
        };
        self.pdu = pdu;
        made
    }

    /// IP's and UDP's headers; whether the interface knows the way.
    fn emit(&mut self, packet: &mut [u8], now: Time) -> bool {
        let Protocol::Udp { interface, checksum: sums } = &mut self.protocol else { return false };
        let octets = packet.len() as u16;
        packet[..IP].copy_from_slice(&[0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        packet[2..4].copy_from_slice(&octets.to_be_bytes());
        packet[12..16].copy_from_slice(&ADDRESSES[self.number].octets());
        packet[16..20].copy_from_slice(&ADDRESSES[1 - self.number].octets());
        let sum = checksum(&[&packet[..IP]]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        for (i, port) in PORTS.into_iter().enumerate() {
            packet[IP + 2 * i..][..2].copy_from_slice(&port.to_be_bytes());
        }
        packet[IP + 4..IP + 6].copy_from_slice(&(octets - IP as u16).to_be_bytes());
        packet[IP + 6..IP + 8].fill(0);
        if *sums {
            let sum = udp_checksum(packet);
            packet[IP + 6..IP + 8].copy_from_slice(&if sum == 0 { 0xffff } else { sum }.to_be_bytes());
        }
        matches!(interface.route(packet, now), Verdict::To(_))
    }

    /// A PDU that came.
    pub(super) fn handle_pdu(&mut self, pdu: &[u8], now: Time) -> Arrival {
        if let Protocol::Tcp { stack, .. } = &mut self.protocol {
            stack.handle_pdu(CIRCUIT, pdu, now);
            while stack.run(now) {}
            return Arrival::Segment;
        }
        let n = self.came;
        self.came += 1;
        let whole = match &mut self.protocol {
            Protocol::Udp { interface, checksum } => {
                let sums = *checksum;
                let octets = interface.handle_pdu(CIRCUIT, pdu, now).map(|delivery| delivery.packet.to_vec());
                octets.is_some_and(|packet| {
                    packet.len() >= IP + UDP
                        && (!sums || udp_checksum(&packet) == 0)
                        && packet[IP + UDP..] == *self.datagram(n)
                })
            }
            _ => pdu == self.datagram(n),
        };
        if whole { Arrival::Datagram } else { Arrival::Damaged }
    }

    /// Whether TCP has a read's worth.
    pub(super) fn readable(&mut self) -> bool {
        let octets = self.octets;
        match &mut self.protocol {
            Protocol::Tcp { stack, socket } => stack.tcp_socket(*socket).recv_queue() >= octets,
            _ => false,
        }
    }

    /// A read from TCP: whether the octets are the ones that were written.
    pub(super) fn read(&mut self, now: Time) -> bool {
        self.read += 1;
        let number = (self.read as u32).to_be_bytes();
        let Protocol::Tcp { stack, socket } = &mut self.protocol else { return false };
        let mut octets = vec![0; self.octets];
        let got = stack.tcp_socket(*socket).recv_slice(&mut octets);
        stack.run(now);
        got == Ok(self.octets) && octets[..4] == number && octets[4..] == self.pattern[4..]
    }

    /// When TCP wants to be asked again if nothing comes.
    pub(super) fn poll_timeout(&mut self, now: Time) -> Option<Time> {
        match &mut self.protocol {
            Protocol::Tcp { stack, .. } => stack.poll_timeout(now),
            _ => None,
        }
    }

    /// Time has passed.
    pub(super) fn handle_timeout(&mut self, now: Time) {
        if let Protocol::Tcp { stack, .. } = &mut self.protocol {
            stack.run(now);
        }
    }
}

/// Opens the connection, before ttcp's timer starts.
pub(super) fn open(ends: &mut [&mut Carrier; 2]) {
    for _ in 0..8 {
        for from in 0..2 {
            ends[from].handle_timeout(Time::ZERO);
            while let Some(pdu) = ends[from].pending(Time::ZERO).map(<[u8]>::to_vec) {
                ends[from].taken();
                ends[1 - from].handle_pdu(&pdu, Time::ZERO);
            }
        }
    }
}
