//! TCP over UBR: what a congested switch of cells leaves of TCP's throughput, by what it discards (Romanow and Floyd
//! 1995), and of its fairness (Jain and others, ATM Forum 96-1269 and 96-1761).
//!
//! The rows' phrases of the first are of its abstract; those of the others are in our words.

use crate::experiment::{Experiment, Figure, Origin, Run, Test};
use crate::model::ubr::{self, Policy, Scenario, UbrOutcome};
use crate::model::{ProfileError, Random};
use std::time::Duration;

/// By so much of the line an order may be missed.
const SLACK: f64 = 0.05;

/// See the module's head.
#[derive(Debug)]
pub struct TcpOverUbr;

/// What came of one policy, packet size and queue: the mean of several runs, with the extremes of the throughput.
#[derive(Debug, Clone, Copy)]
struct Point {
    policy: Policy,
    packet: usize,
    queue: u32,
    effective: [f64; 3],
    fairness: f64,
    dead: f64,
    idle: f64,
    parts: u64,
    dropped: u64,
}

impl Point {
    fn of(policy: Policy, packet: usize, queue: u32, outcomes: &[UbrOutcome]) -> Self {
        let n = outcomes.len().max(1) as f64;
        let mean = |of: &dyn Fn(&UbrOutcome) -> f64| outcomes.iter().map(of).sum::<f64>() / n;
        let each = || outcomes.iter().map(|outcome| outcome.effective);
        let extremes = [each().fold(f64::INFINITY, f64::min), each().fold(0.0, f64::max)];
        Point {
            policy,
            packet,
            queue,
            effective: [mean(&|outcome| outcome.effective), extremes[0], extremes[1]],
            fairness: mean(&UbrOutcome::fairness),
            dead: mean(&|outcome| outcome.dead),
            idle: mean(&|outcome| outcome.idle),
            parts: outcomes.iter().map(|outcome| outcome.parts).sum(),
            dropped: outcomes.iter().map(|outcome| outcome.dropped).sum(),
        }
    }
}

/// All points, and what they were made of.
struct Grid {
    packets: Vec<usize>,
    queues: Vec<u32>,
    points: Vec<Point>,
}

impl Grid {
    fn run(run: &mut Run<'_>) -> Self {
        let full = run.size(1, 0) == 1;
        let packets = if full { vec![512, 1500, 4352, 9180] } else { vec![512, 9180] };
        let queues = if full { vec![256, 500, 1000, 2000, 4000, 8000] } else { vec![500, 2000] };
        let mut points = Vec::new();
        for (packet, queue) in packets.iter().flat_map(|packet| queues.iter().map(|queue| (*packet, *queue))) {
            points.extend(Policy::ALL.map(|policy| point(run, policy, packet, queue, 10)));
        }
        Grid { packets, queues, points }
    }

    fn at(&self, policy: Policy, packet: usize, queue: u32) -> &Point {
        let is = |point: &&Point| (point.policy, point.packet, point.queue) == (policy, packet, queue);
        self.points.iter().find(is).unwrap_or(&self.points[0])
    }

    /// Of all packet sizes and queues.
    fn places(&self) -> impl Iterator<Item = (usize, u32)> + '_ {
        self.packets.iter().flat_map(|packet| self.queues.iter().map(|queue| (*packet, *queue)))
    }

    fn all(&self, policy: Policy) -> impl Iterator<Item = &Point> {
        self.points.iter().filter(move |point| point.policy == policy)
    }

    fn mean(&self, policy: Policy, of: impl Fn(&Point) -> f64) -> f64 {
        self.all(policy).map(of).sum::<f64>() / self.places().count() as f64
    }

    fn effective(&self, policy: Policy, (packet, queue): (usize, u32)) -> f64 {
        self.at(policy, packet, queue).effective[0]
    }

    /// Throughput by one policy against that by another.
    fn ratio(&self, policy: Policy, than: Policy, place: (usize, u32)) -> f64 {
        self.effective(policy, place) / self.effective(than, place)
    }

    /// Throughput by some policies, in percent of the line, at each place.
    fn table(&self, policies: &[Policy]) -> String {
        let names = policies.iter().map(|policy| policy.name()).collect::<Vec<_>>().join(", ");
        let line = |place: (usize, u32)| {
            let of = |policy: &Policy| format!("{:.0}", self.effective(*policy, place) * 100.0);
            format!("{} octets, {} cells: {}", place.0, place.1, policies.iter().map(of).collect::<Vec<_>>().join(", "))
        };
        format!("% of the line by {names}: {}", self.places().map(line).collect::<Vec<_>>().join("; "))
    }
}

/// Runs one policy several times: each with the numbers that all others have too.
fn point(run: &mut Run<'_>, policy: Policy, packet: usize, queue: u32, clock: u32) -> Point {
    let length = Duration::from_millis(run.size(1000, 400));
    let mut random = run.random();
    let mut outcomes = Vec::new();
    for _ in 0..run.size(3, 1) {
        let scenario = Scenario { clock, ..Scenario::new(policy, packet, queue, length) };
        let result = ubr::run(&scenario, Random::new(random.bits()));
        run.ran(result.as_ref().map(|_| ()), "TCP over UBR");
        let Some(outcome) = result else { continue };
        run.happened(outcome.hash ^ u64::from(!outcome.intact), outcome.cells);
        outcomes.push(outcome);
    }
    Point::of(policy, packet, queue, &outcomes)
}

impl Experiment for TcpOverUbr {
    fn name(&self) -> &'static str {
        "ubr-tcp"
    }

    fn title(&self) -> &'static str {
        "Ten TCP connections over a congested switch: plain, PPD, EPD, selective discard, fair buffer allocation"
    }

    fn run(&self, run: &mut Run<'_>) -> Result<(), ProfileError> {
        let grid = Grid::run(run);
        plain(run, &grid);
        discard(run, &grid);
        fairness(run, &grid);
        figures(run, &grid);
        Ok(())
    }
}

/// What a switch that drops cells leaves.
fn plain(run: &mut Run<'_>, grid: &Grid) {
    let small: Vec<u32> = grid.queues.iter().copied().filter(|queue| *queue <= 1000).collect();
    let low = small.iter().map(|queue| grid.effective(Policy::Plain, (9180, *queue)));
    let most = low.fold(0.0, f64::max);
    let below =
        |place| grid.effective(Policy::Plain, place) < 0.5 && grid.ratio(Policy::Plain, Policy::Packets, place) < 0.8;
    run.words(
        "F-1",
        "the effective throughput of TCP over ATM can be quite low when cells are dropped at the congested ATM \
         switch",
        Test::new(
            grid.places().any(below),
            "plain switch: below half of the line, and below 80 % of the packet switch, at some packet size and \
             queue",
            "half of the line, or nearly what a packet switch gives, wherever cells are dropped",
        ),
        grid.table(&[Policy::Packets, Policy::Plain]),
    );
    run.words(
        "F-11",
        "less than half of the line with packets of 9180 octets and 256 to 1000 cells (of the figures, in our words)",
        Test::new(
            most < 0.5,
            "plain switch, packets of 9180 octets, each queue of 256 to 1000 cells: below half of the line",
            "half of the line or more with one of these queues",
        ),
        format!(
            "at most {:.0} %. Where the queue holds one or two packets, one or two connections have the line to \
             themselves while all \
             others wait for their time-outs",
            most * 100.0
        ),
    );
    let wasted: Vec<Point> = small.iter().map(|queue| *grid.at(Policy::Plain, 9180, *queue)).collect();
    let said = |points: &[Point]| {
        let of = |p: &Point| format!("{} cells: {:.1} and {:.1}", p.queue, p.dead * 100.0, p.idle * 100.0);
        points.iter().map(of).collect::<Vec<_>>().join(", ")
    };
    let quick: Vec<Point> = small.iter().map(|queue| point(run, Policy::Plain, 9180, *queue, 1000)).collect();
    run.words(
        "F-2",
        "The low throughput is due to wasted bandwidth as the congested link transmits cells from `corrupted' \
         packets",
        Test::new(
            wasted.iter().all(|point| point.dead > point.idle),
            "plain switch, packets of 9180 octets, queues of 256 to 1000 cells: more cell times carry cells of \
             corrupted packets than are idle",
            "more idle cell times: then throughput is lost while TCP waits for its time-out",
        ),
        format!(
            "% of the line with cells of corrupted packets, and idle, packets of 9180 octets: {}; with a least \
             time-out of a \
             millisecond instead of 100: {}. The time-out decides which of the two is greater",
            said(&wasted),
            said(&quick)
        ),
    );
    let (shortest, longest) = (grid.packets[0], grid.packets[grid.packets.len() - 1]);
    let falls = |queue: &u32| {
        let at = |packet| grid.ratio(Policy::Plain, Policy::Packets, (packet, *queue));
        at(longest) < at(shortest)
    };
    let ratios = |places: &mut dyn Iterator<Item = (usize, u32)>| {
        let of = |place: (usize, u32)| {
            format!("{} octets, {} cells {:.2}", place.0, place.1, grid.ratio(Policy::Plain, Policy::Packets, place))
        };
        places.map(of).collect::<Vec<_>>().join(", ")
    };
    run.words(
        "F-6",
        "the larger the packets, the less a plain switch leaves (in our words)",
        Test::new(
            grid.queues.iter().all(falls),
            "plain against the packet switch: less with packets of 9180 octets than with 512, with every queue",
            "as much or more with one of the queues",
        ),
        ratios(&mut grid.places()),
    );
    let grows = |packet: &usize| {
        let at: Vec<f64> =
            grid.queues.iter().map(|queue| grid.ratio(Policy::Plain, Policy::Packets, (*packet, *queue))).collect();
        at.windows(2).all(|pair| pair[1] > pair[0] - SLACK) && at[at.len() - 1] > at[0]
    };
    run.words(
        "F-7",
        "the smaller the buffer, the less a plain switch leaves (in our words)",
        Test::new(
            grid.packets.iter().all(grows),
            "plain against the packet switch: at each packet size it grows with the queue, or falls by less than \
             0.05 from one queue to the next",
            "a larger queue that leaves less by 0.05 or more",
        ),
        ratios(&mut grid.places()),
    );
}

/// What discarding PDUs restores.
fn discard(run: &mut Run<'_>, grid: &Grid) {
    let order = [Policy::Plain, Policy::Partial, Policy::Early];
    let ordered = |place| {
        let of = order.map(|policy| grid.effective(policy, place));
        of[1] > of[0] - SLACK && of[2] > of[1] - SLACK
    };
    let means = order.map(|policy| grid.mean(policy, |point| point.effective[0]));
    run.words(
        "F-3",
        "Partial packet discard, in which remaining cells are discarded after one cell has been dropped from a \
         packet, somewhat improves throughput",
        Test::new(
            grid.places().all(ordered) && means[0] < means[1] && means[1] < means[2],
            "plain, PPD and EPD in this order: in the mean, and within 0.05 of the line at each packet size and \
             queue",
            "another order of the means, or one missed by 0.05 or more",
        ),
        format!(
            "means {:.0}, {:.0} and {:.0} %; {}",
            means[0] * 100.0,
            means[1] * 100.0,
            means[2] * 100.0,
            grid.table(&order)
        ),
    );
    let whole = [Policy::Early, Policy::Selective, Policy::Fair];
    let parts = |policy: Policy| grid.all(policy).map(|point| point.parts).sum::<u64>();
    let dropped = |policy: Policy| grid.all(policy).map(|point| point.dropped).sum::<u64>();
    run.words(
        "F-4",
        "This mechanism prevents fragmentation",
        Test::new(
            whole.iter().all(|policy| parts(*policy) == 0 && dropped(*policy) > 0) && parts(Policy::Plain) > 0,
            "no part of a PDU leaves under EPD, selective discard and fair buffer allocation while they drop \
             cells; parts leave a plain switch",
            "one part of a PDU",
        ),
        format!(
            "parts of PDUs: plain {}, PPD {}, EPD {}, selective {}, fair {}; cells dropped by EPD {}",
            parts(Policy::Plain),
            parts(Policy::Partial),
            parts(Policy::Early),
            parts(Policy::Selective),
            parts(Policy::Fair),
            dropped(Policy::Early)
        ),
    );
    let least =
        grid.places().map(|place| grid.ratio(Policy::Early, Policy::Packets, place)).fold(f64::INFINITY, f64::min);
    run.words(
        "F-5",
        "and restores throughput to maximal levels",
        Test::new(
            least >= 0.9,
            "EPD at each packet size and queue: at least 90 % of a packet switch with as large a queue",
            "less than 90 % at one of them",
        ),
        format!(
            "at least {:.0} %. The switch keeps room for the longest PDU of each circuit that has begun one, \
             which a short queue \
             misses; {}",
            least * 100.0,
            grid.table(&[Policy::Packets, Policy::Early])
        ),
    );
}

/// Who gets how much.
fn fairness(run: &mut Run<'_>, grid: &Grid) {
    let of = |policy: Policy| grid.mean(policy, |point| point.fairness);
    let all = || {
        let one = |policy: Policy| format!("{} {:.2}", policy.name(), of(policy));
        Policy::ALL.map(one).join(", ")
    };
    let (early, packets) = (of(Policy::Early), of(Policy::Packets));
    run.words(
        "F-9",
        "EPD improves throughput, but not fairness; accounts by circuit improve fairness (96-1269, in our words)",
        Test::new(
            early < packets + SLACK && of(Policy::Selective) > early && of(Policy::Fair) > early,
            "means of Jain's index: EPD's exceeds the packet switch's by less than 0.05, and both policies with \
             accounts exceed EPD's",
            "EPD fairer than the packet switch by 0.05, or as fair as a policy with accounts",
        ),
        all(),
    );
    let gain = grid.mean(Policy::Fair, |point| point.effective[0]) - grid.mean(Policy::Selective, |p| p.effective[0]);
    run.words(
        "F-10",
        "fair buffer allocation gains little over selective discard (96-1761, in our words)",
        Test::new(
            (0.0..0.1).contains(&gain),
            "mean throughput greater by 0 to 10 % of the line",
            "a loss, or a tenth of the line or more",
        ),
        format!("{:.1} %; {}", gain * 100.0, grid.table(&[Policy::Early, Policy::Selective, Policy::Fair])),
    );
    // Ten windows of 43 full packets, in 32 cells each.
    let ample = point(run, Policy::Plain, 1500, 16_384, 10);
    run.words(
        "F-8",
        "with a buffer for the sum of all windows nothing is lost, all get the same, and the line is full \
         (96-1269, in our words)",
        Test::new(
            ample.dropped == 0 && ample.effective[0] > 0.99 && ample.fairness > 0.99,
            "plain switch with 16384 cells, packets of 1500 octets: no cell dropped, above 99 % of the line, \
             Jain's index above 0.99",
            "a cell dropped, or one of the two at 0.99 or less",
        ),
        format!(
            "{} cells dropped, {:.1} % of the line, index {:.3}",
            ample.dropped,
            ample.effective[0] * 100.0,
            ample.fairness
        ),
    );
}

fn figures(run: &mut Run<'_>, grid: &Grid) {
    let axes = |x| [x, "effective throughput, % of the line"];
    for packet in &grid.packets {
        let title = format!("Ten TCP connections, packets of {packet} octets");
        let mut figure = Figure::new(&format!("ubr-tcp-{packet}"), &title, axes("cells of the queue"), [true, false]);
        for policy in Policy::ALL {
            figure.add_bars(
                policy.name(),
                grid.all(policy)
                    .filter(|point| point.packet == *packet)
                    .map(|point| [f64::from(point.queue), point.effective[0], point.effective[1], point.effective[2]])
                    .map(|[x, mean, least, most]| [x, mean * 100.0, least * 100.0, most * 100.0]),
            );
        }
        run.figure(figure);
    }
    let mut figure = Figure::new(
        "ubr-tcp-packets",
        "Ten TCP connections, queue of 1000 cells",
        axes("octets of a packet"),
        [true, false],
    );
    for policy in Policy::ALL {
        let points = grid.all(policy).filter(|point| point.queue == 1000);
        figure.add(
            policy.name(),
            Origin::Modelled,
            points.map(|point| (point.packet as f64, point.effective[0] * 100.0)),
        );
    }
    run.figure(figure);
    let mut figure = Figure::new(
        "ubr-tcp-fairness",
        "Ten TCP connections, mean of all packet sizes",
        ["cells of the queue", "Jain's index"],
        [true, false],
    );
    for policy in Policy::ALL {
        let mean = |queue: &u32| {
            let points = grid.all(policy).filter(|point| point.queue == *queue);
            (f64::from(*queue), points.map(|point| point.fairness).sum::<f64>() / grid.packets.len() as f64)
        };
        figure.add(policy.name(), Origin::Modelled, grid.queues.iter().map(mean));
    }
    run.figure(figure);
}
