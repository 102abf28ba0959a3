//! Parcels of best effort that a receiver has no room for: kept for half a millisecond, then dropped and counted.

use crate::pair::{BUFFERS, CIRCUITS, TO_SEND, World, circuit};
use endpoint::layout::{Descriptor, Head};
use endpoint::{Aal, Events};
use host::{CircuitConfig, HostInterface};
use std::time::Duration;
use wire::{Counters, DropReason};

/// Buffers that an application receives into.
const TO_RECEIVE: u32 = BUFFERS - TO_SEND;
const MOMENT: u64 = 500;
/// An application that takes nothing for so long has stopped.
const STOPPED: u64 = 5000;

/// The second application takes SDUs when the test says so.
struct Stage(World);

impl Stage {
    fn new() -> Self {
        Stage::with(2)
    }

    /// An odd seed gives rings of four slots to receive by.
    fn with(seed: u64) -> Self {
        let mut stage = Stage(World::with(seed, Events::Polling));
        stage.run(1);
        stage
    }

    /// SDUs on one of the circuits.
    fn send(&mut self, at: usize, octets: &[u32]) {
        for octets in octets {
            let end = &mut self.0.ends[0];
            let buffer = if *octets <= 40 { Descriptor::INLINE } else { end.idle.pop().unwrap() };
            let d = Head { channel: end.channels[at].0, octets: *octets, ..Head::of_buffer(buffer) };
            assert!(end.local.send.push(d));
        }
        self.run(0);
    }

    fn run(&mut self, micros: u64) {
        self.0.now += Duration::from_micros(micros);
        (0..5).for_each(|_| _ = self.0.network.run(self.0.now));
    }

    fn receiver(&mut self) -> &mut HostInterface {
        self.0.network.node_mut(self.0.hosts[1]).unwrap()
    }

    fn received(&mut self, at: usize) -> Counters {
        self.receiver().circuit_counts(circuit(CIRCUITS[at])).unwrap().received
    }

    fn dropped(&mut self, at: usize) -> (u64, u64) {
        let received = self.received(at);
        (received.dropped_total(), received.dropped(DropReason::NoBuffer))
    }

    /// What the second application has been given; it gives buffers back.
    fn take(&mut self, most: usize) -> Vec<u32> {
        let end = &mut self.0.ends[1];
        let mut came = Vec::new();
        while came.len() < most
            && let Some(d) = end.local.receive.pop()
        {
            came.push(d.head.octets);
            if d.head.buffer != Descriptor::INLINE {
                assert!(end.local.free.push(Head::of_buffer(d.head.buffer)));
            }
        }
        came
    }

    /// Descriptors that the first application has back.
    fn done(&mut self) -> u32 {
        self.0.ends[0].local.send.consumed()
    }
}

#[test]
fn what_a_receiver_makes_room_for_in_time_is_delivered_in_order_and_nothing_is_lost() {
    let mut stage = Stage::new();
    let octets: Vec<u32> = (0..20).map(|n| 1000 + n).collect();
    stage.send(0, &octets);
    assert_eq!((stage.done(), stage.dropped(0)), (0, (0, 0)), "the parcel is kept");
    let mut came = Vec::new();
    for _ in 0..3 {
        stage.run(100);
        let more = stage.take(100);
        assert!(more.len() <= TO_RECEIVE as usize);
        came.extend(more);
    }
    assert_eq!(came, octets);
    stage.run(0);
    assert_eq!((stage.done(), stage.dropped(0), stage.received(0).pdus), (20, (0, 0), 20));
    stage.0.check();
    stage.run(1_000_000);
    assert!(!stage.0.network.run(stage.0.now), "nothing is left to do");
}

#[test]
fn what_has_waited_for_its_time_is_dropped_and_counted_and_its_sender_has_its_slots_back() {
    let mut stage = Stage::new();
    stage.send(0, &[1000; 10]);
    stage.run(MOMENT - 1);
    assert_eq!((stage.done(), stage.dropped(0)), (0, (0, 0)));
    let host: &mut HostInterface = stage.receiver();
    let due = net::Node::poll_timeout(host);
    assert_eq!(due, Some(stage.0.now + Duration::from_micros(1)));
    // A parcel that comes later has its own time.
    stage.send(0, &[2000; 2]);
    stage.run(1);
    assert_eq!((stage.done(), stage.dropped(0)), (10, (2, 2)));
    stage.run(MOMENT - 2);
    assert_eq!(stage.done(), 10);
    stage.0.now += Duration::from_micros(1);
    assert!(stage.0.network.run(stage.0.now), "the sender has its slots back in the next round");
    stage.run(0);
    assert_eq!((stage.done(), stage.dropped(0)), (12, (4, 4)));
    assert_eq!(stage.take(100), [1000; TO_RECEIVE as usize]);
    stage.0.check();
}

#[test]
fn what_was_dropped_makes_room_for_what_comes() {
    let mut stage = Stage::new();
    for n in 0..30 {
        // 860 cells, of which 172 are kept.
        stage.send(0, &[4096; 10]);
        assert_eq!(stage.dropped(0).0, 2 * n, "the parcel is kept");
        // Its time ends, or cells come.
        let cells = n / 15;
        if cells == 0 {
            stage.run(MOMENT)
        } else {
            stage.send(0, &[40])
        }
        assert_eq!(stage.dropped(0).0, 2 * (n + 1));
        assert_eq!(stage.take(100).len() as u64, u64::from(TO_RECEIVE) + cells);
        stage.0.reclaim();
    }
    stage.0.check();
}

#[test]
fn a_receiver_that_has_stopped_holds_up_its_sender_no_more_until_it_takes_something() {
    let mut stage = Stage::new();
    stage.send(0, &[1000; 10]);
    stage.run(STOPPED - 100);
    assert_eq!((stage.done(), stage.dropped(0)), (10, (2, 2)));
    // What is still kept when it has stopped goes with what comes.
    stage.send(0, &[1000; 2]);
    assert_eq!((stage.done(), stage.dropped(0)), (10, (2, 2)));
    stage.run(100);
    stage.send(0, &[1000; 5]);
    assert_eq!((stage.done(), stage.dropped(0)), (17, (9, 9)));
    stage.send(4, &[1000; 5]);
    assert_eq!((stage.done(), stage.dropped(4)), (22, (5, 5)));
    // It takes something.
    assert_eq!(stage.take(1).len(), 1);
    stage.0.reclaim();
    stage.send(0, &[1000; 3]);
    assert_eq!((stage.done(), stage.dropped(0)), (22, (9, 9)));
    assert_eq!(stage.take(100).len(), TO_RECEIVE as usize);
    stage.run(0);
    assert_eq!((stage.done(), stage.dropped(0), stage.take(100).len()), (25, (9, 9), 2));
    stage.0.check();
}

#[test]
fn what_is_kept_of_several_circuits_stays_in_their_senders_memory_and_all_arrives() {
    let mut stage = Stage::with(1);
    stage.send(0, &[1000; 7]);
    stage.send(4, &[1000; 3]);
    assert_eq!((stage.done(), stage.dropped(0).0, stage.dropped(4).0), (0, 0, 0), "3 and 3 are kept");
    let mut came = Vec::new();
    for _ in 0..3 {
        came.extend(stage.take(100));
        stage.run(0);
    }
    assert_eq!((stage.done(), came.len(), stage.dropped(0).0, stage.dropped(4).0), (10, 10, 0, 0));
    stage.0.check();
}

#[test]
fn cells_behind_what_is_kept_end_its_time() {
    let mut stage = Stage::new();
    stage.send(0, &[1000; 10]);
    stage.send(0, &[40]);
    assert_eq!((stage.done(), stage.dropped(0)), (11, (2, 2)));
    let mut came = vec![1000; TO_RECEIVE as usize];
    came.push(40);
    assert_eq!(stage.take(100), came);
    stage.0.check();
}

#[test]
fn what_is_kept_ends_with_who_receives_it_and_is_counted_once() {
    let ends: [fn(&mut HostInterface, host::EndpointId, endpoint::ChannelId); 5] = [
        |host, id, channel| host.close(id, channel).unwrap(),
        |host, id, _| assert!(host.detach(id)),
        |host, id, _| assert!(host.depart(id)),
        |host, id, _| assert!(host.release_endpoint(id)),
        |host, _, _| assert!(host.remove_circuit(circuit(CIRCUITS[0]))),
    ];
    for (n, end) in ends.into_iter().enumerate() {
        let mut stage = Stage::new();
        stage.send(0, &[1000; 10]);
        let (id, channel) = (stage.0.ends[1].id, stage.0.ends[1].channels[0]);
        end(stage.receiver(), id, channel);
        stage.run(1);
        assert_eq!(stage.done(), 10, "way {n}");
        if let Some(counts) = stage.receiver().circuit_counts(circuit(CIRCUITS[0])) {
            let received = counts.received;
            assert_eq!((received.dropped(DropReason::Closed), received.dropped_total(), received.pdus), (2, 2, 8));
        }
        let endpoint = stage.receiver().endpoints().into_iter().find(|endpoint| endpoint.id == id);
        if let Some(endpoint) = endpoint {
            assert_eq!(endpoint.received.dropped(DropReason::Closed), 2, "way {n}");
        }
        stage.0.check();
        // Whoever has the circuit next gets nothing of it.
        if n == 0 {
            stage.receiver().open(id, circuit(CIRCUITS[0]), Aal::Aal5).unwrap();
        } else if n == 4 {
            assert!(stage.receiver().add_circuit(circuit(CIRCUITS[0]), CircuitConfig::default()));
            stage.receiver().open(id, circuit(CIRCUITS[0]), Aal::Aal5).unwrap();
        }
        stage.take(8);
        stage.run(2 * MOMENT);
        assert_eq!(stage.take(100), [0; 0], "way {n}");
        stage.0.check();
    }
}
