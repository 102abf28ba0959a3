//! Bells on request: the engine's thread asks, a user's proxy rings.
//!
//! A board is memory of the service's own that the engine's process and one user proxy have mapped. Each connection of
//! the user has a slot with two counts: how often its bell is to be rung, and to be emptied. The engine counts, marks
//! the slot, and wakes the user proxy's ringer as a futex; it never touches a descriptor. A ringer that is stuck loses
//! its own user's bells only.

use endpoint::control::BELL_OCTETS;
use endpoint::shared::SharedMemory;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvFlags, ReturnFlags, SendFlags, recv, recvmsg};
use rustix::thread::futex;
use std::io::IoSliceMut;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};

/// Slots of a board: connections of one user.
pub(crate) const SLOTS: u32 = 1024;
const EPOCH: usize = 0;
const SLEEPS: usize = 64;
const MARKS: usize = 128;
const COUNTS: usize = 256;
const OCTETS: usize = (COUNTS + SLOTS as usize * 8).next_multiple_of(4096);
/// A ringer that owes a bell more rings than this owes it no more: nobody waits for so many.
const MOST_RINGS: u32 = 64;

/// One user's board.
#[derive(Debug)]
pub struct BellTable(SharedMemory);

impl BellTable {
    /// A new one, and its descriptor.
    pub(crate) fn create() -> Result<(Self, OwnedFd), Errno> {
        let (memory, fd) = SharedMemory::create(OCTETS)?;
        Ok((BellTable(memory), fd))
    }

    /// Maps one that the acceptor made.
    pub(crate) fn open(fd: &OwnedFd) -> Result<Self, Errno> {
        SharedMemory::open(fd, OCTETS).map(BellTable)
    }

    fn count(&self, slot: u32, which: usize) -> &AtomicU32 {
        self.0.word32(COUNTS + (slot % SLOTS) as usize * 8 + which * 4)
    }

    fn ask(&self, slot: u32, which: usize) {
        self.count(slot, which).fetch_add(1, Ordering::Relaxed);
        let slot = slot % SLOTS;
        self.0.word32(MARKS + slot as usize / 32 * 4).fetch_or(1 << (slot % 32), Ordering::Release);
        fence(Ordering::SeqCst);
        let sleeps = self.0.word32(SLEEPS);
        if sleeps.load(Ordering::Relaxed) != 0 && sleeps.swap(0, Ordering::AcqRel) != 0 {
            let epoch = self.0.word32(EPOCH);
            epoch.fetch_add(1, Ordering::Release);
            let _ = futex::wake(epoch, futex::Flags::empty(), 1);
        }
    }

    /// Asks for a ring of the slot's bell.
    pub(crate) fn ring(&self, slot: u32) {
        self.ask(slot, 0);
    }

    /// Asks for what the client has put into the slot's bell to be taken out.
    pub(crate) fn empty(&self, slot: u32) {
        self.ask(slot, 1);
    }
}

/// The bells of a user's connections, by slot.
pub(super) type Bells = Arc<Mutex<Vec<Option<Arc<OwnedFd>>>>>;

/// The user proxy's thread that rings.
pub(super) fn serve(board: &BellTable, bells: &Bells) {
    let mut done = vec![[0u32; 2]; SLOTS as usize];
    loop {
        let epoch = board.0.word32(EPOCH);
        let seen = epoch.load(Ordering::Acquire);
        if round(board, bells, &mut done) {
            continue;
        }
        let sleeps = board.0.word32(SLEEPS);
        sleeps.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if !round(board, bells, &mut done) {
            let _ = futex::wait(epoch, futex::Flags::empty(), seen, None);
        }
        sleeps.store(0, Ordering::Relaxed);
    }
}

/// Rings what is asked for. False if nothing was.
fn round(board: &BellTable, bells: &Bells, done: &mut [[u32; 2]]) -> bool {
    let mut worked = false;
    for word in 0..SLOTS / 32 {
        let marks = board.0.word32(MARKS + word as usize * 4);
        if marks.load(Ordering::Relaxed) == 0 {
            continue;
        }
        let mut left = marks.swap(0, Ordering::Acquire);
        while left != 0 {
            let slot = word * 32 + left.trailing_zeros();
            left &= left - 1;
            worked = true;
            let bell = bells.lock().unwrap_or_else(PoisonError::into_inner).get(slot as usize).cloned().flatten();
            let done = &mut done[slot as usize];
            for (which, done) in done.iter_mut().enumerate() {
                let asked = board.count(slot, which).load(Ordering::Acquire);
                let n = asked.wrapping_sub(std::mem::replace(done, asked)).min(MOST_RINGS);
                let Some(bell) = &bell else { continue };
                for _ in 0..n {
                    if which == 0 { ring(bell) } else { take_out(bell) }
                }
            }
        }
    }
    worked
}

fn ring(bell: &OwnedFd) {
    // A full one, of a client that never reads it, is awake enough; one whose client has gone needs no bell.
    let _ = rustix::net::send(bell, &[0; BELL_OCTETS], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
}

/// Takes what the client has put into its socket in order to wait until it is taken.
fn take_out(bell: &OwnedFd) {
    let mut octets = [0; 4096];
    // All of it, or a client that has begun to wait would not be woken; and bounded, if a client goes on writing.
    for _ in 0..64 {
        // To take an octet with a descriptor would close that one here. The user proxy ends the connection of who sent
        // it.
        let looked = recvmsg(
            bell,
            &mut [IoSliceMut::new(&mut octets)],
            &mut RecvAncillaryBuffer::new(&mut []),
            RecvFlags::DONTWAIT | RecvFlags::PEEK,
        );
        match looked {
            Ok(looked) if looked.bytes > 0 && !looked.flags.contains(ReturnFlags::CTRUNC) => {
                let _ = recv(bell, &mut octets[..looked.bytes], RecvFlags::DONTWAIT);
            }
            _ => return,
        }
    }
}
