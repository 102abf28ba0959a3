//! What a host does for applications that read SDUs where their senders have them: it takes back what they are done with.

use crate::attached::Attached;
use crate::channels::EndpointId;
use crate::events::machine::LINGER;
use crate::interface::{HostInterface, OpenError};
use crate::lent::Lent;
use endpoint::{Aal, ChannelId};
use std::sync::Arc;
use wire::Time;

/// Endpoints whose applications have borrowed something.
#[derive(Debug, Default)]
pub(crate) struct Lending {
    borrowers: Vec<EndpointId>,
    /// When one of them was last given something, or gave something back.
    progress: Time,
}

impl Lending {
    /// SDUs may have been lent to an endpoint's application just now.
    #[inline]
    pub(crate) fn note(&mut self, id: EndpointId, endpoint: &Attached, now: Time) {
        if endpoint.has_borrowed() {
            self.progress = now;
            if !self.borrowers.contains(&id) {
                self.borrowers.push(id);
            }
        }
    }

    pub(crate) fn rests(&self) -> bool {
        self.borrowers.is_empty()
    }

    /// Whether applications give back what they have: they are looked at without being asked to ring.
    pub(crate) fn gets_on(&self, now: Time) -> bool {
        !self.borrowers.is_empty() && now.since(self.progress) < LINGER
    }
}

impl HostInterface {
    /// Lets an endpoint's SDUs be read where they are, before it has opened a circuit.
    ///
    /// # Errors
    /// It is gone, has opened one, or its data path takes SDUs elsewhere.
    pub(crate) fn lend(&mut self, id: EndpointId, lent: Lent) -> Result<(), OpenError> {
        let endpoint = self.endpoints.find(id).ok_or(OpenError::NoEndpoint)?;
        if endpoint.has_opened() || endpoint.lends.is_some() || !endpoint.sends_parcels() {
            return Err(OpenError::CannotLend);
        }
        endpoint.lends = Some(Arc::new(lent));
        Ok(())
    }

    /// Whether an endpoint lends its memory.
    pub fn lends(&mut self, id: EndpointId) -> bool {
        self.endpoints.find(id).is_some_and(|endpoint| endpoint.lends.is_some())
    }

    /// Lets SDUs of a channel be delivered where their sender has them, if it lends its memory.
    ///
    /// # Errors
    /// It is not open, or does not receive by AAL5.
    pub fn borrow(&mut self, id: EndpointId, channel: ChannelId) -> Result<(), OpenError> {
        let endpoint = self.endpoints.find(id).ok_or(OpenError::NoEndpoint)?;
        let receives = endpoint.channels.find(channel).map(|open| open.aal == Aal::Aal5 && open.direction.receives());
        if receives == Some(false) {
            return Err(OpenError::CannotBorrow(channel.0));
        }
        if endpoint.borrow(channel) { Ok(()) } else { Err(OpenError::NoChannel(channel.0)) }
    }

    /// A descriptor of the memory of a region that a receiving endpoint was told of, and the sizes of its parts.
    pub fn borrowed(&mut self, id: EndpointId, region: u16) -> Option<(endpoint::Geometry, rustix::fd::OwnedFd)> {
        let lent = self.endpoints.find(id)?.borrowed(region)?;
        Some((lent.geometry, lent.memory()?))
    }

    /// Takes back what applications are done with. True if anything was.
    pub(crate) fn take_back_loans(&mut self, now: Time) -> bool {
        let mut back = false;
        let (endpoints, lending) = (&mut self.endpoints, &mut self.lending);
        lending.borrowers.retain(|id| {
            let Some(endpoint) = endpoints.find(*id) else { return false };
            back |= endpoint.forget_ended_loans() | endpoint.take_back_loans();
            endpoint.has_borrowed()
        });
        if back {
            lending.progress = now;
        }
        back
    }

    /// Lenders have ended: what of their memory is out is theirs again.
    pub fn forget_ended_loans(&mut self) {
        for id in &self.lending.borrowers {
            if let Some(endpoint) = self.endpoints.find(*id) {
                endpoint.forget_ended_loans();
            }
        }
    }

    /// Before a sleep: asks applications that have borrowed something to ring once they have given back some. False if there is none.
    pub(crate) fn ask_borrowers(&mut self) -> bool {
        for id in &self.lending.borrowers {
            if let Some(endpoint) = self.endpoints.find(*id) {
                endpoint.ask_for_catching_up();
            }
        }
        !self.lending.borrowers.is_empty()
    }
}
