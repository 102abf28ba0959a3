//! An ATM pseudowire over UDP (RFC 4717 in MPLS, RFC 7510): a link whose far end is any router that speaks it.
//!
//! In cell mode ("N to one"), up to [`MAX_CELLS`] cells of 52 octets go in each datagram, with their VPIs and VCIs: all
//! circuits of the link pass. In SDU mode, one circuit's AAL5 SDUs do, whole; the pseudowire's ends agree on the
//! circuit, and packets do not name it.
//!
//! [`Codec`] is the part without a socket, [`PseudowireShell`] the socket. A pseudowire has no heartbeats: it is up as
//! long as it is there.

use super::buffer_octets;
use super::buffers::set_buffers;
use crate::sys::datagrams::{self, Inbox};
use net::external::External;
use net::node::NodeIo;
use net::{Frame, FrameAal};
use sar::SduMeta;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use wire::octets::{CELL52_OCTETS, Format, emit52, parse52};
use wire::pseudowire::{ControlWord, Flags, Mode, Packet, Sequence, next};
use wire::{CellRate, CircuitId, Counters, DropReason, Time};

/// Cells of a datagram at most: with all heads it is within an Ethernet's 1500 octets.
pub const MAX_CELLS: usize = 27;
/// Octets of a datagram at most: UDP's, less the heads of IPv4 and UDP.
const MAX_OCTETS: usize = 65_507;
/// Datagrams that are sent, and times that the socket is read, in one call at most.
const CALLS: usize = 64;

/// What both ends of a pseudowire agree on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Cells, or SDUs of this circuit.
    pub carries: Carries,
    /// The label of what is sent, which the peer has chosen.
    pub label_out: u32,
    /// The label of what is received.
    pub label_in: u32,
    /// Whether packets have a control word. SDUs have one always (RFC 4717).
    pub control_word: bool,
}

/// What passes on a pseudowire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carries {
    /// Cells of all circuits.
    Cells,
    /// SDUs of this circuit.
    Sdus(CircuitId),
}

impl Config {
    const fn mode(&self) -> Mode {
        match self.carries {
            Carries::Cells => Mode::Cells,
            Carries::Sdus(_) => Mode::Sdu,
        }
    }

    const fn has_control(&self) -> bool {
        self.control_word || matches!(self.carries, Carries::Sdus(_))
    }
}

/// Datagrams to cells or SDUs and back.
#[derive(Debug)]
pub struct Codec {
    config: Config,
    sequence_out: u16,
    sequence_in: Sequence,
}

impl Codec {
    /// A codec before the first datagram. It numbers packets from 1.
    pub fn new(config: Config) -> Self {
        Codec { config, sequence_out: 1, sequence_in: Sequence::default() }
    }

    /// What is in a datagram goes to port 0 of `io`; what is none of this pseudowire's, or has no room, is counted there.
    pub fn receive(&mut self, datagram: &[u8], io: &mut NodeIo<'_>) {
        let Ok(packet) = Packet::parse(datagram, self.config.mode(), self.config.has_control()) else {
            return io.count_drops(0, DropReason::Malformed, 1);
        };
        if packet.label != self.config.label_in {
            return io.count_drops(0, DropReason::UnknownCircuit, 1);
        }
        let number = packet.control.map_or(0, |control| control.sequence);
        if !self.sequence_in.take(number) {
            return io.count_drops(0, DropReason::Sequence, units(&packet, self.config.carries));
        }
        match self.config.carries {
            Carries::Cells => receive_cells(packet.payload, io),
            Carries::Sdus(circuit) => receive_sdu(&packet, circuit, io),
        }
    }

    /// Writes the next datagram of what is at port 0 of `io`; gives its octets. What it was made of stays until
    /// [`Codec::sent`].
    pub fn fill(&self, io: &NodeIo<'_>, datagram: &mut [u8]) -> Option<Filled> {
        match self.config.carries {
            Carries::Cells => self.fill_cells(io, datagram),
            Carries::Sdus(_) => self.fill_sdu(io, datagram),
        }
    }

    fn fill_cells(&self, io: &NodeIo<'_>, datagram: &mut [u8]) -> Option<Filled> {
        let cells = io.cells_in(0);
        let cells = cells.get(..cells.len().min(MAX_CELLS)).filter(|cells| !cells.is_empty())?;
        let mut payload = [0; MAX_CELLS * CELL52_OCTETS];
        for (cell, room) in cells.iter().zip(payload.chunks_exact_mut(CELL52_OCTETS)) {
            room.copy_from_slice(&emit52(cell));
        }
        let payload = &payload[..cells.len() * CELL52_OCTETS];
        let octets = self.write(Flags::default(), payload, datagram)?;
        Some(Filled { octets, units: cells.len() })
    }

    fn fill_sdu(&self, io: &NodeIo<'_>, datagram: &mut [u8]) -> Option<Filled> {
        let (frame, sdu) = io.frame_in(0)?;
        let flags =
            Flags { is_cell: false, efci: frame.meta.congestion, clp: frame.meta.clp, uu: frame.meta.uu & 1 != 0 };
        let octets = self.write(flags, sdu, datagram)?;
        Some(Filled { octets, units: 1 })
    }

    /// `None` for what no datagram has room for.
    fn write(&self, flags: Flags, payload: &[u8], datagram: &mut [u8]) -> Option<usize> {
        let control = self.config.has_control().then_some(ControlWord { flags, sequence: self.sequence_out });
        let (head, n) = Packet { label: self.config.label_out, control, payload }.emit_head();
        let room = datagram.get_mut(..n + payload.len())?;
        room[..n].copy_from_slice(&head[..n]);
        room[n..].copy_from_slice(payload);
        Some(n + payload.len())
    }

    /// Whether the SDU that comes next is one that this pseudowire can carry; one that is not is counted and taken off.
    fn drop_unfit(&self, io: &mut NodeIo<'_>) {
        let Carries::Sdus(circuit) = self.config.carries else { return };
        while let Some((frame, sdu)) = io.frame_in(0) {
            let reason = match (frame.aal, frame.circuit == circuit) {
                (FrameAal::Aal5, true) if sdu.len() <= MAX_OCTETS - 8 => return,
                (FrameAal::Aal5, true) => DropReason::Oversize,
                (FrameAal::Aal5, false) => DropReason::UnknownCircuit,
                _ => DropReason::WrongAal,
            };
            io.release_frame(0);
            io.count_lost(0, reason, 1);
        }
    }

    /// The datagram is on its way.
    pub fn sent(&mut self, filled: &Filled, io: &mut NodeIo<'_>) {
        self.sequence_out = next(self.sequence_out);
        match self.config.carries {
            Carries::Cells => io.consume(0, filled.units),
            Carries::Sdus(_) => io.release_frame(0),
        }
    }

    /// Whether port 0 of `io` has room for the next datagram, or would have no more if it were empty.
    pub fn has_room(&self, io: &NodeIo<'_>) -> bool {
        let needed = if self.config.carries == Carries::Cells { MAX_CELLS } else { 1 };
        io.room(0) >= needed || io.is_drained(0)
    }
}

/// A datagram that was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Filled {
    /// Its octets.
    pub octets: usize,
    /// Cells in it, or 1 for an SDU.
    pub units: usize,
}

/// What is lost with a packet.
fn units(packet: &Packet<'_>, carries: Carries) -> u64 {
    if carries == Carries::Cells { (packet.payload.len() / CELL52_OCTETS) as u64 } else { 1 }
}

fn receive_cells(payload: &[u8], io: &mut NodeIo<'_>) {
    for octets in payload.chunks_exact(CELL52_OCTETS) {
        match parse52(octets, Format::Nni) {
            Ok(cell) if cell.is_filler() => {}
            Ok(cell) if io.put_cell(0, &cell) => {}
            Ok(_) => io.count_drops(0, DropReason::QueueFull, 1),
            Err(_) => io.count_drops(0, DropReason::Malformed, 1),
        }
    }
}

fn receive_sdu(packet: &Packet<'_>, circuit: CircuitId, io: &mut NodeIo<'_>) {
    let flags = packet.control.unwrap_or_default().flags;
    // An OAM cell: a link of whole SDUs has no room for it.
    if flags.is_cell {
        return io.count_drops(0, DropReason::WrongAal, 1);
    }
    let meta = SduMeta { uu: flags.uu.into(), cpi: 0, clp: flags.clp, congestion: flags.efci };
    let frame = io.pool_mut().copy_in(circuit, FrameAal::Aal5, meta, packet.payload);
    let Some(frame) = frame else { return io.count_drops(0, DropReason::NoBuffer, 1) };
    if let Err(frame) = io.put_frame(0, frame) {
        give_back(frame, io);
        io.count_drops(0, DropReason::QueueFull, 1);
    }
}

fn give_back(frame: Frame, io: &mut NodeIo<'_>) {
    io.pool_mut().release(frame);
}

/// A pseudowire's socket. Datagrams from other addresses than the peer's are dropped by the system.
#[derive(Debug)]
pub struct PseudowireShell {
    socket: UdpSocket,
    peer: SocketAddr,
    codec: Codec,
    inbox: Inbox,
    outbox: Box<[u8]>,
    /// The socket took no more at the last attempt.
    full: bool,
}

impl PseudowireShell {
    /// Binds to `local` and sends to `peer`.
    ///
    /// # Errors
    /// As the system says.
    pub fn new(local: SocketAddr, peer: SocketAddr, config: Config) -> io::Result<Self> {
        let socket = UdpSocket::bind(local)?;
        socket.connect(peer)?;
        socket.set_nonblocking(true)?;
        set_buffers(&socket, buffer_octets(None));
        datagrams::receive_together(socket.as_fd());
        let (inbox, outbox) = (Inbox::new(), vec![0; MAX_OCTETS].into_boxed_slice());
        Ok(PseudowireShell { socket, peer, codec: Codec::new(config), inbox, outbox, full: false })
    }

    /// Datagrams that are here go to the link as far as it has room for them. True if all have gone.
    fn deliver(&mut self, io: &mut NodeIo<'_>) -> bool {
        while let Some(datagram) = self.inbox.first() {
            if !self.codec.has_room(io) {
                return false;
            }
            self.codec.receive(datagram, io);
            self.inbox.pass();
        }
        true
    }

    fn read(&mut self, io: &mut NodeIo<'_>) {
        for _ in 0..CALLS {
            if !self.deliver(io) || !self.inbox.fill(self.socket.as_fd()) {
                return;
            }
        }
        self.deliver(io);
    }

    /// Sends the next datagram. False if there is none, or the socket is full.
    fn send(&mut self, io: &mut NodeIo<'_>) -> bool {
        self.codec.drop_unfit(io);
        let Some(filled) = self.codec.fill(io, &mut self.outbox) else { return false };
        let octets = &self.outbox[..filled.octets];
        // The first attempt may be answered with an error of an earlier datagram, such as that nobody listened there.
        let sent = self.socket.send(octets).or_else(|e| match e.kind() {
            ErrorKind::WouldBlock => Err(e),
            _ => self.socket.send(octets),
        });
        match sent {
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                self.full = true;
                return false;
            }
            Err(_) => io.count_drops(0, DropReason::LinkDown, filled.units as u64),
            Ok(_) => {}
        }
        self.codec.sent(&filled, io);
        true
    }
}

impl External for PseudowireShell {
    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn keeps_fd(&self) -> bool {
        true
    }

    fn wants_read(&self) -> bool {
        self.inbox.first().is_none()
    }

    fn wants_write(&self) -> bool {
        self.full
    }

    fn handle_readable(&mut self, io: &mut NodeIo<'_>, _: Time) {
        self.read(io);
    }

    fn handle_writable(&mut self, io: &mut NodeIo<'_>, now: Time) {
        self.full = false;
        self.run(io, now);
    }

    fn run(&mut self, io: &mut NodeIo<'_>, _: Time) -> bool {
        let before = io.room(0);
        self.deliver(io);
        let mut busy = io.room(0) != before;
        for _ in 0..CALLS {
            if self.full || !self.send(io) {
                break;
            }
            busy = true;
        }
        busy
    }

    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    fn is_up(&self) -> bool {
        true
    }

    fn set_rate(&mut self, rate: Option<CellRate>) {
        set_buffers(&self.socket, buffer_octets(rate));
    }

    fn counters(&self) -> Vec<(&'static str, Counters)> {
        let mut datagrams = Counters::default();
        datagrams.drop_n(DropReason::SocketFull, datagrams::dropped(self.socket.as_fd()).unwrap_or(0).into());
        vec![("datagrams", datagrams)]
    }

    fn status(&self) -> String {
        let local = self.socket.local_addr().map(|a| a.to_string()).unwrap_or_default();
        let Config { label_out, label_in, .. } = self.codec.config;
        format!("pseudowire {local} to {}, label {label_out} out, {label_in} in", self.peer)
    }
}

#[cfg(test)]
mod tests;
