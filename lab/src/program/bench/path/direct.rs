//! The same flood by a direct circuit: what two processes of one machine reach without a network between them.

use anyhow::{Result, bail};
use endpoint::direct::{Direct, DirectConfig, Receiver, Sender};
use stack::flood::{BURST, Flood, process_seconds, sum_words};
use std::hint::black_box;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wire::CircuitId;

const PATIENCE: Duration = Duration::from_secs(10);

/// Floods a circuit that both sides open directly: each octet is written before and read after.
pub(super) fn flood(socket: &Path, circuit: CircuitId, pdu_octets: usize, length: Duration) -> Result<Flood> {
    let open =
        |host| Direct::open(socket, host, circuit, &DirectConfig { patience: Some(PATIENCE), ..Default::default() });
    std::thread::scope(|scope| {
        // Each waits for the other.
        let beta = scope.spawn(|| anyhow::Ok(open("beta")?));
        let mut alpha = open("alpha")?;
        let mut beta = beta.join().unwrap_or_else(|_| bail!("the receiver panicked"))?;
        let done = AtomicBool::new(false);
        let (begin, before) = (Instant::now(), process_seconds());
        let (done, receiver) = (&done, &mut beta.receiver);
        std::thread::scope(|scope| {
            let counting = scope.spawn(move || count(receiver, pdu_octets, done));
            let sent = send(&mut alpha.sender, pdu_octets, length);
            let processors = (process_seconds() - before) / begin.elapsed().as_secs_f64();
            done.store(true, Ordering::Relaxed);
            let counted = counting.join().unwrap_or_else(|_| bail!("the receiver panicked"));
            let (sent, (arrived, seconds)) = (sent?, counted?);
            Ok(Flood { sent, arrived, in_place: arrived, seconds, processors })
        })
    })
}

fn send(sender: &mut Sender, pdu_octets: usize, length: Duration) -> Result<u64> {
    let begin = Instant::now();
    let mut sent = 0u64;
    while begin.elapsed() < length {
        for _ in 0..64 {
            let room = sender.room() > 0;
            let Some(mut loan) = room.then(|| sender.loan(pdu_octets)).flatten() else {
                sender.wait_room(pdu_octets, Some(PATIENCE))?;
                continue;
            };
            loan[..pdu_octets].fill(sent as u8);
            loan.post(pdu_octets).map_err(|(e, _)| e)?;
            sent += 1;
            if sent.is_multiple_of(BURST) {
                sender.ring_bell();
            }
        }
    }
    sender.ring_bell();
    Ok(sent)
}

/// Counts what arrives until the sender is done and no more comes.
fn count(receiver: &mut Receiver, pdu_octets: usize, done: &AtomicBool) -> Result<(u64, f64)> {
    let (mut pdus, mut total) = (0u64, 0u64);
    let mut first: Option<Instant> = None;
    let mut last = Instant::now();
    loop {
        let Some(message) = receiver.receive(Some(Duration::from_millis(20)))? else {
            if done.load(Ordering::Relaxed) {
                break;
            }
            continue;
        };
        if message.len() != pdu_octets {
            bail!("a message of {} octets arrived where {pdu_octets} were sent", message.len());
        }
        // Up to 40 octets are in its line.
        let words = message.shared_words().unwrap_or_default();
        total = total.wrapping_add(sum_words(words));
        drop(message);
        first.get_or_insert_with(Instant::now);
        pdus += 1;
        if pdus.is_multiple_of(64) {
            last = Instant::now();
        }
    }
    black_box(total);
    Ok((pdus, first.map_or(0.0, |first| last.saturating_duration_since(first).as_secs_f64())))
}
