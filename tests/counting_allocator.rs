//! An allocator that counts, for tests which show that something allocates nothing. Included by path, for a program can
//! have one allocator only. Each thread counts its own: what runs a test may allocate meanwhile.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, Ordering};

struct Counting;

static HELD_BY_ALL: AtomicI64 = AtomicI64::new(0);

fn hold(octets: i64) {
    HELD.set(HELD.get() + octets);
    HELD_BY_ALL.fetch_add(octets, Ordering::Relaxed);
}

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static HELD: Cell<i64> = const { Cell::new(0) };
}

// SAFETY: all calls are passed on to the system's allocator unchanged; counting touches no memory that it hands out,
// and the counter needs none and no destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        hold(layout.size() as i64);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        hold(-(layout.size() as i64));
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How often this thread has allocated so far.
#[allow(dead_code)]
pub fn allocations() -> u64 {
    ALLOCATIONS.get()
}

/// Octets that this thread has allocated and not freed.
#[allow(dead_code)]
pub fn held_octets() -> i64 {
    HELD.get()
}

/// Octets that all threads have allocated and not freed.
#[allow(dead_code)]
pub fn held_by_all() -> i64 {
    HELD_BY_ALL.load(Ordering::Relaxed)
}
