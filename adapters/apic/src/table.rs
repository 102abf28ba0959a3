//! The Virtual Circuit Translation Table (VCXT): where a cell of each port, VPI and VCI goes.
//!
//! An entry has an output for each port that wants a copy: one is a transit or terminating connection, several are a
//! multipoint connection, and the port that the cell came in by is a loopback.

use super::Port;
use wire::CircuitId;

/// No connection.
const NONE: u32 = u32::MAX;

/// Where the cells of a connection go, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Connection {
    /// The label of the copy that leaves by each port, in the order of [`Port::ALL`].
    pub outputs: [Option<CircuitId>; 3],
    /// The channel that gets a copy, instead of a device at the third port.
    pub channel: Option<u16>,
    /// The controller that gets a copy: its cells read and write the chip's registers.
    pub controller: Option<u8>,
    /// Its cells take the bypass of each queue.
    pub low_latency: bool,
}

impl Connection {
    /// To one port, under a label.
    pub fn to(port: Port, label: CircuitId) -> Self {
        Connection::default().and(port, label)
    }

    /// To one port more.
    pub fn and(mut self, port: Port, label: CircuitId) -> Self {
        self.outputs[port.index()] = Some(label);
        self
    }

    /// To a channel: into memory.
    pub fn to_channel(channel: u16) -> Self {
        Connection::default().and_channel(channel)
    }

    /// To a channel as well.
    pub fn and_channel(mut self, channel: u16) -> Self {
        self.channel = Some(channel);
        self
    }

    /// To a controller of the chip: its cells are requests ([`super::Controller`]).
    pub fn to_controller(place: u8) -> Self {
        Connection { controller: Some(place), ..Connection::default() }
    }

    /// How many copies of a cell it makes, answers to requests apart.
    pub fn copies(&self) -> usize {
        let device = self.outputs[Port::Memory.index()].is_some() || self.channel.is_some();
        self.outputs[..2].iter().flatten().count() + usize::from(device)
    }

    /// As a low-latency connection.
    pub fn low_latency(mut self) -> Self {
        self.low_latency = true;
        self
    }
}

/// Why a connection cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ConnectionError {
    /// The label is beyond the table.
    #[error("no entry for {0}: the table's VPIs and VCIs end before")]
    Label(CircuitId),
    /// The label leads elsewhere already.
    #[error("{0} has a connection already")]
    InUse(CircuitId),
    /// The label leads nowhere.
    #[error("{0} has no connection")]
    Unknown(CircuitId),
    /// No entry is free.
    #[error("all {0} connections of the table are in use")]
    TableFull(usize),
    /// Low-latency connections stay on the chip, and one place must be left for the others.
    #[error("all places on the chip for low-latency connections are in use: at most {0}")]
    CacheFull(usize),
}

#[derive(Debug, Clone)]
struct Entry {
    connection: Connection,
    cells: u64,
}

/// See the module's head.
#[derive(Debug, Clone)]
pub(super) struct Table {
    /// By port and VPI: connections by VCI. A page exists when its first connection is made.
    pages: [Vec<Option<Box<[u32]>>>; 3],
    vcis: u32,
    entries: Vec<Option<Entry>>,
    free: Vec<u32>,
    /// The label that cells came under last at each port, and its connection: pages lie far apart, and cells of one circuit
    /// come in runs.
    recent: [(u32, u32); 3],
}

impl Table {
    pub(super) fn new(connections: usize, vpis: u16, vcis: u32) -> Self {
        let page = || vec![None; usize::from(vpis.clamp(1, 4096))];
        Table {
            pages: [page(), page(), page()],
            vcis: vcis.clamp(1, 65_536),
            entries: vec![None; connections],
            free: (0..connections as u32).rev().collect(),
            recent: [(0, NONE); 3],
        }
    }

    /// Makes the pages of VPI 0.
    pub(super) fn touch(&mut self) {
        for port in Port::ALL {
            let _ = self.place(port, CircuitId::default());
        }
    }

    fn place(&mut self, port: Port, label: CircuitId) -> Option<&mut u32> {
        let vcis = self.vcis as usize;
        let page = self.pages[port.index()].get_mut(usize::from(label.vpi.get()))?;
        page.get_or_insert_with(|| vec![NONE; vcis].into()).get_mut(usize::from(label.vci.get()))
    }

    /// The connection's number, as short as it lives.
    pub(super) fn add(&mut self, port: Port, label: CircuitId, connection: Connection) -> Result<u32, ConnectionError> {
        let known =
            usize::from(label.vpi.get()) < self.pages[port.index()].len() && u32::from(label.vci.get()) < self.vcis;
        if !known {
            return Err(ConnectionError::Label(label));
        }
        if self.find(port, label).is_some() {
            return Err(ConnectionError::InUse(label));
        }
        let number = self.free.pop().ok_or(ConnectionError::TableFull(self.entries.len()))?;
        self.entries[number as usize] = Some(Entry { connection, cells: 0 });
        if let Some(place) = self.place(port, label) {
            *place = number;
        }
        Ok(number)
    }

    pub(super) fn remove(&mut self, port: Port, label: CircuitId) -> Option<u32> {
        let number = self.find(port, label)?;
        *self.place(port, label)? = NONE;
        self.recent[port.index()] = (0, NONE);
        self.entries[number as usize] = None;
        self.free.push(number);
        Some(number)
    }

    pub(super) fn find(&self, port: Port, label: CircuitId) -> Option<u32> {
        let page = self.pages[port.index()].get(usize::from(label.vpi.get()))?.as_ref()?;
        page.get(usize::from(label.vci.get())).copied().filter(|number| *number != NONE)
    }

    pub(super) fn get(&self, number: u32) -> Option<Connection> {
        self.entries.get(number as usize)?.as_ref().map(|entry| entry.connection)
    }

    pub(super) fn set(&mut self, number: u32, connection: Connection) {
        if let Some(Some(entry)) = self.entries.get_mut(number as usize) {
            entry.connection = connection;
        }
    }

    /// A connection for a cell that has come: its number, what it is, and its cells so far.
    pub(super) fn at(&mut self, port: Port, label: CircuitId) -> Option<(u32, &Connection, &mut u64)> {
        let key = label.key();
        let number = match self.recent[port.index()] {
            (recent, number) if recent == key && number != NONE => number,
            _ => self.find(port, label)?,
        };
        self.recent[port.index()] = (key, number);
        let Entry { connection, cells } = self.entries.get_mut(number as usize)?.as_mut()?;
        Some((number, connection, cells))
    }

    /// Cells that a connection has had.
    pub(super) fn cells(&self, number: u32) -> Option<u64> {
        self.entries.get(number as usize)?.as_ref().map(|entry| entry.cells)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_finds_its_connection_whichever_came_before_and_none_after_it_ended() {
        let label = |vci| CircuitId::new(0, vci).unwrap();
        let mut table = Table::new(4, 1, 256);
        let (a, b) = (Connection::to(Port::Left, label(1)), Connection::to(Port::Right, label(2)));
        let first = table.add(Port::Left, label(40), a).unwrap();
        let second = table.add(Port::Left, label(41), b).unwrap();
        let at = |table: &mut Table, port, vci| {
            table.at(port, label(vci)).map(|(number, connection, cells)| {
                *cells += 1;
                (number, *connection)
            })
        };
        for _ in 0..2 {
            assert_eq!(at(&mut table, Port::Left, 40), Some((first, a)));
            assert_eq!(at(&mut table, Port::Left, 40), Some((first, a)));
            assert_eq!(at(&mut table, Port::Left, 41), Some((second, b)));
            assert_eq!(at(&mut table, Port::Right, 41), None);
            assert_eq!(at(&mut table, Port::Left, 0), None);
        }
        assert_eq!((table.cells(first), table.cells(second)), (Some(4), Some(2)));
        // The label of the last cell ends, and leads elsewhere after that.
        assert_eq!(table.remove(Port::Left, label(41)), Some(second));
        assert_eq!(at(&mut table, Port::Left, 41), None);
        assert_eq!(table.add(Port::Left, label(41), a), Ok(second));
        assert_eq!(at(&mut table, Port::Left, 41), Some((second, a)));
        table.set(second, b);
        assert_eq!(at(&mut table, Port::Left, 41), Some((second, b)));
    }
}
