//! A TUN or TAP device over IP over ATM: the machine's own TCP/IP stack on circuits.
//!
//! A packet is read from the device straight into a buffer of the endpoint's shared segment, behind room for its header, and
//! written to the device straight from such a buffer. The device leaves checksums and the cutting of long packets to us; a
//! peer that is such a device too gets them as they are, in one SDU; for any other it is done here.

use super::speak;
use crate::ip::{Config, Cut, Fragments, IpInterface, MAX_MESSAGE_OCTETS, VNET_OCTETS, Verdict, VnetHeader, too_big};
use endpoint::{ChannelId, Endpoint, Loan};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};
use tun_rs::{DeviceBuilder, Layer, SyncDevice};
use wire::{DropReason, Time};

/// PDUs, or packets, that are taken from one side before the other is looked at.
const TURN: usize = 32;
/// Longest sleep, in which nobody notices that it should stop.
const MAX_WAIT: Duration = Duration::from_millis(100);
/// Rounds without anything to do before sleeping: a sleep costs more than a short wait.
const IDLE_ROUNDS: u32 = 20;

/// What is still to be sent of one packet.
#[derive(Debug)]
struct Outgoing {
    source: Loan,
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

/// A device and the endpoint whose circuits it leads to.
pub struct Tun {
    device: SyncDevice,
    endpoint: Endpoint,
    ip: IpInterface,
    epoch: Instant,
    has_header: bool,
    /// Where the IP header begins in what the device gives: behind the Ethernet header of a TAP device.
    ethernet_octets: usize,
    outgoing: Option<Outgoing>,
    /// A buffer for the next packet.
    loan: Option<Loan>,
}

impl std::fmt::Debug for Tun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tun").field("ip", &self.ip).finish_non_exhaustive()
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.endpoint.as_fd()
    }
}

/// What a device is to be.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The device's name.
    pub name: String,
    /// Bits of its address that are the subnet's.
    pub prefix: u8,
    /// The interface; a bridged encapsulation makes a TAP device, a routed one a TUN device.
    pub ip: Config,
    /// Whether the device leaves checksums and cutting to us.
    pub device_offload: bool,
}

impl Tun {
    /// Makes the device with an address, over channels that are open on `endpoint`.
    ///
    /// # Errors
    /// No right to make one (`CAP_NET_ADMIN`), or no `/dev/net/tun`.
    pub fn new(settings: &Settings, endpoint: Endpoint, channels: &[u32]) -> io::Result<Self> {
        let Settings { name, prefix, ip, device_offload } = settings;
        let bridged = ip.encapsulation.is_bridged();
        let build = |offload| {
            DeviceBuilder::new()
                .name(name)
                .layer(if bridged { Layer::L2 } else { Layer::L3 })
                .offload(offload)
                .ipv4(ip.address, *prefix, None)
                .mtu(u16::try_from(ip.mtu).unwrap_or(u16::MAX))
                .build_sync()
        };
        let device = if *device_offload { build(true).or_else(|_| build(false)) } else { build(false) };
        let device = device.map_err(|e| {
            let cure = "this needs CAP_NET_ADMIN and /dev/net/tun; without, use the in-process stack";
            io::Error::new(e.kind(), format!("device {name}: {e} ({cure})"))
        })?;
        device.set_nonblocking(true)?;
        let has_header = device.tcp_gso();
        let mut ip = IpInterface::new(Config { offload: ip.offload && has_header, ..ip.clone() });
        for channel in channels {
            ip.add_circuit(*channel, None, Time::ZERO);
        }
        let ethernet_octets = if bridged { 14 } else { 0 };
        let epoch = Instant::now();
        Ok(Tun { device, endpoint, ip, epoch, has_header, ethernet_octets, outgoing: None, loan: None })
    }

    /// The interface: routes, servers, peers, counters.
    pub fn ip(&mut self) -> &mut IpInterface {
        &mut self.ip
    }

    fn now(&self) -> Time {
        Time::ZERO + self.epoch.elapsed()
    }

    /// Moves packets until `stop` says so; looks at it at least every 100 ms.
    ///
    /// # Errors
    /// The device or the service has gone.
    pub fn run(&mut self, mut stop: impl FnMut() -> bool) -> io::Result<()> {
        let mut idle = 0;
        while !stop() {
            if self.turn()? {
                idle = 0;
            } else if idle < IDLE_ROUNDS {
                idle += 1;
                std::hint::spin_loop();
            } else {
                self.sleep()?;
            }
        }
        Ok(())
    }

    /// One round of everything. True if anything moved.
    fn turn(&mut self) -> io::Result<bool> {
        let now = self.now();
        self.ip.handle_timeout(now);
        let mut any = self.receive(now)?;
        any |= speak(&mut self.endpoint, &mut self.ip);
        for _ in 0..TURN {
            any |= self.advance(now)?;
            if self.outgoing.is_some() || !self.read(now)? {
                break;
            }
            any = true;
        }
        Ok(any)
    }

    /// From circuits to the device.
    fn receive(&mut self, now: Time) -> io::Result<bool> {
        for i in 0..TURN {
            let Some(pdu) = self.endpoint.try_receive() else { return Ok(i > 0) };
            let Some(delivery) = self.ip.handle_pdu(pdu.channel().0, &pdu, now) else { continue };
            let written = if self.has_header {
                let header = delivery.header.to_octets();
                self.device.send_vectored(&[IoSlice::new(&header), IoSlice::new(delivery.packet)])
            } else {
                self.device.send(delivery.packet)
            };
            lost_or(written.map(|_| ()), &mut self.ip)?;
        }
        Ok(true)
    }

    /// One packet from the device. False if there is none, or no buffer for it.
    fn read(&mut self, now: Time) -> io::Result<bool> {
        if self.loan.is_none() {
            self.loan = self.endpoint.loan();
        }
        let Some(loan) = &mut self.loan else { return Ok(false) };
        let head = self.ip.headroom();
        let mut header = [0; VNET_OCTETS];
        let read = if self.has_header {
            let mut parts = [IoSliceMut::new(&mut header), IoSliceMut::new(&mut loan[head..])];
            self.device.recv_vectored(&mut parts).map(|n| n.saturating_sub(VNET_OCTETS))
        } else {
            self.device.recv(&mut loan[head..])
        };
        let octets = match read {
            Ok(n) => n,
            Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(e) => return Err(e),
        };
        let Some(header) = VnetHeader::parse(&header, octets) else {
            self.ip.sent.drop_one(DropReason::Malformed);
            return Ok(true);
        };
        let packet = &mut loan[head..head + octets];
        let cut = if header.is_long() { header.cut(packet, self.ethernet_octets) } else { None };
        if header.is_long() && cut.is_none() {
            self.ip.sent.drop_one(DropReason::Malformed);
            return Ok(true);
        }
        // The interface judges a long packet by one of its segments.
        let judged = cut.map_or(octets, |c| c.octets(packet).min(octets));
        let (circuit, parts) = match self.ip.route(&packet[..judged], now) {
            Verdict::Dropped => return Ok(true),
            Verdict::All => (None, Parts::Whole),
            Verdict::To(circuit) => (Some(circuit), Parts::Whole),
            Verdict::TooLong { circuit, mtu } => match Fragments::new(packet, mtu).filter(|_| cut.is_none()) {
                Some(fragments) => (Some(circuit), Parts::Fragments(fragments)),
                None => return self.refuse(octets, mtu).map(|()| true),
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
        let Some(source) = self.loan.take() else { return Ok(false) };
        self.outgoing = Some(Outgoing { source, octets, header, circuit, to_all: circuit.is_none(), parts, next: 0 });
        self.advance(now)?;
        Ok(true)
    }

    /// Tells the machine's own stack that a packet is too long for its circuit.
    fn refuse(&mut self, octets: usize, mtu: usize) -> io::Result<()> {
        self.ip.sent.drop_one(DropReason::Oversize);
        let (head, address) = (self.ip.headroom(), self.ip.config().address);
        let Some(loan) = &self.loan else { return Ok(()) };
        let mut message = [0; MAX_MESSAGE_OCTETS];
        let Some(n) = too_big(&loan[head..head + octets], mtu, address.octets(), &mut message) else { return Ok(()) };
        let header = [0; VNET_OCTETS];
        let parts = [IoSlice::new(&header), IoSlice::new(&message[..n])];
        let written = self.device.send_vectored(&parts[usize::from(!self.has_header)..]);
        lost_or(written.map(|_| ()), &mut self.ip)
    }

    /// Sends what is left of a packet, as far as the ring and the buffers allow. True if anything was sent.
    fn advance(&mut self, _now: Time) -> io::Result<bool> {
        let head = self.ip.headroom();
        let mut any = false;
        while let Some(mut out) = self.outgoing.take() {
            if self.endpoint.send_space() == 0 {
                self.outgoing = Some(out);
                return Ok(any);
            }
            if out.to_all {
                // A copy for each circuit; the last copy is not the buffer itself, which costs one more and is simple.
                let Some(circuit) = self.ip.circuit_after(out.circuit) else { continue };
                let Some(mut loan) = self.endpoint.loan() else {
                    self.outgoing = Some(out);
                    return Ok(any);
                };
                loan[head..head + out.octets].copy_from_slice(&out.source[head..head + out.octets]);
                self.send(circuit, loan, out.octets);
                out.circuit = Some(circuit);
                self.outgoing = Some(out);
                any = true;
                continue;
            }
            let Some(circuit) = out.circuit else { continue };
            any = true;
            match out.parts {
                Parts::Whole => self.send(circuit, out.source, out.octets),
                Parts::Offloaded => {
                    if let Some(n) = self.ip.encapsulate_offloaded(&mut out.source, out.octets, out.header) {
                        let _ = self.endpoint.send(ChannelId(circuit), out.source, n);
                    }
                }
                Parts::Segments(_) | Parts::Fragments(_) => {
                    let Some(mut loan) = self.endpoint.loan() else {
                        self.outgoing = Some(out);
                        return Ok(any);
                    };
                    let packet = &out.source[head..head + out.octets];
                    let written = match out.parts {
                        Parts::Segments(cut) => cut.write(packet, out.next, &mut loan[head..]),
                        Parts::Fragments(fragments) => fragments.write(packet, out.next, &mut loan[head..]),
                        Parts::Whole | Parts::Offloaded => None,
                    };
                    if let Some(octets) = written {
                        self.send(circuit, loan, octets);
                        out.next += 1;
                        self.outgoing = Some(out);
                    }
                }
            }
        }
        Ok(any)
    }

    /// Sends the packet that stands behind the headroom of `loan`. There is room in the ring.
    fn send(&mut self, circuit: u32, mut loan: Loan, octets: usize) {
        if let Some(n) = self.ip.encapsulate(&mut loan, octets)
            && self.endpoint.send(ChannelId(circuit), loan, n).is_err()
        {
            self.ip.sent.drop_one(DropReason::Oversize);
        }
    }

    fn sleep(&mut self) -> io::Result<()> {
        self.endpoint.arm();
        if !self.turn()? {
            // With a packet that waits for room the device is of no interest, and nothing rings when room comes.
            let blocked = self.outgoing.is_some() || self.loan.is_none() && self.endpoint.unsent() > 0;
            let due = self.ip.poll_timeout().map_or(MAX_WAIT, |at| at.since(self.now()));
            let wait = if blocked { Duration::from_micros(200) } else { due.min(MAX_WAIT) };
            let spec = Timespec { tv_sec: 0, tv_nsec: i64::from(wait.subsec_nanos()) };
            let mut fds = [
                PollFd::from_borrowed_fd(self.endpoint.as_fd(), PollFlags::IN),
                PollFd::new(&self.device, PollFlags::IN),
            ];
            let watched = if blocked { &mut fds[..1] } else { &mut fds[..] };
            match poll(watched, Some(&spec)) {
                // A signal: the caller's `stop` knows whether it means the end.
                Ok(_) | Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
        self.endpoint.disarm();
        Ok(())
    }
}

/// A packet that the device's queue has no room for, or that the kernel takes for no packet, is lost, as on any interface.
fn lost_or(written: io::Result<()>, ip: &mut IpInterface) -> io::Result<()> {
    match written {
        Err(e) if e.kind() == ErrorKind::WouldBlock || e.raw_os_error() == Some(105) => {
            ip.received.drop_one(DropReason::QueueFull);
            Ok(())
        }
        Err(e) if e.kind() == ErrorKind::InvalidInput => {
            ip.received.drop_one(DropReason::Malformed);
            Ok(())
        }
        other => other,
    }
}
