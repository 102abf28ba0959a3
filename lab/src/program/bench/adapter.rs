//! `cellway-lab bench adapter`: how fast the model of the ENI155P alone is: our driver, a loop-back inside the adapter, no bus
//! between. What a guest gets is less, by what its accesses cost; this shows that the model is not the limit. Beside it
//! memcpy of the same SDUs, and the rate of the card's line.

use super::{median, processor, thread_seconds};
use crate::results::bench::BenchAdapter;
use anyhow::{Context as _, Result, bail, ensure};
use bus::memory::Flat;
use cellway::context::Context;
use cellway::output;
use eni155p::driver::Bus;
use eni155p::driver::{Aal, BUFFER_OCTETS, Direct, Eni};
use eni155p::suni;
use eni155p::{Config, Eni155p, Pace, registers as r};
use serde_json::{Value, json};
use std::hint::black_box;
use wire::{Cell, Time};

/// Options of `bench adapter`.
#[derive(Debug, clap::Args)]
pub(crate) struct AdapterOptions {
    /// Runs of each case, interleaved with memcpy; the medians are given
    #[arg(long, default_value_t = 9)]
    runs: usize,
    /// Octets of SDUs in each run
    #[arg(long, default_value_t = 8 << 20)]
    octets: usize,
    /// SDUs of these sizes, in octets
    #[arg(long, value_delimiter = ',', default_values_t = [64, 1500, 9188, 65_535])]
    sdu: Vec<usize>,
}

const BUFFERS: u64 = 8;
const VCI: u32 = 40;

/// An adapter whose cells come back to it.
struct Loop {
    adapter: Eni155p,
    memory: Flat,
    driver: Eni,
    cells: Vec<Cell>,
}

impl Loop {
    fn new() -> Result<Self> {
        let mut adapter = Eni155p::new(Config { pace: Pace::Unpaced, ..Config::default() });
        let mut bus = Direct { adapter: &mut adapter, now: Time::ZERO };
        let mut driver = Eni::probe(&mut bus, 0, BUFFERS).context("the driver finds no ENI155P")?;
        driver.open(&mut bus, VCI, Aal::Aal5, 128 << 10, None)?;
        // The framer's diagnostic loop-back.
        bus.write(r::PHY_AT + 4 * u32::from(suni::MCT), 2);
        let memory = Flat::new(0, (2 * BUFFERS * BUFFER_OCTETS) as usize);
        Ok(Loop { adapter, memory, driver, cells: vec![Cell::default(); 256] })
    }

    /// One SDU out of the host's memory, through the adapter twice, and back into the host's memory.
    fn round(&mut self, sdu: &[u8]) -> Result<()> {
        let now = Time::ZERO;
        let mut bus = Direct { adapter: &mut self.adapter, now };
        self.driver.send(&mut bus, &mut self.memory, VCI, sdu)?;
        loop {
            while self.adapter.run_dma(&mut self.memory, 1 << 16) {}
            if self.adapter.next_transmit().is_some() {
                self.adapter.fill(&mut self.cells, now);
            } else if self.adapter.interrupt(now) {
                self.driver.handle_interrupt(&mut Direct { adapter: &mut self.adapter, now });
            } else {
                break;
            }
        }
        let received = self.driver.poll_received().context("an SDU did not come back")?;
        ensure!(
            self.memory.slice(received.address, received.octets) == Some(sdu),
            "an SDU of {} octets came back changed",
            sdu.len()
        );
        self.driver.release(received);
        Ok(())
    }
}

/// Mbit/s of `rounds` SDUs of `octets`, in seconds of this thread on a processor.
fn rate(rounds: usize, octets: usize, mut round: impl FnMut() -> Result<()>) -> Result<f64> {
    let begin = thread_seconds();
    for _ in 0..rounds {
        round()?;
    }
    Ok((rounds * octets * 8) as f64 / (thread_seconds() - begin) / 1e6)
}

impl super::QuickOptions for AdapterOptions {
    fn quick(self) -> Self {
        AdapterOptions { runs: 1, octets: 100_000, ..self }
    }
}

/// `cellway-lab bench adapter`
pub(crate) fn run(context: &Context, options: &AdapterOptions) -> Result<()> {
    if let Some(octets) = options.sdu.iter().find(|n| !(1..=wire::aal5::MAX_SDU_OCTETS).contains(n)) {
        bail!("an SDU of {octets} octets: AAL5 carries 1 to 65535");
    }
    let bar = output::progress(Some((options.sdu.len() * options.runs.max(1)) as u64));
    let mut rows: Vec<Value> = Vec::new();
    for &octets in &options.sdu {
        let sdu: Vec<u8> = (0..octets).map(|i| (i * 7 + i / 256) as u8).collect();
        let mut copy = vec![0; octets];
        let mut looped = Loop::new()?;
        let rounds = (options.octets / octets).max(1);
        let (mut through, mut copied) = (Vec::new(), Vec::new());
        for _ in 0..options.runs.max(1) {
            through.push(rate(rounds, octets, || looped.round(&sdu))?);
            copied.push(rate(rounds, octets, || {
                black_box(&mut copy).copy_from_slice(black_box(&sdu));
                Ok(())
            })?);
            bar.inc(1);
        }
        let (through, memcpy) = (median(&mut through), median(&mut copied));
        let cells = (octets + wire::aal5::TRAILER_OCTETS).div_ceil(wire::cell::PAYLOAD_OCTETS);
        let pdus_per_s = through * 1e6 / 8.0 / octets as f64;
        rows.push(json!({
            "sdu_octets": octets,
            "loop_back_mbit_s": through,
            "memcpy_mbit_s": memcpy,
            "vs_memcpy": through / memcpy,
            "pdus_per_s": pdus_per_s,
            "vs_line": pdus_per_s * cells as f64 / wire::CellRate::OC3C.cells_per_s(),
        }));
    }
    bar.finish_and_clear();
    let json = json!({
        "bench": "adapter", "runs": options.runs, "kernel": sar::Kernel::chosen().name(),
        "processor": processor().unwrap_or_else(|| std::env::consts::ARCH.to_owned()), "rows": rows,
    });
    output::print_as::<BenchAdapter>(context, &json, || text(&rows))
}

fn text(rows: &[Value]) -> String {
    let number = |row: &Value, key: &str, digits: usize| format!("{:.digits$}", row[key].as_f64().unwrap_or_default());
    let table: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            vec![
                row["sdu_octets"].to_string(),
                number(row, "loop_back_mbit_s", 0),
                number(row, "vs_line", 1),
                number(row, "vs_memcpy", 3),
                number(row, "memcpy_mbit_s", 0),
                number(row, "pdus_per_s", 0),
            ]
        })
        .collect();
    output::table(&["SDU octets", "out and back, Mbit/s", "of the line", "of memcpy", "memcpy", "PDUs/s"], &table)
}

#[cfg(test)]
mod tests {
    use super::Loop;

    #[test]
    fn what_is_measured_comes_back_unchanged() {
        let mut looped = Loop::new().unwrap();
        for octets in [1, 40, 41, 1500, 65_535] {
            looped.round(&vec![octets as u8; octets]).unwrap();
        }
    }
}
