//! How fast the model of the ENI155P alone is: our driver, a loop-back inside the adapter, no bus between. What a guest gets is
//! less, by what its accesses cost; this shows that the model is not the limit.
//!
//! `cargo run --release -p adapter --example loop_back` prints, per SDU size, the median of nine runs beside memcpy of the
//! same SDUs in the same runs, by the time that the thread has had of the processor.

use adapter::driver::Bus;
use adapter::driver::eni::{Aal, BUFFER_OCTETS, Direct, Eni};
use adapter::memory::Flat;
use adapter::midway::{Config, Eni155p, Pace, registers as r};
use adapter::suni;
use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::time::Duration;
use wire::{Cell, Time};

const BUFFERS: u64 = 8;
const RUNS: usize = 9;
/// Octets of SDUs per run.
const OCTETS: usize = 8 << 20;

/// An adapter whose cells come back to it.
struct Loop {
    adapter: Eni155p,
    memory: Flat,
    driver: Eni,
    cells: Vec<Cell>,
}

impl Loop {
    fn new() -> Self {
        let mut adapter = Eni155p::new(Config { pace: Pace::Unpaced, ..Config::default() });
        let mut bus = Direct { adapter: &mut adapter, now: Time::ZERO };
        let mut driver = Eni::probe(&mut bus, 0, BUFFERS).expect("an ENI155P");
        driver.open(&mut bus, 40, Aal::Aal5, 128 << 10, None).expect("room for a circuit");
        bus.write(r::PHY_AT + 4 * u32::from(suni::MCT), 2);
        let memory = Flat::new(0, (2 * BUFFERS * BUFFER_OCTETS) as usize);
        Loop { adapter, memory, driver, cells: vec![Cell::default(); 256] }
    }

    /// One SDU out of the host's memory, through the adapter twice, and back into the host's memory.
    fn round(&mut self, sdu: &[u8]) {
        let now = Time::ZERO;
        let mut bus = Direct { adapter: &mut self.adapter, now };
        self.driver.send(&mut bus, &mut self.memory, 40, sdu).expect("the last SDU has gone");
        loop {
            while self.adapter.run_dma(&mut self.memory, 1 << 16) {}
            if self.adapter.next_transmit().is_some() {
                self.adapter.fill(&mut self.cells, now);
            } else if self.adapter.interrupt(now) {
                self.driver.handle_interrupt(&mut Direct { adapter: &mut self.adapter, now });
            } else {
                break;
            }
        }
        let received = self.driver.poll_received().expect("the SDU came back");
        assert_eq!(received.octets, sdu.len());
        self.driver.release(received);
    }
}

/// What this thread has had of the processor: other programs do not count.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

fn main() {
    println!("sdu_octets  loop_back_mbit_s  memcpy_mbit_s  share  pdus_per_s");
    for octets in [64, 1500, 9188, 65_535] {
        let sdu = vec![7; octets];
        let mut copy = vec![0; octets];
        let mut looped = Loop::new();
        let rounds = OCTETS / octets;
        let rate = |begin: Duration| (rounds * octets * 8) as f64 / (processor_time() - begin).as_secs_f64() / 1e6;
        let (mut through, mut copied) = (Vec::new(), Vec::new());
        for _ in 0..RUNS {
            let begin = processor_time();
            for _ in 0..rounds {
                looped.round(&sdu);
            }
            through.push(rate(begin));
            let begin = processor_time();
            for _ in 0..rounds {
                black_box(&mut copy).copy_from_slice(black_box(&sdu));
            }
            copied.push(rate(begin));
        }
        let (through, copied) = (median(through), median(copied));
        let pdus = through * 1e6 / 8.0 / octets as f64;
        println!("{octets:>10}  {through:>16.0}  {copied:>13.0}  {:>5.3}  {pdus:>10.0}", through / copied);
    }
}
