//! netperf between two hosts with the OC-12c board: the real board, its driver, its clock division and the real TCP in the
//! loop, on machines that charge for interrupts, looks, protocol and copies (Smith 2002, section 3.2).
//!
//! In: what things cost, how a host learns of what has come, a socket buffer, whether a process computes. Out: a rate, and
//! how often the host was interrupted or looked. Each octet is compared when netperf reads it. A segment crosses the memory
//! bus once each way: the processor moves it between the process and the board, which sums it, as the stack of HP's Bristol
//! laboratory does. [`super::compete`] asks the same of packets without a board and a TCP.

use super::compete::Notice;
use super::machine::{Level, Machine, Scheduler, Work};
use super::profile::{Profile, ProfileError};
use super::steady::{Rule, Steady};
use bus::iocc::{Memory, PAGE, Place, Process};
use oc12::driver::division::{Division, Missed};
use oc12::driver::{Driver, Header, Io, KERNEL_OCTETS, ReceivePath, Sdu, SendPath};
use oc12::{BLOCK_OCTETS, Config, Oc12, RECEIVED};
use smoltcp::iface::SocketHandle;
use stack::device::netstack::NetStack;
use stack::ip;
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::time::Duration;
use wire::{Cell, Time};

const VCI: u16 = 100;
const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];
const PORTS: [u16; 2] = [50_000, 12_865];
/// LLC/SNAP, IP, TCP; where TCP's header begins, and its checksum.
const HEADERS: usize = 8 + 20 + 20;
const TCP_AT: usize = 28;
const CHECKSUM_AT: usize = TCP_AT + 16;
/// What netperf writes and reads at once, at most.
const PIECE: usize = ip::MTU - 40;
/// The kernel's own clock.
const KERNEL_HERTZ: f64 = 100.0;
/// Cells whose time has come within so long leave in a row.
const LINE: Duration = Duration::from_micros(20);
/// The stack's process, and where a segment is in its memory.
const PROTOCOL: Process = Process(1);
const AT: u32 = 0x0010_0000;

const NETPERF: Level = Level::Task(0);
const COMPUTE: Level = Level::Task(1);
/// What a process that computes does in one piece, in seconds.
const COMPUTED: f64 = 1e-3;

/// What things cost, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    /// An interrupt, or a tick of the timer.
    pub interrupt: f64,
    /// A look at the board by a process.
    pub look: f64,
    /// Protocol work on a PDU, in the sender and in the receiver.
    pub protocol: [f64; 2],
    /// Copying an octet.
    pub octet: [f64; 2],
    /// A wake-up after another process.
    pub switch: f64,
    /// Who runs.
    pub scheduler: Scheduler,
}

impl Costs {
    /// Those of a machine, such that a segment of the MTU's length takes the receiver what its greatest throughput says.
    ///
    /// # Errors
    /// It lacks a constant.
    pub fn of(machine: &Profile) -> Result<Self, ProfileError> {
        let us = |name| Ok::<f64, ProfileError>(machine.get(name)? * 1e-6);
        let segment = machine.get("segment_octets")? * 8.0 / (machine.get("throughput_mbit_s")? * 1e6);
        let process = machine.get("process_share")?;
        // A sender works half as long: it neither waits nor copies twice.
        let of = [segment / 2.0, segment];
        Ok(Costs {
            interrupt: us("interrupt_us")?,
            look: us("poll_us")?,
            protocol: of.map(|seconds| seconds * (1.0 - process)),
            octet: of.map(|seconds| seconds * process / PIECE as f64),
            switch: us("switch_us")?,
            scheduler: Scheduler { quantum: machine.get("time_slice_ms")? * 1e-3, slack: 0.0 },
        })
    }
}

/// What is run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// How both hosts learn of what has come: [`Notice::Interrupt`], [`Notice::Clocked`] or [`Notice::Polling`].
    pub notice: Notice,
    /// See there.
    pub costs: Costs,
    /// Octets of the sockets' buffers.
    pub socket_octets: usize,
    /// Whether a process computes at both hosts.
    pub computes: bool,
}

/// What came of it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct NetperfOutcome {
    /// Of netperf's octets, 10^6 bit/s.
    pub mbit_s: f64,
    /// PDUs that the receiver's board took in, for each second.
    pub pdus: f64,
    /// Interrupts of the receiver's board, for each second.
    pub interrupts: f64,
    /// Interrupts of the receiver's timer, for each second.
    pub ticks: f64,
    /// Ticks of the receiver's own clock, for each second.
    pub clock: f64,
    /// How often each octet crossed the receiver's memory bus below the socket, mean.
    pub crossings: f64,
    /// Octets that were read otherwise than they were written, and segments with a wrong sum.
    pub damaged: u64,
}

#[derive(Debug, Clone, Copy)]
enum Token {
    /// An interrupt of the board, or a tick that looks at it, has been entered.
    Entered,
    /// A tick of the kernel's clock alone.
    Clock,
    /// Protocol work on a PDU is done.
    Protocol,
    /// netperf has written or read so many octets.
    Copied(usize),
    /// A polling netperf has looked.
    Looked,
    Computed,
}

#[derive(Debug)]
struct Host {
    number: usize,
    machine: Machine<Token>,
    board: Oc12,
    driver: Driver,
    memory: Memory,
    stack: NetStack,
    socket: SocketHandle,
    timer: Division,
    clock: usize,
    device: Option<usize>,
    /// Its handler is entered, or has PDUs in hand.
    serving: bool,
    in_hand: VecDeque<Vec<u8>>,
    /// netperf is at work, or sleeps.
    copying: bool,
    asleep: bool,
    /// A PDU that the driver has had no block for.
    held: Option<Vec<u8>>,
    line_at: Time,
    octets: u64,
    interrupts: u64,
    clock_ticks: u64,
    damaged: u64,
}

fn octet(at: u64) -> u8 {
    (at as u8).wrapping_mul(31) ^ (at >> 8) as u8
}

impl Host {
    fn new(number: usize, load: &Load) -> Option<Self> {
        let mut memory = Memory::new((KERNEL_OCTETS + 2 * BLOCK_OCTETS) / PAGE, 64);
        memory.grow(Process::default(), 0, KERNEL_OCTETS).ok()?;
        memory.grow(PROTOCOL, AT, BLOCK_OCTETS).ok()?;
        let mut board = Oc12::new(Config { catch_up: LINE, ..Config::default() });
        let mut driver = Driver::probe(&mut board, 0)?;
        driver.open(&mut board, VCI, HEADERS, Time::ZERO).ok()?;
        let hertz = if let Notice::Clocked(hertz) = load.notice { hertz.max(KERNEL_HERTZ) } else { KERNEL_HERTZ };
        // The timer goes as fast as the device is looked at, and the kernel's clock is divided from it. The second host's runs apart.
        let period = Duration::from_secs_f64(1.0 / hertz);
        let begins = Time::ZERO + period.mul_f64(number as f64 / 2.0);
        let mut timer = Division::new(period, begins);
        let clock = timer.add((hertz / KERNEL_HERTZ).round() as u32, Missed::MadeUpFor);
        let clocked = matches!(load.notice, Notice::Clocked(_));
        let device = clocked.then(|| timer.add(1, Missed::Forgotten));
        if load.notice == Notice::Interrupt {
            driver.set_interrupts(&mut board, RECEIVED, Time::ZERO);
        }
        let stack = NetStack::new(ADDRESSES[number], 24, ip::MTU, number as u64);
        let mut stack = stack.with_buffers(load.socket_octets);
        stack.ip().add_circuit(VCI.into(), Some(ADDRESSES[1 - number]), Time::ZERO);
        let socket = match number {
            0 => stack.connect(ADDRESSES[1], PORTS[1], PORTS[0]).ok()?,
            _ => stack.listen(PORTS[1]).ok()?,
        };
        stack.tcp_socket(socket).set_ack_delay(None);
        let mut machine = Machine::scheduled(load.costs.scheduler, &[1.0; 2]);
        if load.computes {
            machine.submit(COMPUTE, Work::cached(COMPUTED), Token::Computed);
        }
        Some(Host {
            number,
            machine,
            board,
            driver,
            memory,
            stack,
            socket,
            timer,
            clock,
            device,
            serving: false,
            in_hand: VecDeque::new(),
            copying: false,
            asleep: false,
            held: None,
            line_at: Time::ZERO,
            octets: 0,
            interrupts: 0,
            clock_ticks: 0,
            damaged: 0,
        })
    }

    /// Takes what is on the board: each PDU by the processor, its sum by the board.
    fn take(&mut self, now: Time) {
        let mut io = Io { board: &mut self.board, memory: &mut self.memory };
        self.driver.look(&mut io, usize::MAX, now);
        while let Some(arrival) = self.driver.poll_arrival() {
            let mut pdu = arrival.header().to_vec();
            if arrival.octets == 0 {
                self.driver.release(io.board, &arrival, now);
            } else {
                let to = Place { process: PROTOCOL, address: AT };
                let read = self.driver.read(&mut io, &arrival, to, arrival.octets, ReceivePath::Programmed, now);
                let split = pdu.len();
                pdu.resize(split + arrival.octets, 0);
                let loaded = io.memory.load(PROTOCOL, AT, &mut pdu[split..]);
                self.damaged += u64::from(read.is_err() || loaded.is_err());
            }
            while self.driver.poll_done().is_some() {}
            self.in_hand.push_back(pdu);
        }
    }

    /// What TCP has to send goes to the board, which makes its checksum.
    fn transmit(&mut self, now: Time) {
        while self.stack.run(now) {}
        let mut room = vec![0; ip::MTU + 64];
        loop {
            let pdu = match self.held.take() {
                Some(pdu) => pdu,
                None => {
                    let Some((_, octets)) = self.stack.poll_pdu(&mut room, now) else { return };
                    room[..octets].to_vec()
                }
            };
            if pdu.len() < HEADERS {
                continue;
            }
            let mut header = [0; HEADERS];
            header.copy_from_slice(&pdu[..HEADERS]);
            header[CHECKSUM_AT..CHECKSUM_AT + 2].copy_from_slice(&pseudo_header(&pdu).to_be_bytes());
            let header = Header { octets: &header, covers: TCP_AT, field: Some(CHECKSUM_AT) };
            let stored = self.memory.store(PROTOCOL, AT, &pdu[HEADERS..]);
            let from = Place { process: PROTOCOL, address: AT };
            let mut io = Io { board: &mut self.board, memory: &mut self.memory };
            let sdu = Sdu { vci: VCI, from, octets: pdu.len() - HEADERS, path: SendPath::Programmed };
            let written = self.driver.write(&mut io, sdu, header, now);
            while self.driver.poll_done().is_some() {}
            if stored.is_err() || written.is_err() {
                self.held = Some(pdu);
                return;
            }
        }
    }

    /// Octets that netperf can write or read now.
    fn ready(&mut self) -> usize {
        let number = self.number;
        let socket = self.stack.tcp_socket(self.socket);
        if number == 1 {
            return socket.recv_queue().min(PIECE);
        }
        let piece = PIECE.min(socket.send_capacity() / 2);
        let free = socket.send_capacity() - socket.send_queue();
        if socket.may_send() && free >= piece { piece } else { 0 }
    }

    fn copied(&mut self, octets: usize, now: Time) {
        let at = self.octets;
        self.octets += octets as u64;
        let socket = self.stack.tcp_socket(self.socket);
        if self.number == 0 {
            let data: Vec<u8> = (at..at + octets as u64).map(octet).collect();
            self.damaged += u64::from(socket.send_slice(&data) != Ok(octets));
        } else {
            let mut data = vec![0; octets];
            let got = socket.recv_slice(&mut data);
            let wrong = data.iter().zip(at..).filter(|(got, at)| **got != octet(*at)).count();
            self.damaged += wrong as u64 + u64::from(got != Ok(octets));
        }
        self.transmit(now);
    }

    /// netperf goes on, if it has something to do.
    fn process(&mut self, load: &Load, now: Time) {
        if self.copying {
            return;
        }
        if load.notice == Notice::Polling {
            self.copying = true;
            self.take(now);
            let protocol = self.in_hand.len() as f64 * load.costs.protocol[self.number];
            self.machine.submit(NETPERF, Work::cached(load.costs.look + protocol), Token::Looked);
            return;
        }
        let octets = self.ready();
        if octets == 0 {
            self.asleep = true;
            return;
        }
        let switch = if self.asleep && load.computes { load.costs.switch } else { 0.0 };
        (self.copying, self.asleep) = (true, false);
        let seconds = octets as f64 * load.costs.octet[self.number] + switch;
        self.machine.submit(NETPERF, Work::cached(seconds), Token::Copied(octets));
    }

    fn done(&mut self, token: Token, load: &Load, now: Time) {
        match token {
            Token::Entered => {
                self.take(now);
                self.serving = !self.in_hand.is_empty();
                for _ in 0..self.in_hand.len() {
                    let work = Work::cached(load.costs.protocol[self.number]);
                    self.machine.submit(Level::Interrupt, work, Token::Protocol);
                }
            }
            Token::Clock => {}
            Token::Protocol => {
                if let Some(pdu) = self.in_hand.pop_front() {
                    self.stack.handle_pdu(VCI.into(), &pdu, now);
                    self.transmit(now);
                }
                self.serving = !self.in_hand.is_empty();
            }
            Token::Copied(octets) => {
                self.copying = false;
                self.copied(octets, now);
            }
            Token::Looked => {
                while let Some(pdu) = self.in_hand.pop_front() {
                    self.stack.handle_pdu(VCI.into(), &pdu, now);
                }
                self.transmit(now);
                let octets = self.ready();
                if octets > 0 {
                    let work = Work::cached(octets as f64 * load.costs.octet[self.number]);
                    self.machine.submit(NETPERF, work, Token::Copied(octets));
                } else {
                    self.copying = false;
                }
            }
            Token::Computed => self.machine.submit(COMPUTE, Work::cached(COMPUTED), Token::Computed),
        }
    }

    /// The timer's interrupt, and the board's.
    fn interrupt(&mut self, load: &Load, now: Time) {
        let entered = Work::cached(load.costs.interrupt);
        if now >= self.timer.poll_timeout() {
            self.timer.handle_timeout(now);
            self.clock_ticks += self.timer.poll_due(self.clock);
            let looks = self.device.map_or(0, |device| self.timer.poll_due(device));
            if looks > 0 && !self.serving {
                self.serving = true;
                self.machine.submit(Level::Interrupt, entered, Token::Entered);
            } else {
                self.machine.submit(Level::Interrupt, entered, Token::Clock);
            }
        }
        if !self.serving && self.board.interrupt() {
            self.serving = true;
            self.interrupts += 1;
            self.machine.submit(Level::Interrupt, entered, Token::Entered);
        }
    }

    fn line_due(&self) -> Option<Time> {
        self.board.poll_timeout().map(|at| at.max(self.line_at))
    }

    fn poll_timeout(&mut self, now: Time) -> Time {
        let machine = self.machine.poll_timeout();
        let (line, stack) = (self.line_due(), self.stack.poll_timeout(now));
        let stack = stack.map(|at| at.max(now + LINE));
        [machine, line, stack].into_iter().flatten().min().unwrap_or(Time::MAX).min(self.timer.poll_timeout())
    }
}

/// The sum that TCP's checksum begins with.
fn pseudo_header(pdu: &[u8]) -> u16 {
    let mut sum = bus::crossings::InternetSum::default();
    sum.add(&pdu[20..28]);
    sum.add(&[0, 6]);
    sum.add(&((pdu.len() - TCP_AT) as u16).to_be_bytes());
    sum.value()
}

/// Two hosts at work.
struct Pair<'a> {
    load: &'a Load,
    hosts: [Host; 2],
    now: Time,
}

impl<'a> Pair<'a> {
    fn new(load: &'a Load) -> Option<Self> {
        let mut pair = Pair { load, hosts: [Host::new(0, load)?, Host::new(1, load)?], now: Time::ZERO };
        pair.hosts.iter_mut().for_each(|host| host.transmit(Time::ZERO));
        Some(pair)
    }

    /// Time passes until `end`.
    fn advance(&mut self, end: Time) {
        let (mut tokens, mut cells) = (Vec::new(), [Cell::default(); 64]);
        let Pair { load, hosts, now } = self;
        loop {
            for host in &mut *hosts {
                host.interrupt(load, *now);
                host.process(load, *now);
            }
            let next = hosts.iter_mut().map(|host| host.poll_timeout(*now)).min().unwrap_or(end);
            if next >= end {
                return;
            }
            *now = (*now).max(next);
            for at in 0..2 {
                hosts[at].machine.advance(*now, |token| tokens.push(token));
                for token in tokens.drain(..) {
                    hosts[at].done(token, load, *now);
                }
                if hosts[at].stack.poll_timeout(*now).is_some_and(|due| due <= *now) {
                    hosts[at].transmit(*now);
                }
                if hosts[at].line_due().is_some_and(|due| due <= *now) {
                    let n = hosts[at].board.fill(&mut cells, *now);
                    hosts[at].line_at = *now + LINE;
                    hosts[1 - at].board.handle_cells(&cells[..n], *now);
                }
            }
        }
    }

    /// What came of so many seconds.
    fn outcome(&self, seconds: f64) -> NetperfOutcome {
        let receiver = &self.hosts[1];
        let octets = receiver.octets;
        NetperfOutcome {
            mbit_s: octets as f64 * 8.0 / seconds / 1e6,
            pdus: receiver.board.received().pdus as f64 / seconds,
            interrupts: receiver.interrupts as f64 / seconds,
            ticks: receiver.timer.interrupts as f64 / seconds,
            clock: receiver.clock_ticks as f64 / seconds,
            crossings: receiver.memory.crossings().per_octet(octets),
            damaged: self.hosts.iter().map(|host| host.damaged).sum(),
        }
    }
}

/// Runs for so many seconds of virtual time; `None` if a socket cannot be made.
pub fn run(load: &Load, seconds: f64) -> Option<NetperfOutcome> {
    let mut pair = Pair::new(load)?;
    pair.advance(Time::ZERO + Duration::from_secs_f64(seconds));
    Some(pair.outcome(seconds))
}

/// Seconds of a batch: five of the scheduler's time slices, 25 ticks of a clock of 500 Hz.
const BATCH: Duration = Duration::from_millis(50);

/// Runs until the rate is steady by the rule, in batches of 50 ms; what came of all of it, the beginning included, beside the
/// rate. `None` if a socket cannot be made.
pub fn steady(load: &Load, rule: &Rule) -> Option<(NetperfOutcome, Steady)> {
    let (mut pair, mut end) = (Pair::new(load)?, Time::ZERO);
    let rate = rule.run(|| {
        end += BATCH;
        let before = pair.hosts[1].octets;
        pair.advance(end);
        Some((pair.hosts[1].octets - before) as f64 * 8.0 / BATCH.as_secs_f64() / 1e6)
    })?;
    Some((pair.outcome(rate.batches[1] as f64 * BATCH.as_secs_f64()), rate))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(notice: Notice, socket_octets: usize, computes: bool) -> NetperfOutcome {
        let machine = Profile::named("hp9000-755").unwrap();
        let costs = Costs::of(&machine).unwrap();
        run(&Load { notice, costs, socket_octets, computes }, 0.4).unwrap()
    }

    /// Smith 2002, section 3.2: a timer divided for the clock and for looks, TCP's octets compared, each method as the paper says.
    #[test]
    fn netperf_through_the_board_by_interrupts_by_a_divided_clock_and_by_polling() {
        const METHODS: [Notice; 4] =
            [Notice::Interrupt, Notice::Clocked(500.0), Notice::Clocked(2000.0), Notice::Polling];
        const SIZES: [usize; 3] = [16 << 10, 64 << 10, 256 << 10];
        let [alone, loaded] =
            [false, true].map(|computes| SIZES.map(|octets| METHODS.map(|notice| outcome(notice, octets, computes))));
        for (octets, outcomes) in SIZES.iter().zip(&alone).chain(SIZES.iter().zip(&loaded)) {
            println!("{octets}: {:.1?} Mbit/s by {METHODS:?}", outcomes.map(|outcome| outcome.mbit_s));
            for (notice, outcome) in METHODS.iter().zip(outcomes) {
                let said = format!("{octets} octets, {notice:?}: {outcome:?}");
                assert_eq!(outcome.damaged, 0, "{said}");
                // The clock keeps its 100 Hz however fast the timer goes.
                assert!((95.0..=100.0).contains(&outcome.clock), "{said}");
                let ticks = if let Notice::Clocked(hertz) = notice { *hertz } else { KERNEL_HERTZ };
                assert!((0.97 * ticks..=ticks).contains(&outcome.ticks), "{said}");
                let interrupts = *notice == Notice::Interrupt;
                assert!((outcome.interrupts > 0.0) == interrupts && outcome.interrupts <= outcome.pdus, "{said}");
                // Twice, and what has come and is not read yet.
                assert!((2.0..2.5).contains(&outcome.crossings), "{said}");
            }
        }
        let [small, large] = [0, 2].map(|size: usize| alone[size].map(|outcome| outcome.mbit_s));
        assert!(small[3] > small[0], "polling is best where buffers are small");
        assert!(small[1] < 0.7 * small[0], "a slow clock lets a small window wait for its ticks");
        assert!(large[2] > 0.9 * large[0], "a fast clock keeps up with interrupts");
        let large = loaded[2].map(|outcome| outcome.mbit_s);
        assert!(
            large[1] > large[0] && large[2] > large[0],
            "loaded, clocks are better, the fast one in the first second only"
        );
        assert_eq!(outcome(METHODS[1], SIZES[0], false), alone[0][1], "the same each time");
    }
    /// 256 KB beside a process that computes: at 500 Hz the rate is steady, at 2 kHz the first second is another than what follows.
    #[test]
    fn a_steady_rate_is_the_one_that_a_longer_run_goes_on_with_and_the_first_second_is_not() {
        let costs = Costs::of(&Profile::named("hp9000-755").unwrap()).unwrap();
        let load = |hertz| Load { notice: Notice::Clocked(hertz), costs, socket_octets: 256 << 10, computes: true };
        let rule = Rule { least: 60, most: 100, relative: 0.05 };
        let (slow, fast) = (load(500.0), load(2000.0));
        let (outcome, rate) = steady(&slow, &rule).unwrap();
        assert!(rate.met && outcome.damaged == 0, "{rate:?} {outcome:?}");
        let seconds = rate.batches[1] as f64 * BATCH.as_secs_f64();
        let (short, long) = (run(&slow, seconds).unwrap(), run(&slow, 2.0 * seconds).unwrap());
        let later = 2.0 * long.mbit_s - short.mbit_s;
        assert!((later / rate.mean - 1.0).abs() < 0.1, "{rate:?}, and {later} in as long a time behind it");
        let (_, rate) = steady(&fast, &rule).unwrap();
        let first = run(&fast, 0.8).unwrap().mbit_s;
        assert!(first > rate.interval()[1], "{first} in the first 0.8 s, {rate:?}");
    }
}
