//! An endpoint that is spoken to by hand: it does what no library would.

use crate::circuit;
use endpoint::control::{Request, Response};
use endpoint::layout::{ANY_NEWS, CLIENT_SLEEPS, Descriptor, Head};
use endpoint::ring::{Consumer, Producer, Which};
use endpoint::segment::Segment;
use endpoint::seqpacket::Packets;
use endpoint::{ChannelId, DataPath, Direction, Events, Geometry, OpenOptions};
use rustix::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// An endpoint of one circuit.
#[derive(Debug)]
pub struct Raw {
    /// The connection.
    pub packets: Packets,
    /// The shared memory.
    pub segment: Arc<Segment>,
    /// Its rings.
    pub send: Producer,
    /// What comes.
    pub receive: Consumer,
    /// Buffers for that.
    pub free: Producer,
    /// The descriptors that came with it: the segment, what wakes the host, what wakes the client if that is not its own.
    pub fds: Vec<OwnedFd>,
    /// The circuit's channel.
    pub channel: ChannelId,
}

impl Raw {
    /// Little memory.
    pub const GEOMETRY: Geometry =
        Geometry { send_ring: 64, receive_ring: 64, free_ring: 64, buffers: 32, buffer_octets: 2048 };

    /// With a circuit of a host's.
    pub fn new(socket: &Path, host: &str, vci: u16) -> Self {
        Self::with(socket, host, vci, (Self::GEOMETRY, Events::Interrupt, DataPath::Shared))
    }

    /// The same with what an endpoint is to have.
    ///
    /// # Panics
    /// If the service refuses it.
    pub fn with(socket: &Path, host: &str, vci: u16, what: (Geometry, Events, DataPath)) -> Self {
        Self::create(socket, host, what, &[]).opened(vci, Direction::Both)
    }

    /// One that lends its segment to whoever borrows from a circuit.
    ///
    /// # Panics
    /// If the service refuses it.
    pub fn lender(socket: &Path, host: &str, vci: u16, what: (Geometry, Events, DataPath)) -> Self {
        let raw = Self::create(socket, host, what, &[]);
        assert_eq!(raw.ask(&Request::Lend), Response::Lends);
        raw.opened(vci, Direction::Send)
    }

    /// One that borrows from whoever lends on a circuit.
    ///
    /// # Panics
    /// If the service refuses it.
    pub fn borrower(socket: &Path, host: &str, vci: u16, what: (Geometry, Events, DataPath)) -> Self {
        let raw = Self::create(socket, host, what, &[]).opened(vci, Direction::Receive);
        assert_eq!(raw.ask(&Request::Borrow { channel: raw.channel }), Response::Borrows);
        raw
    }

    /// With a bell of its own.
    ///
    /// # Panics
    /// If the service refuses it.
    pub fn with_bell(socket: &Path, host: &str, vci: u16, bell: BorrowedFd<'_>) -> Self {
        let what = (Self::GEOMETRY, Events::Interrupt, DataPath::Shared);
        Self::create(socket, host, what, &[bell]).opened(vci, Direction::Both)
    }

    fn create(
        socket: &Path,
        host: &str,
        (geometry, events, path): (Geometry, Events, DataPath),
        bell: &[BorrowedFd<'_>],
    ) -> Self {
        let packets = Packets::connect(socket).expect("a service");
        let ask = |request: &Request, fds: &[BorrowedFd<'_>]| {
            packets.send(request, fds).expect("a service");
            packets.receive::<Response>().expect("a service").expect("an answer")
        };
        ask(&Request::hello(), &[]);
        let (created, fds) = ask(&Request::CreateEndpoint { host: host.into(), geometry, events, path }, bell);
        assert!(matches!(created, Response::Created { .. }), "{created:?}");
        let segment = Arc::new(Segment::open(&fds[0], geometry).expect("a segment"));
        let ring = |which| Producer::new(&segment, which);
        let (send, receive, free) = (ring(Which::Send), Consumer::new(&segment, Which::Receive), ring(Which::Free));
        Raw { packets, segment, send, receive, free, fds, channel: ChannelId(0) }
    }

    fn opened(mut self, vci: u16, direction: Direction) -> Self {
        self.channel = self.open_as(vci, direction);
        self
    }

    /// Asks, and gives the answer.
    ///
    /// # Panics
    /// If the service has gone.
    pub fn ask(&self, request: &Request) -> Response {
        self.packets.send(request, &[]).expect("a service");
        self.packets.receive::<Response>().expect("a service").expect("an answer").0
    }

    /// Opens one more circuit.
    ///
    /// # Panics
    /// If the service refuses it.
    pub fn open(&self, vci: u16) -> ChannelId {
        self.open_as(vci, Direction::Both)
    }

    fn open_as(&self, vci: u16, direction: Direction) -> ChannelId {
        match self.ask(&Request::open(circuit(vci), OpenOptions { direction, ..OpenOptions::default() })) {
            Response::Opened { channel } => channel,
            other => panic!("{other:?}"),
        }
    }

    /// A descriptor of a short message on its channel.
    pub fn message(&self) -> Descriptor {
        let mut descriptor = Descriptor::from(Head::of_buffer(Descriptor::INLINE));
        (descriptor.head.channel, descriptor.head.octets) = (self.channel.0, 40);
        descriptor
    }

    /// Asks to be woken by the bell, and gives the host a reason to.
    pub fn provoke(&mut self) {
        self.segment.word32(CLIENT_SLEEPS).store(ANY_NEWS, Ordering::SeqCst);
        self.send.push(self.message());
        self.ring();
        while self.receive.pop().is_some() {}
        self.free.push(Head::of_buffer(1));
    }

    /// Wakes the host.
    pub fn ring(&self) {
        let _ = rustix::io::write(&self.fds[1], &1u64.to_ne_bytes());
    }
}

/// Mappings of this process, of memory files of the service, that are as long as a segment.
///
/// # Panics
/// If the system does not list them.
pub fn mappings(geometry: Geometry) -> usize {
    let octets = geometry.octets().next_multiple_of(4096);
    let maps = std::fs::read_to_string("/proc/self/maps").expect("the mappings");
    let length = |line: &&str| {
        let range = line.split_once(' ').and_then(|(range, _)| range.split_once('-'));
        let address = |text| usize::from_str_radix(text, 16).unwrap_or_default();
        range.is_some_and(|(from, to)| address(to) - address(from) == octets)
    };
    maps.lines().filter(length).filter(|line| line.contains("memfd:cellway")).count()
}
