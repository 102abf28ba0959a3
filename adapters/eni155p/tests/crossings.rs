//! What crosses the memory bus by way of the ENI155P and its driver: the count of [`bus::crossings`], read off.

use bus::crossings::Crosser;
use bus::iocc::{Memory, PAGE, Place, Process};
use bus::memory::{CrossMemory, Reach};
use eni155p::driver::{Aal, BUFFER_OCTETS, Direct, Eni};
use eni155p::{Config, Eni155p, Pace};
use wire::{Cell, Time};

const USER: Process = Process(7);
const AT: u32 = 0x0040_0000;
const OCTETS: usize = 9600;

fn data() -> Vec<u8> {
    (0..OCTETS).map(|i| (i as u8).wrapping_mul(29) ^ (i >> 8) as u8).collect()
}

/// Almesberger's buffering adapter with a copying kernel: four crossings each way, of which the adapter makes one.
#[test]
fn a_buffering_adapter_and_a_kernel_that_copies_cross_four_times_each_way() {
    const FRAMES: usize = 2 * BUFFER_OCTETS as usize / PAGE;
    let mut hosts = [0, 1].map(|_| {
        let mut memory = Memory::new(FRAMES + 8, FRAMES + 8);
        memory.grow(Process(0), 0, FRAMES * PAGE).unwrap();
        memory.grow(USER, AT, 4 * PAGE).unwrap();
        let reach = Reach { device_writes: true, tagged: false };
        let x = memory.attach(0, (FRAMES * PAGE) as u32, reach).unwrap();
        memory.enter(USER);
        let mut adapter = Eni155p::new(Config { pace: Pace::Unpaced, ..Config::default() });
        let mut bus = Direct { adapter: &mut adapter, now: Time::ZERO };
        let mut driver = Eni::probe(&mut bus, x.bus.into(), 1).unwrap();
        driver.open(&mut bus, 100, Aal::Aal5, 64 << 10, None).unwrap();
        (adapter, memory, driver)
    });
    let now = Time::ZERO;
    let (adapter, memory, driver) = &mut hosts[0];
    memory.store(USER, AT, &data()).unwrap();
    let mut sdu = vec![0; OCTETS];
    memory.copy_in(AT, &mut sdu).unwrap();
    driver.send(&mut Direct { adapter, now }, memory, 100, &sdu).unwrap();
    let mut cells = [Cell::default(); 16];
    let received = loop {
        let n = hosts[0].0.fill(&mut cells, now);
        hosts[1].0.handle_cells(&cells[..n]);
        for (adapter, memory, driver) in &mut hosts {
            while adapter.run_dma(memory, 1 << 16) {}
            while adapter.interrupt(now) {
                driver.handle_interrupt(&mut Direct { adapter, now });
                while adapter.run_dma(memory, 1 << 16) {}
            }
        }
        if let Some(received) = hosts[1].2.poll_received() {
            break received;
        }
    };
    let memory = &mut hosts[1].1;
    let from = Place::kernel(received.address as u32);
    memory.copy(from, Place { process: USER, address: AT }, received.octets).unwrap();
    let mut got = vec![0; OCTETS];
    memory.load(USER, AT, &mut got).unwrap();
    assert!(got == data());
    let crossings = hosts.each_ref().map(|host| host.1.crossings());
    let by = |by: Crosser| crossings.map(|crossings| crossings.read(by) + crossings.written(by));
    let octets = OCTETS as u64;
    assert_eq!(by(Crosser::Application), [octets; 2]);
    assert_eq!(by(Crosser::Copy), [2 * octets; 2]);
    assert_eq!(by(Crosser::Checksum), [0; 2]);
    // The adapter writes whole words: an SDU of whole words is moved as it is.
    assert_eq!(by(Crosser::Dma), [octets; 2]);
}
