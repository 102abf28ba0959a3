//! Writes to the Segmenter of seed 001: a system call, copies, and a streaming transfer that the I/O channel controller
//! (IOCC) interrupts once in 16 words to load its buffer.

use super::machine::{Level, Machine, Work};
use super::profile::{Profile, ProfileError};
use wire::Time;

/// How a write goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Driver {
    /// Into a kernel buffer, which is then streamed; the call returns when the card is idle again.
    KernelBuffer,
    /// The same, but the call returns when streaming has begun: copying overlaps with streaming of the other buffer.
    DoubleBuffer,
    /// From the user's memory, mapped for the card; the call returns when the card is idle again.
    UserBuffer,
    /// From the user's memory, and nothing is streamed: the infinitely fast interface of figure 12.
    InfinitelyFast,
    /// From memory shared with the kernel, control passed without a system call, two regions in turn.
    Shared,
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// Of the application's octets, 10^6 bit/s.
    pub mbit_s: f64,
    /// The share of the time that the processor was busy with it.
    pub processor: f64,
}

/// Seconds on the bus of a transfer of up to 16 words, with the load of the IOCC's buffer; without it, card to card.
pub fn transfer_seconds(machine: &Profile, words: f64, setup: bool, loaded: bool) -> Result<f64, ProfileError> {
    let setup = if setup { machine.get("setup_ns")? * 1e-9 } else { 0.0 };
    let load = if loaded { machine.get("iocc_load_us")? * 1e-6 } else { 0.0 };
    Ok(setup + words * machine.get("word_ns")? * 1e-9 + load)
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Token {
    Called,
    Words,
}

/// Writes `octets` `writes` times; `refill`: the application copies a pattern into its buffer before each.
///
/// # Errors
/// The machine lacks a constant.
pub fn run(
    machine: &Profile,
    driver: Driver,
    octets: usize,
    writes: u64,
    refill: bool,
) -> Result<Outcome, ProfileError> {
    let rate = machine.get("memory_gbit_s")? * 1e9;
    let bits = octets as f64 * 8.0;
    let call = match driver {
        Driver::Shared => machine.get("shared_write_us")?,
        _ => machine.get("write_us")?,
    };
    let mut work = Work::cached(call * 1e-6);
    if matches!(driver, Driver::KernelBuffer | Driver::DoubleBuffer) {
        // What testwr writes is in the cache since it wrote it last: a copy costs the memory its writes only.
        work = work.and(Work { seconds: bits / rate, memory: 1.0 });
    }
    if refill {
        work = work.and(Work { seconds: 2.0 * bits / rate, memory: 1.0 });
    }
    let words = machine.get("iocc_words")?;
    // The set-up is hidden in the load: without that, 142 Mbit/s are not to be had (B-39 against B-40).
    let seconds = transfer_seconds(machine, words, false, true)?;
    let chunk = Work { seconds, memory: (words * 32.0 / rate / seconds).min(1.0) };
    let chunks = if driver == Driver::InfinitelyFast { 0 } else { (bits / (words * 32.0)).ceil() as u64 };
    let waits = !matches!(driver, Driver::DoubleBuffer | Driver::Shared);

    let mut simulated = Machine::default();
    let (mut called, mut done, mut left, mut ready) = (0u64, 0u64, 0u64, 0u64);
    let mut calling = false;
    let mut now = Time::ZERO;
    while done < writes {
        if left == 0 && ready > 0 && !simulated.transfers() {
            ready -= 1;
            left = chunks;
            if chunks == 0 {
                done += 1;
            }
        }
        if left > 0 && !simulated.transfers() {
            let _ = simulated.transfer(chunk, Token::Words);
        }
        let busy = left > 0 || ready > 0;
        if !calling && called < writes && ready == 0 && !(waits && busy) {
            calling = true;
            simulated.submit(Level::Process, work, Token::Called);
        }
        let Some(at) = simulated.poll_timeout() else { continue };
        now = at;
        simulated.advance(at, |token| match token {
            Token::Called => {
                (calling, called, ready) = (false, called + 1, ready + 1);
            }
            Token::Words => {
                left -= 1;
                done += u64::from(left == 0);
            }
        });
    }
    let seconds = now.as_secs_f64().max(1e-12);
    Ok(Outcome { mbit_s: bits * writes as f64 / seconds / 1e6, processor: simulated.busy()[1] / seconds })
}
