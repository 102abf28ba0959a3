//! What crosses the memory bus by way of the two cards and their driver: the count of [`bus::crossings`], read off.

use bus::crossings::Crosser;
use bus::iocc::{Memory, PAGE, Process};
use penn::Streaming;
use penn::driver::{BUFFER_OCTETS, BUFFERS, Cards, Control, Overlap, Penn, Variant};
use penn::reassembler::Card;
use penn::segmenter::Segmenter;
use std::time::Duration;
use wire::{Cell, Time};

const USER: Process = Process(7);
const AT: u32 = 0x0040_0000;
const OCTETS: usize = 9600;

fn data() -> Vec<u8> {
    (0..OCTETS).map(|i| (i as u8).wrapping_mul(29) ^ (i >> 8) as u8).collect()
}

/// A copy into a kernel buffer and a transfer, or a transfer alone.
#[test]
fn kernel_buffers_cost_a_copy_more_than_the_pages_of_the_process() {
    for (variant, crossed) in [(Variant::Kernel, 4.0), (Variant::User(Overlap::Trust), 2.0)] {
        let mut hosts = [0, 1].map(|_| {
            let mut memory = Memory::new(128, 96);
            memory.grow(Process(0), 0, BUFFERS * BUFFER_OCTETS).unwrap();
            memory.grow(USER, AT, 4 * PAGE).unwrap();
            let mut segmenter = Segmenter::new(Streaming::MICRO_CHANNEL);
            let mut reassembler = Card::new(penn::reassembly::Config::default()).unwrap();
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
