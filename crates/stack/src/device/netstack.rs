//! TCP/IP (smoltcp) over IP over ATM as one state machine: PDUs, `now` in; PDUs and deadlines out. Packets wait in
//! buffers that are used again: none is allocated in the steady state.
//!
//! It reads no clock, so it runs live under [`super::inprocess::Host`] and in virtual time in the test world.

use crate::ip::{Config as IpConfig, IpInterface, Verdict, VnetHeader};
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{self, DeviceCapabilities, Medium};
use smoltcp::socket::tcp;
use smoltcp::time::Instant as NetInstant;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;
use wire::{DropReason, Time};

/// Octets of each of a TCP socket's two buffers, unless [`NetStack::with_buffers`] says otherwise.
const BUFFER_OCTETS: usize = 1 << 20;
/// Packets that wait between smoltcp and the interface, each way.
const QUEUE: usize = 32;

/// Packets that wait, in buffers that come back.
#[derive(Debug, Default)]
struct Waiting {
    packets: VecDeque<Vec<u8>>,
    spare: Vec<Vec<u8>>,
}

impl Waiting {
    fn is_full(&self) -> bool {
        self.packets.len() >= QUEUE
    }

    /// A buffer of `octets` octets at the end of the queue.
    fn push(&mut self, octets: usize) -> &mut Vec<u8> {
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.resize(octets, 0);
        self.packets.push_back(buffer);
        // Just pushed.
        let last = self.packets.len() - 1;
        &mut self.packets[last]
    }

    fn drop_front(&mut self) {
        if let Some(buffer) = self.packets.pop_front() {
            self.spare.push(buffer);
        }
    }
}

/// Packets between smoltcp and the interface.
#[derive(Debug, Default)]
struct Queue {
    received: Waiting,
    to_send: Waiting,
    mtu: usize,
}

impl phy::Device for Queue {
    type RxToken<'a> = RxToken<'a>;
    type TxToken<'a> = TxToken<'a>;

    fn receive(&mut self, _: NetInstant) -> Option<(RxToken<'_>, TxToken<'_>)> {
        let ready = !self.to_send.is_full() && !self.received.packets.is_empty();
        ready.then_some((RxToken(&mut self.received), TxToken(&mut self.to_send)))
    }

    fn transmit(&mut self, _: NetInstant) -> Option<TxToken<'_>> {
        (!self.to_send.is_full()).then_some(TxToken(&mut self.to_send))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.mtu;
        capabilities
    }
}

/// A packet for smoltcp.
pub struct RxToken<'a>(&'a mut Waiting);

impl phy::RxToken for RxToken<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        let result = f(self.0.packets.front().map_or(&[], Vec::as_slice));
        self.0.drop_front();
        result
    }
}

/// Room for a packet from smoltcp.
pub struct TxToken<'a>(&'a mut Waiting);

impl phy::TxToken for TxToken<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        f(self.0.push(len))
    }
}

/// A host's TCP/IP: one address, one interface, its sockets.
pub struct NetStack {
    ip: IpInterface,
    queue: Queue,
    interface: Interface,
    sockets: SocketSet<'static>,
    buffer_octets: usize,
    flood: Flood,
}

/// A packet that goes on all circuits, one after the other.
#[derive(Debug, Default)]
struct Flood {
    packet: Vec<u8>,
    /// The circuit that it went on last; `None` outside a flood.
    last: Option<u32>,
}

impl std::fmt::Debug for NetStack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NetStack").field("ip", &self.ip).finish_non_exhaustive()
    }
}

fn net_time(now: Time) -> NetInstant {
    NetInstant::from_micros((now.as_nanos() / 1000) as i64)
}

impl NetStack {
    /// A stack of `address`. The same seed gives the same initial sequence numbers.
    pub fn new(address: impl Into<Option<Ipv4Addr>>, prefix: u8, mtu: usize, seed: u64) -> Self {
        let address = address.into();
        let mut queue = Queue { mtu, ..Queue::default() };
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = seed;
        let mut interface = Interface::new(config, &mut queue, NetInstant::ZERO);
        interface.update_ip_addrs(|addresses| {
            // The list has room for more than one address.
            let _ = address.map(|address| addresses.push(IpCidr::new(IpAddress::Ipv4(address), prefix)));
        });
        let ip = IpInterface::new(IpConfig { mtu, ..IpConfig::new(address) });
        let sockets = SocketSet::new(Vec::new());
        NetStack { ip, queue, interface, sockets, buffer_octets: BUFFER_OCTETS, flood: Flood::default() }
    }

    /// The interface below: its circuits, peers and counters.
    pub fn ip(&mut self) -> &mut IpInterface {
        &mut self.ip
    }

    /// The sockets, in smoltcp's terms.
    pub fn sockets(&mut self) -> &mut SocketSet<'static> {
        &mut self.sockets
    }

    /// The same with another encapsulation than LLC/SNAP (a routed one), an ATM number, or an IPv6 address.
    pub fn with(mut self, config: IpConfig) -> Self {
        if let Some((address, prefix)) = config.ipv6 {
            self.interface.update_ip_addrs(|addresses| {
                // The list has room for more than one address.
                let _ = addresses.push(IpCidr::new(IpAddress::Ipv6(address), prefix));
            });
        }
        self.ip = IpInterface::new(config);
        self
    }

    /// The same with so many octets in each of the two buffers of a TCP socket made from now on.
    #[must_use]
    pub fn with_buffers(mut self, octets: usize) -> Self {
        self.buffer_octets = octets;
        self
    }

    /// Whether a PDU can be taken without losing its packet.
    pub fn has_room(&self) -> bool {
        !self.queue.received.is_full()
    }

    /// A PDU that came on a circuit.
    pub fn handle_pdu(&mut self, circuit: u32, pdu: &[u8], now: Time) {
        let Some(delivery) = self.ip.handle_pdu(circuit, pdu, now) else { return };
        if self.queue.received.is_full() {
            return self.ip.received.drop_one(DropReason::QueueFull);
        }
        self.queue.received.push(delivery.packet.len()).copy_from_slice(delivery.packet);
    }

    /// Takes what has come, does what is due. True if anything moved.
    pub fn run(&mut self, now: Time) -> bool {
        self.ip.handle_timeout(now);
        let before = self.queue.received.packets.len();
        let poll = self.interface.poll(net_time(now), &mut self.queue, &mut self.sockets);
        poll == smoltcp::iface::PollResult::SocketStateChanged || self.queue.received.packets.len() != before
    }

    /// Whether [`NetStack::poll_pdu`] may give something.
    pub fn has_pdu(&self) -> bool {
        self.flood.last.is_some() || self.ip.has_pdu() || self.ip.has_kept() || !self.queue.to_send.packets.is_empty()
    }

    /// A PDU to be sent, written at the start of `sdu` (8 octets and the MTU at least): its circuit and length.
    pub fn poll_pdu(&mut self, sdu: &mut [u8], now: Time) -> Option<(u32, usize)> {
        if let Some(said) = self.ip.poll_pdu(sdu) {
            return Some(said);
        }
        if self.flood.last.is_some()
            && let Some(sent) = self.poll_flood(sdu)
        {
            return Some(sent);
        }
        let head = self.ip.headroom();
        while let Some(octets) = self.next_packet(sdu.get_mut(head..)?) {
            let packet = &sdu[head..head + octets];
            match self.ip.route(packet, now) {
                Verdict::To(circuit) => {
                    if let Some(made) = self.ip.encapsulate(sdu, octets) {
                        return Some((circuit, made));
                    }
                }
                Verdict::TooLong { .. } => self.ip.sent.drop_one(DropReason::Oversize),
                Verdict::Waits(hop) => self.ip.keep(hop, &VnetHeader::default().to_octets(), packet, now),
                Verdict::All => {
                    self.flood.packet.clear();
                    self.flood.packet.extend_from_slice(packet);
                    self.flood.last = self.ip.circuit_after(None);
                    let made = self.ip.encapsulate(sdu, octets);
                    if let Some(sent) = self.flood.last.zip(made) {
                        return Some(sent);
                    }
                }
                Verdict::Dropped => {}
            }
        }
        None
    }

    /// A packet for all circuits, on the next of them.
    fn poll_flood(&mut self, sdu: &mut [u8]) -> Option<(u32, usize)> {
        self.flood.last = self.ip.circuit_after(self.flood.last);
        let circuit = self.flood.last?;
        let (head, octets) = (self.ip.headroom(), self.flood.packet.len());
        sdu.get_mut(head..head + octets)?.copy_from_slice(&self.flood.packet);
        self.ip.encapsulate(sdu, octets).map(|made| (circuit, made))
    }

    /// A packet to be sent, at the start of `room`: one that waited for its address, or the next of smoltcp's.
    fn next_packet(&mut self, room: &mut [u8]) -> Option<usize> {
        if let Some((_, octets)) = self.ip.poll_kept(room) {
            return Some(octets);
        }
        loop {
            let packet = self.queue.to_send.packets.front()?;
            let octets = packet.len();
            let fits = room.get_mut(..octets).map(|room| room.copy_from_slice(packet)).is_some();
            self.queue.to_send.drop_front();
            if fits {
                return Some(octets);
            }
            self.ip.sent.drop_one(DropReason::Oversize);
        }
    }

    /// When to run again if nothing comes.
    pub fn poll_timeout(&mut self, now: Time) -> Option<Time> {
        let delay = self.interface.poll_delay(net_time(now), &self.sockets);
        let sockets = delay.map(|d| now + Duration::from_micros(d.total_micros()));
        sockets.into_iter().chain(self.ip.poll_timeout()).min()
    }

    fn tcp(&mut self) -> SocketHandle {
        let buffer = || tcp::SocketBuffer::new(vec![0; self.buffer_octets]);
        let mut socket = tcp::Socket::new(buffer(), buffer());
        socket.set_nagle_enabled(false);
        // Circuits between hosts have a contract or a queue of their own; whoever shares one chooses another control.
        socket.set_congestion_control(tcp::CongestionControl::None);
        socket.set_timeout(Some(smoltcp::time::Duration::from_secs(30)));
        self.sockets.add(socket)
    }

    /// A socket that listens at `port`.
    ///
    /// # Errors
    /// Port 0.
    pub fn listen(&mut self, port: u16) -> Result<SocketHandle, tcp::ListenError> {
        let handle = self.tcp();
        self.tcp_socket(handle).listen(port).map(|()| handle).inspect_err(|_| {
            self.sockets.remove(handle);
        })
    }

    /// A socket that connects from port `local` to `to`.
    ///
    /// # Errors
    /// An address or port that is none.
    pub fn connect(&mut self, to: impl Into<IpAddr>, port: u16, local: u16) -> Result<SocketHandle, tcp::ConnectError> {
        let handle = self.tcp();
        let socket = self.sockets.get_mut::<tcp::Socket<'_>>(handle);
        let result = socket.connect(self.interface.context(), (IpAddress::from(to.into()), port), local);
        result.map(|()| handle).inspect_err(|_| {
            self.sockets.remove(handle);
        })
    }

    /// A TCP socket.
    ///
    /// # Panics
    /// If `handle` is not of a TCP socket of this stack.
    pub fn tcp_socket(&mut self, handle: SocketHandle) -> &mut tcp::Socket<'static> {
        self.sockets.get_mut(handle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv6Addr;

    const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];

    #[test]
    fn a_connection_to_a_peer_that_nobody_has_asked_for_yet_loses_no_packet() {
        let now = Time::ZERO;
        let mut stacks = ADDRESSES.map(|address| NetStack::new(address, 24, 1500, 1));
        for stack in &mut stacks {
            // The second leads nowhere: neither is the only one.
            (1..3).for_each(|circuit| stack.ip().add_circuit(circuit, None, now));
        }
        let server = stacks[1].listen(80).unwrap();
        let client = stacks[0].connect(ADDRESSES[1], 80, 50_000).unwrap();
        let mut sdu = vec![0; 1508];
        // Time stands still: nothing is sent anew.
        for _ in 0..20 {
            for from in [0, 1] {
                while stacks[from].run(now) {}
                while let Some((circuit, octets)) = stacks[from].poll_pdu(&mut sdu, now) {
                    if circuit == 1 {
                        stacks[1 - from].handle_pdu(1, &sdu[..octets], now);
                    }
                }
            }
        }
        assert_eq!(stacks[0].tcp_socket(client).state(), tcp::State::Established);
        assert_eq!(stacks[1].tcp_socket(server).state(), tcp::State::Established);
        assert!(stacks.iter_mut().all(|stack| stack.ip().sent.dropped_total() == 0));
    }
    #[test]
    fn ipv6_connects_over_the_right_one_of_several_circuits_and_learns_which_it_is() {
        let now = Time::ZERO;
        let own = |n| Ipv6Addr::new(0xfd00, 9, 0, 0, 0, 0, 0, n);
        let mut stacks = [1, 2].map(|n| {
            let config = IpConfig { ipv6: Some((own(n), 64)), ..IpConfig::new(None) };
            NetStack::new(None, 0, 1500, u64::from(n)).with(config)
        });
        for stack in &mut stacks {
            (0..3).for_each(|circuit| stack.ip().add_circuit(circuit, None, now));
        }
        let server = stacks[1].listen(80).unwrap();
        let client = stacks[0].connect(own(2), 80, 50_000).unwrap();
        let mut sdu = vec![0; 1508];
        let mut on_others = 0;
        for _ in 0..20 {
            for from in [0, 1] {
                while stacks[from].run(now) {}
                while let Some((circuit, octets)) = stacks[from].poll_pdu(&mut sdu, now) {
                    // Circuit 1 joins the two; the others lead elsewhere.
                    if circuit == 1 {
                        stacks[1 - from].handle_pdu(1, &sdu[..octets], now);
                    } else if sdu[6..8] == [0x86, 0xdd] {
                        on_others += 1;
                    }
                }
            }
        }
        assert_eq!(stacks[0].tcp_socket(client).state(), tcp::State::Established);
        assert_eq!(stacks[1].tcp_socket(server).state(), tcp::State::Established);
        assert_eq!(on_others, 2, "only the first packet had to go on the two other circuits");
    }
}
