//! The model of the ENI155P alone: our driver, a loop-back inside the adapter, no bus between. What a guest gets is less, by
//! what its accesses cost; this shows that the model is not the limit. `memcpy` is the same SDUs copied in memory once.

use adapter::driver::Bus;
use adapter::driver::eni::{Aal, BUFFER_OCTETS, Direct, Eni};
use adapter::memory::Flat;
use adapter::midway::{Config, Eni155p, Pace, registers as r};
use adapter::suni;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use wire::{Cell, Time};

const BUFFERS: u64 = 8;

/// An adapter whose cells come back to it.
struct Bench {
    adapter: Eni155p,
    memory: Flat,
    driver: Eni,
    cells: Vec<Cell>,
}

impl Bench {
    fn new() -> Self {
        let mut adapter = Eni155p::new(Config { pace: Pace::Unpaced, ..Config::default() });
        let mut bus = Direct { adapter: &mut adapter, now: Time::ZERO };
        let mut driver = Eni::probe(&mut bus, 0, BUFFERS).expect("an ENI155P");
        driver.open(&mut bus, 40, Aal::Aal5, 128 << 10, None).expect("room for a circuit");
        bus.write(r::PHY_AT + 4 * u32::from(suni::MCT), 2);
        let memory = Flat::new(0, (2 * BUFFERS * BUFFER_OCTETS) as usize);
        Bench { adapter, memory, driver, cells: vec![Cell::default(); 256] }
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

fn loop_back(c: &mut Criterion) {
    let mut group = c.benchmark_group("eni155p");
    for octets in [64, 1500, 9188, 65_535] {
        let sdu = vec![7; octets];
        let mut copy = vec![0; octets];
        let mut bench = Bench::new();
        group.throughput(Throughput::Bytes(octets as u64));
        group.bench_function(BenchmarkId::new("loop-back", octets), |b| b.iter(|| bench.round(&sdu)));
        group.bench_function(BenchmarkId::new("memcpy", octets), |b| {
            b.iter(|| black_box(&mut copy).copy_from_slice(black_box(&sdu)));
        });
    }
    group.finish();
}

criterion_group!(benches, loop_back);
criterion_main!(benches);
