//! Recordings at a relay: one that is played as a link, and one that is written of all links, or printed.

use crate::outfile::{OutFile, Overwriting};
use crate::output;
use anyhow::{Context as _, Result};
use net::{External, FrameAal, NodeIo};
use sar::SduMeta;
use std::fmt::Write as _;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use wire::atmtcp::{Control, qos_aal};
use wire::recording::{self, Record};
use wire::{CircuitId, Time};

/// Frames in one round.
const BURST: usize = 32;

/// A recording as a link: says what is in the file, as fast as the others take it.
pub(super) struct Player {
    file: String,
    /// Frames, the next one last.
    left: Vec<(CircuitId, Vec<u8>)>,
    all: usize,
    /// Everybody is there who is to hear it.
    begins: Arc<AtomicBool>,
}

impl Player {
    /// Reads a recording, or one of its streams.
    pub(super) fn new(path: &Path, stream: Option<u32>, begins: Arc<AtomicBool>) -> Result<Self> {
        let file = path.display().to_string();
        let octets = std::fs::read(path).with_context(|| file.clone())?;
        let (mut left, mut rest) = (Vec::new(), octets.as_slice());
        loop {
            let at = octets.len() - rest.len();
            let Some((record, after)) = Record::parse(rest).with_context(|| format!("{file}, octet {at}"))? else {
                break;
            };
            rest = after;
            if stream.is_some_and(|stream| stream != record.stream) {
                continue;
            }
            let circuit = record.circuit;
            let text = |control: Control<'_>| (CircuitId::default(), control.to_string().into_bytes());
            left.push(match record.what {
                recording::What::Sdu(sdu) => (circuit, sdu.to_vec()),
                recording::What::Open { aal0: true } => text(Control::Open { circuit, qos: "ubr,aal0:max_sdu=52" }),
                recording::What::Open { aal0: false } => text(Control::Open { circuit, qos: "ubr,aal5:max_sdu=65535" }),
                recording::What::Close => text(Control::Close { circuit }),
            });
        }
        left.reverse();
        Ok(Player { file, all: left.len(), left, begins })
    }
}

impl External for Player {
    fn run(&mut self, io: &mut NodeIo<'_>, _: Time) -> bool {
        // A file hears nothing.
        while io.frame_in(0).is_some() {
            io.release_frame(0);
        }
        let mut any = false;
        for _ in 0..if self.begins.load(Ordering::Relaxed) { BURST } else { 0 } {
            let Some((circuit, octets)) = self.left.last() else { break };
            if io.room(0) == 0 {
                break;
            }
            let frame = io.pool_mut().copy_in(*circuit, FrameAal::Aal5, SduMeta::default(), octets);
            let Some(frame) = frame else { break };
            if let Err(frame) = io.put_frame(0, frame) {
                io.pool_mut().release(frame);
                break;
            }
            self.left.pop();
            any = true;
        }
        any
    }

    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    fn is_up(&self) -> bool {
        true
    }

    fn status(&self) -> String {
        format!("{}: {} of {} records played", self.file, self.all - self.left.len(), self.all)
    }
}

/// What becomes of what the links say.
pub(super) enum Recorder {
    /// It is written, as `atmtcp write` does.
    File { name: String, out: BufWriter<OutFile>, records: u64 },
    /// PDUs are printed.
    Print,
}

impl Recorder {
    pub(super) fn to_file(path: &Path, overwriting: Overwriting) -> Result<Self> {
        let name = path.display().to_string();
        Ok(Recorder::File { name, out: BufWriter::new(OutFile::open(path, overwriting)?), records: 0 })
    }

    /// Takes a frame of a link.
    pub(super) fn take(&mut self, link: usize, circuit: CircuitId, octets: &[u8]) -> Result<()> {
        let control = (circuit.key() == 0).then(|| Control::parse(octets));
        match self {
            Recorder::File { name, out, records } => {
                let (circuit, what) = match control {
                    None => (circuit, recording::What::Sdu(octets)),
                    Some(Ok(Control::Open { circuit, qos })) => {
                        (circuit, recording::What::Open { aal0: qos_aal(qos) == Some(0) })
                    }
                    Some(Ok(Control::Close { circuit })) => (circuit, recording::What::Close),
                    Some(Err(_)) => return Ok(()),
                };
                let (head, n) = Record { stream: link as u32, circuit, what }.emit();
                let sdu = if let recording::What::Sdu(sdu) = what { sdu } else { &[] };
                out.write_all(&head[..n]).and_then(|()| out.write_all(sdu)).with_context(|| name.clone())?;
                *records += 1;
            }
            Recorder::Print if control.is_none() => {
                output::stdout().write_all(dump(link, circuit, octets).as_bytes())?;
            }
            Recorder::Print => {}
        }
        Ok(())
    }

    pub(super) fn flush(&mut self) -> Result<()> {
        match self {
            Recorder::File { name, out, .. } => out.flush().with_context(|| name.clone()),
            Recorder::Print => Ok(output::stdout().flush()?),
        }
    }
}

/// A PDU in hexadecimal digits, sixteen octets a line.
fn dump(link: usize, circuit: CircuitId, octets: &[u8]) -> String {
    let mut text = format!("link {link}, circuit {circuit}, {} octets\n", octets.len());
    for (line, sixteen) in octets.chunks(16).enumerate() {
        let _ = write!(text, "{:04x} ", line * 16);
        for octet in sixteen {
            let _ = write!(text, " {octet:02x}");
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pdu_is_printed_by_lines_of_sixteen_octets() {
        let octets: Vec<u8> = (0..18).collect();
        let expected = "link 2, circuit 0.100, 18 octets\n\
                        0000  00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f\n0010  10 11\n";
        assert_eq!(dump(2, "0.100".parse().unwrap(), &octets), expected);
    }
}
