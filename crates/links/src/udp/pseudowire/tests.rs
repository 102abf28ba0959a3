//! What a pseudowire's codec sends, takes and counts, seen from its link.

use super::*;
use net::{Carries as LinkCarries, End, FramePool, LinkConfig, LinkId, Network};
use wire::{Cell, CellHeader};

const CIRCUIT: &str = "0.100";

fn circuit() -> CircuitId {
    CIRCUIT.parse().unwrap()
}

fn config(carries: Carries, control_word: bool) -> Config {
    Config { carries, label_out: 100, label_in: 100, control_word }
}

/// A network with a link to the outside.
fn network(carries: LinkCarries) -> (Network, LinkId) {
    let mut network = Network::new(FramePool::new(16, 65_536));
    let node = network.add_node("relay", Box::new(crate::Relay::new(1)));
    let config = LinkConfig { carries, ..LinkConfig::default() };
    let link = network.connect(End::Port(node, 0), End::External, config).unwrap();
    (network, link)
}

/// A datagram of cells or an SDU, as a codec of this configuration writes it.
fn datagram(config: &Config, payload: &[u8], sequence: u16) -> Vec<u8> {
    let control = config.has_control().then_some(ControlWord { sequence, ..ControlWord::default() });
    let (head, n) = Packet { label: config.label_in, control, payload }.emit_head();
    [&head[..n], payload].concat()
}

fn cells(n: usize) -> Vec<u8> {
    let cell = Cell::new(CellHeader { circuit: circuit(), ..CellHeader::default() }, [0x5a; 48]);
    emit52(&cell).repeat(n)
}

#[test]
fn cells_with_and_without_control_word_reach_the_link_and_what_is_none_is_counted() {
    for control_word in [true, false] {
        let config = config(Carries::Cells, control_word);
        let (mut network, link) = network(LinkCarries::Cells);
        let mut codec = Codec::new(config);
        let other = Config { label_in: 101, ..config };
        let datagrams = [
            datagram(&config, &cells(3), 1),
            datagram(&other, &cells(1), 2),
            datagram(&config, &[0; 51], 3),
            vec![0; 3],
        ];
        network.external(link, Time::ZERO, |io| datagrams.iter().for_each(|d| codec.receive(d, io))).unwrap();
        let counters = network.link_info(link).unwrap().from_b.sent;
        assert_eq!(counters.cells, 3, "control word {control_word}");
        let dropped = [DropReason::UnknownCircuit, DropReason::Malformed].map(|reason| counters.dropped(reason));
        assert_eq!(dropped, [1, 2]);
    }
}

#[test]
fn packets_from_before_are_dropped_and_their_cells_counted() {
    let config = config(Carries::Cells, true);
    let (mut network, link) = network(LinkCarries::Cells);
    let mut codec = Codec::new(config);
    let datagrams = [5, 6, 5, 7].map(|number| datagram(&config, &cells(2), number));
    network.external(link, Time::ZERO, |io| datagrams.iter().for_each(|d| codec.receive(d, io))).unwrap();
    let counters = network.link_info(link).unwrap().from_b.sent;
    assert_eq!((counters.cells, counters.dropped(DropReason::Sequence)), (6, 2));
}

#[test]
fn sdus_pass_with_their_marks_and_an_oam_cell_has_no_room() {
    let config = config(Carries::Sdus(circuit()), true);
    let (mut network, link) = network(LinkCarries::Frames);
    let mut codec = Codec::new(config);
    let flags = Flags { is_cell: true, ..Flags::default() };
    let oam = cells(1);
    let packet = Packet { label: 100, control: Some(ControlWord { flags, sequence: 2 }), payload: &oam };
    let (head, n) = packet.emit_head();
    let datagrams = [datagram(&config, b"hello", 1), [&head[..n], &oam].concat()];
    network.external(link, Time::ZERO, |io| datagrams.iter().for_each(|d| codec.receive(d, io))).unwrap();
    let counters = network.link_info(link).unwrap().from_b.sent;
    assert_eq!((counters.pdus, counters.dropped(DropReason::WrongAal)), (1, 1));
}

#[test]
fn what_comes_back_from_the_link_is_what_went_there() {
    for (carries, of_link, payload) in [
        (Carries::Cells, LinkCarries::Cells, cells(5)),
        (Carries::Sdus(circuit()), LinkCarries::Frames, b"hello".to_vec()),
    ] {
        let config = config(carries, true);
        let (mut network, link) = network_of_mirror(of_link);
        let mut codec = Codec::new(config);
        let sent = datagram(&config, &payload, 1);
        network.external(link, Time::ZERO, |io| codec.receive(&sent, io)).unwrap();
        while network.run(Time::ZERO) {}
        let mut room = vec![0; 2000];
        let back = network
            .external(link, Time::ZERO, |io| {
                let filled = codec.fill(io, &mut room)?;
                codec.sent(&filled, io);
                Some((filled, codec.fill(io, &mut [0; 2000])))
            })
            .unwrap();
        let (filled, more) = back.expect("something came back");
        assert_eq!(&room[..filled.octets], &sent[..], "{carries:?}");
        assert_eq!(more, None);
    }
}

/// As [`network`], with a node that sends back what comes.
fn network_of_mirror(carries: LinkCarries) -> (Network, LinkId) {
    let mut network = Network::new(FramePool::new(16, 65_536));
    let node = network.add_node("mirror", Box::new(Mirror));
    let config = LinkConfig { carries, ..LinkConfig::default() };
    let link = network.connect(End::Port(node, 0), End::External, config).unwrap();
    (network, link)
}

struct Mirror;

impl net::Node for Mirror {
    fn run(&mut self, io: &mut NodeIo<'_>, _: Time) -> bool {
        let cells = io.cells_in(0).to_vec();
        io.consume(0, cells.len());
        cells.iter().for_each(|cell| assert!(io.put_cell(0, cell)));
        let mut any = !cells.is_empty();
        while let Some(frame) = io.take_frame(0) {
            any |= io.put_frame(0, frame).is_ok();
        }
        any
    }

    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    fn as_any_mut(&mut self) -> &mut dyn std::any::Any {
        self
    }
}
