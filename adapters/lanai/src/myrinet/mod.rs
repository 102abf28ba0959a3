//! A Myrinet as an element of a network: circuits go in at one of its ports and out at another, and between them their PDUs are messages from
//! interface to interface over the fabric.
//!
//! In: frames at the ports, routes of circuits, the time. Out: frames. Each port is a host of the Myrinet, with an interface
//! ([`crate::Lanai`]) whose control program sends, receives and maps. What the operating system's service does for U-Net it does here:
//! it writes a tag before each SDU ([`crate::packet::tag`]), and on arrival the tag and the sender's address say which circuit it is. So
//! no host can receive what no route leads to it.
//!
//! A PDU waits on its link while its host's interface is busy, and is never lost for want of room in the Myrinet. A PDU is dropped, and
//! counted, where no circuit or no cable leads on, or where the receiver's link has no room.
//!
//! The Myrinet has its own time, to the symbol. It runs as fast as the network's time, and stands still for a while if the processor cannot
//! keep up ([`Myrinet::report`] says for how long). Before the first PDU it draws its map.

mod circuits;
mod counted;
mod generator;
mod layout;
mod report;
mod sums;
mod table;

pub use generator::{Generated, Job, Pace, Refused};
pub use layout::{CIRCUITS, Cable, GENERATOR, Layout, LayoutError, MAX_HOSTS, MAX_SWITCHES, Plug};
pub use report::{HostReport, PortReport, Report, SwitchReport};
pub use sums::MyrinetSums;

use crate::network::{Network, NetworkSums};
use bus::clock::Clock;
use circuits::Port;
use core::time::Duration;
use generator::Generator;
use layout::Places;
use net::{Label, LabelChange, LabelChanges, LinkProperties, Node, NodeIo, RouteError, RouteOptions, RouteTable};
use std::any::Any;
use table::{Regrouped, Table};
use wire::Time;

/// Interfaces that a run looks at, at most: a fraction of a millisecond.
const VISITS: u64 = 384;
/// Of the Myrinet's time, what it goes on at once. Where many hosts are busy something happens every tenth of a microsecond.
const STEP: Duration = Duration::from_micros(2);
/// How often a Myrinet that carries PDUs is visited, and one that only maps.
const GRAINS: [Duration; 2] = [Duration::from_micros(5), Duration::from_micros(500)];
/// After a PDU has left or come, others may be at interfaces on their way to hosts: longer than the longest takes that is not stopped.
const ON_ITS_WAY: Duration = Duration::from_millis(2);
/// Where no map is drawn within this, no more is waited for.
const LONGEST_MAPPING: Time = Time::from_millis(2000);

/// See the module's head.
#[derive(Debug)]
pub struct Myrinet {
    layout: Layout,
    network: Network,
    places: Places,
    ports: Vec<Port>,
    table: Table,
    generator: Generator,
    clock: Clock,
    /// The first map is drawn.
    ready: bool,
    behind: bool,
    /// Until then, by its own time, PDUs are taken to be on their way.
    carries_until: Time,
    /// PDUs that a change of hosts or switches interrupted.
    interrupted: u64,
    /// What became of messages and packets before such changes.
    former: NetworkSums,
    label_changes: LabelChanges,
}

impl Myrinet {
    /// A Myrinet of a layout without [`Layout::problems`].
    pub fn new(layout: Layout) -> Self {
        let (network, places) = layout.build();
        let ports = layout.hosts.iter().map(|_| Port::default()).collect();
        Myrinet {
            layout,
            network,
            places,
            ports,
            table: Table::default(),
            generator: Generator::default(),
            clock: Clock::default(),
            ready: false,
            behind: false,
            carries_until: Time::ZERO,
            interrupted: 0,
            former: NetworkSums::default(),
            label_changes: LabelChanges::default(),
        }
    }

    /// What it is made of.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Makes it another, whose circuits are the same. Where cables alone differ, they are pulled and plugged, and PDUs on others go on.
    /// Else all begins anew, and what was under way is lost.
    pub fn set_layout(&mut self, layout: Layout) {
        drop(self.become_like(Myrinet::new(layout)));
    }

    /// The same for whoever has others wait for the network: `other` is of the layout and has no circuits, and what comes back is to be
    /// dropped elsewhere.
    pub fn become_like(&mut self, mut other: Myrinet) -> Myrinet {
        let cables_only = other.layout.differs_in_cables_only(&self.layout);
        core::mem::swap(&mut self.layout, &mut other.layout);
        if cables_only {
            for cable in other.layout.cables_without(&self.layout) {
                self.places.pull(&mut self.network.fabric, cable);
            }
            for cable in self.layout.cables_without(&other.layout) {
                let _ = self.places.plug(&mut self.network.fabric, cable);
            }
            return other;
        }
        self.interrupted += self.ports.iter().map(|port| port.under_way() as u64).sum::<u64>();
        self.former.add(&self.network.sums().ended());
        for (port, station) in self.ports.iter_mut().zip(self.network.stations()) {
            port.forget(station.lanai.sums());
        }
        core::mem::swap(&mut self.network, &mut other.network);
        // A port has the same address in both.
        self.network.swap_groups(&mut other.network);
        core::mem::swap(&mut self.places, &mut other.places);
        self.ports.resize_with(self.layout.hosts.len(), Port::default);
        (self.ready, self.behind, self.carries_until) = (false, false, Time::ZERO);
        self.generator.abandon();
        other
    }

    /// Begins to generate traffic; what became of it is in [`Myrinet::report`].
    ///
    /// # Errors
    /// [`Refused`].
    pub fn generate(&mut self, job: Job) -> Result<(), Refused> {
        self.generator.begin(job, &mut self.network, self.layout.hosts.len())
    }

    fn regroup(&mut self, Regrouped { group, members }: Regrouped) {
        let addresses = members.into_iter().map(|port| Layout::address(port.into()));
        self.network.set_group(group, addresses.collect());
    }

    /// Goes on to a moment of its own time, or as far as a run may; whether it has come there.
    fn advance(&mut self, until: Time, io: &mut NodeIo<'_>) -> bool {
        let begun = self.network.visits();
        loop {
            let next = self.network.poll_timeout().map_or(until, |at| at.max(self.network.now()) + STEP).min(until);
            let (ports, table, generator) = (&mut self.ports, &self.table, &mut self.generator);
            let carries_until = &mut self.carries_until;
            self.network.run(next, |number, event, station, now| {
                match event {
                    event if event.interface() == GENERATOR => generator.handle(number, event, station, now),
                    event => {
                        *carries_until = now + ON_ITS_WAY;
                        circuits::handle(number, event, station, ports, table, io);
                    }
                }
                false
            });
            if next >= until {
                return true;
            }
            if self.network.visits() - begun >= VISITS {
                return false;
            }
        }
    }

    /// The first map is drawn as fast as the processor can, whatever the time.
    fn map(&mut self, io: &mut NodeIo<'_>, now: Time) {
        let until = self.network.now() + Duration::from_millis(1);
        self.advance(until, io);
        let drawn = |station: &crate::network::Station| station.lanai.mapping().map().is_some();
        let told = self.network.stations().iter().any(drawn);
        if told || self.network.now() >= LONGEST_MAPPING {
            self.ready = true;
            self.clock.set(now, self.network.now());
        }
    }

    fn is_busy(&self) -> bool {
        let carries = self.network.now() < self.carries_until;
        carries || self.generator.is_busy() || self.ports.iter().any(|port| port.under_way() > 0)
    }
}

impl Node for Myrinet {
    fn run(&mut self, io: &mut NodeIo<'_>, now: Time) -> bool {
        if !self.ready {
            self.map(io, now);
            return true;
        }
        self.tell_drops(io);
        let until = self.clock.inner(now);
        let carried = self.carries_until;
        self.behind = !self.advance(until, io);
        if self.behind {
            self.clock.behind(now, self.network.now());
        }
        let mut any = false;
        for (n, port) in self.ports.iter_mut().enumerate() {
            any |= port.take_frames(n, &mut self.network, &self.table, io);
        }
        if self.generator.handle_timeout(&mut self.network) || any {
            // Interfaces begin with what they were given.
            let at = self.network.now();
            self.advance(at, io);
        }
        self.tell_drops(io);
        // What was delivered lies on a link, which is to go on with it.
        any | self.behind | (self.carries_until > carried)
    }

    fn poll_timeout(&self) -> Option<Time> {
        if !self.ready {
            return Some(Time::ZERO);
        }
        let grain = GRAINS[usize::from(!self.is_busy())];
        let next = self.network.poll_timeout().into_iter().chain(self.generator.poll_timeout()).min()?;
        Some(self.clock.outer(next.max(self.network.now() + grain)))
    }

    fn rests(&self) -> bool {
        self.ready && !self.behind
    }

    fn handle_link(&mut self, port: u16, link: Option<LinkProperties>) {
        if let Some(port) = self.ports.get_mut(usize::from(port)).filter(|_| link.is_some()) {
            // The link's counters begin now, and so does what is compared with them.
            port.begin();
        }
    }

    fn poll_label_change(&mut self) -> Option<LabelChange> {
        self.label_changes.poll()
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

impl RouteTable for Myrinet {
    fn add_route(&mut self, from: (u16, Label), to: (u16, Label), _: RouteOptions) -> Result<(), RouteError> {
        let is_new = !self.table.has(from);
        if let Some(change) = self.table.add(self.layout.hosts.len(), from, to)? {
            self.regroup(change);
        }
        if is_new {
            self.label_changes.note(LabelChange::In(from.0, from.1));
        }
        Ok(())
    }

    /// A Myrinet keeps no contracts: what it carries is best effort.
    fn change_route(&mut self, _: (u16, Label), _: (u16, Label), _: RouteOptions) -> Result<(), RouteError> {
        Ok(())
    }

    fn remove_route(&mut self, port: u16, label: Label, out_port: Option<u16>) -> bool {
        let (removed, change) = self.table.remove((port, label), out_port);
        if let Some(change) = change {
            self.regroup(change);
        }
        removed
    }
}
