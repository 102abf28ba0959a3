//! What contracts guarantee at a switch, in virtual time: a link that sends a cell each slot, and sources to the nanosecond.
//!
//! The long run is the published case: 60 s of 10 000 circuits. The short one is the same for a fraction of a second.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;
use switch::{Arrival, Profile, Switch, SwitchConfig, Transaction};
use traffic::{Category, Conformance, Contract, Fine, Gcra};
use wire::{Cell, CellHeader, CellRate, CircuitId, DropReason, Label, PayloadType, Time};

/// OC-12c: 599.04 Mbit/s of cells.
fn oc12c() -> CellRate {
    CellRate::from_line_bits_per_s(599_040_000.0).unwrap()
}

fn rate(cells_per_s: f64) -> Option<CellRate> {
    CellRate::from_cells_per_s(cells_per_s)
}

/// xorshift64*.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }
}

fn id(n: usize) -> CircuitId {
    CircuitId::from_key(n as u32 + 64)
}

fn cell(n: usize, end: bool) -> Cell {
    let payload_type = PayloadType::User { congestion: false, end };
    Cell::new(CellHeader { circuit: id(n), payload_type, clp: false }, [0; 48])
}

/// A cell with its place in its frame.
fn numbered(mut cell: Cell, number: u64) -> Cell {
    cell.payload[8..12].copy_from_slice(&(number as u32).to_be_bytes());
    cell
}

/// A link behind port 1 of a switch that polices with `cdvt` at port 0, and what comes of each circuit there.
struct Link {
    switch: Switch,
    slot: Fine,
    /// The slot that comes next.
    next: u64,
    now: Time,
    sent: Vec<Sent>,
}

#[derive(Clone, Default)]
struct Sent {
    cells: u64,
    /// Frames of which all cells came out, and those of which some did.
    whole: u64,
    cut: u64,
    frame: u32,
    /// The test of what comes out.
    tests: Vec<Gcra>,
    failed: u64,
    longest: Duration,
}

impl Link {
    fn new(rate: CellRate, contracts: &[Contract]) -> Self {
        let config = SwitchConfig {
            ports: 2,
            circuits: contracts.len() as u32,
            index_pages: 300,
            credit_cells: 0,
            profiles: u16::MAX,
            ..SwitchConfig::default()
        };
        let mut switch = Switch::new(config);
        switch.set_arrival(0, Arrival::Stamped);
        let mut change = Transaction::new();
        for (n, contract) in contracts.iter().enumerate() {
            let of_pdus = !contract.is_real_time();
            let profile = Profile::of(contract, of_pdus, config.queue_cells);
            change.add((0, Label::Vc(id(n))), (1, Label::Vc(id(n))), &profile);
        }
        switch.apply(change).unwrap();
        let slot = Fine::interval(rate);
        Link { switch, slot, next: 1, now: Time::ZERO, sent: vec![Sent::default(); contracts.len()] }
    }

    /// When the next slot begins.
    fn slot_begins(&self) -> Time {
        self.slot.times(self.next).ceil()
    }

    /// A cell comes in, and remembers when.
    fn come(&mut self, mut cell: Cell, now: Time) {
        cell.payload[..8].copy_from_slice(&now.as_nanos().to_be_bytes());
        cell.set_at(now);
        self.switch.handle_cells(0, &[cell], now, &mut ());
    }

    /// The next slot: one cell leaves at most. Its end is when that has left.
    fn slot(&mut self) {
        self.now = self.slot_begins();
        self.next += 1;
        let mut out = [Cell::default()];
        if self.switch.poll_transmit(1, &mut out, self.now) == 0 {
            return;
        }
        let (header, left) = (out[0].header(), self.slot_begins());
        let sent = &mut self.sent[header.circuit.key() as usize - 64];
        sent.cells += 1;
        sent.failed += u64::from(!sent.tests.iter_mut().all(|test| test.arrive(left)));
        let came = Time::from_nanos(u64::from_be_bytes(out[0].payload[..8].try_into().unwrap()));
        sent.longest = sent.longest.max(left.since(came));
        // Cells of a frame carry their number in it.
        let number = u32::from_be_bytes(out[0].payload[8..12].try_into().unwrap());
        sent.frame = if number == sent.frame { sent.frame + 1 } else { u32::MAX };
        if let PayloadType::User { end: true, .. } = header.payload_type {
            let whole = sent.frame != u32::MAX;
            sent.whole += u64::from(whole);
            sent.cut += u64::from(!whole);
            sent.frame = 0;
        }
    }

    fn counters(&self, n: usize) -> switch::CircuitCounters {
        self.switch.route((0, Label::Vc(id(n)))).unwrap().counters
    }
}

/// When sources send next.
#[derive(Default)]
struct Sources(BinaryHeap<Reverse<(Time, usize)>>);

impl Sources {
    fn push(&mut self, at: Time, n: usize) {
        self.0.push(Reverse((at, n)));
    }

    fn pop_until(&mut self, end: Time) -> Option<(Time, usize)> {
        self.0.peek().filter(|Reverse((at, _))| *at <= end)?;
        self.0.pop().map(|Reverse(next)| next)
    }
}

/// 10 000 circuits of a constant rate at 95 % of OC-12c, one that sends twice what it may, 1000 of best effort that fill all
/// queues, and one of low latency.
fn constant_rates(seconds: f64) {
    const CIRCUITS: usize = 10_000;
    const BEST_EFFORT: usize = 1000;
    let (link_rate, mut random) = (oc12c(), Random(7));
    // One hundred rates, the largest fifteen times the least; the last circuit has low latency.
    let parts: Vec<f64> = (0..CIRCUITS).map(|_| 1.0 + random.below(100) as f64 / 7.0).collect();
    let unit = link_rate.cells_per_s() * 0.95 / parts.iter().sum::<f64>();
    let cdvt = Duration::from_nanos(1000);
    let cbr = |part: &f64| Contract { category: Category::Cbr, pcr: rate(part * unit), cdvt, ..Contract::default() };
    let mut contracts: Vec<Contract> = parts.iter().map(cbr).collect();
    contracts[CIRCUITS - 1].low_latency = true;
    contracts.resize(CIRCUITS + BEST_EFFORT, Contract::default());
    let mut link = Link::new(link_rate, &contracts);
    let slot = link_rate.interval_nanos();
    let tolerance = Fine::from_nanos((200.0 * slot) as u64);
    let intervals: Vec<Fine> = contracts[..CIRCUITS].iter().map(|c| Fine::interval(c.pcr.unwrap())).collect();
    for (sent, interval) in link.sent.iter_mut().zip(&intervals) {
        sent.tests = vec![Gcra::new(*interval, tolerance)];
    }
    // The first circuit sends twice as fast as it may, and is policed to what it may.
    let pace = |n: usize| if n == 0 { Fine::from_nanos(intervals[0].ceil().as_nanos() / 2) } else { intervals[n] };
    let mut sources = Sources::default();
    let phases: Vec<Fine> =
        (0..CIRCUITS).map(|n| Fine::from_nanos(random.below(pace(n).ceil().as_nanos().max(1)))).collect();
    phases.iter().enumerate().for_each(|(n, phase)| sources.push(phase.ceil(), n));
    let mut count = vec![0u64; CIRCUITS];
    let end = Time::from_nanos((seconds * 1e9) as u64);
    let (mut turn, mut offered) = (0, 0u64);
    while link.slot_begins() < end {
        while let Some((at, n)) = sources.pop_until(link.slot_begins()) {
            link.come(cell(n, false), at);
            count[n] += 1;
            sources.push(phases[n].plus(pace(n).times(count[n])).ceil(), n);
        }
        // Best effort offers a fifth of the link: four times what is left.
        if link.next.is_multiple_of(5) {
            let n = CIRCUITS + turn % BEST_EFFORT;
            let number = offered % 32;
            let end = number == 31;
            link.come(numbered(cell(n, end), number), link.slot_begins());
            offered += 1;
            turn += usize::from(end);
        }
        link.slot();
    }
    let mut longest = Duration::ZERO;
    for (n, contract) in contracts.iter().enumerate().take(CIRCUITS) {
        let (counters, sent) = (link.counters(n), &link.sent[n]);
        assert_eq!(sent.failed, 0, "circuit {n} of {:?} leaves the switch beyond its contract", contract.pcr);
        assert_eq!(counters.dropped - counters.policed, 0, "circuit {n} lost cells");
        if n != 0 {
            assert_eq!(counters.policed, 0, "circuit {n} keeps its contract");
            longest = longest.max(sent.longest);
        }
        assert!(counters.received - counters.dropped - sent.cells <= 2, "circuit {n} has cells that wait");
    }
    let overloading = link.counters(0);
    assert!(overloading.policed * 2 + 2 >= overloading.received && overloading.policed * 2 <= overloading.received + 2);
    let cells = longest.as_nanos() as f64 / slot;
    assert!(cells <= 202.0, "a cell took {cells} cell times");
    // Low latency: the clump of its own class, one cell being sent, one slot to wait for and one to leave.
    let low = link.sent[CIRCUITS - 1].longest.as_nanos() as f64 / slot;
    assert!(low <= 3.0, "a cell of low latency took {low} cell times");
    let best: u64 = link.sent[CIRCUITS..].iter().map(|sent| sent.cells).sum();
    let cut: u64 = link.sent[CIRCUITS..].iter().map(|sent| sent.cut).sum();
    let all: u64 = link.sent.iter().map(|sent| sent.cells).sum();
    println!(
        "{seconds} s: {all} cells; CBR up to {cells:.1} cell times, low latency {low:.2}; best effort {:.2} % of the link",
        best as f64 / all as f64 * 100.0
    );
    assert!(seconds < 0.1 || best as f64 / all as f64 > 0.045, "best effort has what is left");
    assert_eq!(cut, 0, "a part of a PDU passed");
}

/// Half a second, or the minute where CELLWAY_LONG asks for it.
#[test]
fn constant_rates_leave_within_their_contracts_whatever_others_send_in_the_long_run() {
    constant_rates(if std::env::var_os("CELLWAY_LONG").is_some() { 60.0 } else { 0.5 });
}

/// Bursts at the peak rate as long as the contract says, as often as it says; half of the circuits send all the time.
#[test]
fn variable_rates_leave_within_both_of_their_buckets() {
    const CIRCUITS: usize = 200;
    let link_rate = CellRate::OC3C;
    let slot = link_rate.interval_nanos();
    let cdvt = Duration::from_nanos((2.0 * slot) as u64);
    let contracts: Vec<Contract> = (0..CIRCUITS)
        .map(|n| Contract {
            category: Category::RtVbr,
            pcr: rate(link_rate.cells_per_s() / CIRCUITS as f64 * 0.95),
            scr: rate(link_rate.cells_per_s() / CIRCUITS as f64 * (0.1 + n as f64 / 400.0)),
            mbs: Some(10 + n as u32 % 40),
            cdvt,
            ..Contract::default()
        })
        .collect();
    let mut link = Link::new(link_rate, &contracts);
    let tolerance = Fine::from_nanos((200.0 * slot) as u64);
    for (sent, contract) in link.sent.iter_mut().zip(&contracts) {
        let burst = contract.burst_tolerance().unwrap().plus(tolerance);
        let buckets = [(contract.pcr, tolerance), (contract.scr, burst)];
        sent.tests = buckets.map(|(rate, limit)| Gcra::new(Fine::interval(rate.unwrap()), limit)).into();
    }
    // What each may send next: all that its contract lets it, or without end.
    let mut tests: Vec<[Gcra; 2]> = contracts.iter().map(|c| [c.peak().unwrap(), c.sustainable().unwrap()]).collect();
    let mut sources = Sources::default();
    let mut random = Random(3);
    (0..CIRCUITS).for_each(|n| sources.push(Time::from_nanos(random.below(1_000_000)), n));
    while link.slot_begins() < Time::from_millis(3000) {
        while let Some((at, n)) = sources.pop_until(link.slot_begins()) {
            link.come(cell(n, false), at);
            let pause = if random.below(30) == 0 { random.below(30_000_000) } else { 0 };
            let next = if n % 2 == 0 {
                assert!(tests[n].iter_mut().all(|test| test.arrive(at)));
                tests[n].iter().map(Gcra::next_conforming).max().unwrap()
            } else {
                at + Duration::from_nanos((contracts[n].pcr.unwrap().interval_nanos() * 1.01) as u64)
            };
            sources.push(next + Duration::from_nanos(pause), n);
        }
        link.slot();
    }
    let mut policed = 0;
    for n in 0..CIRCUITS {
        let (counters, sent) = (link.counters(n), &link.sent[n]);
        assert_eq!((sent.failed, counters.dropped - counters.policed), (0, 0), "circuit {n}");
        assert!(n % 2 == 1 || counters.policed == 0, "circuit {n} keeps its contract");
        policed += counters.policed;
    }
    assert!(policed > 10_000, "{policed}");
}

/// Frames at the peak rate of the contract, all the time, with best effort that fills what is left and CBR beside.
fn guaranteed_frames(conformance: Conformance) {
    const FRAMES: usize = 10;
    const BEST_EFFORT: usize = 20;
    const FRAME_CELLS: u64 = 32;
    let link_rate = CellRate::OC3C;
    let share = |part: f64| rate(link_rate.cells_per_s() * part);
    let cdvt = Duration::from_micros(20);
    // CBR 40 %, guaranteed 10 x 5 % with peaks of 20 %; best effort offers 50 %.
    let cbr = Contract { category: Category::Cbr, pcr: share(0.4), cdvt, ..Contract::default() };
    let gfr = Contract {
        category: Category::Gfr,
        conformance: Some(conformance),
        pcr: share(0.2),
        mcr: share(0.05),
        mfs: Some(FRAME_CELLS as u32),
        mbs: Some(2 * FRAME_CELLS as u32),
        cdvt,
        ..Contract::default()
    };
    let mut contracts = vec![gfr; FRAMES];
    contracts.resize(FRAMES + BEST_EFFORT, Contract::default());
    contracts.push(cbr);
    let mut link = Link::new(link_rate, &contracts);
    let last = contracts.len() - 1;
    let intervals: Vec<u64> = (0..contracts.len())
        .map(|n| match n {
            _ if n == last => cbr.pcr.unwrap().interval_nanos().ceil() as u64,
            _ if n < FRAMES => gfr.pcr.unwrap().interval_nanos().ceil() as u64,
            _ => (link_rate.interval_nanos() * BEST_EFFORT as f64 * 2.0) as u64,
        })
        .collect();
    let (mut sources, mut random) = (Sources::default(), Random(5));
    (0..contracts.len()).for_each(|n| sources.push(Time::from_nanos(random.below(intervals[n])), n));
    let mut numbers = vec![0u64; contracts.len()];
    let seconds = 4.0;
    while link.slot_begins() < Time::from_nanos((seconds * 1e9) as u64) {
        while let Some((at, n)) = sources.pop_until(link.slot_begins()) {
            let number = numbers[n] % FRAME_CELLS;
            link.come(numbered(cell(n, number == FRAME_CELLS - 1 && n != last), number), at);
            numbers[n] += 1;
            sources.push(at + Duration::from_nanos(intervals[n]), n);
        }
        link.slot();
    }
    for n in 0..FRAMES + BEST_EFFORT {
        assert_eq!(link.sent[n].cut, 0, "{conformance}: a part of a frame of circuit {n} passed");
    }
    let counters = link.counters(last);
    assert_eq!(counters.dropped, 0, "CBR lost cells");
    let mut rates: Vec<f64> = (0..FRAMES)
        .map(|n| (link.sent[n].whole * FRAME_CELLS) as f64 / seconds / gfr.mcr.unwrap().cells_per_s())
        .collect();
    rates.sort_by(f64::total_cmp);
    println!("{conformance}: {:.3} to {:.3} of MCR in whole frames", rates[0], rates[FRAMES - 1]);
    assert!(rates[0] >= 0.99, "{conformance}: {:.3} of MCR", rates[0]);
    let tagged: u32 = (0..FRAMES).map(|n| link.counters(n).tagged()).sum();
    assert_eq!(tagged > 0, conformance == Conformance::Gfr2);
    let best: u64 = (FRAMES..last).map(|n| link.counters(n).dropped).sum();
    assert!(best > 0 && link.switch.port_counters(1).sent.dropped(DropReason::EarlyDiscard) > 0);
}

#[test]
fn frames_have_their_minimum_rate_whatever_others_send() {
    guaranteed_frames(Conformance::Gfr1);
    guaranteed_frames(Conformance::Gfr2);
}
