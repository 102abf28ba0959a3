//! The sending half of the driver: writes become transfers, and the Segmenter's idle flag starts the next one.
//!
//! Among transfers that may start, a clocked frame goes before others, then the one whose delay ends first; a circuit's own
//! keep their order.

use super::cs::Layer;
use super::shared::Region;
use super::{BUFFER_OCTETS, Cards, File, IDLE, Overlap, Penn, PennError, Ticket, Variant, Written, sr};
use crate::FAILED;
use bus::memory::{CrossMemory, Descriptor, HostMemory, Reach};
use wire::{DropReason, Time};

/// In a cell header's word: the last cell of an AAL5 PDU.
const END: u32 = 1 << 1;

/// A transfer that waits for the Segmenter, or runs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Transfer {
    pub(super) ticket: u64,
    pub(super) address: u32,
    pub(super) octets: u32,
    /// Octets of it in transfers that are over.
    pub(super) done: u32,
    pub(super) vc: usize,
    pub(super) vci: u16,
    pub(super) mid: u16,
    pub(super) layer: Layer,
    /// The kernel buffer to give back; none, if it is the process's pages.
    pub(super) buffer: Option<usize>,
    /// What makes these the card's meanwhile, and where they are in the process.
    pub(super) x: Option<(Descriptor, u32)>,
    /// The region and slot to give back.
    pub(super) slot: Option<(Region, u32)>,
    /// It starts before this, or not at all.
    pub(super) deadline: Option<Time>,
    /// The clock sends it.
    pub(super) clocked: bool,
}

/// The piece of a transfer that the Segmenter has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    ticket: u64,
    octets: u32,
}

impl Piece {
    pub(super) const fn ticket(self) -> u64 {
        self.ticket
    }
}

impl Penn {
    /// Writes an SDU that lies at `address` of the process. With an adaptation layer it is copied into a kernel buffer,
    /// whatever the variant: a card streams one range, and a PDU is more than its SDU.
    ///
    /// # Errors
    /// No circuit, a length that is none, no memory there.
    pub fn write<M: CrossMemory>(
        &mut self,
        cards: &mut Cards<'_, M>,
        file: usize,
        address: u32,
        octets: usize,
        now: Time,
    ) -> Result<Written, PennError> {
        self.accesses.calls += 1;
        let File { vc, variant, .. } = *self.file(file)?;
        let number = vc.ok_or(PennError::File)?;
        let layer = self.layer(number)?;
        if octets == 0 || octets > BUFFER_OCTETS || layer.pdu_octets(octets) > BUFFER_OCTETS {
            return Err(PennError::Length(octets));
        }
        self.poll_segmenter(cards, now);
        if self.would_wait(file)? {
            return Ok(Written::Wait);
        }
        let mut transfer = self.transfer(file, now)?;
        match variant {
            Variant::User(policy) if layer == Layer::Bare => {
                let reach = Reach { device_writes: false, tagged: policy == Overlap::Fault };
                let x = cards.memory.attach(address, octets as u32, reach)?;
                (transfer.address, transfer.octets, transfer.x) = (x.bus, octets as u32, Some((x, address)));
            }
            _ => {
                let Some(free) = self.busy.iter().position(|busy| !busy) else { return Ok(Written::Wait) };
                let mut sdu = vec![0; octets];
                cards.memory.copy_in(address, &mut sdu)?;
                transfer.octets = self.compose(cards.memory, number, self.buffers[free], &sdu)?;
                (transfer.address, transfer.buffer) = (self.buffers[free], Some(free));
                self.busy[free] = true;
            }
        }
        self.transfers.push_back(transfer);
        self.poll_segmenter(cards, now);
        match variant {
            Variant::KernelIdle | Variant::User(Overlap::Block) => Ok(Written::Until(Ticket(transfer.ticket))),
            _ => Ok(Written::Done),
        }
    }

    /// Sends octets that lie in another card of the bus: the processor starts the transfer and touches none of them.
    ///
    /// # Errors
    /// No circuit, one whose PDUs the processor composes, a length that is none.
    pub fn write_from_card<M: CrossMemory>(
        &mut self,
        cards: &mut Cards<'_, M>,
        file: usize,
        address: u32,
        octets: u32,
        now: Time,
    ) -> Result<Written, PennError> {
        self.accesses.calls += 1;
        let number = self.file(file)?.vc.ok_or(PennError::File)?;
        if self.layer(number)? != Layer::Bare || octets == 0 || octets as usize > BUFFER_OCTETS {
            return Err(PennError::Length(octets as usize));
        }
        self.poll_segmenter(cards, now);
        // As many as there are kernel buffers: one that runs, one that is ready.
        if self.transfers.len() >= self.busy.len() {
            return Ok(Written::Wait);
        }
        let transfer = Transfer { address, octets, ..self.transfer(file, now)? };
        self.transfers.push_back(transfer);
        self.poll_segmenter(cards, now);
        Ok(Written::Until(Ticket(transfer.ticket)))
    }

    /// A transfer of no octets yet.
    fn transfer(&mut self, file: usize, now: Time) -> Result<Transfer, PennError> {
        let File { vc, mid, .. } = *self.file(file)?;
        let number = vc.ok_or(PennError::File)?;
        let layer = self.layer(number)?;
        let vc = self.vcs[number].as_ref().ok_or(PennError::File)?;
        self.ticket += 1;
        Ok(Transfer {
            ticket: self.ticket,
            address: 0,
            octets: 0,
            done: 0,
            vc: number,
            vci: vc.vci,
            mid,
            layer,
            buffer: None,
            x: None,
            slot: None,
            deadline: vc.pace.delay.map(|delay| now + delay),
            clocked: false,
        })
    }

    pub(super) fn layer(&self, number: usize) -> Result<Layer, PennError> {
        let vc = self.vcs.get(number).and_then(Option::as_ref).ok_or(PennError::File)?;
        Ok(Layer::of(vc.vci, vc.aal))
    }

    /// Puts a PDU of `sdu` into memory of the bus; gives its octets.
    fn compose(
        &mut self,
        memory: &mut impl HostMemory,
        number: usize,
        address: u32,
        sdu: &[u8],
    ) -> Result<u32, PennError> {
        let frame = self.frame(number, sdu)?;
        let at = u64::from(address);
        let behind = (frame.heads + sdu.len()) as u64;
        memory.copy_to(at, &frame.head[..frame.heads])?;
        memory.copy_to(at + frame.heads as u64, sdu)?;
        memory.copy_to(at + behind, &frame.tail[..frame.tails])?;
        Ok((frame.heads + sdu.len() + frame.tails) as u32)
    }

    pub(super) fn frame(&mut self, number: usize, sdu: &[u8]) -> Result<super::cs::Frame, PennError> {
        let layer = self.layer(number)?;
        let vc = self.vcs[number].as_mut().ok_or(PennError::File)?;
        vc.tag = vc.tag.wrapping_add(1);
        Ok(layer.frame(sdu, vc.tag))
    }

    /// Whether a write to `file` would find no kernel buffer, or the card in use, and take nothing. A circuit with a
    /// bandwidth has one kernel buffer at most, so that what waits for its share keeps nobody else waiting.
    ///
    /// # Errors
    /// No such file.
    pub fn would_wait(&mut self, file: usize) -> Result<bool, PennError> {
        let File { vc, variant, .. } = *self.file(file)?;
        let bare = vc.is_none_or(|n| self.layer(n) == Ok(Layer::Bare));
        if bare && matches!(variant, Variant::User(_)) {
            return Ok(!self.transfers.is_empty());
        }
        let paced = vc.and_then(|n| self.vcs[n].as_ref()).is_some_and(|vc| vc.pace.bandwidth.is_some());
        let holds = || self.transfers.iter().any(|transfer| Some(transfer.vc) == vc && transfer.buffer.is_some());
        Ok(self.busy.iter().all(|busy| *busy) || paced && holds())
    }

    /// Whether a transfer is over.
    pub fn is_written(&self, ticket: Ticket) -> bool {
        ticket.0 <= self.ticket && self.transfers.iter().all(|transfer| transfer.ticket != ticket.0)
    }

    /// Whether a process that writes to `address` of its own has to wait: with [`Overlap::Fault`] its kernel asks this
    /// when a tagged page is written to.
    pub fn must_wait(&self, address: u32) -> bool {
        self.transfers.iter().any(|transfer| {
            let page = |address: u32| address / 4096;
            transfer.x.is_some_and(|(x, first)| {
                (page(first)..=page(first.saturating_add(x.octets - 1))).contains(&page(address))
            })
        })
    }

    /// Looks at the Segmenter's idle flag (Traw and Smith, 1993): a transfer that is over gives its buffer back, and the
    /// next one starts.
    pub(super) fn poll_segmenter<M: CrossMemory>(&mut self, cards: &mut Cards<'_, M>, now: Time) {
        let status = cards.segmenter.read(sr::STATUS);
        self.accesses.registers_read += 1;
        if status & IDLE == 0 {
            return;
        }
        if let Some(piece) = self.running.take() {
            self.finish(piece, status & FAILED != 0, cards);
        }
        self.drop_late(cards, now);
        self.take_shared(cards, now);
        if let Some(number) = self.choose(now) {
            self.start(number, cards, now);
        }
    }

    fn finish<M: CrossMemory>(&mut self, piece: Piece, failed: bool, cards: &mut Cards<'_, M>) {
        self.statistics.failed += u64::from(failed);
        let Some(place) = self.transfers.iter().position(|transfer| transfer.ticket == piece.ticket) else { return };
        let transfer = &mut self.transfers[place];
        transfer.done += piece.octets;
        if failed || transfer.done >= transfer.octets {
            self.release(place, cards);
        }
    }

    /// Takes a transfer off the queue and gives back what it held.
    fn release<M: CrossMemory>(&mut self, place: usize, cards: &mut Cards<'_, M>) {
        let Some(over) = self.transfers.remove(place) else { return };
        if let Some(buffer) = over.buffer {
            self.busy[buffer] = false;
        }
        if let Some((x, _)) = over.x {
            cards.memory.detach(x);
        }
        if let Some((region, slot)) = over.slot {
            self.accesses.shared_written += u64::from(region.give_to_user(cards.memory, slot));
        }
    }

    /// What did not start within its circuit's delay does not start any more.
    fn drop_late<M: CrossMemory>(&mut self, cards: &mut Cards<'_, M>, now: Time) {
        let late = |t: &Transfer| t.done == 0 && t.deadline.is_some_and(|deadline| deadline < now);
        while let Some(place) = self.transfers.iter().position(late) {
            self.counters.drop_one(DropReason::Timeout);
            self.release(place, cards);
        }
    }

    /// Whether no earlier transfer is of the same circuit.
    fn is_first(&self, place: usize) -> bool {
        let vci = self.transfers[place].vci;
        self.transfers.iter().take(place).all(|earlier| earlier.vci != vci)
    }

    /// When a transfer may start.
    fn allowed(&self, transfer: &Transfer) -> Time {
        let vc = self.vcs[transfer.vc].as_ref().filter(|vc| vc.vci == transfer.vci);
        vc.filter(|vc| vc.pace.bandwidth.is_some()).map_or(Time::ZERO, |vc| vc.pace.next)
    }

    /// When the first transfer that waits for its circuit's share may start.
    pub(super) fn paced_due(&self) -> Option<Time> {
        self.running.is_none().then_some(())?;
        let first = (0..self.transfers.len()).filter(|place| self.is_first(*place));
        first.map(|place| self.allowed(&self.transfers[place])).min()
    }

    fn choose(&self, now: Time) -> Option<usize> {
        let may = |place: &usize| self.is_first(*place) && self.allowed(&self.transfers[*place]) <= now;
        (0..self.transfers.len()).filter(may).min_by_key(|place| {
            let transfer = &self.transfers[*place];
            (!transfer.clocked, transfer.deadline.unwrap_or(Time::MAX), *place)
        })
    }

    /// Gives the Segmenter a transfer, or the next piece of it.
    fn start<M>(&mut self, place: usize, cards: &mut Cards<'_, M>, now: Time) {
        let transfer = self.transfers[place];
        let late = self.resolution();
        let left = transfer.octets - transfer.done;
        let mut octets = left;
        if let Some(vc) = self.vcs[transfer.vc].as_mut().filter(|vc| vc.vci == transfer.vci) {
            if transfer.layer != Layer::Aal34 {
                octets = vc.pace.cut(left, transfer.layer.unit());
            }
            octets = last_cell_apart(transfer.layer, left, octets);
            vc.pace.started(octets.div_ceil(transfer.layer.unit()), now, late);
        } else {
            octets = last_cell_apart(transfer.layer, left, octets);
        }
        let end = transfer.layer == Layer::Aal5 && octets == left;
        let header = (u32::from(transfer.vci) << 4) | (u32::from(end) * END);
        for (register, value) in [(sr::HEADER, header), (sr::MID, transfer.mid.into())] {
            let loaded = &mut self.loaded[usize::from(register == sr::MID)];
            // What the register has is not written again.
            if loaded.replace(value) != Some(value) {
                self.accesses.registers_written += 1;
                cards.segmenter.write(register, value, now);
            }
        }
        for (register, value) in [(sr::SOURCE, transfer.address + transfer.done), (sr::LENGTH, octets), (sr::START, 1)]
        {
            self.accesses.registers_written += 1;
            cards.segmenter.write(register, value, now);
        }
        self.running = Some(Piece { ticket: transfer.ticket, octets });
    }

    /// Takes from regions what their processes have passed on: a slot of each that has nothing under way.
    fn take_shared<M: CrossMemory>(&mut self, cards: &mut Cards<'_, M>, now: Time) {
        for number in 0..self.files.len() {
            let Some(vc) = self.files[number].and_then(|file| file.vc) else { continue };
            if let Some(clocked) = self.offered(vc, now)
                && let Some(shared) = self.take_slot(cards.memory, vc, now)
                && let Ok(transfer) = self.transfer(number, now)
            {
                self.transfers.push_back(Transfer {
                    address: shared.address,
                    octets: shared.octets,
                    slot: Some((shared.region, shared.slot)),
                    clocked,
                    ..transfer
                });
            }
        }
    }
}

/// The end bit is a header's, and a transfer's cells have one header: an AAL5 PDU's last cell is a transfer of its own.
fn last_cell_apart(layer: Layer, left: u32, octets: u32) -> u32 {
    let unit = layer.unit();
    if layer == Layer::Aal5 && left > unit { octets.min(left - unit) } else { octets }
}
