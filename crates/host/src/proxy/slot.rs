//! A connection's place among its user's, and its way back to the acceptor.

use super::frame;
use super::slots::{MAP_OCTETS, Map, mark};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Places that go back in one packet.
const TOGETHER: usize = 256;
/// The acceptor is asked again after this whether it has room.
const LOOK_AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// The word before the number of an acceptor that asks which places are taken, and before the answer: that number and a
/// map.
pub(super) const COUNT: u32 = u32::MAX - 1;

/// The way back. What the acceptor has no room for waits here: a place that is lost is the user's for as long as the
/// user proxy lives.
pub(super) struct Places {
    acceptor: Arc<OwnedFd>,
    state: Mutex<State>,
}

struct State {
    taken: Map,
    late: Vec<u32>,
    /// An acceptor, by number, has not been told which are taken.
    asked: Option<u32>,
}

impl State {
    /// What an acceptor is told that asks.
    fn count(&self, acceptor: u32) -> Vec<u8> {
        [&COUNT.to_ne_bytes()[..], &acceptor.to_ne_bytes(), &self.taken].concat()
    }
}

impl Places {
    pub(super) fn new(acceptor: Arc<OwnedFd>) -> Arc<Self> {
        let state = State { taken: [0; MAP_OCTETS], late: Vec::new(), asked: None };
        Arc::new(Places { acceptor, state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells another acceptor which places are taken, as soon as there is room.
    pub(super) fn tell(&self, acceptor: u32) {
        self.state().asked = Some(acceptor);
        self.flush();
    }

    /// Sends what waits, as far as there is room. False if something is left.
    pub(super) fn flush(&self) -> bool {
        let mut state = self.state();
        if let Some(acceptor) = state.asked {
            match frame::send(&*self.acceptor, &[&state.count(acceptor)], &[]) {
                // It knows of those that wait, too, by this.
                Ok(()) | Err(Errno::PIPE | Errno::CONNRESET) => (state.asked, state.late) = (None, Vec::new()),
                Err(_) => return false,
            }
        }
        let late = &mut state.late;
        while !late.is_empty() {
            let n = late.len().min(TOGETHER);
            let words: Vec<u8> = late[..n].iter().flat_map(|number| number.to_ne_bytes()).collect();
            match frame::send(&*self.acceptor, &[&words], &[]) {
                // Without an acceptor, nobody asks for places.
                Ok(()) | Err(Errno::PIPE | Errno::CONNRESET) => drop(late.drain(..n)),
                Err(_) => return false,
            }
        }
        true
    }
}

/// A connection's place. It goes back to the acceptor once the connection and its captures have ended: a user proxy
/// whose places are all back is ended.
pub(super) struct Slot {
    number: u32,
    places: Arc<Places>,
}

impl Slot {
    pub(super) fn new(number: u32, places: Arc<Places>) -> Self {
        mark(&mut places.state().taken, number, true);
        Slot { number, places }
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Ends it on a thread that the user proxy's loop does not wait for, and that may wait for the acceptor.
    pub(super) fn end(self: Arc<Self>) {
        let places = self.places.clone();
        drop(self);
        while !places.flush() {
            let _ = poll(&mut [PollFd::new(&*places.acceptor, PollFlags::OUT)], Some(&LOOK_AGAIN));
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.places.state();
        mark(&mut state.taken, self.number, false);
        state.late.push(self.number);
        drop(state);
        self.places.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_for_which_the_gate_has_no_room_wait_and_none_is_lost() {
        let (ours, acceptor) = frame::pair().unwrap();
        let places = Places::new(Arc::new(ours));
        for number in 0..1024 {
            drop(Slot::new(number, places.clone()));
        }
        assert!(!places.flush(), "the acceptor has room for all: the test shows nothing");
        let mut back = Vec::new();
        while back.len() < 1024 {
            match frame::receive(&acceptor, 0) {
                frame::ReceiveResult::Frame(frame) => {
                    back.extend(frame.octets.as_chunks::<4>().0.iter().map(|word| u32::from_ne_bytes(*word)));
                }
                _ => assert!(places.flush() || !back.is_empty(), "nothing comes"),
            }
        }
        assert_eq!(back, (0..1024).collect::<Vec<u32>>());
        assert!(places.flush());
    }
    #[test]
    fn another_acceptor_is_told_which_places_are_taken_and_of_each_that_ends_after_that_once() {
        let (ours, acceptor) = frame::pair().unwrap();
        let places = Places::new(Arc::new(ours));
        let [first, second, third] = [0, 9, 1023].map(|number| Slot::new(number, places.clone()));
        // As if there had been no room for it.
        drop(first);
        places.state().late.push(0);
        places.tell(77);
        drop(second);
        let mut packets = std::iter::from_fn(|| match frame::receive(&acceptor, 0) {
            frame::ReceiveResult::Frame(frame) => Some(frame.octets),
            _ => None,
        });
        assert_eq!(packets.next().unwrap(), 0u32.to_ne_bytes(), "for the acceptor before");
        let told = packets.next().unwrap();
        assert_eq!(told[..8], [COUNT.to_ne_bytes(), 77u32.to_ne_bytes()].concat());
        let taken: Vec<usize> = (0..1024).filter(|n| told[8 + n / 8] & 1 << (n % 8) != 0).collect();
        assert_eq!(taken, [9, 1023]);
        assert_eq!(packets.collect::<Vec<_>>(), [9u32.to_ne_bytes().to_vec()]);
        drop(third);
    }
}
