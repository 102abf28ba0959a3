//! `cellway-lab explorer`: one page with the models as WebAssembly, the published numbers, and results to check them by.

use crate::results::study::LabExplorer;
use ::lab::experiment::{Published, run};
use ::lab::experiments;
use ::lab::explorer::{self as models, Netperf, Receiver, Way};
use ::lab::model::{Profile, ProfileError};
use anyhow::{Context as _, Result, bail};
use cellway::context::Context;
use cellway::output;
use clap::Args;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

/// Options of the explorer.
#[derive(Debug, Args)]
pub(crate) struct ExplorerOptions {
    /// The models as WebAssembly, as `scripts/explorer` builds them
    #[arg(long, value_name = "FILE")]
    wasm: PathBuf,
    /// The page to write
    #[arg(long, default_value = "out/lab/explorer.html", value_name = "FILE")]
    out: PathBuf,
}

const PAGE: &str = include_str!("../../../explorer/page/page.html");
const STYLE: &str = include_str!("../../../explorer/page/page.css");
const SCRIPT: &str = include_str!("../../../explorer/page/page.js");
/// Experiments whose published numbers are beside the models.
const BESIDE: [&str; 4] = ["seed000-arithmetic", "seed004-capacity", "seed004-clocks", "seed004-livelock"];
/// What a WebAssembly module begins with.
const MAGIC: &[u8] = b"\0asm";

fn published() -> Result<Vec<Value>> {
    let mut all = Vec::new();
    for name in BESIDE {
        let Some(experiment) = experiments::named(name) else { bail!("no experiment {name}") };
        for row in run(experiment, 1, true, None)?.rows {
            let published = match &row.published {
                Published::Number(n) => json!(n),
                Published::Range(from, to) => json!(format!("{from} to {to}")),
                Published::Words(words) => json!(words),
            };
            let (what, verdict) = (super::tidy::what(&row).to_owned(), row.verdict.name());
            all.push(json!({"id": row.id, "what": what, "unit": row.unit, "published": published, "verdict": verdict}));
        }
    }
    Ok(all)
}

/// A result of the laboratory: the function's name in the module, its arguments, the number.
fn sample(function: &str, arguments: Vec<f64>, result: f64) -> Value {
    json!({"function": function, "arguments": arguments, "result": result})
}

/// Results at other places than the sliders' beginnings.
fn samples(m: &Profile) -> Result<Vec<Value>, ProfileError> {
    let mut all = Vec::new();
    for notice in 0..5u32 {
        for (window_octets, computes) in [(4096.0, false), (65_536.0, true)] {
            let n = Netperf {
                notice,
                hertz: 400.0 * f64::from(notice + 1),
                interrupt_us: m.get("interrupt_us")?,
                look_us: m.get("poll_us")?,
                switch_us: m.get("switch_us")?,
                throughput_mbit_s: m.get("throughput_mbit_s")?,
                segment_octets: m.get("segment_octets")?,
                process_share: m.get("process_share")?,
                echo_ms: m.get("echo_ms")?,
                wire_us: m.get("wire_us")?,
                time_slice_ms: m.get("time_slice_ms")?,
                window_octets,
                computes,
                seconds: 0.5,
            };
            let arguments = vec![
                f64::from(notice),
                n.hertz,
                n.interrupt_us,
                n.look_us,
                n.switch_us,
                n.throughput_mbit_s,
                n.segment_octets,
                n.process_share,
                n.echo_ms,
                n.wire_us,
                n.time_slice_ms,
                n.window_octets,
                f64::from(u8::from(computes)),
                n.seconds,
            ];
            all.push(sample("netperf", arguments, models::netperf(&n)));
        }
    }
    for (guard, parameter) in [(0, 0.0), (1, 7.0), (2, 300.0)] {
        for offered in [900.0, 4_000.0, 12_345.0] {
            let (interrupt_us, process_us, queue, seconds) = (55.0, 130.0, 24.0, 0.4);
            let r = Receiver { guard, parameter, interrupt_us, process_us, queue, offered, seconds };
            let arguments = vec![f64::from(guard), parameter, interrupt_us, process_us, queue, offered, seconds];
            all.push(sample("delivered", arguments, models::delivered(&r)));
        }
    }
    for (octets, units) in [(65_536.0, 1.0), (9180.0, 192.0), (100.0, 3.0)] {
        let (bus_octets_s, line_octets_s) = (41e6, 15.5e6);
        let arguments = vec![octets, units, bus_octets_s, line_octets_s];
        all.push(sample("delay_ms", arguments, models::delay_ms(&Way { octets, units, bus_octets_s, line_octets_s })));
    }
    Ok(all)
}

fn hex(octets: &[u8]) -> String {
    octets.iter().fold(String::with_capacity(2 * octets.len()), |mut text, octet| {
        let _ = write!(text, "{octet:02x}");
        text
    })
}

fn page(wasm: &[u8]) -> Result<String> {
    let machine = Profile::named("hp9000-755")?;
    let constants: BTreeMap<&String, f64> = machine.constants.iter().map(|(name, c)| (name, c.value)).collect();
    let data = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "machine": constants,
        "published": published()?,
        "samples": samples(&machine)?,
        "wasm": hex(wasm),
    });
    // A "<" in the data could end the script that it is in.
    let data = data.to_string().replace('<', "\\u003c");
    Ok(PAGE.replace("/*STYLE*/", STYLE).replace("/*SCRIPT*/", SCRIPT).replace("/*DATA*/", &data))
}

/// `cellway-lab explorer`
pub(super) fn write(context: &Context, options: &ExplorerOptions) -> Result<()> {
    let wasm = fs::read(&options.wasm).with_context(|| format!("reading {}", options.wasm.display()))?;
    if !wasm.starts_with(MAGIC) {
        bail!("{} is no WebAssembly module: run scripts/explorer", options.wasm.display());
    }
    let html = page(&wasm)?;
    if let Some(folder) = options.out.parent() {
        fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    }
    fs::write(&options.out, &html).with_context(|| format!("writing {}", options.out.display()))?;
    let json = LabExplorer { lab: "explorer".to_owned(), file: options.out.clone(), octets: html.len() };
    output::print(context, &json, || format!("{}: {} octets, complete in itself", json.file.display(), json.octets))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_its_data_whole_and_a_module_that_is_none_is_refused() {
        let html = page(b"\0asm\x01\0\0\0").unwrap();
        let data = html.split("id=\"data\">").nth(1).unwrap().split("</script>").next().unwrap();
        let data: Value = serde_json::from_str(data).unwrap();
        assert_eq!(data["wasm"], "0061736d01000000");
        assert!(data["samples"].as_array().unwrap().len() >= 20 && data["machine"]["interrupt_us"].is_number());
        let delays = data["published"].as_array().unwrap().iter().filter(|row| row["id"] == "A-10");
        assert!(delays.filter(|row| row["published"] == 6.4 || row["published"] == 3.9).count() == 2);
        assert!(["/*DATA*/", "/*STYLE*/", "/*SCRIPT*/"].iter().all(|mark| !html.contains(mark)));
        let file = tempfile::NamedTempFile::new().unwrap();
        let options = ExplorerOptions { wasm: file.path().into(), out: file.path().with_extension("html") };
        let context = Context { socket: PathBuf::new(), json: false };
        assert!(write(&context, &options).unwrap_err().to_string().contains("no WebAssembly module"));
    }
}
