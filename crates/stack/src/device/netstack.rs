//! TCP/IP (smoltcp) over IP over ATM as one state machine: PDUs, `now` in; PDUs and deadlines out.
//!
//! It reads no clock, so it runs live under [`super::inprocess::Host`] and in virtual time in the test world.

use crate::ip::IpInterface;
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{self, DeviceCapabilities, Medium};
use smoltcp::socket::tcp;
use smoltcp::time::Instant as NetInstant;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::time::Duration;
use wire::Time;

/// Octets of each of a TCP socket's two buffers.
const BUFFER_OCTETS: usize = 1 << 20;
/// Packets that wait between smoltcp and the interface, each way.
const QUEUE: usize = 32;

/// Packets between smoltcp and the interface.
#[derive(Debug, Default)]
struct Queue {
    received: VecDeque<Vec<u8>>,
    to_send: VecDeque<Vec<u8>>,
    mtu: usize,
}

impl phy::Device for Queue {
    type RxToken<'a> = RxToken;
    type TxToken<'a> = TxToken<'a>;

    fn receive(&mut self, _: NetInstant) -> Option<(RxToken, TxToken<'_>)> {
        if self.to_send.len() >= QUEUE {
            return None;
        }
        let packet = self.received.pop_front()?;
        Some((RxToken(packet), TxToken(&mut self.to_send)))
    }

    fn transmit(&mut self, _: NetInstant) -> Option<TxToken<'_>> {
        (self.to_send.len() < QUEUE).then_some(TxToken(&mut self.to_send))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.mtu;
        capabilities
    }
}

/// A packet for smoltcp.
pub struct RxToken(Vec<u8>);

impl phy::RxToken for RxToken {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

/// Room for a packet from smoltcp.
pub struct TxToken<'a>(&'a mut VecDeque<Vec<u8>>);

impl phy::TxToken for TxToken<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut packet = vec![0; len];
        let result = f(&mut packet);
        self.0.push_back(packet);
        result
    }
}

/// A host's TCP/IP: one address, one interface, its sockets.
pub struct NetStack {
    ip: IpInterface,
    queue: Queue,
    interface: Interface,
    sockets: SocketSet<'static>,
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
    pub fn new(address: Ipv4Addr, prefix: u8, mtu: usize, seed: u64) -> Self {
        let mut queue = Queue { mtu, ..Queue::default() };
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = seed;
        let mut interface = Interface::new(config, &mut queue, NetInstant::ZERO);
        interface.update_ip_addrs(|addresses| {
            // The list has room for more than one address.
            let _ = addresses.push(IpCidr::new(IpAddress::Ipv4(address), prefix));
        });
        NetStack { ip: IpInterface::new(address, mtu), queue, interface, sockets: SocketSet::new(Vec::new()) }
    }

    /// The interface below: its circuits, peers and counters.
    pub fn ip(&mut self) -> &mut IpInterface {
        &mut self.ip
    }

    /// The sockets, in smoltcp's terms.
    pub fn sockets(&mut self) -> &mut SocketSet<'static> {
        &mut self.sockets
    }

    /// A PDU that came on a circuit.
    pub fn handle_pdu(&mut self, circuit: u32, pdu: &[u8], now: Time) {
        self.ip.handle_pdu(circuit, pdu, now);
    }

    /// Takes what has come, does what is due. True if anything moved.
    pub fn run(&mut self, now: Time) -> bool {
        self.ip.handle_timeout(now);
        let mut any = false;
        while self.queue.received.len() < QUEUE
            && let Some(packet) = self.ip.poll_packet()
        {
            self.queue.received.push_back(packet);
            any = true;
        }
        let poll = self.interface.poll(net_time(now), &mut self.queue, &mut self.sockets);
        any |= poll == smoltcp::iface::PollResult::SocketStateChanged;
        // What finds no room below waits here, and smoltcp waits with it: nothing is lost on the own side.
        while self.ip.has_room()
            && let Some(packet) = self.queue.to_send.pop_front()
        {
            any |= self.ip.handle_packet(&packet);
        }
        any
    }

    /// A PDU to be sent, and its circuit.
    pub fn poll_pdu(&mut self) -> Option<(u32, Vec<u8>)> {
        self.ip.poll_pdu()
    }

    /// When to run again if nothing comes.
    pub fn poll_timeout(&mut self, now: Time) -> Option<Time> {
        let delay = self.interface.poll_delay(net_time(now), &self.sockets);
        let sockets = delay.map(|d| now + Duration::from_micros(d.total_micros()));
        sockets.into_iter().chain(self.ip.poll_timeout()).min()
    }

    fn tcp(&mut self) -> SocketHandle {
        let buffer = || tcp::SocketBuffer::new(vec![0; BUFFER_OCTETS]);
        let mut socket = tcp::Socket::new(buffer(), buffer());
        socket.set_nagle_enabled(false);
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
    pub fn connect(&mut self, to: Ipv4Addr, port: u16, local: u16) -> Result<SocketHandle, tcp::ConnectError> {
        let handle = self.tcp();
        let socket = self.sockets.get_mut::<tcp::Socket<'_>>(handle);
        let result = socket.connect(self.interface.context(), (IpAddress::Ipv4(to), port), local);
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
