//! A load of calls through switches in a row: so many stay up, and others are set up and released as fast as they go.

use super::{Simulation, WireEnd};
use crate::call::{CallId, Config, ElementList, Event, Side, Version};
use crate::node::{Node, PortConfig};
use crate::port::Port;
use std::time::Duration;
use wire::aesa::{Aesa, Prefix};
use wire::q2931::{
    AalParameters, Bearer, Cause, CauseValue, Direction, Element, Location, LowLayer, Number, Party, Qos, Traffic,
};
use wire::{CellRate, Time};

/// Two lanes: a caller, a callee and a link between neighbouring switches each, so that 100 000 calls find labels.
const LANES: usize = 2;
const DELAY: Duration = Duration::from_micros(10);
/// How long the simulation may go on without an answer before the load is given up.
const PATIENCE: Duration = Duration::from_secs(60);

/// Calls that could not be set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Stuck {
    /// A call was refused or lost.
    #[error("a call was released: {0}")]
    Released(CauseValue),
    /// Nothing happens any more.
    #[error("no answer within {PATIENCE:?} of virtual time")]
    Silent,
}

/// Hosts, switches and calls. Hosts 0 and 1 call hosts 2 and 3.
#[derive(Debug)]
pub struct Load {
    net: Simulation,
    /// Calls that stay up.
    up: usize,
    next_lane: usize,
}

fn address(lane: usize, callee: bool) -> Aesa {
    let mut address = Aesa([0x47; 20]);
    address.0[18] = lane as u8;
    address.0[17] = callee.into();
    address
}

fn setup(lane: usize) -> ElementList {
    let side = Direction { pcr: Some(1), ..Direction::default() };
    ElementList::from([
        Element::Aal(AalParameters::aal5(9188)),
        Element::Traffic(Traffic { forward: side, backward: side, best_effort: false }),
        Element::Bearer(Bearer::X),
        Element::LowLayer(LowLayer::LLC),
        Element::Called(Number::aesa(address(lane, true))),
        Element::Calling(Party::aesa(address(lane, false))),
        Element::Qos(Qos::default()),
    ])
}

impl Load {
    /// A row of switches, whose links are up. Each has two ports to the left and two to the right.
    pub fn new(switches: usize) -> Result<Self, Stuck> {
        let switches = switches.max(1);
        let config =
            |side, version| Config { max_calls: 70_000, max_calls_per_second: u32::MAX, ..Config::new(side, version) };
        let mut nodes = Vec::new();
        for s in 0..switches {
            let port = |right: bool, lane: usize| {
                let outer = if right { s + 1 == switches } else { s == 0 };
                let call = match (outer, right) {
                    (true, _) => config(Side::Network, Version::Uni31),
                    (false, true) => config(Side::Network, Version::Iisp),
                    (false, false) => config(Side::User, Version::Iisp),
                };
                let addresses = if outer { vec![address(lane, right)] } else { Vec::new() };
                PortConfig { call, rate: Some(CellRate::OC3C), addresses, is_inner: true, delay_ms: 0 }
            };
            let mut node = Node::new(vec![port(false, 0), port(false, 1), port(true, 0), port(true, 1)]);
            for lane in 0..LANES {
                node.routes_mut().add(Prefix::new(address(lane, true), 152), LANES + lane);
            }
            nodes.push(node);
        }
        let hosts = (0..2 * LANES).map(|_| Port::new(config(Side::User, Version::Uni31))).collect();
        let mut net = Simulation::new(hosts, nodes);
        for lane in 0..LANES {
            net.join(WireEnd::Host(lane), WireEnd::Switch(0, lane), DELAY);
            net.join(WireEnd::Host(LANES + lane), WireEnd::Switch(switches - 1, LANES + lane), DELAY);
            for s in 1..switches {
                net.join(WireEnd::Switch(s - 1, LANES + lane), WireEnd::Switch(s, lane), DELAY);
            }
        }
        net.start();
        net.run_for(Duration::from_secs(1));
        Ok(Load { net, up: 0, next_lane: 0 })
    }

    /// Calls that are up at the first switch.
    pub fn up(&self) -> usize {
        self.up
    }

    /// Sets up calls that stay, `under_way` at a time.
    pub fn fill(&mut self, calls: usize, under_way: usize) -> Result<(), Stuck> {
        self.run(calls, under_way, false)?;
        self.up += calls;
        Ok(())
    }

    /// Sets up and releases `calls`, `under_way` at a time. How much virtual time the last took to be answered.
    pub fn churn(&mut self, calls: usize, under_way: usize) -> Result<Duration, Stuck> {
        self.run(calls, under_way, true)
    }

    fn begin(&mut self) -> Option<Time> {
        let lane = self.next_lane;
        self.next_lane = (lane + 1) % LANES;
        let now = self.net.now();
        let begun = self.net.host_mut(lane).calls_mut().setup(setup(lane), now).is_ok();
        self.net.flush(lane);
        begun.then_some(now)
    }

    fn run(&mut self, calls: usize, under_way: usize, release: bool) -> Result<Duration, Stuck> {
        let (mut begun, mut answered, mut gone) = (0, 0, 0);
        let mut last = (self.net.now(), Duration::ZERO);
        let mut deadline = self.net.now() + PATIENCE;
        while answered < calls || (release && gone < calls) {
            while begun < calls && begun - answered < under_way.max(1) {
                last.0 = self.begin().ok_or(Stuck::Released(CauseValue::RESOURCES))?;
                begun += 1;
            }
            if !self.net.step(deadline) {
                return Err(Stuck::Silent);
            }
            while self.net.poll_command().is_some() {}
            while let Some((host, event)) = self.net.poll() {
                let now = self.net.now();
                deadline = now + PATIENCE;
                match event {
                    Event::Setup { call, .. } => self.answer(host, call),
                    Event::Connected { call, .. } => {
                        answered += 1;
                        last.1 = now.since(last.0);
                        if release {
                            let normal = Cause::new(Location::USER, CauseValue::NORMAL);
                            // The call is up, as the event says.
                            let _ = self.net.host_mut(host).calls_mut().release(call, normal, now);
                            self.net.flush(host);
                        }
                    }
                    Event::Released { cause, .. } if release && host >= LANES && cause.value == CauseValue::NORMAL => {
                        gone += 1;
                    }
                    Event::Released { cause, .. } => return Err(Stuck::Released(cause.value)),
                    _ => {}
                }
            }
        }
        Ok(last.1)
    }

    fn answer(&mut self, host: usize, call: CallId) {
        let now = self.net.now();
        // A call that was just presented can be answered.
        let _ = self.net.host_mut(host).calls_mut().connect(call, &ElementList::default(), now);
        self.net.flush(host);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_come_and_go_while_others_stay_up() {
        for switches in [1, 5] {
            let mut load = Load::new(switches).unwrap();
            load.fill(50, 64).unwrap();
            // SETUP there and CONNECT back, over each wire; hosts and switches take no virtual time.
            let round_trip = load.churn(200, 1).unwrap();
            assert_eq!(round_trip, 2 * DELAY * (switches as u32 + 1));
            load.churn(500, 64).unwrap();
            assert_eq!(load.up(), 50);
            for s in 0..switches {
                assert_eq!(load.net.switch(s).len(), 50);
            }
        }
    }
}
