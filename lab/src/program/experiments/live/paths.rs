//! PDUs between applications through the host interface: rates, costs, round trips.

use crate::bench::{median, thread_seconds};
use ::lab::experiment::Whose;
use anyhow::{Context as _, Result, bail, ensure};
use endpoint::app_memory::Memory;
use endpoint::{ChannelId, DataPath, Endpoint, EndpointConfig, Events, Geometry, OpenOptions, SendError};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wire::CircuitId;

/// Pieces of the application's own memory in turn at each end: more than a burst, and few enough for the nearer caches.
const PIECES: usize = 20;
/// A background load's window, in PDUs of [`LOAD_OCTETS`]: netperf's socket buffer of 256 kB (E-17).
const LOAD_BURST: usize = 28;
const LOAD_OCTETS: usize = 9188;
/// Octets of an echo (E-17).
const ECHO_OCTETS: usize = 4096;
/// Echoes of a run (E-17).
const ECHOES: usize = 60;

fn open(socket: &Path, host: &str, vci: u16, events: Events, path: DataPath) -> Result<(Endpoint, ChannelId)> {
    let geometry = Geometry { send_ring: 256, receive_ring: 512, free_ring: 512, buffers: 160, buffer_octets: 65_536 };
    let config = EndpointConfig { host: host.into(), geometry, send_buffers: Some(64), events, path };
    let mut endpoint = Endpoint::create(socket, &config)?;
    let circuit = CircuitId::new(0, vci).with_context(|| format!("0.{vci}"))?;
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
pub(super) fn flood(socket: &Path, octets: usize, path: DataPath, length: Duration) -> Result<f64> {
    let (mut sender, channel) = open(socket, "alpha", 100, Events::default(), path)?;
    let (mut receiver, _) = open(socket, "beta", 100, Events::default(), path)?;
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

/// Answers each PDU by `sdu` until `done`.
fn answer(there: &mut Endpoint, back: ChannelId, sdu: &[u8], done: &AtomicBool) -> Result<()> {
    while !done.load(Ordering::Relaxed) {
        if there.receive(Some(Duration::from_millis(20)))?.is_some() {
            there.send_copy(back, sdu)?;
        }
    }
    Ok(())
}

/// A PDU there and back, microseconds (the median of many).
pub(super) fn round_trip(socket: &Path, octets: usize, events: Events, length: Duration) -> Result<f64> {
    let (mut here, to) = open(socket, "alpha", 100, events, DataPath::Shared)?;
    let (mut there, back) = open(socket, "beta", 100, events, DataPath::Shared)?;
    let done = AtomicBool::new(false);
    let sdu = vec![0x42u8; octets];
    std::thread::scope(|scope| {
        let echo = scope.spawn(|| answer(&mut there, back, &sdu, &done));
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

/// What all threads of this program have had of processors, in seconds.
fn process_seconds() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

/// Two endpoints of one application that sends itself bursts of PDUs, none lost.
struct Bursts {
    sender: Endpoint,
    receiver: Endpoint,
    channel: ChannelId,
    pieces: Vec<Memory>,
    sdu: Vec<u8>,
    burst: usize,
    /// PDUs so far, and seconds on a processor in sending them.
    pdus: u64,
    sending: f64,
}

impl Bursts {
    fn new(socket: &Path, vci: u16, octets: usize, path: DataPath, events: Events, burst: usize) -> Result<Self> {
        let (mut sender, channel) = open(socket, "alpha", vci, events, path)?;
        let (mut receiver, _) = open(socket, "beta", vci, events, path)?;
        let mut pieces = Vec::new();
        if path == DataPath::SingleCopy {
            pieces = sender.register(PIECES, octets)?;
            for memory in receiver.register(PIECES, octets)? {
                let _ = receiver.post(memory);
            }
        }
        let sdu = vec![0x42; octets];
        Ok(Bursts { sender, receiver, channel, pieces, sdu, burst, pdus: 0, sending: 0.0 })
    }

    fn once(&mut self) -> Result<()> {
        let before = thread_seconds();
        for _ in 0..self.burst {
            let patience = Instant::now();
            while !push(&mut self.sender, self.channel, &self.sdu, &mut self.pieces)? {
                ensure!(patience.elapsed() < Duration::from_secs(2), "a burst does not leave");
                self.sender.wait_send(Some(Duration::from_millis(100)))?;
            }
        }
        self.sending += thread_seconds() - before;
        for _ in 0..self.burst {
            let arrived = self.receiver.receive(Some(Duration::from_secs(2)))?.context("a PDU of a burst is lost")?;
            ensure!(arrived.len() == self.sdu.len(), "an SDU of {} octets arrived", arrived.len());
            if let Some((memory, _)) = arrived.into_memory() {
                let _ = self.receiver.post(memory);
            }
        }
        self.pdus += self.burst as u64;
        Ok(())
    }
}

/// Microseconds on a processor that a PDU costs.
pub(super) fn cost(
    socket: &Path,
    (octets, path, events, burst): (usize, DataPath, Events, usize),
    whose: Whose,
    length: Duration,
) -> Result<f64> {
    let mut bursts = Bursts::new(socket, 100, octets, path, events, burst)?;
    for _ in 0..4 {
        bursts.once()?;
    }
    (bursts.pdus, bursts.sending) = (0, 0.0);
    let (begin, process, thread) = (Instant::now(), process_seconds(), thread_seconds());
    while begin.elapsed() < length {
        bursts.once()?;
    }
    let (all, own) = (process_seconds() - process, thread_seconds() - thread);
    let seconds = match whose {
        Whose::All => all,
        Whose::Sender => bursts.sending,
        Whose::Host => all - own,
    };
    Ok(seconds.max(0.0) * 1e6 / bursts.pdus as f64)
}

/// Sixty round trips: mean, least and greatest, in microseconds.
pub(super) fn echoes(socket: &Path, events: Events, loaded: bool) -> Result<[f64; 3]> {
    let (mut here, to) = open(socket, "alpha", 100, events, DataPath::Shared)?;
    let (mut there, back) = open(socket, "beta", 100, events, DataPath::Shared)?;
    let mut load = Bursts::new(socket, 101, LOAD_OCTETS, DataPath::Copying, events, LOAD_BURST)?;
    let done = AtomicBool::new(false);
    let sdu = vec![0x42u8; ECHO_OCTETS];
    std::thread::scope(|scope| {
        let echo = scope.spawn(|| answer(&mut there, back, &sdu, &done));
        let background = scope.spawn(|| -> Result<()> {
            while loaded && !done.load(Ordering::Relaxed) {
                load.once()?;
            }
            Ok(())
        });
        let mut times = Vec::new();
        let result = (|| -> Result<()> {
            for _ in 0..ECHOES {
                let one = Instant::now();
                here.send_copy(to, &sdu)?;
                here.receive(Some(Duration::from_secs(2)))?.context("an echo is lost")?;
                times.push(one.elapsed().as_secs_f64() * 1e6);
                // Not in step with a clock of the host's.
                std::thread::sleep(Duration::from_micros(700 + 37 * times.len() as u64));
            }
            Ok(())
        })();
        done.store(true, Ordering::Relaxed);
        for thread in [echo, background] {
            thread.join().unwrap_or_else(|_| bail!("another thread panicked"))?;
        }
        result?;
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        Ok([mean, times.iter().copied().fold(f64::MAX, f64::min), times.iter().copied().fold(0.0, f64::max)])
    })
}
