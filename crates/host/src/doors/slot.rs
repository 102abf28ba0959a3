//! A connection's place among its user's, and its way back to the gate.

use super::frame;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::sync::{Arc, Mutex, PoisonError};

/// Places that go back in one packet.
const TOGETHER: usize = 256;
/// The gate is asked again after this whether it has room.
const LOOK_AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// The way back. What the gate has no room for waits here: a place that is lost is the user's for as long as the porter lives.
pub(super) struct Places {
    gate: Arc<OwnedFd>,
    late: Mutex<Vec<u32>>,
}

impl Places {
    pub(super) fn new(gate: Arc<OwnedFd>) -> Arc<Self> {
        Arc::new(Places { gate, late: Mutex::default() })
    }

    /// Sends what waits, as far as there is room. False if something is left.
    pub(super) fn flush(&self) -> bool {
        let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        while !late.is_empty() {
            let n = late.len().min(TOGETHER);
            let words: Vec<u8> = late[..n].iter().flat_map(|number| number.to_ne_bytes()).collect();
            match frame::send(&*self.gate, &[&words], &[]) {
                // Without a gate, nobody asks for places.
                Ok(()) | Err(Errno::PIPE | Errno::CONNRESET) => drop(late.drain(..n)),
                Err(_) => return false,
            }
        }
        true
    }
}

/// A connection's place. It goes back to the gate once the connection and its captures have ended: a porter whose places are all
/// back is ended.
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

    /// Ends it on a thread that the porter's loop does not wait for, and that may wait for the gate.
    pub(super) fn end(self: Arc<Self>) {
        let places = self.places.clone();
        drop(self);
        while !places.flush() {
            let _ = poll(&mut [PollFd::new(&*places.gate, PollFlags::OUT)], Some(&LOOK_AGAIN));
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
        let (ours, gate) = frame::pair().unwrap();
        let places = Places::new(Arc::new(ours));
        for number in 0..1024 {
            drop(Slot::new(number, places.clone()));
        }
        assert!(!places.flush(), "the gate has room for all: the test shows nothing");
        let mut back = Vec::new();
        while back.len() < 1024 {
            match frame::receive(&gate, 0) {
                frame::Got::Frame(frame) => {
                    back.extend(frame.octets.as_chunks::<4>().0.iter().map(|word| u32::from_ne_bytes(*word)));
                }
                _ => assert!(places.flush() || !back.is_empty(), "nothing comes"),
            }
        }
        assert_eq!(back, (0..1024).collect::<Vec<u32>>());
        assert!(places.flush());
    }
}
