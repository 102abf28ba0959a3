//! `cellway lab calibrate`: this machine's constants, measured, in the form of the profiles in machines/.

use super::live::Here;
use crate::{Context, output};
use ::lab::experiment::{Measured, Probe};
use ::lab::model::Profile;
use ::lab::model::profile::Constant;
use anyhow::{Context as _, Result};
use clap::Args;
use endpoint::{DataPath, Events};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What to measure.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Write the profile there; to standard output if not said
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Shorter measurements
    #[arg(long)]
    quick: bool,
}

/// The line through two points: what a PDU costs and what an octet costs, both in microseconds.
fn line(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
    let slope = ((b.1 - a.1) / (b.0 - a.0)).max(0.0);
    ((a.1 - slope * a.0).max(0.0), slope)
}

/// `cellway lab calibrate`
pub(super) fn run(context: &Context, options: &Options) -> Result<()> {
    let mut here = Here::new(options.quick);
    let mut constants = BTreeMap::new();
    let mut add = |name: &str, value: f64, unit: &str, source: String| {
        constants.insert(
            name.to_owned(),
            Constant { value, unit: unit.into(), source: Some(source), anchor: None, why: None },
        );
    };
    let said = |m: &Measured| format!("cellway lab calibrate: median; {:.3} to {:.3}", m.least, m.greatest);
    for (name, probe, unit) in [
        ("copy_mb_s", Probe::Copy { octets: 65_536 }, "10^6 octets/s in the second-level cache"),
        ("layer_mbit_s", Probe::Layer { octets: 9188 }, "Mbit/s of segmentation and reassembly, one core"),
        ("lists_cells_s", Probe::Lists, "cells/s through the list reassembler"),
        ("system_call_us", Probe::SystemCall, "us"),
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
    ] {
        let measured = here.try_measure(probe).with_context(|| format!("measuring {name}"))?;
        add(name, measured.median, unit, said(&measured));
    }
    for path in DataPath::ALL {
        let name = path.name().replace('-', "_");
        let mut points = Vec::new();
        for octets in [64usize, 16_384] {
            let measured = here.try_measure(Probe::Path { octets, path })?;
            points.push((octets as f64, octets as f64 * 8.0 / measured.median));
        }
        let (pdu, octet) = line(points[0], points[1]);
        let source = || "cellway lab calibrate: the line through PDUs of 64 and of 16384 octets".to_owned();
        add(&format!("{name}_pdu_us"), pdu, "us per PDU, application to application", source());
        add(&format!("{name}_octet_ns"), octet * 1e3, "ns per octet, application to application", source());
    }
    let profile = Profile {
        name: "today".into(),
        title: crate::bench::processor().unwrap_or_else(|| "this machine".into()),
        constants,
    };
    let text = toml::to_string(&profile)?;
    // What is written can be read again.
    Profile::parse(&text)?;
    if let Some(path) = &options.out {
        std::fs::write(path, &text).with_context(|| format!("writing {}", path.display()))?;
    }
    output::print(context, &serde_json::to_value(&profile)?, || match &options.out {
        Some(path) => path.display().to_string(),
        None => text,
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_line_has_no_negative_cost() {
        assert_eq!(super::line((0.0, 2.0), (10.0, 4.0)), (2.0, 0.2));
        assert_eq!(super::line((64.0, 5.0), (128.0, 4.0)).1, 0.0);
    }
}
