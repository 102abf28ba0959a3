//! The adapter behind its socket: our driver as the guest, by way of vfio-user, on a network that runs in a thread.

use bus::memory::HostMemory;
use eni155p::driver::{Aal, BUFFER_OCTETS, Bus, Eni};
use eni155p::vfio::apart::Apart;
use eni155p::vfio::guest::GuestMemory;
use eni155p::vfio::protocol::{HEADER_OCTETS, command};
use eni155p::vfio::server::{Server, StartError};
use eni155p::{Config, registers as r};
use net::{End, FramePool, LinkConfig, Network, Node, NodeIo};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use std::io::{IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wire::{Cell, CellHeader, DropReason, Time};

const MEMORY: u64 = 0x10_0000;
const BUFFERS: u64 = 8;
const PATIENCE: Duration = Duration::from_secs(20);

/// Cells of one port leave by the other.
struct Patch;

impl Node for Patch {
    fn run(&mut self, io: &mut NodeIo<'_>, _: Time) -> bool {
        let mut any = false;
        for (from, to) in [(0, 1), (1, 0)] {
            while let Some(cell) = io.cells_in(from).first().copied() {
                io.put_cell(to, &cell);
                io.consume(from, 1);
                any = true;
            }
        }
        any
    }

    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    fn as_any_mut(&mut self) -> &mut dyn std::any::Any {
        self
    }
}

/// Two adapters, joined, in a thread of their own.
struct World {
    stop: Arc<AtomicBool>,
    /// The first adapter's link is down.
    cut: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
    folder: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let servers: Vec<Server> = (0..2)
            .map(|n| Server::listen(&folder.path().join(format!("eni{n}.sock")), Config::default()).unwrap())
            .collect();
        let stop = Arc::new(AtomicBool::new(false));
        let cut = Arc::new(AtomicBool::new(false));
        let (thread_stop, thread_cut) = (stop.clone(), cut.clone());
        let thread = std::thread::spawn(move || {
            let mut network = Network::new(FramePool::new(4, 65_536));
            let node = network.add_node("patch", Box::new(Patch));
            let links: Vec<_> = servers
                .into_iter()
                .enumerate()
                .map(|(port, server)| {
                    let end = End::Port(node, port as u16);
                    let link = network.connect(end, End::External, LinkConfig::default()).unwrap();
                    assert!(network.attach(link, Box::new(Apart::start(server).unwrap())));
                    link
                })
                .collect();
            let begin = Instant::now();
            while !thread_stop.load(Ordering::Relaxed) {
                let now = Time::ZERO + begin.elapsed();
                network.set_link_up(links[0], !thread_cut.load(Ordering::Relaxed));
                for link in &links {
                    network.handle_ready(*link, true, true, now);
                }
                if !network.run(now) {
                    std::thread::sleep(Duration::from_micros(20));
                }
            }
        });
        World { stop, cut, thread: Some(thread), folder }
    }

    fn guest(&self, n: usize) -> Guest {
        Guest::attach(&self.folder.path().join(format!("eni{n}.sock")))
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(std::thread::panicking() || ended.is_ok(), "the network's thread panicked");
        }
    }
}

/// A client of the socket.
struct Client {
    stream: UnixStream,
    id: u16,
}

impl Client {
    fn connect(path: &Path) -> Self {
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut client = Client { stream, id: 0 };
        let reply = client.call(command::VERSION, &[&[0, 0, 1, 0], b"{\"capabilities\":{}}\0"], &[]).unwrap();
        assert!(reply[4..].starts_with(b"{\"capabilities\""));
        client
    }

    fn send(&mut self, command: u16, flags: u32, parts: &[&[u8]], fds: &[&OwnedFd]) {
        self.id = self.id.wrapping_add(1);
        let mut message = Vec::new();
        message.extend(self.id.to_ne_bytes());
        message.extend(command.to_ne_bytes());
        let size = HEADER_OCTETS + parts.iter().map(|part| part.len()).sum::<usize>();
        message.extend((size as u32).to_ne_bytes());
        message.extend(flags.to_ne_bytes());
        message.extend([0; 4]);
        message.extend(parts.concat());
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut rights = SendAncillaryBuffer::new(&mut space);
        let fds: Vec<_> = fds.iter().map(|fd| fd.as_fd()).collect();
        if !fds.is_empty() {
            rights.push(SendAncillaryMessage::ScmRights(&fds));
        }
        let n = rustix::net::sendmsg(&self.stream, &[IoSlice::new(&message)], &mut rights, SendFlags::empty()).unwrap();
        self.stream.write_all(&message[n..]).unwrap();
    }

    /// Sends a request and waits for its reply; an error number instead, if it says one.
    fn call(&mut self, command: u16, parts: &[&[u8]], fds: &[&OwnedFd]) -> Result<Vec<u8>, u32> {
        self.send(command, 0, parts, fds);
        let mut header = [0; HEADER_OCTETS];
        self.stream.read_exact(&mut header).unwrap();
        let word = |at: usize| u32::from_ne_bytes(header[at..at + 4].try_into().unwrap());
        assert_eq!(header[..2], self.id.to_ne_bytes());
        let mut reply = vec![0; word(4) as usize - HEADER_OCTETS];
        self.stream.read_exact(&mut reply).unwrap();
        if word(8) & 0x20 != 0 { Err(word(12)) } else { Ok(reply) }
    }

    fn region(region: u32, offset: u64, count: usize) -> [u8; 16] {
        let mut octets = [0; 16];
        octets[..8].copy_from_slice(&offset.to_ne_bytes());
        octets[8..12].copy_from_slice(&region.to_ne_bytes());
        octets[12..].copy_from_slice(&(count as u32).to_ne_bytes());
        octets
    }
}

impl Bus for Client {
    fn config_read(&mut self, offset: usize, data: &mut [u8]) {
        let reply = self.call(command::REGION_READ, &[&Self::region(7, offset as u64, data.len())], &[]).unwrap();
        data.copy_from_slice(&reply[16..]);
    }

    fn config_write(&mut self, offset: usize, data: &[u8]) {
        self.call(command::REGION_WRITE, &[&Self::region(7, offset as u64, data.len()), data], &[]).unwrap();
    }

    fn read(&mut self, offset: u32) -> u32 {
        let reply = self.call(command::REGION_READ, &[&Self::region(0, offset.into(), 4)], &[]).unwrap();
        u32::from_ne_bytes(reply[16..20].try_into().unwrap())
    }

    /// Posted: nobody waits for it.
    fn write(&mut self, offset: u32, value: u32) {
        self.send(command::REGION_WRITE, 16, &[&Self::region(0, offset.into(), 4), &value.to_le_bytes()], &[]);
    }
}

fn words(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|n| n.to_ne_bytes()).collect()
}

fn map_request(address: u64, size: u64) -> Vec<u8> {
    [words(&[32, 3]), 0u64.to_ne_bytes().to_vec(), address.to_ne_bytes().to_vec(), size.to_ne_bytes().to_vec()].concat()
}

/// A guest: a client, its memory, its interrupt, its driver.
struct Guest {
    client: Client,
    memory: GuestMemory,
    event: OwnedFd,
    driver: Eni,
}

impl Guest {
    fn attach(path: &Path) -> Self {
        let mut client = Client::connect(path);
        let info = client.call(command::GET_INFO, &[&words(&[16, 0, 0, 0])], &[]).unwrap();
        assert_eq!(info[4..], words(&[3, 9, 5])[..]);
        let bar = client.call(command::GET_REGION_INFO, &[&words(&[32, 0, 0, 0]), &[0; 16]], &[]).unwrap();
        assert_eq!(u64::from_ne_bytes(bar[16..24].try_into().unwrap()), 4 << 20);
        let octets = 2 * BUFFERS * BUFFER_OCTETS;
        let file = memfd_create("guest", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, octets).unwrap();
        client.call(command::DMA_MAP, &[&map_request(MEMORY, octets)], &[&file]).unwrap();
        let event = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
        client.call(command::SET_IRQS, &[&words(&[20, 4 | 32, 0, 0, 1])], &[&event]).unwrap();
        let mut memory = GuestMemory::default();
        memory.map(3, 0, MEMORY, octets, Some(file)).unwrap();
        let driver = Eni::probe(&mut client, MEMORY, BUFFERS).unwrap();
        let mut guest = Guest { client, memory, event, driver };
        guest.driver.open(&mut guest.client, 40, Aal::Aal5, 64 << 10, None).unwrap();
        guest
    }

    /// Serves interrupts as they are signalled, until an SDU has come.
    fn receive(&mut self) -> Vec<u8> {
        let begin = Instant::now();
        loop {
            if let Some(got) = self.driver.poll_received() {
                let mut sdu = vec![0; got.octets];
                self.memory.read(got.address, &mut sdu).unwrap();
                self.driver.release(got);
                return sdu;
            }
            self.serve();
            assert!(begin.elapsed() < PATIENCE, "no SDU came");
        }
    }

    fn serve(&mut self) {
        if rustix::io::read(&self.event, &mut [0; 8]).is_err() {
            return std::thread::sleep(Duration::from_micros(50));
        }
        self.driver.handle_interrupt(&mut self.client);
        self.client.call(command::SET_IRQS, &[&words(&[20, 1 | 16, 0, 0, 1])], &[]).unwrap();
    }

    fn send(&mut self, sdu: &[u8]) {
        self.driver.send(&mut self.client, &mut self.memory, 40, sdu).unwrap();
    }
}

fn sdu(octets: usize, seed: u8) -> Vec<u8> {
    (0..octets).map(|i| (i as u8).wrapping_mul(31) ^ (i >> 8) as u8 ^ seed).collect()
}

#[test]
fn two_guests_exchange_sdus_by_way_of_their_sockets() {
    let world = World::new();
    let (mut one, mut two) = (world.guest(0), world.guest(1));
    for (n, octets) in [1, 40, 1500, 9188, 40_000].into_iter().enumerate() {
        one.send(&sdu(octets, n as u8));
        assert_eq!(two.receive(), sdu(octets, n as u8));
        two.send(&sdu(octets, 100 + n as u8));
        assert_eq!(one.receive(), sdu(octets, 100 + n as u8));
        one.serve();
        two.serve();
    }
}

#[test]
fn a_client_that_goes_leaves_a_fresh_adapter_and_the_other_circuit_undisturbed() {
    let world = World::new();
    let mut one = world.guest(0);
    for round in 0..5 {
        let mut two = world.guest(1);
        two.send(&sdu(9188, round));
        while let got = one.receive()
            && got != sdu(9188, round)
        {
            // The last client's, if all of it had left.
            assert_eq!(got, sdu(9188, 99));
        }
        // Gone in the middle of whatever it was doing: nothing is said.
        two.send(&sdu(9188, 99));
    }
}

#[test]
fn a_link_taken_down_is_a_loss_of_signal_that_interrupts_the_guest() {
    let world = World::new();
    let (mut one, mut two) = (world.guest(0), world.guest(1));
    assert!(one.driver.signal && two.driver.signal);
    for round in 0..3 {
        for signal in [false, true] {
            world.cut.store(!signal, Ordering::Relaxed);
            let begin = Instant::now();
            while one.driver.signal != signal {
                one.serve();
                assert!(begin.elapsed() < PATIENCE, "no interrupt");
            }
        }
        assert!(two.driver.signal, "the other adapter's line is another");
        two.send(&sdu(1500, round));
        assert_eq!(one.receive(), sdu(1500, round));
        two.serve();
    }
}

#[test]
fn memory_that_is_unmapped_is_out_of_reach() {
    let world = World::new();
    let (mut one, mut two) = (world.guest(0), world.guest(1));
    let octets = 2 * BUFFERS * BUFFER_OCTETS;
    let request = [words(&[24, 0]), MEMORY.to_ne_bytes().to_vec(), octets.to_ne_bytes().to_vec()].concat();
    two.client.call(command::DMA_UNMAP, &[&request], &[]).unwrap();
    one.send(&sdu(500, 1));
    assert_eq!(two.receive(), vec![0; 500], "nothing was written to memory that is no longer the adapter's");
    assert_eq!(two.driver.statistics.dma_errors, 1);
}

#[test]
fn all_memory_is_unmapped_by_the_flag_of_linux() {
    const INVALID: u32 = 22;
    const UNSUPPORTED: u32 = 95;
    let world = World::new();
    let (mut one, mut two) = (world.guest(0), world.guest(1));
    let octets = 2 * BUFFERS * BUFFER_OCTETS;
    let request = |flags: u32, address: u64, size: u64| {
        [&words(&[24, flags])[..], &address.to_ne_bytes(), &size.to_ne_bytes()].concat()
    };
    for (flags, address, size, error) in [
        // A bitmap of what was written; addresses of the client's that become invalid for a while.
        (1, MEMORY, octets, UNSUPPORTED),
        (4, MEMORY, octets, UNSUPPORTED),
        (3, 0, 0, UNSUPPORTED),
        (6, 0, 0, UNSUPPORTED),
        (2, MEMORY, octets, INVALID),
        (2, 0, octets, INVALID),
    ] {
        let answer = two.client.call(command::DMA_UNMAP, &[&request(flags, address, size)], &[]);
        assert_eq!(answer, Err(error), "{flags} {address:#x} {size:#x}");
    }
    one.send(&sdu(500, 1));
    assert_eq!(two.receive(), sdu(500, 1), "what was refused has changed nothing");
    two.client.call(command::DMA_UNMAP, &[&request(2, 0, 0)], &[]).unwrap();
    one.send(&sdu(500, 2));
    two.receive();
    assert_eq!(two.driver.statistics.dma_errors, 1);
}

#[test]
fn memory_in_a_file_that_is_none_is_refused_and_the_session_goes_on() {
    const UNSUPPORTED: u32 = 95;
    let world = World::new();
    let mut guest = world.guest(0);
    let (pipe, _far) = rustix::pipe::pipe().unwrap();
    // A file whose octets somebody makes when they are asked for, as those of FUSE are.
    let made = OwnedFd::from(std::fs::File::open("/proc/self/environ").unwrap());
    for file in [pipe, made] {
        let request = map_request(0x8000_0000, 4096);
        assert_eq!(guest.client.call(command::DMA_MAP, &[&request], &[&file]), Err(UNSUPPORTED));
    }
    assert_ne!(guest.client.read(r::REGISTERS_AT) & r::ID_ASIC, 0);
}

#[test]
fn what_dma_moves_takes_the_time_that_the_bus_takes() {
    const ENTRIES: u32 = 400;
    const ENTRY_OCTETS: u64 = 1 << 20;
    let world = World::new();
    let mut guest = world.guest(0);
    let client = &mut guest.client;
    let file = memfd_create("long", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&file, ENTRY_OCTETS).unwrap();
    client.call(command::DMA_MAP, &[&map_request(0x8000_0000, ENTRY_OCTETS)], &[&file]).unwrap();
    let read = client.read(r::REGISTERS_AT + 4 * r::DMA_RD_RX);
    // From the ring of VCI 40, which the driver has opened: bursts of 16 words.
    for n in 0..ENTRIES {
        let at = r::RAM_AT + r::RX_QUEUE + 8 * ((read + n) % r::DMA_ENTRIES);
        client.write(at, (ENTRY_OCTETS as u32 / 64) << 16 | 40 << 6 | 6);
        client.write(at + 4, 0x8000_0000);
    }
    let begin = Instant::now();
    client.write(r::REGISTERS_AT + 4 * r::DMA_WR_RX, (read + ENTRIES) % r::DMA_ENTRIES);
    let mut moved = 0;
    while moved < 20 {
        std::thread::sleep(Duration::from_millis(5));
        moved = client.read(r::REGISTERS_AT + 4 * r::DMA_RD_RX).wrapping_sub(read) % r::DMA_ENTRIES;
        // 7.5 ns for an octet, and what a late thread makes up for.
        let most = 2 + begin.elapsed().as_nanos() as u64 / (ENTRY_OCTETS * 7);
        assert!(u64::from(moved) <= most, "{moved} entries of 1 MiB in {:?}", begin.elapsed());
        assert!(begin.elapsed() < PATIENCE, "DMA stands still");
    }
}

/// Puts cells of VCI 40 on its link while it is up.
struct Spring;

impl Node for Spring {
    fn run(&mut self, io: &mut NodeIo<'_>, _: Time) -> bool {
        let room = io.cells_out(0);
        let n = room.len().min(64);
        room[..n].fill(Cell::new(CellHeader::from_word(40 << 4), [0; 48]));
        if !io.is_up(0) || n == 0 {
            return false;
        }
        io.commit(0, n);
        true
    }

    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    fn rests(&self) -> bool {
        false
    }

    fn as_any_mut(&mut self) -> &mut dyn std::any::Any {
        self
    }
}

#[test]
fn cells_under_way_to_a_client_that_goes_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("eni.sock");
    let mut network = Network::new(FramePool::new(4, 256));
    let node = network.add_node("spring", Box::new(Spring));
    let link = network.connect(End::Port(node, 0), End::External, LinkConfig::default()).unwrap();
    let server = Server::listen(&path, Config::default()).unwrap();
    assert!(network.attach(link, Box::new(Apart::start(server).unwrap())));
    let begin = Instant::now();
    let round = |network: &mut Network| {
        assert!(begin.elapsed() < PATIENCE, "it does not come to an end");
        let now = Time::ZERO + begin.elapsed();
        network.handle_ready(link, true, true, now);
        network.run(now);
        let delivered = network.link_info(link).unwrap().from_a.delivered.cells;
        (network.link_info(link).unwrap().up, delivered)
    };
    for _ in 0..20 {
        let client = UnixStream::connect(&path).unwrap();
        let (_, before) = round(&mut network);
        // In the middle of a stream.
        while round(&mut network).1 < before + 5000 {}
        drop(client);
        while round(&mut network).0 {}
    }
    let (_, delivered) = round(&mut network);
    let begin = Instant::now();
    loop {
        assert!(begin.elapsed() < PATIENCE, "not all of {delivered} cells are counted");
        round(&mut network);
        let (_, adapter) = network.externals().next().unwrap();
        let counters = adapter.counters();
        let of = |wanted: &str| counters.iter().find(|(name, _)| *name == wanted).unwrap().1;
        assert_eq!(of("passed").cells, delivered);
        let dropped = of("received").dropped(DropReason::LinkDown);
        let sum = of("line_received").cells + dropped;
        assert!(sum <= delivered, "{sum} of {delivered}");
        if sum == delivered {
            assert!(dropped > 0, "nothing was under way to a client that had gone");
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn requests_that_make_no_sense_are_answered_by_errors_and_the_session_goes_on() {
    const INVALID: u32 = 22;
    const EXISTS: u32 = 17;
    const UNSUPPORTED: u32 = 95;
    let world = World::new();
    let mut guest = world.guest(0);
    let client = &mut guest.client;
    assert_eq!(client.call(command::DMA_MAP, &[&map_request(MEMORY + 4096, 4096)], &[]), Err(EXISTS));
    assert_eq!(client.call(command::DMA_MAP, &[&[0; 8]], &[]), Err(INVALID));
    for (address, size) in [(0x8000_0000, 1), (0x8000_0800, 4096), (0x8000_0000, 4097)] {
        assert_eq!(client.call(command::DMA_MAP, &[&map_request(address, size)], &[]), Err(INVALID), "{size}");
    }
    assert_eq!(client.call(command::GET_REGION_INFO, &[&words(&[32, 0, 9, 0]), &[0; 16]], &[]), Err(INVALID));
    for (region, offset, count) in
        [(0, (4 << 20) - 3, 4), (7, 256, 1), (1, 0, 1), (9, 0, 0), (0, u64::MAX, 4), (0, 0, 1 << 20)]
    {
        let request = Client::region(region, offset, count);
        assert_eq!(client.call(command::REGION_READ, &[&request], &[]), Err(INVALID), "{region} {offset:#x} {count}");
    }
    // Fewer octets than it says.
    assert_eq!(client.call(command::REGION_WRITE, &[&Client::region(0, 0, 8), &[0; 4]], &[]), Err(INVALID));
    assert_eq!(client.call(command::SET_IRQS, &[&words(&[20, 1 | 32, 1, 0, 1])], &[]), Err(INVALID));
    assert_eq!(client.call(11, &[&[0; 16]], &[]), Err(UNSUPPORTED));
    assert_eq!(client.call(999, &[], &[]), Err(UNSUPPORTED));
    assert_ne!(client.read(r::REGISTERS_AT) & r::ID_ASIC, 0);
    client.call(command::RESET, &[], &[]).unwrap();
    guest.driver = Eni::probe(&mut guest.client, MEMORY, BUFFERS).unwrap();
}

#[test]
fn what_is_no_message_ends_the_connection_and_the_next_client_is_served() {
    let world = World::new();
    let path = world.folder.path().join("eni0.sock");
    let region_before_version = [&1u16.to_ne_bytes()[..], &9u16.to_ne_bytes(), &words(&[32, 0, 0]), &[0; 16]].concat();
    for garbage in
        [vec![0xff; 100], vec![0; 16], words(&[0, 15, 0, 0]), words(&[1, u32::MAX, 0, 0]), region_before_version]
    {
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // The server may have gone before all is written.
        let _ = stream.write_all(&garbage);
        assert_eq!(stream.read(&mut [0; 64]).unwrap_or(0), 0, "{garbage:02x?}");
    }
    assert_eq!(world.guest(0).driver.ram_octets, 512 << 10);
}

#[test]
fn a_message_may_come_an_octet_at_a_time() {
    let world = World::new();
    let mut stream = UnixStream::connect(world.folder.path().join("eni0.sock")).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let version = [&words(&[1 << 16 | 3, 22, 0, 0])[..], &[0, 0, 0, 0, b'{', b'}']].concat();
    for octet in version {
        stream.write_all(&[octet]).unwrap();
        std::thread::sleep(Duration::from_micros(200));
    }
    let mut header = [0; 16];
    stream.read_exact(&mut header).unwrap();
    assert_eq!((header[0], header[2], header[8]), (3, 1, 1));
}

#[test]
fn a_socket_in_use_is_refused_and_a_stale_one_is_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("eni.sock");
    let server = Server::listen(&path, Config::default()).unwrap();
    assert!(matches!(Server::listen(&path, Config::default()), Err(StartError::InUse(_))));
    drop(server);
    assert!(!path.exists());
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    Server::listen(&path, Config::default()).unwrap();
}
