//! Seed 000, sections 3.2 to 3.5: the mechanisms of single copy, each with and without, for figures 8 to 10 and Table 1.
//!
//! What is copied is what the real driver copied ([`remapping`]); [`pair`](crate::model::pair) makes rates of it on the Pentium.

use super::seed000::{SIZES, at, axes, copied_and_transferred, maximum};
use super::units::{MEBI, line_mbit_s};
use crate::experiment::{Experiment, Figure, MEBIBIT, Origin, Run, Test};
use crate::model::pair::{PairOutcome, Scenario, Transport};
use crate::model::remapping::{self, Arrivals, Guessed, Moved, Work};
use crate::model::{Profile, ProfileError};
use eni155p::driver::single_copy::Mechanisms;
use remap::look::Length;

/// All but what an entry of [`CASES`] lacks.
const ALL: Mechanisms =
    Mechanisms { sends_pages: true, maps_pages: true, pads: true, looks: true, length: Length::Aal5 };
const PLACED: usize = 1024;

/// One way of the figures.
#[derive(Debug, Clone, Copy)]
struct Case {
    name: &'static str,
    mechanisms: Mechanisms,
    udp: bool,
    placement: usize,
    ahead: bool,
}

const fn case(name: &'static str, mechanisms: Mechanisms, udp: bool) -> Case {
    Case { name, mechanisms, udp, placement: 0, ahead: false }
}

impl Case {
    /// Sizes that it carries: a datagram is one packet.
    fn sizes(&self) -> &'static [usize] {
        if self.udp { &SIZES[..SIZES.len() - 1] } else { &SIZES }
    }
}

/// Places in [`CASES`].
const COPYING: usize = 0;
const SENDING: usize = 1;
const RECEIVING: usize = 2;
const BOTH: usize = 3;
const NO_PADDING: usize = 4;
const MISPLACED: usize = 5;
const AHEAD: usize = 6;
const UDP_COPYING: usize = 7;
const UDP_ALL: usize = 8;
const UDP_NO_LOOK: usize = 9;
const UDP_NO_PADDING: usize = 10;

const CASES: [Case; 11] = [
    case("copying (figure 8)", Mechanisms { sends_pages: false, maps_pages: false, ..ALL }, false),
    case("sending from pages only", Mechanisms { maps_pages: false, ..ALL }, false),
    case("mapping received pages only", Mechanisms { sends_pages: false, ..ALL }, false),
    case("both (figures 9 and 10)", ALL, false),
    case("both, without padding", Mechanisms { pads: false, ..ALL }, false),
    Case { placement: PLACED, ..case("both, buffers at 1024 of a page", ALL, false) },
    Case { placement: PLACED, ahead: true, ..case("both, such buffers posted ahead", ALL, false) },
    case("UDP, copying", Mechanisms { sends_pages: false, maps_pages: false, ..ALL }, true),
    case("UDP, all mechanisms", ALL, true),
    case("UDP, without the look at headers", Mechanisms { looks: false, ..ALL }, true),
    case("UDP, without padding", Mechanisms { pads: false, ..ALL }, true),
];

/// A case over the sizes.
#[derive(Debug)]
struct Curve {
    moved: Vec<Moved>,
    rates: Vec<PairOutcome>,
}

impl Curve {
    fn new(run: &mut Run<'_>, machine: &Profile, case: &Case) -> Result<Self, ProfileError> {
        let (mut moved, mut rates) = (Vec::new(), Vec::new());
        for octets in case.sizes().iter().copied() {
            let work = Work { placement: case.placement, ahead: case.ahead, udp: case.udp, ..Work::raw(octets) };
            let one = run.ran(remapping::buffering(case.mechanisms, work, run.size(16, 3)), "a part of the model");
            run.happened(one.damaged, one.cells);
            let transport = if case.udp { Transport::Udp { checksum: false } } else { Transport::Raw };
            // Of what a sender copies headers are part; the model charges the SDU's octets.
            let copied = Some([one.copied[0] as usize, one.copied[1] as usize]);
            // Rows are of 8 kB: the ends of a short burst would show.
            let plain =
                Scenario::new(machine, machine, transport, run.size(2048, if octets == 8192 { 500 } else { 100 }));
            rates.push(run.pair(&Scenario { octets, copied, ..plain })?);
            moved.push(one);
        }
        Ok(Curve { moved, rates })
    }

    fn points(&self, of: impl Fn(&Moved, &PairOutcome) -> f64) -> Vec<(f64, f64)> {
        let each = SIZES.iter().zip(self.moved.iter().zip(&self.rates));
        each.map(|(octets, (moved, rate))| (*octets as f64, of(moved, rate))).collect()
    }

    fn moved_at(&self, octets: usize) -> &Moved {
        &self.moved[SIZES.iter().position(|n| *n == octets).unwrap_or(0)]
    }

    fn received_at(&self, octets: usize) -> f64 {
        at(&self.rates, octets).received_mbit_s
    }
}

/// See the module's head.
#[derive(Debug)]
pub struct SingleCopy;

impl Experiment for SingleCopy {
    fn name(&self) -> &'static str {
        "seed000-mechanisms"
    }

    fn title(&self) -> &'static str {
        "Figures 8 to 10 and Table 1 with each mechanism of single copy, and without"
    }

    fn run(&self, run: &mut Run<'_>) -> Result<(), ProfileError> {
        let machine = run.machine("pentium90-neptune")?;
        let mut curves = Vec::new();
        for case in &CASES {
            curves.push(Curve::new(run, &machine, case)?);
        }
        directions(run, &curves);
        alignment(run, &curves);
        prediction(run, &curves)?;
        length(run);
        table_1(run, &curves)?;
        figures(run, &curves);
        lists(run);
        layers(run);
        Ok(())
    }

    fn today(&self, run: &mut Run<'_>) {
        super::today::mechanisms(run);
    }
}

/// Each direction by itself.
fn directions(run: &mut Run<'_>, curves: &[Curve]) {
    let mebi = |mbit_s: f64| mbit_s / MEBI;
    let received = |case: usize| mebi(curves[case].received_at(8192));
    run.identity("D-10", "raw AAL5, 8192 octets, both mechanisms, received", MEBIBIT, 129.0, 0, received(BOTH))
        .note("the line's maximum; the driver copied nothing");
    let (sends, maps) = (&curves[SENDING], &curves[RECEIVING]);
    run.words(
        "A-28",
        "to lock and protect the pages of the sending application in physical memory, to translate their virtual addresses",
        Test::new(
            sends.moved_at(8192).copied == [0.0, 8192.0] && maps.moved_at(8192).copied == [8192.0, 0.0],
            "with sending from pages only, the sender copies nothing and the receiver all; with mapping only, the other way round",
            "an octet copied on the side that has its mechanism",
        ),
        format!(
            "received at 8 kB: {:.1} by copying, {:.1} with the sender's mechanism only, {:.1} with the receiver's only, {:.1} with both: \
             in one direction the receiver is what limits",
            received(COPYING),
            received(SENDING),
            received(RECEIVING),
            received(BOTH)
        ),
    );
    let sent = |case: usize| mebi(at(&curves[case].rates, 8192).sent_mbit_s);
    run.words(
        "A-55",
        "the possible throughput increases almost exponentially",
        Test::new(
            (sent(SENDING) / sent(BOTH) - 1.0).abs() < 0.02 && sent(RECEIVING) < 1.1 * line_mbit_s(8192) / MEBI,
            "figure 10's enqueue rate is the sender's mechanism's alone, and without it the rate is that of copying",
            "an enqueue rate that the receiver's mechanism changes",
        ),
        format!("enqueued at 8 kB: {:.0} with it, {:.1} without", sent(SENDING), sent(RECEIVING)),
    );
    let below = |case: usize| mebi(curves[case].received_at(2048));
    run.words(
        "A-53",
        "the contents of partially filled pages are always copied",
        Test::new(
            curves[BOTH].moved_at(2048).mapped == 0.0 && curves[BOTH].moved_at(4096).copied[1] == 0.0,
            "of SDUs of 2 kB the driver copies all octets, of 4 kB none",
            "a page that was mapped though it was not full, or the other way round",
        ),
        format!("received at 2 kB: {:.1} with the receiver's mechanism, {:.1} without", below(BOTH), below(SENDING)),
    );
    let crossings = |case: usize| curves[case].moved_at(8192).crossings;
    run.words(
        "A-22",
        "Primarily memory bandwidth is found to be insufficient to support the number of transfers required by traditional networking",
        Test::new(
            crossings(COPYING) == [4.0, 4.0] && crossings(BOTH) == [2.0, 2.0],
            "each octet crosses the memory bus four times on each side by copying, and twice with both mechanisms: the application and the \
             adapter once each",
            "any other count",
        ),
        format!(
            "counted at each copy, transfer and access of the application, 8 kB: {:.2} and {:.2} times by copying, {:.2} and {:.2} with both",
            crossings(COPYING)[0],
            crossings(COPYING)[1],
            crossings(BOTH)[0],
            crossings(BOTH)[1]
        ),
    );
}

/// Padding, and where the application's buffers lie.
fn alignment(run: &mut Run<'_>, curves: &[Curve]) {
    let received = |case: usize| curves[case].received_at(8192) / MEBI;
    let copied = |case: usize| curves[case].moved_at(8192).copied[1];
    run.words(
        "A-34",
        "padding bytes are inserted between the control information block and the beginning of data received from the network",
        Test::new(
            copied(NO_PADDING) == 8192.0 && received(BOTH) > 1.2 * received(NO_PADDING),
            "without padding all octets are copied, and the receiver is slower by a fifth at least",
            "a page mapped without padding",
        ),
        format!("received at 8 kB: {:.1} with padding, {:.1} without", received(BOTH), received(NO_PADDING)),
    );
    run.words(
        "A-36",
        "Applications may attempt to cooperate by aligning their receive buffers to page boundaries",
        Test::new(
            copied(BOTH) == 0.0 && copied(MISPLACED) == 8192.0,
            "buffers that lie as the API says are filled without a copy; of others, all octets are copied",
            "a copy where the buffer is aligned, or none where it is not",
        ),
        format!("received at 8 kB: {:.1} aligned, {:.1} at 1024 of a page", received(BOTH), received(MISPLACED)),
    );
    run.words(
        "A-36",
        "the same information may also be available independent of alignment of receive buffers if the application issues the receive system \
         call before the kernel receive buffer has to be set up",
        Test::new(
            copied(AHEAD) == 4096.0 && received(AHEAD) > 1.05 * received(MISPLACED),
            "of 8 kB for a buffer at 1024 of a page that was posted ahead, the one whole page is mapped",
            "as much copied as without knowing the buffer",
        ),
        format!(
            "received at 8 kB: {:.1}; {:.0} of 8192 octets are copied, which lie on pages that they do not fill",
            received(AHEAD),
            copied(AHEAD)
        ),
    );
}

/// Datagrams of an application on a circuit that others share.
fn prediction(run: &mut Run<'_>, curves: &[Curve]) -> Result<(), ProfileError> {
    let received = |case: usize| curves[case].received_at(8192) / MEBI;
    let moved = |case: usize| curves[case].moved_at(8192);
    run.words(
        "A-37",
        "Since the packet is already present in adapter memory, a quick header analysis can provide all the information needed",
        Test::new(
            moved(UDP_ALL).predicted == 1.0 && moved(UDP_ALL).copied == [0.0; 2] && moved(UDP_NO_LOOK).copied[1] == 8192.0,
            "with the look every datagram's data lie as they are wanted, without it they are copied",
            "a copy with the look, or none without it",
        ),
        format!(
            "UDP without checksum, received at 8 kB: {:.1} with the look, {:.1} without it, {:.1} without padding, {:.1} by copying",
            received(UDP_ALL),
            received(UDP_NO_LOOK),
            received(UDP_NO_PADDING),
            received(UDP_COPYING)
        ),
    );
    let machine = run.machine("pentium90-neptune")?;
    let mut found = Vec::new();
    for options in [0, 10, 4, 2, 1] {
        let work = Work { options, ..Work::udp(8192) };
        let moved = run.ran(remapping::buffering(ALL, work, run.size(200, 20)), "a part of the model");
        run.happened(moved.damaged, moved.cells);
        let copied = Some([0, moved.copied[1] as usize]);
        let plain = Scenario::new(&machine, &machine, Transport::Udp { checksum: false }, run.size(2048, 200));
        let outcome = run.pair(&Scenario { octets: 8192, copied, ..plain })?;
        found.push((if options == 0 { 0.0 } else { 100.0 / options as f64 }, moved, outcome.received_mbit_s / MEBI));
    }
    let slow = |n: usize| found[n].1.slow * 100.0;
    run.words(
        "A-38",
        "If their values do not correspond to what was assumed, the usual, less efficient processing has to be performed on the packet",
        Test::new(
            found.iter().all(|(share, moved, _)| (moved.slow * 100.0 - share).abs() < 0.5 && moved.damaged == 0),
            "just the datagrams with IP options go the slow path, and arrive unchanged",
            "a datagram with options that was taken for another, or one without that was not",
        ),
        format!(
            "of 10 and 50 % with options {:.0} and {:.0} % go it; received at 8 kB {:.1}, {:.1} and, of all, {:.1}",
            slow(1),
            slow(3),
            found[1].2,
            found[3].2,
            found[4].2
        ),
    );
    let mut figure = Figure::new(
        "mechanisms-options",
        "UDP whose headers are not what the look assumed",
        ["% of datagrams with IP options", MEBIBIT],
        [false, false],
    );
    figure.add("received at 8 kB", Origin::Modelled, found.iter().map(|(share, _, rate)| (*share, *rate)));
    run.figure(figure);
    Ok(())
}

/// What a length is known for: memory for datagrams that wait for their application.
fn length(run: &mut Run<'_>) {
    /// Octets behind a datagram: less than the shortest frame of a bridged Ethernet is padded with.
    const BEHIND: usize = 40;
    let sizes = [64usize, 512, 1024, 2048, 4096, 8192, 16_384, 32_768];
    let ways = [
        ("no length: room for the longest PDU", Length::Longest),
        ("AAL5's length", Length::Aal5),
        ("UDP's length", Length::Udp),
    ];
    let mut of = |length, octets, padding| {
        let work = Work { padding, ..Work::udp(octets) };
        let held = run.ran(remapping::held(Mechanisms { length, ..ALL }, work, 64), "a part of the model");
        run.happened(held.damaged, held.cells);
        held
    };
    let plain = ways.map(|(_, length)| of(length, 8192, 0));
    let padded = ways.map(|(_, length)| sizes.map(|octets| of(length, octets, BEHIND)));
    let at_8k = |way: usize| &padded[way][5];
    let whole = plain.iter().chain(padded.iter().flatten()).all(|held| held.damaged == 0);
    let sdus = plain.map(|held| held.sdus);
    run.words(
        "A-39",
        "either the UDP packet length or the AAL5 payload length is needed to allocate the appropriate amount of buffer memory",
        Test::new(
            whole && sdus[1] >= 5 * sdus[0] && sdus[2] == sdus[1] && at_8k(2).sdus > at_8k(1).sdus,
            "five times as many datagrams of 8 kB can wait with a length as without; with octets behind them that are not UDP's, more by \
             UDP's length than by AAL5's; all are read as they were sent",
            "as many without a length, or as many by AAL5's as by UDP's where padding has a page of its own",
        ),
        format!(
            "datagrams of 8 kB that wait in {} pages: {} with room for the longest PDU each, {} by AAL5's length, {} by UDP's; with {BEHIND} \
             octets behind each {}, {} and {}; pages of each {:.0}, {:.0} and {:.0}",
            remapping::PAGES,
            sdus[0],
            sdus[1],
            sdus[2],
            at_8k(0).sdus,
            at_8k(1).sdus,
            at_8k(2).sdus,
            at_8k(0).pages,
            at_8k(1).pages,
            at_8k(2).pages
        ),
    );
    let mut figure = Figure::new(
        "mechanisms-length",
        "Datagrams that wait in 64 pages, by the length that pages are taken by",
        ["octets of the data", "datagrams"],
        [true, true],
    );
    for ((name, _), held) in ways.iter().zip(&padded) {
        figure.add(
            name,
            Origin::Modelled,
            sizes.iter().zip(held).map(|(octets, held)| (*octets as f64, held.sdus as f64)),
        );
    }
    run.figure(figure);
}

/// Copies that are left, in Table 1's arithmetic.
fn table_1(run: &mut Run<'_>, curves: &[Curve]) -> Result<(), ProfileError> {
    let mut figure = Figure::new(
        "mechanisms-table-1",
        "Table 1, combined, with what the driver copied",
        ["octets of an SDU", "10^6 octets/s"],
        [true, false],
    );
    for (name, board, id, io) in
        [("pentium90-neptune", "Neptune", "A-19", 51.0), ("pentium90-triton", "Triton", "A-20", 53.0)]
    {
        let machine = run.machine(name)?;
        for (case, label) in [(COPYING, "copying"), (BOTH, "both mechanisms"), (AHEAD, "buffers at 1024, posted ahead")]
        {
            let mut points = Vec::new();
            for (octets, moved) in SIZES.iter().zip(&curves[case].moved) {
                let share = moved.copied[1] / *octets as f64;
                points.push((*octets as f64, copied_and_transferred(&machine, 1e6, share)?));
            }
            if case == BOTH {
                let rate = points[SIZES.iter().position(|n| *n == 8192).unwrap_or(0)].1;
                let what = format!("Table 1, combined, {name}, with nothing copied");
                run.identity(id, &what, "10^6 octets/s", io, 0, rate)
                    .note("mem to IO alone is left: the driver copied nothing of 8192 octets");
            }
            figure.add(&format!("{board}, {label}"), Origin::Modelled, points);
        }
    }
    figure.add("Neptune, published", Origin::Published, [(64.0, 13.8), (16_384.0, 13.8)]);
    figure.add("Triton, published", Origin::Published, [(64.0, 22.5), (16_384.0, 22.5)]);
    run.figure(figure);
    Ok(())
}

fn figures(run: &mut Run<'_>, curves: &[Curve]) {
    let mut add = |name: &str, title: &str, y: &str, log, cases: &[usize], of: &dyn Fn(&Moved, &PairOutcome) -> f64| {
        let mut figure = axes(name, title, log);
        figure.axes[1] = y.into();
        if y == MEBIBIT && !log {
            maximum(&mut figure);
        }
        for case in cases {
            figure.add(CASES[*case].name, Origin::Modelled, curves[*case].points(of));
        }
        run.figure(figure);
    };
    let directions = [COPYING, SENDING, RECEIVING, BOTH];
    let placing = [COPYING, NO_PADDING, MISPLACED, AHEAD, BOTH];
    let udp = [UDP_COPYING, UDP_NO_LOOK, UDP_NO_PADDING, UDP_ALL];
    add("mechanisms-received", "Figures 8 and 9 by mechanism: received", MEBIBIT, false, &directions, &|_, o| {
        o.received_mbit_s / MEBI
    });
    add(
        "mechanisms-carried",
        "Figures 8 and 9 by mechanism: what the sender gets out",
        MEBIBIT,
        false,
        &directions,
        &|_, o| o.sent_mbit_s.min(o.carried_mbit_s) / MEBI,
    );
    add("mechanisms-enqueued", "Figure 10 by mechanism: enqueue rate", MEBIBIT, true, &directions, &|_, o| {
        o.sent_mbit_s / MEBI
    });
    add("mechanisms-alignment", "Figure 9 by alignment: received", MEBIBIT, false, &placing, &|_, o| {
        o.received_mbit_s / MEBI
    });
    add("mechanisms-prediction", "UDP by what the interrupt handler knows: received", MEBIBIT, false, &udp, &|_, o| {
        o.received_mbit_s / MEBI
    });
    let all: Vec<usize> = (0..CASES.len()).collect();
    let crossings = "crossings of an octet, both hosts";
    add("mechanisms-crossings", "What crosses the memory buses", crossings, false, &all, &|m, _| {
        m.crossings.iter().sum()
    });
}

/// The just-in-time adapter's free lists.
fn lists(run: &mut Run<'_>) {
    let all = jit::driver::Mechanisms::default();
    let pdus = run.size(200, 40);
    let mut arrive = |mechanisms, work| -> Guessed {
        let guessed = run.ran(remapping::just_in_time(mechanisms, work, pdus), "a part of the model");
        run.happened(guessed.damaged, guessed.cells);
        guessed
    };
    let mut of = |mechanisms, interleaved, octets, trailer| {
        arrive(mechanisms, Arrivals { interleaved, octets, trailer, row: 17, ..Arrivals::default() })
    };
    let blind = of(jit::driver::Mechanisms { guesses: false, ..all }, false, 8192, 0);
    let guessed = of(all, false, 8192, 0);
    let sizes = [64usize, 1024, 4096, 8192, 16_384, 32_768];
    let batches = sizes.map(|octets| of(jit::driver::Mechanisms { batches: true, ..all }, true, octets, 0));
    let singles = sizes.map(|octets| of(all, true, octets, 0));
    // The trailer begins four octets before the third page.
    let short = 2 * bus::iocc::PAGE - remapping::HEADERS - 4;
    let changed = of(all, true, short, 8);
    let repaired = of(jit::driver::Mechanisms { changes_strategy: false, ..all }, true, short, 8);
    run.words(
        "A-35",
        "If the choice was incorrect, the packet still has to be copied from kernel to user space",
        Test::new(
            blind.hits == 0.0 && blind.copied >= 8192.0 && guessed.hits > 0.9 && guessed.copied < 0.1 * blind.copied,
            "a circuit with one application, 8 kB: with guesses 90 % of the data lie as they are wanted, and a tenth is copied at most; \
             without, all is copied",
            "as much copied with guesses as without",
        ),
        format!("{:.0} octets of each PDU copied with guesses, {:.0} without", guessed.copied, blind.copied),
    );
    let whole = batches.iter().all(|guessed| guessed.in_a_row == 1.0);
    run.words(
        "A-41",
        "buffers of worst-case size have to be allocated if data is to be stored in contiguous memory",
        Test::new(
            whole && singles[3].in_a_row < 0.5 && batches[3].empty > 10.0,
            "with batches of 17 pages PDUs of all sizes lie in a row, though two circuits' cells come in turn, and of 8 kB more than ten pages \
             come back empty; of single pages PDUs lie strewn, and none comes back empty",
            "PDUs in a row without batches, or batches without empty pages",
        ),
        format!(
            "of PDUs of 8 kB, in a row: {:.0} % with batches, {:.0} % without; pages taken {:.1} and {:.1}, left empty {:.1} and {:.1}, octets \
             copied {:.0} and {:.0}: a page of the data is in one frame only where the buffers of a PDU are neighbours",
            100.0 * batches[3].in_a_row,
            100.0 * singles[3].in_a_row,
            batches[3].buffers,
            singles[3].buffers,
            batches[3].empty,
            singles[3].empty,
            batches[3].copied,
            singles[3].copied
        ),
    );
    run.words(
        "A-43",
        "If trailer fragmentation occurs systematically on a VC, a different memory allocation strategy has to be chosen for that VC",
        Test::new(
            changed.repaired < 0.5 * repaired.repaired && changed.copied < repaired.copied,
            "where each trailer lies on two pages, changing the strategy saves more than half of the repairs, and copies less",
            "as many repairs with another strategy",
        ),
        format!(
            "{:.0} % of the trailers are repaired where the strategy changes, {:.0} % where not; {:.0} and {:.0} octets of each PDU copied",
            100.0 * changed.repaired,
            100.0 * repaired.repaired,
            changed.copied,
            repaired.copied
        ),
    );
    let mut figure = Figure::new(
        "mechanisms-batches",
        "Free lists of single pages and of batches of 17",
        ["octets of the data", "pages of a PDU"],
        [true, true],
    );
    let points = |all: &[Guessed], of: fn(&Guessed) -> f64| -> Vec<(f64, f64)> {
        sizes.iter().zip(all).map(|(octets, guessed)| (*octets as f64, of(guessed))).collect()
    };
    figure.add("taken, batches", Origin::Modelled, points(&batches, |g| g.buffers));
    figure.add("filled, batches", Origin::Modelled, points(&batches, |g| g.buffers - g.empty));
    figure.add("taken, single pages", Origin::Modelled, points(&singles, |g| g.buffers));
    run.figure(figure);
    let mut figure = Figure::new(
        "mechanisms-interleaved",
        "What is copied where two circuits' cells come in turn",
        ["octets of the data", "octets copied"],
        [true, false],
    );
    figure.add("batches", Origin::Modelled, points(&batches, |g| g.copied));
    figure.add("single pages", Origin::Modelled, points(&singles, |g| g.copied));
    run.figure(figure);
}

/// Sizes of headers and trailers that nobody knows in advance.
fn layers(run: &mut Run<'_>) {
    let pdus = run.size(200, 40);
    let all = jit::driver::Mechanisms { changes_strategy: false, ..jit::driver::Mechanisms::default() };
    let mut of = |learns_sizes, work| {
        let mechanisms = jit::driver::Mechanisms { learns_sizes, ..all };
        let guessed = run.ran(remapping::just_in_time(mechanisms, work, pdus), "a part of the model");
        run.happened(guessed.damaged, guessed.cells);
        guessed
    };
    let both = |of: &mut dyn FnMut(bool, Arrivals) -> Guessed, work| [true, false].map(|learns| of(learns, work));
    // None, a tenth, a quarter, half and all of the datagrams.
    let shares = [0u64, 10, 4, 2, 1];
    let plain = Arrivals { octets: 8192, row: 17, ..Arrivals::default() };
    let options = shares.map(|options| both(&mut of, Arrivals { options, ..plain }));
    // An application's trailer on two pages, and as many octets behind the datagram, all on the second one.
    let short = 2 * bus::iocc::PAGE - remapping::HEADERS - 4;
    let behind = both(&mut of, Arrivals { interleaved: true, octets: short, trailer: 8, padding: 8, ..plain });
    let [none, each] = [options[0], options[4]];
    run.words(
        "A-44",
        "the maximum header or trailer sizes are not known in advance and where new information about encapsulation is obtained incrementally",
        Test::new(
            none[1].hits > 0.9 && each[0].hits > 0.9 && each[1].hits == 0.0 && behind[0].apart == 0.0 && behind[1].apart > 0.9,
            "where each datagram has IP options, 90 % of the data lie as they are wanted if sizes are found layer by layer, and none if they \
             are assumed; a trailer with padding behind it is repaired, or left on two pages",
            "as many hits, or as many trailers repaired, with assumed sizes",
        ),
        format!(
            "octets of 8 kB copied: {:.0} and, with assumed sizes, {:.0}; without options {:.0} and {:.0}; trailers left on pages that are no \
             neighbours: {:.0} and {:.0} %",
            each[0].copied,
            each[1].copied,
            none[0].copied,
            none[1].copied,
            100.0 * behind[0].apart,
            100.0 * behind[1].apart
        ),
    );
    let mut figure = Figure::new(
        "mechanisms-layers",
        "What is copied where headers have options",
        ["% of datagrams with IP options", "octets of 8 kB copied"],
        [false, false],
    );
    for (n, name) in ["sizes found layer by layer", "sizes assumed"].into_iter().enumerate() {
        let points = shares.iter().zip(&options).map(|(one_of, guessed)| {
            let share = if *one_of == 0 { 0.0 } else { 100.0 / *one_of as f64 };
            (share, guessed[n].copied)
        });
        figure.add(name, Origin::Modelled, points);
    }
    run.figure(figure);
}
