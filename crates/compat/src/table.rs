//! Which of the program's descriptors are sockets of ours.
//!
//! Looked at in every call, by any thread, without a lock: an array by number. A socket is kept by its descriptors and
//! by the calls that are under way on it, and ends with the last of them. The slots that hold sockets are never given
//! back to the allocator, so that a look at one that has just ended is harmless.

use crate::descriptors::MAX_FDS;
use crate::socket::Socket;
use rustix::fd::RawFd;
use std::cell::UnsafeCell;
use std::ops::Deref;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

struct Slot {
    /// Descriptors and calls; zero: nothing here.
    count: AtomicU32,
    socket: UnsafeCell<Option<Socket>>,
}

// SAFETY: the socket is written only while the count is zero, by the one who took the slot from the list of idle ones
// or who brought the count to zero; it is read only by those who are counted.
unsafe impl Sync for Slot {}

static TABLE: [AtomicPtr<Slot>; MAX_FDS] = [const { AtomicPtr::new(null_mut()) }; MAX_FDS];
static IDLE: Mutex<Vec<&'static Slot>> = Mutex::new(Vec::new());
/// Descriptors in the table.
static DESCRIPTORS: AtomicUsize = AtomicUsize::new(0);

fn entry(fd: RawFd) -> Option<&'static AtomicPtr<Slot>> {
    TABLE.get(usize::try_from(fd).ok()?)
}

/// A socket, for the time of a call.
pub(crate) struct Held(&'static Slot);

impl Deref for Held {
    type Target = Socket;
    fn deref(&self) -> &Socket {
        // SAFETY: this value is counted, so the socket is there and nobody writes it.
        unsafe { (*self.0.socket.get()).as_ref().unwrap_unchecked() }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        release(self.0);
    }
}

fn release(slot: &'static Slot) {
    if slot.count.fetch_sub(1, Ordering::AcqRel) == 1 {
        // SAFETY: the count is zero, and nobody raises it from there: this thread alone has the slot.
        let socket = unsafe { (*slot.socket.get()).take() };
        drop(socket);
        // A fork may have left the list locked; then the slot is not used again.
        if let Ok(mut idle) = IDLE.try_lock() {
            idle.push(slot);
        }
    }
}

/// Whether the program has sockets of ours at all.
#[inline]
pub(crate) fn is_empty() -> bool {
    DESCRIPTORS.load(Ordering::Relaxed) == 0
}

/// Whether a descriptor is a socket of ours.
#[inline]
pub(crate) fn contains(fd: RawFd) -> bool {
    entry(fd).is_some_and(|e| !e.load(Ordering::Relaxed).is_null())
}

/// The socket behind a descriptor.
#[inline]
pub(crate) fn get(fd: RawFd) -> Option<Held> {
    let entry = entry(fd)?;
    let found = entry.load(Ordering::Acquire);
    if found.is_null() {
        return None;
    }
    // SAFETY: slots live for ever.
    let slot: &'static Slot = unsafe { &*found };
    let mut count = slot.count.load(Ordering::Relaxed);
    loop {
        if count == 0 {
            return None;
        }
        match slot.count.compare_exchange_weak(count, count + 1, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => break,
            Err(now) => count = now,
        }
    }
    let held = Held(slot);
    // The slot may have been given to another socket between the two looks.
    (entry.load(Ordering::Acquire) == found).then_some(held)
}

/// Puts a new socket behind a descriptor.
pub(crate) fn insert(fd: RawFd, socket: Socket) {
    let idle = IDLE.try_lock().ok().and_then(|mut idle| idle.pop());
    let slot: &'static Slot =
        idle.unwrap_or_else(|| Box::leak(Box::new(Slot { count: AtomicU32::new(0), socket: UnsafeCell::new(None) })));
    // SAFETY: an idle slot's count is zero, and it is this thread's alone.
    unsafe { *slot.socket.get() = Some(socket) };
    slot.count.store(1, Ordering::Release);
    place(fd, slot);
}

/// Puts a socket behind one more descriptor.
pub(crate) fn share(fd: RawFd, held: Held) {
    let slot = held.0;
    // The call's count becomes the descriptor's.
    std::mem::forget(held);
    place(fd, slot);
}

fn place(fd: RawFd, slot: &'static Slot) {
    let Some(entry) = entry(fd) else {
        return release(slot);
    };
    let before = entry.swap(std::ptr::from_ref(slot).cast_mut(), Ordering::AcqRel);
    if before.is_null() {
        DESCRIPTORS.fetch_add(1, Ordering::Relaxed);
    } else {
        // SAFETY: slots live for ever; the descriptor's count of the one before goes.
        release(unsafe { &*before });
    }
}

/// Forgets a descriptor; what it held ends when the result is dropped, if it was the last.
pub(crate) fn remove(fd: RawFd) -> Option<Held> {
    let before = entry(fd)?.swap(null_mut(), Ordering::AcqRel);
    if before.is_null() {
        return None;
    }
    DESCRIPTORS.fetch_sub(1, Ordering::Relaxed);
    // SAFETY: slots live for ever; the descriptor's count becomes the result's.
    Some(Held(unsafe { &*before }))
}

/// Keeps the hold of a call that is about to wait, so that the end of the thread gives it back if the thread is
/// cancelled in there; `None` after the wait.
pub(crate) fn waits(held: Option<&Held>) {
    static KEY: OnceLock<Option<libc::pthread_key_t>> = OnceLock::new();
    extern "C" fn give_back(slot: *mut libc::c_void) {
        // SAFETY: what `waits` has kept: a slot, counted for the call that this thread did not come back from.
        release(unsafe { &*slot.cast::<Slot>() });
    }
    let key = KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: the key is this function's own; the function stays as long as the process.
        (unsafe { libc::pthread_key_create(&raw mut key, Some(give_back)) } == 0).then_some(key)
    });
    let slot = held.map_or(std::ptr::null(), |held| std::ptr::from_ref(held.0));
    if let Some(key) = key {
        // SAFETY: the key is valid as long as the process. For want of memory nothing is kept: the socket then ends
        // with the process.
        unsafe { libc::pthread_setspecific(*key, slot.cast()) };
    }
}

/// Whether nobody but the holder has the socket any more.
pub(crate) fn is_alone(held: &Held) -> bool {
    held.0.count.load(Ordering::Acquire) == 1
}

/// Whether two are the same socket.
pub(crate) fn same(a: &Held, b: &Held) -> bool {
    std::ptr::eq(a.0, b.0)
}

/// Every descriptor with a socket of ours, from `first` to `last`.
pub(crate) fn descriptors(first: RawFd, last: RawFd) -> impl Iterator<Item = RawFd> {
    let all = if is_empty() { 0..0 } else { first.max(0)..last.saturating_add(1).min(MAX_FDS as RawFd) };
    all.filter(|fd| contains(*fd))
}
