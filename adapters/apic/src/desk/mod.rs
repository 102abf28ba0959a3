//! A desk-area network as an element of a network (Kazantzidis 1997, section 3): APICs in a chain, a ring or a perfect
//! shuffle. Circuits go in at one of its ports and out at others, chip by chip.
//!
//! In: cells at the ports, routes of circuits, the time. Out: cells. Port n is the third port of chip n: a camera, a
//! display, a store, a host or a switch is there ([`device`]). The open ends of a chain are two ports more. Links
//! between chips are inside; each direction of one is a wire ([`Plan`]).
//!
//! All chips run by one order of slots, so that a run is the same each time, to the cell. Where the processor cannot
//! keep up with the chips' slots, the desk's time stands still for a while, and the report says for how long.
//!
//! A circuit of constant or real-time rate, or of low latency, takes the bypass in each chip.

mod agenda;
mod connections;
pub mod device;
mod layout;
mod plan;
mod ports;
mod report;
mod routes;
mod sums;
mod unlaid;
pub mod video;

pub use layout::{Layout, LayoutError};
pub use plan::{ChipPort, LINKS, MAX_CHIPS, Plan, PlanError, Shape};
pub use report::{ChipReport, Report};
pub use sums::DeskSums;

use crate::{Apic, Port, Sums};
use agenda::Agenda;
use bus::clock::Clock;
use bus::memory::NoMemory;
use core::time::Duration;
use net::{Label, LabelChange, LabelChanges, Node, NodeIo, RouteError, RouteOptions, RouteTable};
use ports::Ports;
use routes::Routes;
use std::any::Any;
use traffic::{Category, Contract};
use wire::{CircuitId, DropReason, Time};

/// Slots of one run at most, of all chips together: some milliseconds.
const SLOTS_A_RUN: usize = 16_384;
/// A route's slots cost about as much as so many cells put on a line.
const SLOTS_A_CELL: usize = 2;
/// A chip loses its power in the time in which a circuit gets its way over so many links.
const LINKS_A_CHIP: usize = 8;

/// What is at a port of a chip.
#[derive(Debug, Clone, Copy)]
enum Joined {
    /// A wire to a port of a chip.
    Chip(usize, Port),
    /// A port of the element.
    Outer(usize),
}

/// See the module's head.
#[derive(Debug)]
pub struct Desk {
    layout: Layout,
    plan: Plan,
    chips: Vec<Apic>,
    /// What is at the ports of each chip.
    joined: Vec<[Joined; 3]>,
    /// Of chips from this one on the power is yet to be what the layout says.
    powered: usize,
    routes: Routes,
    agenda: Agenda,
    ports: Ports,
    /// When the next slot of any is, since the last run.
    upcoming: Option<Time>,
    clock: Clock,
    /// The moment of its own time that it has come to.
    reached: Time,
    /// How often a desk that carries cells is visited.
    grain: Duration,
    behind: bool,
    /// What became of the cells of chips that a change of the layout replaced.
    former: Sums,
    /// Cells that came in and left by the element's ports.
    entered: u64,
    left: u64,
    label_changes: LabelChanges,
}

impl Desk {
    /// A desk of a layout.
    ///
    /// # Errors
    /// [`LayoutError`].
    pub fn new(layout: Layout) -> Result<Self, LayoutError> {
        let plan = layout.plan()?;
        let mut desk = Desk {
            plan,
            chips: Vec::new(),
            joined: Vec::new(),
            powered: 0,
            routes: Routes::default(),
            agenda: Agenda::default(),
            ports: Ports::default(),
            upcoming: None,
            clock: Clock::default(),
            reached: Time::ZERO,
            grain: Duration::ZERO,
            behind: false,
            former: Sums::default(),
            entered: 0,
            left: 0,
            label_changes: LabelChanges::default(),
            layout,
        };
        desk.make_chips();
        Ok(desk)
    }

    /// The same, visited no more often than once in a while even if cells are under way: where time is real, a visit
    /// for each slot costs more than the slot.
    pub fn with_grain(self, grain: Duration) -> Self {
        Desk { grain, ..self }
    }

    /// Has its chips' tables made rather than when circuits come.
    pub fn touch(&mut self) {
        self.chips.iter_mut().for_each(Apic::touch);
    }

    fn make_chips(&mut self) {
        self.chips = (0..self.layout.chips).map(|_| Apic::new(self.layout.chip)).collect();
        let plan = self.plan;
        self.joined = (0..self.layout.chips).map(|chip| Port::ALL.map(|port| joined(&plan, chip, port))).collect();
        self.agenda = Agenda::new(self.layout.chips);
        self.ports = Ports::new(self.layout.ports());
        self.set_powers(usize::MAX);
    }

    /// Of so many chips at most, one after another. False if all have it as the layout says.
    fn set_powers(&mut self, most: usize) -> bool {
        let left = self.powered..self.chips.len();
        for n in left.clone().take(most) {
            let (chip, on) = (&mut self.chips[n], !self.layout.off.contains(&n));
            if chip.has_power() != on {
                chip.set_power(on);
            }
            self.powered += 1;
        }
        !left.is_empty()
    }

    /// What it is made of.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// A chip.
    pub fn chip(&self, n: usize) -> Option<&Apic> {
        self.chips.get(n)
    }

    /// Makes it another, with the same circuits. Where power alone differs, cells of other chips go on. Else all
    /// chips are new ones; what the former held is dropped as `link_down`, and counted.
    ///
    /// # Errors
    /// [`LayoutError`], and nothing has changed.
    pub fn set_layout(&mut self, layout: Layout) -> Result<(), LayoutError> {
        drop(self.become_like(Desk::new(layout)?));
        while self.settle(usize::MAX) {}
        Ok(())
    }

    /// The same for whoever has others wait for the network: `other` is of the layout and has no circuits, and what comes back is to be
    /// dropped elsewhere. Chips have their power and circuits their ways after [`Desk::settle`]; whoever names a circuit before that finds it.
    pub fn become_like(&mut self, mut other: Desk) -> Desk {
        let power_only = other.layout.differs_in_power_only(&self.layout);
        core::mem::swap(&mut self.layout, &mut other.layout);
        if power_only {
            self.powered = 0;
            return other;
        }
        self.chips.iter().for_each(|chip| self.former.add(&chip.sums().ended()));
        core::mem::swap(&mut self.plan, &mut other.plan);
        core::mem::swap(&mut self.chips, &mut other.chips);
        core::mem::swap(&mut self.joined, &mut other.joined);
        core::mem::swap(&mut self.powered, &mut other.powered);
        core::mem::swap(&mut self.agenda, &mut other.agenda);
        core::mem::swap(&mut self.ports, &mut other.ports);
        other.routes = self.routes.leave_chips();
        other
    }

    /// What a change of the layout leaves to be done: chips get their power, or lose it, and circuits their ways in other chips. As much
    /// as leading circuits over about `most` links. False if nothing was left.
    pub fn settle(&mut self, most: usize) -> bool {
        self.set_powers(most.div_ceil(LINKS_A_CHIP)) || self.routes.install_some(&self.plan, &mut self.chips, most)
    }

    /// Cells that wait at a chip's ports go in, as many as the chip takes now.
    fn take_in(&mut self, chip: usize, io: &mut NodeIo<'_>, now: Time) -> bool {
        let apic = &mut self.chips[chip];
        let (mut any, mut woken) = (false, false);
        for port in Port::ALL {
            let Joined::Outer(outer) = self.joined[chip][port.index()] else { continue };
            let room = apic.room(port);
            // What waits on the link while half of the framer's places are taken is in time for its slot later, too.
            if room > 0 && room.saturating_mul(2) >= apic.config().framer_cells {
                let taken = self.ports.take(outer, room, io, |cell| woken |= apic.take_cell(port, cell, now));
                self.entered = self.entered.wrapping_add(taken as u64);
                any |= taken > 0;
            }
        }
        if woken {
            self.set_due(chip);
        }
        any
    }

    fn take_all_in(&mut self, io: &mut NodeIo<'_>, now: Time) -> bool {
        (0..self.chips.len()).fold(false, |any, chip| self.take_in(chip, io, now) | any)
    }

    /// What has left a chip gets to the next one at once, or out.
    fn put_out(&mut self, chip: usize, io: &mut NodeIo<'_>, now: Time) {
        for port in Port::ALL {
            match self.joined[chip][port.index()] {
                // A chip of a shuffle may be joined to itself.
                Joined::Chip(next, to) if next == chip => {
                    while let Some(cell) = self.chips[chip].poll_cell(port) {
                        self.chips[chip].take_cell(to, &cell, now);
                    }
                }
                Joined::Chip(next, to) => {
                    let Ok([from, into]) = self.chips.get_disjoint_mut([chip, next]) else { continue };
                    let mut woken = false;
                    while let Some(cell) = from.first_left(port) {
                        woken |= into.take_cell(to, cell, now);
                        from.poll_cell(port);
                    }
                    if woken {
                        self.set_due(next);
                    }
                }
                Joined::Outer(outer) => {
                    let apic = &mut self.chips[chip];
                    while let Some(cell) = apic.first_left(port) {
                        let lost = !self.ports.put(outer, cell, io);
                        apic.poll_cell(port);
                        if lost {
                            let reason = if io.is_up(outer) { DropReason::QueueFull } else { DropReason::LinkDown };
                            apic.count_lost(port, reason);
                        } else {
                            self.left = self.left.wrapping_add(1);
                        }
                    }
                }
            }
        }
    }

    fn set_due(&mut self, chip: usize) {
        let apic = &self.chips[chip];
        self.agenda.set(chip, apic.poll_timeout().filter(|_| apic.has_power()));
    }

    /// Goes on to a moment of its own time; how many slots that took, and whether it has come there.
    fn advance(&mut self, until: Time, io: &mut NodeIo<'_>) -> (usize, bool) {
        let mut slots = 0;
        while let Some((at, chip)) = self.agenda.next().filter(|(at, _)| *at <= until) {
            if slots == SLOTS_A_RUN {
                (self.reached, self.upcoming) = (at, Some(at));
                return (slots, false);
            }
            self.agenda.take();
            if self.chips[chip].handle_timeout(at, &mut NoMemory) {
                slots += 1;
                self.put_out(chip, io, at);
                self.take_in(chip, io, at);
            }
            self.set_due(chip);
        }
        self.reached = until;
        self.upcoming = self.agenda.next().map(|(at, _)| at);
        (slots, true)
    }
}

/// What is at a port of a chip.
fn joined(plan: &Plan, chip: usize, port: Port) -> Joined {
    if port == Port::Memory {
        return Joined::Outer(chip);
    }
    let place = ChipPort { chip, link: port.index() };
    match plan.next(place) {
        Some(ChipPort { chip, link }) => Joined::Chip(chip, routes::link_port(link)),
        // The ends of a chain are behind the third ports.
        None => Joined::Outer(plan.chips() + place.link),
    }
}

impl Desk {
    fn pass(&mut self, io: &mut NodeIo<'_>, now: Time) -> bool {
        let until = self.clock.inner(now);
        let (before, came) = self.advance(until, io);
        self.behind = !came;
        if self.behind {
            self.clock.behind(now, self.reached);
            io.count_work(before / SLOTS_A_CELL);
            return true;
        }
        // What comes now goes in now.
        let taken = self.take_all_in(io, until);
        let (after, _) = self.advance(until, io);
        io.count_work((before + after) / SLOTS_A_CELL);
        taken || before + after > 0
    }
}

impl Node for Desk {
    fn run(&mut self, io: &mut NodeIo<'_>, now: Time) -> bool {
        let any = self.pass(io, now);
        self.ports.finish(io);
        any
    }

    fn poll_timeout(&self) -> Option<Time> {
        Some(self.clock.outer(self.upcoming?.max(self.reached + self.grain)))
    }

    fn rests(&self) -> bool {
        !self.behind
    }

    fn poll_label_change(&mut self) -> Option<LabelChange> {
        self.label_changes.poll()
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// Whether a contract's cells take the bypass.
fn is_low_latency(contract: &Contract) -> bool {
    contract.low_latency || matches!(contract.category, Category::Cbr | Category::RtVbr)
}

impl RouteTable for Desk {
    fn add_route(&mut self, from: (u16, Label), to: (u16, Label), options: RouteOptions) -> Result<(), RouteError> {
        let low_latency = is_low_latency(&options.contract);
        let is_new = !self.routes.has(from.0, from.1);
        self.routes.add(&self.plan, &mut self.chips, from, to, low_latency)?;
        if is_new {
            self.label_changes.note(LabelChange::In(from.0, from.1));
        }
        Ok(())
    }

    /// A desk polices nothing; a contract says only whether cells take the bypass.
    fn change_route(&mut self, from: (u16, Label), _: (u16, Label), options: RouteOptions) -> Result<(), RouteError> {
        let low_latency = is_low_latency(&options.contract);
        self.routes.set_low_latency(&self.plan, &mut self.chips, from, low_latency)
    }

    fn remove_route(&mut self, port: u16, label: Label, out_port: Option<u16>) -> bool {
        self.routes.remove(&self.plan, &mut self.chips, port, label, out_port)
    }
}

impl Desk {
    /// The chips that cells pass which come in at a port under a label.
    pub fn chips_of(&self, port: u16, label: CircuitId) -> Vec<usize> {
        self.routes.chips_of(port, label)
    }
}
