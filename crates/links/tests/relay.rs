//! The relay of `atmtcp`: who hears whom, what a slow link costs, and what links that come and go are told.

use links::{Relay, relay};
use net::{Carries, End, FrameAal, FramePool, LinkConfig, LinkId, Network, Node, NodeId, NodeIo};
use proptest::prelude::*;
use sar::SduMeta;
use std::any::Any;
use std::time::Duration;
use wire::{CircuitId, DropReason, Time};

/// A peer's end: sends what it is given as there is room, and keeps what arrives unless it is deaf.
#[derive(Default)]
struct Peer {
    to_send: Vec<(CircuitId, Vec<u8>)>,
    got: Vec<(CircuitId, Vec<u8>)>,
    deaf: bool,
}

impl Node for Peer {
    fn run(&mut self, io: &mut NodeIo<'_>, _: Time) -> bool {
        let mut busy = false;
        while !self.deaf
            && let Some((frame, octets)) = io.frame_in(0)
        {
            self.got.push((frame.circuit, octets.to_vec()));
            io.release_frame(0);
            busy = true;
        }
        while io.room(0) > 0 && !self.to_send.is_empty() {
            let (circuit, octets) = self.to_send.remove(0);
            let frame = io.pool_mut().copy_in(circuit, FrameAal::Aal5, SduMeta::default(), &octets).unwrap();
            io.put_frame(0, frame).unwrap();
            busy = true;
        }
        busy
    }
    fn poll_timeout(&self) -> Option<Time> {
        None
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

struct Net {
    network: Network,
    peers: Vec<(NodeId, LinkId)>,
    relay: NodeId,
    now: Time,
}

const QUEUE: usize = 8;

impl Net {
    fn new(links: usize) -> Self {
        let mut network = Network::new(FramePool::new(64 * links, 300));
        let relay = network.add_node("relay", Box::new(Relay::new(links)));
        let config = LinkConfig { carries: Carries::Frames, queue_cells: QUEUE, ..LinkConfig::default() };
        let peers = (0..links).map(|n| {
            let peer = network.add_node("peer", Box::new(Peer::default()));
            let ends = [End::Port(relay, n as u16), End::Port(peer, 0)];
            (peer, network.connect(ends[0], ends[1], config.clone()).unwrap())
        });
        let peers = peers.collect();
        Net { network, peers, relay, now: Time::ZERO }
    }

    fn peer(&mut self, n: usize) -> &mut Peer {
        self.network.node_mut(self.peers[n].0).unwrap()
    }

    fn send(&mut self, n: usize, circuit: &str, octets: &[u8]) {
        self.peer(n).to_send.push((circuit.parse().unwrap(), octets.to_vec()));
    }

    /// What peer `n` has got since the last time, as text.
    fn got(&mut self, n: usize) -> Vec<String> {
        let got = std::mem::take(&mut self.peer(n).got);
        got.into_iter().map(|(circuit, octets)| format!("{circuit} {}", String::from_utf8_lossy(&octets))).collect()
    }

    fn settle(&mut self) {
        for _ in 0..10_000 {
            self.now += Duration::from_micros(10);
            if !self.network.run(self.now) {
                return;
            }
        }
        panic!("it does not come to rest");
    }

    fn set_up(&mut self, n: usize, up: bool) {
        assert!(self.network.set_link_up(self.peers[n].1, up));
        self.settle();
    }

    fn untold(&mut self, n: usize) -> usize {
        self.network.node_mut::<Relay>(self.relay).unwrap().untold(n)
    }

    /// What the relay dropped on its way to peer `n`.
    fn dropped(&self, n: usize, reason: DropReason) -> u64 {
        self.network.link_info(self.peers[n].1).unwrap().from_a.sent.dropped(reason)
    }
}

#[test]
fn the_first_two_links_send_to_all_and_further_ones_to_all_but_the_first() {
    let mut net = Net::new(4);
    for n in 0..4 {
        net.send(n, &format!("{n}.100"), b"data");
        net.send(n, "0.0", format!("O {n}.101 0.{n}.101 ubr,aal5").as_bytes());
    }
    net.settle();
    let of = |from: &[usize]| -> Vec<String> {
        let texts = |n: &usize| [format!("{n}.100 data"), format!("0.0 O {n}.101 0.{n}.101 ubr,aal5")];
        from.iter().flat_map(texts).collect()
    };
    for (n, from) in [&[1][..], &[0, 2, 3], &[0, 1, 3], &[0, 1, 2]].into_iter().enumerate() {
        assert_eq!(net.got(n), of(from), "link {n}");
    }
}

#[test]
fn what_is_no_control_text_goes_nowhere_and_is_counted() {
    let mut net = Net::new(2);
    for text in [&b"X 0.100"[..], b"", b"O 0.100", &[0xFF; 20]] {
        net.send(0, "0.0", text);
    }
    net.send(0, "0.0", b"O 0.100 0.0.100 ubr,aal5\0");
    net.settle();
    assert_eq!(net.got(1), ["0.0 O 0.100 0.0.100 ubr,aal5"]);
    net.send(0, "0.0", b"C 0.100\0");
    net.settle();
    assert_eq!(net.got(1), ["0.0 C 0.100"]);
    let link = net.network.link_info(net.peers[0].1).unwrap();
    assert_eq!(link.from_b.sent.dropped(DropReason::Malformed), 4);
}

#[test]
fn a_deaf_link_costs_only_itself_where_others_listen_and_holds_the_sender_back_where_none_does() {
    let mut net = Net::new(3);
    net.peer(2).deaf = true;
    for i in 0..100u8 {
        net.send(0, "0.100", &[i]);
    }
    net.settle();
    assert_eq!(net.got(1).len(), 100);
    assert_eq!(net.dropped(2, DropReason::QueueFull), 100 - QUEUE as u64);

    net.peer(1).deaf = true;
    for i in 0..100u8 {
        net.send(2, "0.100", &[i]);
    }
    net.settle();
    assert_eq!((net.peer(2).to_send.len(), net.dropped(1, DropReason::QueueFull)), (100 - 2 * QUEUE, 0));
    net.peer(1).deaf = false;
    net.settle();
    let got: Vec<u8> = std::mem::take(&mut net.peer(1).got).into_iter().map(|(_, octets)| octets[0]).collect();
    assert_eq!(got, (0..100).collect::<Vec<u8>>());
}

#[test]
fn a_patient_source_waits_for_the_slowest() {
    let mut net = Net::new(3);
    net.network.node_mut::<Relay>(net.relay).unwrap().set_patient(0);
    net.peer(2).deaf = true;
    for i in 0..100u8 {
        net.send(0, "0.100", &[i]);
    }
    net.settle();
    assert_eq!(net.got(1).len(), QUEUE);
    net.peer(2).deaf = false;
    net.settle();
    assert_eq!((net.got(1).len(), net.got(2).len()), (100 - QUEUE, 100));
}

#[test]
fn with_patience_a_deaf_link_holds_its_sender_up_for_so_long_and_no_longer() {
    let mut net = Net::new(2);
    let patience = Duration::from_millis(5);
    net.network.node_mut::<Relay>(net.relay).unwrap().set_patience(Some(patience));
    net.peer(1).deaf = true;
    for i in 0..100u8 {
        net.send(0, "0.100", &[i]);
    }
    net.settle();
    let waiting = 100 - 2 * QUEUE;
    assert_eq!((net.peer(0).to_send.len(), net.dropped(1, DropReason::QueueFull)), (waiting, 0));
    let due = net.network.poll_timeout().expect("the patience ends");
    assert!(due <= net.now + patience);
    net.now = due;
    net.settle();
    assert_eq!((net.peer(0).to_send.len(), net.dropped(1, DropReason::QueueFull)), (0, 100 - QUEUE as u64));
    // Given up once, it is not waited for again, until it takes something.
    net.send(0, "0.100", &[100]);
    net.settle();
    assert_eq!((net.peer(0).to_send.len(), net.dropped(1, DropReason::QueueFull)), (0, 101 - QUEUE as u64));
    assert_eq!(net.network.poll_timeout(), None);
    net.peer(1).deaf = false;
    net.settle();
    assert_eq!(net.got(1).len(), QUEUE);
    net.peer(1).deaf = true;
    for i in 0..100u8 {
        net.send(0, "0.100", &[i]);
    }
    net.settle();
    assert_eq!(net.peer(0).to_send.len(), waiting);
    assert!(net.network.poll_timeout().is_some());
}

#[test]
fn without_any_patience_no_link_waits_for_another_not_even_a_recording() {
    let mut net = Net::new(3);
    let relay = net.network.node_mut::<Relay>(net.relay).unwrap();
    relay.set_patience(Some(Duration::ZERO));
    relay.set_patient(0);
    net.peer(2).deaf = true;
    for i in 0..100u8 {
        net.send(0, "0.100", &[i]);
        net.send(1, "0.101", &[i]);
    }
    net.settle();
    assert_eq!((net.got(0).len(), net.got(1).len()), (100, 100));
    assert_eq!(net.dropped(2, DropReason::QueueFull), 200 - QUEUE as u64);
}

#[test]
fn who_comes_later_is_told_what_is_open_and_who_goes_closes_what_it_had_opened() {
    let mut net = Net::new(3);
    net.set_up(1, false);
    net.send(0, "0.0", b"O 0.100 0.0.100 ubr,aal5");
    net.send(0, "0.0", b"O 0.101 0.0.101 ubr,aal0");
    net.send(0, "0.0", b"C 0.100");
    net.send(2, "0.0", b"O 0.200 0.0.200 ubr,aal5");
    net.send(0, "0.101", b"lost");
    net.settle();
    assert_eq!(net.dropped(1, DropReason::LinkDown), 1);
    assert_eq!(net.got(1), [""; 0]);
    net.set_up(1, true);
    assert_eq!(net.got(1), ["0.0 O 0.101 0.0.101 ubr,aal0", "0.0 O 0.200 0.0.200 ubr,aal5"]);
    net.got(2);
    net.set_up(0, false);
    assert_eq!((net.got(1), net.got(2)), (vec!["0.0 C 0.101".into()], vec!["0.0 C 0.101".to_owned()]));
    net.set_up(2, false);
    assert_eq!((net.got(0), net.got(1)), (vec![], vec!["0.0 C 0.200".to_owned()]));
    let relay = net.network.node_mut::<Relay>(net.relay).unwrap();
    assert!((0..3).all(|n| relay.opened(n) == 0));
}

#[test]
fn a_link_opens_a_bounded_number_of_circuits() {
    let mut net = Net::new(2);
    for vci in 0..relay::MAX_CIRCUITS + 10 {
        net.send(0, "0.0", format!("O 1.{vci} 0.1.{vci} ubr,aal5").as_bytes());
    }
    net.settle();
    assert_eq!(net.network.node_mut::<Relay>(net.relay).unwrap().opened(0), relay::MAX_CIRCUITS);
    assert_eq!(net.got(1).len(), relay::MAX_CIRCUITS);
    let link = net.network.link_info(net.peers[0].1).unwrap();
    assert_eq!(link.from_b.sent.dropped(DropReason::TableFull), 10);
}

proptest! {
    /// Whatever is sent, by whom, and in which order the network runs: each link hears of each other exactly what the rule says,
    /// in its order, and no buffer is lost.
    #[test]
    fn every_link_hears_each_other_in_order_or_not_at_all(
        links in 1usize..6,
        sent in prop::collection::vec((0usize..6, prop::collection::vec(any::<u8>(), 0..40), any::<bool>()), 0..60),
    ) {
        let mut net = Net::new(links);
        let mut by: Vec<Vec<Vec<u8>>> = vec![Vec::new(); links];
        for (from, octets, rest) in sent {
            let from = from % links;
            net.send(from, &format!("{}.100", from + 1), &octets);
            by[from].push(octets);
            if rest {
                net.settle();
            }
        }
        net.settle();
        // Only a link to which several send at once may lose: nobody waits for it.
        for to in 0..links {
            let got = std::mem::take(&mut net.peer(to).got);
            let lost = net.dropped(to, DropReason::QueueFull);
            prop_assert!(got.len() as u64 + lost == (0..links).filter(|f| relay::sends_to(*f, to)).map(|f| by[f].len() as u64).sum::<u64>());
            for (from, sent) in by.iter().enumerate() {
                let mine: Vec<&Vec<u8>> =
                    got.iter().filter(|(c, _)| usize::from(c.vpi.get()) == from + 1).map(|(_, o)| o).collect();
                prop_assert!(relay::sends_to(from, to) || mine.is_empty());
                let mut rest = sent.iter();
                prop_assert!(mine.iter().all(|octets| rest.any(|other| other == *octets)), "another order");
            }
        }
        prop_assert_eq!(net.network.pool().in_use(), 0);
    }

    #[test]
    fn no_text_upsets_it(texts in prop::collection::vec((0usize..3, "[OC]? ?[0-9.]{0,8} ?[0-9.]{0,9} ?[a-z0-9:,=]{0,12}"), 0..80)) {
        let mut net = Net::new(3);
        for (from, text) in texts {
            net.send(from, "0.0", text.as_bytes());
        }
        net.settle();
        prop_assert_eq!(net.network.pool().in_use(), 0);
    }
}

#[test]
fn a_link_that_takes_nothing_is_told_no_closing_of_what_it_does_not_know() {
    let mut net = Net::new(2);
    let open = |circuit: &str| format!("O {circuit} 0.{circuit} ubr,aal5").into_bytes();
    let close = |circuit: &str| format!("C {circuit}").into_bytes();
    net.send(1, "0.0", &open("1.1"));
    net.settle();
    assert_eq!(net.got(0).len(), 1);
    net.peer(0).deaf = true;
    for n in 0..QUEUE {
        net.send(1, "0.0", &open(&format!("2.{n}")));
    }
    for n in 0..200 {
        net.send(1, "0.0", &close(&format!("4.{n}")));
        net.send(1, "0.0", &open(&format!("3.{n}")));
        net.send(1, "0.0", &close(&format!("3.{n}")));
    }
    net.send(1, "0.0", &close("1.1"));
    net.send(1, "0.0", &close("2.0"));
    net.settle();
    assert_eq!(net.untold(0), 2);
    net.peer(0).deaf = false;
    net.settle();
    let got = net.got(0);
    assert_eq!(got.len(), QUEUE + 2);
    assert_eq!(got[QUEUE..], ["0.0 C 1.1", "0.0 C 2.0"]);
}

#[test]
fn what_a_link_that_takes_nothing_is_to_be_told_is_bounded() {
    let mut net = Net::new(2);
    let circuits = |vpi: u16| (0..relay::MAX_CIRCUITS).map(move |n| format!("{vpi}.{n}"));
    for vpi in [4, 3, 2, 1] {
        for circuit in circuits(vpi) {
            net.send(1, "0.0", format!("O {circuit} 0.{circuit} ubr,aal5").as_bytes());
        }
        net.settle();
        // The first ones have been told.
        net.peer(0).deaf = true;
        for circuit in circuits(vpi) {
            net.send(1, "0.0", format!("C {circuit}").as_bytes());
        }
        net.settle();
        assert!(net.untold(0) <= relay::MAX_CIRCUITS, "{} at {vpi}", net.untold(0));
    }
    net.peer(0).deaf = false;
    net.settle();
    let (opened, closed): (Vec<_>, Vec<_>) = net.got(0).into_iter().partition(|text| text.contains(" O "));
    assert_eq!((opened.len(), closed.len(), net.untold(0)), (relay::MAX_CIRCUITS, relay::MAX_CIRCUITS, 0));
}
