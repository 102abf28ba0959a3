//! Seed 004 (Smith 2002), section 3.2: netperf between two HP 9000/755 with the OC-12c board, its driver, a divided clock and the real TCP
//! in the loop. `seed004-clocks` asks the same of packets without a board.

use crate::experiment::{Experiment, Figure, Origin, Run, Test};
use crate::model::ProfileError;
use crate::model::compete::Notice;
use crate::model::netperf::{self, Costs, Load, NetperfOutcome};

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
/// Octets of a socket buffer.
const SIZES: [usize; 4] = [16 << 10, 32 << 10, 64 << 10, 256 << 10];
/// The kernel's clock, whatever the timer's rate.
const KERNEL_HERTZ: f64 = 100.0;

/// See the module's head.
#[derive(Debug)]
pub struct Board;

type Curves = [[NetperfOutcome; SIZES.len()]; WAYS.len()];

impl Experiment for Board {
    fn name(&self) -> &'static str {
        "seed004-board"
    }

    fn title(&self) -> &'static str {
        "netperf through two OC-12c boards by interrupts, a divided clock and polling, alone and beside a process that computes"
    }

    fn run(&self, run: &mut Run<'_>) -> Result<(), ProfileError> {
        let costs = Costs::of(&run.machine("hp9000-755")?)?;
        let seconds = run.size(20, 3) as f64 / 10.0;
        let mut curves = |computes: bool| -> Curves {
            WAYS.map(|(_, notice)| {
                SIZES.map(|socket_octets| {
                    let load = Load { notice, costs, socket_octets, computes };
                    let outcome = run.ran(netperf::run(&load, seconds), "netperf through two boards");
                    run.happened(outcome.mbit_s.to_bits(), (outcome.pdus * seconds) as u64);
                    outcome
                })
            })
        };
        let (alone, loaded) = (curves(false), curves(true));
        for (name, title, curves) in [
            ("seed004-board-alone", "netperf through the OC-12c board, unloaded", &alone),
            ("seed004-board-loaded", "netperf through the OC-12c board, beside a process that computes", &loaded),
        ] {
            let mut figure = Figure::new(name, title, ["octets of the socket buffer", "Mbit/s"], [true, false]);
            for ((label, _), curve) in WAYS.iter().zip(curves) {
                figure.add(label, Origin::Modelled, SIZES.iter().zip(curve).map(|(n, o)| (*n as f64, o.mbit_s)));
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
    let all = || alone.iter().chain(loaded).flatten();
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
        alone[way].iter().chain(&loaded[way]).all(|o| o.ticks > 0.96 * hertz && o.ticks <= hertz)
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

/// The three ways to learn of what has come.
fn ways(run: &mut Run<'_>, alone: &Curves, loaded: &Curves) {
    let rate = |curves: &Curves, way: usize, size: usize| curves[way][size].mbit_s;
    let last = SIZES.len() - 1;
    let keeps = rate(alone, TWO_KILOHERTZ, last) / rate(alone, INTERRUPTS, last);
    run.words(
        "E-14",
        "clocked interrupts can provide throughput equivalent to the best throughput available from traditional interrupts",
        Test::new(keeps > 0.9, "256 KB, 2 kHz: 90 % of what interrupts give", "less than 90 %"),
        format!(
            "256 KB: interrupts {:.0}, 0.5 kHz {:.0}, 2 kHz {:.0} Mbit/s; 16 KB: {:.0}, {:.0} and {:.0}",
            rate(alone, INTERRUPTS, last),
            rate(alone, HALF_KILOHERTZ, last),
            rate(alone, TWO_KILOHERTZ, last),
            rate(alone, INTERRUPTS, 0),
            rate(alone, HALF_KILOHERTZ, 0),
            rate(alone, TWO_KILOHERTZ, 0)
        ),
    );
    run.words(
        "E-14",
        "clocked interrupts provide higher throughput when the processor is loaded by a computationally-intensive process",
        Test::new(
            rate(loaded, HALF_KILOHERTZ, last) > rate(loaded, INTERRUPTS, last)
                && rate(loaded, TWO_KILOHERTZ, last) > rate(loaded, INTERRUPTS, last),
            "256 KB, loaded: both clocks above interrupts",
            "either clock at or below interrupts",
        ),
        format!(
            "256 KB, loaded: interrupts {:.0}, 0.5 kHz {:.0}, 2 kHz {:.0} Mbit/s",
            rate(loaded, INTERRUPTS, last),
            rate(loaded, HALF_KILOHERTZ, last),
            rate(loaded, TWO_KILOHERTZ, last)
        ),
    );
    run.words(
        "E-14",
        "some anomalous, but repeatable results which show polling best for small socket buffer sizes",
        Test::new(
            rate(alone, POLLING, 0) > rate(alone, INTERRUPTS, 0),
            "16 KB, unloaded: a polling process above interrupts",
            "interrupts above polling at 16 KB",
        ),
        format!("16 KB: polling {:.0}, interrupts {:.0} Mbit/s", rate(alone, POLLING, 0), rate(alone, INTERRUPTS, 0)),
    );
    // "Both methods": what the queue model of seed004-clocks says of it counts for nothing beside the board.
    let beats = |size: usize| {
        let polled = rate(loaded, POLLING, size);
        [INTERRUPTS, HALF_KILOHERTZ].into_iter().all(|way| polled < 0.98 * rate(loaded, way, size))
    };
    let all =
        |way: usize| SIZES.iter().enumerate().map(|(i, _)| format!("{:.0}", rate(loaded, way, i))).collect::<Vec<_>>();
    run.words(
        "E-16",
        "both methods provide better performance than polling as implemented here",
        Test::new(
            (0..SIZES.len()).all(beats),
            "loaded, 16 to 256 KB, the board with the real TCP: polling 2 % below interrupts and below 500 Hz",
            "polling as fast within 2 %, or faster, at one of the sizes",
        ),
        format!(
            "Mbit/s at 16, 32, 64 and 256 KB: polling {}, interrupts {}, 500 Hz {}",
            all(POLLING).join(", "),
            all(INTERRUPTS).join(", "),
            all(HALF_KILOHERTZ).join(", ")
        ),
    );
    run.words(
        "E-16",
        "at high polling rates, the clocked interrupt scheme is able to keep up with the traditional interrupt scheme",
        Test::new(
            keeps > 0.9,
            "256 KB, 2 kHz, the board with the real TCP: 90 % of what interrupts give",
            "less than 90 %",
        ),
        format!("{:.0} % of what interrupts give", keeps * 100.0),
    );
}
