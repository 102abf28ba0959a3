//! Circuits that are opened, closed, and given away: who has one, and which way.

use super::HostInterface;
use super::departing::PIECE;
use crate::channels::{Channel, EndpointId};
use crate::circuit::{Cut, Leaver, User};
use endpoint::{Aal, ChannelId, Direction, OpenOptions};
use rustix::fd::OwnedFd;
use std::sync::Arc;
use wire::{CircuitId, DropReason};

/// Why a circuit cannot be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The endpoint is gone.
    #[error("no such endpoint")]
    NoEndpoint,
    /// The description has no such circuit at this host.
    #[error("no circuit {0} ends at this host (add one: cellway circuit add)")]
    NoCircuit(CircuitId),
    /// One opener at a time.
    #[error("circuit {0} is open already, by endpoint {1}")]
    InUse(CircuitId, u64),
    /// Who holds cells back does not put PDUs of AAL3/4 together.
    #[error("circuit {0} has flow = \"credit\", which is for circuits of aal5 and aal0")]
    Credit(CircuitId),
    /// The channel is not open.
    #[error("no channel {0} is open on this endpoint")]
    NoChannel(u32),
    /// Bounded.
    #[error("an endpoint has 65536 channels at most")]
    TooManyChannels,
    /// It lends its memory.
    #[error(
        "an endpoint that lends its memory has one channel in its life, for sending by AAL5: open others on another endpoint"
    )]
    Lends,
    /// It lends before it opens anything, and where SDUs stay in its segment.
    #[error("memory is lent once, before a circuit is opened, and with the data path `shared` or `zero-copy`")]
    CannotLend,
    /// SDUs of the channel are not received whole.
    #[error("channel {0} does not receive SDUs of AAL5: it has nothing to borrow")]
    CannotBorrow(u32),
}

impl HostInterface {
    /// Opens a circuit on an endpoint, both ways.
    ///
    /// # Errors
    /// No such circuit or endpoint, or somebody else has it.
    pub fn open(&mut self, id: EndpointId, circuit: CircuitId, aal: Aal) -> Result<ChannelId, OpenError> {
        self.open_with(id, circuit, OpenOptions { aal, ..OpenOptions::default() })
    }

    /// Opens a circuit on an endpoint.
    ///
    /// # Errors
    /// No such circuit or endpoint, or somebody else has it that way.
    pub fn open_with(
        &mut self,
        id: EndpointId,
        circuit: CircuitId,
        options: OpenOptions,
    ) -> Result<ChannelId, OpenError> {
        let OpenOptions { aal, direction, reliable } = options;
        let endpoint = self.endpoints.find(id).ok_or(OpenError::NoEndpoint)?;
        let sends_only = direction == Direction::Send && aal == Aal::Aal5;
        if endpoint.lends.is_some() && (!sends_only || endpoint.has_opened()) {
            return Err(OpenError::Lends);
        }
        let c = self.circuits.get_mut(circuit.key()).ok_or(OpenError::NoCircuit(circuit))?;
        let user = match aal {
            Aal::Oam => c.oam,
            _ => c.sender.filter(|_| direction.sends()).or(c.receiver.filter(|_| direction.receives())),
        };
        if let Some(user) = user {
            return Err(OpenError::InUse(circuit, user.endpoint.0));
        }
        let lossless = c.credit.is_some();
        if lossless && aal == Aal::Aal34 {
            return Err(OpenError::Credit(circuit));
        }
        let opened = endpoint.channels.open(Channel { lossless, ..Channel::new(circuit, aal, direction) });
        let number = opened.ok_or(OpenError::TooManyChannels)?;
        if aal == Aal::Aal34 {
            c.open_aal34(direction.receives().then(|| endpoint.buffer_octets()));
        }
        let user = Some(User { endpoint: id, channel: number.0, aal, reliable });
        if aal == Aal::Oam {
            c.oam = user;
        } else {
            if direction.sends() {
                c.sender = user;
            }
            if direction.receives() {
                c.receiver = user;
            }
        }
        self.endpoints.review_pressed(id);
        Ok(number)
    }

    /// Closes a channel.
    ///
    /// # Errors
    /// It is not open.
    pub fn close(&mut self, id: EndpointId, channel: ChannelId) -> Result<(), OpenError> {
        let endpoint = self.endpoints.find(id).ok_or(OpenError::NoEndpoint)?;
        let open = *endpoint.channels.find(channel).ok_or(OpenError::NoChannel(channel.0))?;
        let (dropped, ends) = endpoint.close(channel, PIECE);
        if endpoint.has_given_up() {
            self.given_up.insert(id);
        }
        if let Some(circuit) = self.circuits.get_mut(open.circuit.key()) {
            circuit.sent.drop_n(DropReason::Closed, dropped);
            if ends {
                // Who opens the circuit next comes after the cell that ends the PDU.
                circuit.departing.push(Leaver { endpoint: id, place: Some(channel.place().into()) });
                endpoint.lingering.insert(open.circuit.key());
            }
            match open.aal {
                Aal::Oam => circuit.oam = None,
                Aal::Aal0 | Aal::Aal5 | Aal::Aal34 => {
                    if open.direction.receives() {
                        circuit.close_receiver(Some(endpoint));
                    }
                    if open.direction.sends() {
                        circuit.sender = None;
                    }
                }
            }
        }
        self.endpoints.review_pressed(id);
        Ok(())
    }

    /// Whether channels are open. A circuit that is removed ends its own.
    pub(crate) fn are_open(&mut self, id: EndpointId, channels: &[Option<ChannelId>]) -> Vec<bool> {
        let endpoint = self.endpoints.find(id);
        let find = |channel: ChannelId| endpoint.as_ref()?.channels.find(channel);
        let is_open = |channel: &Option<ChannelId>| channel.and_then(find).is_some();
        channels.iter().map(is_open).collect()
    }

    /// Takes a circuit's end for a side that has it directly: what still arrives on it is counted and dropped.
    pub(crate) fn claim(&mut self, circuit: CircuitId, cut: Arc<OwnedFd>) -> Result<EndpointId, OpenError> {
        let c = self.circuits.get_mut(circuit.key()).ok_or(OpenError::NoCircuit(circuit))?;
        if let Some(user) = c.sender.or(c.receiver) {
            return Err(OpenError::InUse(circuit, user.endpoint.0));
        }
        let id = EndpointId(self.next_id);
        self.next_id += 1;
        let user = Some(User { endpoint: id, channel: u32::MAX, aal: Aal::Aal5, reliable: false });
        (c.sender, c.receiver, c.direct) = (user, user, Cut::new(cut));
        self.claims.insert(id, circuit.key());
        Ok(id)
    }

    /// Ends a claim.
    pub(crate) fn release(&mut self, id: EndpointId) {
        let circuit = self.claims.remove(&id).and_then(|key| self.circuits.get_mut(key));
        // Another circuit may have its label meanwhile.
        let Some(circuit) = circuit.filter(|c| c.receiver.is_some_and(|u| u.endpoint == id)) else { return };
        circuit.close_receiver(None);
        circuit.sender = None;
        std::mem::take(&mut circuit.direct).forget();
    }
}
