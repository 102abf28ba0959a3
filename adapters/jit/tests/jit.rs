//! The just-in-time DMA adapter, sending to itself.

use bus::HostMemory;
use bus::memory::Flat;
use jit::{Buffer, Config, Descriptor, Event, Jit, Lists};
use proptest::prelude::*;
use std::time::Duration;
use wire::{Cell, CellRate, CircuitId, DropReason, Time};

const SMALL: Lists = Lists { first: 0, rest: 1 };
/// Buffers begin here; SDUs to send lie before.
const BUFFERS: u64 = 1 << 17;

fn circuit(vci: u16) -> CircuitId {
    CircuitId::new(0, vci).unwrap()
}

struct World {
    adapter: Jit,
    memory: Flat,
    now: Time,
    sent: Vec<(Time, Cell)>,
}

impl World {
    /// Small buffers of 96 octets in list 0, large ones of 4096 in list 1.
    fn new(config: Config, small: u64, large: u64) -> Self {
        let mut adapter = Jit::new(config);
        assert!(adapter.open(circuit(40), SMALL));
        for n in 0..small {
            assert!(adapter.replenish(0, Buffer { address: BUFFERS + 96 * n, octets: 96 }));
        }
        for n in 0..large {
            assert!(adapter.replenish(1, Buffer { address: BUFFERS + 0x1_0000 + 4096 * n, octets: 4096 }));
        }
        World { adapter, memory: Flat::new(0, 1 << 20), now: Time::ZERO, sent: Vec::new() }
    }

    fn send(&mut self, queue: usize, vci: u16, sdu: &[u8], cookie: u64) {
        let address = 0x8000 * cookie;
        self.memory.write(address, sdu).unwrap();
        let descriptor = Descriptor { circuit: circuit(vci), address, octets: sdu.len() as u32, cookie };
        assert!(self.adapter.send(queue, descriptor));
    }

    /// Until nothing is left to do; gives what happened.
    fn run(&mut self) -> Vec<Event> {
        let mut cells = [Cell::default(); 4];
        while let Some(next) = self.adapter.poll_timeout() {
            self.now = self.now.max(next);
            self.adapter.run(&mut self.memory, self.now);
            let n = self.adapter.fill(&mut cells, &mut self.memory, self.now);
            self.sent.extend(cells[..n].iter().map(|cell| (self.now, *cell)));
            self.adapter.handle_cells(&cells[..n], self.now);
        }
        std::iter::from_fn(|| self.adapter.poll_event()).collect()
    }

    fn content(&self, buffers: &[(Buffer, u32)], octets: u32) -> Vec<u8> {
        let part = |(buffer, used): &(Buffer, u32)| self.memory.slice(buffer.address, *used as usize).unwrap().to_vec();
        let mut all: Vec<u8> = buffers.iter().flat_map(part).collect();
        all.truncate(octets as usize);
        all
    }
}

fn pattern(octets: usize, seed: u8) -> Vec<u8> {
    (0..octets).map(|i| (i as u8).wrapping_mul(13) ^ (i >> 8) as u8 ^ seed).collect()
}

/// one interrupt after the last cell, each way. A-40: a small buffer, then large ones.
#[test]
fn a_pdu_fills_a_small_buffer_and_then_large_ones_with_one_interrupt_each_way() {
    for octets in [1, 40, 88, 89, 1500, 9188, 30_000] {
        let mut world = World::new(Config::default(), 4, 16);
        let sdu = pattern(octets, 1);
        world.send(0, 40, &sdu, 0);
        let events = world.run();
        let [Event::Sent { cookie: 0, whole: true }, Event::Received { buffers, octets: n, .. }] = &events[..] else {
            panic!("{events:?}");
        };
        assert_eq!(world.content(buffers, *n), sdu);
        assert_eq!(buffers[0].0.octets, 96);
        let filled: u32 = buffers.iter().map(|(_, used)| used).sum();
        assert_eq!(filled as usize, wire::aal5::cells(octets) * 48);
    }
}

/// lists that the host replenishes when it likes, and an interrupt when one is low.
#[test]
fn a_list_that_falls_below_its_threshold_is_told_once_and_again_after_it_was_filled() {
    let mut world = World::new(Config::default(), 3, 0);
    world.adapter.set_threshold(0, 2);
    let low = |events: Vec<Event>| events.iter().filter(|event| **event == Event::Low { list: 0 }).count();
    let mut told = Vec::new();
    for round in 0..3 {
        world.send(0, 40, &[1; 40], round);
        told.push(low(world.run()));
    }
    assert_eq!(told, [0, 1, 0]);
    for n in 0..3 {
        world.adapter.replenish(0, Buffer { address: BUFFERS + 96 * n, octets: 96 });
    }
    for round in 0..2 {
        world.send(0, 40, &[1; 40], round);
        told.push(low(world.run()));
    }
    assert_eq!(told[3..], [0, 1]);
}

#[test]
fn a_pdu_without_buffers_is_counted_and_what_it_had_comes_back() {
    let mut world = World::new(Config::default(), 1, 1);
    world.send(0, 40, &pattern(9188, 1), 0);
    let events = world.run();
    let returned = events.iter().find_map(|event| match event {
        Event::Returned { buffers, reason } => Some((buffers.len(), *reason)),
        _ => None,
    });
    assert_eq!(returned, Some((2, DropReason::NoBuffer)));
    assert_eq!(world.adapter.received().dropped(DropReason::NoBuffer), 1);
    world.adapter.replenish(0, Buffer { address: BUFFERS, octets: 96 });
    world.send(0, 40, &pattern(40, 2), 1);
    assert!(world.run().iter().any(|event| matches!(event, Event::Received { octets: 40, .. })));
}

/// the data are the host's memory's, at the last moment.
#[test]
fn data_are_fetched_when_their_cell_leaves_and_not_before() {
    let mut world = World::new(Config::default(), 4, 4);
    world.send(0, 40, &pattern(480, 1), 0);
    let mut cell = [Cell::default()];
    assert_eq!(world.adapter.fill(&mut cell, &mut world.memory, Time::ZERO), 1);
    world.memory.write(48, &[0xee; 48]).unwrap();
    let next = world.adapter.poll_timeout().unwrap();
    assert_eq!(world.adapter.fill(&mut cell, &mut world.memory, next), 1);
    assert_eq!(cell[0].payload, [0xee; 48]);
}

/// the bus's delay is bounded, or cells are lost.
#[test]
fn a_slow_bus_is_an_overrun_after_the_few_cells_that_the_adapter_holds() {
    // A transfer each 10 us, a cell each 2.83 us, room for eight.
    let slow = Config { bus_delay: Duration::from_micros(10), ..Config::default() };
    let mut world = World::new(slow, 4, 16);
    world.send(0, 40, &pattern(48 * 9, 1), 0);
    assert!(world.run().iter().any(|event| matches!(event, Event::Received { .. })), "ten cells pass");
    world.send(0, 40, &pattern(48 * 99, 1), 1);
    let events = world.run();
    assert!(
        events.iter().any(|event| matches!(event, Event::Returned { reason: DropReason::QueueFull, .. })),
        "{events:?}"
    );
    assert!(world.adapter.received().dropped(DropReason::QueueFull) > 40);
}

/// A-16, the other way: data that come later than the line wants them leave a gap in it, and the PDU is whole and late.
#[test]
fn a_bus_that_brings_data_late_is_an_underrun_and_a_slower_circuit_has_none() {
    let slow = Config { fetch_delay: Duration::from_micros(7), ..Config::default() };
    let mut world = World::new(slow, 4, 16);
    world.send(0, 40, &pattern(48 * 99, 1), 0);
    assert!(world.run().iter().any(|event| matches!(event, Event::Received { octets: 4752, .. })), "it is whole");
    assert_eq!((world.sent.len(), world.adapter.underruns()), (100, 99));
    let times: Vec<u64> = world.sent.iter().map(|(at, _)| at.as_nanos()).collect();
    assert!(times.windows(2).all(|two| two[1] - two[0] >= 7_000), "a cell each 7 us where the line has one each 2.83");
    // At 100 000 cells/s a cell is due each 10 us, and the bus is in time.
    let mut world = World::new(slow, 4, 16);
    world.adapter.shape(0, CellRate::from_cells_per_s(100_000.0));
    world.send(0, 40, &pattern(48 * 99, 1), 0);
    world.run();
    assert_eq!((world.sent.len(), world.adapter.underruns()), (100, 0));
}

/// a transmit queue for each shaper.
#[test]
fn each_queue_has_its_rate_and_the_line_bounds_all() {
    let mut world = World::new(Config::default(), 16, 64);
    world.adapter.shape(0, CellRate::from_cells_per_s(50_000.0));
    world.send(0, 40, &pattern(9188, 1), 0);
    world.send(1, 41, &pattern(9188, 2), 1);
    world.run();
    let times = |vci: u16| -> Vec<u64> {
        world.sent.iter().filter(|(_, c)| c.circuit() == circuit(vci)).map(|(at, _)| at.as_nanos()).collect()
    };
    let (shaped, other) = (times(40), times(41));
    assert_eq!((shaped.len(), other.len()), (192, 192));
    assert!(shaped.windows(2).all(|two| two[1] - two[0] >= 19_999));
    assert!(other[191] < 192 * 2832 * 5 / 4, "{} ns", other[191]);
}

#[test]
fn memory_that_is_not_there_makes_a_pdu_that_no_receiver_takes() {
    let mut world = World::new(Config::default(), 4, 4);
    let descriptor = Descriptor { circuit: circuit(40), address: (1 << 20) - 100, octets: 500, cookie: 7 };
    assert!(world.adapter.send(0, descriptor));
    let events = world.run();
    assert!(events.contains(&Event::Sent { cookie: 7, whole: false }), "{events:?}");
    assert!(events.iter().any(|event| matches!(event, Event::Returned { reason: DropReason::Crc, .. })));
}

/// a circuit chooses its list, whose buffers are of one size; what is longer goes on in the list's next one.
#[test]
fn each_circuit_has_its_list_of_one_size_and_a_pdu_goes_on_in_the_next_buffer() {
    let mut world = World::new(Config::default(), 0, 0);
    for (vci, list, octets) in [(50, 2, 480u32), (51, 3, 2000)] {
        assert!(world.adapter.open(circuit(vci), Lists { first: list, rest: list }));
        for n in 0..8 {
            let address = BUFFERS + 0x8000 * list as u64 + u64::from(n * octets);
            assert!(world.adapter.replenish(list, Buffer { address, octets }));
        }
    }
    let sdu = pattern(1500, 3);
    for (vci, sizes) in [(50, vec![480; 4]), (51, vec![2000])] {
        world.send(0, vci, &sdu, 1);
        let events = world.run();
        let received = events.iter().find_map(|event| match event {
            Event::Received { buffers, octets, circuit: id, .. } if *id == circuit(vci) => Some((buffers, *octets)),
            _ => None,
        });
        let (buffers, octets) = received.unwrap_or_else(|| panic!("{events:?}"));
        assert_eq!(buffers.iter().map(|(buffer, _)| buffer.octets).collect::<Vec<_>>(), sizes);
        assert_eq!(world.content(buffers, octets), sdu);
        // The next round's PDU finds them again.
        buffers.iter().for_each(|(buffer, _)| assert!(world.adapter.replenish(usize::from(vci - 48), *buffer)));
    }
}

/// batches correspond to packets, and a packet that is longer than its batch overflows to the next one.
#[test]
fn a_pdu_takes_a_batch_and_another_where_it_is_longer_and_what_it_leaves_comes_back_with_it() {
    let mut world = World::new(Config::default(), 0, 0);
    assert!(world.adapter.open(circuit(50), Lists { first: 2, rest: 2 }));
    let batch = |n: u64| [0, 1, 2].map(|i| Buffer { address: BUFFERS + 0x2000 * n + 480 * i, octets: 480 });
    assert!((0..3).all(|n| world.adapter.replenish_batch(2, &batch(n))));
    assert!(!world.adapter.replenish_batch(2, &[]));
    world.adapter.set_threshold(2, 4);
    // 32 cells, 1536 octets: a batch of 1440, and 96 octets of the next one.
    for (octets, used, first) in [(1500, vec![480, 480, 480, 96, 0, 0], 0), (100, vec![144, 0, 0], 2)] {
        let sdu = pattern(octets, 3);
        world.send(0, 50, &sdu, 1);
        let events = world.run();
        let received = events.iter().find_map(|event| match event {
            Event::Received { buffers, octets, .. } => Some((buffers, *octets)),
            _ => None,
        });
        let (buffers, n) = received.unwrap_or_else(|| panic!("{events:?}"));
        assert_eq!(buffers.iter().map(|(_, used)| *used).collect::<Vec<_>>(), used);
        assert_eq!((world.content(buffers, n), buffers[0].0), (sdu, batch(first)[0]));
        assert!(
            events.contains(&Event::Low { list: 2 }) == (octets == 1500),
            "three buffers are left, fewer than four"
        );
    }
    assert_eq!(world.adapter.buffers(), 0);
    // Where there is no batch left, what there was comes back.
    assert!(world.adapter.replenish_batch(2, &batch(0)));
    world.send(0, 50, &pattern(1500, 4), 1);
    let events = world.run();
    assert!(
        events
            .iter()
            .any(|e| matches!(e, Event::Returned { buffers, reason: DropReason::NoBuffer } if buffers.len() == 3)),
        "{events:?}"
    );
}

/// buffers of a page, with another alignment in each list; those of one alignment lie back to back, so that a PDU of
/// several lies in one piece, where its circuit's protocol wants its data aligned. A short PDU wastes most of a page.
#[test]
fn a_list_has_the_alignment_that_its_circuits_data_need_and_its_buffers_lie_back_to_back() {
    const PAGE: u64 = 4096;
    let mut world = World::new(Config::default(), 0, 0);
    // Headers of so many octets come before the data, which shall begin with a page.
    let headers = [(60, 2, 8u64), (61, 3, 28)];
    for (vci, list, header) in headers {
        assert!(world.adapter.open(circuit(vci), Lists { first: list, rest: list }));
        for n in 1..5 {
            let address = BUFFERS + 0x8000 * list as u64 + PAGE * n - header;
            assert!(world.adapter.replenish(list, Buffer { address, octets: PAGE as u32 }));
        }
    }
    for (vci, _, header) in headers {
        let sdu = [pattern(header as usize, 1), pattern(9000, 2)].concat();
        world.send(0, vci, &sdu, 1);
        let events = world.run();
        let Some(Event::Received { buffers, octets, .. }) = events.iter().find(|e| matches!(e, Event::Received { .. }))
        else {
            panic!("{events:?}");
        };
        assert_eq!(buffers.len(), 3);
        let begin = buffers[0].0.address;
        assert_eq!((begin + header) % PAGE, 0);
        assert_eq!(world.memory.slice(begin, *octets as usize), Some(&sdu[..]), "in one piece");
        // What the last page holds besides is lost: fragmentation inside.
        assert!(buffers[2].1 < buffers[2].0.octets / 4);
    }
}

proptest! {
    #[test]
    fn whatever_a_host_asks_and_whatever_comes_no_buffer_is_lost(
        operations in proptest::collection::vec((0u8..7, any::<u16>(), any::<u64>()), 0..200),
    ) {
        let config = Config { queue: 4, list: 8, cells: 4, ..Config::default() };
        let mut world = World::new(config, 8, 8);
        let mut out = 16i64;
        let mut cells = [Cell::default(); 4];
        for (kind, small, large) in operations {
            world.now += Duration::from_nanos(large % 20_000);
            match kind {
                0 => {
                    let octets = u32::from(small);
                    let id = CircuitId::from_key(large as u32 % 3 + 39);
                    world.adapter.send(usize::from(small) % 10, Descriptor { circuit: id, address: large, octets, cookie: 1 });
                }
                1 => {
                    let buffer = Buffer { address: large, octets: u32::from(small) };
                    out += i64::from(world.adapter.replenish(usize::from(small) % 2, buffer));
                }
                2 => {
                    let header = wire::CellHeader::from_word(40 << 4 | u32::from(small & 15));
                    world.adapter.handle_cells(&[Cell::new(header, [large as u8; 48])], world.now);
                }
                3 => world.adapter.run(&mut world.memory, world.now),
                6 => {
                    let batch: Vec<Buffer> =
                        (0..large % 4).map(|n| Buffer { address: 96 * n, octets: u32::from(small) + 48 }).collect();
                    let taken = world.adapter.replenish_batch(usize::from(small) % 2, &batch);
                    out += if taken { batch.len() as i64 } else { 0 };
                }
                4 => {
                    let n = world.adapter.fill(&mut cells, &mut world.memory, world.now);
                    world.adapter.handle_cells(&cells[..n], world.now);
                }
                _ => out -= world.adapter.poll_event().map_or(0, |event| match event {
                    Event::Received { buffers, .. } => buffers.len() as i64,
                    Event::Returned { buffers, .. } => buffers.len() as i64,
                    _ => 0,
                }),
            }
            prop_assert_eq!(world.adapter.buffers() as i64 + world.adapter.buffers_told() as i64, out);
        }
    }
}

/// what a circuit needs has changed, and its next PDU comes to other buffers; one that is not open has none.
#[test]
fn a_circuit_s_lists_can_be_changed_between_two_pdus() {
    let mut world = World::new(Config::default(), 4, 16);
    let large = Lists { first: 1, rest: 1 };
    assert!(!world.adapter.set_lists(circuit(41), large));
    assert!(!world.adapter.set_lists(circuit(40), Lists { first: 1, rest: 99 }));
    for (cookie, octets) in [(0, 96), (1, 4096)] {
        world.send(0, 40, &pattern(500, 3), cookie);
        let events = world.run();
        let Some(Event::Received { buffers, .. }) = events.last() else { panic!("{events:?}") };
        assert_eq!(buffers[0].0.octets, octets);
        assert!(world.adapter.set_lists(circuit(40), large));
    }
}
