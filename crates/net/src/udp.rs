//! Cells over UDP: a cell link whose far end is a socket address. One 53-octet cell with HEC per datagram, as cell-switch
//! emulators speak, or Cellway's own batches ([`wire::udp`]).

use crate::external::External;
use crate::node::NodeIo;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use wire::cell::CELL_OCTETS;
use wire::octets::{Format, emit53, parse53};
use wire::udp::{Batch, MAX_CELLS, MAX_OCTETS, emit};
use wire::{DropReason, Time, hec};

/// Datagrams of one call at most.
const DATAGRAMS: usize = 64;

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
    next_in: Option<u32>,
    lost_datagrams: u64,
    corrected_headers: u64,
}

impl Codec {
    /// A codec before the first datagram.
    pub fn new(form: Form) -> Self {
        let receiver = hec::Receiver::default();
        Codec { form, receiver, next_out: 0, next_in: None, lost_datagrams: 0, corrected_headers: 0 }
    }

    /// Datagrams that gaps in the sequence numbers show to be missing (batches only).
    pub fn lost_datagrams(&self) -> u64 {
        self.lost_datagrams
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
                    let gap = self.next_in.map_or(0, |next| batch.sequence.wrapping_sub(next));
                    // A large gap is a datagram that came late, or a peer that began anew.
                    self.lost_datagrams += if gap < 1 << 16 { u64::from(gap) } else { 0 };
                    self.next_in = Some(batch.sequence.wrapping_add(1));
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
        Ok(Shell { socket, peer, codec: Codec::new(form), full: false })
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
            match self.socket.recv(&mut datagram) {
                Ok(n) => self.codec.receive(&datagram[..n], io),
                // Nothing there, or the peer's port was closed when we sent: both pass.
                Err(_) => break,
            }
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

    fn status(&self) -> String {
        let local = self.socket.local_addr().map(|a| a.to_string()).unwrap_or_default();
        format!("{local} to {}", self.peer)
    }
}
