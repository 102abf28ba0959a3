//! Links taken down by hand, links that follow others, and shells that outlive their link.

use net::external::External;
use net::{Carries, End, FramePool, LinkConfig, LinkId, Network, Node, NodeIo};
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use wire::{Cell, DropReason, Time};

/// Reads nothing, sends nothing.
struct Idle;

impl Node for Idle {
    fn run(&mut self, _: &mut NodeIo<'_>, _: Time) -> bool {
        false
    }

    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// What a test sees of a shell, and sets in it.
#[derive(Default)]
struct Seen {
    up: AtomicBool,
    signal: AtomicBool,
    runs: AtomicU64,
}

/// A shell that is up when it is told so, and sends a cell in each round.
struct Fake(Arc<Seen>);

impl External for Fake {
    fn run(&mut self, io: &mut NodeIo<'_>, _: Time) -> bool {
        self.0.runs.fetch_add(1, Ordering::Relaxed);
        io.put_cell(0, &Cell::default());
        false
    }

    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    fn is_up(&self) -> bool {
        self.0.up.load(Ordering::Relaxed)
    }

    fn status(&self) -> String {
        String::new()
    }

    fn set_signal(&mut self, signal: bool) {
        self.0.signal.store(signal, Ordering::Relaxed);
    }
}

fn network(links: u16) -> (Network, Vec<(LinkId, Arc<Seen>)>) {
    let mut network = Network::new(FramePool::new(4, 64));
    let node = network.add_node("idle", Box::new(Idle));
    let links = (0..links).map(|port| {
        let config = LinkConfig { carries: Carries::Cells, ..LinkConfig::default() };
        let link = network.connect(End::Port(node, port), End::External, config).unwrap();
        let seen = Arc::new(Seen { up: AtomicBool::new(true), ..Seen::default() });
        assert!(network.attach(link, Box::new(Fake(seen.clone()))));
        (link, seen)
    });
    let links = links.collect();
    network.run(Time::ZERO);
    (network, links)
}

fn up(network: &Network, link: LinkId) -> bool {
    network.link_info(link).unwrap().up
}

fn signal(seen: &Seen) -> bool {
    seen.signal.load(Ordering::Relaxed)
}

#[test]
fn an_external_link_taken_down_stays_down_whatever_its_shell_says() {
    let (mut network, links) = network(1);
    let (link, seen) = &links[0];
    assert!(up(&network, *link) && signal(seen));
    assert!(network.set_link_up(*link, false));
    for _ in 0..3 {
        network.run(Time::ZERO);
        assert!(!up(&network, *link) && !signal(seen));
    }
    let dropped = network.link_info(*link).unwrap().from_b.sent.dropped(DropReason::LinkDown);
    assert_eq!(dropped, 1 + 3, "one that was on the link, and one in each round");
    network.set_link_up(*link, true);
    assert!(up(&network, *link) && signal(seen));
    // Up by hand, and yet down while the shell is.
    seen.up.store(false, Ordering::Relaxed);
    network.run(Time::ZERO);
    assert!(!up(&network, *link) && signal(seen));
    seen.up.store(true, Ordering::Relaxed);
    network.run(Time::ZERO);
    assert!(up(&network, *link));
}

#[test]
fn a_link_that_follows_another_is_down_while_that_one_is() {
    let (mut network, links) = network(2);
    let [(adapter, adapters), (far, fars)] = &links[..] else { unreachable!() };
    assert!(network.follow(*adapter, Some(*far)));
    network.run(Time::ZERO);
    assert!(up(&network, *adapter) && signal(adapters));
    fars.up.store(false, Ordering::Relaxed);
    assert!(network.run(Time::ZERO), "a fault that was passed on is work");
    assert!(!up(&network, *adapter) && !signal(adapters));
    assert!(!network.run(Time::ZERO));
    fars.up.store(true, Ordering::Relaxed);
    network.run(Time::ZERO);
    assert!(up(&network, *adapter) && signal(adapters));
    network.set_link_up(*far, false);
    network.run(Time::ZERO);
    assert!(!signal(adapters));
    // A link that is gone brings nothing any more.
    network.set_link_up(*far, true);
    assert!(network.remove_link(*far));
    network.run(Time::ZERO);
    assert!(!signal(adapters));
    network.follow(*adapter, None);
    assert!(up(&network, *adapter) && signal(adapters));
}

#[test]
fn a_link_awaits_its_shell_and_only_one_with_an_end_outside_does() {
    let mut network = Network::new(FramePool::new(4, 64));
    let [a, b] = ["a", "b"].map(|name| network.add_node(name, Box::new(Idle)));
    let config = LinkConfig { carries: Carries::Cells, ..LinkConfig::default() };
    let outside = network.connect(End::Port(a, 0), End::External, config.clone()).unwrap();
    network.await_shell(outside);
    for _ in 0..2 {
        assert!(!up(&network, outside));
        network.set_link_up(outside, true);
        network.run(Time::ZERO);
    }
    let seen = Arc::new(Seen { up: AtomicBool::new(true), ..Seen::default() });
    assert!(network.attach(outside, Box::new(Fake(seen.clone()))));
    assert!(up(&network, outside) && signal(&seen));
    network.await_shell(outside);
    assert!(up(&network, outside), "it is there");
    network.detach(outside);
    network.set_link_up(outside, true);
    assert!(!up(&network, outside));
    let inside = network.connect(End::Port(a, 1), End::Port(b, 0), config).unwrap();
    network.await_shell(inside);
    assert!(up(&network, inside), "no shell will ever come");
}

#[test]
fn a_shell_lives_on_without_a_link_and_is_plugged_in_again() {
    let (mut network, links) = network(2);
    let [(first, seen), (second, _)] = &links[..] else { unreachable!() };
    let shell = network.detach(*first).unwrap();
    assert!(network.remove_link(*first));
    let loose = network.hang(shell, 0);
    let runs = seen.runs.load(Ordering::Relaxed);
    network.run(Time::ZERO);
    assert_eq!(seen.runs.load(Ordering::Relaxed), runs + 1);
    assert!(!signal(seen) && !up(&network, loose));
    network.set_link_up(loose, true);
    assert!(!signal(seen) && !up(&network, loose), "there is nothing at the far end");
    let shell = network.detach(loose).unwrap();
    assert!(network.remove_link(loose));
    network.detach(*second);
    assert!(network.attach(*second, shell));
    network.run(Time::ZERO);
    assert!(signal(seen) && up(&network, *second));
}
