//! A node's messages on circuits: an endpoint's, which pass the host interface, or direct ones.

use crate::peer::PeerId;
use core::time::Duration;
use endpoint::direct::Direct;
use endpoint::{ChannelId, Endpoint, SendError};

/// Why a transport is of no use any more.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// The service has gone, or the endpoint cannot be used.
    #[error(transparent)]
    Endpoint(#[from] endpoint::Error),
    /// A message cannot be sent as it is.
    #[error(transparent)]
    Send(#[from] SendError),
    /// The other side of a direct circuit has gone.
    #[error("the other side of direct circuit {0} has gone")]
    Gone(usize),
}

/// What carries a node's messages. Peers are its circuits, in their order.
pub trait Transport {
    /// How many circuits.
    fn peers(&self) -> usize;

    /// Sends octets; false, if there is no room at present.
    ///
    /// # Errors
    /// The transport is of no use any more.
    fn send(&mut self, peer: PeerId, octets: &[u8]) -> Result<bool, TransportError>;

    /// Lets go what was sent, where sending gathers.
    fn flush(&mut self) {}

    /// Gives `take` what has come, if something has.
    ///
    /// # Errors
    /// The transport is of no use any more.
    fn receive(&mut self, take: &mut dyn FnMut(PeerId, &[u8])) -> Result<bool, TransportError>;

    /// Waits until something has come, `timeout` at most.
    ///
    /// # Errors
    /// The transport is of no use any more.
    fn wait(&mut self, timeout: Duration, take: &mut dyn FnMut(PeerId, &[u8])) -> Result<bool, TransportError>;
}

/// Circuits of one endpoint.
#[derive(Debug)]
pub struct Circuits {
    /// The endpoint. Its buffers are to hold a message.
    pub endpoint: Endpoint,
    channels: Vec<ChannelId>,
}

impl Circuits {
    /// The endpoint and its channels: peer 0 is the first of them.
    pub fn new(endpoint: Endpoint, channels: Vec<ChannelId>) -> Self {
        Circuits { endpoint, channels }
    }
}

impl Transport for Circuits {
    fn peers(&self) -> usize {
        self.channels.len()
    }

    #[inline]
    fn send(&mut self, peer: PeerId, octets: &[u8]) -> Result<bool, TransportError> {
        let Some(channel) = self.channels.get(peer.0) else { return Ok(true) };
        match self.endpoint.send_copy(*channel, octets) {
            Ok(()) => Ok(true),
            Err(SendError::Full) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    #[inline]
    fn receive(&mut self, take: &mut dyn FnMut(PeerId, &[u8])) -> Result<bool, TransportError> {
        let Some(sdu) = self.endpoint.try_receive() else { return Ok(false) };
        let channel = sdu.channel();
        if let Some(peer) = self.channels.iter().position(|known| *known == channel) {
            take(PeerId(peer), &sdu);
        }
        Ok(true)
    }

    fn wait(&mut self, timeout: Duration, take: &mut dyn FnMut(PeerId, &[u8])) -> Result<bool, TransportError> {
        let Some(sdu) = self.endpoint.receive(Some(timeout))? else { return Ok(false) };
        let channel = sdu.channel();
        if let Some(peer) = self.channels.iter().position(|known| *known == channel) {
            take(PeerId(peer), &sdu);
        }
        Ok(true)
    }
}

/// Direct circuits, each to one other application.
#[derive(Debug)]
pub struct DirectCircuits {
    circuits: Vec<Direct>,
    /// Messages that lie in the sender's memory are copied here before anything of them is believed.
    copy: Vec<u8>,
    /// Where a wait begins: each circuit has its turn.
    turn: usize,
}

impl DirectCircuits {
    /// Peer 0 is the first of them.
    pub fn new(circuits: Vec<Direct>) -> Self {
        DirectCircuits { circuits, copy: Vec::new(), turn: 0 }
    }
}

/// Hands a message on from memory that nobody else writes.
#[inline]
fn hand_on(
    peer: usize,
    message: &endpoint::direct::Message<'_>,
    copy: &mut Vec<u8>,
    take: &mut dyn FnMut(PeerId, &[u8]),
) {
    if let Some(octets) = message.private() {
        return take(PeerId(peer), octets);
    }
    if copy.len() < message.len() {
        copy.resize(message.len(), 0);
    }
    let octets = message.copy_to(&mut copy[..message.len()]);
    take(PeerId(peer), &copy[..octets]);
}

impl Transport for DirectCircuits {
    fn peers(&self) -> usize {
        self.circuits.len()
    }

    #[inline]
    fn send(&mut self, peer: PeerId, octets: &[u8]) -> Result<bool, TransportError> {
        let Some(circuit) = self.circuits.get_mut(peer.0) else { return Ok(true) };
        match circuit.sender.send_copy(octets) {
            Ok(()) => Ok(true),
            Err(SendError::Full) => {
                circuit.sender.alive().map_err(|_| TransportError::Gone(peer.0))?;
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    #[inline]
    fn receive(&mut self, take: &mut dyn FnMut(PeerId, &[u8])) -> Result<bool, TransportError> {
        let mut any = false;
        for (n, circuit) in self.circuits.iter_mut().enumerate() {
            if let Some(message) = circuit.receiver.try_receive() {
                any = true;
                hand_on(n, &message, &mut self.copy, take);
            }
        }
        Ok(any)
    }

    /// One circuit is waited for; of several, each has its turn for a short time.
    fn wait(&mut self, timeout: Duration, take: &mut dyn FnMut(PeerId, &[u8])) -> Result<bool, TransportError> {
        const TURN: Duration = Duration::from_micros(50);
        if self.receive(take)? {
            return Ok(true);
        }
        let Some(count) = core::num::NonZeroUsize::new(self.circuits.len()) else { return Ok(false) };
        self.turn = (self.turn + 1) % count;
        let timeout = if count.get() == 1 { timeout } else { timeout.min(TURN) };
        let circuit = &mut self.circuits[self.turn];
        let message = circuit.receiver.receive(Some(timeout)).map_err(|_| TransportError::Gone(self.turn))?;
        let Some(message) = message else { return Ok(false) };
        hand_on(self.turn, &message, &mut self.copy, take);
        Ok(true)
    }
}
