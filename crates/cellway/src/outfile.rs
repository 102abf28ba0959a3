//! A file that a command writes. What is in it stays until there is something else to write: a command that is refused,
//! or that nothing comes to, leaves it as it is.

use anyhow::{Context as _, Result};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

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
    /// It cannot.
    pub fn open(path: &Path) -> Result<Self> {
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
        drop(OutFile::open(&path).unwrap());
        drop(BufWriter::new(OutFile::open(&path).unwrap()));
        assert_eq!(now(), "yesterday's");
        let mut out = OutFile::open(&path).unwrap();
        out.write_all(b"to").unwrap();
        assert_eq!(now(), "to");
        out.write_all(b"day's").unwrap();
        assert_eq!(now(), "today's");
        OutFile::open(&path).unwrap().flush().unwrap();
        assert_eq!(now(), "", "what was received is nothing");
        assert!(OutFile::open(&folder.path().join("no/file")).unwrap_err().to_string().contains("no/file"));
        OutFile::open(Path::new("/dev/null")).unwrap().write_all(b"x").unwrap();
    }
}
