//! A transfer in which nothing arrived: whether the way stood still, or the machine had no processor for it.

use super::programs::{Length, Transfer};
use anyhow::{Context as _, Result, bail};
use cellway::output;
use std::time::Duration;

/// What a way is asked to carry that got no processor to carry anything within a fixed time.
pub(super) const PROBE: Length = Length::Megaoctets(16);

/// A transfer in which something has arrived. If nothing has, and whoever carries it waited for a processor at least
/// half of the time (`starved`), the benchmark measures a number of octets, which has all the time. Otherwise the way
/// stood still.
pub(super) fn arrived(transfer: Transfer, starved: bool, again: impl FnOnce() -> Result<Transfer>) -> Result<Transfer> {
    if transfer.octets > 0 {
        return Ok(transfer);
    }
    let Transfer { octets_sent, sent_again, .. } = transfer;
    let said = format!("of {octets_sent} octets of TCP none had arrived; {sent_again} segments were sent again");
    if !starved {
        bail!("it stood still: {said}");
    }
    output::note(format_args!("cellway-lab bench ip: no processor was free: {said}; measured over {PROBE} instead"));
    let probe = again().with_context(|| said.clone())?;
    if probe.octets == 0 {
        bail!("it stood still: {said}, nor over {PROBE}");
    }
    Ok(probe)
}

/// How long all threads of this process, which carries the packets, have been ready to run without a processor
/// (proc_pid_schedstat(5)); zero where the system does not say.
pub(super) fn waited_for_a_processor() -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let waited = |task: std::fs::DirEntry| -> Option<u64> {
        let said = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        said.split_whitespace().nth(1)?.parse().ok()
    };
    Duration::from_nanos(tasks.filter_map(waited).sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;
    use control::processors::Processors;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Instant;

    #[test]
    fn a_way_that_got_no_processor_is_measured_by_octets_and_one_that_stood_still_is_an_error() {
        let transfer = |octets| Transfer { gbit_s: 1.0, octets, octets_sent: 131_072, sent_again: 3 };
        let never = || -> Result<Transfer> { panic!("it is not asked again") };
        assert_eq!(arrived(transfer(5), true, never).unwrap().octets, 5);
        assert_eq!(arrived(transfer(0), true, || Ok(transfer(7))).unwrap().octets, 7);
        let why = |result: Result<Transfer>| format!("{:#}", result.err().unwrap());
        for why in [why(arrived(transfer(0), false, never)), why(arrived(transfer(0), true, || Ok(transfer(0))))] {
            assert!(why.starts_with("it stood still") && why.contains("131072 octets"), "{why}");
        }
        let ended = why(arrived(transfer(0), true, || Err(anyhow!("iperf3 ends with 124"))));
        assert!(ended.ends_with("iperf3 ends with 124"), "{ended}");
    }

    #[test]
    fn a_thread_that_shares_its_processor_waits_for_it() {
        let here = Processors::allowed().unwrap().numbers().next().unwrap();
        let (before, end) = (waited_for_a_processor(), Instant::now() + Duration::from_secs(60));
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    crate::bench::pin(here).unwrap();
                    while !done.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let waited = || waited_for_a_processor().saturating_sub(before) > Duration::from_millis(20);
            while !waited() && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(5));
            }
            done.store(true, Ordering::Relaxed);
            assert!(waited());
        });
    }
}
