//! SDUs that come in parcels: copied once, from their sender's memory to their receiver's.

use super::credit::Credit;
use super::{Circuit, User};
use crate::host_endpoint::{Buffer, HostEndpoint, Loan, SduPlace};
use net::{Parcel, SduAt};
use sar::SduMeta;
use std::sync::atomic::AtomicU8;
use wire::{DropReason, Time};

/// How far ahead of what is copied a parcel's SDUs are asked for.
const AHEAD_OCTETS: usize = 4096;
/// Asking costs more than waiting for shorter SDUs; within longer ones the processor looks ahead by itself.
const FETCHED: std::ops::RangeInclusive<usize> = 256..=AHEAD_OCTETS;

/// The octets that are to be asked for while SDU `n` of a parcel is copied.
fn ahead<'p>(parcel: &'p Parcel, sdus: &[SduAt], n: usize) -> &'p [AtomicU8] {
    let octets = sdus.get(n).map_or(0, |sdu| usize::from(sdu.octets));
    let far = if FETCHED.contains(&octets) { sdus.get(n + AHEAD_OCTETS / octets) } else { None };
    far.map_or(&[], |sdu| parcel.octets(sdu))
}

impl Circuit {
    /// Delivers the SDUs of a parcel, or drops and counts them.
    pub(crate) fn receive_parcel(&mut self, user: User, endpoint: &mut HostEndpoint, parcel: &Parcel) {
        let sdus = parcel.sdus();
        let mut loan = endpoint.begin_loan(user.channel, parcel);
        for (n, sdu) in sdus.iter().enumerate() {
            if !self.lend_sdu(user, endpoint, &mut loan, sdu) {
                self.receive_sdu(user, endpoint, parcel, sdu, ahead(parcel, sdus, n));
            }
        }
        endpoint.finish_loan(loan);
    }

    /// Delivers as many SDUs of a parcel as there is room for, one after another; how many.
    pub(crate) fn receive_what_fits_of_parcel(
        &mut self,
        user: User,
        endpoint: &mut HostEndpoint,
        parcel: &Parcel,
    ) -> usize {
        let sdus = parcel.sdus();
        let mut loan = endpoint.begin_loan(user.channel, parcel);
        let mut done = 0;
        for sdu in sdus {
            if !endpoint.has_room() {
                break;
            }
            if !self.lend_sdu(user, endpoint, &mut loan, sdu) {
                if !self.prepare_buffer(endpoint) {
                    break;
                }
                self.receive_sdu(user, endpoint, parcel, sdu, ahead(parcel, sdus, done));
            }
            done += 1;
        }
        endpoint.finish_loan(loan);
        done
    }

    /// Delivers an SDU where its sender has it. False if it is to be copied.
    #[inline]
    fn lend_sdu(&mut self, user: User, endpoint: &mut HostEndpoint, loan: &mut Option<Loan<'_>>, sdu: &SduAt) -> bool {
        let Some(loan) = loan else { return false };
        let octets = usize::from(sdu.octets);
        if octets > self.config.max_sdu_octets {
            return false;
        }
        let meta = SduMeta { uu: sdu.uu, ..SduMeta::default() };
        let Some(delivered) = endpoint.deliver_lent(user.channel, loan, sdu, meta) else { return false };
        self.count(endpoint, delivered, octets);
        true
    }

    /// The same on a circuit with credits, and keeps the others behind what is kept. The parcel comes back if all its
    /// SDUs are done with.
    pub(crate) fn receive_with_credit(
        &mut self,
        user: User,
        endpoint: &mut HostEndpoint,
        credit: &mut Credit,
        mut parcel: Parcel,
        now: Time,
    ) -> Option<Parcel> {
        let cells = parcel.cells();
        credit.receiver.received(cells as u32);
        if credit.kept() == 0 {
            let done = self.receive_what_fits_of_parcel(user, endpoint, &parcel);
            parcel.drop_first(done);
            credit.receiver.forwarded((cells - parcel.cells()) as u32);
        }
        if parcel.pdus() == 0 {
            return Some(parcel);
        }
        credit.parcels.keep(parcel, now);
        None
    }

    #[inline]
    fn receive_sdu(
        &mut self,
        user: User,
        endpoint: &mut HostEndpoint,
        parcel: &Parcel,
        sdu: &SduAt,
        ahead: &[AtomicU8],
    ) {
        // A buffer from before is still here if no PDU has come since.
        let Some(buffer) = self.buffer.take().or_else(|| endpoint.take_buffer()) else {
            return self.refuse(endpoint, DropReason::NoBuffer);
        };
        let octets = usize::from(sdu.octets);
        let memory = endpoint.memory(buffer);
        if octets > memory.len().min(self.config.max_sdu_octets) {
            endpoint.keep_buffer(buffer);
            return self.refuse(endpoint, DropReason::Oversize);
        }
        crate::sys::copy_shared_and_fetch(parcel.octets(sdu), memory, ahead);
        let meta = SduMeta { uu: sdu.uu, ..SduMeta::default() };
        let delivered = match buffer {
            Buffer::Segment(index) => endpoint.deliver_buffer(user.channel, octets, meta, index),
            buffer => endpoint.deliver(user.channel, octets, meta, SduPlace::Buffer(buffer)),
        };
        self.count(endpoint, delivered, octets);
    }
}
