//! SDUs that leave in parcels ([`net::parcel`]).

use super::{HostEndpoint, Life, Run};
use crate::outbound::MOST_CELLS;
use endpoint::DataPath;
use endpoint::layout::{Descriptor, INLINE_OCTETS};
use net::{NodeIo, Parcel, SduAt};
use wire::{CircuitId, aal5};

/// What a parcel may have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Cells that it must not exceed: the link's, the contract's, the credits', and what may be in parcels.
    pub(crate) cells: usize,
    /// SDUs.
    pub(crate) pdus: u32,
}

impl HostEndpoint {
    /// Whether SDUs stay in the segment until they have been read.
    pub(crate) fn sends_parcels(&self) -> bool {
        matches!(self.path.kind(), DataPath::Shared | DataPath::ZeroCopy)
    }

    /// Where the SDU of a descriptor is, if it can leave in a parcel: it is in the segment, too long for a cell, and
    /// has nothing that marks its cells. A copying path has to take it out of the application's hands first.
    pub(super) fn for_parcel(&self, d: &Descriptor) -> Option<SduAt> {
        let octets = d.head.octets as usize;
        let plain = !d.head.clp && !d.head.congestion && d.head.cpi == 0;
        if !self.sends_parcels() || !plain || octets <= INLINE_OCTETS || octets > self.geometry().buffer_octets as usize
        {
            return None;
        }
        let at = self.segment.buffer_at(d.head.buffer)?;
        Some(SduAt { at: u32::try_from(at).ok()?, octets: u16::try_from(octets).ok()?, uu: d.head.uu })
    }

    /// Takes back the slots and buffers of what has been read in parcels. True if there were any, or if more may leave.
    pub(crate) fn land(&mut self) -> bool {
        if !self.outbound.is_aboard() {
            return false;
        }
        let (freed, landed) = self.outbound.land(&mut self.send);
        if freed > 0 {
            self.strategy.note_freed();
        }
        freed > 0 || landed
    }

    /// A channel's oldest SDU, if that is one for a parcel.
    pub(crate) fn begins_parcel(&self, channel: u32) -> Option<SduAt> {
        if self.life == Life::Ending || self.outbound.is_leaving(channel) {
            return None;
        }
        self.for_parcel(self.outbound.first(channel)?)
    }

    /// Sends whole SDUs of a channel that is AAL5 on this circuit in a parcel, as many as there may be. `first`: what
    /// [`HostEndpoint::begins_parcel`] said.
    pub(crate) fn load_parcel(
        &mut self,
        (channel, first): (u32, SduAt),
        circuit: CircuitId,
        (io, port): (&mut NodeIo<'_>, usize),
        bounds: Bounds,
    ) -> Run {
        let mut run = Run::default();
        let memory = self.outbound.memory(&self.segment, self.lends.as_ref());
        let mut parcel: Option<Parcel> = None;
        let (mut before, mut first) = (None, Some(first));
        while run.pdus < bounds.pdus
            && let Some((at, d)) = self.outbound.follow(channel, before)
            && let Some(sdu) = first.take().or_else(|| self.for_parcel(d))
        {
            let cells = run.cells + aal5::cells(sdu.octets.into());
            if cells > bounds.cells || (run.pdus > 0 && cells > MOST_CELLS) || !self.sends_on(d, circuit) {
                break;
            }
            parcel.get_or_insert_with(|| io.new_parcel(circuit, memory.clone())).push(sdu);
            run = Run { cells, pdus: run.pdus + 1, octets: run.octets + u64::from(sdu.octets) };
            before = Some(at);
        }
        let Some(parcel) = parcel else {
            self.outbound.keep(memory);
            return run;
        };
        if let Err(parcel) = io.put_parcel(port, parcel) {
            io.recycle(parcel);
            self.outbound.keep(memory);
            return Run::default();
        }
        self.outbound.load(channel, memory, (run.pdus, run.cells));
        self.path.note_fetched(run.octets as usize);
        self.strategy.note_loaded(run.pdus);
        run
    }
}
