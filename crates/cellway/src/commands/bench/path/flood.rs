//! One application floods, another counts; between them endpoint, host interface, link, switch, link, host interface,
//! endpoint. And the round trip by the same way.

use crate::commands::bench::pin;
use anyhow::{Context as _, Result, bail};
use control::processors::Processors;
use endpoint::{ChannelId, Direction, Endpoint, EndpointConfig, Events, Geometry, OpenOptions, SendError};
use std::hint::black_box;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use wire::CircuitId;

/// Octets of SDUs that a ring holds, about: all buffers of both applications fit the second-level cache of one core.
const IN_FLIGHT: usize = 1 << 18;
/// SDUs that the sender hands over together, if there is room for as many: the peers' generators send as many at once.
pub(super) const BURST: u64 = 32;
/// Nobody answers for so long: something is wrong.
const PATIENCE: Duration = Duration::from_secs(2);

/// An endpoint that both sends and receives.
fn endpoint(socket: &Path, host: &str, vci: u16, octets: usize, events: Events) -> Result<(Endpoint, ChannelId)> {
    let mut endpoint = unopened(socket, host, octets, events)?;
    let channel = endpoint.open(circuit(vci)?, OpenOptions::default())?;
    Ok((endpoint, channel))
}

/// What the receiver reads an SDU from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handover {
    /// A buffer of its own, into which the host has copied the SDU.
    Copied,
    /// The buffer in which the sender has written it.
    Lent,
}

/// The ends of a flood.
fn ends(
    socket: &Path,
    [from, to]: [&str; 2],
    vci: u16,
    octets: usize,
    handover: Handover,
) -> Result<[(Endpoint, ChannelId); 2]> {
    if handover == Handover::Copied {
        let end = |host| endpoint(socket, host, vci, octets, Events::default());
        return Ok([end(from)?, end(to)?]);
    }
    let mut sender = unopened(socket, from, octets, Events::default())?;
    sender.lend()?;
    let options = |direction| OpenOptions { direction, ..OpenOptions::default() };
    let to_receiver = sender.open(circuit(vci)?, options(Direction::Send))?;
    let mut receiver = unopened(socket, to, octets, Events::default())?;
    let from_sender = receiver.open(circuit(vci)?, options(Direction::Receive))?;
    receiver.borrow(from_sender)?;
    Ok([(sender, to_receiver), (receiver, from_sender)])
}

fn circuit(vci: u16) -> Result<CircuitId> {
    CircuitId::new(0, vci).context("a VCI")
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
pub(super) fn sum(octets: &[u8]) -> u64 {
    let (words, rest) = octets.as_chunks::<8>();
    let words = words.iter().fold(0u64, |sum, word| sum.wrapping_add(u64::from_ne_bytes(*word)));
    rest.iter().fold(words, |sum, octet| sum.wrapping_add(u64::from(*octet)))
}

/// The sum of all words. What no word has is a few octets of the SDU's last line, which the words before it have brought along.
pub(super) fn sum_words(words: &[AtomicU64]) -> u64 {
    words.iter().fold(0, |sum, word| sum.wrapping_add(word.load(Ordering::Relaxed)))
}

/// What a flood came to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flood {
    /// PDUs that were sent, ...
    pub(crate) sent: u64,
    /// ... that arrived, ...
    pub(crate) arrived: u64,
    /// ... of which the receiver read so many where the sender had written them, ...
    pub(crate) in_place: u64,
    /// ... and the seconds between the first and the last of those.
    pub(crate) seconds: f64,
    /// Processors that this process had meanwhile, in the mean.
    pub(crate) processors: f64,
}

/// Processor time of the whole process, in seconds.
pub(super) fn process_seconds() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

/// Floods a circuit from alpha to beta for `length`: each octet is written before and read after.
pub(crate) fn flood(socket: &Path, vci: u16, pdu_octets: usize, handover: Handover, length: Duration) -> Result<Flood> {
    flood_between(socket, ["alpha", "beta"], vci, (pdu_octets, handover), length)
}

/// The same from one host to another.
pub(crate) fn flood_between(
    socket: &Path,
    hosts: [&str; 2],
    vci: u16,
    (pdu_octets, handover): (usize, Handover),
    length: Duration,
) -> Result<Flood> {
    let [(mut sender, to_beta), (mut receiver, _)] = ends(socket, hosts, vci, pdu_octets, handover)?;
    let done = AtomicBool::new(false);
    let (begin, before) = (Instant::now(), process_seconds());
    std::thread::scope(|scope| {
        let counting = scope.spawn(|| count(&mut receiver, pdu_octets, &done));
        let sending = send(&mut sender, to_beta, pdu_octets, length);
        let processors = (process_seconds() - before) / begin.elapsed().as_secs_f64();
        done.store(true, Ordering::Relaxed);
        let counted = counting.join().unwrap_or_else(|_| bail!("the receiver panicked"));
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
            bail!("an SDU of {octets} octets arrived where {pdu_octets} were sent");
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
                Err((e, _)) => bail!(e),
            }
            if sent.is_multiple_of(BURST) {
                sender.flush();
            }
        }
    }
    sender.wait_sent(Some(Duration::from_secs(1)))?;
    Ok(sent)
}

/// The median and the 99th of a hundred round trips of `pdu_octets`, in microseconds: alpha asks, beta answers by the same
/// circuit. `placed`: both applications on processor 0.
pub(super) fn round_trip(
    socket: &Path,
    vci: u16,
    pdu_octets: usize,
    (events, placed): (Events, bool),
    length: Duration,
) -> Result<(f64, f64)> {
    let (mut asking, to_beta) = endpoint(socket, "alpha", vci, pdu_octets, events)?;
    let (mut answering, to_alpha) = endpoint(socket, "beta", vci, pdu_octets, events)?;
    let done = AtomicBool::new(false);
    let everywhere = Processors::allowed()?;
    let place = || if placed { pin(0) } else { Ok(()) };
    let result = std::thread::scope(|scope| {
        let echo = scope.spawn(|| -> Result<()> {
            place()?;
            let mut octets = vec![0; pdu_octets];
            while !done.load(Ordering::Relaxed) {
                let Some(sdu) = answering.receive(Some(Duration::from_millis(20)))? else { continue };
                octets.copy_from_slice(&sdu);
                drop(sdu);
                answering.send_copy(to_alpha, &octets)?;
            }
            Ok(())
        });
        let asked = (|| -> Result<Vec<f64>> {
            place()?;
            let (begin, mut times, octets) = (Instant::now(), Vec::new(), vec![7; pdu_octets]);
            while begin.elapsed() < length {
                let asked = Instant::now();
                asking.send_copy(to_beta, &octets)?;
                let answer = asking.receive(Some(PATIENCE))?.context("no answer in two seconds")?;
                black_box(sum(&answer));
                times.push(asked.elapsed().as_secs_f64() * 1e6);
            }
            Ok(times)
        })();
        done.store(true, Ordering::Relaxed);
        let echoed = echo.join().unwrap_or_else(|_| bail!("the echo panicked"));
        let times = asked?;
        echoed.map(|()| times)
    });
    everywhere.stay()?;
    let mut times = result?;
    times.sort_by(f64::total_cmp);
    let at = |share: usize| times.get(times.len() * share / 100).copied().unwrap_or_default();
    Ok((at(50), at(99)))
}
