//! Seed 000: a sender that adapts to its receiver, two streams on the better PC, and TCP without copies.

use super::seed000::SIZES;
use super::units::{MEBI, line_mbit_s};
use crate::experiment::{Experiment, Figure, Origin, Run, Test};
use crate::model::pair::{Scenario, Transport};
use crate::model::{Profile, ProfileError};
use eni155p::driver::Rate;
use eni155p::registers::interval_nanos;

const UDP: Transport = Transport::Udp { checksum: false };

/// The pace of the adapter that carries datagrams of 8192 octets at most at so many 10^6 bit/s.
fn pace(mbit_s: f64) -> Rate {
    let cells = wire::aal5::cells(8192 + 36) as f64;
    let interval = 8192.0 * 8.0 * 1e3 / mbit_s / cells;
    let rate = (1..63).find(|rate| interval_nanos(0, *rate) as f64 >= interval);
    Rate { prescaler: 0, rate: rate.unwrap_or(63) }
}

/// See the module's head.
#[derive(Debug)]
pub struct Pacing;

impl Experiment for Pacing {
    fn name(&self) -> &'static str {
        "seed000-pacing"
    }

    fn title(&self) -> &'static str {
        "A sender that adapts to its receiver, two streams on the Triton, TCP with single copy"
    }

    fn run(&self, run: &mut Run<'_>) -> Result<(), ProfileError> {
        let neptune = run.machine("pentium90-neptune")?;
        adapts(run, &neptune)?;
        let triton = run.machine("pentium90-triton")?;
        two_streams(run, &triton)?;
        both_ways(run, &triton)?;
        tcp(run, &neptune)
    }
}

/// "For loss-free continuous transmission": the adapter's pacer, below and above what the receiver takes.
fn adapts(run: &mut Run<'_>, machine: &Profile) -> Result<(), ProfileError> {
    let free = Scenario::new(machine, machine, UDP, run.size(2048, 500));
    let unpaced = run.pair(&free)?;
    let most = unpaced.received_mbit_s;
    let mut points = Vec::new();
    for share in [0.7, 0.8, 0.9, 0.95, 1.0, 1.1, 1.2, 1.4] {
        let outcome = run.pair(&Scenario { pace: Some(pace(share * most)), ..free.clone() })?;
        points.push((outcome.carried_mbit_s / MEBI, outcome.lost * 100.0, share));
    }
    let lost = |wanted: f64| points.iter().find(|(_, _, share)| *share == wanted).map_or(0.0, |(_, lost, _)| *lost);
    run.words(
        "A-61",
        "For loss-free continuous transmission, the sender would have to adapt to the maximum rate the receiver can handle",
        Test::new(
            unpaced.lost > 0.05 && lost(0.95) == 0.0 && lost(1.4) > 0.05,
            "UDP without checksum: nothing is lost where the adapter paces at 95 % of what the receiver gets from an unpaced sender; \
             more than 5 % is at 140 %, and without pacing",
            "a loss at 95 %, or none at 140 %; that some be lost at 120 % was foretold, and is not so",
        ),
        format!(
            "unpaced {:.1} received of {:.1} sent, {:.1} % lost; paced, carried and lost: {}. Paced, the receiver handles more \
             than it gets through when it is overrun",
            most / MEBI,
            unpaced.sent_mbit_s / MEBI,
            unpaced.lost * 100.0,
            points.iter().map(|(rate, lost, _)| format!("{rate:.1}: {lost:.1} %")).collect::<Vec<_>>().join(", ")
        ),
    );
    let mut figure = Figure::new(
        "pacing",
        "UDP without checksum, paced by the adapter",
        [crate::experiment::MEBIBIT, "% lost"],
        [false, false],
    );
    figure.add("modelled", Origin::Modelled, points.iter().map(|(rate, lost, _)| (*rate, *lost)));
    run.figure(figure);
    Ok(())
}

/// "Even on the type of PCs which constitute the state of the art": in and out at once by copying.
fn two_streams(run: &mut Run<'_>, machine: &Profile) -> Result<(), ProfileError> {
    // What the line carried: ttcp's own receive rate leaves out what was there before its timer started.
    let mut rates = Vec::new();
    for octets in SIZES {
        let pdus = run.size(2048, 1000);
        let scenario = Scenario { octets, loopback: true, ..Scenario::new(machine, machine, Transport::Raw, pdus) };
        rates.push((octets, run.pair(&scenario)?.carried_mbit_s));
    }
    let most = rates.iter().map(|(octets, rate)| rate / line_mbit_s(*octets)).fold(0.0, f64::max);
    run.words(
        "A-22",
        "the bandwidth available in the system could not support two simultaneous streams (e.g. copying from a disk to the network) if data is \
         copied to an intermediate buffer",
        Test::new(
            most < 0.95,
            "the Triton, looped, by copying: below 95 % of the line's maximum at every size",
            "95 % of the line in and out at once at some size",
        ),
        format!(
            "at most {:.0} % of the line's maximum; Mbit/s (2^20) by size: {}",
            most * 100.0,
            rates.iter().map(|(octets, rate)| format!("{octets} {:.1}", rate / MEBI)).collect::<Vec<_>>().join(", ")
        ),
    );
    Ok(())
}

/// "Bidirectional throughput", on the better PC, without copies.
fn both_ways(run: &mut Run<'_>, machine: &Profile) -> Result<(), ProfileError> {
    let mut shares = Vec::new();
    for octets in [4096, 8192, 16_384] {
        let pdus = run.size(2048, 1000);
        let single_copy = true;
        let scenario =
            Scenario { octets, loopback: true, single_copy, ..Scenario::new(machine, machine, Transport::Raw, pdus) };
        shares.push(run.pair(&scenario)?.carried_mbit_s / line_mbit_s(octets));
    }
    // Received bursts take the bus as long as on the Neptune, where that is an anchor: nothing is foretold here.
    run.words(
        "A-60",
        "Bidirectional throughput in current low-end systems is still not sufficient to saturate the network",
        Test::new(
            shares.iter().all(|share| *share < 0.95),
            "the Triton, looped, with single copy: carried below 95 % of the line's maximum at 4, 8 and 16 kB",
            "95 % at one of them",
        ),
        format!(
            "{:.0}, {:.0} and {:.0} % of the line's maximum; the bus's rate for received bursts is the Neptune's, fitted to 115 in loopback",
            shares[0] * 100.0,
            shares[1] * 100.0,
            shares[2] * 100.0
        ),
    )
    .fact("the Triton does not saturate the line in both directions");
    Ok(())
}

/// Single copy where a checksum has to be computed.
fn tcp(run: &mut Run<'_>, machine: &Profile) -> Result<(), ProfileError> {
    let copying = Scenario::new(machine, machine, Transport::Tcp, run.size(2048, 500));
    let rates = [false, true].map(|single_copy| run.pair(&Scenario { single_copy, ..copying.clone() }));
    let [copied, single] = rates;
    let (copied, single) = (copied?.received_mbit_s, single?.received_mbit_s);
    let gain = single / copied;
    run.words(
        "A-24",
        "some minor improvements are possible by avoiding half of the copy operation",
        Test::new(
            gain > 1.0 && gain < 1.25,
            "TCP of 8192 octets with single copy gains something, and less than 25 %",
            "no gain, or 25 %: then single copy would be practical where a checksum is needed",
        ),
        format!(
            "{:.1} by copying, {:.1} with single copy: {gain:.2} times. In the model a receiver that copies sums in a pass of its own, as Linux 1.3 \
             did, so all of the copy is saved; and every page of every segment can be mapped",
            copied / MEBI,
            single / MEBI
        ),
    );
    Ok(())
}
