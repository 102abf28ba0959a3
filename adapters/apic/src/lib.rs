//! The APIC, an ATM Port Interconnect Controller (Dittia, Cox and Parulkar 1995, as Kazantzidis 1997 describes it in
//! section 3): a chip that is a switch of three ports. Two are links to other chips; the third is memory, a bus or a
//! device. Chips in a chain or in a perfect shuffle are the network of a desk area.
//!
//! In: cells at each port, the time. Out: cells, counters. The owner calls
//!
//! 1. [`Apic::handle_cell`] (or [`Apic::handle_octets`]) as cells come, as far as [`Apic::room`] says;
//! 2. [`Apic::handle_timeout`] when [`Apic::poll_timeout`] says so: one slot, which is a cell time of a link;
//! 3. [`Apic::poll_cell`] for each port after that.
//!
//! | file | block of the chip |
//! |---|---|
//! | `framer.rs` | Input Framer and Output Framer |
//! | `store.rs` | Cell SRAM |
//! | `table.rs` | Virtual Circuit Translation Table (VCXT) |
//! | `cache.rs` | which connections have their state on the chip |
//! | `dispatch.rs` | Dispatcher: a queue for each output, with a bypass |
//! | `queue.rs` | the bypass |
//! | `host.rs`, `channel.rs` | channels and their pages of registers (protected I/O) |
//! | `grant.rs`, `ring.rs` | areas of memory, descriptors, rings (protected DMA) |
//! | `pacer.rs` | Pacer and TagFIFO |
//! | `hmi.rs` | Host Memory Interface |
//! | `transmit.rs` | Transmit FIFO and Transmit Formatter |
//! | `receive.rs`, `batch.rs` | Receive Formatter |
//! | `notify.rs` | notification queue and interrupt |
//! | `control.rs`, `control_cell.rs` | remote control: registers by cells, and the format of those cells |
//! | `clock.rs` | slots |
//! | `node.rs` | the chip as a node of a network |
//! | `sums.rs` | whether each cell is accounted for |
//!
//! A cell's state of the connection is looked up in the slot after it came, and it leaves in the slot after that, if
//! nothing is ahead of it. A cell of a low-latency connection therefore leaves within three slots and one more for
//! each such cell ahead of it, whatever else the chip carries ([`LOW_LATENCY_SLOTS`]). Every cell leaves, or is
//! counted by the reason why it does not.
//!
//! [`desk`] is a network of these chips as an element of a network, with cameras, displays and stores at it.
#![forbid(unsafe_code)]

mod batch;
mod cache;
mod channel;
mod clock;
mod config;
mod control;
pub mod control_cell;
pub mod desk;
mod dispatch;
mod framer;
pub mod grant;
mod hmi;
mod host;
pub mod kind;
mod node;
pub mod notify;
mod pacer;
mod queue;
mod receive;
mod ring;
mod store;
mod sums;
mod table;
mod transmit;

pub use channel::{Aal, Channel, Direction};
pub use config::{Config, Switches};
pub use control::{COMMAND, Controller, ENTRY, ENTRY_CELLS, IDENTITY, MAX_CONTROLLERS};
pub use framer::to_octets;
pub use host::{COMPLETED, ChannelError, PRODUCED, STOP};
pub use node::ApicNode;
pub use pacer::INTERVAL_PARTS;
pub use ring::Ring;
pub use sums::Sums;
pub use table::{Connection, ConnectionError};

use bus::HostMemory;
use cache::{Cache, Found};
use clock::Clock;
use control::Controllers;
use dispatch::{Dispatcher, Waiting};
use framer::InputFramer;
use grant::Area;
use host::Host;
use std::collections::VecDeque;
use store::Store;
use table::Table;
use wire::{Cell, CircuitId, Counters, DropReason, Time};

/// Slots from a low-latency cell's arrival to its departure, if no other such cell is ahead of it: up to one until
/// the next slot begins, one for the look-up, one on the link.
pub const LOW_LATENCY_SLOTS: u32 = 3;

/// A port of the chip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Port {
    /// The link to the chip before.
    Left,
    /// The link to the chip behind.
    Right,
    /// Memory, bus, or device.
    Memory,
}

impl Port {
    /// All, in the order of their numbers.
    pub const ALL: [Port; 3] = [Port::Left, Port::Right, Port::Memory];

    /// Its number.
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// What a chip has counted beside the cells of its ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Monitor {
    /// Copies that the table asked for: with multipoint connections more than cells.
    pub copies: u64,
    /// Of those, the ones beyond each cell's first.
    pub copied: u64,
    /// Cells that controllers took, and cells of connections without outputs.
    pub ended: u64,
    /// Look-ups that found their connection on the chip.
    pub hits: u64,
    /// Connections that were fetched.
    pub misses: u64,
    /// Most cells that the Cell SRAM has held.
    pub most_stored: usize,
    /// Transfers from and to memory, and their octets.
    pub transfers: u64,
    /// See there.
    pub transfer_octets: u64,
    /// Times that the interrupt pin was set.
    pub interrupts: u64,
    /// Cells that the Transmit Formatter made.
    pub made: u64,
    /// Accesses to pages of channels that are not open.
    pub refused: u64,
    /// Slots in which the chip worked.
    pub slots: u64,
    /// Requests of control cells that were done.
    pub control_done: u64,
    /// Requests of control cells that their controllers may not make.
    pub control_refused: u64,
    /// Cells of controllers' connections that are no requests.
    pub control_malformed: u64,
    /// Answers that found no room.
    pub control_unanswered: u64,
}

/// See the module's head.
#[derive(Debug, Clone)]
pub struct Apic {
    config: Config,
    power: bool,
    clock: Clock,
    framers: [InputFramer; 3],
    store: Store,
    table: Table,
    cache: Cache,
    /// Cells that wait for their connection's state: port, connection, place in the store.
    missing: VecDeque<(Port, u32, u32)>,
    dispatcher: Dispatcher,
    host: Host,
    controllers: Controllers,
    monitor: Monitor,
}

impl Apic {
    /// A chip with power and an empty table.
    pub fn new(config: Config) -> Self {
        let framer = || InputFramer::new(config.framer_cells);
        let clock = Clock::new(config.link_bits_per_s);
        Apic {
            config,
            power: true,
            clock,
            framers: [framer(), framer(), framer()],
            store: Store::new(config.sram_cells, config.reserved_cells),
            table: Table::new(config.connections, config.vpis, config.vcis),
            cache: Cache::new(config.connections, config.cache, config.miss, config.switches.cache),
            missing: VecDeque::with_capacity(config.miss_cells),
            dispatcher: Dispatcher::new(config.queue_cells, config.switches.bypass),
            host: Host::new(&config, clock.slot()),
            controllers: Controllers::default(),
            monitor: Monitor::default(),
        }
    }

    /// As it was made.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Makes a connection for cells that come in at `port` under `label`.
    ///
    /// # Errors
    /// [`ConnectionError`], and nothing has changed.
    pub fn connect(&mut self, port: Port, label: CircuitId, connection: Connection) -> Result<(), ConnectionError> {
        if connection.low_latency && !self.cache.can_lock() {
            return Err(ConnectionError::CacheFull(self.cache.lockable()));
        }
        let number = self.table.add(port, label, connection)?;
        if connection.low_latency {
            self.cache.lock(number);
        }
        Ok(())
    }

    /// Gives a connection other outputs, or another channel; cells that wait for an output leave as they were to.
    ///
    /// # Errors
    /// [`ConnectionError`], and nothing has changed.
    pub fn reconnect(&mut self, port: Port, label: CircuitId, connection: Connection) -> Result<(), ConnectionError> {
        let number = self.table.find(port, label).ok_or(ConnectionError::Unknown(label))?;
        let had = self.table.get(number).ok_or(ConnectionError::Unknown(label))?;
        if had.low_latency == connection.low_latency {
            self.table.set(number, connection);
            return Ok(());
        }
        if connection.low_latency && !self.cache.can_lock() {
            return Err(ConnectionError::CacheFull(self.cache.lockable()));
        }
        self.disconnect(port, label);
        self.connect(port, label, connection)
    }

    /// Removes a connection. Cells that wait for its state are dropped; those that wait for an output leave. False:
    /// there was none.
    pub fn disconnect(&mut self, port: Port, label: CircuitId) -> bool {
        let Some(number) = self.table.remove(port, label) else { return false };
        self.cache.forget(number);
        // Another connection may have the label before the next slot.
        self.framers[port.index()].drop_label(label);
        for _ in 0..self.missing.len() {
            let Some((at, connection, place)) = self.missing.pop_front() else { break };
            if connection == number {
                self.store.free_unwanted(place);
                self.framers[at.index()].counters.drop_one(DropReason::Closed);
            } else {
                self.missing.push_back((at, connection, place));
            }
        }
        true
    }

    /// Drops cells that wait to leave by `port` under a label: they are of a connection that is gone, and the label may be another's.
    pub(crate) fn drop_waiting(&mut self, port: Port, label: CircuitId) {
        self.dispatcher.drop_label(port, label, &mut self.store);
    }

    /// What a label leads to, and how many cells have come under it.
    pub fn connection(&self, port: Port, label: CircuitId) -> Option<(Connection, u64)> {
        let number = self.table.find(port, label)?;
        Some((self.table.get(number)?, self.table.cells(number)?))
    }

    /// Cuts or gives power. A chip without power loses what it holds and what comes (counted as `link_down`), and its
    /// channels; its table survives, since whoever gives power loads it anew.
    pub fn set_power(&mut self, on: bool) {
        self.power = on;
        if on {
            return;
        }
        let former = self.lose_all();
        self.host = Host::new(&self.config, self.clock.slot());
        self.host.former = former;
    }

    fn lose_all(&mut self) -> Counters {
        self.framers.iter_mut().for_each(InputFramer::clear);
        while let Some((port, _, place)) = self.missing.pop_front() {
            self.store.free_unwanted(place);
            self.framers[port.index()].counters.drop_one(DropReason::LinkDown);
        }
        self.dispatcher.clear(&mut self.store);
        self.host.lose_all(DropReason::LinkDown)
    }

    /// Makes the part of its table that most labels have, rather than when the first one comes.
    pub(crate) fn touch(&mut self) {
        self.table.touch();
    }

    /// Whether it has power.
    pub fn has_power(&self) -> bool {
        self.power
    }

    /// Cells that may come at `port` now. A chip without power takes all.
    pub fn room(&self, port: Port) -> usize {
        if self.power { self.framers[port.index()].room() } else { usize::MAX }
    }

    /// A cell has come.
    pub fn handle_cell(&mut self, port: Port, cell: &Cell, now: Time) {
        self.take_cell(port, cell, now);
    }

    /// The same; true if nothing waited before: then the next slot may be another one.
    pub(crate) fn take_cell(&mut self, port: Port, cell: &Cell, now: Time) -> bool {
        let woken = self.wake(now);
        let framer = &mut self.framers[port.index()];
        framer.handle_cell(cell);
        if !self.power {
            framer.clear();
        }
        woken
    }

    /// The same from a link of octets, whose headers are checked and corrected.
    pub fn handle_octets(&mut self, port: Port, octets: &[u8; wire::cell::CELL_OCTETS], now: Time) {
        self.wake(now);
        let framer = &mut self.framers[port.index()];
        framer.handle_octets(octets);
        if !self.power {
            framer.clear();
        }
    }

    /// The next cell that has left by `port`.
    pub fn poll_cell(&mut self, port: Port) -> Option<Cell> {
        self.dispatcher.poll_cell(port)
    }

    /// The cell that [`Apic::poll_cell`] gives, where it is.
    pub(crate) fn first_left(&self, port: Port) -> Option<&Cell> {
        self.dispatcher.first_left(port)
    }

    /// The owner could not pass on a cell of [`Apic::poll_cell`].
    pub fn count_lost(&mut self, port: Port, reason: DropReason) {
        self.dispatcher.count_lost(port, reason);
    }

    /// When the next slot begins; `None` while nothing waits.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.due(self.is_working())
    }

    fn due(&self, working: bool) -> Option<Time> {
        if !self.power {
            return None;
        }
        if working {
            return Some(self.clock.next());
        }
        let due = self.host.next_due().map(clock::time);
        [self.cache.poll_timeout(), due].into_iter().flatten().min()
    }

    /// One slot, if it has come. True: it had.
    pub fn handle_timeout(&mut self, now: Time, memory: &mut dyn HostMemory) -> bool {
        let working = self.is_working();
        if self.due(working).is_none_or(|at| at > now) {
            return false;
        }
        if !working {
            self.clock.wake(now);
        }
        let begins = self.clock.fractions();
        self.clock.advance();
        self.monitor.slots += 1;
        if let Some((channel, cell)) = self.dispatcher.run(&mut self.store)
            && let Err(reason) = self.host.receive(channel, &cell, now)
        {
            self.dispatcher.count_lost(Port::Memory, reason);
        }
        while let Some(connection) = self.cache.poll_arrived(now) {
            self.release(connection);
        }
        for port in Port::ALL {
            self.look_up(port, now);
        }
        if self.host.has_work(begins) {
            self.host.run(begins, now, memory);
            self.insert_own();
        }
        true
    }

    /// Grants an area of memory to an owner, or revokes it. A revoked area is out of reach at once, whatever is under
    /// way. False: the table of areas ends before.
    pub fn set_area(&mut self, number: u16, area: Option<Area>) -> bool {
        self.host.set_area(number, area)
    }

    /// Opens a channel.
    ///
    /// # Errors
    /// [`ChannelError`], and nothing has changed.
    pub fn open(&mut self, number: u16, channel: Channel) -> Result<(), ChannelError> {
        self.host.open(number, channel)
    }

    /// Closes a channel; what of it is under way is dropped ([`Apic::former_channels`]). False: it was not open.
    pub fn close(&mut self, number: u16) -> bool {
        self.host.close(number)
    }

    /// A process writes a register of a channel's page. The page is mapped to its owner alone; whatever is written
    /// there is about this channel.
    pub fn write_page(&mut self, channel: u16, register: u32, value: u32, now: Time) {
        self.wake(now);
        self.host.write_page(channel, register, value);
    }

    /// A process reads a register of a channel's page.
    pub fn read_page(&mut self, channel: u16, register: u32) -> u32 {
        self.host.read_page(channel, register)
    }

    /// What a channel has carried, and what it lost: cells, PDUs, or descriptors.
    pub fn channel(&self, number: u16) -> Option<&Counters> {
        self.host.channel(number).map(|state| &state.counters)
    }

    /// What channels have carried and lost that were closed, or lost with the power. PDUs that the chip had taken, and that
    /// were not over, are among the drops: `closed`, or `link_down` of power.
    pub fn former_channels(&self) -> &Counters {
        &self.host.former
    }

    /// Accesses to a channel's page that meant nothing.
    pub fn refused(&self, number: u16) -> Option<u64> {
        self.host.channel(number).map(|state| state.refused)
    }

    /// The oldest entry of the notification queue: a channel, and its events since its entry was last read
    /// ([`notify`]).
    pub fn read_notification(&mut self) -> Option<(u16, u8)> {
        self.host.notify.read()
    }

    /// The host has read the queue: what comes next interrupts again.
    pub fn arm_interrupt(&mut self) {
        self.host.notify.arm();
    }

    /// The interrupt pin.
    pub fn interrupt(&mut self, now: Time) -> bool {
        self.host.notify.pin(now)
    }

    /// When the pin may change without a slot.
    pub fn interrupt_timeout(&self) -> Option<Time> {
        self.host.notify.poll_timeout()
    }

    /// Cells that came in at a port, and what was dropped before its output was known.
    pub fn received(&self, port: Port) -> &Counters {
        &self.framers[port.index()].counters
    }

    /// Cells that left by a port, and what was dropped before that.
    pub fn sent(&self, port: Port) -> &Counters {
        self.dispatcher.counters(port)
    }

    /// Cells between input and look-up, and copies between look-up and output.
    pub fn held(&self) -> (usize, usize) {
        (self.framers.iter().map(InputFramer::len).sum::<usize>() + self.missing.len(), self.dispatcher.len())
    }

    /// See there.
    pub fn monitor(&self) -> Monitor {
        Monitor {
            hits: self.cache.hits,
            misses: self.cache.misses,
            transfers: self.host.hmi.transfers,
            transfer_octets: self.host.hmi.octets,
            interrupts: self.host.notify.interrupts,
            refused: self.host.refused,
            control_done: self.controllers.done,
            control_refused: self.controllers.refused,
            control_malformed: self.controllers.malformed,
            control_unanswered: self.controllers.unanswered,
            ..self.monitor
        }
    }

    /// A slot in nanoseconds.
    pub fn slot_nanos(&self) -> f64 {
        self.clock.slot_nanos()
    }

    fn is_working(&self) -> bool {
        self.dispatcher.len() > 0 || self.host.is_working() || self.framers.iter().any(|framer| framer.len() > 0)
    }

    /// A chip that had nothing to do begins its slots with what comes.
    /// True: it had nothing to do.
    fn wake(&mut self, now: Time) -> bool {
        let idle = !self.is_working();
        if idle {
            self.clock.wake(now);
        }
        idle
    }

    /// The first cell of an Input Framer goes into the Cell SRAM, or is dropped. What it meets on its way stays where it
    /// is: to move a connection about costs as much as the rest.
    fn look_up(&mut self, port: Port, now: Time) {
        let Apic { framers, table, store, cache, missing, dispatcher, monitor, .. } = self;
        let framer = &mut framers[port.index()];
        let Some(cell) = framer.first() else { return };
        let Some((number, connection, cells)) = table.at(port, cell.circuit()) else {
            return framer.drop_first(Some(DropReason::UnknownCircuit));
        };
        if !store.has_room(connection.low_latency) {
            return framer.drop_first(Some(DropReason::NoBuffer));
        }
        let found = cache.touch(number, now);
        if found == Found::Miss && missing.len() >= self.config.miss_cells {
            return framer.drop_first(Some(DropReason::QueueFull));
        }
        let Some(place) = store.put(cell) else { return framer.drop_first(Some(DropReason::NoBuffer)) };
        framer.drop_first(None);
        *cells += 1;
        monitor.most_stored = monitor.most_stored.max(store.used());
        if found == Found::Miss {
            return missing.push_back((port, number, place));
        }
        let controller = queue(dispatcher, store, monitor, place, connection);
        self.queued(place, controller);
    }

    /// The state of a connection has come: its cells go on, in their order.
    fn release(&mut self, number: u32) {
        let Some(connection) = self.table.get(number) else { return };
        for _ in 0..self.missing.len() {
            let Some((port, waiting, place)) = self.missing.pop_front() else { break };
            if waiting == number {
                self.dispatch(place, connection);
            } else {
                self.missing.push_back((port, waiting, place));
            }
        }
    }

    /// The Transmit Formatter puts one cell into the Cell SRAM. From here on it is as a transit cell.
    fn insert_own(&mut self) {
        for low_latency in [true, false] {
            let Some(connection) = self.host.peek_outgoing(low_latency) else { continue };
            if !self.store.has_room(connection.low_latency)
                || !self.dispatcher.takes_own(&connection, self.config.insert_below)
            {
                continue;
            }
            let Some(cell) = self.host.next_cell(low_latency) else { continue };
            self.monitor.made += 1;
            if let Some(place) = self.store.put(&cell) {
                self.dispatch(place, connection);
            }
            return;
        }
    }

    /// A stored cell goes to each output of its connection.
    fn dispatch(&mut self, place: u32, connection: Connection) {
        let controller = queue(&mut self.dispatcher, &mut self.store, &mut self.monitor, place, &connection);
        self.queued(place, controller);
    }

    /// A stored cell is in the queues of its outputs; a controller may be one of them.
    fn queued(&mut self, place: u32, controller: Option<u8>) {
        let cell = controller.map(|controller| (controller, *self.store.cell(place)));
        // Without an output, or with all of them full, nobody wants the cell. A controller's place is free before the answer
        // takes one.
        self.store.free_unwanted(place);
        if let Some((controller, cell)) = cell {
            self.control(controller, &cell);
        }
    }
}

/// Queues a stored cell for each output of its connection. Returned: the controller that gets a copy.
fn queue(
    dispatcher: &mut Dispatcher,
    store: &mut Store,
    monitor: &mut Monitor,
    place: u32,
    connection: &Connection,
) -> Option<u8> {
    let (word, before) = (store.cell(place).header_word(), monitor.copies);
    for port in Port::ALL {
        let channel = if port == Port::Memory { connection.channel } else { None };
        let label = connection.outputs[port.index()];
        let Some(label) = label.or(channel.map(|_| CircuitId::default())) else { continue };
        monitor.copies += 1;
        let waiting = Waiting { place, word: label.key() << 4 | word & 0xf, channel };
        if dispatcher.push(port, connection.low_latency, waiting) {
            store.want(place);
        }
    }
    let outputs = monitor.copies.wrapping_sub(before);
    let ended = u64::from(outputs == 0 || connection.controller.is_some());
    monitor.ended += ended;
    monitor.copied += outputs + ended - 1;
    connection.controller
}
