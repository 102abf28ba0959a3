//! SDUs that come in parcels: copied once, from their sender's memory to their receiver's.

use super::{Circuit, User};
use crate::attached::{Attached, Place};
use net::{Parcel, SduAt};
use sar::SduMeta;
use wire::DropReason;

impl Circuit {
    /// Delivers the SDUs of a parcel, or drops and counts them.
    pub(crate) fn receive_parcel(&mut self, user: User, endpoint: &mut Attached, parcel: &Parcel) {
        for sdu in parcel.sdus() {
            self.receive_sdu(user, endpoint, parcel, sdu);
        }
    }

    /// Delivers as many SDUs of a parcel as there is room for, one after another; how many.
    pub(crate) fn receive_what_fits_of_parcel(
        &mut self,
        user: User,
        endpoint: &mut Attached,
        parcel: &Parcel,
    ) -> usize {
        let sdus = parcel.sdus();
        for (n, sdu) in sdus.iter().enumerate() {
            if !endpoint.has_room() || !self.prepare_buffer(endpoint) {
                return n;
            }
            self.receive_sdu(user, endpoint, parcel, sdu);
        }
        sdus.len()
    }

    #[inline]
    fn receive_sdu(&mut self, user: User, endpoint: &mut Attached, parcel: &Parcel, sdu: &SduAt) {
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
        crate::sys::copy_shared(parcel.octets(sdu), memory);
        let meta = SduMeta { uu: sdu.uu, ..SduMeta::default() };
        let delivered = endpoint.deliver(user.channel, octets, meta, Place::Buffer(buffer));
        self.count(endpoint, delivered, octets);
    }
}
