//! `cellway-lab sensitivity`: which constant decides which row, as a page, as tidy CSV and as a tornado chart.

use super::data::field;
use super::report::write;
use crate::results::LabSensitivity;
use ::lab::experiment::Verdict;
use ::lab::sensitivity::{Move, Sensitivity, names, page, some};
use anyhow::{Context as _, Result, bail};
use cellway::context::Context;
use cellway::output;
use clap::Args;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

/// Options of the analysis.
#[derive(Debug, Args)]
pub(crate) struct SensitivityOptions {
    /// The folder for sensitivity.md, sensitivity.csv and tornado.csv
    #[arg(long, default_value = "out/lab", value_name = "FOLDER")]
    out: PathBuf,
    /// The factor for every constant that no paper gives
    #[arg(long, default_value_t = 1.2)]
    factor: f64,
    /// Only constants whose names begin so, as MACHINE or MACHINE.CONSTANT (may be repeated) [default: all]
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// The same seed gives the same virtual time and output, to the octet
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn named(m: &Move) -> String {
    let what = super::tidy::what(&m.row);
    let cut: String = what.chars().take(60).collect();
    let dots = if cut.len() < what.len() { "..." } else { "" };
    format!("{} {cut}{dots}", m.row.id)
}

/// Rows' intervals by constant: what the printed digits of an anchor leave open.
fn tornado(found: &[Sensitivity]) -> (String, BTreeMap<String, f64>) {
    let mut text = String::from("experiment,id,what,modelled,machine,constant,interval,low,high\n");
    let mut widest: BTreeMap<String, f64> = BTreeMap::new();
    for s in found {
        let Some(interval) = s.interval() else { continue };
        for m in &s.moves {
            let (Some(elasticity), Some(modelled)) = (m.elasticity, m.row.modelled) else { continue };
            let half = (elasticity * interval).abs();
            let fields = [
                m.experiment.clone(),
                m.row.id.clone(),
                m.row.what.clone(),
                modelled.to_string(),
                s.machine.clone(),
                s.constant.clone(),
                interval.to_string(),
                (modelled * (1.0 - half)).to_string(),
                (modelled * (1.0 + half)).to_string(),
            ];
            text += &(fields.map(|f| field(&f)).join(",") + "\n");
            if m.row.verdict == Verdict::Prediction {
                *widest.entry(format!("{} by {}", named(m), s.constant)).or_default() += half * 100.0;
            }
        }
    }
    (text, widest)
}

/// The chart: predictions and the constants that decide them, widest first.
fn chart(widest: &BTreeMap<String, f64>) -> String {
    let mut bars: Vec<(&String, &f64)> = widest.iter().filter(|(_, half)| **half > 0.0).collect();
    bars.sort_by(|a, b| b.1.total_cmp(a.1));
    bars.truncate(24);
    let most = bars.first().map_or(1.0, |(_, half)| **half);
    let height = 60 + 22 * bars.len();
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"900\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\
         <text x=\"450\" y=\"22\" text-anchor=\"middle\" font-size=\"16\">What an anchor's printed digits leave open in a prediction, per cent</text>"
    );
    for (i, (name, half)) in bars.into_iter().enumerate() {
        let (y, width) = (44 + 22 * i, half / most * 180.0);
        let name = name.replace('&', "&amp;").replace('<', "&lt;");
        svg += &format!(
            "<text x=\"520\" y=\"{}\" text-anchor=\"end\">{name}</text><rect x=\"{:.1}\" y=\"{y}\" width=\"{:.1}\" height=\"14\" fill=\"#0b6e99\"/>\
             <text x=\"{:.1}\" y=\"{}\">{half:.2}</text>",
            y + 11,
            690.0 - width,
            2.0 * width,
            694.0 + width,
            y + 11
        );
    }
    svg + "</svg>\n"
}

/// `cellway-lab sensitivity`
pub(super) fn run(context: &Context, options: &SensitivityOptions) -> Result<()> {
    let names = names()?;
    let wanted = |name: &String| options.only.is_empty() || options.only.iter().any(|only| name.starts_with(only));
    if !names.iter().any(wanted) {
        bail!("no constant is called {}: expected one of {}", options.only.join(", "), names.join(", "));
    }
    let found = some(options.seed, true, options.factor, |at| names.get(at).is_some_and(wanted))?;
    fs::create_dir_all(&options.out).with_context(|| format!("making {}", options.out.display()))?;
    let mut csv = String::from("machine,constant,origin,calibrated,experiment,id,what,verdict,elasticity,flipped\n");
    for (s, m) in found.iter().flat_map(|s| s.moves.iter().map(move |m| (s, m))) {
        let fields = [
            s.machine.clone(),
            s.constant.clone(),
            s.origin.clone(),
            s.calibrated.to_string(),
            m.experiment.clone(),
            m.row.id.clone(),
            super::tidy::what(&m.row).to_owned(),
            m.row.verdict.name().to_owned(),
            m.elasticity.map_or(String::new(), |e| e.to_string()),
            m.flipped.to_string(),
        ];
        csv += &(fields.map(|f| field(&f)).join(",") + "\n");
    }
    let (intervals, widest) = tornado(&found);
    for (name, text) in [
        ("sensitivity.md", page(&found, options.factor)),
        ("sensitivity.csv", csv),
        ("tornado.csv", intervals),
        ("tornado.svg", chart(&widest)),
    ] {
        write(&options.out, name, &text)?;
    }
    let idle: Vec<String> =
        found.iter().filter(|s| s.moves.is_empty()).map(|s| format!("{}.{}", s.machine, s.constant)).collect();
    let json = LabSensitivity {
        lab: "sensitivity".to_owned(),
        constants: found.len(),
        moves: found.iter().map(|s| s.moves.len()).sum(),
        idle: idle.clone(),
    };
    output::print(context, &json, || {
        format!(
            "{} constants; no row depends on {}\n{}",
            found.len(),
            idle.join(", "),
            options.out.join("sensitivity.md").display()
        )
    })
}
