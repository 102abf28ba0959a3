//! How fast SDUs pass a direct circuit by the crate `endpoint`: the limit that the other languages are held to.
//!
//! Each SDU is written whole by the sender and read whole by the receiver, in two threads, in batches with one wake-up
//! each. `bindings/c/tests/speed.c` does the same, `bindings/python/tests/speed.py` between two processes.

use anyhow::{Context as _, Result};
use endpoint::direct::{Direct, DirectConfig, Receiver, Sender};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// SDUs of a batch.
pub const BATCH: usize = 32;

/// SDUs per second of so many octets, over `length`.
///
/// # Errors
/// There is no memory, or a side has gone.
pub fn flood(octets: usize, length: Duration) -> Result<f64> {
    let (here, there) = Direct::pair(&DirectConfig::default())?;
    let (mut sender, mut receiver) = (here.sender, there.receiver);
    let begin = Instant::now();
    let n = std::thread::scope(|scope| {
        let counting = scope.spawn(move || count(&mut receiver, octets));
        send(&mut sender, octets, length)?;
        counting.join().ok().context("the receiver panicked")?
    })?;
    Ok(n as f64 / begin.elapsed().as_secs_f64())
}

fn send(sender: &mut Sender, octets: usize, length: Duration) -> Result<()> {
    let source = vec![7u8; octets];
    let begin = Instant::now();
    while begin.elapsed() < length {
        for _ in 0..BATCH {
            post(sender, &source)?;
        }
        sender.ring_bell();
    }
    // One of a single octet ends it.
    while sender.send_copy(&[0]).is_err() {
        sender.wait_room(1, None)?;
    }
    Ok(())
}

#[inline]
fn post(sender: &mut Sender, source: &[u8]) -> Result<()> {
    loop {
        if let Some(mut loan) = sender.loan(source.len()) {
            loan[..source.len()].copy_from_slice(source);
            if loan.post(source.len()).is_ok() {
                return Ok(());
            }
        }
        sender.wait_room(source.len(), None)?;
    }
}

fn count(receiver: &mut Receiver, octets: usize) -> Result<u64> {
    let mut sink = vec![0; octets];
    let mut n = 0;
    while let Some(message) = receiver.receive(None)? {
        if message.len() == 1 {
            break;
        }
        message.copy_to(&mut sink);
        black_box(&sink);
        n += 1;
    }
    Ok(n)
}
