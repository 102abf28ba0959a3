//! Measuring on this machine what experiments ask for: with the program's own service, endpoints and data paths.

use crate::bench::{median, memcpy_gbit_s};
use crate::config;
use crate::daemon::Daemon;
use ::lab::experiment::{Live, Measured, Probe};
use anyhow::{Context as _, Result, bail};
use endpoint::own::Memory;
use endpoint::{ChannelId, DataPath, Endpoint, EndpointConfig, Events, Geometry, OpenOptions, SendError};
use sar::penn::{Config, Reassembler};
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wire::{Cell, CellHeader, CircuitId, Time};

const NETWORK: &str = "[host.alpha]\n[host.beta]\n[[link]]\nends=[\"alpha\",\"beta\"]\n[[circuit]]\nends=[\"alpha 0.100\",\"beta 0.100\"]\n";

/// This machine.
pub(super) struct Here {
    folder: PathBuf,
    socket: PathBuf,
    daemon: Option<Daemon>,
    runs: usize,
    length: Duration,
}

impl Drop for Here {
    fn drop(&mut self) {
        self.daemon.take();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Live for Here {
    fn measure(&mut self, probe: Probe) -> Option<Measured> {
        match self.try_measure(probe) {
            Ok(measured) => Some(measured),
            Err(e) => {
                eprintln!("cellway: not measured: {e:#}");
                None
            }
        }
    }
}

impl Here {
    pub(super) fn new(quick: bool) -> Self {
        let folder = std::env::temp_dir().join(format!("cellway-lab-{}", std::process::id()));
        let socket = folder.join("service.sock");
        let (runs, millis) = if quick { (3, 100) } else { (9, 300) };
        Here { folder, socket, daemon: None, runs, length: Duration::from_millis(millis) }
    }

    pub(super) fn try_measure(&mut self, probe: Probe) -> Result<Measured> {
        if self.daemon.is_none() && matches!(probe, Probe::Path { .. } | Probe::RoundTrip { .. }) {
            let config = config::parse(NETWORK, "the laboratory's network")?;
            self.daemon = Some(Daemon::start(config, &self.socket)?);
        }
        let mut values = Vec::new();
        for _ in 0..self.runs {
            values.push(match probe {
                Probe::Path { octets, path } => flood(&self.socket, octets, path, self.length)?,
                Probe::RoundTrip { octets, events } => round_trip(&self.socket, octets, events, self.length)?,
                Probe::Copy { octets } => memcpy_gbit_s(octets, self.length / 10) * 125.0,
                Probe::Layer { octets } => layer(octets, self.length / 4)?,
                Probe::SystemCall => system_call(self.length / 20),
                Probe::Lists => lists(self.length / 4)?,
            });
        }
        let least = values.iter().copied().fold(f64::MAX, f64::min);
        let greatest = values.iter().copied().fold(0.0, f64::max);
        Ok(Measured { median: median(&mut values), least, greatest })
    }
}

fn endpoint(socket: &Path, host: &str, events: Events, path: DataPath) -> Result<(Endpoint, ChannelId)> {
    let geometry = Geometry { send_ring: 256, receive_ring: 512, free_ring: 512, buffers: 96, buffer_octets: 65_536 };
    let config = EndpointConfig { host: host.into(), geometry, send_buffers: Some(32), events, path };
    let mut endpoint = Endpoint::create(socket, &config)?;
    let circuit = CircuitId::new(0, 100).context("0.100")?;
    let channel = endpoint.open(circuit, OpenOptions::default())?;
    Ok((endpoint, channel))
}

/// Sends an SDU the way of the data path; false if there is no room.
fn push(sender: &mut Endpoint, channel: ChannelId, sdu: &[u8], pieces: &mut Vec<Memory>) -> Result<bool> {
    let octets = sdu.len();
    let sent = match sender.path() {
        DataPath::Copying | DataPath::Shared => sender.send_copy(channel, sdu),
        // The application composes in the segment: there is nothing to copy.
        DataPath::ZeroCopy => match sender.loan() {
            Some(loan) => sender.send(channel, loan, octets).map_err(|(e, _)| e),
            None => Err(SendError::Full),
        },
        DataPath::SingleCopy => match pieces.pop().or_else(|| sender.take_back()) {
            Some(memory) => sender.send_own(channel, memory, octets).map_err(|(e, memory)| {
                pieces.push(memory);
                e
            }),
            None => Err(SendError::Full),
        },
    };
    match sent {
        Ok(()) => Ok(true),
        Err(SendError::Full) => Ok(false),
        Err(e) => bail!(e),
    }
}

/// One application floods, another counts: Mbit/s that arrived.
fn flood(socket: &Path, octets: usize, path: DataPath, length: Duration) -> Result<f64> {
    let (mut sender, channel) = endpoint(socket, "alpha", Events::default(), path)?;
    let (mut receiver, _) = endpoint(socket, "beta", Events::default(), path)?;
    let mut pieces = Vec::new();
    if path == DataPath::SingleCopy {
        pieces = sender.register(32, octets)?;
        for memory in receiver.register(64, octets)? {
            let _ = receiver.post(memory);
        }
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let counting = scope.spawn(|| -> Result<f64> {
            let (mut pdus, mut first, mut last) = (0u64, None, Instant::now());
            loop {
                let arrived = receiver.receive(Some(Duration::from_millis(20)))?;
                let arrived = arrived.map(|sdu| (sdu.len(), sdu.into_memory()));
                match arrived {
                    Some((n, memory)) if n == octets => {
                        first.get_or_insert_with(Instant::now);
                        (pdus, last) = (pdus + 1, Instant::now());
                        // Memory of the application's own is given again; other buffers go back by themselves.
                        memory.map(|(memory, _)| receiver.post(memory));
                    }
                    Some((n, _)) => bail!("an SDU of {n} octets arrived where {octets} were sent"),
                    None if done.load(Ordering::Relaxed) => break,
                    None => {}
                }
            }
            let seconds = first.map_or(0.0, |f| last.saturating_duration_since(f).as_secs_f64());
            Ok(pdus.saturating_sub(1) as f64 * octets as f64 * 8.0 / 1e6 / seconds.max(1e-9))
        });
        let sdu = vec![0x42u8; octets];
        let begin = Instant::now();
        let sending = (|| -> Result<()> {
            while begin.elapsed() < length {
                if !push(&mut sender, channel, &sdu, &mut pieces)? {
                    sender.wait_send(Some(Duration::from_millis(100)))?;
                    std::thread::yield_now();
                }
            }
            Ok(())
        })();
        done.store(true, Ordering::Relaxed);
        let rate = counting.join().unwrap_or_else(|_| bail!("the receiver panicked"));
        sending?;
        rate
    })
}

/// A PDU there and back, microseconds (the median of many).
fn round_trip(socket: &Path, octets: usize, events: Events, length: Duration) -> Result<f64> {
    let (mut here, to) = endpoint(socket, "alpha", events, DataPath::Shared)?;
    let (mut there, back) = endpoint(socket, "beta", events, DataPath::Shared)?;
    let done = AtomicBool::new(false);
    let sdu = vec![0x42u8; octets];
    std::thread::scope(|scope| {
        let echo = scope.spawn(|| -> Result<()> {
            while !done.load(Ordering::Relaxed) {
                if there.receive(Some(Duration::from_millis(20)))?.is_some() {
                    there.send_copy(back, &sdu)?;
                }
            }
            Ok(())
        });
        let mut times = Vec::new();
        let begin = Instant::now();
        let result = (|| -> Result<()> {
            while begin.elapsed() < length {
                let one = Instant::now();
                here.send_copy(to, &sdu)?;
                if here.receive(Some(Duration::from_millis(200)))?.is_some() {
                    times.push(one.elapsed().as_secs_f64() * 1e6);
                }
            }
            Ok(())
        })();
        done.store(true, Ordering::Relaxed);
        echo.join().unwrap_or_else(|_| bail!("the other end panicked"))?;
        result?;
        if times.is_empty() {
            bail!("no PDU came back");
        }
        Ok(median(&mut times))
    })
}

/// Segmentation and reassembly on one core, Mbit/s.
fn layer(octets: usize, length: Duration) -> Result<f64> {
    let circuit = CircuitId::new(0, 100).context("0.100")?;
    let sdu = vec![0x5au8; octets];
    let mut cells = vec![Cell::default(); wire::aal5::cells(octets)];
    let mut buffer = vec![0; octets];
    let mut reassembler = sar::Reassembler::new(sar::ReassemblyConfig { max_sdu_octets: octets, ..Default::default() });
    let begin = Instant::now();
    let mut pdus = 0u64;
    while begin.elapsed() < length {
        for _ in 0..16 {
            let mut out = sar::Segmentation::new(circuit, octets, sar::SduMeta::default())?;
            let n = out.fill(black_box(&sdu), &mut cells);
            let step = reassembler.push(&cells[..n], &mut buffer, Time::ZERO);
            if !matches!(step.event, sar::Event::Complete { .. }) {
                bail!("a PDU did not come back: {:?}", step.event);
            }
            pdus += 1;
        }
    }
    Ok(pdus as f64 * octets as f64 * 8.0 / 1e6 / begin.elapsed().as_secs_f64())
}

/// Microseconds of the smallest system call.
fn system_call(length: Duration) -> f64 {
    let begin = Instant::now();
    let mut calls = 0u64;
    while begin.elapsed() < length {
        for _ in 0..64 {
            black_box(rustix::process::getppid());
        }
        calls += 64;
    }
    begin.elapsed().as_secs_f64() * 1e6 / calls as f64
}

/// Cells each second through the list reassembler, appended and read back.
fn lists(length: Duration) -> Result<f64> {
    let mut lists = Reassembler::new(Config::default())?;
    let mut memory = vec![0; 48 * 64];
    let mut cells = Vec::new();
    for vci in 0..64 {
        let circuit = CircuitId::new(0, 32 + vci).context("a circuit")?;
        cells.push(Cell::new(CellHeader { circuit, ..CellHeader::default() }, [0x5a; 48]));
    }
    let begin = Instant::now();
    let mut count = 0u64;
    while begin.elapsed() < length {
        for _ in 0..32 {
            for cell in &cells {
                black_box(lists.handle_cell(black_box(cell), Time::ZERO));
            }
            count += cells.len() as u64;
        }
        let open: Vec<_> = lists.entries().map(|(list, _)| list).collect();
        for list in open {
            black_box(lists.read_into(list, 64, &mut memory));
        }
    }
    Ok(count as f64 / begin.elapsed().as_secs_f64())
}
