//! ttcp behind an adapter: the circuit's cells, as the daemon's host interface gives them, are the line of an adapter whose driver
//! guesses where the data are wanted and maps pages. The adapter, its driver and its host's memory are models in this process.

use super::PORT;
use crate::results::ttcp::TtcpAdapter;
use anyhow::{Result, bail};
use bus::crossings::Crosser;
use bus::sockets::Whose;
use endpoint::Endpoint;
use lab::receiver::{Kind, Receiver};
use remap::layers::{Flow, UDP};
use std::time::{Duration, Instant};
use wire::{Cell, CircuitId, Time};

/// Cells that are taken from the endpoint at once.
const BATCH: usize = 256;

/// Adapters with a known prediction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Model {
    /// The ENI155P stores PDUs: the interrupt handler reads their headers
    Eni155p,
    /// A just-in-time adapter stores nothing: a circuit's last PDUs predict the destination of the next one's data
    Jit,
}

/// An adapter with its host, on a circuit.
#[derive(Debug)]
pub(super) struct Attached {
    model: Model,
    receiver: Receiver,
    circuit: CircuitId,
    cells: Vec<Cell>,
    began: Instant,
}

impl Attached {
    /// On `circuit`, which carries SDUs alone or, with `udp`, datagrams to ttcp's port.
    pub(super) fn new(model: Model, circuit: CircuitId, udp: bool) -> Result<Self> {
        let kind = match model {
            Model::Eni155p => Kind::Eni155p,
            Model::Jit => Kind::Jit,
        };
        let whose = match udp {
            true => Whose::Flow(Flow { protocol: UDP, port: PORT }),
            false => Whose::Circuit(circuit.vci.get().into()),
        };
        let receiver = Receiver::new(kind, circuit, whose)?;
        Ok(Attached { model, receiver, circuit, cells: Vec::with_capacity(BATCH), began: Instant::now() })
    }

    /// The next SDU that the application has read; `None`, if none is whole within `patience`.
    pub(super) fn receive(&mut self, endpoint: &mut Endpoint, patience: Duration) -> Result<Option<Vec<u8>>> {
        let until = Instant::now() + patience;
        loop {
            if let Some(sdu) = self.receiver.poll_read() {
                return Ok(Some(sdu));
            }
            let left = until.saturating_duration_since(Instant::now());
            self.cells.clear();
            match endpoint.receive(Some(left))? {
                Some(message) => self.take(&message)?,
                None => return Ok(None),
            }
            while self.cells.len() < BATCH
                && let Some(message) = endpoint.try_receive()
            {
                self.take(&message)?;
            }
            let now = Time::ZERO + self.began.elapsed();
            self.receiver.handle_cells(&self.cells, now);
            if left.is_zero() {
                return Ok(self.receiver.poll_read());
            }
        }
    }

    fn take(&mut self, message: &[u8]) -> Result<()> {
        let Some(cell) = sar::aal0::to_cell(message, self.circuit) else {
            bail!("the host interface gave {} octets as a cell", message.len());
        };
        self.cells.push(cell);
        Ok(())
    }

    /// What it took, for so many octets that arrived.
    pub(super) fn done(&mut self, octets: u64) -> TtcpAdapter {
        let counts = self.receiver.counts();
        let by = |crosser| counts.crossings.read(crosser) + counts.crossings.written(crosser);
        let name = match self.model {
            Model::Eni155p => "eni155p",
            Model::Jit => "jit",
        };
        TtcpAdapter {
            name: name.to_owned(),
            pdus_predicted: counts.predicted,
            pdus_mispredicted: counts.mispredicted,
            pdus_unclaimed: counts.unclaimed,
            pdus_dropped: counts.lost,
            trailers_repaired: counts.repaired,
            strategies_changed: counts.strategies,
            pages_mapped: counts.pages_mapped,
            octets_copied: counts.octets_copied,
            octets_by_device: by(Crosser::Dma),
            octets_by_copy: by(Crosser::Copy),
            octets_by_application: by(Crosser::Application),
            crossings: counts.crossings.per_octet(octets),
        }
    }
}
