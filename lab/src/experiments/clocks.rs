//! Seed 004 (Smith 2002), figures 4 and 5: netperf by interrupts, clocks and polling, alone and beside a process that computes; today's
//! ways beside them; and for which costs of an interrupt and of a wake-up the paper's sentences hold.

use crate::experiment::{Experiment, Figure, Origin, Run, Test};
use crate::model::compete::{self, CompetitionOutcome, Costs, Load, Notice};
use crate::model::{Profile, ProfileError, Random, Scheduler};

const CLOCKS: [Notice; 5] = [
    Notice::Clocked(400.0),
    Notice::Clocked(500.0),
    Notice::Clocked(1000.0),
    Notice::Clocked(2000.0),
    Notice::Clocked(4000.0),
];
const HALF_KILOHERTZ: Notice = Notice::Clocked(500.0);
/// Interrupts coalesced as adapters of today do, at the pace of these machines: 8 packets, or a millisecond.
const COALESCED: Notice = Notice::Coalesced(8, 1e-3);
/// Linux's weight.
const NAPI: Notice = Notice::Napi(64);
/// Octets of a socket buffer: 1 to 256 KB.
const SIZES: [f64; 9] = [1024.0, 2048.0, 4096.0, 8192.0, 16_384.0, 32_768.0, 65_536.0, 131_072.0, 262_144.0];

fn costs(m: &Profile) -> Result<Costs, ProfileError> {
    let us = |name: &str| Ok(m.get(name)? * 1e-6);
    let segment = m.get("segment_octets")? * 8.0 / (m.get("throughput_mbit_s")? * 1e6);
    Ok(Costs {
        interrupt: us("interrupt_us")?,
        look: us("poll_us")?,
        // The sender works half as long on a segment as the receiver: it neither waits nor copies twice.
        segment: [segment / 2.0, segment],
        process: m.get("process_share")?,
        echo: m.get("echo_ms")? * 1e-3 / 4.0,
        switch: us("switch_us")?,
        wire: us("wire_us")?,
        // Who slept goes first as long as it has used less than the others.
        scheduler: Scheduler { quantum: m.get("time_slice_ms")? * 1e-3, slack: 0.0 },
    })
}

/// A socket buffer of so many octets, filled with segments of `segment` octets or with one that is shorter.
fn load(costs: Costs, notice: Notice, segment: f64, octets: f64, computes: bool) -> Load {
    let shorter = segment.min(octets);
    let part = costs.segment.map(|seconds| seconds * shorter / segment);
    Load {
        notice,
        costs: Costs { segment: part, ..costs },
        window: (octets / shorter).floor() as u64,
        segment: shorter,
        computes,
    }
}

/// Rates of one machine.
struct Bench {
    costs: Costs,
    segment: f64,
    seconds: f64,
}

impl Bench {
    fn new(m: &Profile, seconds: f64) -> Result<Self, ProfileError> {
        Ok(Bench { costs: costs(m)?, segment: m.get("segment_octets")?, seconds })
    }

    fn run(&self, notice: Notice, octets: f64, computes: bool) -> CompetitionOutcome {
        let load = load(self.costs, notice, self.segment, octets, computes);
        compete::run(&load, self.seconds, false, &mut Random::new(0))
    }

    fn rate(&self, notice: Notice, octets: f64, computes: bool) -> f64 {
        self.run(notice, octets, computes).mbit_s
    }

    /// Least, mean and greatest round trip in milliseconds of so many echoes, alone or behind 256 KB of netperf's.
    fn echoes(&self, notice: Notice, behind: bool, count: usize, random: &mut Random) -> [f64; 3] {
        let mut load = load(self.costs, notice, self.segment, 262_144.0, false);
        load.window = if behind { load.window } else { 0 };
        let trips = compete::run(&load, count as f64 * 0.06, true, random).trips;
        let all = || trips.iter().take(count).map(|seconds| seconds * 1e3);
        let mean = all().sum::<f64>() / all().count().max(1) as f64;
        [all().fold(f64::MAX, f64::min), mean, all().fold(0.0, f64::max)]
    }

    /// "at high polling rates, the clocked interrupt scheme is able to keep up": of what interrupts give, the least share.
    fn keeps_up(&self) -> f64 {
        let interrupts = self.rate(Notice::Interrupt, SIZES[8], false);
        [CLOCKS[3], CLOCKS[4]]
            .map(|clock| self.rate(clock, SIZES[8], false) / interrupts)
            .into_iter()
            .fold(9.9, f64::min)
    }

    /// "almost everywhere the best performer, with the exception of polling, which does best for small packet sizes".
    fn best(&self) -> bool {
        let interrupts = SIZES.map(|octets| self.rate(Notice::Interrupt, octets, false));
        let polls = (0..3).all(|i| self.rate(Notice::Polling, SIZES[i], false) > interrupts[i]);
        polls && (0..5).all(|i| CLOCKS.iter().all(|clock| interrupts[i] > self.rate(*clock, SIZES[i], false)))
    }

    /// Sizes at which a clock of 500 Hz gives more than interrupts beside a process that computes.
    fn better(&self) -> usize {
        let better =
            |octets: &&f64| self.rate(HALF_KILOHERTZ, **octets, true) > self.rate(Notice::Interrupt, **octets, true);
        SIZES.iter().filter(better).count()
    }

    /// Polling below both others beside a process that computes, 256 KB.
    fn beats_polling(&self) -> bool {
        let [interrupts, clocked, polling] =
            [Notice::Interrupt, HALF_KILOHERTZ, Notice::Polling].map(|notice| self.rate(notice, SIZES[8], true));
        polling < interrupts && polling < clocked
    }
}

/// Figures 4 and 5.
#[derive(Debug)]
pub struct Clocks;

const WAYS: [(&str, Notice); 9] = [
    ("interrupts", Notice::Interrupt),
    ("polling process", Notice::Polling),
    ("Poll 0.4 kHz", CLOCKS[0]),
    ("Poll 0.5 kHz", CLOCKS[1]),
    ("Poll 1 kHz", CLOCKS[2]),
    ("Poll 2 kHz", CLOCKS[3]),
    ("Poll 4 kHz", CLOCKS[4]),
    ("today: interrupts coalesced, 8 packets or 1 ms", COALESCED),
    ("today: NAPI, weight 64", NAPI),
];

impl Experiment for Clocks {
    fn name(&self) -> &'static str {
        "seed004-clocks"
    }

    fn title(&self) -> &'static str {
        "Figures 4 and 5: throughput over socket buffer and clock rate, alone and beside a process that computes"
    }

    fn run(&self, run: &mut Run<'_>) -> Result<(), ProfileError> {
        let m = run.machine("hp9000-755")?;
        let bench = Bench::new(&m, run.size(8, 1) as f64)?;
        let mut all = Vec::new();
        for (computes, name, title) in [
            (false, "seed004-figure-04", "Figure 4: unloaded"),
            (true, "seed004-figure-05", "Figure 5: beside a process that computes"),
        ] {
            let mut figure = Figure::new(name, title, ["octets of the socket buffer", "Mbit/s"], [true, false]);
            let mut curves = Vec::new();
            for (label, notice) in WAYS {
                let curve = SIZES.map(|octets| (octets, bench.rate(notice, octets, computes)));
                figure.add(label, Origin::Modelled, curve);
                curves.push(curve);
            }
            run.figure(figure);
            all.push(curves);
        }
        let (idle, loaded) = (&all[0], &all[1]);
        run.absent(
            "E-16",
            "figures 4 and 5 in words, by queues without a board",
            "keep up; best performer; higher throughput when loaded; better than polling",
            &format!(
                "the board with the real TCP decides these sentences (seed004-board): two models of one machine differ, and packets without a \
                 protocol are the poorer one. Here, 256 KB: interrupts {:.0}, clocked at 0.4, 1, 2 and 4 kHz {:.0}, {:.0}, {:.0}, {:.0}; loaded: \
                 polling {:.0}, interrupts {:.0}, 500 Hz {:.0}, which is above interrupts at {} of {} sizes",
                idle[0][8].1,
                idle[2][8].1,
                idle[4][8].1,
                idle[5][8].1,
                idle[6][8].1,
                loaded[1][8].1,
                loaded[0][8].1,
                loaded[3][8].1,
                bench.better(),
                SIZES.len()
            ),
        );
        self.napi(run, &bench);
        run.absent(
            "E-15",
            "values of figures 4 and 5",
            "curves",
            "the text has neither points nor axes; what it says of them in words is under E-16",
        );
        Ok(())
    }

    fn today(&self, run: &mut Run<'_>) {
        super::today::clocks(run);
    }
}

impl Clocks {
    /// What became of "masking interrupts and polling", and its latency behind a load.
    fn napi(&self, run: &mut Run<'_>, bench: &Bench) {
        let count = run.size(2000, 200) as usize;
        let mut random = run.random();
        let mut echoes = |notice, behind| bench.echoes(notice, behind, count, &mut random);
        let said: Vec<String> =
            [("interrupts", Notice::Interrupt), ("500 Hz", HALF_KILOHERTZ), ("coalesced", COALESCED), ("NAPI", NAPI)]
                .into_iter()
                .map(|(name, notice)| {
                    let of = |[least, mean, greatest]: [f64; 3]| format!("{least:.1}/{mean:.1}/{greatest:.1}");
                    format!("{name} {} and {}", of(echoes(notice, false)), of(echoes(notice, true)))
                })
                .collect();
        let gain = |notice| bench.rate(notice, SIZES[8], false) / bench.rate(Notice::Interrupt, SIZES[8], false);
        let (napi, coalesced) = (gain(NAPI), gain(COALESCED));
        run.words(
            "E-12",
            "masking interrupts and polling some traffic intensity threshold",
            Test::new(
                napi > 1.01,
                "256 KB, unloaded: Linux's NAPI gives 1 % more than an interrupt for each packet",
                "as much or less: interrupts that are served together leave nothing to gain",
            ),
            format!(
                "NAPI {napi:.3} and coalesced interrupts {coalesced:.3} of what interrupts give; least, mean and greatest round trip of an \
                 echo in ms, alone and behind netperf: {}",
                said.join("; ")
            ),
        );
    }
}

/// For which costs the sentences hold.
#[derive(Debug)]
pub struct Region;

/// Microseconds of an interrupt, and of a wake-up.
const INTERRUPTS: [f64; 5] = [5.0, 10.0, 25.0, 50.0, 75.0];
const SWITCHES: [f64; 6] = [0.0, 50.0, 200.0, 500.0, 1000.0, 2000.0];
/// The paper's main conclusion about the two figures.
const LOADED: &str =
    "clocked interrupts provide higher throughput when the processor is loaded by a computationally-intensive process";
const SENTENCES: [&str; 4] = [
    "unloaded, 2 and 4 kHz keep up with interrupts",
    "unloaded, interrupts best but for polling of small sizes",
    "loaded, 500 Hz above interrupts at most sizes",
    "loaded, both above polling",
];

impl Experiment for Region {
    fn name(&self) -> &'static str {
        "seed004-region"
    }

    fn title(&self) -> &'static str {
        "For which costs of an interrupt and of a wake-up the sentences about figures 4 and 5 hold"
    }

    fn run(&self, run: &mut Run<'_>) -> Result<(), ProfileError> {
        let m = run.machine("hp9000-755")?;
        // Few of either in short runs: the corners and the middle.
        let few = run.size(1, 0) == 0;
        let thin = |all: &[f64]| -> Vec<f64> { all.iter().copied().step_by(if few { 2 } else { 1 }).collect() };
        let (interrupts, switches) = (thin(&INTERRUPTS), thin(&SWITCHES));
        let base = Bench::new(&m, if few { 0.25 } else { 1.0 })?;
        // Sentence, switch, and for which costs of an interrupt it holds.
        let mut holds: Vec<Vec<[bool; 4]>> = Vec::new();
        for switch in &switches {
            let mut row = Vec::new();
            for interrupt in &interrupts {
                let costs = Costs { interrupt: interrupt * 1e-6, switch: switch * 1e-6, ..base.costs };
                let bench = Bench { costs, ..base };
                row.push([
                    bench.keeps_up() >= 0.9,
                    bench.best(),
                    bench.better() > SIZES.len() / 2,
                    bench.beats_polling(),
                ]);
            }
            holds.push(row);
        }
        let mut figure = Figure::new(
            "seed004-region",
            "Share of the costs of an interrupt (5 to 75 us) for which a sentence holds",
            ["us of a wake-up after another process", "%"],
            [false, false],
        );
        let mut said = Vec::new();
        for (s, sentence) in SENTENCES.iter().enumerate() {
            let share = |row: &Vec<[bool; 4]>| row.iter().filter(|held| held[s]).count() as f64 / row.len() as f64;
            figure.add(
                sentence,
                Origin::Modelled,
                switches.iter().zip(&holds).map(|(us, row)| (*us, 100.0 * share(row))),
            );
            let where_held: Vec<String> = interrupts
                .iter()
                .enumerate()
                .map(|(i, us)| {
                    let at: Vec<String> = switches
                        .iter()
                        .zip(&holds)
                        .filter(|(_, row)| row[i][s])
                        .map(|(us, _)| us.to_string())
                        .collect();
                    format!("C {us}: {}", if at.is_empty() { "nowhere".into() } else { at.join(" ") })
                })
                .collect();
            said.push(format!("{sentence}: {}", where_held.join(", ")));
        }
        run.figure(figure);
        let all = holds.iter().flatten().filter(|held| held.iter().all(|held| *held)).count();
        run.absent(
            "E-16",
            "costs for which the sentences about figures 4 and 5 hold, by queues without a board",
            LOADED,
            &format!(
                "the board with the real TCP decides (seed004-board). Here all four hold at {all} of {} points; us of a wake-up at which each \
                 holds, by the us C of an interrupt: {}",
                interrupts.len() * switches.len(),
                said.join(". ")
            ),
        );
        Ok(())
    }
}
