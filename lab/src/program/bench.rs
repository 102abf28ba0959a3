//! `cellway-lab bench`: measurements with the machine's limit beside them, in the same run.

mod adapter;
mod am;
mod calls;
mod contract;
mod endpoint;
pub(crate) mod events;
pub(crate) mod figure;
mod ip;
mod lab;
mod path;
mod paths;
mod preload;
mod sar;
mod shards;
mod switch;

pub(crate) use paths::windows_mbit_s;

use anyhow::Result;
use cellway::context::Context;
use clap::Subcommand;
use control::processors::Processors;

/// `cellway-lab bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct Bench {
    #[command(subcommand)]
    command: BenchCommand,
    /// One short run of each case, to test that it works, not how fast it is
    #[arg(long, global = true)]
    quick: bool,
}

/// What a measurement is told.
trait QuickOptions: Sized {
    /// The same cases, of fewer sizes where they take long, each with one short run.
    fn quick(self) -> Self;

    fn for_runs(self, quick: bool) -> Self {
        if quick { self.quick() } else { self }
    }
}

/// Measurements.
#[derive(Debug, Subcommand)]
enum BenchCommand {
    /// Throughput from application to application through the switch, on cell links and on frame links
    Path(path::PathOptions),
    /// Segmentation and reassembly on one core, beside memcpy and two common implementations
    Sar(sar::SarOptions),
    /// The cell switch on one core: look-up, policing, queues, over the number of circuits, beside a copy of the cells
    Switch(switch::SwitchOptions),
    /// Shards of a network: traffic between two shards, two switches on two threads, two pairs of applications
    Shards(shards::ShardsOptions),
    /// The model of the ENI155P alone, driven by our own driver, beside memcpy and the card's line
    Adapter(adapter::AdapterOptions),
    /// Call set-ups and releases a second through one and five switches, in virtual time on one core
    Calls(calls::CallsOptions),
    /// A constant rate beside best effort of the same endpoint: rate and jitter on links of cells and of frames
    Contract(contract::ContractOptions),
    /// Event strategies over load: throughput, latency and processor share; cost with scale
    Events(events::EventsOptions),
    /// Data paths over the size of the PDU
    Paths(paths::PathsOptions),
    /// The cost of the library of `cellway run` for a program that does not use ATM
    Preload(preload::PreloadOptions),
    /// Active Messages of one cell, beside the endpoint's own round trip: LogP's parameters, live
    Am(am::AmOptions),
    /// Messages between two processes on two cores, by a direct circuit, beside the machine's limits and beside peers
    Endpoint(endpoint::EndpointOptions),
    /// The laboratory: simulated cells per second on one core, with the real state machines in the loop
    Lab(lab::LabOptions),
    /// TCP and ping by IP over ATM between two network namespaces, beside a plain TUN forwarder and beside veth
    Ip(ip::IpOptions),
}

/// `cellway-lab bench`
pub(crate) fn run(context: &Context, Bench { command, quick }: Bench) -> Result<()> {
    match command {
        BenchCommand::Path(options) => path::run(context, &options.for_runs(quick)),
        BenchCommand::Sar(options) => sar::run(context, &options.for_runs(quick)),
        BenchCommand::Switch(options) => switch::run(context, &options.for_runs(quick)),
        BenchCommand::Shards(options) => shards::run(context, &options.for_runs(quick)),
        BenchCommand::Adapter(options) => adapter::run(context, &options.for_runs(quick)),
        BenchCommand::Calls(options) => calls::run(context, &options.for_runs(quick)),
        BenchCommand::Contract(options) => contract::run(context, &options.for_runs(quick)),
        BenchCommand::Events(options) => events::run(context, &options.for_runs(quick)),
        BenchCommand::Paths(options) => paths::run(context, &options.for_runs(quick)),
        BenchCommand::Preload(options) => preload::run(context, &options.for_runs(quick)),
        BenchCommand::Am(options) => am::run(context, &options.for_runs(quick)),
        BenchCommand::Endpoint(options) => endpoint::run(context, &options.for_runs(quick)),
        BenchCommand::Lab(options) => lab::run(context, &options.for_runs(quick)),
        BenchCommand::Ip(options) => ip::run(context, &options.for_runs(quick)),
    }
}

/// The middle value; of an even number, the lower of the two.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or_default()
}

/// A number of a table, or a dash where there is none.
fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}

/// What the calling thread has had of a processor.
pub(crate) fn thread_seconds() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

/// Ties the calling thread to a processor, wherever it was tied to before.
fn pin(processor: usize) -> Result<()> {
    Processors::one(processor)?.stay()
}

/// What the machine says its processor is.
pub(crate) fn processor() -> Option<String> {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let (_, name) = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'))?;
    Some(name.trim().to_owned())
}
