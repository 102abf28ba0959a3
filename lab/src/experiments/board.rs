//! Seed 004 (Smith 2002), section 3.2: netperf between two HP 9000/755 with the OC-12c board, its driver, a divided clock and the real TCP
//! in the loop. It decides the paper's sentences about figures 4 and 5; `seed004-clocks` asks the same of packets without a board, and
//! decides nothing. A rate is the one of the steady state, by the rule of [`crate::model::steady`], with its interval.

use crate::experiment::{Experiment, Figure, Run, Test};
use crate::model::ProfileError;
use crate::model::compete::Notice;
use crate::model::netperf::{self, Costs, Load, NetperfOutcome};
use crate::model::steady::{Rule, Steady};

const INTERRUPTS: usize = 0;
const HALF_KILOHERTZ: usize = 1;
const TWO_KILOHERTZ: usize = 2;
const POLLING: usize = 3;
const WAYS: [(&str, Notice); 4] = [
    ("interrupts", Notice::Interrupt),
    ("Poll 0.5 kHz", Notice::Clocked(500.0)),
    ("Poll 2 kHz", Notice::Clocked(2000.0)),
    ("polling process", Notice::Polling),
];
/// Octets of a socket buffer. A short run has the two ends.
const SIZES: [usize; 4] = [16 << 10, 32 << 10, 64 << 10, 256 << 10];
/// The kernel's clock, whatever the timer's rate.
const KERNEL_HERTZ: f64 = 100.0;

/// See the module's head.
#[derive(Debug)]
pub struct Board;

/// By way, and by size.
type Curves = Vec<Vec<(NetperfOutcome, Steady)>>;

/// From five seconds of virtual time to twenty, until half of the interval is 5 % of the rate: TCP's window takes more than a second
/// to settle.
const RULE: Rule = Rule { least: 100, most: 400, relative: 0.05 };
/// Three seconds, whatever the interval: a short run's.
const QUICK: Rule = Rule { least: 60, most: 60, ..RULE };
impl Experiment for Board {
    fn name(&self) -> &'static str {
        "seed004-board"
    }

    fn title(&self) -> &'static str {
        "netperf through two OC-12c boards by interrupts, a divided clock and polling, alone and beside a process that computes"
    }

    fn run(&self, run: &mut Run<'_>) -> Result<(), ProfileError> {
        let costs = Costs::of(&run.machine("hp9000-755")?)?;
        let quick = run.size(1, 0) == 0;
        let rule = if quick { QUICK } else { RULE };
        let sizes: Vec<usize> = SIZES.iter().copied().step_by(if quick { SIZES.len() - 1 } else { 1 }).collect();
        let mut outcome = |notice, socket_octets: usize, computes| {
            let load = Load { notice, costs, socket_octets, computes };
            let (outcome, rate) = run.ran(netperf::steady(&load, &rule), "netperf through two boards");
            run.happened(rate.mean.to_bits(), (outcome.pdus * rate.batches[1] as f64) as u64);
            (outcome, rate)
        };
        let mut curves = |computes| -> Curves {
            let mut way = |notice| sizes.iter().map(|octets| outcome(notice, *octets, computes)).collect();
            WAYS.iter().map(|(_, notice)| way(*notice)).collect()
        };
        let (alone, loaded) = (curves(false), curves(true));
        for (name, title, curves) in [
            ("seed004-board-alone", "netperf through the OC-12c board, unloaded", &alone),
            ("seed004-board-loaded", "netperf through the OC-12c board, beside a process that computes", &loaded),
        ] {
            let mut figure = Figure::new(name, title, ["octets of the socket buffer", "Mbit/s"], [true, false]);
            for ((label, _), curve) in WAYS.iter().zip(curves) {
                let point = |(octets, (_, rate)): (&usize, &(NetperfOutcome, Steady))| {
                    let [from, to] = rate.interval();
                    [*octets as f64, rate.mean, from, to]
                };
                figure.add_bars(label, sizes.iter().zip(curve).map(point));
            }
            run.figure(figure);
        }
        board(run, &alone, &loaded);
        ways(run, &alone, &loaded);
        Ok(())
    }
}

/// What the board and the clock do.
fn board(run: &mut Run<'_>, alone: &Curves, loaded: &Curves) {
    let all = || alone.iter().chain(loaded).flatten().map(|(outcome, _)| outcome);
    let crossings = || all().map(|outcome| outcome.crossings);
    let (least, most) = (crossings().fold(9.9, f64::min), crossings().fold(0.0, f64::max));
    run.words(
        "E-14",
        "absorbed other useful features from the design of the Afterburner",
        Test::new(
            all().all(|outcome| outcome.damaged == 0) && least >= 2.0 && most < 2.5,
            "each octet crosses the receiver's memory bus twice, written on its way out of the board and read by the process, since the board sums \
             it; all octets are read as they were written",
            "a third crossing, or an octet that was changed",
        ),
        format!("{least:.2} to {most:.2} times, counted; what has come and is not read yet counts too"),
    );
    let ticks = |way: usize, hertz: f64| {
        alone[way].iter().chain(&loaded[way]).all(|(o, _)| o.ticks > 0.96 * hertz && o.ticks <= hertz)
    };
    let clock = |outcome: &NetperfOutcome| (0.94 * KERNEL_HERTZ..=KERNEL_HERTZ).contains(&outcome.clock);
    let slowest = all().map(|outcome| outcome.clock).fold(999.0, f64::min);
    run.words(
        "E-14",
        "we altered the clock support subsystem to perform clock division",
        Test::new(
            all().all(clock) && ticks(HALF_KILOHERTZ, 500.0) && ticks(TWO_KILOHERTZ, 2000.0),
            "the timer goes at 500 or 2000 Hz, and the kernel's clock at 100 Hz, loaded or not",
            "a clock that goes with the timer, or a tick in 20 that is lost",
        ),
        format!("the kernel's clock has {slowest:.0} ticks a second at least; as many looks at the board as the timer has ticks"),
    );
}

/// A rate and half of its interval, in words.
fn said(rate: &Steady) -> String {
    format!("{:.0} +- {:.0}{}", rate.mean, rate.half_width, if rate.met { "" } else { " (not steady)" })
}

/// The three ways to learn of what has come. Two rates differ where their intervals do not overlap.
fn ways(run: &mut Run<'_>, alone: &Curves, loaded: &Curves) {
    keeps_up(run, alone);
    beside_a_process(run, loaded);
    small_buffers(run, alone);
}

/// The rates of a way, by size.
fn rates(curves: &Curves, way: usize) -> String {
    curves[way].iter().map(|(_, rate)| said(rate)).collect::<Vec<_>>().join(", ")
}

/// What the rates in a row's evidence are of.
fn axis(curves: &Curves) -> &'static str {
    if curves[0].len() == SIZES.len() { "Mbit/s at 16, 32, 64 and 256 KB" } else { "Mbit/s at 16 and 256 KB" }
}

fn keeps_up(run: &mut Run<'_>, alone: &Curves) {
    let [interrupts, clocked] = [INTERRUPTS, TWO_KILOHERTZ].map(|way| alone[way][alone[way].len() - 1].1);
    let keeps = clocked.interval()[0] / interrupts.interval()[1];
    for (id, quote) in [
        (
            "E-14",
            "clocked interrupts can provide throughput equivalent to the best throughput available from traditional interrupts",
        ),
        (
            "E-16",
            "at high polling rates, the clocked interrupt scheme is able to keep up with the traditional interrupt scheme",
        ),
    ] {
        run.words(
            id,
            quote,
            Test::new(
                keeps > 0.9,
                "256 KB, 2 kHz: the lower end of the interval above 90 % of the upper end of what interrupts give",
                "90 % or less between those ends",
            ),
            format!(
                "{}: interrupts {}; 0.5 kHz {}; 2 kHz {}",
                axis(alone),
                rates(alone, INTERRUPTS),
                rates(alone, HALF_KILOHERTZ),
                rates(alone, TWO_KILOHERTZ)
            ),
        );
    }
}

fn beside_a_process(run: &mut Run<'_>, loaded: &Curves) {
    let rate = |way: usize, size: usize| loaded[way][size].1;
    let last = loaded[INTERRUPTS].len() - 1;
    let higher = [HALF_KILOHERTZ, TWO_KILOHERTZ].into_iter().all(|way| rate(INTERRUPTS, last).below(&rate(way, last)));
    let evidence = format!(
        "{}, loaded: interrupts {}; 0.5 kHz {}; 2 kHz {}; polling {}",
        axis(loaded),
        rates(loaded, INTERRUPTS),
        rates(loaded, HALF_KILOHERTZ),
        rates(loaded, TWO_KILOHERTZ),
        rates(loaded, POLLING)
    );
    for id in ["E-14", "E-16"] {
        run.words(
            id,
            "clocked interrupts provide higher throughput when the processor is loaded by a computationally-intensive process",
            Test::new(
                higher,
                "256 KB, loaded: both clocks above interrupts, with intervals that do not overlap",
                "either clock below interrupts, or within their interval",
            ),
            &evidence,
        );
    }
    let beats =
        |size: usize| [INTERRUPTS, HALF_KILOHERTZ].into_iter().all(|way| rate(POLLING, size).below(&rate(way, size)));
    run.words(
        "E-16",
        "both methods provide better performance than polling as implemented here",
        Test::new(
            (0..=last).all(beats),
            "loaded, 16 to 256 KB: polling below interrupts and below 500 Hz, with intervals that do not overlap",
            "polling as fast, or faster, at one of the sizes",
        ),
        &evidence,
    );
}

fn small_buffers(run: &mut Run<'_>, alone: &Curves) {
    let rate = |way: usize, size: usize| alone[way][size].1;
    let polls = rate(INTERRUPTS, 0).below(&rate(POLLING, 0));
    let evidence = format!(
        "{}: polling {}; interrupts {}; 0.5 kHz {}; 2 kHz {}",
        axis(alone),
        rates(alone, POLLING),
        rates(alone, INTERRUPTS),
        rates(alone, HALF_KILOHERTZ),
        rates(alone, TWO_KILOHERTZ)
    );
    run.words(
        "E-14",
        "some anomalous, but repeatable results which show polling best for small socket buffer sizes",
        Test::new(
            polls,
            "16 KB, unloaded: a polling process above interrupts, with intervals that do not overlap",
            "polling below interrupts at 16 KB, or within their interval",
        ),
        &evidence,
    );
    let best = |size: &usize| {
        [HALF_KILOHERTZ, TWO_KILOHERTZ].into_iter().all(|way| rate(way, *size).below(&rate(INTERRUPTS, *size)))
    };
    let all = alone[INTERRUPTS].len();
    let sizes = (0..all).filter(best).count();
    run.words(
        "E-16",
        "almost everywhere the best performer, with the exception of polling, which does best for small packet sizes",
        Test::new(
            polls && sizes > all / 2,
            "16 KB: polling above interrupts; at more than half of the sizes interrupts above both clocks; intervals do not overlap",
            "polling below at 16 KB, or interrupts above both clocks at half of the sizes or fewer",
        ),
        format!("interrupts above both clocks at {sizes} of {all} sizes. {evidence}"),
    );
}
