//! The round trip by the same way as the flood's.

use crate::bench::pin;
use anyhow::{Context as _, Result, bail};
use control::processors::Processors;
use endpoint::Events;
use stack::flood::{endpoint, sum};
use std::hint::black_box;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wire::CircuitId;

/// Nobody answers for so long: something is wrong.
const PATIENCE: Duration = Duration::from_secs(2);

/// The median and the 99th of a hundred round trips of `pdu_octets`, in microseconds: alpha asks, beta answers by the same
/// circuit. `placed`: both applications on processor 0.
pub(super) fn round_trip(
    socket: &Path,
    circuit: CircuitId,
    pdu_octets: usize,
    (events, placed): (Events, bool),
    length: Duration,
) -> Result<(f64, f64)> {
    let (mut asking, to_beta) = endpoint(socket, "alpha", circuit, pdu_octets, events)?;
    let (mut answering, to_alpha) = endpoint(socket, "beta", circuit, pdu_octets, events)?;
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
