//! A desk on a busy machine: the network's thread stands still again and again, and what a camera sends meets the policer
//! of a switch behind the desk, as in `examples/desk.toml`.

use apic::desk::Desk;
use apic::desk::device::{Camera, CameraSettings, Device, Display, DisplaySettings, Shell};
use net::random::Random;
use net::{
    CircuitNotice, End, FrameAal, FramePool, Label, LinkConfig, LinkId, Network, NodeId, RouteOptions, RouteTable,
    SwitchElement, SwitchElementConfig,
};
use std::time::Duration;
use traffic::{Category, Contract};
use wire::{Cell, CellRate, CircuitId, Counters, Time};

const LABEL: Label = Label::Vc(match CircuitId::new(0, 100) {
    Some(circuit) => circuit,
    None => panic!(),
});

/// 6 Mbit/s with a circuit's default tolerance; the camera sends 12 625 cells a second of these 14 150.
fn contract() -> Contract {
    let pcr = CellRate::from_line_bits_per_s(6e6);
    Contract { category: Category::Cbr, pcr, cdvt: Duration::from_millis(1), ..Contract::default() }
}

struct World {
    network: Network,
    switch: NodeId,
    links: [LinkId; 2],
    now: Time,
}

impl World {
    fn new(camera_device: impl Device + 'static) -> Self {
        let mut network = Network::new(FramePool::new(4, 256));
        let desk = Desk::new(apic::desk::Layout::default()).unwrap().with_grain(Duration::from_micros(10));
        let end = desk.layout().chips as u16 + 1;
        let desk = network.add_node("desk", Box::new(desk));
        let switch = network.add_node("s1", Box::new(SwitchElement::new(SwitchElementConfig::default())));
        let oc3 = LinkConfig { rate: Some(CellRate::OC3C), ..LinkConfig::default() };
        let camera = network.connect(End::External, End::Port(desk, 1), LinkConfig::default()).unwrap();
        network.connect(End::Port(desk, end), End::Port(switch, 0), oc3.clone()).unwrap();
        let display = network.connect(End::External, End::Port(switch, 1), oc3).unwrap();
        let mut world = World { network, switch, links: [camera, display], now: Time::ZERO };
        let options = RouteOptions { contract: contract(), ..RouteOptions::default() };
        let desk: &mut Desk = world.network.node_mut(desk).unwrap();
        desk.add_route((1, LABEL), (end, LABEL), options).unwrap();
        let switch: &mut SwitchElement = world.network.node_mut(switch).unwrap();
        switch.add_route((0, LABEL), (1, LABEL), options).unwrap();
        let settings = DisplaySettings { deadline: Duration::from_millis(200), ..DisplaySettings::default() };
        world.attach(0, camera_device);
        world.attach(1, Display::new(settings));
        world
    }

    fn attach(&mut self, n: usize, device: impl Device + 'static) {
        assert!(self.network.attach(self.links[n], Box::new(Shell::new(device))));
        let Label::Vc(circuit) = LABEL else { return };
        let notice = CircuitNotice { aal: FrameAal::Aal5, contract: contract() };
        self.network.set_circuit(self.links[n], circuit, Some(notice));
    }

    /// Rounds of a thread that the machine takes the processor from: each round is some microseconds after the one before,
    /// or by chance up to `stall` after it.
    fn run_until(&mut self, end: Time, stall: Duration, random: &mut Random) {
        while self.now < end {
            if !self.network.run(self.now) {
                let next = self.network.poll_timeout().unwrap_or(end);
                self.now = next.max(self.now).min(end);
            }
            let by = if random.happens(0.002) { random.below(stall.as_nanos() as u64) } else { 3_000 };
            self.now += Duration::from_nanos(by);
        }
    }

    fn count(&mut self, n: usize, name: &str) -> u64 {
        let (_, device) = self.network.externals().find(|(id, _)| *id == self.links[n]).unwrap();
        device.counters().into_iter().find(|(counter, _)| *counter == name).unwrap().1.pdus
    }

    fn policed(&mut self) -> u64 {
        let switch: &mut SwitchElement = self.network.node_mut(self.switch).unwrap();
        switch.circuit_counters((0, LABEL), (1, LABEL)).unwrap().policed
    }
}

/// A camera that is not told its contract.
struct Untold(Camera);

impl Device for Untold {
    fn kind(&self) -> &'static str {
        self.0.kind()
    }
    fn set_circuit(&mut self, circuit: CircuitId, exists: bool) {
        self.0.set_circuit(circuit, exists);
    }
    fn handle_cells(&mut self, cells: &[Cell], now: Time) {
        self.0.handle_cells(cells, now);
    }
    fn poll_cells(&mut self, out: &mut [Cell], now: Time) -> usize {
        self.0.poll_cells(out, now)
    }
    fn poll_timeout(&self) -> Option<Time> {
        self.0.poll_timeout()
    }
    fn status(&self) -> String {
        self.0.status()
    }
    fn counters(&self) -> Vec<(&'static str, Counters)> {
        self.0.counters()
    }
}

fn camera() -> Camera {
    Camera::new(CameraSettings::default(), Vec::new())
}

/// Virtual time of each run.
const LENGTH: Time = Time::from_millis(4000);

#[test]
fn a_camera_that_keeps_its_contract_loses_no_cell_to_the_policer_of_a_busy_machine() {
    for (seed, stall) in [(1, 2), (2, 8), (3, 25)] {
        let mut world = World::new(camera());
        world.run_until(LENGTH, Duration::from_millis(stall), &mut Random::new(seed));
        assert_eq!(world.policed(), 0, "stalls of up to {stall} ms");
        let [sent, shown] = [world.count(0, "frames"), world.count(1, "shown")];
        assert_eq!(world.count(1, "broken"), 0);
        assert!(shown + world.count(1, "late") + 1 >= sent && shown > 8, "{shown} of {sent} frames shown");
    }
}

#[test]
fn the_same_stalls_cost_cells_where_the_contract_is_not_kept_after_them() {
    let mut world = World::new(Untold(camera()));
    world.run_until(LENGTH, Duration::from_millis(8), &mut Random::new(2));
    assert!(world.policed() > 10, "{} cells", world.policed());
}

#[test]
fn what_a_short_stall_held_up_is_made_up_for_within_the_contract() {
    let mut world = World::new(camera());
    world.run_until(LENGTH, Duration::from_millis(2), &mut Random::new(7));
    // 25 frames a second, nearly all of them though the thread lost time within each.
    let shown = world.count(1, "shown");
    assert!(shown >= 94, "{shown} of 100 frames");
    assert_eq!(world.policed(), 0);
}
