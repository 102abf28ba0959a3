//! This machine's constants, measured, in the form of the profiles in machines/.
//!
//! The passes go round over all constants, so that a disturbance meets one pass of many constants and not all passes of
//! one. The median counts; beside it stand the extremes and how wide the middle half of the passes lies.

use super::Here;
use ::lab::experiment::{Probe, Whose};
use ::lab::model::Profile;
use ::lab::model::profile::Constant;
use anyhow::{Context as _, Result};
use cellway::output;
use endpoint::{DataPath, Events};
use std::collections::BTreeMap;

/// Above this width of the middle half, relative to the median, a constant is called uncertain.
const UNCERTAIN: f64 = 0.25;
/// The PDUs, in octets, whose costs give a line; a single copy of other sizes is what the line is checked on.
const ENDS: [usize; 2] = [64, 16_384];
/// PDUs of a burst.
const BURST: usize = 16;

const SINGLE: [(&str, Probe, &str); 11] = [
    ("copy_mb_s", Probe::Copy { octets: 65_536 }, "10^6 octets/s, 64 kB in the nearer caches"),
    ("copy_far_mb_s", Probe::Copy { octets: 64 << 20 }, "10^6 octets/s, 64 MB"),
    ("checksum_mb_s", Probe::Checksum { octets: 9180, copied: false }, "10^6 octets/s of the Internet checksum"),
    ("layer_mbit_s", Probe::Layer { octets: 9188 }, "Mbit/s of segmentation and reassembly, one core"),
    ("lists_cells_s", Probe::Lists, "cells/s through the list reassembler"),
    ("lookups_s", Probe::Lookup, "lookups/s in a full CAM of 256 entries"),
    ("system_call_us", Probe::SystemCall, "us"),
    ("timer_tick_us", Probe::Tick, "us on a processor, going to sleep and being woken"),
    ("write_us", Probe::Write { octets: 65_536 }, "us of a write to /dev/null"),
    (
        "round_trip_us",
        Probe::RoundTrip { octets: 32, events: Events::Interrupt },
        "us between two applications, asleep until woken",
    ),
    (
        "round_trip_polling_us",
        Probe::RoundTrip { octets: 32, events: Events::Polling },
        "us between two applications, polling",
    ),
];

/// The line through two points: what a PDU costs and what an octet costs, both in the unit of y.
fn line(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
    let slope = ((b.1 - a.1) / (b.0 - a.0)).max(0.0);
    ((a.1 - slope * a.0).max(0.0), slope)
}

/// What passes gave, as a constant.
fn constant(mut values: Vec<f64>, unit: &str, how: &str) -> Constant {
    values.sort_by(f64::total_cmp);
    let at = |share: f64| {
        values.get(((values.len().saturating_sub(1)) as f64 * share).round() as usize).copied().unwrap_or_default()
    };
    let (median, wide) = (at(0.5), at(0.75) - at(0.25));
    let relative = if median > 0.0 { wide / median } else { 0.0 };
    let doubt = if relative > UNCERTAIN { "; uncertain: run it again when the machine has less to do" } else { "" };
    Constant {
        value: median,
        unit: unit.into(),
        source: Some(format!("cellway-lab calibrate: median of {} passes{how}", values.len())),
        anchor: None,
        assumed: None,
        why: Some(format!("{:.4} to {:.4}, the middle half {:.0} % wide{doubt}", at(0.0), at(1.0), relative * 100.0)),
    }
}

/// Measures the profile of this machine in so many passes.
pub(in crate::experiments) fn profile(here: &mut Here, passes: usize) -> Result<Profile> {
    let mut single: Vec<Vec<f64>> = vec![Vec::new(); SINGLE.len()];
    let mut lines: Vec<[Vec<f64>; 2]> = vec![Default::default(); DataPath::ALL.len()];
    let mut interrupts: [Vec<f64>; 3] = Default::default();
    let bar = output::progress(Some(passes.max(1) as u64));
    for _ in 0..passes.max(1) {
        for ((name, probe, _), values) in SINGLE.iter().zip(&mut single) {
            values.push(here.once(*probe).with_context(|| format!("measuring {name}"))?);
        }
        for (path, values) in DataPath::ALL.into_iter().zip(&mut lines) {
            let mut cost = |octets| {
                let (events, burst, whose) = (Events::Interrupt, BURST, Whose::All);
                Ok::<_, anyhow::Error>((octets as f64, here.once(Probe::Cost { octets, path, events, burst, whose })?))
            };
            let (pdu, octet) = line(cost(ENDS[0])?, cost(ENDS[1])?);
            values[0].push(pdu);
            values[1].push(octet * 1e3);
        }
        // A PDU alone has an interrupt for itself, one of 64 a 64th.
        let mut cell = |burst, whose| {
            let (path, events) = (DataPath::Shared, Events::Interrupt);
            here.once(Probe::Cost { octets: 40, path, events, burst, whose })
        };
        let many = cell(64, Whose::Host)?;
        let (alpha, c) = line((1.0 / 64.0, many), (1.0, cell(1, Whose::Host)?));
        // What is neither the host interface's nor the sender's is the receiver's.
        let application = cell(64, Whose::All)? - many - cell(64, Whose::Sender)?;
        for (values, value) in interrupts.iter_mut().zip([c, alpha, application.max(0.0)]) {
            values.push(value);
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    let mut constants = BTreeMap::new();
    for ((name, _, unit), values) in SINGLE.iter().zip(single) {
        constants.insert((*name).to_owned(), constant(values, unit, ""));
    }
    for (path, [pdus, octets]) in DataPath::ALL.into_iter().zip(lines) {
        let name = path.name().replace('-', "_");
        let how = format!(" of the line through PDUs of {} and of {} octets", ENDS[0], ENDS[1]);
        let pdu = constant(pdus, "us on a processor per PDU, application to application", &how);
        constants.insert(format!("{name}_pdu_us"), pdu);
        let octet = constant(octets, "ns on a processor per octet, application to application", &how);
        constants.insert(format!("{name}_octet_ns"), octet);
    }
    let [c, alpha, application] = interrupts;
    let how = " of the line through bursts of 1 and of 64 PDUs of a cell";
    constants
        .insert("interrupt_us".into(), constant(c, "us on a processor: C, what waking the host interface costs", how));
    constants.insert(
        "host_us".into(),
        constant(alpha, "us on a processor: alpha, the host interface's for a PDU of a cell", how),
    );
    let unit = "us on a processor: what taking a PDU of a cell costs the application that receives it";
    constants.insert(
        "application_us".into(),
        constant(application, unit, " of bursts of 64, less host interface and sender"),
    );
    let title = crate::bench::processor().unwrap_or_else(|| "this machine".into());
    Ok(Profile::new("today", &title, constants))
}

#[cfg(test)]
mod tests {
    use super::{constant, line};

    #[test]
    fn a_line_has_no_negative_cost() {
        assert_eq!(line((0.0, 2.0), (10.0, 4.0)), (2.0, 0.2));
        assert_eq!(line((64.0, 5.0), (128.0, 4.0)).1, 0.0);
    }

    #[test]
    fn one_disturbed_pass_moves_no_constant_and_many_make_it_uncertain() {
        let quiet = constant(vec![1.0, 1.01, 0.99, 1.0, 50.0], "us", "");
        assert_eq!(quiet.value, 1.0);
        assert!(!quiet.why.unwrap().contains("uncertain"));
        let noisy = constant(vec![1.0, 3.0, 0.5, 2.0, 9.0], "us", "");
        assert_eq!(noisy.value, 2.0);
        assert!(noisy.why.unwrap().contains("uncertain"));
    }
}
