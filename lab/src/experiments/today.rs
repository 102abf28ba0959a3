//! The papers' questions, put to the machine at hand: same axes, today's numbers, and where the crossovers have moved.
//!
//! Each function belongs to one experiment and is called after it where something can measure ([`Run::measure`]). Costs are in
//! time on a processor, so that what else the machine does blurs them little; rates and latencies are by the clock.

use crate::experiment::{Figure, LOADS, Load, Measured, Origin, Probe, Run, Waiting, Whose};
use crate::overload;
use endpoint::{DataPath, Events};
use std::time::Duration;
use wire::CellRate;

/// Sizes of PDUs on the axes of the data paths.
const SIZES: [usize; 7] = [64, 256, 1024, 4096, 9188, 16_384, 65_535];
/// PDUs of a burst where the burst is not the question.
const BURST: usize = 16;
/// The host interface's own strategies.
pub(super) const STRATEGIES: [Events; 5] = [
    Events::Interrupt,
    Events::Polling,
    Events::Clocked { hertz: 1000 },
    Events::Hybrid { quota: 64 },
    Events::Soft { hertz: 10_000 },
];

type Curve = Vec<(f64, Option<Measured>)>;

fn mbit_s(octets: usize) -> impl Fn(f64) -> f64 {
    move |us| octets as f64 * 8.0 / us
}

fn cost(run: &mut Run<'_>, octets: usize, path: DataPath, whose: Whose) -> Option<Measured> {
    // By interrupts the host rests as soon as it has nothing to do: others' lingering would count as cost.
    run.measure(Probe::Cost { octets, path, events: Events::Interrupt, burst: BURST, whose })
}

/// Costs over sizes of one data path, in microseconds.
fn costs(run: &mut Run<'_>, path: DataPath, whose: Whose) -> Curve {
    SIZES.map(|octets| (octets as f64, cost(run, octets, path, whose))).to_vec()
}

fn rates(costs: &Curve) -> Curve {
    costs.iter().map(|(octets, us)| (*octets, us.map(|m| m.map(mbit_s(*octets as usize))))).collect()
}

/// The first size from which on `a` costs less than `b`, and less at all larger ones.
fn crossover(a: &Curve, b: &Curve) -> Option<f64> {
    let cheaper = |i: &usize| matches!((a[*i].1, b[*i].1), (Some(a), Some(b)) if a.median < b.median);
    let from = (0..a.len()).rev().take_while(cheaper).last()?;
    Some(a[from].0)
}

fn said(size: Option<f64>) -> String {
    size.map_or("at no size measured".to_owned(), |octets| format!("from {octets} octets on"))
}

fn at(curve: &Curve, octets: usize) -> Option<Measured> {
    curve.iter().find(|(n, _)| *n == octets as f64)?.1
}

/// One measurement over another: the medians', and the extremes that the extremes allow.
fn ratio(a: Option<Measured>, b: Option<Measured>) -> Option<Measured> {
    let (a, b) = (a?, b?);
    Some(Measured { median: a.median / b.median, least: a.least / b.greatest, greatest: a.greatest / b.least })
}

fn figure(name: &str, title: &str, y: &str) -> Figure {
    Figure::new(name, title, ["octets of a PDU", y], [true, true])
}

/// Delay of a buffering adapter, and Table 1.
pub(super) fn arithmetic(run: &mut Run<'_>) {
    let copy = run.measure(Probe::Copy { octets: 65_536 });
    run.today("A-19", "memory to memory, 64 kB in the nearer caches", "10^6 octets/s", None, copy)
        .note("Table 1 has 19 (Neptune) and 39 (Triton)");
    let far = run.measure(Probe::Copy { octets: 64 << 20 });
    run.today("A-19", "memory to memory, 64 MB", "10^6 octets/s", None, far);
    // 64 kB over OC-3c in 3.906 ms, copied at both sides.
    let more = copy.map(|m| m.map(|rate| 2.0 * 65_536.0 / rate / 3906.0 * 100.0));
    run.today("A-10", "increase of the delay of 64 kB by copying at both sides", "%", None, more)
        .note("64 % over a bus of 50 MB/s: what keeps a PDU whole before it passes it on costs next to nothing now");
    let shares = copy.map(|m| m.map(|rate| rate * 8.0 / 135.6));
    run.today("A-60", "one core's copying, in lines of OC-3c", "lines", None, shares)
        .note("the memory bus was the bottleneck, and one line was more than it could fill in both directions");
}

/// Windows: each direction by itself, beside copying.
pub(super) fn mechanisms(run: &mut Run<'_>) {
    const SIZES: [usize; 4] = [4096, 8192, 16_384, 65_535];
    let mut curve = |sends, receives| -> Curve {
        SIZES.map(|octets| (octets as f64, run.measure(Probe::Windows { octets, sends, receives }))).to_vec()
    };
    let ways = [
        ("a copy on each side", curve(false, false)),
        ("sending from pages only", curve(true, false)),
        ("mapping received pages only", curve(false, true)),
        ("both", curve(true, true)),
    ];
    let mut rates =
        figure("mechanisms-today", "Today: figures 8 and 9 by mechanism, windows over a cell link", "Mbit/s");
    for (name, points) in &ways {
        rates.add_measured(name, points.clone());
    }
    run.figure(rates);
    for (id, way) in [("A-28", 1), ("A-33", 2), ("A-53", 3)] {
        let (name, points) = &ways[way];
        run.today(id, &format!("{name}, over a copy on each side, 65535 octets"), "times the rate", None,
            ratio(points[3].1, ways[0].1[3].1))
            .note("by windows (userfaultfd and mremap); cellway-lab bench paths counts the page faults and TLB shootdowns that this is made of");
    }
}

/// Figures 8 to 10.
pub(super) fn one_way(run: &mut Run<'_>) {
    let mut paths = figure("paths-today", "Today: data paths over a cell link, one way", "Mbit/s");
    let received = DataPath::ALL.map(|path| {
        let points: Curve = SIZES.map(|octets| (octets as f64, run.measure(Probe::Path { octets, path }))).to_vec();
        paths.add_measured(&format!("{}, received", path.name()), points.clone());
        points
    });
    let line = SIZES.map(|n| (n as f64, super::units::line_mbit_s(n)));
    paths.add("theoretical maximum of OC-3c", Origin::Modelled, line);
    paths.add("received in 1995 (A-53, D-6)", Origin::Published, [(4096.0, 134.6), (8192.0, 105.9)]);
    run.figure(paths);
    let most = received.iter().flatten().filter_map(|p| p.1).max_by(|a, b| a.median.total_cmp(&b.median));
    run.today("A-53", "most that arrives, any data path and size", "Mbit/s", None, most)
        .note("sender, host interface with network, and receiver take turns on the cores that there are; by the clock");

    let sent = DataPath::ALL.map(|path| costs(run, path, Whose::Sender));
    let mut enqueue = figure("enqueue-today", "Today: enqueue rate, by the sender's time on a processor", "Mbit/s");
    for (path, costs) in DataPath::ALL.into_iter().zip(&sent) {
        enqueue.add_measured(path.name(), rates(costs));
    }
    enqueue.add("single copy, 1995 (D-10)", Origin::Published, [(8192.0, 1607.0 * super::units::MEBI)]);
    run.figure(enqueue);
    let of = |path: DataPath| &sent[DataPath::ALL.iter().position(|p| *p == path).unwrap_or(0)];
    let (copying, single) = (of(DataPath::Copying), of(DataPath::SingleCopy));
    let note = format!(
        "single copy is the cheaper one {}; in 1995 it was from about 512 octets on",
        said(crossover(single, copying))
    );
    run.today(
        "A-54",
        "sending, single copy over copying, 1024 octets",
        "times the cost",
        None,
        ratio(at(single, 1024), at(copying, 1024)),
    )
    .note(note);
    run.today(
        "A-54",
        "sending, single copy over copying, 65535 octets",
        "times the cost",
        None,
        ratio(at(single, 65_535), at(copying, 65_535)),
    );
    let growth = ratio(at(single, 16_384), at(single, 64));
    run.today("A-55", "sending, single copy: what 16384 octets cost, in PDUs of 64", "times the cost", None, growth)
        .note("1 would be the exponential rise of figure 10: a cost per call and none per octet");
}

/// Figures 11 and 12: one machine does everything.
pub(super) fn loopback(run: &mut Run<'_>) {
    let all = DataPath::ALL.map(|path| costs(run, path, Whose::All));
    let mut rate = figure("loopback-today", "Today: both ends on one core, by time on a processor", "Mbit/s");
    for (path, costs) in DataPath::ALL.into_iter().zip(&all) {
        rate.add_measured(path.name(), rates(costs));
    }
    rate.note("1995: copying \"hardly exceeds\" 62.9 (60 in units of 2^20), single copy is saturated at 120.6 (115); the text names no size");
    run.figure(rate);
    let of = |path: DataPath| &all[DataPath::ALL.iter().position(|p| *p == path).unwrap_or(0)];
    let (copying, single) = (of(DataPath::Copying), of(DataPath::SingleCopy));
    for octets in [1024, 4096, 16_384] {
        let gain = ratio(at(copying, octets), at(single, octets));
        run.today("A-58", &format!("single copy over copying, {octets} octets"), "times the rate", None, gain);
    }
    let note = format!(
        "single copy is the faster one {}; in 1995 it was from 1 kB on, and by 2 at 8 kB",
        said(crossover(single, copying))
    );
    run.today("A-56", "copying, 16384 octets, both ends on one core", "Mbit/s", None, at(&rates(copying), 16_384))
        .note(note);

    // What a line through two sizes foretells of sizes between.
    let Some(host) = run.host() else { return };
    for path in DataPath::ALL {
        let name = path.name().replace('-', "_");
        let constants = (host.get(&format!("{name}_pdu_us")), host.get(&format!("{name}_octet_ns")));
        let (Ok(pdu), Ok(octet)) = constants else { continue };
        for octets in [1024, 4096] {
            let measured = cost(run, octets, path, Whose::All);
            let modelled = pdu + octet * 1e-3 * octets as f64;
            run.today(
                "A-60",
                &format!("today's host, {}, a PDU of {octets} octets", path.name()),
                "us",
                Some(modelled),
                measured,
            )
            .note(
                "modelled: a cost per PDU and one per octet from the profile, which has them from 64 and 16384 octets",
            );
        }
    }
}

/// Prediction and checksum omission.
pub(super) fn prediction(run: &mut Run<'_>) {
    const OCTETS: usize = 9180;
    let copy = run.measure(Probe::Copy { octets: OCTETS });
    let sum = run.measure(Probe::Checksum { octets: OCTETS, copied: false });
    let both = run.measure(Probe::Checksum { octets: OCTETS, copied: true });
    let us = |rate: f64| OCTETS as f64 / rate;
    let (copy, sum, both) = (copy.map(|m| m.map(us)), sum.map(|m| m.map(us)), both.map(|m| m.map(us)));
    run.today("A-23", "copying 9180 octets", "us", None, copy);
    run.today("A-23", "checksum of 9180 octets", "us", None, sum);
    let separate = copy.zip(sum).map(|(copy, sum)| copy.median + sum.median);
    run.today("A-23", "copy and checksum of 9180 octets in one pass", "us", separate, both)
        .note("modelled: one after the other; interleaving was to save the second pass over memory");
    let path = cost(run, OCTETS, DataPath::Copying, Whose::All);
    let share = ratio(sum, path).map(|m| m.map(|part| part * 100.0));
    run.today("A-25", "what omitting the checksum saves of a PDU of 9180 octets, at each end", "%", None, share)
        .note("of the copying path's whole cost; in v0.0's table of seed 003 it was 29 % of the time");
    let sizes = [4096, 16_384, 65_536];
    let mut moved = figure("remap-today", "Today: mapping pages or copying them", "us");
    let curve = |run: &mut Run<'_>, mapped| -> Curve {
        sizes.map(|octets| (octets as f64, run.measure(Probe::Move { octets, mapped }))).to_vec()
    };
    let (mapped, copied) = (curve(run, true), curve(run, false));
    moved.add_measured("mapped", mapped.clone());
    moved.add_measured("copied", copied.clone());
    run.figure(moved);
    let note = format!(
        "mapping is the cheaper one {}; figure 6 is built on its being so from a page on",
        said(crossover(&mapped, &copied))
    );
    run.today(
        "A-33",
        "mapping a page, over copying it",
        "times the cost",
        None,
        ratio(at(&mapped, 4096), at(&copied, 4096)),
    )
    .note(note);
}

/// The pipeline in software.
pub(super) fn pipeline(run: &mut Run<'_>) {
    let layer = run.measure(Probe::Layer { octets: 9188 }).map(|m| m.map(|payload| payload * 192.0 * 53.0 / 9188.0));
    run.today("B-37", "AAL5 segmented and reassembled on one core, in bits of cells", "Mbit/s", None, layer)
        .note("the Reassembler alone was good for 650");
    let lookup = run.measure(Probe::Lookup).map(|m| m.map(|per_second| 1e9 / per_second));
    run.today("B-18", "lookup in a full CAM of 256 entries", "ns", None, lookup)
        .note("the hardware's took 550 ns at most");
    let lists = run.measure(Probe::Lists).map(|m| m.map(|cells| 1e9 / cells));
    run.today("B-20", "lookup, list and buffer, written and read: a cell", "ns", None, lists)
        .note("the hardware's stages took 2.7 us, clocked for OC-3c");
}

/// testwr.
pub(super) fn writes(run: &mut Run<'_>) {
    let sizes = [1, 2, 4, 8, 16, 32, 64].map(|kb| kb << 10);
    let mut figure =
        Figure::new("seed001-today", "Today: writes by data path", ["octets of a write", "Mbit/s"], [true, true]);
    let curve = |run: &mut Run<'_>, path| -> Curve {
        // The longest AAL5 takes is an octet less than 64 KB.
        sizes.map(|n: usize| (n as f64, cost(run, n.min(65_535), path, Whose::All))).to_vec()
    };
    let (kernel, user) = (curve(run, DataPath::Copying), curve(run, DataPath::SingleCopy));
    let infinite: Curve = sizes.map(|n| (n as f64, run.measure(Probe::Write { octets: n }))).to_vec();
    figure.add_measured("copied into the interface's buffers (fig 10)", rates(&kernel));
    figure.add_measured("from the application's memory (fig 11)", rates(&user));
    figure.add_measured("write() to /dev/null (fig 12)", rates(&infinite));
    run.figure(figure);
    for (name, curve) in [("copied", &kernel), ("from the application's memory", &user)] {
        let rates = rates(curve);
        run.today("B-43", &format!("{name}: from 1 KB to 2 KB"), "times the rate", None, ratio(rates[1].1, rates[0].1))
            .note("almost doubled in 1993");
        run.today(
            "B-43",
            &format!("{name}: from 32 KB to 64 KB"),
            "times the rate",
            None,
            ratio(rates[6].1, rates[5].1),
        )
        .note("1.1 in 1993");
    }
    run.today("B-42", "a write() that moves nothing", "us", None, infinite[6].1).note("409.6 in the model of 1993");
}

/// Timers.
pub(super) fn polling(run: &mut Run<'_>) {
    let tick = run.measure(Probe::Tick);
    run.today("B-34", "a tick of a timer, time on a processor", "us", None, tick).note("about 1000 in 1993");
    for hz in [60.0, 1000.0] {
        let left = tick.map(|m| m.map(|us| 100.0 * (1.0 - us * 1e-6 * hz)));
        run.today("B-34", &format!("left to applications at {hz} Hz"), "%", None, left);
    }
    let most = tick.map(|m| m.map(|us| 0.1 / (us * 1e-6)));
    run.today("B-34", "polls per second that leave 90 % of a processor", "Hz", None, most)
        .note("60 in 1993; a buffer of 3 Mbit is then good for as many times the rate");
    let lists = run.measure(Probe::Lists);
    let lines = lists.map(|m| m.map(|cells| cells / CellRate::OC3C.cells_per_s()));
    run.today("B-13", "the list reassembler in software, in lines of OC-3c", "lines", None, lines);
}

/// Messages, in a row and one by one.
pub(super) fn messages(run: &mut Run<'_>) {
    let sizes = [4usize, 32, 100, 512, 1024, 3000, 8192, 9200];
    let row = |run: &mut Run<'_>, path| -> Curve { sizes.map(|n| (n as f64, cost(run, n, path, Whose::All))).to_vec() };
    let (shared, copying) = (row(run, DataPath::Shared), row(run, DataPath::Copying));
    let wait: Curve = sizes
        .map(|octets| (octets as f64, run.measure(Probe::RoundTrip { octets, events: Events::default() })))
        .to_vec();
    let mut figure =
        Figure::new("seed002-today", "Today: messages by size", ["octets of a message", "Mbit/s"], [true, true]);
    figure.add_measured("shared memory", rates(&shared));
    figure.add_measured("copying", rates(&copying));
    figure.add_measured("one at a time, answered by as much", rates(&wait));
    figure.add(
        "Myrinet, nothing special",
        Origin::Published,
        [(4.0, 0.2), (100.0, 2.51), (1024.0, 23.26), (8192.0, 113.21), (9200.0, 105.48)],
    );
    run.figure(figure);
    let jump = ratio(shared[7].1, shared[6].1);
    run.today("C-34", "9200 octets over 8192", "times the cost", None, jump)
        .note("1.123 by the octets; the paper's step of a second buffer is not there");
    run.today("C-32", "a message of 1024 octets answered by one", "us", None, wait[4].1)
        .note("stop and wait: what the flow-control columns of the table may have been");
}

/// Checksums at both ends.
pub(super) fn tables(run: &mut Run<'_>) {
    const OCTETS: usize = 8192;
    let raw = cost(run, OCTETS, DataPath::Copying, Whose::All);
    let sum =
        run.measure(Probe::Checksum { octets: OCTETS, copied: false }).map(|m| m.map(|rate| OCTETS as f64 / rate));
    run.today("D-6", "raw AAL5, copying, both ends on one core", "Mbit/s", None, raw.map(|m| m.map(mbit_s(OCTETS))));
    let with = raw.zip(sum).map(|(raw, sum)| raw.map(|us| us + 2.0 * sum.median).map(mbit_s(OCTETS)));
    run.today("D-7", "the same with a checksum at both ends", "Mbit/s", None, with)
        .note("the sum of two measurements; between two systems IP over ATM is measured by cellway-lab bench ip");
}

/// C and alpha of this machine, and what the formulas make of them.
pub(super) fn capacity(run: &mut Run<'_>) {
    const OCTETS: usize = 1500;
    let mut host = |events: Events, burst: usize| {
        run.measure(Probe::Cost { octets: OCTETS, path: DataPath::Shared, events, burst, whose: Whose::Host })
    };
    let bursts = [1usize, 4, 16, 64];
    let interrupts = bursts.map(|burst| host(Events::Interrupt, burst));
    let (Some(one), Some(many)) = (interrupts[0], interrupts[3]) else { return };
    // cost(burst) = alpha + C / burst, from the first and the last.
    let c = (one.median - many.median).max(0.0) * 64.0 / 63.0;
    let alpha = (one.median - c).max(1e-3);
    let of = |value: f64, m: Measured| {
        Some(Measured { median: value, least: value * m.least / m.median, greatest: value * m.greatest / m.median })
    };
    run.today("E-11", "C: what an interrupt costs the host interface", "us", None, of(c, one))
        .note("about 1000 in the paper");
    run.today(
        "E-11",
        &format!("alpha: what a PDU of {OCTETS} octets costs it, through the network"),
        "us",
        None,
        of(alpha, many),
    )
    .note("92 in the paper, at 130 Mbit/s");
    for (i, burst) in bursts.into_iter().enumerate().filter(|(i, _)| *i == 1 || *i == 2) {
        run.today("E-11", &format!("1/(C/{burst} + alpha): PDUs come by {burst}"), "1/s", Some(1e6 / (c / burst as f64 + alpha)),
            interrupts[i].map(|m| m.map(|us| 1e6 / us)))
            .note("modelled: the formula with C and alpha from bursts of 1 and of 64, one interrupt a burst; measured: by the host's \
                   time on a processor. A host that is done before the next PDU is sent takes more than one interrupt a burst");
    }
    let Some(Ok(tick)) = run.host().map(|profile| profile.get("timer_tick_us")) else { return };
    for hertz in [1000.0, 4000.0] {
        let served = (1.0 - hertz * tick * 1e-6) / alpha * 1e6;
        run.today("E-11", &format!("(1 - beta C)/alpha at {hertz} Hz"), "1/s", Some(served), None).note(
            "the formula with this machine's tick and alpha; what the strategies do in fact is in seed004-livelock",
        );
    }
    run.today(
        "E-11",
        "events per second above which a clock of 4000 Hz is cheaper than interrupts",
        "1/s",
        Some(4000.0 * tick / c.max(1e-3)),
        None,
    )
    .note("where beta times the tick is lambda times C");
    if let Some(figure) = run.figure_mut("seed004-capacity") {
        let line = [48.0f64, 1500.0, 4096.0, 9180.0, 65_535.0].map(|n| (n, n * 8.0 / (c + alpha * n / OCTETS as f64)));
        figure.add("1/(C+alpha) with this machine's", Origin::Measured, line);
    }
}

/// Round trips by strategy.
pub(super) fn clocks(run: &mut Run<'_>) {
    let mut figure = Figure::new(
        "strategies-today",
        "Today: round trip between two applications by event strategy",
        ["octets of a PDU", "us"],
        [true, true],
    );
    let mut least: Option<(Events, Measured)> = None;
    for events in STRATEGIES {
        let points = [32usize, 1024, 8192, 32_768]
            .map(|octets| (octets as f64, run.measure(Probe::RoundTrip { octets, events })));
        if let Some(m) = points[0].1.filter(|m| least.is_none_or(|(_, l)| m.median < l.median)) {
            least = Some((events, m));
        }
        figure.add_measured(&events.to_string(), points);
    }
    datagrams(run, &mut figure);
    run.figure(figure);
    if let Some((events, m)) = least {
        run.today("E-16", "shortest round trip of 32 octets", "us", None, Some(m)).note(format!(
            "by {events}; where as many threads spin as there are cores, or more, polling is no longer the best"
        ));
    }
}

/// Ways to wait that came after the papers, by the kernel's own sockets: asleep, looking, busy polling, io_uring; AF_XDP by name.
fn datagrams(run: &mut Run<'_>, figure: &mut Figure) {
    for (name, waiting) in [
        ("UDP, asleep in recv", Waiting::Asleep),
        ("UDP, looking without rest", Waiting::Looking),
        ("UDP, SO_BUSY_POLL of 50 us", Waiting::BusyPoll),
        ("UDP, io_uring", Waiting::Ring),
    ] {
        if let Some(reason) = run.lacks(waiting) {
            run.absent("E-16", &format!("today: {name}"), "", &reason);
            continue;
        }
        let points = [32usize, 1024, 8192, 32_768]
            .map(|octets| (octets as f64, run.measure(Probe::Datagrams { octets, waiting })));
        run.today("E-16", &format!("round trip of 32 octets: {name}"), "us", None, points[0].1).note(
            "two threads, the kernel's loopback, which has no adapter and so no interrupts to poll instead of: SO_BUSY_POLL shows its own cost there",
        );
        figure.add_measured(name, points);
    }
    if let Some(said) = run.xdp() {
        run.absent("E-16", "today: AF_XDP", "", &said);
    }
}

/// Sixty echoes of 4 kB.
pub(super) fn latency(run: &mut Run<'_>) {
    for (name, published, loaded, events) in [
        ("unloaded, interrupts", "3/3/3", false, Events::Interrupt),
        ("unloaded, 500 Hz", "4/4/6", false, Events::Clocked { hertz: 500 }),
        ("loaded, interrupts", "5/12/18", true, Events::Interrupt),
        ("loaded, 500 Hz", "4/11/25", true, Events::Clocked { hertz: 500 }),
    ] {
        let echo = run.measure(Probe::Echo { events, loaded }).map(|m| m.map(|us| us / 1e3));
        run.today("E-17", &format!("{name}: mean, least and greatest"), "ms", None, echo)
            .note(format!("{published} ms (minimum, average, maximum) in the paper"));
    }
}

/// Overload.
pub(super) fn livelock(run: &mut Run<'_>) {
    let mut figure = Figure::new(
        "overload-today",
        "Today: overload by event strategy; host and application on one core",
        ["SDUs offered per second", "SDUs done per second"],
        [true, true],
    );
    let mut latency = Figure::new(
        "overload-latency-today",
        "Today: time from offer to done by event strategy",
        ["SDUs offered per second", "us, median"],
        [true, true],
    );
    // The application of the measurement works for 3 us on each SDU.
    let costs = run.host().and_then(|machine| overload::Costs::of(&machine, Duration::from_micros(3)).ok());
    for events in STRATEGIES {
        let mut ask = |load, what| run.measure(Probe::Load { events, load, what });
        let points = LOADS.map(|load| {
            let offered = ask(load, Load::Offered).map_or(0.0, |m| m.median);
            (offered, ask(load, Load::Done), ask(load, Load::Latency))
        });
        figure.add_measured(&events.to_string(), points.map(|(x, done, _)| (x, done)));
        latency.add_measured(&events.to_string(), points.map(|(x, _, us)| (x, us)));
        let most = points.iter().filter_map(|p| p.1).max_by(|a, b| a.median.total_cmp(&b.median));
        let Some(most) = most else { continue };
        // A sender that found no time on a processor has loaded nothing.
        let (offered, done, _) = points[LOADS.len() - 1];
        let loaded = offered >= 4.0 * most.median;
        let kept = ratio(done, Some(most)).filter(|_| loaded).map(|m| m.map(|part| (part * 100.0).min(100.0)));
        run.today(
            "E-18",
            &format!("{events}: kept of its greatest rate at ten times the saturating load"),
            "%",
            costs.map(|costs| kept_by_model(events, costs)),
            kept,
        )
        .note(if loaded {
            "modelled: the same state machines in virtual time, with the costs of this machine's profile"
        } else {
            "the machine had other work: the sender could not offer as much, so nothing was kept or lost"
        });
    }
    run.figure(figure);
    run.figure(latency);
}

/// What the state machines keep in virtual time, with this machine's costs.
fn kept_by_model(events: Events, costs: overload::Costs) -> f64 {
    let best = overload::saturation(events, costs);
    let at_ten = overload::run(events, costs, 10.0 * best.offered, Duration::from_millis(200));
    (at_ten.done / best.done * 100.0).min(100.0)
}

/// Three ways of buffering.
pub(super) fn buffers(run: &mut Run<'_>) {
    let sizes = [64usize, 256, 1024, 4096, 16_384, 65_535];
    let ways = [
        ("double buffering: copying (fig 1)", DataPath::Copying),
        ("no copy into buffers: single copy (fig 2)", DataPath::SingleCopy),
        ("shared memory (fig 3)", DataPath::ZeroCopy),
    ];
    let curves = ways.map(|(_, path)| -> Curve { sizes.map(|n| (n as f64, cost(run, n, path, Whose::All))).to_vec() });
    let mut figure = Figure::new(
        "buffers-today",
        "Today: three ways of buffering, by time on a processor",
        ["octets of a write", "Mbit/s"],
        [true, true],
    );
    for ((name, _), curve) in ways.iter().zip(&curves) {
        figure.add_measured(name, rates(curve));
    }
    run.figure(figure);
    for (i, octets) in [(1, 256), (5, 65_535)] {
        for (way, name) in [(0, "double buffering"), (1, "single copy")] {
            run.today(
                "E-7",
                &format!("{name} over shared memory, {octets} octets"),
                "times the cost",
                None,
                ratio(curves[way][i].1, curves[2][i].1),
            );
        }
    }
}
