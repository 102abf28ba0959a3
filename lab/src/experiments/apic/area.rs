//! Desks of chips in virtual time, a device at each port: cells at their times, and what comes.

use apic::Config;
use apic::desk::Shape;
use apic::desk::{Desk, Layout};
use core::time::Duration;
use net::{End, FramePool, Label, LinkConfig, Network, Node, NodeId, NodeIo, RouteOptions, RouteTable};
use std::any::Any;
use std::collections::VecDeque;
use traffic::{Category, Contract};
use wire::{Cell, CellHeader, CellRate, CircuitId, Time};

/// A device: sends cells at their times and notes what came, by VCI: number, and when.
#[derive(Default)]
struct Device {
    to_send: VecDeque<(Time, Cell)>,
    got: Vec<(u16, u32, Time)>,
}

impl Node for Device {
    fn run(&mut self, io: &mut NodeIo<'_>, now: Time) -> bool {
        let cells = io.cells_in(0);
        let came = cells.len();
        let number = |cell: &Cell| cell.payload.iter().take(4).fold(0, |sum, octet| sum << 8 | u32::from(*octet));
        self.got.extend(cells.iter().map(|cell| (cell.circuit().vci.get(), number(cell), now)));
        io.consume(0, came);
        let due = self.to_send.iter().take_while(|(at, _)| *at <= now).count();
        let sent = self.to_send.iter().take(due).take_while(|(_, cell)| io.put_cell(0, cell)).count();
        self.to_send.drain(..sent);
        came + sent > 0
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.to_send.front().map(|(at, _)| *at)
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// See the module's head.
pub(super) struct Area {
    network: Network,
    desk: NodeId,
    devices: Vec<NodeId>,
    now: Time,
}

impl Area {
    /// Chips of one kind in a shape.
    pub(super) fn new(shape: Shape, chips: usize, chip: Config) -> Option<Self> {
        let layout = Layout { shape, chips, chip, ..Layout::default() };
        let mut network = Network::new(FramePool::new(1, 64));
        let ports = layout.ports();
        let desk = network.add_node("desk", Box::new(Desk::new(layout).ok()?));
        let mut devices = Vec::new();
        for port in 0..ports {
            let device = network.add_node(&format!("device{port}"), Box::<Device>::default());
            network.connect(End::Port(device, 0), End::Port(desk, port as u16), LinkConfig::default()).ok()?;
            devices.push(device);
        }
        Some(Area { network, desk, devices, now: Time::ZERO })
    }

    pub(super) fn desk(&mut self) -> Option<&mut Desk> {
        self.network.node_mut(self.desk)
    }

    /// A circuit from one port to others, under one VCI at all of them.
    pub(super) fn connect(&mut self, vci: u16, from: usize, to: &[usize], low_latency: bool) -> Option<()> {
        let contract = Contract {
            category: if low_latency { Category::Cbr } else { Category::Ubr },
            pcr: CellRate::from_cells_per_s(1000.0),
            low_latency,
            ..Contract::default()
        };
        let label = Label::Vc(CircuitId::new(0, vci)?);
        for port in to {
            let options = RouteOptions { contract, ..RouteOptions::default() };
            self.desk()?.add_route((from as u16, label), (*port as u16, label), options).ok()?;
        }
        Some(())
    }

    /// Cells to be sent, one after each interval.
    pub(super) fn send(&mut self, vci: u16, from: usize, cells: u32, interval: Duration) -> Option<()> {
        let (begin, device) = (self.now, self.devices[from]);
        let circuit = CircuitId::new(0, vci)?;
        let device: &mut Device = self.network.node_mut(device)?;
        for number in 0..cells {
            let mut cell = Cell::new(CellHeader { circuit, ..CellHeader::default() }, [0x5a; 48]);
            cell.payload[..4].copy_from_slice(&number.to_be_bytes());
            device.to_send.push_back((begin + interval * number, cell));
        }
        // Of several circuits of a device: in the order of their times.
        device.to_send.make_contiguous().sort_by_key(|(at, _)| *at);
        Some(())
    }

    /// Runs until nothing is left to do.
    pub(super) fn settle(&mut self) {
        loop {
            while self.network.run(self.now) {}
            match self.network.poll_timeout() {
                Some(next) => self.now = next.max(self.now),
                None => return,
            }
        }
    }

    /// What came at a port under a VCI: numbers and times.
    pub(super) fn got(&mut self, port: usize, vci: u16) -> Vec<(u32, Time)> {
        let device: Option<&mut Device> = self.network.peek_node(self.devices[port]);
        let own = device.into_iter().flat_map(|device| device.got.iter().filter(|(own, ..)| *own == vci));
        own.map(|(_, number, at)| (*number, *at)).collect()
    }

    /// Whether so many cells came at a port, all of them in their order.
    pub(super) fn has_all(&mut self, port: usize, vci: u16, cells: u32) -> bool {
        self.got(port, vci).iter().map(|(number, _)| *number).eq(0..cells)
    }
}
