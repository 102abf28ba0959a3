//! The cell switch as a state machine: cells come in at a port under one label and leave at others under other labels.
//!
//! In: cells and `now` ([`Switch::handle_cells`]), changes of the table ([`Switch::begin`], [`Switch::advance`]). Out:
//! cells ([`Switch::poll_transmit`], or at once into [`Outputs`]), a deadline ([`Switch::poll_timeout`]), counters. No
//! frames, no sockets, no links, no clock; nothing is allocated while cells pass. Standards: I.311 (VP and VC), I.610
//! (OAM), TM 4.0 (policing, discard). What happens to each cell, and in which order, is published in `docs/switch.md`.
//!
//! Inputs never wait: `handle_cells` is done with every cell it is given. What cannot leave at once is queued by
//! circuit, within the bounds of its circuit and port, or dropped and counted.
//!
//! ```
//! use switch::{Profile, Switch, SwitchConfig, Transaction};
//! use wire::{Cell, CellHeader, CircuitId, Label, Time};
//!
//! let mut switch = Switch::new(SwitchConfig { ports: 2, ..SwitchConfig::default() });
//! let circuit = |vpi, vci| CircuitId::new(vpi, vci).unwrap();
//! let mut change = Transaction::new();
//! change.add((0, Label::Vc(circuit(0, 100))), (1, Label::Vc(circuit(5, 42))), &Profile::default());
//! switch.apply(change).unwrap();
//!
//! let header = CellHeader { circuit: circuit(0, 100), ..CellHeader::default() };
//! // Without outputs (`&mut ()`) all cells are queued.
//! switch.handle_cells(0, &[Cell::new(header, [7; 48])], Time::ZERO, &mut ());
//! let mut out = [Cell::default(); 8];
//! assert_eq!(switch.poll_transmit(1, &mut out, Time::ZERO), 1);
//! assert_eq!(out[0].circuit(), circuit(5, 42));
//! assert_eq!(out[0].payload, [7; 48]);
//! ```
#![deny(unsafe_code)]

mod active;
mod alarms;
mod arrival;
mod bounds;
mod change;
mod circuit;
mod config;
mod contracts;
mod count;
pub mod credit;
mod credits;
mod discard;
mod forward;
mod frames;
mod index;
mod indication;
mod lookup_pipeline;
mod management;
pub mod oam;
mod place;
mod police;
mod policed;
mod policy;
mod port;
mod prefetch;
mod profile;
mod run;
mod shape;
mod single;
mod store;
mod sums;
mod table;
mod translate;
mod transmit;
mod whole;

pub use alarms::{Indication, SwitchEvent};
pub use arrival::Arrival;
pub use bounds::Room;
pub use change::{ChangeError, Failed, Progress, Transaction};
pub use config::SwitchConfig;
pub use count::{BranchInfo, CircuitCounters, RouteInfo};
pub use frames::{FrameExcess, FramePolice};
pub use police::{Bucket, Excess, Police};
pub use policy::Discard;
pub use port::PortCounters;
pub use profile::{Class, Flow, Profile};
pub use shape::{Shape, ShapeKind};
pub use sums::Sums;
pub use table::{Table, part};
pub use translate::NOWHERE;
pub use whole::Whole;

use active::Pool;
use alarms::Alarms;
use arrival::Batch;
use circuit::Circuit;
use contracts::Contracts;
use credits::Credits;
use index::Index;
use lookup_pipeline::LookupPipeline;
use port::Port;
use profile::Profiles;
use std::collections::BTreeMap;
use store::Store;
use wire::oam::Location;
use wire::{Cell, DropReason, Label, Time, Vci};

/// Where cells go that find nothing queued before them: the links' own memory.
///
/// Cells written here and cells of [`Switch::poll_transmit`] leave a port in the order of the calls.
pub trait Outputs {
    /// Free slots of a port's link, as many as are at hand; none if the link has no room.
    fn slots(&mut self, port: u16) -> &mut [Cell];

    /// The first `n` of [`Outputs::slots`] hold cells to be sent.
    fn commit(&mut self, port: u16, n: usize);

    /// [`Outputs::commit`] of cells of which `pdus` are the last of a PDU: a link that counts need not look at them.
    #[inline]
    fn commit_pdus(&mut self, port: u16, n: usize, pdus: u64) {
        let _ = pdus;
        self.commit(port, n);
    }
}

/// No outputs: all cells are queued.
impl Outputs for () {
    fn slots(&mut self, _port: u16) -> &mut [Cell] {
        &mut []
    }

    fn commit(&mut self, _port: u16, _n: usize) {}
}

/// The cell switch. See the head of the crate.
#[derive(Debug)]
pub struct Switch {
    config: SwitchConfig,
    index: Index,
    plane: CellPlane,
    /// Look-ups under way; not there only while a call works with it.
    ahead: Option<Box<LookupPipeline>>,
    changes: Option<Box<change::Pending>>,
    /// Which credit cell comes from which circuit: the labels of circuits with credits where they leave.
    leaving: Index,
    /// What the switch is called in OAM cells.
    location: Option<Location>,
    alarms: Alarms,
    /// The batch that is being handled is a frame.
    framed: bool,
    /// Remaining [`Switch::translate`] calls that prefetch circuit lines, because most cells of an earlier call needed them.
    by_lines: u8,
    /// Ports that there are to be.
    wanted_ports: u16,
}

/// All that cells touch beyond the label table.
#[derive(Debug)]
pub(crate) struct CellPlane {
    circuits: Table<Circuit>,
    max_circuits: usize,
    free_circuit: u32,
    in_use: usize,
    store: Store,
    ports: Table<Port>,
    /// Those whose link is or has been up, in ascending order: what is done for all ports is done for these.
    used_ports: Vec<u16>,
    /// How many circuits come in by each port and leave by it, where there are any.
    ends: BTreeMap<u16, u32>,
    profiles: Profiles,
    pool: Pool,
    credits: Credits,
    contracts: Contracts,
    /// When the cells of the batch that is being handled came in.
    batch: Batch,
    now: Time,
    /// Leaves of each point-to-multipoint circuit, in the order in which they were added.
    roots: Vec<Vec<u32>>,
    free_roots: Vec<u32>,
    /// By leaf that was added to others: cells of its route that came before it was added, and in the PDU in which it
    /// was.
    missed: BTreeMap<u32, u64>,
    epoch: u64,
    /// Cells of point-to-multipoint circuits for leaves beyond the first.
    copied: u64,
    /// What was counted at ports that are no more.
    gone: PortCounters,
}

/// The table's maximum.
fn max_circuits(circuits: u32) -> usize {
    circuits.min(index::MOST) as usize
}

impl Switch {
    /// A switch without circuits. All links are up; none carries credits.
    pub fn new(config: SwitchConfig) -> Self {
        let mut switch = Switch::without_links(config);
        (0..config.ports).for_each(|port| switch.set_up(port, true));
        switch
    }

    /// A switch without circuits. All links are down.
    pub fn without_links(config: SwitchConfig) -> Self {
        let config = SwitchConfig { circuits: max_circuits(config.circuits) as u32, ..config };
        let store = config.store_cells();
        let mut circuits = Vec::with_capacity(config.circuits as usize + 1);
        prefetch::large_pages(&mut circuits);
        // Number 0 is no circuit: what the label table says where it has no entry.
        circuits.push(Circuit::default());
        let plane = CellPlane {
            circuits: Table::from(circuits),
            max_circuits: max_circuits(config.circuits),
            free_circuit: circuit::NONE,
            in_use: 0,
            store: Store::new(store),
            ports: (0..config.ports).map(|_| Port::new(&config)).collect(),
            used_ports: Vec::new(),
            ends: BTreeMap::new(),
            profiles: Profiles::new(config.profiles),
            pool: Pool::new(config.waiting(), config.queues()),
            credits: Credits::new(config.credit_cells, config.incarnation),
            contracts: Contracts::new(config.ports.into()),
            batch: Batch::default(),
            now: Time::ZERO,
            roots: Vec::new(),
            free_roots: Vec::new(),
            missed: BTreeMap::new(),
            epoch: 0,
            copied: 0,
            gone: PortCounters::default(),
        };
        let ports = usize::from(config.ports);
        Switch {
            config,
            index: Index::with_outgoing(ports, config.index_pages as usize),
            leaving: Index::new(ports, config.index_pages.min(config.credit_cells.saturating_mul(3)) as usize),
            plane,
            ahead: Some(LookupPipeline::new()),
            changes: None,
            location: None,
            alarms: Alarms::default(),
            framed: false,
            by_lines: 0,
            wanted_ports: config.ports,
        }
    }

    /// Has the system back the first pages of its tables by memory, which whoever passes cells would wait for
    /// otherwise: room for at least 30 000 circuits, 2000 pages of the label table and 30 000 cells, in 2 to 4 MiB of
    /// each. More is backed when it is needed, 2 MiB at a time.
    pub fn touch(&mut self) {
        self.index.touch();
        self.plane.circuits.touch();
        self.plane.store.touch();
    }

    /// The bounds it was made with.
    pub fn config(&self) -> SwitchConfig {
        self.config
    }

    /// Names the switch in OAM cells: it answers loopback requests on end-to-end flows that ask for every point or for
    /// it.
    pub fn set_location(&mut self, location: Option<Location>) {
        self.location = location;
    }

    /// Says whether a port's link carries credits back: both its ends are Cellways, and it keeps the order of cells.
    /// Circuits with credits need it of the port they come in by and of the port they leave by.
    pub fn set_credit(&mut self, port: u16, credit: bool) {
        if let Some(port) = self.plane.ports.get_mut(usize::from(port)) {
            port.credit = credit;
        }
    }

    /// Says whether a port's link is up. While it is down, cells for it are dropped as `link_down`; what is queued, and
    /// circuits with credits, wait.
    pub fn set_up(&mut self, port: u16, up: bool) {
        if let Some(state) = self.plane.ports.get_mut(usize::from(port)) {
            state.set_up(up);
            if up {
                if let Err(at) = self.plane.used_ports.binary_search(&port) {
                    self.plane.used_ports.insert(at, port);
                }
            } else {
                self.drop_indications(port);
            }
        }
    }

    /// Drops cells of the switch's own, ends of PDUs and answers, that wait at a port under a label: the circuit that
    /// they are of is gone, and the label another's at the far end of the link.
    pub fn drop_own(&mut self, port: u16, label: Label) {
        let Some(port) = self.plane.ports.get_mut(usize::from(port)) else { return };
        let before = port.control.len();
        port.control.retain(|cell| !label.holds(cell.circuit()));
        port.counters.sent.drop_n(DropReason::Closed, (before - port.control.len()) as u64);
    }

    /// A channel of a path that comes in at `from` is another circuit's from now on: what waits of the one before
    /// leaves as unassigned cells (VCI 0, no payload), which nobody takes.
    pub fn blank_channel(&mut self, from: (u16, Label), vci: Vci) {
        let id = self.index.get(from.0.into(), from.1);
        let CellPlane { circuits, store, ports, .. } = &mut self.plane;
        let circuit = &mut circuits[id as usize];
        if id == 0 || circuit.is(circuit::flag::ROOT) {
            return;
        }
        let mut at = circuit.head;
        for _ in 0..circuit.queued {
            let (cell, next) = store.get(at);
            if cell.circuit().vci == vci {
                let was_management = circuit.is_management(cell.header_word());
                store.blank(at);
                // A cell of an F4 flow leaves as one of data; circuits with credits do not tell them apart.
                let is_management = circuit.is_management(store.get(at).0.header_word());
                if was_management && !is_management && !circuit.is(circuit::flag::CREDIT) {
                    let port = &mut ports[usize::from(circuit.port)];
                    port.management.leave(circuit);
                    port.used += 1;
                }
            }
            at = next;
        }
    }

    /// Whether [`Switch::poll_transmit`] has cells for this port.
    pub fn has_output(&self, port: u16) -> bool {
        self.plane.ports.get(usize::from(port)).is_some_and(Port::has_output)
    }

    /// When [`Switch::handle_timeout`] wants to be called, if no cell comes before.
    pub fn poll_timeout(&self) -> Option<Time> {
        let of_plane = [self.plane.credits.poll_timeout(), self.plane.contracts.poll_timeout()];
        of_plane.into_iter().chain([self.alarms.poll_timeout()]).flatten().min()
    }

    /// Lets timers fire that are due.
    pub fn handle_timeout(&mut self, now: Time) {
        self.plane.release_due(now);
        self.plane.handle_credit_timers(now);
        self.handle_alarm_timers(now);
    }
}
