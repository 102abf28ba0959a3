//! Seed 000 (Almesberger 1995): arithmetic of adapters and buses, and raw AAL5 between two PCs.

use super::units::{MEBI, line_mbit_s};
use crate::experiment::{Experiment, Figure, MEBIBIT, Mechanism, Origin, Run, Test};
use crate::model::pair::{PairOutcome, Scenario, Transport};
use crate::model::{Level, Machine, Profile, ProfileError, Random, Work, tandem};
use wire::{CellRate, Time, aal5};

/// The sizes of figures 8 to 12.
pub(super) const SIZES: [usize; 9] = [64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384];

/// A copy of a share of `octets` and then a transfer of all, on a machine: the rate in 10^6 octets/s.
pub(super) fn copied_and_transferred(machine: &Profile, octets: f64, share: f64) -> Result<f64, ProfileError> {
    let mut simulated = Machine::default();
    let copy = share * octets / (machine.get("copy_mb_s")? * 1e6);
    simulated.submit(Level::Process, Work { seconds: copy, memory: 1.0 }, "copied");
    let mut end = Time::ZERO;
    while let Some(at) = simulated.poll_timeout() {
        let mut copied = false;
        simulated.advance(at, |token| copied = token == "copied");
        if copied {
            let seconds = octets / (machine.get("memory_io_mb_s")? * 1e6);
            let _ = simulated.transfer(Work { seconds, memory: 1.0 }, "transferred");
        }
        end = at;
    }
    Ok(octets / end.as_secs_f64() / 1e6)
}

/// What follows from standards, Table 1 and sizes.
#[derive(Debug)]
pub struct Arithmetic;

impl Experiment for Arithmetic {
    fn name(&self) -> &'static str {
        "seed000-arithmetic"
    }

    fn title(&self) -> &'static str {
        "Theoretical maximum, Table 1 combined, delay of a buffering adapter, buffer sizes"
    }

    fn run(&self, run: &mut Run<'_>) -> Result<(), ProfileError> {
        run.arithmetic("A-50", "least theoretical maximum over the sizes used", "Mbit/s", 90.4, 1, line_mbit_s(64));
        let most = SIZES.iter().map(|n| line_mbit_s(*n)).fold(0.0, f64::max);
        run.arithmetic("A-50", "greatest theoretical maximum over the sizes used", "Mbit/s", 135.4, 1, most)
            .note("reached at 8192 and 16384 octets; 32768 would round to 135.6, so the sizes used end before");
        for (name, id, published) in [("pentium90-neptune", "A-19", 13.8), ("pentium90-triton", "A-20", 22.5)] {
            let combined = copied_and_transferred(&run.machine(name)?, 1e6, 1.0)?;
            run.arithmetic(id, &format!("Table 1, combined, {name}"), "10^6 octets/s", published, 1, combined);
        }
        run.arithmetic(
            "A-18",
            "user data of 155 Mbit/s ATM in one direction",
            "10^6 octets/s",
            16.8,
            1,
            line_mbit_s(4096) / 8.0,
        )
        .note("16.82 is the limit of 4096 octets and of UDP with 8192; raw AAL5 with 8192 octets reaches 16.92");
        self.delay(run);
        // The ring must hold the longest PDU with its trailer and one descriptor word, and be a power of two.
        let ring = (aal5::cells(65_535) * 48 + 4).next_power_of_two() as f64;
        run.arithmetic("A-11", "buffers of a bidirectional circuit", "kB", 256.0, 0, 2.0 * ring / 1024.0);
        let times = 65_535.0 / 1500.0;
        run.words(
            "A-9",
            "AAL5 payloads can be more than 40 times larger than 10 Mbps Ethernet frames (65535 vs. 1500 bytes)",
            Test::new(times > 40.0, "65535 / 1500 > 40", "a longest AAL5 payload of 60000 octets or less"),
            format!("{times:.1} times"),
        );
        let mut figure = Figure::new(
            "maximum",
            "Theoretical maximum of AAL5 on OC-3c",
            ["octets of a PDU", "Mbit/s"],
            [true, false],
        );
        figure.add(
            "every size",
            Origin::Modelled,
            (0..=480).map(|i| {
                let octets = 2f64.powf(5.0 + f64::from(i) / 43.7).round() as usize;
                (octets as f64, line_mbit_s(octets.min(65_535)))
            }),
        );
        figure.note("the text gives the range 90.4 to 135.4 for the sizes used, and does not name them");
        run.figure(figure);
        Ok(())
    }

    fn today(&self, run: &mut Run<'_>) {
        super::today::arithmetic(run);
    }
}

impl Arithmetic {
    /// A PDU of 64 kB by way of adapters that keep it whole, and by way of ones that pass cells on.
    fn delay(&self, run: &mut Run<'_>) {
        const OCTETS: f64 = 65_536.0;
        const MIB: f64 = 1_048_576.0;
        let (line, bus) = (16.0 * MIB, 50.0 * MIB);
        let whole = [OCTETS / bus, OCTETS / line, OCTETS / bus].map(|s| s * 1e3);
        let cells = (OCTETS / 48.0).ceil();
        let just = whole.map(|ms| ms / cells);
        let just_in_time = tandem::seconds(cells as u64, &just);
        let buffering = tandem::seconds(1, &whole);
        run.arithmetic("A-10", "64 kB over the line alone", "ms", 3.9, 1, just_in_time).note(format!(
            "MB of 2^20 octets; by whole cells at the payload rate of OC-3c {:.3} ms",
            aal5::cells(65_535) as f64 / CellRate::OC3C.cells_per_s() * 1e3
        ));
        run.arithmetic("A-10", "64 kB, copied over the bus at both sides", "ms", 6.4, 1, buffering);
        let line_alone = OCTETS / line * 1e3;
        run.arithmetic("A-10", "increase", "%", 64.0, 0, (buffering / line_alone - 1.0) * 100.0);
    }
}

/// All sizes by one way of sending and receiving.
fn sweep(run: &mut Run<'_>, single_copy: bool) -> Result<Vec<PairOutcome>, ProfileError> {
    let machine = run.machine("pentium90-neptune")?;
    let pdus = run.size(2048, 300);
    let mut outcomes = Vec::new();
    for octets in SIZES {
        let scenario = Scenario { octets, single_copy, ..Scenario::new(&machine, &machine, Transport::Raw, pdus) };
        let outcome = run.pair(&scenario)?;
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

/// The least size, in steps of 64 octets, at which single copy fills 98.5 % of the line.
fn reached_at(run: &mut Run<'_>, known: &[PairOutcome]) -> Result<usize, ProfileError> {
    let machine = run.machine("pentium90-neptune")?;
    let pdus = run.size(1024, 150);
    let full = |n: usize, o: &PairOutcome| o.carried_mbit_s >= 0.985 * line_mbit_s(n);
    let (mut low, mut high) = (64, SIZES.iter().zip(known).find(|(n, o)| full(**n, o)).map_or(16_384, |(n, _)| *n));
    while high - low > 64 {
        let octets = (low + high) / 128 * 64;
        let scenario =
            Scenario { octets, single_copy: true, ..Scenario::new(&machine, &machine, Transport::Raw, pdus) };
        if full(octets, &run.pair(&scenario)?) { high = octets } else { low = octets }
    }
    Ok(high)
}

/// Runs of one size, as in the paper; a few of them show the same.
const RUNS: [u64; 2] = [10, 4];

/// Several runs of one size.
#[derive(Debug)]
struct Runs(Vec<PairOutcome>);

impl Runs {
    /// From one machine to another. The runs differ by when processes of the system wake up beside sender and receiver.
    fn one_way(run: &mut Run<'_>, octets: usize, single_copy: bool, random: &mut Random) -> Result<Self, ProfileError> {
        let machine = run.machine("pentium90-neptune")?;
        let pdus = run.size(2048, 300);
        let mut all = Vec::new();
        for _ in 0..run.size(RUNS[0], RUNS[1] / 2) {
            let plain = Scenario::new(&machine, &machine, Transport::Raw, pdus);
            let outcome = run.pair(&Scenario { octets, single_copy, beside: Some(random.bits()), ..plain })?;
            all.push(outcome);
        }
        Ok(Runs(all))
    }

    /// On one machine. The runs differ by how much of its time slice each process has left as it begins: the receiver, which was started
    /// first and slept, half a quantum to two, as many as Linux lets a sleeper gather; the sender half to one.
    fn looped(run: &mut Run<'_>, octets: usize, single_copy: bool, random: &mut Random) -> Result<Self, ProfileError> {
        let machine = run.machine("pentium90-neptune")?;
        let mut all = Vec::new();
        let runs = run.size(RUNS[0], RUNS[1]);
        for k in 0..runs {
            // One run in each tenth of either range, so that ten runs of another seed say much the same.
            let mut part = |k: u64| (k as f64 + random.uniform()) / runs as f64;
            let quanta = [0.5 + 0.5 * part(k * 7 % runs), 0.5 + 1.5 * part(k)];
            // Shorter bursts would end within a time slice.
            let plain = Scenario::new(&machine, &machine, Transport::Raw, 2048);
            let scenario = Scenario { octets, single_copy, loopback: true, quanta, ..plain };
            let outcome = run.pair(&scenario)?;
            all.push(outcome);
        }
        Ok(Runs(all))
    }

    /// Mean, least and greatest.
    fn of(&self, of: impl Fn(&PairOutcome) -> f64) -> [f64; 3] {
        let all = || self.0.iter().map(&of);
        let mean = all().sum::<f64>() / self.0.len().max(1) as f64;
        [mean, all().fold(f64::MAX, f64::min), all().fold(0.0, f64::max)]
    }

    fn sent(&self) -> [f64; 3] {
        self.of(|o| o.sent_mbit_s / MEBI)
    }

    fn received(&self) -> [f64; 3] {
        self.of(|o| o.received_mbit_s / MEBI)
    }

    /// What the network carried: unlike what ttcp calls received, it does not grow when the receiver's timer starts late.
    fn carried(&self) -> [f64; 3] {
        self.of(|o| o.carried_mbit_s / MEBI)
    }
}

/// A curve with the extremes of several runs for each size.
fn bars(all: &[Runs], of: impl Fn(&Runs) -> [f64; 3]) -> Vec<[f64; 4]> {
    let point = |(octets, runs): (&usize, &Runs)| {
        let [mean, least, greatest] = of(runs);
        [*octets as f64, mean, least, greatest]
    };
    SIZES.iter().zip(all).map(point).collect()
}

fn loops(run: &mut Run<'_>, single_copy: bool) -> Result<Vec<Runs>, ProfileError> {
    let mut random = run.random();
    SIZES.into_iter().map(|octets| Runs::looped(run, octets, single_copy, &mut random)).collect()
}

pub(super) fn at(outcomes: &[PairOutcome], octets: usize) -> &PairOutcome {
    &outcomes[SIZES.iter().position(|n| *n == octets).unwrap_or(0)]
}

pub(super) fn axes(name: &str, title: &str, y_log: bool) -> Figure {
    Figure::new(name, title, ["octets of a PDU", MEBIBIT], [true, y_log])
}

pub(super) fn maximum(figure: &mut Figure) {
    let line = SIZES.iter().map(|n| (*n as f64, line_mbit_s(*n) / MEBI));
    figure.add("theoretical maximum", Origin::Modelled, line);
}

/// Figures 8, 9 and 10.
#[derive(Debug)]
pub struct OneWay;

impl Experiment for OneWay {
    fn name(&self) -> &'static str {
        "seed000-one-way"
    }

    fn title(&self) -> &'static str {
        "Figures 8 to 10: raw AAL5 from one PC to another, copying and single-copy"
    }

    fn run(&self, run: &mut Run<'_>) -> Result<(), ProfileError> {
        let copying = sweep(run, false)?;
        let single = sweep(run, true)?;
        let rx = at(&copying, 8192).received_mbit_s;
        run.number(
            "A-51",
            "fig 8: the receiver \"can barely handle 100 Mbps\"",
            MEBIBIT,
            100.0,
            0.05,
            at(&copying, 16384).received_mbit_s / MEBI,
        )
        .note("the same machine and constant as D-6's 101 at 8 kB; here 16 kB");
        let near =
            SIZES.iter().zip(&copying).find(|(n, o)| o.sent_mbit_s >= 0.97 * line_mbit_s(**n)).map_or(0, |(n, _)| *n);
        let (four, eight) =
            (at(&copying, 4096).sent_mbit_s / line_mbit_s(4096), at(&copying, 8192).sent_mbit_s / line_mbit_s(8192));
        run.words(
            "A-51",
            "the sender is able to come reasonably close to the maximum data rate only for datagrams of 8 kB or larger",
            Test::new(
                near == 8192,
                "the first of the sizes at which the sender has 97 % of the line's maximum is 8192 octets",
                "4 kB or less reaching 97 %, or 8 kB missing it",
            ),
            format!(
                "first size: {near} octets; 4 kB has {:.1} % of the maximum and 8 kB {:.1} %, so any threshold between the two decides alike",
                four * 100.0,
                eight * 100.0
            ),
        )
        .by(Mechanism::Copying);
        let over = at(&copying, 16384).sent_mbit_s > line_mbit_s(16384);
        run.words(
            "A-51",
            "the send data rate can be higher than the effective transmission rate",
            Test::new(
                over,
                "sent at 16 kB > what the line carries at 16 kB",
                "a sender slower than the line at 16 kB; its 132 at 8 kB is an anchor",
            ),
            format!(
                "{:.1} at 16 kB where the line carries {:.1}",
                at(&copying, 16384).sent_mbit_s / MEBI,
                line_mbit_s(16384) / MEBI
            ),
        );
        let mut long = run.machine("pentium90-neptune")?;
        long.set("receive_dma_mb_s", long.get("memory_io_mb_s")?)?;
        let scenario = Scenario::new(&long, &long, Transport::Raw, run.size(2048, 300));
        let without = run.pair(&scenario)?.received_mbit_s;
        run.words(
            "A-52",
            "One of the reasons why the receiver is significantly slower is that the device driver uses different DMA burst sizes",
            Test::new(
                without > 1.02 * rx,
                "with receive bursts as good as send bursts the receiver is 2 % faster at least",
                "a receiver no faster with equal bursts: then they are no reason",
            ),
            format!(
                "{:.1} received with the calibrated receive bursts, {:.1} with bursts as for sending: in the model the copy out of uncached \
                 memory makes the receiver slow, and the bursts show in loopback",
                rx / MEBI,
                without / MEBI
            ),
        );

        run.number(
            "A-53",
            "fig 9: received at 4 kB, \"approximately\"",
            MEBIBIT,
            128.0,
            0.01,
            at(&single, 4096).received_mbit_s / MEBI,
        )
        .fact("with single copy the receiver reaches the line: 128 and 129")
        .by(Mechanism::PageMapping);
        run.number(
            "A-53",
            "fig 9: received above 4 kB, \"only to\"",
            MEBIBIT,
            129.0,
            0.01,
            at(&single, 8192).received_mbit_s / MEBI,
        )
        .fact("with single copy the receiver reaches the line: 128 and 129")
        .by(Mechanism::PageMapping);
        let same = [1024, 2048]
            .into_iter()
            .all(|n| (at(&single, n).received_mbit_s / at(&copying, n).received_mbit_s - 1.0).abs() < 0.05);
        run.words(
            "A-53",
            "There is no difference to the copying approach in the receive direction for datagram sizes below the memory page size",
            Test::new(same, "received with and without copying alike within 5 % at 1 and 2 kB", "a difference of 5 % at either size"),
            "the model copies pages that are not full, as the paper says the driver does, so equal costs are built in; of smaller PDUs both senders send fewer than the receiver could take",
        );

        let faster: Vec<usize> = SIZES
            .iter()
            .zip(single.iter().zip(&copying))
            .filter(|(_, (s, c))| s.sent_mbit_s > c.sent_mbit_s * 1.02)
            .map(|(n, _)| *n)
            .collect();
        run.words(
            "A-54",
            "up to about 512 bytes, the solution with copying is slightly faster. For 1 kB and larger datagrams, the non-copying version is much faster",
            Test::new(
                faster.first() == Some(&1024) && at(&single, 1024).sent_mbit_s > 1.3 * at(&copying, 1024).sent_mbit_s,
                "the first power of two at which single copy sends 2 % more is 1024, and it sends 1.3 times as much there",
                "a gain at 512 or none at 1024; or a gain at 1 kB below 1.3",
            ),
            format!(
                "single copy is faster from {:?} octets on (the break-even is an anchor); at 1 kB {:.1} against {:.1}",
                faster.first(),
                at(&single, 1024).sent_mbit_s / MEBI,
                at(&copying, 1024).sent_mbit_s / MEBI
            ),
        );
        let fine = reached_at(run, &single)?;
        let reached = SIZES
            .iter()
            .zip(&single)
            .find(|(n, o)| o.carried_mbit_s >= 0.985 * line_mbit_s(**n))
            .map_or(0, |(n, _)| *n);
        run.number("A-54", "fig 9: network speed is reached at", "octets", 2048.0, 0.0, reached as f64).note(format!(
            "98.5 % of the line's maximum, on the grid of powers of two that figure 9 has; in steps of 64 octets it is {fine} octets; carried at 1 kB {:.1} of {:.1}, at 2 kB {:.1} of {:.1}",
            at(&single, 1024).carried_mbit_s / MEBI,
            line_mbit_s(1024) / MEBI,
            at(&single, 2048).carried_mbit_s / MEBI,
            line_mbit_s(2048) / MEBI
        ))
        .by(Mechanism::PageMapping);
        let ratios: Vec<f64> = single.windows(2).map(|w| w[1].sent_mbit_s / w[0].sent_mbit_s).collect();
        run.words(
            "A-55",
            "the possible throughput increases almost exponentially",
            Test::new(
                ratios.iter().all(|r| (1.8..2.8).contains(r)),
                "each doubling of the size multiplies the enqueue rate by 1.8 to 2.8",
                "a cost for each octet that is locked: the factor would fall below 1.8 at large sizes",
            ),
            format!(
                "each doubling of the size multiplies the enqueue rate by {:.2} to {:.2}: exponential on the axis of \
                doublings, linear in the size",
                ratios.iter().copied().fold(9.9, f64::min),
                ratios.iter().copied().fold(0.0, f64::max)
            ),
        );
        let mut random = run.random();
        let mut ten = |run: &mut Run<'_>, single_copy| -> Result<Vec<Runs>, ProfileError> {
            SIZES.into_iter().map(|octets| Runs::one_way(run, octets, single_copy, &mut random)).collect()
        };
        let (copied, mapped) = (ten(run, false)?, ten(run, true)?);
        let widths = || {
            let of = |runs: &Runs| [runs.sent(), runs.received()];
            let width = |[mean, least, greatest]: [f64; 3]| (greatest - least) / mean * 100.0;
            copied.iter().chain(&mapped).flat_map(of).map(width).collect::<Vec<f64>>()
        };
        let wide = widths().into_iter().filter(|width| *width > 1.0).count();
        run.words(
            "A-49",
            "The error bars indicate the extremal values measured in ten experiments",
            Test::new(
                wide > 0,
                "figures 8 to 10: the extremes of the runs of one size are 1 % apart or more, sent or received, at some size",
                "runs that are all alike: then there are no bars",
            ),
            format!(
                "at {wide} of {} points, by {:.1} % at most; the runs differ by when processes of the system wake up, which is assumed; the paper's \
                 bars are not in its text",
                4 * SIZES.len(),
                widths().into_iter().fold(0.0, f64::max)
            ),
        )
        .fact("error bars of figures 8 to 10");
        let far = [&copied, &mapped].into_iter().flat_map(|all| {
            let eight = &all[SIZES.iter().position(|n| *n == 8192).unwrap_or(0)];
            [eight.sent(), eight.received()]
                .map(|[mean, least, greatest]| (greatest / mean - 1.0).max(1.0 - least / mean))
        });
        let far = far.fold(0.0, f64::max);
        run.words(
            "D-11",
            "The performance measurements are only accurate within about +-5%",
            Test::new(
                far < 0.05,
                "8192 octets, by copying and with single copy: the extremes of the runs within 5 % of their mean, sent and received",
                "an extreme 5 % off: processes of the system that take more than is assumed",
            ),
            format!("the furthest is {:.1} % off", far * 100.0),
        );

        let mut eight = axes("figure-08", "Figure 8: copying, one way", false);
        maximum(&mut eight);
        eight.add_bars("sent, modelled", bars(&copied, Runs::sent));
        eight.add_bars("received, modelled", bars(&copied, Runs::received));
        eight.add("sent, published for 8 kB (D-10)", Origin::Published, [(8192.0, 132.0)]);
        eight.add("received, published for 8 kB (D-6)", Origin::Published, [(8192.0, 101.0)]);
        run.figure(eight);
        let mut nine = axes("figure-09", "Figure 9: single copy, one way", false);
        maximum(&mut nine);
        let carried = |runs: &Runs| runs.of(|o| o.sent_mbit_s.min(o.carried_mbit_s) / MEBI);
        nine.add_bars("sent, modelled", bars(&mapped, carried));
        nine.add_bars("received, modelled", bars(&mapped, Runs::received));
        nine.add("received, published for 4 kB", Origin::Published, [(4096.0, 128.0)]);
        nine.note("the text gives 129 for \"larger\" sizes, and names none");
        run.figure(nine);
        let mut ten = axes("figure-10", "Figure 10: enqueue rate, single copy", true);
        ten.add_bars("modelled", bars(&mapped, Runs::sent));
        ten.add("published (D-10)", Origin::Published, [(8192.0, 1607.0)]);
        run.figure(ten);
        Ok(())
    }

    fn today(&self, run: &mut Run<'_>) {
        super::today::one_way(run);
    }
}

/// Figures 11 and 12.
#[derive(Debug)]
pub struct Loopback;

impl Experiment for Loopback {
    fn name(&self) -> &'static str {
        "seed000-loopback"
    }

    fn title(&self) -> &'static str {
        "Figures 11 and 12: raw AAL5 on a looped fibre, one PC sends and receives"
    }

    fn run(&self, run: &mut Run<'_>) -> Result<(), ProfileError> {
        let (copying, single) = (loops(run, false)?, loops(run, true)?);
        let place = |octets: usize| SIZES.iter().position(|n| *n == octets).unwrap_or(0);
        let received = |all: &[Runs], octets: usize| all[place(octets)].received()[0];
        let most = copying.iter().map(|runs| runs.received()[0]).fold(0.0, f64::max);
        let by_size = |all: &[Runs]| {
            let of = |(n, runs): (&usize, &Runs)| format!("{n}: {:.1} and {:.1}", runs.sent()[0], runs.received()[0]);
            SIZES.iter().zip(all).map(of).collect::<Vec<_>>().join(", ")
        };
        run.number("A-56", "fig 11: total throughput \"hardly exceeds\"", MEBIBIT, 60.0, 0.05, most)
            .note(format!("the greatest mean received at any size; sent and received by size: {}", by_size(&copying)));
        let machine = run.machine("pentium90-neptune")?;
        let half = copied_and_transferred(&machine, 1e6, 1.0)? * 8.0 / 2.0;
        let large = received(&copying, 16_384) * MEBI;
        run.words(
            "A-56",
            "which corresponds roughly to half the maximum bandwidth calculated for the entire system",
            Test::new(
                (large / half - 1.0).abs() < 0.2,
                "received at 16 kB within 20 % of half of Table 1's combined bandwidth",
                "a rate below 44 or above 66 (10^6 bit/s)",
            ),
            format!(
                "half of Table 1's combined bandwidth is {half:.1} in 10^6 bit/s, the paper's 60 are {:.1}, modelled {large:.1}",
                60.0 * MEBI
            ),
        );
        let alike = copying.iter().filter(|runs| (runs.sent()[0] / runs.received()[0] - 1.0).abs() < 0.1).count();
        run.words(
            "A-56",
            "the sender and the receiver run at approximately the same speed",
            Test::new(
                alike > SIZES.len() / 2,
                "means within 10 % at more than half of the sizes",
                "a difference of 10 % at half of them",
            ),
            format!("at {alike} of {} sizes; sent and received: {}", SIZES.len(), by_size(&copying)),
        );
        let cases = || copying.iter().flat_map(|runs| &runs.0);
        let runs_faster = cases().filter(|o| o.received_mbit_s > o.sent_mbit_s).count();
        let faster = copying.iter().filter(|runs| runs.received()[0] > runs.sent()[0]).count();
        run.words(
            "A-57",
            "in most cases, the receiver was faster than the sender",
            Test::new(
                faster * 2 > SIZES.len(),
                "mean received > mean sent, as figure 11 draws them, at more than half of the sizes",
                "at half of them or fewer",
            ),
            format!(
                "at {faster} of {} sizes, the small ones; in {runs_faster} of {} runs; by size: {}",
                SIZES.len(),
                cases().count(),
                by_size(&copying)
            ),
        )
        .note("the receiver's timer starts with a start datagram that it reads late, when the sender has used its time slice");
        let wide = copying.iter().chain(&single).filter(|runs| runs.received()[2] > 1.01 * runs.received()[1]).count();
        run.words(
            "A-49",
            "The error bars indicate the extremal values measured in ten experiments",
            Test::new(
                wide > 0,
                "runs of one size differ by 1 % at some size",
                "runs that are all alike: then there are no bars",
            ),
            format!(
                "at {wide} of {} points of figures 11 and 12; the paper's bars are not in its text",
                2 * SIZES.len()
            ),
        );
        // Of the system and not of ttcp's timer: a late timer has ttcp print more than the line carries.
        let plateau: Vec<f64> = [4096, 8192, 16384].map(|n| single[place(n)].carried()[0]).to_vec();
        let level = plateau.iter().all(|rate| (rate / plateau[1] - 1.0).abs() < 0.05);
        let late = single[place(4096)].received()[2];
        run.anchor("A-58", "fig 12: saturated", MEBIBIT, 115.0, plateau[1]).note(format!(
            "carried, at 8 kB; at 4 kB {:.1}, at 16 kB {:.1}. ttcp's own rate at 4 kB is {late:.1} in the run whose timer starts latest, where the \
             line carries {:.1}",
            plateau[0],
            plateau[2],
            line_mbit_s(4096) / MEBI
        ));
        let gain = |n: usize| received(&single, n) / received(&copying, n);
        let gains = SIZES.map(|n| format!("{n} {:.2}", gain(n))).join(", ");
        run.words(
            "A-58",
            "for datagram sizes below 1 kB, the throughput is worse than in the copying case",
            Test::new(
                [64, 128, 256, 512].into_iter().all(|n| gain(n) < 1.005),
                "single copy over copying below 1.005 at 64 to 512 octets: a tie at 512, the break-even that is an anchor, is let pass",
                "a gain of 0.5 % at any size below 1 kB",
            ),
            format!("single copy over copying: {gains}"),
        );
        run.words(
            "A-58",
            "for 1 kB and 2 kB, throughput is already increased",
            Test::new(
                gain(1024) > 1.02 && gain(2048) > 1.02,
                "single copy over copying above 1.02 at 1 kB and at 2 kB",
                "a gain of 2 % or less at either size",
            ),
            format!("by {:.2} and {:.2}", gain(1024), gain(2048)),
        );
        run.words(
            "A-58",
            "at 4 kB and more, the receiver can benefit from single-copy too, the memory bottleneck disappears, and data flows at full speed",
            Test::new(
                level && gain(4096) > 1.5,
                "4, 8 and 16 kB alike within 5 %, and at 4 kB 1.5 times what copying gives",
                "4 or 16 kB 5 % off the plateau: a cost for each PDU or each octet at the processor",
            ),
            format!("{:.1}, {:.1}, {:.1}; copying at 4 kB {:.1}", plateau[0], plateau[1], plateau[2], received(&copying, 4096)),
        );
        run.words(
            "A-60",
            "Bidirectional throughput in current low-end systems is still not sufficient to saturate the network",
            Test::new(
                plateau.iter().all(|p| *p < 0.95 * line_mbit_s(8192) / MEBI),
                "carried in loopback below 95 % of the line's maximum",
                "95 % of 129 at 4, 8 or 16 kB; the 115 is an anchor",
            ),
            format!("{:.1}, {:.1}, {:.1} of 129", plateau[0], plateau[1], plateau[2]),
        );
        for (name, title, runs, published) in [
            (
                "figure-11",
                "Figure 11: copying, loopback",
                &copying,
                "the text gives \"hardly exceeds 60\" for the greatest rate, and no size",
            ),
            ("figure-12", "Figure 12: single copy, loopback", &single, "the text gives a maximum of 115, and no size"),
        ] {
            let mut figure = axes(name, title, false);
            maximum(&mut figure);
            let carried = |runs: &Runs| runs.of(|o| o.sent_mbit_s.min(o.carried_mbit_s) / MEBI);
            figure.add_bars("sent, modelled", bars(runs, carried));
            figure.add_bars("received, modelled", bars(runs, Runs::received));
            figure.note(published);
            run.figure(figure);
        }
        Ok(())
    }

    fn today(&self, run: &mut Run<'_>) {
        super::today::loopback(run);
    }
}
