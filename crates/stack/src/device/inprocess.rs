//! A TCP/IP stack in this process (smoltcp) over IP over ATM: what a user without the right to a TUN device gets.

use super::calls::{Dialler, Listener};
use super::netstack::NetStack;
use crate::classical;
use crate::oam::Statistics;
use endpoint::{ChannelId, Endpoint};
use smoltcp::phy;
use smoltcp::socket::{icmp, tcp};
use smoltcp::wire::{Icmpv4Packet, Icmpv4Repr, Icmpv6Packet, Icmpv6Repr, IpAddress};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};
use wire::Time;

/// Longest sleep: the rings are looked at again even if nothing is said to be due.
const MAX_WAIT: Duration = Duration::from_millis(10);
/// The same while a call is being set up.
const CALL_WAIT: Duration = Duration::from_millis(1);

/// An in-process host: one address, an endpoint with its circuits open.
#[derive(Debug)]
pub struct Host {
    endpoint: Endpoint,
    stack: NetStack,
    calls: Option<Dialler>,
    epoch: Instant,
}

impl Host {
    /// A host of `address`, over channels that are open on `endpoint`.
    pub fn new(
        endpoint: Endpoint,
        address: impl Into<Option<Ipv4Addr>>,
        prefix: u8,
        mtu: usize,
        channels: &[u32],
    ) -> Self {
        let mut stack = NetStack::new(address, prefix, mtu, u64::from(std::process::id()));
        for channel in channels {
            stack.ip().add_circuit(*channel, None, Time::ZERO);
        }
        Host { endpoint, stack, calls: None, epoch: Instant::now() }
    }

    fn now(&self) -> Time {
        Time::ZERO + self.epoch.elapsed()
    }

    /// One round of everything. True if something moved.
    fn step(&mut self) -> io::Result<bool> {
        let now = self.now();
        let mut any = match &mut self.calls {
            Some(calls) => calls.turn(&mut self.endpoint, self.stack.ip(), now)?,
            None => false,
        };
        while self.stack.has_room()
            && let Some(pdu) = self.endpoint.try_receive()
        {
            self.stack.handle_pdu(pdu.channel().0, &pdu, now);
            any = true;
        }
        any |= self.stack.run(now);
        while self.stack.has_pdu() && self.endpoint.send_space() > 0 {
            let Some(mut loan) = self.endpoint.loan() else { break };
            let Some((circuit, octets)) = self.stack.poll_pdu(&mut loan, now) else { break };
            // There is room, and the interface has checked the length.
            let _ = self.endpoint.send(ChannelId(circuit), loan, octets);
            any = true;
        }
        Ok(any)
    }

    /// The stack: its interface's peers and counters.
    pub fn stack(&mut self) -> &mut NetStack {
        &mut self.stack
    }

    /// The same, whose interface is of another configuration: VC multiplexing, a number, offers.
    pub fn with(mut self, config: crate::ip::Config, channels: &[u32]) -> Self {
        self.stack = self.stack.with(config);
        for channel in channels {
            self.stack.ip().add_circuit(*channel, None, Time::ZERO);
        }
        self
    }

    /// The same, whose circuits are calls: the configuration's number is that of `listener`.
    #[must_use]
    pub fn with_calls(mut self, listener: Listener, config: classical::Config) -> Self {
        let now = self.now();
        self.calls = Some(listener.begin(config, self.stack.ip(), now));
        self
    }

    /// Waits until the ATMARP server has confirmed this host's address.
    ///
    /// # Errors
    /// It does not answer in time, or says that another station has the address.
    pub fn register(&mut self, patience: Duration) -> io::Result<()> {
        let twin = self.until(patience, |host| {
            let client = host.stack.ip().client()?;
            let twin = client.duplicate().copied();
            (client.is_registered() || twin.is_some()).then_some(twin)
        });
        match twin {
            Ok(None) => Ok(()),
            Ok(Some(_)) => {
                let address = self.stack.ip().config().addresses_text();
                let says = format!("the ATMARP server says that another station has {address}: give another --address");
                Err(io::Error::new(io::ErrorKind::AddrInUse, says))
            }
            Err(e) if e.kind() == io::ErrorKind::TimedOut => {
                let says = format!("no registration with the ATMARP server within {patience:?}: is it up?");
                Err(io::Error::new(io::ErrorKind::TimedOut, says))
            }
            Err(e) => Err(e),
        }
    }

    /// Steps until `f` gives something; fails after `patience` without.
    fn until<R>(&mut self, patience: Duration, mut f: impl FnMut(&mut Self) -> Option<R>) -> io::Result<R> {
        let deadline = Instant::now() + patience;
        loop {
            let moved = self.step()?;
            if let Some(result) = f(self) {
                return Ok(result);
            }
            if Instant::now() > deadline {
                return Err(io::Error::new(io::ErrorKind::TimedOut, format!("nothing came for {patience:?}")));
            }
            if !moved {
                let now = self.now();
                let wait = self.stack.poll_timeout(now).map_or(MAX_WAIT, |at| at.since(now));
                self.wait(wait.clamp(Duration::from_micros(1), MAX_WAIT))?;
            }
        }
    }

    fn wait(&mut self, most: Duration) -> io::Result<()> {
        let now = self.now();
        let most = if self.calls.as_ref().is_some_and(Dialler::is_setting_up) { most.min(CALL_WAIT) } else { most };
        let received = self.endpoint.receive(Some(most)).map_err(io::Error::other)?;
        if let Some(pdu) = received {
            self.stack.handle_pdu(pdu.channel().0, &pdu, now);
        }
        Ok(())
    }

    /// Pings `to` with packets of `octets` of data.
    ///
    /// # Errors
    /// The service has gone.
    pub fn ping(
        &mut self,
        to: impl Into<IpAddr>,
        count: u32,
        octets: usize,
        interval: Duration,
    ) -> io::Result<Statistics> {
        let to = to.into();
        let buffer = || icmp::PacketBuffer::new(vec![icmp::PacketMetadata::EMPTY; 16], vec![0; 1 << 17]);
        let mut socket = icmp::Socket::new(buffer(), buffer());
        let ident = std::process::id() as u16;
        socket.bind(icmp::Endpoint::Ident(ident)).map_err(|e| io::Error::other(e.to_string()))?;
        let handle = self.stack.sockets().add(socket);
        let data = vec![0x5a; octets];
        let mut rtts = Vec::new();
        let mut lost = 0;
        for seq_no in 0..count {
            let packet = echo_request(to, ident, seq_no as u16, &data);
            let sent = Instant::now();
            let socket = self.stack.sockets().get_mut::<icmp::Socket<'_>>(handle);
            socket.send_slice(&packet, IpAddress::from(to)).map_err(|e| io::Error::other(e.to_string()))?;
            let answered = self.until(Duration::from_secs(2), |host| {
                let socket = host.stack.sockets().get_mut::<icmp::Socket<'_>>(handle);
                let (packet, from) = socket.recv().ok()?;
                let (number, length) = echo_reply(to.is_ipv6(), from, packet)?;
                (number == seq_no as u16 && length == octets).then_some(())
            });
            match answered {
                Ok(()) => rtts.push(sent.elapsed()),
                Err(e) if e.kind() == io::ErrorKind::TimedOut => lost += 1,
                Err(e) => return Err(e),
            }
            // The peer's own requests are served meanwhile.
            let next = sent + interval;
            while let Some(left) = next.checked_duration_since(Instant::now()) {
                if !self.step()? {
                    self.wait(left.min(Duration::from_millis(1)))?;
                }
            }
        }
        self.stack.sockets().remove(handle);
        Ok(Statistics::of(count, lost, &rtts))
    }

    /// Serves echo requests until `stop` says so.
    ///
    /// # Errors
    /// The service has gone.
    pub fn serve_until(&mut self, mut stop: impl FnMut() -> bool) -> io::Result<()> {
        while !stop() {
            if !self.step()? {
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
        let handle = self.stack.listen(port).map_err(|e| io::Error::other(e.to_string()))?;
        self.until(patience, |host| host.stack.tcp_socket(handle).may_recv().then_some(()))?;
        let mut total = 0;
        loop {
            let n = self.until(Duration::from_secs(30), |host| {
                let socket = host.stack.tcp_socket(handle);
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
        self.stack.tcp_socket(handle).close();
        // The last acknowledgements; a peer that is gone already does not matter.
        let _ = self.until(Duration::from_secs(1), |host| (!host.stack.tcp_socket(handle).is_open()).then_some(()));
        self.stack.sockets().remove(handle);
        Ok(total)
    }

    /// Connects to `to` and sends what `source` gives until it gives nothing; gives the number of octets.
    ///
    /// # Errors
    /// Nobody listens there, or the connection breaks.
    pub fn tcp_send(
        &mut self,
        to: impl Into<IpAddr>,
        port: u16,
        mut source: impl FnMut(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<u64> {
        let to = to.into();
        let local = 49_152 + (std::process::id() as u16 % 16_000);
        let mut refused = 0;
        let handle = loop {
            let connecting = self.stack.connect(to, port, local + refused);
            let handle = connecting.map_err(|e| io::Error::other(e.to_string()))?;
            let open = self.until(Duration::from_secs(10), |host| {
                let socket = host.stack.tcp_socket(handle);
                if socket.may_send() { Some(true) } else { (!socket.is_open()).then_some(false) }
            })?;
            if open {
                break handle;
            }
            self.stack.sockets().remove(handle);
            refused += 1;
            if refused == 50 {
                return Err(io::Error::new(io::ErrorKind::ConnectionRefused, format!("port {port} of {to} refuses")));
            }
            self.serve_until({
                let end = Instant::now() + Duration::from_millis(100);
                move || Instant::now() >= end
            })?;
        };
        let mut total = 0;
        loop {
            let n = self.until(Duration::from_secs(30), |host| {
                let socket = host.stack.tcp_socket(handle);
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
        self.stack.tcp_socket(handle).close();
        self.until(Duration::from_secs(30), |host| {
            use tcp::State::{Closed, FinWait2, TimeWait};
            let state = host.stack.tcp_socket(handle).state();
            matches!(state, Closed | FinWait2 | TimeWait).then_some(())
        })?;
        // Let the peer's own end be acknowledged.
        let _ = self.until(Duration::from_millis(200), |host| {
            let state = host.stack.tcp_socket(handle).state();
            matches!(state, tcp::State::Closed | tcp::State::TimeWait).then_some(())
        });
        self.stack.sockets().remove(handle);
        Ok(total)
    }
}

/// An echo request, ICMP or ICMPv6. The socket writes the checksum of the latter, which covers the source address.
fn echo_request(to: IpAddr, ident: u16, seq_no: u16, data: &[u8]) -> Vec<u8> {
    let checksums = phy::ChecksumCapabilities::default();
    match to {
        IpAddr::V4(_) => {
            let request = Icmpv4Repr::EchoRequest { ident, seq_no, data };
            let mut packet = vec![0; request.buffer_len()];
            request.emit(&mut Icmpv4Packet::new_unchecked(&mut packet), &checksums);
            packet
        }
        IpAddr::V6(to) => {
            let request = Icmpv6Repr::EchoRequest { ident, seq_no, data };
            let mut packet = vec![0; request.buffer_len()];
            request.emit(&Ipv6Addr::UNSPECIFIED, &to, &mut Icmpv6Packet::new_unchecked(&mut packet), &checksums);
            packet
        }
    }
}

/// The number of an echo reply, and how much data it has. The stack has verified its checksum.
fn echo_reply(is_ipv6: bool, from: IpAddress, packet: &[u8]) -> Option<(u16, usize)> {
    let checked = phy::ChecksumCapabilities::ignored();
    if !is_ipv6 {
        let packet = Icmpv4Packet::new_checked(packet).ok()?;
        return match Icmpv4Repr::parse(&packet, &checked).ok()? {
            Icmpv4Repr::EchoReply { seq_no, data, .. } => Some((seq_no, data.len())),
            _ => None,
        };
    }
    let IpAddress::Ipv6(from) = from else { return None };
    let packet = Icmpv6Packet::new_checked(packet).ok()?;
    match Icmpv6Repr::parse(&from, &Ipv6Addr::UNSPECIFIED, &packet, &checked).ok()? {
        Icmpv6Repr::EchoReply { seq_no, data, .. } => Some((seq_no, data.len())),
        _ => None,
    }
}
