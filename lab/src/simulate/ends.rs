//! Applications at the ends of circuits: endpoints of real host interfaces, whose SDUs say when they were sent.

use control::config::Config;
use endpoint::layout::{Descriptor, Head};
use endpoint::segment::Segment;
use endpoint::{Aal, DataPath, Events, Geometry, Local};
use host::{EndpointId, HostEndpoint, HostInterface};
use net::topology::CircuitEnd;
use std::sync::Arc;
use wire::CircuitId;

/// Octets of an SDU that say which it is: its source's number, its own, both big-endian.
pub(super) const STAMP: usize = 16;
/// Buffers to send from, and as many to receive into.
const BUFFERS: u32 = 256;

/// An application at one end of a circuit.
pub(super) struct End {
    pub(super) end: CircuitEnd,
    local: Local,
    geometry: Geometry,
    id: EndpointId,
    /// `None` while the circuit is not there.
    channel: Option<u32>,
    idle: Vec<u32>,
    /// Descriptors whose buffers have come back.
    completed: u32,
    sdu: Vec<u8>,
}

impl End {
    /// Opens an end for SDUs of at most so many octets.
    pub(super) fn open(host: &mut HostInterface, end: &CircuitEnd, octets: usize) -> Result<Self, String> {
        let buffer_octets = (octets.next_multiple_of(64)).max(64) as u32;
        let geometry = Geometry {
            send_ring: BUFFERS,
            receive_ring: BUFFERS,
            free_ring: BUFFERS,
            buffers: 2 * BUFFERS,
            buffer_octets,
        };
        let segment = Arc::new(Segment::anonymous(geometry).map_err(|e| format!("memory: {e}"))?);
        let mut local = Local::new(&segment);
        for buffer in 0..BUFFERS {
            local.free.push(Head::of_buffer(buffer));
        }
        let attached = host.attach(HostEndpoint::new(segment, Events::Polling, DataPath::Shared, None));
        let id = attached.map_err(|e| format!("{end}: {e:?}: raise `max_endpoints` of the host"))?;
        let idle = (BUFFERS..2 * BUFFERS).collect();
        let sdu = vec![0; octets];
        let mut opened = End { end: end.clone(), local, geometry, id, channel: None, idle, completed: 0, sdu };
        opened.reopen(host);
        Ok(opened)
    }

    /// Whether SDUs of so many octets fit into its buffers.
    pub(super) fn takes(&self, octets: usize) -> bool {
        octets <= self.sdu.len()
    }

    /// Opens the circuit if it is there and is not open: it has been made, or made again.
    pub(super) fn reopen(&mut self, host: &mut HostInterface) {
        if let Ok(channel) = host.open(self.id, self.end.circuit, Aal::Aal5) {
            self.channel = Some(channel.0);
        }
    }

    /// Sends an SDU; false if no buffer is left, or the circuit is not there.
    pub(super) fn send(&mut self, source: u64, number: u64, octets: usize) -> bool {
        let consumed = self.local.send.consumed();
        while self.completed != consumed {
            let (_, buffer) = self.local.send.given_back(self.completed);
            self.completed = self.completed.wrapping_add(1);
            self.idle.push(buffer);
        }
        let Some((channel, buffer)) = self.channel.zip(self.idle.pop()) else { return false };
        let sdu = &mut self.sdu[..octets];
        sdu[..8].copy_from_slice(&source.to_be_bytes());
        sdu[8..STAMP].copy_from_slice(&number.to_be_bytes());
        let Some(place) = self.geometry.buffer_at(buffer) else { return false };
        self.local.segment.copy_in(place, sdu);
        let head = Head { channel, octets: octets as u32, ..Head::of_buffer(buffer) };
        let sent = self.local.send.push(head);
        if !sent {
            self.idle.push(buffer);
        }
        sent
    }

    /// The source and the number of the next SDU that has come.
    pub(super) fn receive(&mut self) -> Option<(u64, u64)> {
        let descriptor = self.local.receive.pop()?;
        let mut stamp = [0; STAMP];
        if descriptor.head.buffer == Descriptor::INLINE {
            stamp.copy_from_slice(descriptor.inline.get(..STAMP)?);
        } else {
            let place = self.geometry.buffer_at(descriptor.head.buffer)?;
            self.local.segment.copy_out(place, &mut stamp);
            self.local.free.push(Head::of_buffer(descriptor.head.buffer));
        }
        let [source, number] = [&stamp[..8], &stamp[8..]]
            .map(|octets| octets.iter().fold(0, |number: u64, octet| number << 8 | u64::from(*octet)));
        Some((source, number))
    }
}

/// The circuit of a description that has this end: its category, and its other ends.
pub(super) fn circuit_of(config: &Config, from: &CircuitEnd) -> Option<(String, Vec<CircuitEnd>, bool)> {
    let at = |end: &CircuitEnd| end.station == from.station && end.circuit == from.circuit && !end.path;
    let circuit = config.description.circuits.iter().find(|circuit| circuit.ends.iter().any(at))?;
    let others = circuit.ends.iter().filter(|end| !at(end)).cloned().collect();
    let sends = circuit.is_both_ways() || circuit.ends.first().is_some_and(at);
    let is_aal5 = circuit.aal == net::FrameAal::Aal5;
    Some((circuit.contract.category.name().to_owned(), others, sends && is_aal5))
}

/// A circuit's end as a scenario writes it.
pub(super) fn parse(text: &str) -> Result<CircuitEnd, String> {
    text.parse::<CircuitEnd>().map_err(|e| e.to_string())
}

/// Whether two are the same circuit at the same station.
pub(super) fn same(one: &CircuitEnd, station: &str, circuit: CircuitId) -> bool {
    one.station == station && one.circuit == circuit
}
