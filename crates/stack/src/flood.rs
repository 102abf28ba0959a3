//! One application floods, another counts; between them endpoint, host interface, link, switch, link, host interface,
//! endpoint. Beside it memcpy, the limit of whatever copies.

use endpoint::{ChannelId, Direction, Endpoint, EndpointConfig, Error, Events, Geometry, OpenOptions, SendError};
use std::hint::black_box;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use wire::CircuitId;

/// Why there is no figure.
#[derive(Debug, thiserror::Error)]
pub enum FloodError {
    /// An endpoint failed.
    #[error(transparent)]
    Endpoint(#[from] Error),
    /// An SDU could not be sent.
    #[error(transparent)]
    Send(#[from] SendError),
    /// Something else arrived than was sent.
    #[error("an SDU of {arrived} octets arrived where {sent} were sent")]
    Length {
        /// Its octets.
        arrived: usize,
        /// Octets of each that was sent.
        sent: usize,
    },
    /// The receiving thread ended early.
    #[error("the receiver panicked")]
    Panicked,
}

type Result<T> = std::result::Result<T, FloodError>;

/// Octets of SDUs that a ring holds, about: all buffers of both applications fit the second-level cache of one core.
const IN_FLIGHT: usize = 1 << 18;
/// SDUs that the sender hands over together, if there is room for as many: the peers' generators send as many at once.
pub const BURST: u64 = 32;
/// What memcpy runs over: fits the second-level cache of the machines of this decade.
const WORKING_SET: usize = 256 * 1024;

/// An endpoint that both sends and receives.
pub fn endpoint(
    socket: &Path,
    host: &str,
    circuit: CircuitId,
    octets: usize,
    events: Events,
) -> Result<(Endpoint, ChannelId)> {
    let mut endpoint = unopened(socket, host, octets, events)?;
    let channel = endpoint.open(circuit, OpenOptions::default())?;
    Ok((endpoint, channel))
}

/// What the receiver reads an SDU from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handover {
    /// A buffer of its own, into which the host has copied the SDU.
    Copied,
    /// The buffer in which the sender has written it.
    Lent,
}

/// The ends of a flood.
fn ends(
    socket: &Path,
    [from, to]: [&str; 2],
    circuit: CircuitId,
    octets: usize,
    handover: Handover,
) -> Result<[(Endpoint, ChannelId); 2]> {
    if handover == Handover::Copied {
        let end = |host| endpoint(socket, host, circuit, octets, Events::default());
        return Ok([end(from)?, end(to)?]);
    }
    let mut sender = unopened(socket, from, octets, Events::default())?;
    sender.lend()?;
    let options = |direction| OpenOptions { direction, ..OpenOptions::default() };
    let to_receiver = sender.open(circuit, options(Direction::Send))?;
    let mut receiver = unopened(socket, to, octets, Events::default())?;
    let from_sender = receiver.open(circuit, options(Direction::Receive))?;
    receiver.borrow(from_sender)?;
    Ok([(sender, to_receiver), (receiver, from_sender)])
}

fn unopened(socket: &Path, host: &str, octets: usize, events: Events) -> Result<Endpoint> {
    let slots = (IN_FLIGHT / octets).clamp(32, 2048).next_power_of_two() as u32;
    let buffer_octets = octets.next_multiple_of(64) as u32;
    let geometry =
        Geometry { send_ring: slots, receive_ring: slots, free_ring: slots, buffers: slots * 2, buffer_octets };
    let config = EndpointConfig { host: host.into(), geometry, events, ..EndpointConfig::default() };
    Ok(Endpoint::create(socket, &config)?)
}

/// The sum of all octets, eight at a time: reads each of them.
pub fn sum(octets: &[u8]) -> u64 {
    let (words, rest) = octets.as_chunks::<8>();
    let words = words.iter().fold(0u64, |sum, word| sum.wrapping_add(u64::from_ne_bytes(*word)));
    rest.iter().fold(words, |sum, octet| sum.wrapping_add(u64::from(*octet)))
}

/// The sum of all words. What no word has is a few octets of the SDU's last line, which the words before it have
/// brought along.
pub fn sum_words(words: &[AtomicU64]) -> u64 {
    words.iter().fold(0, |sum, word| sum.wrapping_add(word.load(Ordering::Relaxed)))
}

/// What a flood came to.
#[derive(Debug, Clone, Copy)]
pub struct Flood {
    /// PDUs that were sent, ...
    pub sent: u64,
    /// ... that arrived, ...
    pub arrived: u64,
    /// ... of which the receiver read so many where the sender had written them, ...
    pub in_place: u64,
    /// ... and the seconds between the first and the last of those.
    pub seconds: f64,
    /// Processors that this process had meanwhile, in the mean.
    pub processors: f64,
}

/// Processor time of the whole process, in seconds.
pub fn process_seconds() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

/// Floods a circuit from alpha to beta for `length`: each octet is written before and read after.
pub fn flood(
    socket: &Path,
    circuit: CircuitId,
    pdu_octets: usize,
    handover: Handover,
    length: Duration,
) -> Result<Flood> {
    flood_between(socket, ["alpha", "beta"], circuit, (pdu_octets, handover), length)
}

/// The same from one host to another.
pub fn flood_between(
    socket: &Path,
    hosts: [&str; 2],
    circuit: CircuitId,
    (pdu_octets, handover): (usize, Handover),
    length: Duration,
) -> Result<Flood> {
    let [(mut sender, to_beta), (mut receiver, _)] = ends(socket, hosts, circuit, pdu_octets, handover)?;
    let done = AtomicBool::new(false);
    let (begin, before) = (Instant::now(), process_seconds());
    std::thread::scope(|scope| {
        let counting = scope.spawn(|| count(&mut receiver, pdu_octets, &done));
        let sending = send(&mut sender, to_beta, pdu_octets, length);
        let processors = (process_seconds() - before) / begin.elapsed().as_secs_f64();
        done.store(true, Ordering::Relaxed);
        let counted = counting.join().unwrap_or(Err(FloodError::Panicked));
        let sent = sending?;
        let Counted { arrived, in_place, seconds } = counted?;
        Ok(Flood { sent, arrived, in_place, seconds, processors })
    })
}

struct Counted {
    arrived: u64,
    in_place: u64,
    seconds: f64,
}

/// Counts what arrives until the sender is done and no more comes.
fn count(receiver: &mut Endpoint, pdu_octets: usize, done: &AtomicBool) -> Result<Counted> {
    let (mut pdus, mut in_place, mut total) = (0u64, 0u64, 0u64);
    let mut first: Option<Instant> = None;
    let mut last = Instant::now();
    let mut wrong = None;
    loop {
        let more = receiver.receive_shared_each(Some(Duration::from_millis(20)), |sdu| {
            if sdu.len() != pdu_octets {
                wrong = Some(sdu.len());
            }
            let octets = match (sdu.private(), sdu.shared_words()) {
                (Some(octets), _) => sum(octets),
                (None, words) => {
                    in_place += 1;
                    sum_words(words.unwrap_or_default())
                }
            };
            total = total.wrapping_add(octets);
            first.get_or_insert_with(Instant::now);
            pdus += 1;
            // Now and then out of here, to look at the clock.
            if pdus.is_multiple_of(64) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        if let Some(octets) = wrong {
            return Err(FloodError::Length { arrived: octets, sent: pdu_octets });
        }
        if more > 0 {
            last = Instant::now();
        } else if done.load(Ordering::Relaxed) {
            break;
        }
    }
    black_box(total);
    let seconds = first.map_or(0.0, |first| last.saturating_duration_since(first).as_secs_f64());
    Ok(Counted { arrived: pdus, in_place, seconds })
}

/// Sends as fast as the host takes; gives how many.
fn send(sender: &mut Endpoint, to_beta: ChannelId, pdu_octets: usize, length: Duration) -> Result<u64> {
    let begin = Instant::now();
    let mut sent = 0u64;
    while begin.elapsed() < length {
        for _ in 0..64 {
            let Some(mut loan) = sender.loan() else {
                sender.wait_send(Some(Duration::from_millis(100)))?;
                continue;
            };
            loan[..pdu_octets].fill(sent as u8);
            match sender.enqueue(to_beta, loan, pdu_octets) {
                Ok(()) => sent += 1,
                Err((SendError::Full, loan)) => {
                    drop(loan);
                    sender.wait_send(Some(Duration::from_millis(100)))?;
                }
                Err((e, _)) => return Err(e.into()),
            }
            if sent.is_multiple_of(BURST) {
                sender.flush();
            }
        }
    }
    sender.wait_sent(Some(Duration::from_secs(1)))?;
    Ok(sent)
}

/// Copying SDUs of this size one after another over a working set, on one core.
pub fn memcpy_gbit_s(octets: usize, length: Duration) -> f64 {
    let n = (WORKING_SET / 2 / octets).max(1);
    let from = vec![0x5au8; n * octets];
    // Source and destination at the same place of their pages slow some processors' string moves down tenfold.
    const APART: usize = 2112;
    let mut to = vec![0u8; n * octets + APART];
    let begin = Instant::now();
    let mut copied = 0u64;
    while begin.elapsed() < length {
        for _ in 0..16 {
            for (a, b) in from.chunks_exact(octets).zip(to[APART..].chunks_exact_mut(octets)) {
                b.copy_from_slice(black_box(a));
                black_box(&mut *b);
            }
            copied += (n * octets) as u64;
        }
    }
    copied as f64 * 8.0 / 1e9 / begin.elapsed().as_secs_f64()
}
