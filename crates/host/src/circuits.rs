//! The circuits of a host, by VPI and VCI, and what can be asked of them without walking through all: which PDU is
//! given up next, and whether a path ends here.

use crate::alarms::Oam;
use crate::circuit::Circuit;
use crate::pages::Pages;
use net::{LabelChange, LabelChanges};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use wire::{CircuitId, DropReason, Label, Time};

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Circuits {
    map: Pages,
    /// Circuits in which a PDU waits for its next cell, one entry each at most, at its time-out or before.
    overdue: BinaryHeap<Reverse<(Time, u32)>>,
    /// How many circuits are on a path, by port and VPI.
    paths: BTreeMap<(u16, u16), u32>,
    /// Circuits looked at for their time-outs, ever.
    visits: u64,
    oam: Oam,
    label_changes: LabelChanges,
}

impl Circuits {
    #[inline]
    pub(crate) fn get(&self, key: u32) -> Option<&Circuit> {
        self.map.get(&key)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, key: u32) -> Option<&mut Circuit> {
        self.map.get_mut(&key)
    }

    /// The circuit of a label at a port; the same label at another port is none.
    #[inline]
    pub(crate) fn at(&mut self, id: CircuitId, port: u16) -> Result<&mut Circuit, DropReason> {
        match self.map.get_mut(&id.key()) {
            Some(circuit) if circuit.config.port == port => Ok(circuit),
            Some(_) => Err(DropReason::WrongPort),
            None => Err(DropReason::UnknownCircuit),
        }
    }

    /// Puts one in whose label is free.
    pub(crate) fn insert(&mut self, circuit: Circuit) {
        let (port, label) = (circuit.config.port, Label::Vc(circuit.id));
        self.label_changes.note(LabelChange::In(port, label));
        self.label_changes.note(LabelChange::Out(port, label));
        *self.paths.entry((port, circuit.id.vpi.get())).or_default() += 1;
        self.map.insert(circuit.id.key(), circuit);
    }

    /// For [`net::Node::poll_label_change`].
    pub(crate) fn poll_label_change(&mut self) -> Option<LabelChange> {
        self.label_changes.poll()
    }

    pub(crate) fn remove(&mut self, key: u32) -> Option<Circuit> {
        let circuit = self.map.remove(&key)?;
        self.oam.forget(circuit.points.is_some());
        let path = (circuit.config.port, circuit.id.vpi.get());
        if let Some(on_it) = self.paths.get_mut(&path) {
            *on_it -= 1;
            if *on_it == 0 {
                self.paths.remove(&path);
            }
        }
        Some(circuit)
    }

    /// Whether a circuit of this path ends at the port.
    pub(crate) fn has_path(&self, id: CircuitId, port: u16) -> bool {
        self.paths.contains_key(&(port, id.vpi.get()))
    }

    /// The circuits and their OAM, each for itself.
    pub(crate) fn parts(&mut self) -> (&mut Pages, &mut Oam) {
        (&mut self.map, &mut self.oam)
    }

    pub(crate) fn oam(&self) -> &Oam {
        &self.oam
    }

    pub(crate) fn oam_mut(&mut self) -> &mut Oam {
        &mut self.oam
    }

    /// The first circuit's key from `key` on.
    pub(crate) fn key_from(&self, key: u32) -> Option<u32> {
        self.map.key_from(key)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &Circuit> {
        self.map.values()
    }

    /// A circuit has taken cells: if a PDU of it has begun, its time is kept.
    #[inline]
    pub(crate) fn note_timeout(&mut self, key: u32) {
        let Some(circuit) = self.map.get_mut(&key) else { return };
        if !circuit.listed
            && let Some(time) = circuit.poll_timeout()
        {
            circuit.listed = true;
            self.overdue.push(Reverse((time, key)));
        }
    }

    /// When a PDU is given up next.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.overdue.peek().map(|Reverse((time, _))| *time)
    }

    /// The next circuit whose PDU is overdue, which [`Circuit::handle_timeout`] gives up, and
    /// [`Circuits::note_timeout`] keeps if there is another.
    pub(crate) fn pop_overdue(&mut self, now: Time) -> Option<u32> {
        self.settle();
        let Reverse((time, key)) = self.overdue.peek().copied()?;
        if time > now {
            return None;
        }
        self.overdue.pop();
        if let Some(circuit) = self.map.get_mut(&key) {
            circuit.listed = false;
        }
        Some(key)
    }

    /// Lets the first entry be right: those before it are of PDUs that have ended or gone on, or of circuits that are
    /// gone.
    pub(crate) fn settle(&mut self) {
        while let Some(Reverse((time, key))) = self.overdue.peek().copied() {
            self.visits += 1;
            let circuit = self.map.get_mut(&key).filter(|circuit| circuit.listed);
            let due = circuit.as_ref().and_then(|circuit| circuit.poll_timeout());
            if due == Some(time) {
                return;
            }
            self.overdue.pop();
            if let Some(circuit) = circuit {
                circuit.listed = due.is_some();
            }
            if let Some(due) = due {
                self.overdue.push(Reverse((due, key)));
            }
        }
    }

    /// Circuits looked at to be changed perhaps, ever.
    #[cfg(test)]
    pub(crate) fn visited(&self) -> usize {
        self.map.visited
    }

    /// Circuits looked at for their time-outs, ever.
    #[cfg(test)]
    pub(crate) fn visits(&self) -> u64 {
        self.visits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CircuitConfig, HostInterface};
    use endpoint::layout::Head;
    use net::{Carries, End, FramePool, LinkConfig, Network, Node};
    use sar::{SduMeta, Segmentation};
    use std::sync::Arc;
    use std::time::Duration;
    use wire::Cell;

    const IDLE: u16 = 20_000;
    const PATIENCE: Duration = Duration::from_millis(10);

    fn circuit(vci: u16) -> CircuitId {
        CircuitId::new(0, vci).unwrap()
    }

    fn open_host() -> HostInterface {
        let mut host = HostInterface::new(1);
        let segment = Arc::new(endpoint::segment::Segment::anonymous(endpoint::Geometry::default()).unwrap());
        let mut client = endpoint::Local::new(&segment);
        (0..8).for_each(|buffer| assert!(client.free.push(Head::of_buffer(buffer))));
        let attached = crate::HostEndpoint::new(segment, endpoint::Events::Interrupt, endpoint::DataPath::Shared, None);
        let id = host.attach(attached).unwrap();
        for vci in 0..=IDLE {
            let config = CircuitConfig { reassembly_timeout: Some(PATIENCE), ..CircuitConfig::default() };
            host.add_circuit(circuit(vci + 100), config);
        }
        for vci in [100, 101] {
            host.open(id, circuit(vci), endpoint::Aal::Aal5).unwrap();
        }
        host
    }

    /// The first cells of a PDU.
    fn begun(vci: u16) -> Vec<Cell> {
        let mut cells = vec![Cell::default(); 2];
        Segmentation::new(circuit(vci), 200, SduMeta::default()).unwrap().fill(&[7; 200], &mut cells);
        cells
    }

    #[test]
    fn idle_circuits_are_not_looked_at_and_the_one_that_is_overdue_is() {
        let mut network = Network::new(FramePool::new(4, 64));
        let host = network.add_node("host", Box::new(open_host()));
        let config = LinkConfig { carries: Carries::Cells, ..LinkConfig::default() };
        let link = network.connect(End::Port(host, 0), End::External, config).unwrap();
        let us = Time::from_micros;
        let give = |network: &mut Network, vci: u16, now: Time| {
            let put = |io: &mut net::NodeIo<'_>| begun(vci).iter().all(|cell| io.put_cell(0, cell));
            assert_eq!(network.external(link, now, put), Some(true));
        };
        give(&mut network, 100, us(1));
        let rounds = 500;
        for n in 0..rounds {
            give(&mut network, 101, us(n + 2));
            network.run(us(n + 2));
            assert!(network.poll_timeout().is_some());
        }
        let visits = network.peek_node::<HostInterface>(host).unwrap().circuits.visits();
        assert!(visits <= 4 * rounds, "{visits} looks at circuits in {rounds} rounds");
        // Each gives up its PDU when its own time has come, to the nanosecond.
        let first = us(1) + PATIENCE;
        let dropped = |network: &mut Network, vci: u16| {
            let host = network.peek_node::<HostInterface>(host).unwrap();
            host.circuit(circuit(vci)).unwrap().received.dropped(DropReason::Timeout)
        };
        // The first round saw the cells of 100 at two microseconds.
        network.run(first);
        assert_eq!(dropped(&mut network, 100), 0);
        network.run(us(2) + PATIENCE);
        assert_eq!((dropped(&mut network, 100), dropped(&mut network, 101)), (1, 0));
        network.run(us(rounds + 1) + PATIENCE);
        assert_eq!(dropped(&mut network, 101), 1);
        let host = network.peek_node::<HostInterface>(host).unwrap();
        assert_eq!((host.circuits.poll_timeout(), host.poll_timeout()), (None, None));
    }

    #[test]
    fn a_path_ends_where_a_circuit_of_it_does() {
        let mut host = HostInterface::new(1);
        for vci in [40, 41] {
            host.add_circuit(CircuitId::new(3, vci).unwrap(), CircuitConfig { port: 1, ..CircuitConfig::default() });
        }
        let path = CircuitId::new(3, 4).unwrap();
        assert!(host.circuits.has_path(path, 1) && !host.circuits.has_path(path, 0));
        host.remove_circuit(CircuitId::new(3, 40).unwrap());
        assert!(host.circuits.has_path(path, 1));
        host.remove_circuit(CircuitId::new(3, 41).unwrap());
        assert!(!host.circuits.has_path(path, 1));
    }
}
