//! Writes to the Segmenter of seed 001, on a modelled RS/6000: the real driver and the real card, each PDU compared.
//!
//! In: a machine, a way to write, octets and writes. Out: a rate, and how many PDUs came out as they went in. Every write
//! goes through [`penn::driver`] to [`penn::segmenter`]; the cells that leave are put on the lists of
//! [`penn::reassembly`] and what is read from there is compared with what was written. The machine charges system calls and copies
//! to the processor, and a burst of 16 words to the bus, which the I/O channel controller (IOCC) interrupts to load its
//! buffer; the card sends no cell whose octets have not crossed.

#[cfg(test)]
mod accesses;

use super::cards::Host;
use super::machine::{Level, Machine, Resource, Work};
use super::profile::{Profile, ProfileError};
use super::recorder::{Concern, Recorder, Span, Timeline};
use bus::memory::{Flat, HostMemory};
use core::time::Duration;
use penn::driver::{BUFFER_OCTETS, BUFFERS, Control, Overlap, Ticket, Variant, Written};
use penn::reassembly::{Config, Event, Reassembler};
use penn::segmenter::{Segmenter, register};
use penn::{IDLE, Streaming};
use wire::{Cell, CellRate, Time};

/// How a write goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Driver {
    /// Into a kernel buffer, which is then streamed; the call returns when the card is idle again.
    KernelBuffer,
    /// The same, but the call returns when streaming has begun: copying overlaps with streaming of the other buffer.
    DoubleBuffer,
    /// From the user's memory, mapped for the card; the call returns when the card is idle again.
    UserBuffer,
    /// The same with a bus and a line that take no time: the infinitely fast interface of figure 12.
    InfinitelyFast,
    /// From memory shared with the kernel, control passed without a system call, two regions in turn.
    Shared,
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WriteOutcome {
    /// Of the application's octets that came out as they went in, 10^6 bit/s.
    pub mbit_s: f64,
    /// The share of the time that the processor was busy with it.
    pub processor: f64,
    /// Cells that left.
    pub cells: u64,
    /// PDUs that came out as they went in.
    pub pdus: u64,
    /// PDUs that came out changed, and writes that the driver refused.
    pub damaged: u64,
}

const VCI: u16 = 100;
/// Where the application's two regions begin: behind the driver's buffers.
const USER: u32 = (BUFFERS * BUFFER_OCTETS) as u32;
/// What is written where, next time: an offset into the pattern, below this.
const OFFSETS: usize = 251;
/// No line at all, nearly: a cell each femtosecond.
const AT_ONCE: f64 = 1e15;

/// What the bus charges.
#[derive(Debug, Clone, Copy)]
struct Bus {
    burst: u32,
    word: f64,
    load: f64,
    /// Of the memory, bit/s.
    memory: f64,
}

impl Bus {
    fn new(machine: &Profile) -> Result<Self, ProfileError> {
        Ok(Bus {
            burst: machine.get("iocc_words")? as u32 * 4,
            word: machine.get("word_ns")? * 1e-9,
            load: machine.get("iocc_load_us")? * 1e-6,
            memory: machine.get("memory_gbit_s")? * 1e9,
        })
    }

    /// A burst. The set-up is hidden in the load: without that, 142 Mbit/s are not to be had (B-39 against B-40).
    fn work(&self, octets: u32) -> Work {
        let seconds = f64::from(octets.div_ceil(4)) * self.word + self.load;
        Work { seconds, memory: (f64::from(octets) * 8.0 / self.memory / seconds).min(1.0) }
    }
}

fn line(machine: &Profile) -> Result<CellRate, ProfileError> {
    let bits_per_s = 8.0 / (machine.get("line_octet_ns")? * 1e-9);
    Ok(CellRate::from_line_bits_per_s(bits_per_s).unwrap_or(CellRate::OC3C))
}

/// Writes to the card's registers, without a driver.
fn start(card: &mut Segmenter, octets: u32) {
    for (register, value) in [
        (register::SOURCE, 0),
        (register::LENGTH, octets),
        (register::HEADER, u32::from(VCI) << 4),
        (register::START, 1),
    ] {
        card.write(register, value, Time::ZERO);
    }
}

/// What the card itself does over the IOCC, of its own speed, 10^6 bit/s: one transfer, and no software.
///
/// # Errors
/// The machine lacks a constant.
pub fn hardware(machine: &Profile, octets: u32) -> Result<f64, ProfileError> {
    let (bus, mut card) = (Bus::new(machine)?, Segmenter::on_bus(line(machine)?));
    let (mut memory, mut cells) = (Flat::new(0, octets as usize), [Cell::default(); 8]);
    let (mut simulated, mut now) = (Machine::default(), Time::ZERO);
    start(&mut card, octets);
    loop {
        card.fill(&mut cells, &mut memory, now);
        let next = card.wanted(bus.burst);
        if next > 0 && !simulated.transfers() {
            let _ = simulated.transfer(bus.work(next), next);
        }
        let Some(at) = simulated.poll_timeout().into_iter().chain(card.poll_timeout()).min() else { break };
        now = now.max(at);
        simulated.advance(now, |octets| card.handle_bus(octets));
    }
    Ok(f64::from(octets) * 8.0 / now.as_secs_f64() / 1e6)
}

/// From card to card on the Micro Channel, no IOCC between, 10^6 bit/s: one transfer after one set-up.
///
/// # Errors
/// The machine lacks a constant.
pub fn card_to_card(machine: &Profile, octets: u32) -> Result<f64, ProfileError> {
    let ns = |name: &str| Ok(Duration::from_nanos(machine.get(name)? as u64));
    let streaming = Streaming { setup: ns("setup_ns")?, word: ns("word_ns")? };
    let at_once = CellRate::from_cells_per_s(AT_ONCE).unwrap_or(CellRate::OC3C);
    let mut card = Segmenter::on_line(streaming, at_once);
    let (mut memory, mut cells) = (Flat::new(0, octets as usize), [Cell::default(); 8]);
    let mut now = Time::ZERO;
    start(&mut card, octets);
    while let Some(at) = card.poll_timeout() {
        now = now.max(at);
        card.fill(&mut cells, &mut memory, now);
    }
    Ok(f64::from(octets) * 8.0 / now.as_secs_f64() / 1e6)
}

/// What the application writes: other octets each time, so that no PDU can be taken for another.
struct Pattern(Vec<u8>);

impl Pattern {
    fn new(octets: usize) -> Self {
        let octet = |i: usize| (i as u8).wrapping_mul(29) ^ (i >> 8) as u8;
        Pattern((0..octets + OFFSETS).map(octet).collect())
    }

    fn of(&self, pdu: u64, octets: usize) -> &[u8] {
        let offset = (pdu % OFFSETS as u64) as usize;
        &self.0[offset..offset + octets]
    }
}

/// The far end: cells to lists, lists to memory, and a comparison.
struct Receiver {
    lists: Reassembler,
    memory: Vec<u8>,
    octets: usize,
    waiting: usize,
    cells: u64,
    pdus: u64,
    damaged: u64,
}

impl Receiver {
    fn new(octets: usize) -> Option<Self> {
        let lists = Reassembler::new(Config { circuits: 4, pdus: 4, ..Config::default() }).ok()?;
        let memory = vec![0; octets.next_multiple_of(48)];
        Some(Receiver { lists, memory, octets, waiting: 0, cells: 0, pdus: 0, damaged: 0 })
    }

    /// PDUs that have come, as they went in or not.
    const fn come(&self) -> u64 {
        self.pdus + self.damaged
    }

    fn handle_cells(&mut self, cells: &[Cell], pattern: &Pattern, now: Time) {
        for cell in cells {
            self.cells += 1;
            let Event::Stored { list, .. } = self.lists.handle_cell(cell, now) else { continue };
            self.waiting += 1;
            if self.waiting * 48 < self.memory.len() {
                continue;
            }
            let read = self.lists.read_into(list, core::mem::take(&mut self.waiting), &mut self.memory);
            let (data, filling) = self.memory.split_at(self.octets);
            let same = read.octets == self.memory.len()
                && data == pattern.of(self.come(), self.octets)
                && filling.iter().all(|octet| *octet == 0);
            self.pdus += u64::from(same);
            self.damaged += u64::from(!same);
        }
    }
}

/// Work of others that comes at regular times, as an Ethernet's frames do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rival {
    /// Seconds from one piece to the next.
    pub interval: f64,
    /// Seconds at interrupt level.
    pub processor: f64,
    /// Seconds of the I/O bus.
    pub bus: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Token {
    Called,
    Crossed(u32),
    Rival,
    Handled,
}

/// What the application is at.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Doing {
    Nothing,
    /// The processor has its call.
    Call,
    /// Its octets are ready, and the driver is to be asked.
    Ask,
    Sleep(Ticket),
}

/// A host whose application writes. It receives nothing, so its clock has nothing to do: it does not tick within any run.
fn host(line: CellRate, variant: Variant) -> Option<Host> {
    let config = Config { circuits: 1, pdus: 1, slots: 1, ..Config::default() };
    let memory = USER as usize + 2 * BUFFER_OCTETS;
    let mut host = Host::new(Segmenter::on_bus(line), config, memory, Duration::from_secs(86_400))?;
    host.driver.control(host.file, Control::Vci(VCI), Time::ZERO).ok()?;
    host.driver.control(host.file, Control::Variant(variant), Time::ZERO).ok()?;
    Some(host)
}

/// What a call costs the processor.
fn call(machine: &Profile, driver: Driver, octets: usize, refill: bool) -> Result<Work, ProfileError> {
    let copy = octets as f64 * 8.0 / (machine.get("memory_gbit_s")? * 1e9);
    let constant = if driver == Driver::Shared { "shared_write_us" } else { "write_us" };
    let mut work = Work::cached(machine.get(constant)? * 1e-6);
    if matches!(driver, Driver::KernelBuffer | Driver::DoubleBuffer) {
        // What testwr writes is in the cache since it wrote it last: a copy costs the memory its writes only.
        work = work.and(Work { seconds: copy, memory: 1.0 });
    }
    if refill {
        work = work.and(Work { seconds: 2.0 * copy, memory: 1.0 });
    }
    Ok(work)
}

/// Writes `octets` octets, 65536 at most, `writes` times. `refill`: the application pays for copying a pattern into its
/// buffer before each; without, the octets are others each time even so, which is ours and costs nothing.
///
/// # Errors
/// The machine lacks a constant.
pub fn run(
    machine: &Profile,
    driver: Driver,
    octets: usize,
    writes: u64,
    refill: bool,
) -> Result<WriteOutcome, ProfileError> {
    go(machine, driver, octets, writes, refill, None, None)
}

/// The same, and which unit worked on which PDU.
///
/// # Errors
/// The machine lacks a constant.
pub fn run_recorded(
    machine: &Profile,
    driver: Driver,
    octets: usize,
    writes: u64,
) -> Result<(WriteOutcome, Timeline), ProfileError> {
    let mut record = WriteRecord::new(octets);
    let outcome = go(machine, driver, octets, writes, false, None, Some(&mut record))?;
    Ok((outcome, record.recorder.finish()))
}

/// Which PDU each unit is at: calls, octets and cells are in the order of the PDUs.
struct WriteRecord {
    recorder: Recorder,
    octets: u64,
    cells: u64,
    called: u64,
    crossed: u64,
    left: u64,
    since: Time,
}

/// Units of a write.
const UNITS: [&str; 4] = ["application and driver", "interrupts", "bus and IOCC", "card and line"];

impl WriteRecord {
    fn new(octets: usize) -> Self {
        let recorder = Recorder::new(UNITS.map(String::from));
        let (octets, cells) = (octets as u64, octets.div_ceil(48) as u64);
        WriteRecord { recorder, octets, cells, called: 0, crossed: 0, left: 0, since: Time::ZERO }
    }

    fn note(&mut self, token: Token) {
        let (unit, what, pdu) = match token {
            Token::Called => {
                self.called += 1;
                (0, "write: call and copy", Some(self.called - 1))
            }
            Token::Crossed(octets) => {
                let pdu = self.crossed / self.octets;
                self.crossed += u64::from(octets);
                (2, "burst over the bus", Some(pdu))
            }
            Token::Rival => (2, "other work", None),
            Token::Handled => (1, "other work", None),
        };
        self.recorder.finished(unit, what, pdu.map(|pdu| [pdu; 2]));
    }

    fn left(&mut self, cells: usize, now: Time) {
        for _ in 0..cells {
            let (pdu, of) = (self.left / self.cells, self.left % self.cells);
            self.left += 1;
            self.since = if of == 0 { now } else { self.since };
            if of + 1 == self.cells {
                let (pdus, concern, from) = (Some([pdu; 2]), Concern::Holds, self.since);
                let what = "first to last cell";
                self.recorder.add(Span { unit: 3, what, pdus, concern, from, to: now, cells: self.cells });
            }
        }
    }
}

/// The same beside other work.
///
/// # Errors
/// The machine lacks a constant.
pub fn run_beside(
    machine: &Profile,
    driver: Driver,
    octets: usize,
    writes: u64,
    rival: Option<Rival>,
) -> Result<WriteOutcome, ProfileError> {
    go(machine, driver, octets, writes, false, rival, None)
}

fn go(
    machine: &Profile,
    driver: Driver,
    octets: usize,
    writes: u64,
    refill: bool,
    rival: Option<Rival>,
    mut record: Option<&mut WriteRecord>,
) -> Result<WriteOutcome, ProfileError> {
    let (bus, work) = (Bus::new(machine)?, call(machine, driver, octets, refill)?);
    let variant = match driver {
        Driver::KernelBuffer => Variant::KernelIdle,
        Driver::DoubleBuffer => Variant::Kernel,
        Driver::UserBuffer | Driver::InfinitelyFast => Variant::User(Overlap::Block),
        Driver::Shared => Variant::User(Overlap::Trust),
    };
    let at_once = driver == Driver::InfinitelyFast;
    let line = if at_once { CellRate::from_cells_per_s(AT_ONCE) } else { Some(line(machine)?) };
    let none = WriteOutcome { mbit_s: 0.0, processor: 0.0, cells: 0, pdus: 0, damaged: writes };
    let (Some(mut host), Some(mut receiver)) =
        (line.and_then(|line| host(line, variant)), Receiver::new(octets).filter(|_| octets <= BUFFER_OCTETS))
    else {
        return Ok(none);
    };
    let pattern = Pattern::new(octets);
    let mut cells = [Cell::default(); 8];
    let mut simulated = Machine::default();
    if record.is_some() {
        simulated.record();
    }
    let (mut now, mut called, mut doing) = (Time::ZERO, 0u64, Doing::Nothing);
    let (mut pieces, mut waiting) = (0u64, 0u64);
    let due = |pieces: u64| rival.map(|r| Time::from_nanos((pieces as f64 * r.interval * 1e9) as u64));
    while receiver.come() < writes {
        loop {
            if at_once {
                let octets = host.segmenter.wanted(bus.burst);
                host.segmenter.handle_bus(octets);
            }
            let n = host.segmenter.fill(&mut cells, &mut host.memory, now);
            if n == 0 {
                break;
            }
            receiver.handle_cells(&cells[..n], &pattern, now);
            record.iter_mut().for_each(|record| record.left(n, now));
            host.with(|driver, cards, _| driver.handle_timeout(cards, now));
        }
        if matches!(doing, Doing::Sleep(ticket) if host.driver.is_written(ticket)) {
            doing = Doing::Nothing;
        }
        if doing == Doing::Ask {
            let address = USER + (called % 2) as u32 * BUFFER_OCTETS as u32;
            // A region is written to only when nothing of it is to be sent any more: two are in turn.
            let filled = host.memory.write(address.into(), pattern.of(called, octets));
            let written = host.with(|driver, cards, file| {
                filled?;
                driver.write(cards, file, address, octets, now)
            });
            doing = match written {
                Ok(Written::Wait) => Doing::Ask,
                Ok(Written::Until(ticket)) => Doing::Sleep(ticket),
                Ok(Written::Done) => Doing::Nothing,
                Err(_) => return Ok(none),
            };
            called += u64::from(doing != Doing::Ask);
        }
        // A copy needs its kernel buffer first; shared memory is made ready while the other region is streamed.
        let ready = driver == Driver::Shared || host.driver.would_wait(host.file) == Ok(false);
        if doing == Doing::Nothing && called < writes && ready {
            doing = Doing::Call;
            simulated.submit(Level::Process, work, Token::Called);
        }
        if let Some(rival) = rival {
            while due(pieces).is_some_and(|due| due <= now) {
                (pieces, waiting) = (pieces + 1, waiting + 1);
            }
            // Arbitration: who waits goes before the card's next burst.
            if waiting > 0 && simulated.transfer(Work::cached(rival.bus), Token::Rival).is_ok() {
                waiting -= 1;
            }
        }
        let next = host.segmenter.wanted(bus.burst);
        if next > 0 && !at_once && !simulated.transfers() {
            let _ = simulated.transfer(bus.work(next), Token::Crossed(next));
        }
        let others = host.segmenter.poll_timeout().into_iter().chain(due(pieces));
        let Some(at) = simulated.poll_timeout().into_iter().chain(others).min() else {
            if at_once && host.segmenter.read(register::STATUS) & IDLE == 0 {
                continue;
            }
            break;
        };
        now = now.max(at);
        let (mut moved, mut done) = (false, [None; 2]);
        simulated.advance(now, |token| {
            done[usize::from(done[0].is_some())] = Some(token);
            match token {
                Token::Called => doing = Doing::Ask,
                Token::Crossed(octets) => host.segmenter.handle_bus(octets),
                Token::Rival => moved = true,
                Token::Handled => {}
            }
        });
        if let Some(record) = &mut record {
            let unit = |resource| match resource {
                Resource::Task(_) => 0,
                Resource::Interrupts => 1,
                Resource::Transfer => 2,
            };
            record.recorder.advanced(simulated.take_record(), unit);
            done.into_iter().flatten().for_each(|token| record.note(token));
        }
        // What has crossed interrupts.
        if let (true, Some(rival)) = (moved, rival) {
            simulated.submit(Level::Interrupt, Work::cached(rival.processor), Token::Handled);
        }
    }
    let seconds = now.as_secs_f64().max(1e-12);
    Ok(WriteOutcome {
        mbit_s: octets as f64 * 8.0 * receiver.pdus as f64 / seconds / 1e6,
        processor: (simulated.busy()[0] + simulated.busy()[1]) / seconds,
        cells: receiver.cells,
        pdus: receiver.pdus,
        damaged: writes - receiver.pdus,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAYS: [Driver; 5] =
        [Driver::KernelBuffer, Driver::DoubleBuffer, Driver::UserBuffer, Driver::InfinitelyFast, Driver::Shared];

    fn machine() -> Profile {
        Profile::named("rs6000-320").unwrap()
    }

    #[test]
    fn every_octet_comes_out_of_the_card_as_it_was_written() {
        for driver in WAYS {
            for octets in [1, 48, 50, 1000, 1024, 65_535, 65_536] {
                let outcome = run(&machine(), driver, octets, 9, false).unwrap();
                let cells = 9 * octets.div_ceil(48) as u64;
                assert_eq!(
                    (outcome.pdus, outcome.damaged, outcome.cells),
                    (9, 0, cells),
                    "{driver:?}, {octets} octets"
                );
            }
            let long = run(&machine(), driver, 65_537, 3, false).unwrap();
            assert_eq!((long.pdus, long.damaged), (0, 3), "the driver's buffers hold 64 KB");
        }
    }

    #[test]
    fn what_others_take_of_bus_and_processor_is_missing_and_every_octet_still_comes() {
        let m = machine();
        let rate = |rival| {
            let outcome = run_beside(&m, Driver::UserBuffer, 65_536, 8, rival).unwrap();
            assert_eq!((outcome.pdus, outcome.damaged), (8, 0));
            outcome.mbit_s
        };
        let alone = rate(None);
        let half = rate(Some(Rival { interval: 200e-6, processor: 0.0, bus: 100e-6 }));
        assert!(half < 0.7 * alone && half > 0.4 * alone, "half of the bus: {half} of {alone}");
        let busy = rate(Some(Rival { interval: 200e-6, processor: 100e-6, bus: 1e-9 }));
        assert!(busy < 0.95 * alone && busy > 0.8 * alone, "half of the processor: {busy} of {alone}");
    }

    #[test]
    fn an_octet_that_changes_on_the_way_is_seen() {
        let (pattern, mut receiver) = (Pattern::new(100), Receiver::new(100).unwrap());
        let mut card = Segmenter::on_line(Streaming::MICRO_CHANNEL, CellRate::OC3C);
        for damage in [false, true, false] {
            let mut memory = Flat::new(0, 100);
            memory.write(0, pattern.of(receiver.come(), 100)).unwrap();
            start(&mut card, 100);
            let mut cells = [Cell::default(); 3];
            let mut n = 0;
            while let Some(at) = card.poll_timeout() {
                n += card.fill(&mut cells[n..], &mut memory, at);
            }
            cells[1].payload[7] ^= u8::from(damage);
            receiver.handle_cells(&cells, &pattern, Time::ZERO);
        }
        assert_eq!((receiver.pdus, receiver.damaged), (2, 1));
    }

    #[test]
    fn copying_beside_streaming_is_faster_than_before_it_and_an_oc3c_line_is_slower_than_the_iocc() {
        let of = |machine: &Profile, driver| run(machine, driver, 65_536, 32, false).unwrap().mbit_s;
        let fast = machine();
        assert!(of(&fast, Driver::DoubleBuffer) > 1.2 * of(&fast, Driver::KernelBuffer));
        let mut oc3c = machine();
        oc3c.constants.get_mut("line_octet_ns").unwrap().value = 8e9 / 149.76e6;
        let (line, iocc) = (of(&oc3c, Driver::UserBuffer), of(&fast, Driver::UserBuffer));
        // 409.6 us and 1366 cells of 2831.2 ns; 409.6 us and 1024 loads of 3.6 us.
        assert!((line - 122.6).abs() < 0.3 && (iocc - 128.0).abs() < 0.3, "{line} and {iocc} Mbit/s");
        assert!(hardware(&oc3c, 65_536).unwrap() < 135.6);
    }
}
