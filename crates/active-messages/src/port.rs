//! A node on a transport: the loop that gives each what the other has.

use crate::Error;
use crate::node::Node;
use crate::peer::{Config, PeerId};
use crate::transport::{Transport, TransportError};
use core::time::Duration;
use std::time::Instant;
use wire::Time;

/// Messages that are taken before what they made is sent.
const MOST_AT_ONCE: usize = 64;

/// A node and what carries its messages. Handlers run within [`Port::poll`] and [`Port::wait`], on the caller's thread.
#[derive(Debug)]
pub struct Port<S, T> {
    /// The node.
    pub node: Node<S>,
    /// Its circuits.
    pub transport: T,
    begun: Instant,
}

impl<S, T: Transport> Port<S, T> {
    /// A node with a peer for each circuit of the transport.
    pub fn new(transport: T, config: Config) -> Self {
        Port { node: Node::new(transport.peers(), config), transport, begun: Instant::now() }
    }

    /// The node's time.
    pub fn now(&self) -> Time {
        Time::from_nanos(u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Sends a request at once, as far as the circuit has room; handlers do not run.
    ///
    /// # Errors
    /// As [`Node::request`]; [`Error::Lost`] if the transport is of no use any more.
    #[inline]
    pub fn request(&mut self, peer: PeerId, handler: u8, words: &[u32], payload: &[u8]) -> Result<(), Error> {
        self.node.request(peer, handler, words, payload)?;
        let now = self.now();
        self.transmit_to(peer, now).map_err(|_| Error::Lost)?;
        self.transport.flush();
        Ok(())
    }

    /// The same, and while the peer grants nothing, handles what comes, for `patience` at most.
    ///
    /// # Errors
    /// As [`Port::request`]; [`Error::Busy`] after `patience`.
    pub fn request_within(
        &mut self,
        state: &mut S,
        peer: PeerId,
        handler: u8,
        (words, payload): (&[u32], &[u8]),
        patience: Duration,
    ) -> Result<(), Error> {
        let begin = Instant::now();
        loop {
            match self.request(peer, handler, words, payload) {
                Err(Error::Busy) if begin.elapsed() < patience => {}
                result => return result,
            }
            self.wait(state, Duration::from_millis(1)).map_err(|_| Error::Lost)?;
        }
    }

    /// Handles what has come, sends what that made and what is due; never waits. Gives whether something had come.
    ///
    /// # Errors
    /// The transport is of no use any more.
    #[inline]
    pub fn poll(&mut self, state: &mut S) -> Result<bool, TransportError> {
        let now = self.now();
        let mut any = false;
        for _ in 0..MOST_AT_ONCE {
            let node = &mut self.node;
            if !self.transport.receive(&mut |peer, octets| node.handle(peer, octets, state, now))? {
                break;
            }
            any = true;
        }
        if self.node.poll_timeout().is_some_and(|due| due <= now) {
            self.node.handle_timeout(now);
        }
        self.transmit(now)?;
        Ok(any)
    }

    /// The same, and where nothing has come, waits until something does, or `timeout` has passed.
    ///
    /// # Errors
    /// The transport is of no use any more.
    pub fn wait(&mut self, state: &mut S, timeout: Duration) -> Result<bool, TransportError> {
        if self.poll(state)? {
            return Ok(true);
        }
        let now = self.now();
        let due = self.node.poll_timeout().map_or(timeout, |due| timeout.min(due.since(now)));
        let node = &mut self.node;
        let begun = self.begun;
        let come = self.transport.wait(due, &mut |peer, octets| {
            let now = Time::from_nanos(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX));
            node.handle(peer, octets, state, now);
        })?;
        let now = self.now();
        self.node.handle_timeout(now);
        self.transmit(now)?;
        Ok(come)
    }

    /// Handles what comes until `done` says so; false, if `patience` passes first.
    ///
    /// # Errors
    /// The transport is of no use any more.
    pub fn wait_until(
        &mut self,
        state: &mut S,
        patience: Duration,
        mut done: impl FnMut(&mut S, &mut Node<S>) -> bool,
    ) -> Result<bool, TransportError> {
        let begin = Instant::now();
        while !done(state, &mut self.node) {
            if begin.elapsed() >= patience {
                return Ok(false);
            }
            self.wait(state, Duration::from_millis(10))?;
        }
        Ok(true)
    }

    fn transmit(&mut self, now: Time) -> Result<(), TransportError> {
        for peer in self.node.peers() {
            self.transmit_to(peer, now)?;
        }
        self.transport.flush();
        Ok(())
    }

    #[inline]
    fn transmit_to(&mut self, peer: PeerId, now: Time) -> Result<(), TransportError> {
        while let Some(octets) = self.node.poll_transmit(peer, now) {
            if !self.transport.send(peer, octets)? {
                break;
            }
            self.node.sent(peer, now);
        }
        Ok(())
    }
}
