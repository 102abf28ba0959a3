//! A connection's place among its user's, and its way back to the acceptor.

use super::frame;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::sync::{Arc, Mutex, PoisonError};

/// Places that go back in one packet.
const TOGETHER: usize = 256;
/// The acceptor is asked again after this whether it has room.
const LOOK_AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// The way back. What the acceptor has no room for waits here: a place that is lost is the user's for as long as the
/// user proxy lives.
pub(super) struct Places {
    acceptor: Arc<OwnedFd>,
    late: Mutex<Vec<u32>>,
}

impl Places {
    pub(super) fn new(acceptor: Arc<OwnedFd>) -> Arc<Self> {
        Arc::new(Places { acceptor, late: Mutex::default() })
    }

    /// Sends what waits, as far as there is room. False if something is left.
    pub(super) fn flush(&self) -> bool {
        let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
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
        self.places.late.lock().unwrap_or_else(PoisonError::into_inner).push(self.number);
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
}
