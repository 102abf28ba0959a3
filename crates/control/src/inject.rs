//! Cells that a command puts on a link, as if the node at one of its ends had sent them. In: cells of 53 octets in a
//! memory file that came with the request. Out: how many the link has taken.
//!
//! Each header passes the receiver of I.432.1 section 4.3.2: a single wrong bit is corrected, anything else is counted
//! `header_error` at the link. Where the link has no room, the request's own thread waits, for [`PATIENCE`] at most: the
//! engine's thread never does. Who asks sends the rest again.

use crate::protocol::Injected;
use anyhow::{Context as _, Result, anyhow, bail};
use endpoint::sealed;
use host::engine::EngineHandle;
use net::{Carries, LinkId, NodeIo, Side};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use wire::cell::CELL_OCTETS;
use wire::hec::{Receiver, Verdict};
use wire::octets::{Format, parse53};
use wire::{Cell, DropReason};

/// Cells of a request at most.
pub const MAX_CELLS: usize = 16_384;
/// Cells that are put on the link at once.
const BATCH: usize = 256;
/// Between two looks whether a full link has room.
const FULL: Duration = Duration::from_millis(1);
/// How long a request waits for room.
pub const PATIENCE: Duration = Duration::from_millis(200);

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

/// The cells that came with a request.
///
/// # Errors
/// No memory file, one that is not sealed, too many, or no whole cells.
pub fn cells(fds: &[OwnedFd]) -> Result<Vec<u8>> {
    let fd = fds.first().context("cells come in a memory file: pass its descriptor along")?;
    let octets = sealed::read(fd, MAX_CELLS * CELL_OCTETS).context("cells")?;
    if !octets.len().is_multiple_of(CELL_OCTETS) {
        bail!("{} octets are no whole cells of {CELL_OCTETS}", octets.len());
    }
    Ok(octets)
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

/// Puts cells on a link, each as soon as there is room.
///
/// # Errors
/// The link, or the network, is gone.
pub fn put(engine: &EngineHandle, place: &Place, octets: &[u8]) -> Result<Injected> {
    let (mut receiver, mut done) = (Receiver::default(), Injected::default());
    let mut end = Instant::now() + PATIENCE;
    for batch in octets.chunks(BATCH * CELL_OCTETS) {
        let errors = done.header_errors;
        let mut batch = batch.to_vec();
        let cells = batch.chunks_exact_mut(CELL_OCTETS).map(|cell| receive(&mut receiver, cell, &mut done));
        let cells: Vec<Option<Cell>> = cells.collect();
        let (taken, put) = put_batch(engine, place, &cells, done.header_errors - errors, &mut end)?;
        (done.taken, done.cells) = (done.taken + taken, done.cells + put);
        if (taken as usize) < cells.len() {
            // What is beyond comes again: it has not been seen.
            done.header_errors = errors + cells[..taken as usize].iter().filter(|cell| cell.is_none()).count() as u64;
            break;
        }
    }
    Ok(done)
}

/// Puts cells on the link until there has been no room for long, and counts headers that were wrong. Gives how many
/// places of the batch are done, and how many cells were put.
fn put_batch(
    engine: &EngineHandle,
    place: &Place,
    batch: &[Option<Cell>],
    errors: u64,
    end: &mut Instant,
) -> Result<(u64, u64)> {
    let Place { link, side, .. } = *place;
    let mut cells: Vec<Cell> = batch.iter().flatten().copied().collect();
    let mut begin = 0;
    while begin < cells.len() {
        let step = engine.with(move |core| {
            let now = core.now();
            let put = core.network.at_end(link, side, now, |io| put_some(io, &cells[begin..]));
            (put, cells)
        })?;
        cells = step.1;
        let put = step.0.context("the link is gone")?;
        begin += put;
        if put > 0 {
            *end = Instant::now() + PATIENCE;
        } else if Instant::now() >= *end {
            break;
        }
        if begin < cells.len() {
            std::thread::sleep(FULL);
        }
    }
    let all = begin == cells.len();
    // The place behind the last cell that was put.
    let puts = batch.iter().enumerate().filter(|(_, cell)| cell.is_some()).map(|(n, _)| n + 1);
    let taken = if all { batch.len() } else { puts.take(begin).last().unwrap_or(0) };
    let wrong = if all { errors } else { batch[..taken].iter().filter(|cell| cell.is_none()).count() as u64 };
    if wrong > 0 {
        let counted = engine.with(move |core| {
            let now = core.now();
            core.network.at_end(link, side, now, |io| io.count_drops(0, DropReason::HeaderError, wrong))
        })?;
        counted.context("the link is gone")?;
    }
    Ok((taken as u64, begin as u64))
}

fn put_some(io: &mut NodeIo<'_>, cells: &[Cell]) -> usize {
    cells.iter().take_while(|cell| io.put_cell(0, cell)).count()
}

/// A cell whose header is right, or has been put right; `None` of another.
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
