//! What applications ask so that SDUs are read where their senders have them.

use crate::channels::EndpointId;
use crate::interface::{HostInterface, OpenError};
use crate::lent::Lent;
use endpoint::{Aal, ChannelId};
use std::sync::Arc;

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

    /// Lenders have ended: what of their memory is out is theirs again.
    pub fn forget_ended_loans(&mut self) {
        self.endpoints.forget_ended_loans();
    }
}
