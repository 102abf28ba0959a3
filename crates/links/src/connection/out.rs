//! What waits for a connection, and what the connection has taken and the peer's system has not acknowledged yet.
//!
//! In: messages, each with the PDUs (or cells) that it carries. Out: octets. When the connection ends, all messages
//! whose last octet was not acknowledged are lost: those that wait here, those that TLS keeps and those that the system
//! keeps.

use std::collections::VecDeque;

/// Octets that wait for the connection at most, beyond the message that goes over the mark.
const MARK: usize = 128 * 1024;
/// Messages that are remembered one by one until they are acknowledged; of more, several together.
const REMEMBERED: usize = 8192;
/// Remembered messages after which it is worth asking what has been acknowledged.
const WORTH_ASKING: usize = 1024;

#[derive(Debug, Clone, Copy)]
struct Message {
    /// Where it ends in the connection's octets.
    end: u64,
    units: u32,
}

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Out {
    octets: Vec<u8>,
    /// What of `octets` the connection has taken.
    sent: usize,
    /// Octets of the connection before `octets`.
    base: u64,
    messages: VecDeque<Message>,
    /// PDUs or cells that are remembered together.
    together: u32,
    /// The longest message.
    longest: usize,
}

impl Out {
    /// For messages of so many octets at most.
    pub(crate) fn new(longest: usize) -> Self {
        Out {
            octets: Vec::with_capacity(2 * (MARK + longest)),
            sent: 0,
            base: 0,
            messages: VecDeque::new(),
            together: 1,
            longest,
        }
    }

    /// Whether another message may be put in.
    pub(crate) fn has_room(&self) -> bool {
        self.octets.len() - self.sent < MARK
    }

    /// Puts in a message of several parts that carries `units` PDUs or cells.
    pub(crate) fn push(&mut self, parts: &[&[u8]], units: u32) {
        if self.octets.capacity() - self.octets.len() < self.longest {
            // Appending a message never allocates.
            self.octets.drain(..self.sent);
            self.base += self.sent as u64;
            self.sent = 0;
        }
        for part in parts {
            self.octets.extend_from_slice(part);
        }
        let end = self.base + self.octets.len() as u64;
        match self.messages.back_mut() {
            // Nobody asks for messages that carry nothing.
            Some(last) if units == 0 && last.units == 0 => last.end = end,
            Some(last) if self.together > 1 && last.units.saturating_add(units) <= self.together => {
                (last.end, last.units) = (end, last.units + units);
            }
            _ => self.messages.push_back(Message { end, units }),
        }
        if self.messages.len() > REMEMBERED {
            self.coarsen();
        }
    }

    /// Remembers twice as many together, which are lost if the last of them is.
    fn coarsen(&mut self) {
        let mut pairs = VecDeque::with_capacity(REMEMBERED + 1);
        while let Some(first) = self.messages.pop_front() {
            let second = self.messages.pop_front();
            pairs.push_back(
                second.map_or(first, |s| Message { end: s.end, units: s.units.saturating_add(first.units) }),
            );
        }
        self.messages = pairs;
        self.together = self.together.saturating_mul(2);
    }

    /// Octets for the connection.
    pub(crate) fn poll_transmit(&self) -> &[u8] {
        &self.octets[self.sent..]
    }

    /// The connection has taken the first `n` octets of [`Out::poll_transmit`].
    pub(crate) fn transmitted(&mut self, n: usize) {
        self.sent = (self.sent + n).min(self.octets.len());
        if self.sent == self.octets.len() {
            self.base += self.sent as u64;
            self.octets.clear();
            self.sent = 0;
        }
    }

    /// Octets that the connection has taken.
    pub(crate) fn taken(&self) -> u64 {
        self.base + self.sent as u64
    }

    /// Whether to ask for what has been acknowledged and say it by [`Out::acknowledge`].
    pub(crate) fn is_worth_asking(&self) -> bool {
        self.messages.len() >= WORTH_ASKING
    }

    /// The peer's system has so many of the connection's octets.
    pub(crate) fn acknowledge(&mut self, octets: u64) {
        while self.messages.front().is_some_and(|message| message.end <= octets) {
            self.messages.pop_front();
        }
        if self.messages.len() < REMEMBERED / 4 {
            self.together = 1;
        }
    }

    /// Whether the peer's system has every PDU or cell.
    pub(crate) fn is_acknowledged(&self) -> bool {
        self.messages.iter().all(|message| message.units == 0)
    }

    /// The connection has ended: gives how many PDUs or cells are lost, and begins anew.
    pub(crate) fn end(&mut self) -> u64 {
        let lost = self.messages.iter().map(|message| u64::from(message.units)).sum();
        self.octets.clear();
        self.messages.clear();
        (self.sent, self.base, self.together) = (0, 0, 1);
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_message_is_lost_until_its_last_octet_is_acknowledged() {
        let mut out = Out::new(100);
        out.push(&[b"head", b"first"], 1);
        out.push(&[b"text"], 0);
        out.push(&[b"second"], 1);
        assert_eq!(out.poll_transmit(), b"headfirsttextsecond");
        out.transmitted(12);
        assert_eq!(out.taken(), 12);
        out.acknowledge(8);
        out.transmitted(7);
        out.acknowledge(18);
        assert_eq!((out.poll_transmit().len(), out.end()), (0, 1));
        assert_eq!((out.taken(), out.end()), (0, 0));
    }

    proptest! {
        #[test]
        fn every_unit_is_acknowledged_or_lost(steps in proptest::collection::vec((0u8..4, 0usize..3000), 1..300)) {
            let mut out = Out::new(3000);
            let (mut put, mut seen, mut ends) = (Vec::new(), Vec::new(), Vec::new());
            let (mut acknowledged, mut capacity) = (0, None);
            for (what, n) in steps {
                match what {
                    0 | 1 if out.has_room() => {
                        let octets = vec![ends.len() as u8; n];
                        out.push(&[&octets], u32::from(n > 0));
                        put.extend(octets);
                        ends.push((put.len() as u64, u64::from(n > 0)));
                        prop_assert_eq!(*capacity.get_or_insert(out.octets.capacity()), out.octets.capacity());
                    }
                    2 => {
                        let n = n.min(out.poll_transmit().len());
                        seen.extend_from_slice(&out.poll_transmit()[..n]);
                        out.transmitted(n);
                        prop_assert_eq!(out.taken(), seen.len() as u64);
                    }
                    3 => {
                        acknowledged = (acknowledged + n as u64).min(out.taken());
                        out.acknowledge(acknowledged);
                    }
                    _ => {}
                }
            }
            prop_assert_eq!(&put[..seen.len()], &seen[..]);
            let lost: u64 = ends.iter().filter(|(end, _)| *end > acknowledged).map(|(_, units)| units).sum();
            prop_assert_eq!(out.end(), lost);
        }
    }

    #[test]
    fn what_is_remembered_is_bounded_and_nothing_of_it_forgotten() {
        let mut out = Out::new(10);
        for n in 0..100_000u64 {
            out.push(&[b"x"], 1);
            out.transmitted(1);
            assert_eq!(out.taken(), n + 1);
        }
        assert!(out.messages.len() <= REMEMBERED + 1);
        out.acknowledge(50_000);
        let lost = out.end();
        assert!((50_000..50_100).contains(&lost), "{lost}");
    }
}
