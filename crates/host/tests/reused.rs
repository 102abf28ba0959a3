//! A circuit that is removed while its PDUs are under way, and another of the same label for other applications: these get what is
//! sent to them and nothing else, whether it passed as parcels, as cells or by credits, and each buffer is its sender's again.

use crate::pair::{self, Application, TO_SEND, World, circuit, contract};
use endpoint::layout::Head;
use endpoint::{Aal, ChannelId};
use host::HostInterface;
use net::topology::{CircuitOptions, CircuitTable};
use net::{Label, RouteOptions, SwitchElement, TapConfig};
use std::sync::atomic::Ordering;
use std::time::Duration;
use wire::DropReason;

const OLD: u8 = 0xee;

fn host(world: &mut World, which: usize) -> &mut HostInterface {
    let id = world.hosts[which];
    world.network.node_mut(id).unwrap()
}

/// SDUs of one octet's value, of one cell to 86.
fn push(end: &mut Application, channel: ChannelId, what: u8, count: usize) {
    for n in 0..count {
        let (buffer, octets) = (end.idle.pop().unwrap(), 41 + n * 977 % 4000);
        let at = end.local.segment.geometry().buffer_at(buffer).unwrap();
        end.local.segment.copy_in(at, &vec![what; octets]);
        let d = Head { channel: channel.0, octets: octets as u32, ..Head::of_buffer(buffer) };
        assert!(end.local.send.push(d));
    }
}

fn take(end: &mut Application, got: &mut Vec<u8>) {
    while let Some(d) = end.local.receive.pop() {
        let at = end.local.segment.geometry().buffer_at(d.head.buffer).unwrap();
        let octets = end.local.segment.octets(at, d.head.octets as usize);
        let first = octets[0].load(Ordering::Relaxed);
        assert!(octets.iter().all(|octet| octet.load(Ordering::Relaxed) == first), "an SDU of two circuits");
        got.push(first);
        assert!(end.local.free.push(Head::of_buffer(d.head.buffer)));
    }
}

/// Removes a circuit at some of the elements and adds it again.
fn remake(world: &mut World, vci: u16, at: impl Fn(&str) -> bool) {
    let id = circuit(vci);
    for which in 0..2 {
        if at(["alpha", "beta"][which]) {
            CircuitTable::remove_circuit(host(world, which), 0, id);
        }
    }
    let switch: &mut SwitchElement = world.network.node_mut(world.switch).unwrap();
    for (from, to) in [(0, 1), (1, 0)] {
        if at("s1") {
            assert!(switch.remove_route(from, Label::Vc(id), None));
            let options =
                RouteOptions { aal: net::FrameAal::Aal5, contract: contract(vci).delayed_by(Duration::from_millis(1)) };
            switch.add_route((from, Label::Vc(id)), (to, Label::Vc(id)), options).unwrap();
        }
    }
    let options = CircuitOptions {
        aal: net::FrameAal::Aal5,
        contract: contract(vci),
        sends: true,
        receives: true,
        oam: Default::default(),
    };
    for which in 0..2 {
        if at(["alpha", "beta"][which]) {
            CircuitTable::add_circuit(host(world, which), 0, id, &options).unwrap();
        }
    }
}

fn settle(world: &mut World, end: &mut Application, got: &mut Vec<u8>) {
    for _ in 0..3000 {
        world.now += Duration::from_micros(100);
        world.network.run(world.now);
        take(end, got);
    }
}

#[test]
fn who_has_the_next_circuit_of_a_label_gets_nothing_that_was_sent_on_the_one_before() {
    for (vci, tapped, rounds) in [(100, false), (100, true), (101, false), (101, true), (103, false)]
        .into_iter()
        .flat_map(|(vci, tapped)| (0..4).map(move |rounds| (vci, tapped, rounds)))
    {
        let mut world = World::new(2);
        let mut others = [0, 1].map(|which| Application::other(host(&mut world, which)));
        for link in world.links.into_iter().filter(|_| tapped) {
            world.network.set_tap(link, Some(TapConfig { records: 10, octets: 1000, ..TapConfig::default() }));
        }
        // So that credits are there.
        (0..10).for_each(|_| _ = world.network.run(world.now));
        let at = pair::CIRCUITS.iter().position(|of| *of == vci).unwrap();
        let channel = world.ends[0].channels[at];
        push(&mut world.ends[0], channel, OLD, 16);
        (0..rounds).for_each(|_| _ = world.network.run(world.now));
        // Whatever has come by now was for who had the circuit.
        remake(&mut world, vci, |_| true);
        let channels =
            [0, 1].map(|which| host(&mut world, which).open(others[which].id, circuit(vci), Aal::Aal5).unwrap());
        push(&mut others[0], channels[0], 1, 8);
        let mut got = Vec::new();
        let [_, receiver] = &mut others;
        settle(&mut world, receiver, &mut got);
        assert_eq!(got, [1; 8], "circuit {vci}, tapped: {tapped}, after {rounds} rounds");
        world.settle_quietly();
        world.reclaim();
        assert_eq!(world.ends[0].idle.len(), TO_SEND as usize, "all buffers are back");
        world.check();
    }
}

#[test]
fn a_circuit_that_is_made_anew_at_one_host_alone_gets_nothing_of_what_is_on_the_link_to_it() {
    for tapped in [false, true] {
        let mut world = World::new(2);
        let mut other = Application::other(host(&mut world, 1));
        let link = world.links[1];
        assert!(
            world
                .network
                .set_tap(link, tapped.then(|| TapConfig { records: 10, octets: 1000, ..TapConfig::default() }))
        );
        (0..10).for_each(|_| _ = world.network.run(world.now));
        let credit_cells = world.network.link_info(link).unwrap().from_b.sent.cells;
        let channel = world.ends[0].channels[0];
        push(&mut world.ends[0], channel, OLD, 8);
        // beta has been visited before the switch.
        world.network.run(world.now);
        let under_way = world.network.link_info(link).unwrap().from_b.sent.cells;
        assert!(under_way > 100);
        remake(&mut world, 100, |name| name == "beta");
        host(&mut world, 1).open(other.id, circuit(100), Aal::Aal5).unwrap();
        world.settle_quietly();
        assert_eq!(other.local.receive.waiting_now(), 0, "tapped: {tapped}");
        let line = world.network.link_info(link).unwrap().from_b;
        assert_eq!((line.unread, line.sent.dropped(DropReason::Closed)), (0, under_way - credit_cells));
        world.check();
    }
}
