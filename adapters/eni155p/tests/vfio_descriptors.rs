//! An adapter behind its socket while this process has no descriptor left. A test program of its own: the bound is
//! the process's.

use eni155p::Config;
use eni155p::vfio::apart::Apart;
use eni155p::vfio::server::Server;
use net::External as _;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

fn processor_time() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

#[test]
fn a_client_that_cannot_be_accepted_costs_no_processor_and_attaches_when_there_is_a_descriptor() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let adapter = Apart::start(Server::listen(&path, Config::default()).unwrap()).unwrap();
    let before = getrlimit(Resource::Nofile);
    // It has its own descriptor before the system gives no more.
    let client = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
    setrlimit(Resource::Nofile, Rlimit { current: Some(3), ..before }).unwrap();
    rustix::net::connect(&client, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    let (used, pause) = (processor_time(), Duration::from_millis(600));
    std::thread::sleep(pause);
    let used = processor_time() - used;
    assert!(!adapter.is_up());
    setrlimit(Resource::Nofile, before).unwrap();
    assert!(used < pause / 6, "{used:?} of processor in {pause:?}");
    let begin = Instant::now();
    while !adapter.is_up() {
        assert!(begin.elapsed() < Duration::from_secs(5), "the client does not attach");
        std::thread::sleep(Duration::from_millis(5));
    }
}
