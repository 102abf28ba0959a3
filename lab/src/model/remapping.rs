//! SDUs through two ENI155P with the driver that maps pages, and cells into a just-in-time adapter with its driver: each mechanism of
//! Almesberger (1995) with and without.
//!
//! In: which mechanisms there are, what is sent, how the application's buffers lie. Out: what was copied and mapped, and how often each
//! octet crossed the memory's bus, by the counts of the real drivers and their memory. Every SDU is compared when its application has it.
//! There is no time here: [`super::pair`] takes what is copied and makes rates of it.

use bus::crossings::Crosser;
use bus::iocc::PAGE;
use bus::paged::Paged;
use bus::sockets::Whose;
use eni155p::driver::single_copy::{self, SingleCopy};
use eni155p::driver::{Aal, BUFFER_OCTETS, Direct, Eni};
use eni155p::{Config, Eni155p, Pace, RamSize};
use jit::driver::JitHost;
use jit::{Config as JitConfig, Jit};
use remap::layers::{Flow, Sizes, UDP, udp_pdu};
use remap::spaces::{Overlap, Process};
use sar::{SduMeta, Segmentation};
use wire::{Cell, CircuitId, Time};

const BASE: u64 = 0x1000_0000;
const BUFFERS: u64 = 4;
/// Octets before each PDU that the host keeps control information in.
const CONTROL: usize = 32;
/// Pages that a side receives into.
pub const PAGES: u32 = 64;
const USER: Process = Process(1);
/// Where a process makes its SDUs, and where it wants them: pages of their own.
const FROM: u64 = 0x10_0000;
const TO: u64 = 0x20_0000;
const ROOM: usize = 20 * PAGE;
const VCI: u16 = 100;
const PORT: u16 = 5001;
/// LLC/SNAP, IP without options, UDP.
pub const HEADERS: usize = 36;

/// What is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Work {
    /// Octets of an SDU.
    pub octets: usize,
    /// A UDP datagram over LLC/SNAP, on a circuit that applications share; else the SDU alone, on a circuit of its own.
    pub udp: bool,
    /// Of how many datagrams one has IP options; 0 is none of them.
    pub options: u64,
    /// Octets behind a datagram, which AAL5's length counts and UDP's does not.
    pub padding: usize,
    /// Where the application's buffers begin in their page.
    pub placement: usize,
    /// The application posts its buffers before the data come.
    pub ahead: bool,
}

impl Work {
    /// SDUs alone, to buffers that begin with a page.
    pub const fn raw(octets: usize) -> Self {
        Work { octets, udp: false, options: 0, padding: 0, placement: 0, ahead: false }
    }

    /// UDP datagrams, the same.
    pub const fn udp(octets: usize) -> Self {
        Work { udp: true, ..Self::raw(octets) }
    }
}

/// What it took, for each SDU.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Moved {
    /// Octets that sender and receiver copied.
    pub copied: [f64; 2],
    /// Pages that became the application's.
    pub mapped: f64,
    /// How often each octet of an SDU crossed the sender's memory bus, and the receiver's; headers count as well.
    pub crossings: [f64; 2],
    /// PDUs that the interrupt handler guessed right, and ones that all layers were processed for.
    pub predicted: f64,
    /// See there.
    pub slow: f64,
    /// SDUs that did not arrive, or arrived changed: none.
    pub damaged: u64,
    /// Cells that were carried.
    pub cells: u64,
}

/// What waits for an application that does not read.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Held {
    /// SDUs that found pages.
    pub sdus: u64,
    /// Pages that each of them took.
    pub pages: f64,
    /// SDUs that were not as they were sent when they were read at last: none.
    pub damaged: u64,
    /// Cells that were carried.
    pub cells: u64,
}

struct Side {
    adapter: Eni155p,
    driver: Eni,
    host: SingleCopy,
}

impl Side {
    fn new(mechanisms: single_copy::Mechanisms) -> Option<Self> {
        let mut adapter = Eni155p::new(Config { pace: Pace::Unpaced, ram: RamSize::Mb2, ..Config::default() });
        let mut bus = Direct { adapter: &mut adapter, now: Time::ZERO };
        let mut memory = Paged::new(BASE, 320, Overlap::Copy);
        let (_, own) = memory.hold((2 * BUFFERS * BUFFER_OCTETS) as u32 / PAGE as u32)?;
        let mut driver = Eni::probe(&mut bus, own, BUFFERS).ok()?;
        driver.open(&mut bus, VCI.into(), Aal::Aal5, 128 << 10, None).ok()?;
        let mut host = SingleCopy::new(&mut driver, memory, PAGES, CONTROL)?;
        host.use_only(&mut driver, mechanisms);
        for address in [FROM, TO] {
            host.memory.grow(USER, address, ROOM).ok()?;
        }
        Some(Side { adapter, driver, host })
    }

    /// DMA and interrupts until nothing is left to do.
    fn settle(&mut self) {
        loop {
            while self.adapter.run_dma(&mut self.host.memory, 1 << 16) {}
            if !self.adapter.interrupt(Time::ZERO) {
                return;
            }
            self.driver.handle_interrupt(&mut Direct { adapter: &mut self.adapter, now: Time::ZERO });
            self.host.finish_sent(&mut self.driver);
        }
    }
}

fn pattern(octets: usize, seed: u64) -> Vec<u8> {
    (0..octets).map(|i| (i as u8).wrapping_mul(31) ^ (i >> 8) as u8 ^ seed as u8).collect()
}

/// Octets of the `n`th datagram's IP options, where one of so many has some.
const fn options_of(one_of: u64, n: u64) -> usize {
    if one_of > 0 && n % one_of == one_of - 1 { 4 } else { 0 }
}

impl Work {
    /// The `n`th SDU: its data, and the PDU that they are in.
    fn sdu(&self, n: u64) -> (Vec<u8>, Vec<u8>) {
        let data = pattern(self.octets, n);
        let mut pdu = if self.udp { udp_pdu(PORT, options_of(self.options, n), &data) } else { data.clone() };
        pdu.resize(pdu.len() + self.padding, 0);
        (data, pdu)
    }

    const fn whose(&self) -> Whose {
        match self.udp {
            true => Whose::Flow(Flow { protocol: UDP, port: PORT }),
            false => Whose::Circuit(VCI as u32),
        }
    }
}

/// Sends a PDU from one side's memory to the other one's; the cells that it took.
fn carry(a: &mut Side, b: &mut Side, pdu: &[u8]) -> Option<u64> {
    a.host.memory.store(USER, FROM, pdu).ok()?;
    let bus = &mut Direct { adapter: &mut a.adapter, now: Time::ZERO };
    a.host.send(&mut a.driver, bus, VCI.into(), (USER, FROM, pdu.len())).ok()?;
    a.settle();
    let (mut carried, mut cells) = (0, [Cell::default(); 32]);
    while a.adapter.next_transmit().is_some() {
        let n = a.adapter.fill(&mut cells, Time::ZERO);
        carried += n as u64;
        b.adapter.handle_cells(&cells[..n]);
        a.settle();
        b.settle();
    }
    Some(carried)
}

/// Sends so many SDUs, 64 at most, to an application that reads none of them until all have been sent; `None`, if there is no such
/// adapter.
pub fn held(mechanisms: single_copy::Mechanisms, work: Work, sdus: u64) -> Option<Held> {
    let (mut a, mut b) = (Side::new(mechanisms)?, Side::new(mechanisms)?);
    b.host.bind(&mut b.driver, work.whose(), USER, Sizes::default());
    let mut held = Held::default();
    for n in 0..sdus {
        held.cells += carry(&mut a, &mut b, &work.sdu(n).1)?;
        // Nobody has posted a buffer: what has come waits.
        held.damaged += u64::from(b.host.poll_completed(&mut b.driver).is_some());
    }
    held.sdus = sdus - b.driver.statistics.no_buffer;
    held.pages = f64::from(PAGES - b.driver.pages()) / held.sdus.max(1) as f64;
    for n in 0..held.sdus {
        let completed = b.host.post(&mut b.driver, work.whose(), TO, ROOM);
        let got = b.host.memory.load(USER, TO, work.octets).ok()?;
        let whole = completed.is_some_and(|completed| completed.delivered.octets == work.octets);
        held.damaged += u64::from(!whole || got != work.sdu(n).0);
    }
    Some(held)
}

/// Runs so many SDUs, one after the other; `None`, if there is no such adapter.
pub fn buffering(mechanisms: single_copy::Mechanisms, work: Work, sdus: u64) -> Option<Moved> {
    let (mut a, mut b) = (Side::new(mechanisms)?, Side::new(mechanisms)?);
    let whose = work.whose();
    b.host.bind(&mut b.driver, whose, USER, Sizes::default());
    let to = TO + work.placement as u64;
    let mut moved = Moved::default();
    let before = [a.host.memory.crossings(), b.host.memory.crossings()];
    for n in 0..sdus {
        let (data, pdu) = work.sdu(n);
        let early = work.ahead.then(|| b.host.post(&mut b.driver, whose, to, work.octets)).flatten();
        moved.cells += carry(&mut a, &mut b, &pdu)?;
        let completed = early.or_else(|| b.host.poll_completed(&mut b.driver));
        let completed = match work.ahead {
            true => completed,
            false => completed.or_else(|| b.host.post(&mut b.driver, whose, to, work.octets)),
        };
        let Some(completed) = completed else {
            moved.damaged += 1;
            continue;
        };
        moved.copied[1] += completed.delivered.copied as f64;
        moved.mapped += completed.delivered.pages as f64;
        moved.damaged += u64::from(b.host.memory.load(USER, to, work.octets).ok()? != data);
    }
    let carried = sdus * work.octets as u64;
    let since = [a.host.memory.crossings() - before[0], b.host.memory.crossings() - before[1]];
    moved.crossings = since.map(|crossings| crossings.per_octet(carried));
    moved.copied[0] = since[0].read(Crosser::Copy) as f64;
    let statistics = b.host.statistics();
    (moved.predicted, moved.slow) = (statistics.as_predicted as f64, statistics.slow as f64);
    let each = sdus.max(1) as f64;
    moved.copied = moved.copied.map(|octets| octets / each);
    (moved.mapped, moved.predicted, moved.slow) = (moved.mapped / each, moved.predicted / each, moved.slow / each);
    Some(moved)
}

/// What comes to a just-in-time adapter: PDUs of one circuit, or of two, cell by cell in turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Arrivals {
    /// There are two circuits, with an application each.
    pub interleaved: bool,
    /// Octets of the application's data.
    pub octets: usize,
    /// Octets of a trailer of its own behind them.
    pub trailer: usize,
    /// Of how many datagrams one has IP options; 0 is none of them.
    pub options: u64,
    /// Octets behind a datagram.
    pub padding: usize,
    /// Buffers of a row or a batch.
    pub row: u32,
}

/// What the driver did with it, for each PDU.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Guessed {
    /// Data that lay as they were wanted.
    pub hits: f64,
    /// Octets that were copied: because of a miss, at the end of a page, or for a repair.
    pub copied: f64,
    /// Trailers that were repaired.
    pub repaired: f64,
    /// Trailers that lay on pages that are no neighbours, and were left there.
    pub apart: f64,
    /// PDUs that came to memory in a row.
    pub in_a_row: f64,
    /// Pages that a PDU took, and those of them that it left empty.
    pub buffers: f64,
    /// See there.
    pub empty: f64,
    /// PDUs that were lost or came changed.
    pub damaged: u64,
    /// Cells that came.
    pub cells: u64,
}

/// Runs so many PDUs of each circuit.
pub fn just_in_time(mechanisms: jit::driver::Mechanisms, work: Arrivals, pdus: u64) -> Option<Guessed> {
    let mut adapter = Jit::new(JitConfig { cells: 64, ..JitConfig::default() });
    let mut host = JitHost::new(Paged::new(BASE, 1024, Overlap::Copy), 8, work.row);
    host.use_only(mechanisms);
    let circuits = [CircuitId::new(0, VCI)?, CircuitId::new(0, VCI + 1)?];
    let circuits = &circuits[..if work.interleaved { 2 } else { 1 }];
    let flows = [PORT, PORT + 1].map(|port| Whose::Flow(Flow { protocol: UDP, port }));
    let own = Sizes { header: 0, trailer: work.trailer };
    for (n, (circuit, flow)) in circuits.iter().copied().zip(flows).enumerate() {
        host.open(&mut adapter, circuit).then_some(())?;
        host.memory.grow(USER, TO + ROOM as u64 * n as u64, ROOM).ok()?;
        host.bind(flow, USER, own);
    }
    let (mut now, mut guessed) = (Time::ZERO, Guessed::default());
    let before = host.memory.crossings();
    for n in 0..pdus {
        let data = pattern(work.octets, n);
        let mut each = Vec::new();
        for (at, (circuit, flow)) in circuits.iter().copied().zip(flows).enumerate() {
            let to = TO + ROOM as u64 * at as u64;
            host.post(&mut adapter, flow, to, work.octets);
            let options = options_of(work.options, n);
            let mut pdu = udp_pdu(PORT + at as u16, options, &[&data[..], &vec![0xcc; work.trailer]].concat());
            pdu.resize(pdu.len() + work.padding, 0);
            let mut cells = vec![Cell::default(); wire::aal5::cells(pdu.len())];
            Segmentation::new(circuit, pdu.len(), SduMeta::default()).ok()?.fill(&pdu, &mut cells);
            guessed.cells += cells.len() as u64;
            each.push(cells);
        }
        for n in 0..each[0].len() {
            for cells in &each {
                adapter.handle_cells(&cells[n..=n], now);
                while let Some(next) = adapter.poll_timeout() {
                    now = now.max(next);
                    adapter.run(&mut host.memory, now);
                }
            }
        }
        let mut arrived = 0;
        while let Some(completed) = host.poll_completed(&mut adapter) {
            arrived += 1;
            let got = host.memory.load(USER, completed.address, work.octets).ok()?;
            guessed.damaged += u64::from(got != data);
        }
        guessed.damaged += circuits.len() as u64 - arrived;
    }
    let statistics = host.statistics();
    let copied = host.memory.crossings() - before;
    let each = |n: u64| n as f64 / (circuits.len() as u64 * pdus).max(1) as f64;
    guessed.hits = each(statistics.hits);
    guessed.copied = each(copied.read(Crosser::Copy));
    (guessed.repaired, guessed.apart) = (each(statistics.repaired), each(statistics.apart));
    guessed.in_a_row = each(statistics.in_a_row);
    (guessed.buffers, guessed.empty) = (each(statistics.buffers), each(statistics.empty));
    Some(guessed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mechanism_that_is_missing_costs_the_copy_that_it_is_there_to_avoid() {
        use single_copy::Mechanisms;
        let all = Mechanisms::default();
        let of = |mechanisms, work| {
            let moved = buffering(mechanisms, work, 3).unwrap();
            assert_eq!(moved.damaged, 0, "{mechanisms:?} {work:?}");
            moved
        };
        let raw = of(all, Work::raw(8192));
        assert_eq!((raw.copied, raw.mapped, raw.crossings), ([0.0; 2], 2.0, [2.0, 2.0]));
        let copying = of(Mechanisms { sends_pages: false, maps_pages: false, ..all }, Work::raw(8192));
        assert_eq!((copying.copied, copying.crossings), ([8192.0; 2], [4.0, 4.0]));
        let half =
            |sends_pages| of(Mechanisms { sends_pages, maps_pages: !sends_pages, ..all }, Work::raw(8192)).copied;
        assert_eq!([half(true), half(false)], [[0.0, 8192.0], [8192.0, 0.0]]);
        for missing in [Mechanisms { pads: false, ..all }, Mechanisms { looks: false, ..all }] {
            let moved = of(missing, Work::udp(8192));
            assert_eq!((moved.copied, moved.mapped, moved.predicted), ([0.0, 8192.0], 0.0, 0.0));
        }
        let udp = of(all, Work::udp(8192));
        assert_eq!((udp.copied, udp.predicted, udp.slow), ([0.0; 2], 1.0, 0.0));
        let options = of(all, Work { options: 3, ..Work::udp(8192) });
        assert!(options.copied[1] > 2000.0 && options.slow > 0.3, "{options:?}");
        let at = |placement, ahead| of(all, Work { placement, ahead, ..Work::raw(8192) }).copied[1];
        assert_eq!([at(0, false), at(1024, true), at(1024, false)], [0.0, 4096.0, 8192.0]);
    }

    #[test]
    fn without_a_length_few_datagrams_can_wait_and_udps_takes_no_page_for_what_is_behind_the_data() {
        use remap::look::Length;
        let of = |length, octets, padding| {
            let mechanisms = single_copy::Mechanisms { length, ..Default::default() };
            let held = held(mechanisms, Work { padding, ..Work::udp(octets) }, 40).unwrap();
            assert_eq!(held.damaged, 0, "{length:?}, {octets} octets, {padding} behind them");
            (held.sdus, held.pages)
        };
        // Headers end with the first page; the data have pages of their own, and padding one more.
        let each = |padding| [Length::Longest, Length::Aal5, Length::Udp].map(|length| of(length, 8192, padding));
        assert_eq!(each(0), [(3, 17.0), (21, 3.0), (21, 3.0)]);
        assert_eq!(each(40), [(3, 17.0), (16, 4.0), (21, 3.0)]);
        // Data that no DMA fetches by whole words, and padding that fits into the last page.
        assert_eq!([1, 4095].map(|octets| of(Length::Udp, octets, 3)), [(32, 2.0), (32, 2.0)]);
    }

    #[test]
    fn batches_keep_pdus_in_a_row_and_leave_pages_empty_and_guesses_save_the_copy() {
        let all = jit::driver::Mechanisms::default();
        let work = Arrivals { interleaved: false, octets: 8192, row: 17, ..Arrivals::default() };
        let of = |mechanisms, work| {
            let guessed = just_in_time(mechanisms, work, 40).unwrap();
            assert_eq!(guessed.damaged, 0, "{mechanisms:?} {work:?}");
            guessed
        };
        let batched = jit::driver::Mechanisms { batches: true, ..all };
        let (single, blind) = (of(all, work), of(jit::driver::Mechanisms { guesses: false, ..all }, work));
        assert!(blind.hits == 0.0 && single.hits > 0.9 && blind.copied > 10.0 * single.copied, "{single:?} {blind:?}");
        // Buffers in a row go to two circuits in turn: no page of the data is in one frame.
        let work = Arrivals { interleaved: true, ..work };
        let (single, batches) = (of(all, work), of(batched, work));
        assert!(single.in_a_row < 0.2 && single.empty == 0.0 && single.copied == 8192.0, "{single:?}");
        assert!(batches.in_a_row == 1.0 && batches.empty > 13.0 && batches.copied < 1000.0, "{batches:?}");
        // A trailer of 8 octets on each PDU's last page boundary.
        let work =
            Arrivals { interleaved: true, octets: 2 * PAGE - HEADERS - 4, trailer: 8, row: 8, ..Arrivals::default() };
        let (changes, repairs) = (of(all, work), of(jit::driver::Mechanisms { changes_strategy: false, ..all }, work));
        assert!(changes.repaired < 0.5 * repairs.repaired && changes.in_a_row > 0.7, "{changes:?} {repairs:?}");
        // Options in each datagram, and octets behind it: sizes that nobody knew in advance.
        let assumed = jit::driver::Mechanisms { learns_sizes: false, changes_strategy: false, ..all };
        let learnt = jit::driver::Mechanisms { learns_sizes: true, ..assumed };
        let options =
            Arrivals { options: 1, ..Arrivals { interleaved: false, octets: 8192, row: 17, ..Arrivals::default() } };
        let (learns, assumes) = (of(learnt, options), of(assumed, options));
        assert!(learns.hits > 0.9 && assumes.hits == 0.0 && assumes.copied >= 8192.0, "{learns:?} {assumes:?}");
        let (learns, assumes) =
            (of(learnt, Arrivals { padding: 8, ..work }), of(assumed, Arrivals { padding: 8, ..work }));
        assert!(learns.apart == 0.0 && learns.repaired > 0.9, "{learns:?}");
        assert!(assumes.repaired == 0.0 && assumes.apart > 0.9, "{assumes:?}");
    }
}
