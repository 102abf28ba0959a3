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
    pub fn lend(&mut self, id: EndpointId, lent: Lent) -> Result<(), OpenError> {
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
        if !endpoint.borrow(channel) {
            return Err(OpenError::NoChannel(channel.0));
        }
        self.endpoints.note_borrower(id);
        Ok(())
    }

    /// A descriptor of the memory of a region that a receiving endpoint was told of, and the sizes of its parts.
    pub fn borrowed(&mut self, id: EndpointId, region: u16) -> Option<(endpoint::Geometry, rustix::fd::OwnedFd)> {
        let lent = self.endpoints.find(id)?.borrowed(region)?;
        Some((lent.geometry, lent.memory()?))
    }

    /// Lenders may have ended: what of their memory is out is theirs again, and nobody keeps it.
    pub fn forget_ended_loans(&mut self) {
        self.endpoints.forget_ended_loans();
    }
}

#[cfg(test)]
mod rounds;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CircuitConfig, HostEndpoint};
    use endpoint::segment::Segment;
    use endpoint::{DataPath, Direction, Events, Geometry, OpenOptions};
    use wire::CircuitId;

    const CIRCUIT: u32 = 100;

    fn lent() -> Lent {
        Lent::of_nothing(Geometry::default())
    }

    fn host() -> HostInterface {
        let mut host = HostInterface::new(4);
        host.add_circuit(CircuitId::from_key(CIRCUIT), CircuitConfig::default());
        host
    }

    fn attach(host: &mut HostInterface, path: DataPath) -> EndpointId {
        let segment = Arc::new(Segment::anonymous(Geometry::default()).unwrap());
        host.attach(HostEndpoint::new(segment, Events::Interrupt, path, None)).unwrap()
    }

    #[test]
    fn memory_is_lent_once_before_a_circuit_is_open_and_where_it_leaves_in_place() {
        let mut host = host();
        let id = attach(&mut host, DataPath::Shared);
        assert!(!host.lends(id));
        host.lend(id, lent()).unwrap();
        assert!(host.lends(id));
        assert_eq!(host.lend(id, lent()), Err(OpenError::CannotLend));
        let late = attach(&mut host, DataPath::Shared);
        host.open(late, CircuitId::from_key(CIRCUIT), Aal::Aal5).unwrap();
        assert_eq!(host.lend(late, lent()), Err(OpenError::CannotLend));
        let copies = attach(&mut host, DataPath::Copying);
        assert_eq!(host.lend(copies, lent()), Err(OpenError::CannotLend));
    }

    #[test]
    fn a_channel_borrows_that_receives_by_aal5() {
        let mut host = host();
        let id = attach(&mut host, DataPath::Shared);
        assert_eq!(host.borrow(id, ChannelId(0)), Err(OpenError::NoChannel(0)));
        for (aal, direction) in
            [(Aal::Aal5, Direction::Send), (Aal::Aal0, Direction::Both), (Aal::Aal5, Direction::Both)]
        {
            let channel = host
                .open_with(id, CircuitId::from_key(CIRCUIT), OpenOptions { aal, direction, ..OpenOptions::default() })
                .unwrap();
            let borrows = host.borrow(id, channel);
            let may = aal == Aal::Aal5 && direction != Direction::Send;
            assert_eq!(
                borrows,
                if may { Ok(()) } else { Err(OpenError::CannotBorrow(channel.0)) },
                "{aal:?} {direction:?}"
            );
            host.close(id, channel).unwrap();
        }
    }
}
