//! The two ends of a bulk transfer by the real TCP in process (smoltcp with Reno's congestion control), for
//! [`super::ubr`] and [`super::networks`].
//!
//! In: PDUs that came, `now`. Out: PDUs to send. The sender always has data; the receiver reads at once and compares
//! every octet.

use smoltcp::iface::SocketHandle;
use smoltcp::socket::tcp::CongestionControl;
use stack::device::netstack::NetStack;
use std::net::Ipv4Addr;
use wire::Time;

const CIRCUIT: u32 = 1;
const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];
const PORTS: [u16; 2] = [1030, 5001];
/// LLC/SNAP before an IP packet (RFC 2684).
pub const LLC_OCTETS: usize = 8;
/// The headers of IP and TCP in it.
pub const HEADER_OCTETS: usize = 40;
/// Octets after which the stream repeats: a prime, so that no two segments of a window are alike.
const PERIOD: usize = 65_521;

/// The stream from its octet `at` on.
fn pattern(stream: &[u8], at: u64) -> &[u8] {
    &stream[(at % PERIOD as u64) as usize..]
}

/// The octets of the stream, twice: what begins anywhere in the first half is long enough for a window.
pub fn stream() -> Vec<u8> {
    (0..2 * PERIOD).map(|i| (i % PERIOD) as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

/// One end.
#[derive(Debug)]
pub struct End {
    stack: NetStack,
    socket: SocketHandle,
    sends: bool,
    /// Octets of data in a full packet.
    segment: usize,
    /// Octets of the stream that were written, or that were read and compared.
    pub octets: u64,
    /// Whether all that was read is as it was written.
    pub intact: bool,
}

impl End {
    /// An end for IP packets of `packet` octets and a window of at most `window` octets, of whole segments: the
    /// sender or the receiver. `None` if a port or address is refused, which these are not.
    pub fn new(sends: bool, packet: usize, window: usize, seed: u64) -> Option<Self> {
        let number = usize::from(!sends);
        let segment = packet - HEADER_OCTETS;
        let stack = NetStack::new(ADDRESSES[number], 24, packet, seed);
        let mut stack = stack.with_buffers((window / segment).max(1) * segment);
        stack.ip().add_circuit(CIRCUIT, Some(ADDRESSES[1 - number]), Time::ZERO);
        let socket = match sends {
            true => stack.connect(ADDRESSES[1], PORTS[1], PORTS[0]).ok()?,
            false => stack.listen(PORTS[1]).ok()?,
        };
        let tcp = stack.tcp_socket(socket);
        tcp.set_congestion_control(CongestionControl::Reno);
        // Whole segments, and no end of the connection however long the network passes none of them.
        tcp.set_nagle_enabled(true);
        tcp.set_timeout(None);
        Some(End { stack, socket, sends, segment, octets: 0, intact: true })
    }

    /// Does all that is due.
    pub fn run(&mut self, stream: &[u8], now: Time) {
        while self.stack.run(now) {}
        let tcp = self.stack.tcp_socket(self.socket);
        let before = self.octets;
        if self.sends {
            let room = if tcp.can_send() { tcp.send_capacity() - tcp.send_queue() } else { 0 };
            let whole = room / self.segment * self.segment;
            self.octets += tcp.send_slice(&pattern(stream, before)[..whole.min(PERIOD)]).unwrap_or(0) as u64;
        } else {
            while tcp.can_recv() {
                let at = self.octets;
                let read = tcp.recv(|octets| (octets.len(), (octets.len(), pattern(stream, at).starts_with(octets))));
                let Ok((octets, same)) = read else { break };
                self.octets += octets as u64;
                self.intact &= same;
            }
        }
        if self.octets != before {
            while self.stack.run(now) {}
        }
    }

    /// A PDU that came.
    pub fn handle_pdu(&mut self, pdu: &[u8], stream: &[u8], now: Time) {
        self.stack.handle_pdu(CIRCUIT, pdu, now);
        self.run(stream, now);
    }

    /// A PDU to be sent, at the start of `sdu`: its octets.
    pub fn poll_pdu(&mut self, sdu: &mut [u8], now: Time) -> Option<usize> {
        if !self.stack.has_pdu() {
            return None;
        }
        let (_, octets) = self.stack.poll_pdu(sdu, now)?;
        // There is room for another packet of the window.
        self.stack.run(now);
        Some(octets)
    }

    /// When to run again if nothing comes.
    pub fn poll_timeout(&mut self, now: Time) -> Option<Time> {
        self.stack.poll_timeout(now)
    }
}
