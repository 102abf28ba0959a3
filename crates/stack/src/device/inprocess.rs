//! A TCP/IP stack in this process (smoltcp) over IP over ATM: what a user without the right to a TUN device gets.

use super::shuttle;
use crate::ip::IpInterface;
use crate::oam::Statistics;
use endpoint::Endpoint;
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{self, DeviceCapabilities, Medium};
use smoltcp::socket::{icmp, tcp};
use smoltcp::time::Instant as NetInstant;
use smoltcp::wire::{HardwareAddress, Icmpv4Packet, Icmpv4Repr, IpAddress, IpCidr};
use std::collections::VecDeque;
use std::io;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};
use wire::Time;

const BUFFER_OCTETS: usize = 1 << 20;

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
        if self.to_send.len() >= 32 {
            return None;
        }
        let packet = self.received.pop_front()?;
        Some((RxToken(packet), TxToken(&mut self.to_send)))
    }

    fn transmit(&mut self, _: NetInstant) -> Option<TxToken<'_>> {
        (self.to_send.len() < 32).then_some(TxToken(&mut self.to_send))
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

/// An in-process host: one address, an endpoint with its circuits open.
pub struct Host {
    endpoint: Endpoint,
    ip: IpInterface,
    queue: Queue,
    interface: Interface,
    sockets: SocketSet<'static>,
    epoch: Instant,
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").field("ip", &self.ip).finish_non_exhaustive()
    }
}

impl Host {
    /// A host of `address`, over channels that are open on `endpoint`.
    pub fn new(endpoint: Endpoint, address: Ipv4Addr, prefix: u8, mtu: usize, channels: &[u32]) -> Self {
        let mut ip = IpInterface::new(address, mtu);
        for channel in channels {
            ip.add_circuit(*channel, None, Time::ZERO);
        }
        let mut queue = Queue { mtu, ..Queue::default() };
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = u64::from(std::process::id());
        let mut interface = Interface::new(config, &mut queue, NetInstant::ZERO);
        interface.update_ip_addrs(|addresses| {
            // The list has room for more than one address.
            let _ = addresses.push(IpCidr::new(IpAddress::Ipv4(address), prefix));
        });
        Host { endpoint, ip, queue, interface, sockets: SocketSet::new(Vec::new()), epoch: Instant::now() }
    }

    /// One round of everything. True if something moved.
    fn step(&mut self) -> bool {
        let now = Time::ZERO + self.epoch.elapsed();
        let net_now = NetInstant::from_micros((now.as_nanos() / 1000) as i64);
        self.ip.handle_timeout(now);
        let mut any = shuttle(&mut self.endpoint, &mut self.ip, now);
        while let Some(packet) = self.ip.poll_packet() {
            self.queue.received.push_back(packet);
        }
        any |= self.interface.poll(net_now, &mut self.queue, &mut self.sockets)
            == smoltcp::iface::PollResult::SocketStateChanged;
        while let Some(packet) = self.queue.to_send.pop_front() {
            any |= self.ip.handle_packet(&packet);
        }
        any | shuttle(&mut self.endpoint, &mut self.ip, now)
    }

    /// Steps until `f` gives something; fails after `patience` without.
    fn until<R>(&mut self, patience: Duration, mut f: impl FnMut(&mut Self) -> Option<R>) -> io::Result<R> {
        let deadline = Instant::now() + patience;
        loop {
            let moved = self.step();
            if let Some(result) = f(self) {
                return Ok(result);
            }
            if Instant::now() > deadline {
                return Err(io::Error::new(io::ErrorKind::TimedOut, format!("nothing came for {patience:?}")));
            }
            if !moved {
                let now = NetInstant::from_micros(self.epoch.elapsed().as_micros() as i64);
                let wait = self.interface.poll_delay(now, &self.sockets).map_or(10_000, |d| d.total_micros());
                let wait = Duration::from_micros(wait.clamp(1, 10_000));
                self.wait(wait)?;
            }
        }
    }

    fn wait(&mut self, most: Duration) -> io::Result<()> {
        let now = Time::ZERO + self.epoch.elapsed();
        let received = self.endpoint.receive(Some(most)).map_err(io::Error::other)?;
        if let Some(pdu) = received {
            self.ip.handle_pdu(pdu.channel().0, &pdu, now);
        }
        Ok(())
    }

    /// Pings `to` with packets of `octets` of data.
    ///
    /// # Errors
    /// The service has gone.
    pub fn ping(&mut self, to: Ipv4Addr, count: u32, octets: usize, interval: Duration) -> io::Result<Statistics> {
        let buffer = || icmp::PacketBuffer::new(vec![icmp::PacketMetadata::EMPTY; 16], vec![0; 1 << 17]);
        let mut socket = icmp::Socket::new(buffer(), buffer());
        let ident = std::process::id() as u16;
        socket.bind(icmp::Endpoint::Ident(ident)).map_err(|e| io::Error::other(e.to_string()))?;
        let handle = self.sockets.add(socket);
        let data = vec![0x5a; octets];
        let checksums = phy::ChecksumCapabilities::default();
        let mut rtts = Vec::new();
        let mut lost = 0;
        for seq_no in 0..count {
            let request = Icmpv4Repr::EchoRequest { ident, seq_no: seq_no as u16, data: &data };
            let mut packet = vec![0; request.buffer_len()];
            request.emit(&mut Icmpv4Packet::new_unchecked(&mut packet), &checksums);
            let sent = Instant::now();
            let socket = self.sockets.get_mut::<icmp::Socket<'_>>(handle);
            socket.send_slice(&packet, IpAddress::Ipv4(to)).map_err(|e| io::Error::other(e.to_string()))?;
            let answered = self.until(Duration::from_secs(2), |host| {
                let socket = host.sockets.get_mut::<icmp::Socket<'_>>(handle);
                let (packet, _) = socket.recv().ok()?;
                let packet = Icmpv4Packet::new_checked(packet).ok()?;
                let reply = Icmpv4Repr::parse(&packet, &phy::ChecksumCapabilities::default()).ok()?;
                matches!(reply, Icmpv4Repr::EchoReply { seq_no: s, data: d, .. } if s == seq_no as u16 && d.len() == octets)
                    .then_some(())
            });
            match answered {
                Ok(()) => rtts.push(sent.elapsed()),
                Err(e) if e.kind() == io::ErrorKind::TimedOut => lost += 1,
                Err(e) => return Err(e),
            }
            // The peer's own requests are served meanwhile.
            let next = sent + interval;
            while let Some(left) = next.checked_duration_since(Instant::now()) {
                if !self.step() {
                    self.wait(left.min(Duration::from_millis(1)))?;
                }
            }
        }
        self.sockets.remove(handle);
        Ok(Statistics::of(count, lost, &rtts))
    }

    fn tcp(&mut self) -> SocketHandle {
        let buffer = || tcp::SocketBuffer::new(vec![0; BUFFER_OCTETS]);
        let mut socket = tcp::Socket::new(buffer(), buffer());
        socket.set_nagle_enabled(false);
        socket.set_timeout(Some(smoltcp::time::Duration::from_secs(30)));
        self.sockets.add(socket)
    }

    /// Serves echo requests until `stop` says so.
    ///
    /// # Errors
    /// The service has gone.
    pub fn serve_until(&mut self, mut stop: impl FnMut() -> bool) -> io::Result<()> {
        while !stop() {
            if !self.step() {
                self.wait(Duration::from_millis(5))?;
            }
        }
        Ok(())
    }

    /// Accepts one connection at `port` and hands its octets to `sink` until the peer closes; gives their number.
    ///
    /// # Errors
    /// Nobody connects in `patience`, or the connection breaks.
    pub fn tcp_receive(&mut self, port: u16, patience: Duration, mut sink: impl FnMut(&[u8])) -> io::Result<u64> {
        let handle = self.tcp();
        let socket = self.sockets.get_mut::<tcp::Socket<'_>>(handle);
        socket.listen(port).map_err(|e| io::Error::other(e.to_string()))?;
        self.until(patience, |host| host.sockets.get::<tcp::Socket<'_>>(handle).may_recv().then_some(()))?;
        let mut total = 0;
        loop {
            let n = self.until(Duration::from_secs(30), |host| {
                let socket = host.sockets.get_mut::<tcp::Socket<'_>>(handle);
                if socket.can_recv() {
                    let take = |octets: &mut [u8]| {
                        sink(octets);
                        (octets.len(), octets.len())
                    };
                    return socket.recv(take).ok();
                }
                (!socket.may_recv()).then_some(0)
            })?;
            if n == 0 {
                break;
            }
            total += n as u64;
        }
        self.sockets.get_mut::<tcp::Socket<'_>>(handle).close();
        // The last acknowledgements; a peer that is gone already does not matter.
        let _ = self.until(Duration::from_secs(1), |host| {
            (!host.sockets.get::<tcp::Socket<'_>>(handle).is_open()).then_some(())
        });
        self.sockets.remove(handle);
        Ok(total)
    }

    /// Connects to `to` and sends what `source` gives until it gives nothing; gives the number of octets.
    ///
    /// # Errors
    /// Nobody listens there, or the connection breaks.
    pub fn tcp_send(
        &mut self,
        to: Ipv4Addr,
        port: u16,
        mut source: impl FnMut(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<u64> {
        let local = 49_152 + (std::process::id() as u16 % 16_000);
        let mut refused = 0;
        let handle = loop {
            let handle = self.tcp();
            let socket = self.sockets.get_mut::<tcp::Socket<'_>>(handle);
            let remote = (IpAddress::Ipv4(to), port);
            socket
                .connect(self.interface.context(), remote, local + refused)
                .map_err(|e| io::Error::other(e.to_string()))?;
            let open = self.until(Duration::from_secs(10), |host| {
                let socket = host.sockets.get::<tcp::Socket<'_>>(handle);
                if socket.may_send() { Some(true) } else { (!socket.is_open()).then_some(false) }
            })?;
            if open {
                break handle;
            }
            self.sockets.remove(handle);
            refused += 1;
            if refused == 50 {
                return Err(io::Error::new(io::ErrorKind::ConnectionRefused, format!("{to}:{port} refuses")));
            }
            self.serve_until({
                let end = Instant::now() + Duration::from_millis(100);
                move || Instant::now() >= end
            })?;
        };
        let mut total = 0;
        loop {
            let n = self.until(Duration::from_secs(30), |host| {
                let socket = host.sockets.get_mut::<tcp::Socket<'_>>(handle);
                if !socket.may_send() {
                    return Some(Err(io::Error::from(io::ErrorKind::ConnectionReset)));
                }
                if !socket.can_send() {
                    return None;
                }
                let sent = socket.send(|room| match source(room) {
                    Ok(n) => (n, Ok(n)),
                    Err(e) => (0, Err(e)),
                });
                Some(sent.unwrap_or_else(|e| Err(io::Error::other(e.to_string()))))
            })??;
            if n == 0 {
                break;
            }
            total += n as u64;
        }
        self.sockets.get_mut::<tcp::Socket<'_>>(handle).close();
        self.until(Duration::from_secs(30), |host| {
            use tcp::State::{Closed, FinWait2, TimeWait};
            let state = host.sockets.get::<tcp::Socket<'_>>(handle).state();
            matches!(state, Closed | FinWait2 | TimeWait).then_some(())
        })?;
        // Let the peer's own end be acknowledged.
        let _ = self.until(Duration::from_millis(200), |host| {
            let state = host.sockets.get::<tcp::Socket<'_>>(handle).state();
            matches!(state, tcp::State::Closed | tcp::State::TimeWait).then_some(())
        });
        self.sockets.remove(handle);
        Ok(total)
    }
}
