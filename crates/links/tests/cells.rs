//! Cells over TCP: what goes in at one end comes out at the other, whatever pieces the connection makes of it, and what its end costs is
//! counted.

use links::cells::Machine;
use net::{End, FramePool, LinkConfig, LinkId, Network, Node, NodeIo};
use proptest::prelude::*;
use std::any::Any;
use wire::{Cell, CellHeader, DropReason, Time};

/// Sends cells, and keeps what comes; takes no more than so many a round.
#[derive(Default)]
struct Sink {
    to_send: Vec<Cell>,
    got: Vec<Cell>,
    takes: usize,
}

impl Node for Sink {
    fn run(&mut self, io: &mut NodeIo<'_>, _: Time) -> bool {
        let n = io.cells_in(0).len().min(self.takes);
        self.got.extend_from_slice(&io.cells_in(0)[..n]);
        io.consume(0, n);
        let room = io.room(0).min(self.to_send.len());
        self.to_send.drain(..room).for_each(|cell| assert!(io.put_cell(0, &cell)));
        n + room > 0
    }
    fn poll_timeout(&self) -> Option<Time> {
        None
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

fn side(to_send: Vec<Cell>, takes: usize) -> (Network, net::NodeId, LinkId) {
    let mut network = Network::new(FramePool::new(1, 100));
    let sink = network.add_node("sink", Box::new(Sink { to_send, got: Vec::new(), takes }));
    let config = LinkConfig { queue_cells: 64, ..LinkConfig::default() };
    let link = network.connect(End::Port(sink, 0), End::External, config).unwrap();
    (network, sink, link)
}

fn cells(words: &[u32]) -> Vec<Cell> {
    words.iter().map(|word| Cell::new(CellHeader::from_word(*word), [*word as u8; 48])).collect()
}

proptest! {
    #[test]
    fn cells_pass_in_pieces_of_any_size_and_none_is_lost_however_slow_who_takes_them(
        words in proptest::collection::vec(any::<u32>(), 1..400), piece in 1usize..2000, takes in 1usize..100,
    ) {
        let sent = cells(&words);
        let (mut a, _, from) = side(sent.clone(), 0);
        let (mut b, sink, to) = side(Vec::new(), takes);
        let (mut here, mut there) = (Machine::new(), Machine::new());
        // An octet a round at the least: a cell is no more than 64 with the head of a batch of its own.
        for _ in 0..64 * sent.len() + 100 {
            a.run(Time::ZERO);
            a.external(from, Time::ZERO, |io| while here.transmit(io) {}).unwrap();
            let octets = here.poll_transmit();
            let octets = octets[..octets.len().min(piece)].to_vec();
            let taken = b.external(to, Time::ZERO, |io| there.receive(&octets, io)).unwrap().unwrap();
            here.transmitted(taken);
            b.run(Time::ZERO);
            if b.node_mut::<Sink>(sink).unwrap().got.len() == sent.len() {
                break;
            }
        }
        prop_assert!(b.node_mut::<Sink>(sink).unwrap().got == sent);
    }

    #[test]
    fn no_octets_upset_it_and_what_a_connections_end_cuts_off_is_counted(
        words in proptest::collection::vec(any::<u32>(), 1..28), cut in 0usize..1500, octets: Vec<u8>,
    ) {
        let (mut network, _, link) = side(Vec::new(), 0);
        let mut machine = Machine::new();
        let mut batch = [0; wire::udp::MAX_OCTETS];
        let n = wire::udp::emit(1, &cells(&words), &mut batch);
        let cut = cut.min(n - 1);
        network.external(link, Time::ZERO, |io| machine.receive(&batch[..cut], io)).unwrap().unwrap();
        network.external(link, Time::ZERO, |io| machine.disconnect(io)).unwrap();
        let info = network.link_info(link).unwrap();
        let lost = info.from_b.sent.dropped(DropReason::LinkDown) as usize;
        // Of a batch whose head has not come nobody knows how many cells it has.
        prop_assert_eq!(lost, if cut < 4 { 0 } else { words.len() });
        let _ = network.external(link, Time::ZERO, |io| machine.receive(&octets, io)).unwrap();
    }
}

#[test]
fn what_is_no_batch_ends_the_connection_with_a_reason() {
    let (mut network, _, link) = side(Vec::new(), 0);
    for (octets, says) in [
        (&b"\0\x01\0\x2a\0\0\0\x05hello"[..], "needs `tcp` too"),
        (b"\x16\x03\x01\x02\0", "speaks TLS"),
        (b"CW\x02\x01\0\0\0\0", "version"),
        (b"CW\x01\x1c\0\0\0\0", "number of cells"),
    ] {
        let error = network.external(link, Time::ZERO, |io| Machine::new().receive(octets, io)).unwrap().unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    }
}
