//! Several files, one after the other: the next begins once one has so many octets, or is so old. A PDU whose cells
//! pass meanwhile is in the later file, whole.

use super::assemble::{Passed, Sink};
use crate::outfile::{OutFile, Overwriting};
use crate::units;
use anyhow::{Context as _, Result};
use clap::Args;
use std::cell::Cell;
use std::collections::VecDeque;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

/// When the next file begins.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct Rotation {
    /// Begin another file after so many MiB: FILE gets a number before its ending, c.pcapng becomes c-00001.pcapng
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub(crate) rotate_mib: Option<u64>,
    /// Begin another file after so many seconds, with the first record that passes then
    #[arg(long, value_name = "SECONDS", value_parser = units::seconds)]
    pub(crate) rotate_seconds: Option<Duration>,
    /// Of such files, keep so many: the oldest is deleted
    #[arg(long, value_name = "FILES", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) keep: Option<u32>,
}

impl Rotation {
    pub(crate) fn is_wanted(&self) -> bool {
        self.rotate_mib.is_some() || self.rotate_seconds.is_some()
    }
}

/// Counts what is written.
pub(crate) struct Counting<W> {
    inner: W,
    octets: Rc<Cell<u64>>,
}

impl<W: Write> Write for Counting<W> {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        let n = self.inner.write(octets)?;
        self.octets.set(self.octets.get() + n as u64);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// What a file of a series is written by.
pub(crate) type Numbered = Counting<BufWriter<OutFile>>;

/// A sink that is a series of files.
pub(crate) struct Rotating<S, F> {
    rotation: Rotation,
    file: PathBuf,
    overwriting: Overwriting,
    make: F,
    /// The file that is written, and the time of its first record.
    current: Option<(S, Option<Duration>)>,
    octets: Rc<Cell<u64>>,
    number: u32,
    /// Files that are there.
    kept: VecDeque<PathBuf>,
}

impl<S: Sink, F: FnMut(Numbered) -> Result<S>> Rotating<S, F> {
    /// Opens the first file.
    pub(crate) fn new(rotation: Rotation, file: &Path, overwriting: Overwriting, make: F) -> Result<Self> {
        let mut rotating = Rotating {
            rotation,
            file: file.to_owned(),
            overwriting,
            make,
            current: None,
            octets: Rc::default(),
            number: 0,
            kept: VecDeque::new(),
        };
        rotating.begin()?;
        Ok(rotating)
    }

    fn begin(&mut self) -> Result<()> {
        self.number += 1;
        let path = numbered(&self.file, self.number);
        let out = BufWriter::new(OutFile::open(&path, self.overwriting)?);
        self.octets = Rc::default();
        let sink = (self.make)(Counting { inner: out, octets: self.octets.clone() })?;
        self.current = Some((sink, None));
        self.kept.push_back(path);
        let keep = self.rotation.keep.map_or(usize::MAX, |keep| keep as usize);
        while self.kept.len() > keep {
            let Some(oldest) = self.kept.pop_front() else { break };
            std::fs::remove_file(&oldest).with_context(|| oldest.display().to_string())?;
        }
        Ok(())
    }

    /// Whether a record of this time belongs to the next file.
    fn is_due(&self, begun: Option<Duration>, time: Duration) -> bool {
        let is_long = self.rotation.rotate_mib.is_some_and(|mib| self.octets.get() >= mib << 20);
        let limit = self.rotation.rotate_seconds;
        is_long || limit.zip(begun).is_some_and(|(limit, begun)| time.saturating_sub(begun) >= limit)
    }
}

impl<S: Sink, F: FnMut(Numbered) -> Result<S>> Sink for Rotating<S, F> {
    fn write(&mut self, passed: &Passed<'_>) -> Result<bool> {
        let begun = self.current.as_ref().and_then(|(_, begun)| *begun);
        if begun.is_some() && self.is_due(begun, passed.time) {
            if let Some((mut sink, _)) = self.current.take() {
                sink.finish(passed.time, 0)?;
            }
            self.begin()?;
        }
        let (sink, begun) = self.current.as_mut().context("a series of files without a file")?;
        begun.get_or_insert(passed.time);
        sink.write(passed)
    }

    fn flush(&mut self) -> Result<()> {
        self.current.as_mut().map_or(Ok(()), |(sink, _)| sink.flush())
    }

    fn finish(&mut self, latest: Duration, missed: u64) -> Result<()> {
        self.current.as_mut().map_or(Ok(()), |(sink, _)| sink.finish(latest, missed))
    }
}

/// The name of a file of the series: its number before its ending.
fn numbered(file: &Path, number: u32) -> PathBuf {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let ending = file.extension().map(|ending| format!(".{}", ending.to_string_lossy())).unwrap_or_default();
    file.with_file_name(format!("{stem}-{number:05}{ending}"))
}

#[cfg(test)]
mod tests {
    use super::super::pcap::{Form, Pcap};
    use super::*;
    use net::Side;
    use wire::erf::Kind;
    use wire::pcap::Reader;
    use wire::{CellHeader, CircuitId};

    /// The CPCS-PDU of an SDU.
    fn pdu(sdu: &[u8]) -> Vec<u8> {
        let circuit = CircuitId::new(0, 100).unwrap();
        let mut segmentation = sar::Segmentation::new(circuit, sdu.len(), sar::SduMeta::default()).unwrap();
        let mut cells = vec![wire::Cell::default(); segmentation.cells_left()];
        segmentation.fill(sdu, &mut cells);
        cells.iter().flat_map(|cell| cell.payload).collect()
    }

    /// The packets of each file that is there.
    fn packets(folder: &Path) -> Vec<usize> {
        let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let count = |path: &PathBuf| {
            let file = std::fs::read(path).unwrap();
            let mut reader = Reader::new(&file).unwrap();
            std::iter::from_fn(|| reader.next_packet().unwrap()).count()
        };
        files.iter().map(count).collect()
    }

    fn record(rotation: Rotation, sdu: &[u8], times: impl Iterator<Item = u64>) -> Vec<usize> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("c.pcap");
        let make = |out| Pcap::new(out, Form::SunAtm);
        let mut files = Rotating::new(rotation, &file, Overwriting::default(), make).unwrap();
        let payload = pdu(sdu);
        for seconds in times {
            let (time, header) = (Duration::from_secs(seconds), CellHeader::default());
            let passed = Passed { time, side: Side::A, kind: Kind::Aal5, header, payload: &payload };
            assert!(files.write(&passed).unwrap());
        }
        files.finish(Duration::ZERO, 0).unwrap();
        assert!(!file.exists());
        packets(folder.path())
    }

    #[test]
    fn the_next_file_begins_when_one_is_long_and_no_record_is_lost() {
        let rotation = Rotation { rotate_mib: Some(1), ..Rotation::default() };
        // 18 records of 60 000 octets are beyond a MiB.
        assert_eq!(record(rotation, &[7; 60_000], 0..40), [18, 18, 4]);
        let keep = Rotation { keep: Some(2), ..rotation };
        assert_eq!(record(keep, &[7; 60_000], 0..40), [18, 4]);
    }

    #[test]
    fn the_next_file_begins_when_one_is_old() {
        let rotation = Rotation { rotate_seconds: Some(Duration::from_secs(10)), ..Rotation::default() };
        assert_eq!(record(rotation, b"x", [0, 5, 9, 10, 19, 20, 100].into_iter()), [3, 2, 1, 1]);
    }

    #[test]
    fn a_number_stands_before_the_ending() {
        for (file, expected) in [("a/c.pcapng", "a/c-00007.pcapng"), ("c", "c-00007"), ("c.d/e", "c.d/e-00007")] {
            assert_eq!(numbered(Path::new(file), 7), Path::new(expected));
        }
    }
}
