//! What crosses the memory bus by way of the other adapters and their drivers: the count of [`adapter::crossings`], read off.

use adapter::crossings::Crosser;
use adapter::driver::eni::{Aal, BUFFER_OCTETS, Direct, Eni};
use adapter::driver::penn::{BUFFER_OCTETS as PENN_OCTETS, BUFFERS, Cards, Control, Overlap, Penn, Variant};
use adapter::iocc::{Memory, PAGE, Place, Process};
use adapter::memory::{CrossMemory, Reach};
use adapter::midway::{Config, Eni155p, Pace};
use adapter::penn::Streaming;
use adapter::penn::reassembler::Card;
use adapter::penn::segmenter::Segmenter;
use std::time::Duration;
use wire::{Cell, Time};

const USER: Process = Process(7);
const AT: u32 = 0x0040_0000;
const OCTETS: usize = 9600;

fn data() -> Vec<u8> {
    (0..OCTETS).map(|i| (i as u8).wrapping_mul(29) ^ (i >> 8) as u8).collect()
}

/// Traw and Smith's cards: a copy into a kernel buffer and a transfer, or a transfer alone.
#[test]
fn kernel_buffers_cost_a_copy_more_than_the_pages_of_the_process() {
    for (variant, crossed) in [(Variant::Kernel, 4.0), (Variant::User(Overlap::Trust), 2.0)] {
        let mut hosts = [0, 1].map(|_| {
            let mut memory = Memory::new(128, 96);
            memory.grow(Process(0), 0, BUFFERS * PENN_OCTETS).unwrap();
            memory.grow(USER, AT, 4 * PAGE).unwrap();
            let mut segmenter = Segmenter::new(Streaming::MICRO_CHANNEL);
            let mut reassembler = Card::new(sar::penn::Config::default()).unwrap();
            let mut cards = Cards { segmenter: &mut segmenter, reassembler: &mut reassembler, memory: &mut memory };
            let mut driver = Penn::probe(&mut cards, 0, 512, Duration::from_millis(1), Time::ZERO);
            memory.enter(USER);
            let file = driver.open();
            driver.control(file, Control::Vci(100), Time::ZERO).unwrap();
            driver.control(file, Control::Variant(variant), Time::ZERO).unwrap();
            (segmenter, reassembler, memory, driver, file)
        });
        let [sender, receiver] = &mut hosts;
        let (_, reassembler, memory, driver, file) = receiver;
        let mut cards = Cards { segmenter: &mut Segmenter::new(Streaming::MICRO_CHANNEL), reassembler, memory };
        driver.map(&mut cards, *file, AT, OCTETS as u32).unwrap();
        let (segmenter, reassembler, memory, driver, file) = sender;
        memory.store(USER, AT, &data()).unwrap();
        let mut cards = Cards { segmenter, reassembler, memory };
        driver.write(&mut cards, *file, AT, OCTETS, Time::ZERO).unwrap();
        let mut cells = [Cell::default(); 4];
        for step in 0..10_000 {
            let now = Time::from_micros(step * 2);
            let n = sender.0.fill(&mut cells, &mut sender.2, now);
            receiver.1.handle_cells(&cells[..n], now);
            for (segmenter, reassembler, memory, driver, _) in [&mut *sender, &mut *receiver] {
                reassembler.run(memory, 64, now);
                driver.handle_timeout(&mut Cards { segmenter, reassembler, memory }, now);
            }
        }
        let mut got = vec![0; OCTETS];
        receiver.2.load(USER, AT, &mut got).unwrap();
        assert!(got == data());
        let [sent, received] = [&sender.2, &receiver.2].map(|memory| memory.crossings().per_octet(OCTETS as u64));
        // The reader's buffer is mapped: a transfer, and the process's own load.
        assert_eq!((sent, received), (crossed, 2.0), "{variant:?}");
        assert_eq!(sender.2.crossings().read(Crosser::Dma), OCTETS as u64);
    }
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
