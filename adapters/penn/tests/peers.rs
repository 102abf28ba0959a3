//! Transfers between cards of the bus: a capture card is streamed from, a display delivered to, and no host's memory or
//! processor touches an octet (Traw and Smith 1993, sections 3.3 to 3.5 and 5.2).

use bus::iocc::{Memory, Process};
use bus::peers::{PeerCard, WithPeers};
use penn::Streaming;
use penn::driver::{BUFFER_OCTETS, BUFFERS, Cards, Control, Penn, PennError, Written};
use penn::reassembler::Card;
use penn::reassembly::Config;
use penn::segmenter::Segmenter;
use std::time::Duration;
use wire::{Cell, Time};

/// Beyond all addresses that the I/O channel controller translates.
const CAPTURE: u32 = 0xd000_0000;
const DISPLAY: u32 = 0xe000_0000;
const FRAME: usize = 48 * 400;

struct Host {
    segmenter: Segmenter,
    reassembler: Card,
    memory: Memory,
    peers: [PeerCard; 2],
    driver: Penn,
    file: usize,
}

impl Host {
    fn new() -> Self {
        let mut memory = Memory::new(64, 64);
        memory.grow(Process(0), 0, BUFFERS * BUFFER_OCTETS).unwrap();
        let mut segmenter = Segmenter::new(Streaming::MICRO_CHANNEL);
        let mut reassembler = Card::new(Config::default()).unwrap();
        let mut cards = Cards { segmenter: &mut segmenter, reassembler: &mut reassembler, memory: &mut memory };
        let mut driver = Penn::probe(&mut cards, 0, 512, Duration::from_millis(1), Time::ZERO);
        let file = driver.open();
        driver.control(file, Control::Vci(100), Time::ZERO).unwrap();
        let peers = [PeerCard::new(CAPTURE, FRAME), PeerCard::new(DISPLAY, FRAME)];
        Host { segmenter, reassembler, memory, peers, driver, file }
    }

    fn with<R>(&mut self, f: impl FnOnce(&mut Penn, &mut Cards<'_, WithPeers<'_, Memory>>, usize) -> R) -> R {
        let Host { segmenter, reassembler, memory, peers, driver, file } = self;
        let mut memory = WithPeers { host: memory, cards: peers };
        f(driver, &mut Cards { segmenter, reassembler, memory: &mut memory }, *file)
    }
}

fn frame(n: usize) -> Vec<u8> {
    (0..FRAME).map(|i| (i as u8).wrapping_mul(13) ^ (i >> 8) as u8 ^ n as u8).collect()
}

#[test]
fn frames_go_from_a_capture_card_to_a_display_and_no_octet_crosses_a_hosts_memory() {
    let mut hosts = [Host::new(), Host::new()];
    hosts[1].with(|driver, cards, file| driver.map_card(cards, file, DISPLAY, FRAME as u32)).unwrap();
    let mut cells = [Cell::default(); 8];
    let mut now = Time::ZERO;
    for n in 0..5 {
        hosts[0].peers[0].own(0, FRAME).unwrap().copy_from_slice(&frame(n));
        let written =
            hosts[0].with(|driver, cards, file| driver.write_from_card(cards, file, CAPTURE, FRAME as u32, now));
        let Ok(Written::Until(ticket)) = written else { panic!("{written:?}") };
        let until = now + Duration::from_millis(10);
        while now < until {
            let [from, to] = &mut hosts;
            let cell = from.segmenter.poll_timeout();
            let due = from.with(|driver, cards, _| driver.poll_timeout(cards));
            let due = due.min(to.with(|driver, cards, _| driver.poll_timeout(cards)));
            now = due.min(cell.unwrap_or(due)).max(now);
            let mut memory = WithPeers { host: &mut from.memory, cards: &mut from.peers };
            let sent = from.segmenter.fill(&mut cells, &mut memory, now);
            to.reassembler.handle_cells(&cells[..sent], now);
            let mut memory = WithPeers { host: &mut to.memory, cards: &mut to.peers };
            to.reassembler.run(&mut memory, 64, now);
            for host in &mut hosts {
                host.with(|driver, cards, _| driver.handle_timeout(cards, now));
            }
        }
        assert!(hosts[0].driver.is_written(ticket));
        assert!(hosts[1].peers[1].own(0, FRAME).unwrap() == frame(n), "frame {n}");
    }
    assert_eq!((hosts[0].peers[0].read_octets, hosts[1].peers[1].written_octets), (5 * FRAME as u64, 5 * FRAME as u64));
    for host in &hosts {
        assert_eq!(host.memory.crossings().total(), 0, "no host's memory has a part in it");
        assert_eq!(host.driver.statistics.failed, 0);
    }
    // One call for each frame, and the registers of one transfer.
    assert_eq!((hosts[0].driver.accesses.calls, hosts[0].driver.accesses.registers_written), (5, 2 + 3 * 5));
}

#[test]
fn a_card_that_is_not_there_fails_the_transfer_and_pdus_that_the_processor_composes_are_refused() {
    let mut host = Host::new();
    let written = host.with(|driver, cards, file| driver.write_from_card(cards, file, 0xf000_0000, 480, Time::ZERO));
    assert!(matches!(written, Ok(Written::Until(_))));
    let mut cells = [Cell::default(); 8];
    for micros in 0..100 {
        let now = Time::from_micros(micros);
        let mut memory = WithPeers { host: &mut host.memory, cards: &mut host.peers };
        assert_eq!(host.segmenter.fill(&mut cells, &mut memory, now), 0);
        host.with(|driver, cards, _| driver.handle_timeout(cards, now));
    }
    assert_eq!(host.driver.statistics.failed, 1);
    let file = host.driver.open();
    host.driver.control(file, Control::Vci(0x8005), Time::ZERO).unwrap();
    let refused = host.with(|driver, cards, _| driver.write_from_card(cards, file, CAPTURE, 480, Time::ZERO));
    assert_eq!(refused, Err(PennError::Length(480)));
}

/// Traw and Smith 1993, section 5.2: card to card, the bus carries slightly less than 320 Mbit/s.
#[test]
fn between_cards_the_bus_carries_slightly_less_than_its_peak() {
    let octets = 65_520;
    let streaming = Streaming::MICRO_CHANNEL;
    // A line that is not the limit.
    let line = wire::CellRate::from_line_bits_per_s(10e9).unwrap();
    let mut card = Segmenter::on_line(streaming, line);
    let mut peers = [PeerCard::new(CAPTURE, octets)];
    let mut host = bus::memory::NoMemory;
    let mut memory = WithPeers { host: &mut host, cards: &mut peers };
    for (register, value) in [(1, CAPTURE), (2, octets as u32), (3, 100 << 4), (5, 1)] {
        card.write(register, value, Time::ZERO);
    }
    let (mut cells, mut last) = ([Cell::default(); 8], Time::ZERO);
    while let Some(due) = card.poll_timeout() {
        last = due;
        card.fill(&mut cells, &mut memory, due);
    }
    let mbit_s = octets as f64 * 8.0 / last.as_secs_f64() / 1e6;
    assert!(mbit_s < 320.0 && mbit_s > 319.0, "{mbit_s} Mbit/s");
}
