//! AAL3/4 of one circuit (I.363.3): its sender's tags and numbers, and the PDUs that are arriving, told apart by MID.
//!
//! An application sends under MID 0. It receives under any: PDUs that come interleaved are put together beside each
//! other, [`MAX_OPEN`] at most, each in a buffer of its own, and delivered in the order of their ends. A PDU that the
//! descriptor holds needs no buffer. Cells that belong to no PDU are counted where PDUs are, by the same reasons.

use super::{Circuit, User};
use crate::host_endpoint::{Buffer, HostEndpoint, SduPlace};
use endpoint::layout::INLINE_OCTETS;
use sar::SduMeta;
use sar::aal34::{Event, MAX_SDU_OCTETS, Reassembler, ReassemblyConfig, Segmentation, Sender, Storage};
use wire::{Cell, CircuitId, DropReason, Time};

/// PDUs of one circuit that are open at once, at most.
const MAX_OPEN: usize = 16;
/// The MID that applications send under.
const MID: u16 = 0;

/// Where a PDU is put together.
#[derive(Debug, Clone, Copy, Default)]
enum Part {
    #[default]
    Nowhere,
    Small([u8; INLINE_OCTETS]),
    Buffer(Buffer),
}

/// A circuit's AAL3/4. Takes its memory when the circuit is opened with it, not later.
#[derive(Debug)]
pub(crate) struct Aal34 {
    sender: Sender,
    reassembler: Reassembler,
    parts: Box<[Part]>,
}

/// The parts as the reassembler writes them.
struct Parts<'a> {
    parts: &'a mut [Part],
    endpoint: &'a mut HostEndpoint,
}

impl Storage for Parts<'_> {
    fn reserve(&mut self, slot: usize, _mid: u16, octets: usize) -> bool {
        if octets <= INLINE_OCTETS {
            self.parts[slot] = Part::Small([0; INLINE_OCTETS]);
            return true;
        }
        let Some(buffer) = self.endpoint.take_buffer() else { return false };
        if octets > self.endpoint.memory(buffer).len() {
            self.endpoint.keep_buffer(buffer);
            return false;
        }
        self.parts[slot] = Part::Buffer(buffer);
        true
    }

    fn write(&mut self, slot: usize, at: usize, part: &[u8]) {
        match &mut self.parts[slot] {
            Part::Nowhere => {}
            Part::Small(octets) => octets[at..at + part.len()].copy_from_slice(part),
            Part::Buffer(buffer) => {
                if let Some(to) = self.endpoint.memory(*buffer).get(at..at + part.len()) {
                    crate::sys::copy_in(part, to);
                }
            }
        }
    }
}

impl Aal34 {
    fn new(circuit: CircuitId) -> Option<Box<Self>> {
        let sender = Sender::new(circuit, MID).ok()?;
        let parts = vec![Part::Nowhere; MAX_OPEN].into_boxed_slice();
        Some(Box::new(Aal34 { sender, reassembler: idle(), parts }))
    }

    fn give_back(part: Part, endpoint: &mut HostEndpoint) {
        if let Part::Buffer(buffer) = part {
            endpoint.keep_buffer(buffer);
        }
    }

    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.reassembler.poll_timeout()
    }
}

/// That of a circuit which nobody receives.
fn idle() -> Reassembler {
    Reassembler::new(ReassemblyConfig { max_open: MAX_OPEN, ..ReassemblyConfig::default() })
}

impl Circuit {
    /// Before an application sends AAL3/4 on it, or receives it into buffers of `receives` octets. Tags and numbers of
    /// the sender go on, and so do the PDUs of a receiver who has it already.
    pub(crate) fn open_aal34(&mut self, receives: Option<usize>) {
        let aal34 = match &mut self.aal34 {
            Some(aal34) => aal34,
            none => match Aal34::new(self.id) {
                Some(new) => none.insert(new),
                None => return,
            },
        };
        let Some(buffer_octets) = receives else { return };
        let max_sdu_octets = self.config.max_sdu_octets.min(MAX_SDU_OCTETS).min(buffer_octets);
        let timeout = self.config.reassembly_timeout.or(ReassemblyConfig::default().timeout);
        // The receiver before has given up what was arriving ([`Circuit::close_aal34`]).
        aal34.reassembler = Reassembler::new(ReassemblyConfig { max_open: MAX_OPEN, max_sdu_octets, timeout });
    }

    /// PDUs that are arriving.
    pub(crate) fn arriving_aal34(&self) -> u64 {
        let parts = self.aal34.iter().flat_map(|aal34| aal34.parts.iter());
        parts.filter(|part| !matches!(part, Part::Nowhere)).count() as u64
    }

    /// Buffers that they are put together in.
    pub(super) fn buffers_of_aal34(&self) -> u64 {
        let parts = self.aal34.iter().flat_map(|aal34| aal34.parts.iter());
        parts.filter(|part| matches!(part, Part::Buffer(_))).count() as u64
    }

    /// Gives up the PDUs that are arriving.
    pub(crate) fn close_aal34(&mut self, endpoint: Option<&mut HostEndpoint>) {
        let Some(aal34) = &mut self.aal34 else { return };
        aal34.reassembler = idle();
        let parts = aal34.parts.iter_mut().map(std::mem::take);
        match endpoint {
            Some(endpoint) => parts.for_each(|part| Aal34::give_back(part, endpoint)),
            None => parts.for_each(drop),
        }
    }

    /// Begins an SDU.
    pub(crate) fn begin_aal34(&mut self, octets: usize, meta: SduMeta) -> Option<Segmentation> {
        self.aal34.as_mut()?.sender.begin(octets, meta).ok()
    }

    /// Takes user cells of this circuit that came one after another.
    pub(crate) fn receive_aal34(&mut self, user: User, endpoint: &mut HostEndpoint, mut cells: &[Cell], now: Time) {
        while !cells.is_empty() {
            let Some(aal34) = &mut self.aal34 else {
                return self.received.drop_n(DropReason::WrongAal, cells.len() as u64);
            };
            let mut parts = Parts { parts: &mut aal34.parts, endpoint };
            let step = aal34.reassembler.push(cells, &mut parts, now);
            cells = &cells[step.cells_used..];
            if let Some(drops) = aal34.reassembler.take_cell_drops() {
                self.received.add_drops(&drops);
                endpoint.received.add(&drops);
            }
            match step.event {
                Event::NeedMore => {}
                Event::Failed { slot, reason, .. } => {
                    if let Some(slot) = slot {
                        Aal34::give_back(std::mem::take(&mut aal34.parts[slot]), endpoint);
                    }
                    self.refuse(endpoint, reason);
                }
                Event::Complete { slot, sdu_octets, meta, .. } => {
                    let part = std::mem::take(&mut aal34.parts[slot]);
                    if sdu_octets == 0 {
                        // An SDU has at least one octet here, whatever the layer below could carry.
                        Aal34::give_back(part, endpoint);
                        self.refuse(endpoint, DropReason::Malformed);
                        continue;
                    }
                    let delivered = match &part {
                        Part::Nowhere => Err(DropReason::NoBuffer),
                        Part::Small(sdu) => {
                            endpoint.deliver(user.channel, sdu_octets, meta, SduPlace::Inline(&sdu[..sdu_octets]))
                        }
                        Part::Buffer(buffer) => {
                            endpoint.deliver(user.channel, sdu_octets, meta, SduPlace::Buffer(*buffer))
                        }
                    };
                    self.count(endpoint, delivered, sdu_octets);
                }
            }
        }
    }

    /// Gives up the PDUs whose next cell is overdue.
    pub(crate) fn handle_timeout_aal34(&mut self, mut endpoint: Option<&mut HostEndpoint>, now: Time) {
        let Some(aal34) = &mut self.aal34 else { return };
        while let Some(Event::Failed { slot, reason, .. }) = aal34.reassembler.handle_timeout(now) {
            let part = slot.map(|slot| std::mem::take(&mut aal34.parts[slot])).unwrap_or_default();
            self.received.drop_one(reason);
            if let Some(endpoint) = &mut endpoint {
                Aal34::give_back(part, endpoint);
                endpoint.received.drop_one(reason);
            }
        }
    }
}
