//! Figures of benchmarks: `bench`. Each has its limit beside it, measured in the same run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// `bench adapter`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BenchAdapter {
    /// The benchmark's name.
    pub bench: String,
    /// Runs of each case; medians are given.
    pub runs: usize,
    /// The kernel that makes and takes cells.
    pub kernel: String,
    /// The processor.
    pub processor: String,
    /// A row for each SDU size.
    pub rows: Vec<AdapterRow>,
}

/// SDUs of one size through a looped adapter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AdapterRow {
    /// Octets of an SDU.
    pub sdu_octets: usize,
    /// Rate out and back.
    pub loop_back_mbit_s: f64,
    /// Rate of memcpy.
    pub memcpy_mbit_s: f64,
    /// The first as a share of the second.
    pub vs_memcpy: Option<f64>,
    /// PDUs each second.
    pub pdus_per_s: f64,
    /// Their cells as a share of the rate of OC-3c.
    pub vs_line: Option<f64>,
}

/// `bench calls`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BenchCalls {
    /// The benchmark's name.
    pub bench: String,
    /// Runs of each case; medians are given.
    pub runs: usize,
    /// Calls of a run.
    pub calls: usize,
    /// Calls that are set up at the same time.
    pub under_way: usize,
    /// What state machines alone are to reach.
    pub goal_setups_per_s: f64,
    /// What a running daemon is to reach.
    pub goal_live_setups_per_s: f64,
    /// The processor.
    pub processor: String,
    /// State machines alone, in virtual time.
    pub rows: Vec<CallsRow>,
    /// A running daemon.
    pub live: Vec<CallsRow>,
    /// A set-up beside pings; `null` where it was not measured.
    pub round_trip: Option<CallsRoundTrip>,
    /// SSCOP over a line that loses PDUs.
    pub sscop: Vec<SscopRow>,
}

/// Set-ups with so many calls up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CallsRow {
    /// Who calls; `null` in virtual time.
    pub driver: Option<String>,
    /// Switches that a call passes.
    pub switches: usize,
    /// Calls that stay up.
    pub up: usize,
    /// Set-ups and releases each second.
    pub setups_per_s: f64,
    /// The least of the runs.
    pub least: Option<f64>,
    /// The greatest of the runs.
    pub greatest: Option<f64>,
    /// Memory of a call; `null` with few calls.
    pub octets_a_call: Option<f64>,
    /// Whether the goal is reached.
    pub reaches_goal: bool,
}

/// A set-up through several switches beside as many segment loopbacks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CallsRoundTrip {
    /// Switches.
    pub switches: usize,
    /// Microseconds of a set-up.
    pub setup_us: f64,
    /// Microseconds of five loopbacks of a segment.
    pub five_segment_pings_us: f64,
    /// The first divided by the second.
    pub ratio: Option<f64>,
}

/// SSCOP at one loss.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SscopRow {
    /// PDUs lost, in percent.
    pub loss_percent: u64,
    /// Messages that arrived each second.
    pub messages_per_s: f64,
    /// PDUs that were sent again.
    pub again: u64,
    /// Most messages that were kept.
    pub held: usize,
    /// Connections that SSCOP gave up for want of an answer, and that were established anew.
    pub released: u64,
}

/// `bench events`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BenchEvents {
    /// The benchmark's name.
    pub bench: String,
    /// Octets of an SDU.
    pub sdu_octets: usize,
    /// Work of the application for each SDU.
    pub application_us: f64,
    /// Runs of each case; medians are given.
    pub runs: usize,
    /// Length of a run.
    pub run_seconds: f64,
    /// Whether the system let the host go before the application.
    pub host_goes_first: bool,
    /// Most of a processor that the host uses on SDUs of which most are turned away, in per cent; 100: no limit.
    pub cycle_limit_percent: u8,
    /// By strategy: what is done at the highest load, as a share of the most.
    pub kept_at_highest_load: BTreeMap<String, f64>,
    /// The same of the model.
    pub kept_at_highest_load_modelled: BTreeMap<String, f64>,
    /// What was published.
    pub published: String,
    /// Measured.
    pub rows: Vec<EventsRow>,
    /// Modelled.
    pub modelled: Vec<EventsModelRow>,
    /// Cost of many endpoints and circuits.
    pub scale: Vec<ScaleRow>,
}

/// A strategy at one load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EventsRow {
    /// The strategy.
    pub events: String,
    /// Whether another process computes.
    pub competitor: bool,
    /// SDUs offered each second.
    pub offered_per_s: f64,
    /// SDUs done each second.
    pub done_per_s: f64,
    /// Median latency.
    pub p50_us: Option<f64>,
    /// 99th percentile of the latency.
    pub p99_us: Option<f64>,
    /// Share of a processor that the host had.
    pub host_share: f64,
    /// Share that the application had.
    pub application_share: f64,
    /// Bells each second.
    pub bells_per_s: f64,
    /// Rests while the application was behind.
    pub rests: u64,
}

/// A strategy at one load, modelled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EventsModelRow {
    /// The strategy.
    pub events: String,
    /// SDUs offered each second.
    pub offered_per_s: f64,
    /// SDUs done each second.
    pub done_per_s: f64,
    /// Median latency.
    pub p50_us: f64,
    /// 99th percentile of the latency.
    pub p99_us: f64,
    /// Share of a processor that the host had.
    pub host_share: f64,
    /// Interrupts each second.
    pub interrupts_per_s: f64,
}

/// The cost of each of many.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScaleRow {
    /// `endpoints` or `circuits`.
    pub what: String,
    /// How many there are.
    pub n: usize,
    /// Memory of each; `null` where it was not measured.
    pub octets_each: Option<f64>,
    /// Octets of an endpoint's segment.
    pub segment_octets: Option<usize>,
    /// Round trip of one among them; `null` where it was not measured.
    pub rtt_us: Option<f64>,
    /// Why it was not measured.
    pub skipped: Option<String>,
}

/// `bench path`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BenchPath {
    /// The benchmark's name.
    pub bench: String,
    /// Runs of each case; medians are given.
    pub runs: usize,
    /// Length of a run.
    pub run_seconds: f64,
    /// Throughput.
    pub rows: Vec<PathRow>,
    /// Round trips.
    pub round_trips: Vec<PathRoundTrip>,
}

/// Throughput of one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PathRow {
    /// `cells` or `frames`; `none` for a direct circuit, `memif` for peers.
    pub link: String,
    /// `credit`, `best-effort`, `contract`, `direct`; of peers `dpdk` or `ovs-dpdk`. The receiver reads SDUs in the sender's memory,
    /// which that lends, but for `credit-copied` and frames.
    pub flow: String,
    /// Processors that the threads have.
    pub cores: usize,
    /// Octets of a PDU.
    pub pdu_octets: usize,
    /// PDUs that arrived each second.
    pub pdus_per_s: f64,
    /// The least of the runs.
    pub pdus_per_s_min: Option<f64>,
    /// The greatest of the runs.
    pub pdus_per_s_max: Option<f64>,
    /// The same as octets.
    pub gbit_s: f64,
    /// Share of PDUs that were lost.
    pub lost_share: f64,
    /// Processors that were busy, in the mean.
    pub processors: f64,
    /// PDUs that a relay of datagrams carries each second.
    pub relay_pdus_per_s: f64,
    /// As a share of that.
    pub vs_relay: Option<f64>,
    /// Rate of memcpy.
    pub memcpy_gbit_s: f64,
    /// As a share of that.
    pub vs_memcpy: Option<f64>,
    /// Rate with a contract as a share of that without; `null` where there is no contract.
    pub vs_best_effort: Option<f64>,
}

/// Round trips by one way of waiting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PathRoundTrip {
    /// How the ends wait, and where the threads are.
    pub waiting: String,
    /// Octets of a PDU.
    pub pdu_octets: usize,
    /// Median.
    pub us: f64,
    /// The least of the runs' medians.
    pub us_min: Option<f64>,
    /// 99th percentile.
    pub p99_us: f64,
}

/// `bench paths`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BenchPaths {
    /// The benchmark's name.
    pub bench: String,
    /// Runs of each case; medians are given.
    pub runs: usize,
    /// Length of a run.
    pub run_seconds: f64,
    /// Data paths over the size of the PDU.
    pub rows: Vec<PathsRow>,
    /// Mapping pages beside copying them.
    pub remap: Vec<RemapRow>,
    /// What was published.
    pub published: PublishedText,
}

/// A data path with PDUs of one size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PathsRow {
    /// The data path.
    pub path: String,
    /// Octets of a PDU.
    pub pdu_octets: usize,
    /// PDUs that arrived each second.
    pub pdus_per_s: f64,
    /// The same as octets.
    pub gbit_s: f64,
    /// Rate of memcpy.
    pub memcpy_gbit_s: f64,
    /// As a share of that.
    pub vs_memcpy: Option<f64>,
    /// Share of PDUs that were lost.
    pub lost_share: f64,
    /// Page faults of the sender's thread for each PDU that arrived.
    pub sender_faults_per_pdu: Option<f64>,
    /// Page faults of the receiver's thread.
    pub receiver_faults_per_pdu: Option<f64>,
    /// Page faults of the process's other threads: the host's, and the library's that answers writes.
    pub other_faults_per_pdu: Option<f64>,
    /// TLB shootdowns of the whole machine for each PDU that arrived; none where the kernel does not count them.
    pub tlb_shootdowns_per_pdu: Option<f64>,
}

/// Mapping pages beside copying them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RemapRow {
    /// Octets.
    pub octets: usize,
    /// Nanoseconds to map them elsewhere.
    pub remap_ns: f64,
    /// Nanoseconds to copy them.
    pub copy_ns: f64,
    /// The first divided by the second.
    pub remap_vs_copy: Option<f64>,
    /// Page faults of mapping them and reading them.
    pub remap_faults: f64,
    /// Page faults of copying them and reading them.
    pub copy_faults: f64,
}

/// What was published.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PublishedText {
    /// Where.
    pub source: String,
    /// What.
    pub text: String,
}

/// `bench preload`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BenchPreload {
    /// The benchmark's name.
    pub bench: String,
    /// Runs of each case; medians are given.
    pub runs: usize,
    /// Octets of a call.
    pub octets: usize,
    /// The processor, as the machine names it.
    pub processor: Option<String>,
    /// Calls of a program that has nothing to do with ATM.
    pub cases: Vec<PreloadCase>,
}

/// One kind of call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PreloadCase {
    /// Its name.
    pub case: String,
    /// What is called.
    pub what: String,
    /// Nanoseconds without the library.
    pub limit_ns: f64,
    /// Nanoseconds with it.
    pub preloaded_ns: f64,
    /// The second divided by the first.
    pub ratio: Option<f64>,
}

/// `bench sar`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BenchSar {
    /// The benchmark's name.
    pub bench: String,
    /// Runs of each case; medians are given.
    pub runs: usize,
    /// Milliseconds of a run.
    pub run_millis: u64,
    /// The processor.
    pub processor: String,
    /// Kernels that this machine has.
    pub kernels: Vec<String>,
    /// Kernels and peers over the size of the SDU.
    pub rows: Vec<SarRow>,
    /// Cells of circuits in turn.
    pub interleaved: Vec<CircuitsRow>,
    /// Cells of many circuits in random order.
    pub circuits: Vec<CircuitsRow>,
}

/// A kernel, or a peer, with SDUs of one size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SarRow {
    /// Octets of an SDU.
    pub sdu_octets: usize,
    /// `l2` or `dram`.
    pub working_set: String,
    /// The kernel, or the peer.
    pub kernel: String,
    /// Rate of segmentation.
    pub segment_gbit_s: f64,
    /// Rate of reassembly.
    pub reassemble_gbit_s: f64,
    /// Rate of memcpy.
    pub memcpy_gbit_s: f64,
    /// Segmentation as a share of memcpy.
    pub segment_vs_memcpy: Option<f64>,
    /// Reassembly as a share of memcpy.
    pub reassemble_vs_memcpy: Option<f64>,
    /// Both as a share of memcpy.
    pub both_vs_memcpy: Option<f64>,
    /// Cells segmented each second.
    pub cells_per_s: f64,
    /// Cells reassembled each second.
    pub reassemble_cells_per_s: f64,
    /// PDUs segmented each second.
    pub segment_pdus_per_s: f64,
    /// PDUs reassembled each second.
    pub reassemble_pdus_per_s: f64,
    /// Whether this is not our code.
    pub peer: bool,
}

/// Cells of many circuits, reassembled with look-up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CircuitsRow {
    /// Circuits.
    pub circuits: usize,
    /// The order of their cells.
    pub order: String,
    /// Cells of a call.
    pub batch_cells: usize,
    /// Octets of a cell in memory.
    pub cell_octets: usize,
    /// Cells each second.
    pub cells_per_s: f64,
    /// Time of a cell.
    pub nanoseconds_per_cell: f64,
    /// Memory of the circuits' state.
    pub state_octets: usize,
    /// Memory of the buffers.
    pub buffer_octets: usize,
}

/// `bench switch`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BenchSwitch {
    /// The benchmark's name.
    pub bench: String,
    /// The processor, as the machine names it.
    pub processor: Option<String>,
    /// Runs of each case; medians are given.
    pub runs: usize,
    /// Length of a run.
    pub run_seconds: f64,
    /// Cells of a pass.
    pub cells_of_a_pass: usize,
    /// A row for each number of circuits and ports, and order of cells.
    pub rows: Vec<SwitchRow>,
}

/// The switch with so many circuits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SwitchRow {
    /// Circuits.
    pub circuits: usize,
    /// Ports.
    pub ports: u16,
    /// The order of the cells.
    pub order: String,
    /// Time to set all circuits up.
    pub setup_seconds: f64,
    /// Cells that are only copied, each second.
    pub copy_cells_per_s: f64,
    /// Cells that are switched and queued, each second.
    pub cells_per_s: f64,
    /// Translation as a share of copying.
    pub translate_vs_copy: Option<f64>,
    /// The same with policing.
    pub police_vs_copy: Option<f64>,
    /// The same with queues.
    pub switch_vs_copy: Option<f64>,
    /// The same of cells that leave at once.
    pub cut_through_vs_copy: Option<f64>,
    /// The same with contracts that are shaped.
    pub contracts_vs_copy: Option<f64>,
}

/// `bench endpoint`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BenchEndpoint {
    /// The benchmark's name.
    pub bench: String,
    /// Runs of each case; medians are given.
    pub runs: usize,
    /// Processors of the two processes.
    pub processors: Vec<usize>,
    /// Round trip of a cache line.
    pub cache_line_rtt_ns: Option<f64>,
    /// Round trip of an event descriptor.
    pub eventfd_rtt_ns: Option<f64>,
    /// Whether iceoryx2 was measured.
    pub iceoryx2: bool,
    /// A row for each path, way to wait and size.
    pub rows: Vec<EndpointRow>,
}

/// Messages of one size between two processes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EndpointRow {
    /// The path, or the peer.
    pub path: String,
    /// How the ends wait.
    pub events: String,
    /// Octets of a message.
    pub octets: usize,
    /// Round trip.
    pub rtt_ns: Option<f64>,
    /// The least of the runs.
    pub rtt_least_ns: Option<f64>,
    /// Messages each second.
    pub rate_per_s: Option<f64>,
    /// The same as octets.
    pub gbyte_s: Option<f64>,
    /// Round trip divided by that of a cache line.
    pub rtt_vs_cache_line: Option<f64>,
    /// Round trip divided by that of an event descriptor.
    pub rtt_vs_eventfd: Option<f64>,
    /// Round trip divided by that of a direct circuit.
    pub rtt_vs_direct: Option<f64>,
    /// Rate as a share of the contract.
    pub rate_vs_contract: Option<f64>,
    /// Round trip divided by that of iceoryx2.
    pub rtt_vs_iceoryx2: Option<f64>,
    /// Rate divided by that of iceoryx2.
    pub rate_vs_iceoryx2: Option<f64>,
    /// Rate divided by that of a pipe.
    pub rate_vs_write_read: Option<f64>,
    /// Rate divided by that of datagrams.
    pub rate_vs_unix_datagram: Option<f64>,
    /// Rate divided by that of TCP.
    pub rate_vs_tcp: Option<f64>,
}

/// `bench lab`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BenchLab {
    /// The benchmark's name.
    pub bench: String,
    /// Runs of each case; medians are given.
    pub runs: usize,
    /// Cells of a run.
    pub cells: u64,
    /// What is to be reached.
    pub goal_cells_per_s: f64,
    /// The processor.
    pub processor: String,
    /// A row for each scene.
    pub rows: Vec<LabRow>,
}

/// A scene in virtual time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LabRow {
    /// Its name.
    pub scene: String,
    /// What is in the loop.
    pub what: String,
    /// Cells each second of processor time.
    pub cells_per_s: f64,
    /// The least of the runs.
    pub least: Option<f64>,
    /// The greatest of the runs.
    pub greatest: Option<f64>,
    /// The same as a multiple of OC-3c.
    pub times_oc3c: f64,
    /// Whether the goal is reached.
    pub reaches_goal: bool,
}

/// `bench ip`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BenchIp {
    /// The benchmark's name.
    pub bench: String,
    /// Runs of each case; medians are given.
    pub runs: usize,
    /// Length of a transfer.
    pub tcp_in_each_run: String,
    /// The processor of what carries packets; `null`: any.
    pub carrier_processor: Option<usize>,
    /// TCP's congestion control.
    pub tcp_congestion_control: String,
    /// The processor.
    pub processor: String,
    /// A row for each way, MTU and offload.
    pub rows: Vec<IpRow>,
}

/// TCP and ping by one way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IpRow {
    /// The way.
    pub case: String,
    /// MTU.
    pub mtu: usize,
    /// Whether checksums and cutting are left over.
    pub offload: bool,
    /// TCP in both directions, mean.
    pub tcp_gbit_s: f64,
    /// TCP in one direction.
    pub tcp_there_gbit_s: f64,
    /// TCP in the other.
    pub tcp_back_gbit_s: f64,
    /// Round trip.
    pub ping_us: f64,
    /// TCP as a share of a plain forwarder's.
    pub vs_forwarder: Option<f64>,
    /// TCP as a share of veth's.
    pub vs_veth: Option<f64>,
    /// Round trip divided by a plain forwarder's.
    pub ping_vs_forwarder: Option<f64>,
    /// Processor time for a megaoctet, in microseconds.
    pub cpu_us_per_mb: Option<f64>,
    /// Octets carried.
    pub octets: u64,
}

/// `bench contract`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BenchContract {
    /// The benchmark's name.
    pub bench: String,
    /// The processor, as the machine names it.
    pub processor: Option<String>,
    /// Length of a case.
    pub seconds: f64,
    /// A row for links of cells, and one for links of frames.
    pub rows: Vec<ContractRow>,
}

/// A circuit of a constant rate beside one of best effort.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ContractRow {
    /// `cells` or `frames`.
    pub link: String,
    /// The contract.
    pub contract_cells_per_s: f64,
    /// Its tolerance.
    pub cdvt_us: u64,
    /// Cells that arrived each second.
    pub cells_per_s: f64,
    /// As a share of the contract's.
    pub rate_vs_contract: Option<f64>,
    /// Cells that left their host and did not arrive.
    pub lost: u64,
    /// How much gaps differ from the contract's: the median.
    pub jitter_median_us: Option<f64>,
    /// The 99th percentile.
    pub jitter_p99_us: Option<f64>,
    /// The most.
    pub jitter_max_us: Option<f64>,
    /// What the circuit of best effort carried.
    pub bulk_mbit_s: f64,
}
