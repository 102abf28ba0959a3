//! Cells over UDP: a cell link whose far end is a socket address. One 53-octet cell with HEC per datagram, as cell-switch
//! emulators speak, or Cellway's own batches ([`wire::udp`]).

use net::external::External;
use net::node::NodeIo;
use nix::sys::socket::sockopt::RxqOvfl;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt};
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use wire::cell::CELL_OCTETS;
use wire::octets::{Format, emit53, parse53};
use wire::udp::{Batch, MAX_CELLS, MAX_OCTETS, emit};
use wire::{Counters, DropReason, Time, Vpi, hec};

/// Datagrams of one call at most.
const DATAGRAMS: usize = 64;
/// Room for one control message, which holds a counter.
const CONTROL_OCTETS: usize = 64;

/// What a datagram holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// One cell of 53 octets with its HEC.
    Cell(Format),
    /// Up to 27 cells and a sequence number.
    Batch,
}

/// Datagrams to cells and back: the part without a socket.
#[derive(Debug)]
pub struct Codec {
    form: Form,
    receiver: hec::Receiver,
    next_out: u32,
    order: Order,
    corrected_headers: u64,
}

/// The order of sequence numbers.
#[derive(Debug, Clone, Copy, Default)]
struct Order {
    next: Option<u32>,
    /// Which of the last 64 sequence numbers have come: bit 0 is the one before `next`.
    seen: u64,
    lost: u64,
    late: u64,
}

impl Order {
    fn note(&mut self, sequence: u32) {
        let next = self.next.unwrap_or(sequence);
        let ahead = sequence.wrapping_sub(next);
        let behind = next.wrapping_sub(sequence);
        if self.next.is_none() {
            (self.next, self.seen) = (Some(sequence.wrapping_add(1)), u64::MAX);
        } else if ahead < 1 << 16 {
            self.lost += u64::from(ahead);
            self.seen = self.seen.checked_shl(ahead + 1).unwrap_or(0) | 1;
            self.next = Some(sequence.wrapping_add(1));
        } else if behind <= u64::BITS {
            // One that was taken for lost has come after all; one that comes twice changes nothing.
            let bit = 1 << (behind - 1);
            if self.seen & bit == 0 {
                self.seen |= bit;
                self.lost = self.lost.saturating_sub(1);
                self.late += 1;
            }
        } else {
            // A peer that began anew.
            (self.next, self.seen) = (Some(sequence.wrapping_add(1)), u64::MAX);
        }
    }
}

impl Codec {
    /// A codec before the first datagram.
    pub fn new(form: Form) -> Self {
        let receiver = hec::Receiver::default();
        Codec { form, receiver, next_out: 0, order: Order::default(), corrected_headers: 0 }
    }

    /// Datagrams that gaps in the sequence numbers show to be missing, and that have not come late (batches only).
    pub fn lost_datagrams(&self) -> u64 {
        self.order.lost
    }

    /// Datagrams that came after a later one (batches only).
    pub fn late_datagrams(&self) -> u64 {
        self.order.late
    }

    /// Headers in which one wrong bit was put right (I.432.1).
    pub fn corrected_headers(&self) -> u64 {
        self.corrected_headers
    }

    /// Cells of one datagram go to port 0 of `io`; what is none, or has no room, is counted there.
    pub fn receive(&mut self, datagram: &[u8], io: &mut NodeIo<'_>) {
        match self.form {
            Form::Cell(format) => {
                let Ok(mut octets) = <[u8; CELL_OCTETS]>::try_from(datagram) else {
                    return io.count_drops(0, DropReason::Malformed, 1);
                };
                if let Some(header) = octets.first_chunk_mut::<5>() {
                    match self.receiver.check(header) {
                        hec::Verdict::Good => {}
                        hec::Verdict::Corrected => self.corrected_headers += 1,
                        hec::Verdict::Bad => return io.count_drops(0, DropReason::HeaderError, 1),
                    }
                }
                match parse53(&octets, format) {
                    Ok(cell) if io.put_cell(0, &cell) => {}
                    Ok(_) => io.count_drops(0, DropReason::QueueFull, 1),
                    Err(_) => io.count_drops(0, DropReason::HeaderError, 1),
                }
            }
            Form::Batch => match Batch::new_checked(datagram) {
                Ok(batch) => {
                    self.order.note(batch.sequence);
                    for cell in batch.cells() {
                        if !io.put_cell(0, &cell) {
                            io.count_drops(0, DropReason::QueueFull, 1);
                        }
                    }
                }
                Err(_) => io.count_drops(0, DropReason::Malformed, 1),
            },
        }
    }

    /// Drops the first cells at port 0 of `io` whose VPI the form has no room for, counted.
    fn drop_unfit(&self, io: &mut NodeIo<'_>) {
        if self.form != Form::Cell(Format::Uni) {
            return;
        }
        let unfit = io.cells_in(0).iter().take_while(|cell| cell.circuit().vpi > Vpi::MAX_UNI).count();
        if unfit > 0 {
            io.consume(0, unfit);
            io.count_drops(0, DropReason::Malformed, unfit as u64);
        }
    }

    /// Writes the next datagram of the cells at port 0 of `io`; gives octets of it and cells in it. The cells stay until
    /// they are consumed.
    pub fn transmit(&self, io: &NodeIo<'_>, datagram: &mut [u8; MAX_OCTETS]) -> Option<(usize, usize)> {
        let cells = io.cells_in(0);
        let first = cells.first()?;
        Some(match self.form {
            Form::Cell(format) => {
                datagram[..CELL_OCTETS].copy_from_slice(&emit53(first, format));
                (CELL_OCTETS, 1)
            }
            Form::Batch => (emit(self.next_out, cells, datagram), cells.len().min(MAX_CELLS)),
        })
    }

    /// The datagram of [`Codec::transmit`] is on its way.
    pub fn transmitted(&mut self, cells: usize, io: &mut NodeIo<'_>) {
        self.next_out = self.next_out.wrapping_add(1);
        io.consume(0, cells);
    }
}

/// A UDP link's socket. Datagrams from other addresses than the peer's are dropped by the system.
#[derive(Debug)]
pub struct Shell {
    socket: UdpSocket,
    peer: SocketAddr,
    codec: Codec,
    /// The socket took no more at the last attempt.
    full: bool,
    /// Datagrams that the system had no room for in the socket (`SO_RXQ_OVFL`: it says how many with the next one).
    overflowed: u32,
}

impl Shell {
    /// Binds to `local` and sends to `peer`.
    ///
    /// # Errors
    /// As the system says.
    pub fn new(local: SocketAddr, peer: SocketAddr, form: Form) -> io::Result<Self> {
        Shell::with_socket(UdpSocket::bind(local)?, peer, form)
    }

    /// The same with a socket that is bound already.
    ///
    /// # Errors
    /// As the system says.
    pub fn with_socket(socket: UdpSocket, peer: SocketAddr, form: Form) -> io::Result<Self> {
        socket.connect(peer)?;
        socket.set_nonblocking(true)?;
        // An older system does not count: then none are shown.
        let _ = setsockopt(&socket, RxqOvfl, &1);
        Ok(Shell { socket, peer, codec: Codec::new(form), full: false, overflowed: 0 })
    }

    /// Datagrams that the system dropped because nobody had read those before them.
    pub fn overflowed_datagrams(&self) -> u32 {
        self.overflowed
    }

    /// The next datagram, if there is one.
    fn receive(&mut self, datagram: &mut [u8]) -> Option<usize> {
        let mut into = [IoSliceMut::new(datagram)];
        let mut control = [0; CONTROL_OCTETS];
        // Nothing there, or the peer's port was closed when we sent: both pass.
        let got = recvmsg::<()>(self.socket.as_raw_fd(), &mut into, Some(&mut control), MsgFlags::MSG_DONTWAIT).ok()?;
        for message in got.cmsgs().ok()? {
            if let ControlMessageOwned::RxqOvfl(dropped) = message {
                self.overflowed = dropped;
            }
        }
        Some(got.bytes)
    }

    /// What datagrams have shown.
    pub fn codec(&self) -> &Codec {
        &self.codec
    }
}

impl External for Shell {
    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn wants_read(&self) -> bool {
        true
    }

    fn wants_write(&self) -> bool {
        self.full
    }

    fn handle_readable(&mut self, io: &mut NodeIo<'_>, _: Time) {
        // One octet more than any datagram has: a longer one is seen to be longer.
        let mut datagram = [0; MAX_OCTETS + 1];
        for _ in 0..DATAGRAMS {
            let Some(n) = self.receive(&mut datagram) else { break };
            self.codec.receive(&datagram[..n], io);
        }
    }

    fn handle_writable(&mut self, io: &mut NodeIo<'_>, now: Time) {
        self.full = false;
        self.run(io, now);
    }

    fn run(&mut self, io: &mut NodeIo<'_>, _: Time) -> bool {
        let mut datagram = [0; MAX_OCTETS];
        let mut busy = false;
        for _ in 0..DATAGRAMS {
            if self.full {
                break;
            }
            self.codec.drop_unfit(io);
            let Some((octets, cells)) = self.codec.transmit(io, &mut datagram) else { break };
            match self.socket.send(&datagram[..octets]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.full = true,
                sent => {
                    if sent.is_err() {
                        io.count_drops(0, DropReason::LinkDown, cells as u64);
                    }
                    self.codec.transmitted(cells, io);
                    busy = true;
                }
            }
        }
        busy
    }

    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    fn is_up(&self) -> bool {
        true
    }

    fn counters(&self) -> Vec<(&'static str, Counters)> {
        let mut datagrams = Counters::default();
        datagrams.drop_n(DropReason::Sequence, self.codec.lost_datagrams());
        datagrams.drop_n(DropReason::QueueFull, self.overflowed.into());
        vec![("datagrams", datagrams)]
    }

    fn status(&self) -> String {
        let local = self.socket.local_addr().map(|a| a.to_string()).unwrap_or_default();
        let mut text = format!("{local} to {}", self.peer);
        let told = [
            (self.codec.lost_datagrams(), "missing"),
            (self.codec.late_datagrams(), "late"),
            (self.overflowed.into(), "dropped by the system"),
        ];
        for (n, what) in told.into_iter().filter(|(n, _)| *n > 0) {
            text += &format!(", {n} datagrams {what}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(sequence: &[u32]) -> (u64, u64) {
        let mut order = Order::default();
        sequence.iter().for_each(|n| order.note(*n));
        (order.lost, order.late)
    }

    #[test]
    fn a_datagram_that_comes_late_is_not_lost_and_one_that_comes_twice_is_not_late() {
        assert_eq!(noted(&[7, 8, 9]), (0, 0));
        assert_eq!(noted(&[7, 9, 8, 10]), (0, 1));
        assert_eq!(noted(&[7, 9, 8, 8, 10]), (0, 1));
        assert_eq!(noted(&[7, 12]), (4, 0));
        assert_eq!(noted(&[u32::MAX, 1, 0]), (0, 1));
        // The peer began anew.
        assert_eq!(noted(&[1_000_000, 5, 6]), (0, 0));
        // Before the first, and too far back to know.
        assert_eq!(noted(&[7, 6]), (0, 0));
    }
}
