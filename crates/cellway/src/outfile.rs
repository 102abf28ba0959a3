//! A file that a command writes. What is in it stays until there is something else to write: a command that is refused,
//! or that nothing comes to, leaves it as it is. One that holds a capture is overwritten only with `--force`.

use anyhow::{Context as _, Result, bail};
use clap::Args;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;

/// What a capture begins with: pcapng, and pcap in both orders with micro- and nanoseconds.
const CAPTURES: [[u8; 4]; 5] = [
    [0x0a, 0x0d, 0x0d, 0x0a],
    [0xd4, 0xc3, 0xb2, 0xa1],
    [0xa1, 0xb2, 0xc3, 0xd4],
    [0x4d, 0x3c, 0xb2, 0xa1],
    [0xa1, 0xb2, 0x3c, 0x4d],
];
/// Octets that the longest record of a recording has.
const RECORD_OCTETS: u64 = 80 * 1024;

/// Whether a capture may be overwritten.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct Overwriting {
    /// Overwrite the file also if it holds a capture
    #[arg(long)]
    pub force: bool,
}

/// Whether a first record is of a recording: streams are numbered from 0 or 1, and no SDU is empty. Most files begin with
/// octets that could be a record's otherwise.
fn is_first(record: &wire::recording::Record<'_>) -> bool {
    record.stream < 1 << 16 && record.what != wire::recording::What::Sdu(&[])
}

/// Whether a file's first octets are those of a capture, or of a recording of `atmtcp`.
fn is_capture(head: &[u8]) -> bool {
    head.first_chunk().is_some_and(|magic| CAPTURES.contains(magic))
        || matches!(wire::recording::Record::parse(head), Ok(Some((record, _))) if is_first(&record))
}

/// See the module's head.
#[derive(Debug)]
pub struct OutFile {
    file: File,
    /// What was in it is gone.
    begun: bool,
}

impl OutFile {
    /// Opens the file, or makes it: whether it can be written is known before there is anything to write.
    ///
    /// # Errors
    /// It cannot, or it holds a capture that is not to be overwritten.
    pub fn open(path: &Path, overwriting: Overwriting) -> Result<Self> {
        if !overwriting.force {
            keep_capture(path)?;
        }
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).open(path);
        Ok(OutFile { file: file.with_context(|| path.display().to_string())?, begun: false })
    }

    fn begin(&mut self) -> io::Result<()> {
        // A FIFO or a device has no length.
        if !self.begun && self.file.metadata()?.is_file() {
            self.file.set_len(0)?;
        }
        self.begun = true;
        Ok(())
    }
}

/// Refuses a file that holds a capture.
///
/// # Errors
/// It does.
pub fn keep_capture(path: &Path) -> Result<()> {
    if !path.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return Ok(());
    }
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(RECORD_OCTETS).read_to_end(&mut head));
    // One that cannot be read cannot be looked at.
    if read.is_ok() && is_capture(&head) {
        bail!("{} holds a capture: --force overwrites it, or name another file", path.display());
    }
    Ok(())
}

impl Write for OutFile {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.begin()?;
        self.file.write(octets)
    }

    /// From here on the file has what was written, be that nothing.
    fn flush(&mut self) -> io::Result<()> {
        self.begin()?;
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufWriter;

    #[test]
    fn a_file_keeps_what_is_in_it_until_something_is_written_or_flushed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let now = || std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, "yesterday's").unwrap();
        drop(OutFile::open(&path, Overwriting::default()).unwrap());
        drop(BufWriter::new(OutFile::open(&path, Overwriting::default()).unwrap()));
        assert_eq!(now(), "yesterday's");
        let mut out = OutFile::open(&path, Overwriting::default()).unwrap();
        out.write_all(b"to").unwrap();
        assert_eq!(now(), "to");
        out.write_all(b"day's").unwrap();
        assert_eq!(now(), "today's");
        OutFile::open(&path, Overwriting::default()).unwrap().flush().unwrap();
        assert_eq!(now(), "", "what was received is nothing");
        assert!(
            OutFile::open(&folder.path().join("no/file"), Overwriting::default())
                .unwrap_err()
                .to_string()
                .contains("no/file")
        );
        OutFile::open(Path::new("/dev/null"), Overwriting::default()).unwrap().write_all(b"x").unwrap();
    }

    #[test]
    fn a_file_that_holds_a_capture_is_overwritten_only_by_force() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let record = wire::recording::Record {
            stream: 1,
            circuit: "0.100".parse().unwrap(),
            what: wire::recording::What::Open { aal0: false },
        };
        let (recording, n) = record.emit();
        for kept in [&CAPTURES[0][..], &CAPTURES[1], &recording[..n]] {
            std::fs::write(&path, kept).unwrap();
            let refused = OutFile::open(&path, Overwriting::default()).unwrap_err().to_string();
            assert!(refused.contains("--force"), "{refused}");
            assert_eq!(std::fs::read(&path).unwrap(), kept);
            OutFile::open(&path, Overwriting { force: true }).unwrap().write_all(b"new").unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), b"new");
        }
        for other in [&b""[..], b"yesterday's", b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0"] {
            std::fs::write(&path, other).unwrap();
            assert!(OutFile::open(&path, Overwriting::default()).is_ok(), "{other:?}");
        }
    }
}
