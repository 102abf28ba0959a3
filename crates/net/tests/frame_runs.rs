//! Frames of one circuit that follow each other pass a switch together. What comes of it is what comes of them one by one, as they pass
//! where somebody looks at each.

use net::random::Random;
use net::{
    Carries, End, FaultConfig, FrameAal, FramePool, Label, LineCounters, LinkConfig, LinkId, Network, NodeId,
    RouteOptions, Side, SwitchElement, SwitchElementConfig, TapBuffer, TapConfig,
};
use sar::SduMeta;
use std::time::Duration;
use wire::{CellRate, CircuitId, DropReason, Time, Vpi};

const PORTS: usize = 5;
/// Frames of a queue: fewer than what is sent.
const QUEUE: usize = 24;

type Seen = Vec<(CircuitId, FrameAal, Vec<u8>, Time)>;

struct World {
    network: Network,
    switch: NodeId,
    links: Vec<LinkId>,
}

impl World {
    /// Port 0 takes what comes; the others send at once, at a rate, with a tap and with faults. All have a tap if `one_by_one`.
    fn new(down: Option<usize>, one_by_one: bool) -> Self {
        let mut network = Network::new(FramePool::new(4096, 300));
        let switch = network.add_node("s", Box::new(SwitchElement::new(SwitchElementConfig::default())));
        let links: Vec<LinkId> = (0..PORTS)
            .map(|port| {
                let rate = if port == 2 { CellRate::from_cells_per_s(1e6) } else { None };
                let faults = (port == 4).then(|| FaultConfig { loss: 0.3, seed: 7, ..FaultConfig::default() });
                // What waits for a rate has left earlier where the network runs more often.
                let queue_cells = if [0, 2, 4].contains(&port) { 2048 } else { QUEUE };
                let config =
                    LinkConfig { carries: Carries::Frames, rate, faults, queue_cells, ..LinkConfig::default() };
                network.connect(End::Port(switch, port as u16), End::External, config).unwrap()
            })
            .collect();
        for (port, link) in links.iter().enumerate().filter(|(port, _)| *port == 3 || one_by_one) {
            assert!(network.set_tap(*link, Some(TapConfig::default())), "{port}");
        }
        if let Some(port) = down {
            network.set_link_up(links[port], false);
        }
        let mut world = World { network, switch, links };
        let vc = |name: &str| Label::Vc(name.parse().unwrap());
        for port in 1..PORTS {
            world.route((0, vc(&format!("0.{}", 100 + port))), (port as u16, vc(&format!("0.{}", 200 + port))));
        }
        let vp = |vpi| Label::Vp(Vpi::new(vpi).unwrap());
        world.route((0, vp(1)), (1, vp(9)));
        world.route((0, vc("0.150")), (1, vc("0.250")));
        world.route((0, vc("0.150")), (3, vc("0.250")));
        // Back to where it came from.
        world.route((0, vc("0.160")), (0, vc("0.260")));
        world
    }

    fn route(&mut self, from: (u16, Label), to: (u16, Label)) {
        let switch = self.network.node_mut::<SwitchElement>(self.switch).unwrap();
        switch.add_route(from, to, RouteOptions::default()).unwrap();
    }

    fn put(&mut self, (circuit, aal, octets): &(CircuitId, FrameAal, Vec<u8>), now: Time) {
        self.network.external(self.links[0], now, |io| {
            let frame = io.pool_mut().copy_in(*circuit, *aal, SduMeta::default(), octets).unwrap();
            io.put_frame(0, frame).unwrap();
        });
    }

    fn run(&mut self, now: Time) {
        while self.network.run(now) {}
        assert_eq!(self.network.peek_node::<SwitchElement>(self.switch).unwrap().mismatch(), None);
    }

    fn take(&mut self, port: usize, now: Time) -> Seen {
        let take = |io: &mut net::NodeIo<'_>| {
            let mut seen = Vec::new();
            while let Some((frame, octets)) = io.frame_in(0) {
                seen.push((frame.circuit, frame.aal, octets.to_vec(), frame.at()));
                io.release_frame(0);
            }
            seen
        };
        self.network.external(self.links[port], now, take).unwrap()
    }

    fn counted(&mut self) -> (Vec<String>, Vec<LineCounters>, usize) {
        let mut tap = TapBuffer::new(&TapConfig::default());
        self.network.drain_tap(self.links[3], &mut tap);
        let switch = self.network.peek_node::<SwitchElement>(self.switch).unwrap();
        let routes = switch.routes().map(|route| format!("{route:?}")).collect();
        let lines = self.links.iter().map(|link| self.network.link_info(*link).unwrap().from_a).collect();
        (routes, lines, tap.records().filter(|record| record.from == Side::A).count())
    }
}

/// Frames in runs: of circuits that lead to one port or several, as a channel or in a path, and of one that leads nowhere.
fn frames(random: &mut Random) -> Vec<(CircuitId, FrameAal, Vec<u8>)> {
    const CIRCUITS: [&str; 9] = ["0.101", "0.102", "0.103", "0.104", "1.77", "1.78", "0.150", "0.160", "0.999"];
    let (mut all, most) = (Vec::new(), 1 + random.index(200));
    while all.len() < most {
        let circuit: CircuitId = CIRCUITS[random.index(CIRCUITS.len())].parse().unwrap();
        let aal = [FrameAal::Aal5, FrameAal::Aal5, FrameAal::Aal34, FrameAal::Aal0][random.index(4)];
        for _ in 0..=random.index(80) {
            let octets = if aal == FrameAal::Aal0 { 52 } else { random.index(200) };
            // Of AAL0 the first four are a header: user data.
            let octets = (0..octets).map(|at| if at < 4 { 0 } else { all.len() as u8 ^ at as u8 }).collect();
            all.push((circuit, aal, octets));
        }
    }
    all
}

/// What passed each port, and whether anything found no room.
fn compare(seed: u64) -> ([usize; PORTS], bool) {
    let mut random = Random::new(seed);
    let down = [None, None, None, Some(1 + random.index(PORTS - 1))][random.index(4)];
    let mut worlds = [World::new(down, false), World::new(down, true)];
    let (mut passed, mut full, mut now) = ([0; PORTS], false, Time::ZERO);
    for _ in 0..4 {
        let frames = frames(&mut random);
        for frame in &frames {
            worlds[0].put(frame, now);
            worlds[1].put(frame, now);
            worlds[1].run(now);
        }
        worlds[0].run(now);
        now += Duration::from_millis(random.index(3) as u64);
        worlds.iter_mut().for_each(|world| world.run(now));
        for (port, passed) in passed.iter_mut().enumerate().filter(|_| random.index(3) > 0) {
            let [together, alone] = worlds.each_mut().map(|world| world.take(port, now));
            assert!(together == alone, "port {port}: {together:?} for {alone:?}");
            *passed += alone.len();
        }
        let [together, alone] = worlds.each_mut().map(World::counted);
        assert_eq!(together, alone);
        full |= together.1.iter().any(|line| line.sent.dropped(DropReason::QueueFull) > 0);
    }
    for world in &mut worlds {
        now += Duration::from_secs(1);
        (0..PORTS).for_each(|_| world.run(now));
        while (0..PORTS).any(|port| !world.take(port, now).is_empty()) {
            world.run(now);
        }
        assert_eq!(world.network.pool().in_use(), 0);
    }
    (passed, full)
}

#[test]
fn frames_that_pass_together_come_as_those_that_pass_one_by_one() {
    let runs: Vec<([usize; PORTS], bool)> = (0..150)
        .map(|seed| std::panic::catch_unwind(|| compare(seed)).unwrap_or_else(|_| panic!("seed {seed}")))
        .collect();
    assert!((0..PORTS).all(|port| runs.iter().any(|(passed, _)| passed[port] > 0)), "{runs:?}");
    assert!(runs.iter().any(|(_, full)| *full));
}
