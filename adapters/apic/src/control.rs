//! Remote control: cells that read and write the chip's registers, and only those that their circuit may.
//!
//! In: control cells ([`crate::control_cell`]) of connections that lead to a controller of this chip. Out: an answer to each
//! request, under the label that the controller has for answers. Who is a controller, and what it may do, is set by
//! whoever owns the chip ([`Controller`]) and by no cell: a cell of another connection is data, whatever it says.
//!
//! | register | what | access |
//! |---|---|---|
//! | 0x000 | "APIC" | read |
//! | 0x004 | slots in which the chip worked | read |
//! | 0x008, 0x00c | look-ups that found their connection on the chip; connections that were fetched | read |
//! | 0x010 to 0x018 | cells that came in by each port | read |
//! | 0x01c to 0x024 | cells that left by each port | read |
//! | 0x028 | cells that were dropped at any port | read |
//! | 0x100 | port of the entry of the table that the command is about | write |
//! | 0x104 | its label: VPI in bits 16 to 27, VCI in bits 0 to 15 | write |
//! | 0x108 | outputs: bit n for port n, bit 8 for low latency | write |
//! | 0x10c to 0x114 | the label at each output | write |
//! | 0x118 | command: 1 connect, 2 change, 3 disconnect | write |
//! | 0x11c | cells that the entry has had | read |
//!
//! The registers from 0x100 on are each controller's own, so that controllers do not disturb each other. A controller
//! may make connections whose labels, in and out, have VCIs of its range, and touch no others: neither those of other
//! controllers' ranges nor those that lead to channels or controllers. Counters are their low 32 bits.

use super::{Apic, Connection, Port};
use crate::control_cell::{Control, Operation, Way};
use core::ops::RangeInclusive;
use wire::{Cell, CellHeader, CircuitId, Vci, Vpi};

/// Controllers of a chip at most.
pub const MAX_CONTROLLERS: usize = 8;

/// The registers that commands are made of, and the command.
pub const ENTRY: u32 = 0x100;
/// See there.
pub const COMMAND: u32 = 0x118;
/// Cells of the entry.
pub const ENTRY_CELLS: u32 = 0x11c;
/// The first register: "APIC".
pub const IDENTITY: u32 = 0;
const NAME: u32 = u32::from_be_bytes(*b"APIC");

/// Who may control a chip from elsewhere, and how far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Controller {
    /// Where answers leave, and under which label.
    pub answers: (Port, CircuitId),
    /// VCIs of the connections that it may make and end; `None`: it may only read.
    pub vcis: Option<RangeInclusive<u16>>,
}

#[derive(Debug, Clone)]
pub(super) struct State {
    controller: Controller,
    /// Port, label, outputs, labels of outputs.
    entry: [u32; 6],
}

/// The controllers, and what came of their cells.
#[derive(Debug, Clone, Default)]
pub(super) struct Controllers {
    all: [Option<State>; MAX_CONTROLLERS],
    /// Requests that were done, and that were refused; cells that are none; answers without room.
    pub(super) done: u64,
    pub(super) refused: u64,
    pub(super) malformed: u64,
    pub(super) unanswered: u64,
    /// Answers that were made.
    pub(super) answered: u64,
}

fn label(value: u32) -> Option<CircuitId> {
    let vpi = Vpi::new(u16::try_from(value >> 16).ok()?)?;
    Some(CircuitId { vpi, vci: Vci(value as u16) })
}

impl State {
    fn may(&self, label: CircuitId) -> bool {
        self.controller.vcis.as_ref().is_some_and(|own| own.contains(&label.vci.get()))
    }

    /// The entry that the registers say: port and label, if the controller may touch it.
    fn named(&self) -> Option<(Port, CircuitId)> {
        let port = *Port::ALL.get(self.entry[0] as usize)?;
        label(self.entry[1]).filter(|label| self.may(*label)).map(|label| (port, label))
    }

    /// The connection that the registers say, if the controller may make it.
    fn connection(&self) -> Option<Connection> {
        let outputs = self.entry[2];
        if outputs & !0x107 != 0 {
            return None;
        }
        let mut connection = Connection { low_latency: outputs & 0x100 != 0, ..Connection::default() };
        for port in Port::ALL.into_iter().filter(|port| outputs & 1 << port.index() != 0) {
            let label = label(self.entry[3 + port.index()]).filter(|label| self.may(*label))?;
            connection = connection.and(port, label);
        }
        Some(connection)
    }
}

impl Apic {
    /// Gives a place among the chip's controllers to somebody, or takes it. Connections lead to it by
    /// [`Connection::to_controller`]. False: there are fewer places.
    pub fn set_controller(&mut self, place: u8, controller: Option<Controller>) -> bool {
        let Some(state) = self.controllers.all.get_mut(usize::from(place)) else { return false };
        *state = controller.map(|controller| State { controller, entry: [0; 6] });
        true
    }

    /// A cell for a controller's place has come.
    pub(super) fn control(&mut self, place: u8, cell: &Cell) {
        let known = self.controllers.all.get(usize::from(place)).and_then(Option::as_ref);
        let Some(answers) = known.map(|state| state.controller.answers) else {
            self.controllers.malformed += 1;
            return;
        };
        let Ok(request @ Control { way: Way::Request, .. }) = Control::parse(&cell.payload) else {
            // Nor is an answer answered.
            self.controllers.malformed += 1;
            return;
        };
        let value = match request.operation {
            Operation::Read => self.read_register(place, request.register),
            Operation::Write => self.write_register(place, request.register, request.value),
        };
        *(if value.is_some() { &mut self.controllers.done } else { &mut self.controllers.refused }) += 1;
        let way = if value.is_some() { Way::Done } else { Way::Refused };
        let answer = Control { way, value: value.unwrap_or(0), ..request };
        let (port, circuit) = answers;
        let answer = Cell::new(CellHeader { circuit, ..CellHeader::default() }, answer.emit());
        if !self.store.has_room(false) {
            self.controllers.unanswered += 1;
            return;
        }
        if let Some(place) = self.store.put(&answer) {
            self.controllers.answered += 1;
            self.dispatch(place, Connection::to(port, circuit));
        }
    }

    fn read_register(&self, place: u8, register: u32) -> Option<u32> {
        let monitor = self.monitor();
        let n = |base: u32| (register - base) as usize / 4;
        let value = match register {
            _ if !register.is_multiple_of(4) => return None,
            IDENTITY => return Some(NAME),
            0x004 => monitor.slots,
            0x008 => monitor.hits,
            0x00c => monitor.misses,
            0x010..=0x018 => self.framers[n(0x010)].counters.cells,
            0x01c..=0x024 => self.dispatcher.counters(Port::ALL[n(0x01c)]).cells,
            0x028 => {
                let dropped = |port: Port| {
                    self.framers[port.index()].counters.dropped_total() + self.dispatcher.counters(port).dropped_total()
                };
                Port::ALL.into_iter().map(dropped).sum()
            }
            ENTRY_CELLS => {
                let (port, label) = self.controllers.all[usize::from(place)].as_ref()?.named()?;
                self.connection(port, label)?.1
            }
            _ => return None,
        };
        Some(value as u32)
    }

    fn write_register(&mut self, place: u8, register: u32, value: u32) -> Option<u32> {
        let state = self.controllers.all.get_mut(usize::from(place))?.as_mut()?;
        state.controller.vcis.as_ref()?;
        match register {
            _ if !register.is_multiple_of(4) => return None,
            COMMAND => self.command(place, value)?,
            ENTRY..COMMAND => state.entry[(register - ENTRY) as usize / 4] = value,
            _ => return None,
        }
        Some(value)
    }

    fn command(&mut self, place: u8, command: u32) -> Option<()> {
        let state = self.controllers.all[usize::from(place)].as_ref()?;
        let (port, label) = state.named()?;
        let wanted = state.connection();
        // What leads into memory or to a controller is its owner's, whatever its label.
        let known = self.connection(port, label).map(|(connection, _)| connection);
        if known.is_some_and(|known| known.channel.is_some() || known.controller.is_some()) {
            return None;
        }
        match command {
            1 => self.connect(port, label, wanted?).ok(),
            2 => self.reconnect(port, label, wanted?).ok(),
            3 => self.disconnect(port, label).then_some(()),
            _ => None,
        }
    }
}
