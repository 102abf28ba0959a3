//! What single things cost on one core, in seconds of the thread on a processor: what else the machine does counts little.

use crate::bench::thread_seconds;
use anyhow::{Context as _, Result, bail};
use penn::reassembly::cam::Cam;
use penn::reassembly::{Config, Reassembler};
use std::fs::File;
use std::hint::black_box;
use std::io::Write as _;
use std::time::{Duration, Instant};
use wire::{Cell, CellHeader, CircuitId, Time};

/// Seconds on a processor of one `pass`: passes until `length` is over, after one that warms up.
fn seconds_per_pass(length: Duration, mut pass: impl FnMut() -> Result<()>) -> Result<f64> {
    pass()?;
    let (begin, busy) = (Instant::now(), thread_seconds());
    let mut passes = 0u32;
    while passes == 0 || begin.elapsed() < length {
        pass()?;
        passes += 1;
    }
    Ok((thread_seconds() - busy) / f64::from(passes))
}

/// Octets of one piece copied over others, octets each microsecond. Pieces of 64 kB and less stay in the nearer caches.
pub(super) fn copy(octets: usize, length: Duration) -> Result<f64> {
    // Source and destination at the same place of their pages slow some processors' string moves down tenfold.
    const APART: usize = 2112;
    let from = vec![0x5au8; octets];
    let mut to = vec![0u8; octets + APART];
    let times = (1 << 20) / octets + 1;
    let seconds = seconds_per_pass(length, || {
        for _ in 0..times {
            to[APART..].copy_from_slice(black_box(&from));
            black_box(&mut to);
        }
        Ok(())
    })?;
    Ok((times * octets) as f64 / seconds / 1e6)
}

/// Ones' complement sum of words in native order (RFC 1071), with a copy in the same pass if there is a place for it.
fn sum(from: &[u8], to: Option<&mut [u8]>) -> u16 {
    let (words, rest) = from.as_chunks::<4>();
    let word = |w: &[u8; 4]| u64::from(u32::from_ne_bytes(*w));
    let mut total: u64 = match to {
        None => words.iter().map(word).sum(),
        Some(to) => {
            let (places, tail) = to.as_chunks_mut::<4>();
            tail.copy_from_slice(rest);
            let pairs = words.iter().zip(places);
            pairs
                .map(|(w, place)| {
                    *place = *w;
                    word(w)
                })
                .sum()
        }
    };
    total += rest.chunks(2).map(|c| u64::from(u16::from_ne_bytes([c[0], c.get(1).copied().unwrap_or(0)]))).sum::<u64>();
    while total >> 16 != 0 {
        total = (total & 0xffff) + (total >> 16);
    }
    !(total as u16)
}

/// Octets each microsecond of the Internet checksum.
pub(super) fn checksum(octets: usize, copied: bool, length: Duration) -> Result<f64> {
    let from: Vec<u8> = (0..octets).map(|i| (i * 7) as u8).collect();
    let mut to = vec![0u8; octets];
    let seconds = seconds_per_pass(length, || {
        for _ in 0..64 {
            let place = copied.then_some(&mut to[..]);
            black_box(sum(black_box(&from), place));
        }
        black_box(&mut to);
        Ok(())
    })?;
    Ok(64.0 * octets as f64 / seconds / 1e6)
}

/// Segmentation and reassembly, Mbit/s.
pub(super) fn layer(octets: usize, length: Duration) -> Result<f64> {
    let circuit = CircuitId::new(0, 100).context("0.100")?;
    let sdu = vec![0x5au8; octets];
    let mut cells = vec![Cell::default(); wire::aal5::cells(octets)];
    let mut buffer = vec![0; octets];
    let mut reassembler = sar::Reassembler::new(sar::ReassemblyConfig { max_sdu_octets: octets, ..Default::default() });
    let seconds = seconds_per_pass(length, || {
        for _ in 0..16 {
            let mut out = sar::Segmentation::new(circuit, octets, sar::SduMeta::default())?;
            let n = out.fill(black_box(&sdu), &mut cells);
            let step = reassembler.push(&cells[..n], &mut buffer, Time::ZERO);
            if !matches!(step.event, sar::Event::Complete { .. }) {
                bail!("a PDU did not come back: {:?}", step.event);
            }
            black_box(&mut buffer);
        }
        Ok(())
    })?;
    Ok(16.0 * octets as f64 * 8.0 / seconds / 1e6)
}

/// Microseconds of a system call.
pub(super) fn system_call(length: Duration) -> Result<f64> {
    let seconds = seconds_per_pass(length, || {
        for _ in 0..256 {
            black_box(rustix::process::getppid());
        }
        Ok(())
    })?;
    Ok(seconds * 1e6 / 256.0)
}

/// Microseconds of a `write` that goes nowhere.
pub(super) fn write(octets: usize, length: Duration) -> Result<f64> {
    let mut null = File::options().write(true).open("/dev/null").context("opening /dev/null")?;
    let data = vec![0x5au8; octets];
    let seconds = seconds_per_pass(length, || {
        for _ in 0..64 {
            null.write_all(black_box(&data))?;
        }
        Ok(())
    })?;
    Ok(seconds * 1e6 / 64.0)
}

/// Microseconds of going to sleep and being woken by a timer.
pub(super) fn tick(length: Duration) -> Result<f64> {
    let seconds = seconds_per_pass(length, || {
        for _ in 0..16 {
            std::thread::sleep(Duration::from_micros(50));
        }
        Ok(())
    })?;
    Ok(seconds * 1e6 / 16.0)
}

/// Lookups each second in a full CAM, in an order that is not that of the entries.
pub(super) fn lookup(length: Duration) -> Result<f64> {
    const ENTRIES: u32 = 256;
    let mut cam = Cam::new(ENTRIES as usize);
    for i in 0..ENTRIES {
        cam.find_or_insert(32 + 61 * i);
    }
    let keys: Vec<u32> = (0..ENTRIES).map(|i| 32 + 61 * (i * 73 % ENTRIES)).collect();
    let seconds = seconds_per_pass(length, || {
        for key in &keys {
            black_box(cam.find(black_box(*key)));
        }
        Ok(())
    })?;
    Ok(f64::from(ENTRIES) / seconds)
}

/// Cells each second through the list reassembler, appended and read back.
pub(super) fn lists(length: Duration) -> Result<f64> {
    const CIRCUITS: usize = 64;
    const EACH: usize = 32;
    let mut lists = Reassembler::new(Config::default())?;
    let mut memory = vec![0; 48 * EACH];
    let mut cells = Vec::new();
    for vci in 0..CIRCUITS as u16 {
        let circuit = CircuitId::new(0, 32 + vci).context("a circuit")?;
        cells.push(Cell::new(CellHeader { circuit, ..CellHeader::default() }, [0x5a; 48]));
    }
    let mut open = Vec::with_capacity(CIRCUITS);
    let seconds = seconds_per_pass(length, || {
        for _ in 0..EACH {
            for cell in &cells {
                black_box(lists.handle_cell(black_box(cell), Time::ZERO));
            }
        }
        open.clear();
        open.extend(lists.entries().map(|(list, _)| list));
        for list in &open {
            black_box(lists.read_into(*list, EACH, &mut memory));
        }
        Ok(())
    })?;
    Ok((CIRCUITS * EACH) as f64 / seconds)
}

#[cfg(test)]
mod tests {
    use super::sum;

    #[test]
    fn the_checksum_is_rfc_1071s_with_and_without_a_copy() {
        // RFC 1071, section 3: the sum of these is ddf2.
        let octets = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(sum(&octets, None), !u16::from_be_bytes([0xdd, 0xf2]).to_be());
        for n in 0..octets.len() {
            let mut copy = [0; 8];
            assert_eq!(sum(&octets[..n], Some(&mut copy[..n])), sum(&octets[..n], None));
            assert_eq!(copy[..n], octets[..n]);
        }
    }
}
