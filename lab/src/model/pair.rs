//! Two PCs back to back, or one with its fibre looped, each with the ENI155P's model and its driver, on a modelled machine.
//!
//! The adapters, the driver, the segmentation and the line's pace are the real code, and every PDU is compared when it has
//! arrived; what the machine adds is time: copying, locking, interrupts at the processor, DMA at the I/O bus, both at the
//! memory bus. A ttcp sends a burst of PDUs of one size, another reads them (checklist A-49). Before a burst of datagrams goes a
//! small one, which starts the receiver's timer; where both run on one machine, its scheduler says who goes on.

use super::beside::Beside;
pub use super::carrier::Transport;
use super::carrier::{Arrival, Carrier, open};
use super::machine::{Level, Machine, Scheduler, Work, earlier};
use super::pair_record::{Moving, PairRecord};
use super::profile::{Profile, ProfileError};
use super::recorder::Timeline;
use crate::Trace;
use bus::memory::{HostMemory, Unmapped};
use eni155p::driver::{Aal, BUFFER_OCTETS, Direct, Eni, Rate};
use eni155p::{Config, Eni155p, Pace};
use std::collections::VecDeque;
use std::time::Duration;
use wire::{Cell, Time};

const MEMORY: u64 = 0x1000_0000;
const BUFFERS: u64 = 128;
const VCI: u32 = 100;
/// Processes of a machine that does both.
const WRITER: usize = 0;
const READER: usize = 1;
/// The system's own.
const SYSTEM: usize = 2;
/// The line is looked after once in so many nanoseconds; what was due meanwhile leaves in a row.
const LINE_NANOS: u64 = 20_000;
/// An experiment that takes longer than this, in virtual time, stands still.
const LIMIT: Time = Time::from_millis(600_000);

/// What is run.
#[derive(Debug, Clone)]
pub struct Scenario<'a> {
    /// Octets that the application writes each time.
    pub octets: usize,
    /// How many times.
    pub pdus: u64,
    /// Whether pages are locked and mapped instead of copied.
    pub single_copy: bool,
    /// Octets of each SDU that the sender and the receiver copy, where a driver has counted them; `single_copy` has no say then.
    pub copied: Option<[usize; 2]>,
    /// Whether the sender's own machine receives.
    pub loopback: bool,
    /// See there.
    pub transport: Transport,
    /// The sending machine.
    pub sender: &'a Profile,
    /// The receiving machine.
    pub receiver: &'a Profile,
    /// Quanta that writer and reader have left as they begin, where one machine runs both.
    pub quanta: [f64; 2],
    /// The rate that the sender's adapter paces the circuit at; the line's, if none.
    pub pace: Option<Rate>,
    /// The seed of when the system's own processes run ([`Beside`]); they sleep, if none.
    pub beside: Option<u64>,
}

impl<'a> Scenario<'a> {
    /// 8192 octets at a time by copying, from one machine to another, at the line's pace.
    pub fn new(sender: &'a Profile, receiver: &'a Profile, transport: Transport, pdus: u64) -> Self {
        let (octets, single_copy, loopback, quanta, pace, beside) = (8192, false, false, [1.0; 2], None, None);
        let copied = None;
        Scenario { octets, pdus, single_copy, copied, loopback, transport, sender, receiver, quanta, pace, beside }
    }
}

/// What came of it. Rates are of the application's octets, in 10^6 bit/s.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PairOutcome {
    /// The rate at which writes returned: ttcp's, which does not count the close.
    pub sent_mbit_s: f64,
    /// From the first read to the last.
    pub received_mbit_s: f64,
    /// From the first arrival to the last: what the network carried.
    pub carried_mbit_s: f64,
    /// Share of the PDUs that no read got.
    pub lost: f64,
    /// Milliseconds until the first PDU after the start datagram was in the receiver's memory.
    pub first_ms: f64,
    /// PDUs that arrived changed: none, or a state machine is broken.
    pub damaged: u64,
    /// Cells that were carried.
    pub cells: u64,
    /// Arrivals and their moments.
    pub trace: Trace,
}

#[derive(Debug, Clone, Copy)]
enum Token {
    Enqueued,
    Interrupt,
    Transfer,
    Read,
    /// TCP's acknowledgement may go.
    Acknowledged,
    /// A process of the system has done its work.
    System,
}

/// Times in seconds, rates in octets per second.
#[derive(Debug)]
struct Costs {
    /// Of a write, and per octet.
    enqueue: [f64; 2],
    send_interrupt: f64,
    /// Of a PDU that comes, and per octet that is summed.
    receive_interrupt: [f64; 2],
    /// Of a read, and per octet.
    read: [f64; 2],
    /// Octets that a read need not copy at the end of full pages, or 1.
    page: usize,
    /// Most octets that a read copies, where that is known.
    read_copies: Option<usize>,
    /// Of an acknowledgement's making.
    acknowledge: f64,
    transfer_out: f64,
    transfer_in: f64,
    /// Share of the memory bus while a transfer comes in; one that goes out takes all of it.
    in_share: f64,
    socket_octets: usize,
    ring_octets: u32,
    scheduler: Scheduler,
}

fn pass(fixed: f64, octets: usize, per_octet: f64) -> Work {
    Work::cached(fixed).and(Work { seconds: octets as f64 * per_octet, memory: 1.0 })
}

/// Seconds of an octet's copy out of the cache. ttcp sends one buffer over and over, so of a copy its stores are left: what a copy
/// takes longer than the transfer from memory to I/O, which loads as well (Table 1). A transfer may be slower than the loads, where
/// the I/O bus bounds it, and loads take no longer than stores: at least half of the copy is left.
fn store_seconds(copy_rate: f64, out_rate: f64) -> f64 {
    (1.0 / copy_rate - 1.0 / out_rate).max(0.5 / copy_rate)
}

impl Costs {
    fn new(p: &Profile, s: &Scenario<'_>) -> Result<Self, ProfileError> {
        let us = |name: &str| Ok(p.get(name)? * 1e-6);
        let rate = |name: &str| Ok(p.get(name)? * 1e6);
        let (copy_rate, out_rate, in_rate) = (rate("copy_mb_s")?, rate("memory_io_mb_s")?, rate("receive_dma_mb_s")?);
        let write = store_seconds(copy_rate, out_rate);
        let ip = s.transport != Transport::Raw;
        let sums = matches!(s.transport, Transport::Tcp | Transport::Udp { checksum: true });
        let [ip_send, ip_receive] = if ip { [us("ip_send_us")?, us("ip_receive_us")?] } else { [0.0; 2] };
        // What copies sums in the same pass (RFC 1071); what does not copy has to sum even so (section 3.1, note 4).
        let summed = if sums { 1.0 / rate("checksum_mb_s")? } else { 0.0 };
        let in_place = s.copied.map_or(s.single_copy, |[sent, _]| sent == 0);
        let enqueue = if in_place { [us("lock_us")? + ip_send, summed] } else { [us("allocate_us")? + ip_send, write] };
        // Half of what a PDU costs on arrival is spent in interrupts, half in the read. What is summed is summed before it is
        // queued, whether or not the socket has room (Linux 1.3: udp_rcv, tcp_rcv).
        let half = (us("receive_us")? + ip_receive) / 2.0;
        Ok(Costs {
            enqueue,
            send_interrupt: us("send_interrupt_us")?,
            receive_interrupt: [half, summed],
            read: [half, 1.0 / copy_rate],
            page: if s.single_copy { p.get("page_octets")? as usize } else { usize::MAX },
            read_copies: s.copied.map(|[_, received]| received),
            acknowledge: if s.transport == Transport::Tcp { us("allocate_us")? + ip_send } else { 0.0 },
            transfer_out: out_rate,
            transfer_in: in_rate,
            in_share: (in_rate / out_rate).min(1.0),
            socket_octets: p.get("socket_buffer_octets")? as usize,
            ring_octets: p.get("adapter_ring_octets")? as u32,
            scheduler: Scheduler { quantum: p.get("quantum_ms")? * 1e-3, slack: p.get("preemption_ms")? * 1e-3 },
        })
    }

    fn write(&self, octets: usize) -> Work {
        pass(self.enqueue[0], octets, self.enqueue[1])
    }

    /// Of a PDU of less than a page, and of a last page that is not full, the octets are copied even so.
    fn read(&self, octets: usize) -> Work {
        let copied = self.read_copies.map_or(octets % self.page, |copied| copied.min(octets));
        pass(self.read[0], copied, self.read[1])
    }
}

/// The driver's part of a host's memory. A buffer that nothing was written to takes none here.
struct Buffers {
    all: Vec<Vec<u8>>,
    /// Memory of buffers whose octets were taken, as good as new.
    spare: Vec<Vec<u8>>,
}

impl Buffers {
    fn new(count: u64) -> Self {
        Buffers { all: (0..count).map(|_| Vec::new()).collect(), spare: Vec::new() }
    }

    /// Which buffer, and where in it.
    fn place(&self, address: u64, octets: usize) -> Result<(usize, usize), Unmapped> {
        let at = address.checked_sub(MEMORY).ok_or(Unmapped { address })?;
        let (number, at) = ((at / BUFFER_OCTETS) as usize, (at % BUFFER_OCTETS) as usize);
        let inside = number < self.all.len() && at + octets <= BUFFER_OCTETS as usize;
        if inside { Ok((number, at)) } else { Err(Unmapped { address }) }
    }

    fn slice(&self, address: u64, octets: usize) -> Option<&[u8]> {
        let (number, at) = self.place(address, octets).ok()?;
        self.all[number].get(at..at + octets)
    }

    /// A whole buffer's memory, which gets other memory for it; what was written begins where it says.
    fn take(&mut self, address: u64, octets: usize) -> Option<Arrived> {
        let (number, at) = self.place(address, octets).ok()?;
        self.all[number].get(at..at + octets)?;
        let memory = std::mem::replace(&mut self.all[number], self.spare.pop().unwrap_or_default());
        Some(Arrived { memory, at, octets, buffer: number as u64 })
    }
}

impl HostMemory for Buffers {
    fn read(&mut self, address: u64, data: &mut [u8]) -> Result<(), Unmapped> {
        data.copy_from_slice(self.slice(address, data.len()).ok_or(Unmapped { address })?);
        Ok(())
    }

    fn write(&mut self, address: u64, data: &[u8]) -> Result<(), Unmapped> {
        let (number, at) = self.place(address, data.len())?;
        let buffer = &mut self.all[number];
        if buffer.is_empty() {
            buffer.resize(BUFFER_OCTETS as usize, 0);
        }
        buffer[at..at + data.len()].copy_from_slice(data);
        Ok(())
    }
}

/// A PDU in the memory that it came in.
#[derive(Default)]
struct Arrived {
    memory: Vec<u8>,
    at: usize,
    octets: usize,
    /// The number of the buffer that it lay in.
    buffer: u64,
}

impl Arrived {
    fn pdu(&self) -> &[u8] {
        &self.memory[self.at..][..self.octets]
    }
}

/// Counts what an adapter's bus master moves.
struct Meter<'a> {
    memory: &'a mut Buffers,
    read: usize,
    written: usize,
    /// The buffer that it read or wrote last.
    buffer: u64,
}

impl<'a> Meter<'a> {
    fn new(memory: &'a mut Buffers) -> Self {
        Meter { memory, read: 0, written: 0, buffer: 0 }
    }

    fn note(&mut self, address: u64) {
        self.buffer = address.saturating_sub(MEMORY) / BUFFER_OCTETS;
    }
}

impl HostMemory for Meter<'_> {
    fn read(&mut self, address: u64, data: &mut [u8]) -> Result<(), Unmapped> {
        self.read += data.len();
        self.note(address);
        self.memory.read(address, data)
    }

    fn write(&mut self, address: u64, data: &[u8]) -> Result<(), Unmapped> {
        self.written += data.len();
        self.note(address);
        self.memory.write(address, data)
    }
}

struct Host {
    machine: Machine<Token>,
    beside: Option<Beside>,
    carrier: Carrier,
    /// Acknowledgements that have been made and not sent; whether one is being made.
    made: u64,
    making: bool,
    adapter: Eni155p,
    driver: Eni,
    memory: Buffers,
    costs: Costs,
    /// What the bus moves.
    moving: Option<Moving>,
    interrupted: bool,
    /// PDUs that the interrupt in hand will put on the socket.
    arriving: Vec<Arrived>,
    line_at: Time,
    /// When cells leave next, as of the last look.
    due: Option<Time>,
}

impl Host {
    fn new(
        costs: Costs,
        carrier: Carrier,
        quanta: [f64; 2],
        rate: Option<Rate>,
        beside: Option<Beside>,
    ) -> Result<Self, ProfileError> {
        let pace = Pace::Line { tolerance: Duration::from_nanos(2 * LINE_NANOS) };
        let mut adapter = Eni155p::new(Config { pace, ..Config::default() });
        let mut bus = Direct { adapter: &mut adapter, now: Time::ZERO };
        let shape = |e: &dyn std::fmt::Display| ProfileError::Shape(format!("the adapter: {e}"));
        let mut driver = Eni::probe(&mut bus, MEMORY, BUFFERS).map_err(|e| shape(&e))?;
        driver.open(&mut bus, VCI, Aal::Aal5, costs.ring_octets, rate).map_err(|e| shape(&e))?;
        Ok(Host {
            // The system's processes have slept: as much left as a sleeper gathers.
            machine: Machine::scheduled(costs.scheduler, &[quanta[0], quanta[1], 2.0]),
            beside,
            carrier,
            made: 0,
            making: false,
            adapter,
            driver,
            memory: Buffers::new(2 * BUFFERS),
            costs,
            moving: None,
            interrupted: false,
            arriving: Vec::new(),
            line_at: Time::ZERO,
            due: None,
        })
    }

    fn line_due(&self) -> Option<Time> {
        self.adapter.next_transmit().map(|at| at.max(self.line_at))
    }

    fn start_transfer(&mut self) {
        while !self.machine.transfers() && self.adapter.dma_waits() {
            let mut meter = Meter::new(&mut self.memory);
            self.adapter.run_dma(&mut meter, 1);
            let costs = &self.costs;
            let leg = |octets: usize, rate: f64, memory: f64| Work { seconds: octets as f64 / rate, memory };
            let out = leg(meter.read, costs.transfer_out, 1.0);
            let work = out.and(leg(meter.written, costs.transfer_in, costs.in_share));
            if work.seconds > 0.0 {
                self.moving = Some(Moving { out: meter.read > 0, address: meter.buffer });
                let _ = self.machine.transfer(work, Token::Transfer);
            }
        }
    }
}

struct Run<'a> {
    scenario: &'a Scenario<'a>,
    hosts: Vec<Host>,
    /// How many writes there are: ttcp's datagrams come after a small one that starts the receiver's timer.
    total: u64,
    /// Written, arrived, read.
    written: u64,
    arrived: u64,
    /// Octets of the datagrams that wait to be read.
    socket: VecDeque<usize>,
    read: u64,
    dropped: u64,
    damaged: u64,
    reading: bool,
    writing: bool,
    /// Last written; started reading, last read; first arrived, last arrived.
    moments: [Time; 5],
    cells: u64,
    /// Cells that cross together.
    line: Box<[Cell; 32]>,
    trace: Trace,
    record: Option<PairRecord>,
}

/// A run, and what each unit did meanwhile.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// The same as without a record.
    pub outcome: PairOutcome,
    /// What each unit did, PDU by PDU.
    pub timeline: Timeline,
    /// Each machine's own account: seconds at interrupt level, in processes, of the I/O bus, of the memory bus.
    pub busy: Vec<[f64; 4]>,
}

/// The machines of a scenario with their costs.
fn machines(scenario: &Scenario<'_>) -> Result<Vec<(Costs, Option<Beside>)>, ProfileError> {
    let machines = if scenario.loopback { vec![scenario.sender] } else { vec![scenario.sender, scenario.receiver] };
    let of = |(number, machine): (usize, &Profile)| {
        let beside = scenario.beside.map(|seed| Beside::new(machine, seed.wrapping_add(number as u64)));
        Ok((Costs::new(machine, scenario)?, beside.transpose()?))
    };
    machines.into_iter().enumerate().map(of).collect()
}

/// All that the outcome of a scenario depends on, in words.
pub(super) fn depends_on(scenario: &Scenario<'_>) -> Result<String, ProfileError> {
    let Scenario { octets, pdus, single_copy, loopback, transport, quanta, pace, .. } = scenario;
    let rest = (octets, pdus, single_copy, loopback, transport, quanta, pace);
    Ok(format!("{:?} {rest:?}", machines(scenario)?))
}

/// Runs a scenario.
///
/// # Errors
/// A machine lacks a constant.
pub fn run(scenario: &Scenario<'_>) -> Result<PairOutcome, ProfileError> {
    Ok(execute(scenario, None)?.outcome)
}

/// Runs a scenario and records which unit worked on which PDU. The outcome is the one of [`run`].
///
/// # Errors
/// A machine lacks a constant.
pub fn run_recorded(scenario: &Scenario<'_>) -> Result<Recorded, ProfileError> {
    execute(scenario, Some(PairRecord::new(scenario.transport, scenario.loopback)))
}

fn execute(scenario: &Scenario<'_>, record: Option<PairRecord>) -> Result<Recorded, ProfileError> {
    let (mut hosts, tcp) = (Vec::new(), scenario.transport == Transport::Tcp);
    for (number, (costs, beside)) in machines(scenario)?.into_iter().enumerate() {
        let carrier = Carrier::new(scenario.transport, number, scenario.octets, costs.socket_octets);
        let carrier = carrier.ok_or_else(|| ProfileError::Shape("the stack has no such socket".into()))?;
        hosts.push(Host::new(costs, carrier, scenario.quanta, scenario.pace.filter(|_| number == 0), beside)?);
    }
    if record.is_some() {
        hosts.iter_mut().for_each(|host| host.machine.record());
    }
    if let [a, b] = &mut hosts[..] {
        open(&mut [&mut a.carrier, &mut b.carrier]);
    }
    let mut run = Run {
        scenario,
        hosts,
        total: scenario.pdus + u64::from(!tcp),
        written: 0,
        arrived: 0,
        socket: VecDeque::new(),
        read: 0,
        dropped: 0,
        damaged: 0,
        reading: false,
        writing: false,
        moments: [Time::ZERO; 5],
        cells: 0,
        line: Box::new([Cell::default(); 32]),
        trace: Trace::default(),
        record,
    };
    run.go();
    let bits = scenario.octets as f64 * 8.0 / 1e6;
    let over = |pdus: u64, span: Duration| bits * pdus as f64 / span.as_secs_f64().max(1e-9);
    let start = u64::from(!tcp);
    let [written, first, last, arrived_first, arrived_last] = run.moments;
    let outcome = PairOutcome {
        sent_mbit_s: over(run.written.saturating_sub(start), written.since(Time::ZERO)),
        received_mbit_s: over(run.read.saturating_sub(start), last.since(first)),
        carried_mbit_s: over(run.arrived.saturating_sub(1 + start), arrived_last.since(arrived_first)),
        lost: 1.0 - run.read.saturating_sub(start) as f64 / scenario.pdus.max(1) as f64,
        first_ms: arrived_first.as_secs_f64() * 1e3,
        damaged: run.damaged,
        cells: run.cells,
        trace: run.trace,
    };
    let busy = run.hosts.iter().map(|host| host.machine.busy()).collect();
    let timeline = run.record.map(PairRecord::finish).unwrap_or_default();
    Ok(Recorded { outcome, timeline, busy })
}

impl Run<'_> {
    fn go(&mut self) {
        let mut now = Time::ZERO;
        let mut tokens = Vec::new();
        loop {
            self.settle(now);
            if self.read + self.dropped == self.total {
                return;
            }
            let (mut work, mut woken) = (None, None);
            for host in &mut self.hosts {
                host.due = host.line_due();
                work = earlier(work, earlier(host.machine.poll_timeout(), host.due));
                woken = earlier(woken, host.beside.as_ref().map(Beside::poll_timeout));
            }
            // TCP's timers only where nothing else happens: they are milliseconds, all else is less.
            let timer = if work.is_some() {
                None
            } else {
                self.hosts.iter_mut().filter_map(|h| h.carrier.poll_timeout(now)).min()
            };
            let Some(next) = work.or(timer).filter(|at| *at < LIMIT) else { return };
            // A process of the system that wakes up is no reason to go on, but it comes first if it is first.
            now = now.max(woken.map_or(next, |woken| woken.min(next)));
            for at in 0..self.hosts.len() {
                self.hosts[at].machine.advance(now, |token| tokens.push((at, token)));
                if let Some(record) = &mut self.record {
                    record.advanced(at, self.hosts[at].machine.take_record());
                }
                self.hosts[at].carrier.handle_timeout(now);
                let host = &mut self.hosts[at];
                while let Some(work) = host.beside.as_mut().and_then(|beside| beside.handle_timeout(now)) {
                    host.machine.submit(Level::Task(SYSTEM), work, Token::System);
                }
            }
            for (at, token) in tokens.drain(..) {
                self.done(at, token, now);
            }
            self.carry(now);
        }
    }

    fn receiver(&mut self) -> usize {
        self.hosts.len() - 1
    }

    fn tcp(&self) -> bool {
        self.scenario.transport == Transport::Tcp
    }

    /// Tells the record what a finished piece of work was.
    fn note(&mut self, at: usize, token: Token, now: Time) {
        let Some(record) = &mut self.record else { return };
        match token {
            Token::Enqueued => record.wrote(at),
            Token::Interrupt => record.handled(at),
            Token::Transfer => record.transferred(at, self.hosts[at].moving, now),
            Token::Read => record.read(at),
            Token::Acknowledged => record.acknowledged(at),
            Token::System => record.system(at),
        }
    }

    fn done(&mut self, at: usize, token: Token, now: Time) {
        self.note(at, token, now);
        match token {
            Token::Enqueued => {
                self.hosts[at].carrier.write(now);
                self.written += 1;
                self.writing = false;
                self.moments[0] = now;
            }
            Token::Transfer | Token::System => {}
            Token::Interrupt => {
                self.hosts[at].interrupted = false;
                for arrived in std::mem::take(&mut self.hosts[at].arriving) {
                    self.arrive(at, arrived.pdu(), now);
                    self.hosts[at].memory.spare.push(arrived.memory);
                }
            }
            Token::Read => {
                if self.tcp() {
                    self.damaged += u64::from(!self.hosts[at].carrier.read(now));
                }
                self.read += 1;
                self.reading = false;
                // ttcp's timer starts with the start datagram; TCP's with the connection.
                if self.read == 1 && !self.tcp() {
                    self.moments[1] = now;
                }
                self.moments[2] = now;
            }
            Token::Acknowledged => {
                self.hosts[at].making = false;
                self.hosts[at].made += 1;
            }
        }
    }

    /// A PDU has come through the interrupt handler.
    fn arrive(&mut self, at: usize, pdu: &[u8], now: Time) {
        let host = &mut self.hosts[at];
        match host.carrier.handle_pdu(pdu, now) {
            Arrival::Segment => {}
            arrival => {
                self.damaged += u64::from(arrival == Arrival::Damaged);
                let octets = host.carrier.datagram_octets(self.arrived);
                self.arrived += 1;
                if self.arrived == 2 {
                    self.moments[3] = now;
                }
                self.moments[4] = now;
                let held: usize = self.socket.iter().sum();
                let udp = matches!(self.scenario.transport, Transport::Udp { .. });
                if udp && held + octets > host.costs.socket_octets {
                    self.dropped += 1;
                } else {
                    self.record.iter_mut().for_each(|record| record.queued(pdu));
                    self.socket.push_back(octets);
                }
            }
        }
    }

    /// Everything that can begin at this moment.
    fn settle(&mut self, now: Time) {
        let octets = self.scenario.octets;
        if !self.writing && self.written < self.total && self.hosts[0].carrier.takes_a_write() {
            self.writing = true;
            let host = &mut self.hosts[0];
            let octets =
                if self.total == self.scenario.pdus { octets } else { host.carrier.datagram_octets(self.written) };
            host.machine.submit(Level::Task(WRITER), host.costs.write(octets), Token::Enqueued);
        }
        let (receiver, tcp) = (self.receiver(), self.tcp());
        if !self.reading {
            let next =
                if tcp { self.hosts[receiver].carrier.readable().then_some(octets) } else { self.socket.pop_front() };
            if let Some(octets) = next {
                self.reading = true;
                self.record.iter_mut().for_each(PairRecord::reads);
                let host = &mut self.hosts[receiver];
                // Alone on its machine it has no one to wait for.
                host.machine.submit(Level::Task(READER), host.costs.read(octets), Token::Read);
            }
        }
        for at in 0..self.hosts.len() {
            self.send(at, tcp && at == receiver, now);
            self.hosts[at].start_transfer();
            self.interrupt(at, now);
        }
    }

    /// What can go to the driver. What a write makes is paid for by the write; an acknowledgement is made first.
    fn send(&mut self, at: usize, acknowledges: bool, now: Time) {
        let host = &mut self.hosts[at];
        while let Some(pdu) = host.carrier.pending(now) {
            if acknowledges && host.made == 0 {
                if !host.making {
                    host.making = true;
                    let work = Work::cached(host.costs.acknowledge);
                    host.machine.submit(Level::Interrupt, work, Token::Acknowledged);
                }
                return;
            }
            let mut bus = Direct { adapter: &mut host.adapter, now };
            let mut memory = Meter::new(&mut host.memory);
            if host.driver.send(&mut bus, &mut memory, VCI, pdu).is_err() {
                return;
            }
            self.record.iter_mut().for_each(|record| record.sent(at, memory.buffer, pdu));
            host.carrier.taken();
            host.made = host.made.saturating_sub(1);
        }
    }

    fn interrupt(&mut self, at: usize, now: Time) {
        let data = at == self.receiver();
        let host = &mut self.hosts[at];
        if host.interrupted || !host.adapter.interrupt(now) {
            return;
        }
        host.interrupted = true;
        let before = host.driver.in_flight()[0];
        host.driver.handle_interrupt(&mut Direct { adapter: &mut host.adapter, now });
        let sent = before.saturating_sub(host.driver.in_flight()[0]);
        let mut summed = 0;
        while let Some(received) = host.driver.poll_received() {
            self.trace.add(&now.as_nanos().to_be_bytes());
            let arrived = host.memory.take(received.address, received.octets).unwrap_or_default();
            let octets = arrived.pdu();
            self.trace.add(&octets[..octets.len().min(64)]);
            summed += if data { octets.len() } else { 0 };
            host.arriving.push(arrived);
            host.driver.release(received);
        }
        if let Some(record) = &mut self.record {
            record.interrupted(at, sent, host.arriving.iter().map(|arrived| (arrived.buffer, arrived.pdu())));
        }
        let costs = &host.costs;
        let fixed = sent as f64 * costs.send_interrupt + host.arriving.len() as f64 * costs.receive_interrupt[0];
        host.machine.submit(Level::Interrupt, pass(fixed, summed, costs.receive_interrupt[1]), Token::Interrupt);
    }

    /// Cells cross.
    fn carry(&mut self, now: Time) {
        let receiver = self.receiver();
        for at in 0..self.hosts.len() {
            if self.hosts[at].due.is_some_and(|due| due <= now) {
                let n = self.hosts[at].adapter.fill(&mut self.line[..], now);
                self.hosts[at].line_at = Time::from_nanos(now.as_nanos() + LINE_NANOS);
                let to = if at == 0 { receiver } else { 0 };
                self.hosts[to].adapter.handle_cells(&self.line[..n]);
                self.cells += n as u64;
                self.record.iter_mut().for_each(|record| record.crossed(at, &self.line[..n], now));
            }
        }
    }
}

#[cfg(test)]
mod tests;
