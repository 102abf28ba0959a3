//! Memory that comes along with a request and is filled: to free it takes long, and that is not for the service's thread.
//! A test program of its own: it measures that thread's processor time.

use endpoint::control::{Request, Response};
use endpoint::seqpacket::Packets;
use hostile::{Field, Ground};
use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, memfd_create};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;

const OCTETS: u64 = 512 << 20;
/// Requests before the one that brings it.
const BEFORE: usize = 30;

/// Processor time of this process's threads of a name.
fn time_of(name: &str) -> Duration {
    let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let of = |path: PathBuf| {
        let named = std::fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim_end() == name);
        let nanoseconds = std::fs::read_to_string(path.join("schedstat")).ok()?;
        nanoseconds.split(' ').next()?.parse::<u64>().ok().filter(|_| named)
    };
    Duration::from_nanos(threads.filter_map(|thread| of(thread.path())).sum())
}

#[test]
fn memory_files_that_a_client_has_filled_are_not_freed_by_the_services_thread() {
    let ground = Ground::two_circuits();
    let eve = Packets::connect(ground.socket()).unwrap();
    let mut worst = Duration::ZERO;
    for _ in 0..4 {
        let memory = memfd_create("filled", MemfdFlags::CLOEXEC).unwrap();
        fallocate(&memory, FallocateFlags::empty(), 0, OCTETS).unwrap();
        let before = time_of("service");
        assert!(before > Duration::ZERO, "there is no such thread, or the system does not say");
        // While the service is busy with these, all others close their descriptor: it has the last one.
        (0..BEFORE).for_each(|_| eve.send(&Request::hello(), &[]).unwrap());
        eve.send(&Request::hello(), &[memory.as_fd()]).unwrap();
        drop(memory);
        for _ in 0..=BEFORE {
            assert!(matches!(eve.receive::<Response>().unwrap(), Some((Response::Welcome { .. }, _))));
        }
        // What the thread began is done when it answers again, and is counted when it sleeps.
        eve.send(&Request::hello(), &[]).unwrap();
        assert!(eve.receive::<Response>().unwrap().is_some());
        std::thread::sleep(Duration::from_millis(10));
        worst = worst.max(time_of("service").saturating_sub(before));
    }
    // To free so much takes a processor 20 ms and more.
    assert!(worst < Duration::from_millis(10), "{worst:?}");
}
