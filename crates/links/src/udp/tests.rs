//! What a codec counts, seen from its link.

use super::*;
use net::{Carries, End, FramePool, LinkConfig, Network};
use wire::heartbeat::Heartbeat;
use wire::{Cell, CellHeader, CircuitId};

fn user_cell() -> Cell {
    Cell::new(CellHeader { circuit: CircuitId::new(0, 100).unwrap(), ..CellHeader::default() }, [0; 48])
}

#[test]
fn idle_and_unassigned_cells_of_a_peer_are_neither_cells_of_the_link_nor_drops() {
    // I.432.1 table 1: CLP 1. I.361 table 1: CLP 0, any payload type; at the UNI any GFC.
    let fillers = [0x0000_0001_u32, 0x0000_0000, 0x0000_000e, 0xf000_0000];
    let wires = fillers.map(|word| {
        let mut octets = [0x6a; 53];
        octets[..4].copy_from_slice(&word.to_be_bytes());
        octets[4] = wire::hec::generate(word.to_be_bytes());
        octets
    });
    let mut network = Network::new(FramePool::new(1, 64));
    let node = network.add_node("relay", Box::new(crate::Relay::new(1)));
    let link = network.connect(End::Port(node, 0), End::External, LinkConfig::default()).unwrap();
    let mut codec = Codec::new(Form::Cell(Format::Uni));
    network
        .external(link, Time::ZERO, |io| {
            wires.iter().for_each(|octets| codec.receive(octets, io));
            codec.receive(&wire::octets::emit53(&user_cell(), Format::Uni), io);
        })
        .unwrap();
    let batched = fillers.map(|word| Cell::new(CellHeader::from_word(word & 0xf), [0x6a; 48]));
    let mut datagram = [0; MAX_OCTETS];
    let octets = emit(0, &[&batched[..], &[user_cell()]].concat(), &mut datagram);
    network.external(link, Time::ZERO, |io| Codec::new(Form::Batch).receive(&datagram[..octets], io)).unwrap();
    let counters = network.link_info(link).unwrap().from_b.sent;
    assert_eq!((counters.cells, counters.dropped_total()), (2, 0));
}

#[test]
fn datagrams_that_wait_when_the_peer_begins_anew_are_counted() {
    let mut network = Network::new(FramePool::new(1, 64));
    let node = network.add_node("relay", Box::new(crate::Relay::new(1)));
    let config = LinkConfig { carries: Carries::Cells, ..LinkConfig::default() };
    let link = network.connect(End::Port(node, 0), End::External, config).unwrap();
    let mut codec = Codec::new(Form::Batch);
    // The second is missing; then two batches of a peer that has begun anew, by the first of which that is not certain.
    let anew = 1 << 20;
    for (sequence, cells) in [(7, 1), (9, 2), (10, 4), (anew, 8), (anew + 1, 16)] {
        let mut datagram = [0; MAX_OCTETS];
        let octets = emit(sequence, &vec![user_cell(); cells], &mut datagram);
        network.external(link, Time::ZERO, |io| codec.receive(&datagram[..octets], io)).unwrap();
    }
    let counters = network.link_info(link).unwrap().from_b.sent;
    assert_eq!((counters.cells, counters.dropped(DropReason::Sequence)), (1 + 16, 2 + 4 + 8));
}

#[test]
fn a_peer_whose_heartbeats_say_that_it_has_begun_anew_loses_no_cell() {
    let mut network = Network::new(FramePool::new(1, 64));
    let node = network.add_node("relay", Box::new(crate::Relay::new(1)));
    let config = LinkConfig { carries: Carries::Cells, ..LinkConfig::default() };
    let link = network.connect(End::Port(node, 0), End::External, config).unwrap();
    let mut codec = Codec::new(Form::Batch);
    let mut take = |datagram: &[u8]| {
        network.external(link, Time::ZERO, |io| codec.receive(datagram, io)).unwrap();
    };
    let mut datagram = [0; MAX_OCTETS];
    // The second batch waits for one that will not come. What begins anew may begin anywhere, close behind too.
    for (run, numbers) in [(1, [7, 9]), (2, [1 << 20, (1 << 20) + 1]), (3, [5, 6])] {
        take(&Heartbeat { run, interval_ms: 400, signal: true, hears: true }.emit());
        for sequence in numbers {
            let octets = emit(sequence, &[user_cell()], &mut datagram);
            take(&datagram[..octets]);
        }
    }
    let counters = network.link_info(link).unwrap().from_b.sent;
    assert_eq!((counters.cells, counters.dropped(DropReason::Sequence)), (5, 1));
}
