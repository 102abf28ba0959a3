//! The service's side of an injection: a thread that reads cells of 53 octets from a socket and puts them on a link, as
//! if the node at one of its ends had sent them.
//!
//! Each header passes the receiver of I.432.1 section 4.3.2: a single wrong bit is corrected, anything else is counted
//! `header_error` at the link. A link without room lets the thread wait, and with it whoever writes: the engine's thread
//! never does. At the writer's end the thread says what it has done ([`Injected`]) and closes.

use crate::protocol::Injected;
use anyhow::{Context as _, Result, anyhow, bail};
use host::engine::EngineHandle;
use net::{Carries, LinkId, NodeIo, Side};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, sockopt};
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Weak};
use std::time::Duration;
use wire::cell::CELL_OCTETS;
use wire::hec::{Receiver, Verdict};
use wire::octets::{Format, parse53};
use wire::{Cell, DropReason};

/// Cells that are put on the link at once.
const BATCH: usize = 256;
/// Between two looks whether a full link has room.
const FULL: Duration = Duration::from_millis(1);

/// Where cells are put.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The link.
    pub link: LinkId,
    /// The end that seems to send.
    pub side: Side,
    /// The station there, with its port.
    pub station: String,
}

/// The end of a pair of sockets that came with the request.
///
/// # Errors
/// Something else came.
pub fn accept(fds: Vec<OwnedFd>) -> Result<UnixStream> {
    let fd = fds.into_iter().next().context("an injection needs a socket: pass an end of a pair along")?;
    let stream =
        sockopt::socket_domain(&fd) == Ok(AddressFamily::UNIX) && sockopt::socket_type(&fd) == Ok(SocketType::STREAM);
    stream.then(|| UnixStream::from(fd)).context("cells are read from an end of a pair of UNIX stream sockets")
}

/// The end of a link that `from` names.
///
/// # Errors
/// The link is gone, carries no cells, or has no such end.
pub fn find(engine: &EngineHandle, link: &str, from: Option<&str>) -> Result<Place> {
    let (side, station) = side_of(link, from)?;
    let name = link.to_owned();
    let (id, carries) = engine.with(move |core| {
        let id = core.fabric.find_link(&name).ok_or_else(|| anyhow!("the link is gone"))?;
        let carries = core.network.at_end(id, side, core.now(), |io| io.carries(0)).flatten();
        anyhow::Ok((id, carries))
    })??;
    if carries != Some(Carries::Cells) {
        bail!("{link} carries whole SDUs: cells can be put only on a link that carries cells");
    }
    Ok(Place { link: id, side, station })
}

/// Which end of a link called `alpha:0 - s1:0` has this name, with or without its port.
fn side_of(link: &str, from: Option<&str>) -> Result<(Side, String)> {
    let (first, second) = link.split_once(" - ").with_context(|| format!("{link} is no link of two ends"))?;
    let ends = [(Side::A, first), (Side::B, second)];
    let Some(from) = from else { return Ok((Side::A, first.to_owned())) };
    let has_name = |end: &str| end == from || end.rsplit_once(':').is_some_and(|(station, _)| station == from);
    let found = ends.into_iter().find(|(_, end)| has_name(end));
    let found = found.with_context(|| format!("{link} has no end `{from}`: its ends are {first} and {second}"))?;
    Ok((found.0, found.1.to_owned()))
}

/// An injection that has begun.
#[derive(Debug, Clone)]
pub struct Injection(Weak<UnixStream>);

impl Injection {
    /// Ends it.
    pub fn revoke(&self) {
        if let Some(socket) = self.0.upgrade() {
            // One that is closed already has ended.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// Whether it has ended.
    pub fn is_over(&self) -> bool {
        self.0.strong_count() == 0
    }
}

/// Starts the thread.
///
/// # Errors
/// No thread to be had.
pub fn start(engine: EngineHandle, place: Place, from: UnixStream) -> io::Result<Injection> {
    from.set_nonblocking(false)?;
    let from = Arc::new(from);
    let injection = Injection(Arc::downgrade(&from));
    std::thread::Builder::new().name("inject".into()).spawn(move || {
        // Without an answer the writer sees by the closed socket that the link, or the network, is gone.
        let _ = pump(&engine, &place, &from);
    })?;
    Ok(injection)
}

/// Reads and puts until the writer's end; then answers.
fn pump(engine: &EngineHandle, place: &Place, mut socket: &UnixStream) -> io::Result<()> {
    let (mut receiver, mut done) = (Receiver::default(), Injected::default());
    let mut octets = vec![0; BATCH * CELL_OCTETS];
    let mut filled = 0;
    loop {
        match socket.read(&mut octets[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) if e.kind() == ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        }
        let (whole, errors) = (filled - filled % CELL_OCTETS, done.header_errors);
        let whole_cells = octets[..whole].chunks_exact_mut(CELL_OCTETS);
        let cells: Vec<Cell> = whole_cells.filter_map(|cell| receive(&mut receiver, cell, &mut done)).collect();
        octets.copy_within(whole..filled, 0);
        filled -= whole;
        done.cells += put(engine, place, (cells, done.header_errors - errors), socket)?;
    }
    let mut line = serde_json::to_vec(&done)?;
    line.push(b'\n');
    socket.write_all(&line)
}

/// A cell whose header is right, or has been put right; one of `None` is counted at the link by [`put`].
fn receive(receiver: &mut Receiver, octets: &mut [u8], done: &mut Injected) -> Option<Cell> {
    let header = octets.first_chunk_mut::<5>()?;
    match receiver.check(header) {
        Verdict::Good => {}
        Verdict::Corrected => done.corrected += 1,
        Verdict::Bad => {
            done.header_errors += 1;
            return None;
        }
    }
    parse53(octets, Format::Nni).ok()
}

/// Puts cells on the link, each as soon as there is room, and counts so many headers that were wrong. Gives how many
/// were put.
fn put(
    engine: &EngineHandle,
    place: &Place,
    (mut cells, mut errors): (Vec<Cell>, u64),
    writer: &UnixStream,
) -> io::Result<u64> {
    let Place { link, side, .. } = *place;
    let mut begin = 0;
    loop {
        let step = engine.with(move |core| {
            let now = core.now();
            let put = core.network.at_end(link, side, now, |io| put_some(io, &cells[begin..], errors));
            (put, cells)
        });
        let (put, back) = step.map_err(io::Error::other)?;
        (cells, errors) = (back, 0);
        begin += put.ok_or(ErrorKind::NotFound)?;
        if begin == cells.len() {
            return Ok(begin as u64);
        }
        wait_for_room(writer)?;
    }
}

/// A moment in which the link may get room.
///
/// # Errors
/// The writer has gone: nobody waits for the rest.
fn wait_for_room(writer: &UnixStream) -> io::Result<()> {
    let spec = Timespec { tv_sec: 0, tv_nsec: FULL.subsec_nanos().into() };
    let mut fds = [PollFd::new(writer, PollFlags::empty())];
    match poll(&mut fds, Some(&spec)) {
        Ok(0) | Err(Errno::INTR) => Ok(()),
        Ok(_) => Err(ErrorKind::BrokenPipe.into()),
        Err(e) => Err(e.into()),
    }
}

fn put_some(io: &mut NodeIo<'_>, cells: &[Cell], errors: u64) -> usize {
    if errors > 0 {
        io.count_drops(0, DropReason::HeaderError, errors);
    }
    cells.iter().take_while(|cell| io.put_cell(0, cell)).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use wire::CellHeader;
    use wire::octets::emit53;

    #[test]
    fn an_end_is_named_with_or_without_its_port_and_the_first_one_is_the_default() {
        const LINK: &str = "alpha:0 - s1:2";
        for (from, expected) in [
            (None, (Side::A, "alpha:0")),
            (Some("alpha"), (Side::A, "alpha:0")),
            (Some("s1"), (Side::B, "s1:2")),
            (Some("s1:2"), (Side::B, "s1:2")),
        ] {
            let (side, station) = side_of(LINK, from).unwrap();
            assert_eq!((side, &*station), expected, "{from:?}");
        }
        let refused = side_of(LINK, Some("beta")).unwrap_err().to_string();
        assert!(refused.contains("alpha:0 and s1:2"), "{refused}");
        assert!(side_of("alpha", None).is_err());
    }

    #[test]
    fn one_wrong_bit_of_a_header_is_corrected_and_two_are_an_error() {
        let cell = Cell::new(CellHeader::from_word(0x0080_0230), [7; 48]);
        let (mut receiver, mut done) = (Receiver::default(), Injected::default());
        for bits in [0u8, 1, 0, 3] {
            let mut octets = emit53(&cell, Format::Nni);
            octets[4] ^= bits;
            let received = receive(&mut receiver, &mut octets, &mut done);
            assert_eq!(received, Some(cell).filter(|_| bits != 3), "{bits}");
        }
        assert_eq!((done.corrected, done.header_errors), (1, 1));
    }

    proptest! {
        #[test]
        fn no_octets_panic_and_each_cell_is_taken_or_counted(octets in proptest::collection::vec(any::<u8>(), 53 * 4)) {
            let (mut receiver, mut done, mut octets) = (Receiver::default(), Injected::default(), octets);
            let taken = octets.chunks_exact_mut(53).filter_map(|cell| receive(&mut receiver, cell, &mut done)).count();
            prop_assert_eq!(taken as u64 + done.header_errors, 4);
        }
    }
}
