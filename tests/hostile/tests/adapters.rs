//! What a guest's machine hands to its virtual adapter, and how slow that may be.

use endpoint::SendError;
use eni155p::driver::Bus;
use eni155p::driver::{Aal, Eni};
use eni155p::vfio::protocol::{HEADER_OCTETS, command};
use hostile::{Attack, Class, Field, Program, Trial, lingering};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FallocateFlags, MemfdFlags, OFlags};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use std::io::{IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Where the guest's memory begins, as the adapter sees it, and how much there is: enough to take long to take away.
const MEMORY: u64 = 0x1000_0000;
const OCTETS: u64 = 512 << 20;

/// The innocent circuit 0.100, and a guest with circuit 0.101 from alpha.
fn field() -> Program {
    Program::up(
        "[adapter.eni0]\nhost = \"guest\"\nsocket = \"eni0.sock\"\n[host.alpha]\n[host.beta]\n[switch.s1]\n\
         [[link]]\nends = [\"alpha\", \"s1:0\"]\n[[link]]\nends = [\"beta\", \"s1:1\"]\n[[link]]\nends = [\"guest\", \"s1:2\"]\n\
         [[circuit]]\nends = [\"alpha 0.100\", \"beta 0.100\"]\n[[circuit]]\nends = [\"alpha 0.101\", \"guest 0.101\"]\n",
    )
}

/// A client of the adapter's socket that says what it likes.
struct Machine {
    stream: UnixStream,
    id: u16,
}

fn words(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|n| n.to_ne_bytes()).collect()
}

impl Machine {
    fn attach(field: &Program) -> Self {
        let stream = UnixStream::connect(field.socket().parent().unwrap().join("eni0.sock")).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        let mut machine = Machine { stream, id: 0 };
        machine.call(command::VERSION, &[&[0, 0, 1, 0], b"{\"capabilities\":{}}\0"], None).expect("a version");
        machine
    }

    fn send(&mut self, command: u16, flags: u32, parts: &[&[u8]], fd: Option<&OwnedFd>) {
        self.id = self.id.wrapping_add(1);
        let parts = parts.concat();
        let sizes = [(HEADER_OCTETS + parts.len()) as u32, flags, 0];
        let message = [&self.id.to_ne_bytes()[..], &command.to_ne_bytes(), &words(&sizes), &parts].concat();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut rights = SendAncillaryBuffer::new(&mut space);
        let fds: Vec<_> = fd.iter().map(|fd| fd.as_fd()).collect();
        if !fds.is_empty() {
            rights.push(SendAncillaryMessage::ScmRights(&fds));
        }
        let part = [IoSlice::new(&message)];
        if let Ok(n) = rustix::net::sendmsg(&self.stream, &part, &mut rights, SendFlags::NOSIGNAL) {
            let _ = self.stream.write_all(&message[n..]);
        }
    }

    /// The answer, if one comes and says yes.
    fn call(&mut self, command: u16, parts: &[&[u8]], fd: Option<&OwnedFd>) -> Option<Vec<u8>> {
        self.send(command, 0, parts, fd);
        let mut header = [0; HEADER_OCTETS];
        self.stream.read_exact(&mut header).ok()?;
        let word = |at: usize| u32::from_ne_bytes(header[at..at + 4].try_into().expect("four octets"));
        let mut reply = vec![0; word(4) as usize - HEADER_OCTETS];
        self.stream.read_exact(&mut reply).ok()?;
        (word(8) & 0x20 == 0).then_some(reply)
    }

    fn map(&mut self, octets: u64, file: &OwnedFd) -> bool {
        let numbers = [0, MEMORY, octets].map(u64::to_ne_bytes).concat();
        self.call(command::DMA_MAP, &[&words(&[32, 3]), &numbers], Some(file)).is_some()
    }

    /// An interrupt by this descriptor, and its signal at once.
    fn interrupt(&mut self, event: &OwnedFd) -> bool {
        let set = self.call(command::SET_IRQS, &[&words(&[20, 4 | 32, 0, 0, 1])], Some(event)).is_some();
        for _ in 0..3 {
            self.send(command::SET_IRQS, 16, &[&words(&[20, 1 | 32, 0, 0, 1])], None);
        }
        set
    }

    fn region(region: u32, offset: u64, count: usize) -> Vec<u8> {
        [&offset.to_ne_bytes()[..], &words(&[region, count as u32])].concat()
    }
}

impl Bus for Machine {
    fn config_read(&mut self, offset: usize, data: &mut [u8]) {
        let at = Self::region(7, offset as u64, data.len());
        data.copy_from_slice(&self.call(command::REGION_READ, &[&at], None).expect("a register")[16..]);
    }

    fn config_write(&mut self, offset: usize, data: &[u8]) {
        self.call(command::REGION_WRITE, &[&Self::region(7, offset as u64, data.len()), data], None);
    }

    fn read(&mut self, offset: u32) -> u32 {
        let reply = self.call(command::REGION_READ, &[&Self::region(0, offset.into(), 4)], None);
        reply.map_or(0, |reply| u32::from_ne_bytes(reply[16..20].try_into().expect("four octets")))
    }

    fn write(&mut self, offset: u32, value: u32) {
        self.send(command::REGION_WRITE, 16, &[&Self::region(0, offset.into(), 4), &value.to_le_bytes()], None);
    }
}

#[test]
fn an_interrupt_that_blocks_holds_up_nobody_else() {
    Trial::new(Class::Engine, field).withstand(|field, attack| {
        let mut machine = Machine::attach(field);
        // A pipe that is full.
        let (_far, pipe) = rustix::pipe::pipe().unwrap();
        rustix::fs::fcntl_setfl(&pipe, OFlags::NONBLOCK).unwrap();
        while rustix::io::write(&pipe, &[0; 4096]).is_ok() {}
        rustix::fs::fcntl_setfl(&pipe, OFlags::empty()).unwrap();
        assert!(!machine.interrupt(&pipe), "a pipe is no interrupt");
        // An eventfd that is.
        let event = rustix::event::eventfd(0, rustix::event::EventfdFlags::empty()).unwrap();
        rustix::io::write(&event, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        machine.interrupt(&event);
        attack.rest();
    });
}

#[test]
fn guest_memory_that_is_slow_to_write_holds_up_its_adapter_only() {
    fn attack_memory(field: &Program, attack: &Attack) {
        let mut machine = Machine::attach(field);
        let memory = rustix::fs::memfd_create("guest", MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&memory, OCTETS).unwrap();
        assert!(machine.map(OCTETS, &memory));
        let mut driver = Eni::probe(&mut machine, MEMORY, 64).unwrap();
        driver.open(&mut machine, 101, Aal::Aal5, 64 << 10, None).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                while attack.goes_on() {
                    // Each keeps everybody else out of the file until it is done.
                    rustix::fs::fallocate(&memory, FallocateFlags::empty(), 0, OCTETS).unwrap();
                    rustix::fs::fallocate(&memory, hole, 0, OCTETS).unwrap();
                }
            });
            let (mut sender, channel) = field.open("alpha", 101);
            while attack.goes_on() {
                match sender.send_copy(channel, &[1; 1500]) {
                    Ok(()) | Err(SendError::Full) => std::thread::sleep(Duration::from_millis(1)),
                    Err(error) => panic!("{error}"),
                }
                driver.handle_interrupt(&mut machine);
                while let Some(got) = driver.poll_received() {
                    driver.release(got);
                }
            }
        });
    }
    Trial::new(Class::Engine, field).withstand(attack_memory);
}

#[test]
fn a_guests_descriptors_that_take_long_to_close_hold_up_its_adapter_only() {
    Trial::new(Class::Engine, field).withstand(|field, attack| {
        let mut kept = Vec::new();
        let begin = Instant::now();
        while attack.goes_on() && begin.elapsed() < Duration::from_secs(2) {
            let (socket, far) = lingering(Duration::from_secs(1));
            kept.push(far);
            let Ok(stream) = UnixStream::connect(field.socket().parent().unwrap().join("eni0.sock")) else { continue };
            stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
            let mut machine = Machine { stream, id: 0 };
            machine.send(command::VERSION, 0, &[&[0, 0, 1, 0], b"{\"capabilities\":{}}\0"], None);
            machine.map(4096, &socket);
            // The last copy is the adapter's, and closed with the connection.
            drop((socket, machine));
        }
        attack.rest();
    });
}
