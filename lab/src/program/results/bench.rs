//! Figures of benchmarks: `bench`. Each has its limit beside it, measured in the same run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// `bench adapter`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BenchAdapter {
    /// The benchmark's name.
    pub(crate) bench: String,
    /// Runs of each case; medians are given.
    pub(crate) runs: usize,
    /// The kernel that makes and takes cells.
    pub(crate) kernel: String,
    /// The processor.
    pub(crate) processor: String,
    /// A row for each SDU size.
    pub(crate) rows: Vec<AdapterRow>,
}

/// SDUs of one size through a looped adapter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AdapterRow {
    /// Octets of an SDU.
    pub(crate) sdu_octets: usize,
    /// Rate out and back.
    pub(crate) loop_back_mbit_s: f64,
    /// Rate of memcpy.
    pub(crate) memcpy_mbit_s: f64,
    /// The first as a share of the second.
    pub(crate) vs_memcpy: Option<f64>,
    /// PDUs each second.
    pub(crate) pdus_per_s: f64,
    /// Their cells as a share of the rate of OC-3c.
    pub(crate) vs_line: Option<f64>,
}

/// `bench calls`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BenchCalls {
    /// The benchmark's name.
    pub(crate) bench: String,
    /// Runs of each case; medians are given.
    pub(crate) runs: usize,
    /// Calls of a run.
    pub(crate) calls: usize,
    /// Calls that are set up at the same time.
    pub(crate) under_way: usize,
    /// What state machines alone are to reach.
    pub(crate) goal_setups_per_s: f64,
    /// What a running daemon is to reach.
    pub(crate) goal_live_setups_per_s: f64,
    /// The processor.
    pub(crate) processor: String,
    /// State machines alone, in virtual time.
    pub(crate) rows: Vec<CallsRow>,
    /// A running daemon.
    pub(crate) live: Vec<CallsRow>,
    /// A set-up beside pings; `null` where it was not measured.
    pub(crate) round_trip: Option<CallsRoundTrip>,
    /// SSCOP over a line that loses PDUs.
    pub(crate) sscop: Vec<SscopRow>,
}

/// Set-ups with so many calls up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CallsRow {
    /// Who calls; `null` in virtual time.
    pub(crate) driver: Option<String>,
    /// Switches that a call passes.
    pub(crate) switches: usize,
    /// Calls that stay up.
    pub(crate) up: usize,
    /// Set-ups and releases each second.
    pub(crate) setups_per_s: f64,
    /// The least of the runs.
    pub(crate) least: Option<f64>,
    /// The greatest of the runs.
    pub(crate) greatest: Option<f64>,
    /// Memory of a call; `null` with few calls.
    pub(crate) octets_a_call: Option<f64>,
    /// Whether the goal is reached.
    pub(crate) reaches_goal: bool,
}

/// A set-up through several switches beside as many segment loopbacks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CallsRoundTrip {
    /// Switches.
    pub(crate) switches: usize,
    /// Microseconds of a set-up.
    pub(crate) setup_us: f64,
    /// Microseconds of five loopbacks of a segment.
    pub(crate) five_segment_pings_us: f64,
    /// The first divided by the second.
    pub(crate) ratio: Option<f64>,
}

/// SSCOP at one loss.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SscopRow {
    /// PDUs lost, in percent.
    pub(crate) loss_percent: u64,
    /// Messages that arrived each second.
    pub(crate) messages_per_s: f64,
    /// PDUs that were sent again.
    pub(crate) again: u64,
    /// Most messages that were kept.
    pub(crate) held: usize,
    /// Connections that SSCOP gave up for want of an answer, and that were established anew.
    pub(crate) released: u64,
}

/// `bench events`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BenchEvents {
    /// The benchmark's name.
    pub(crate) bench: String,
    /// Octets of an SDU.
    pub(crate) sdu_octets: usize,
    /// Work of the application for each SDU.
    pub(crate) application_us: f64,
    /// Runs of each case; medians are given.
    pub(crate) runs: usize,
    /// Length of a run.
    pub(crate) run_seconds: f64,
    /// Whether the system let the host go before the application.
    pub(crate) host_goes_first: bool,
    /// Most of a processor that the host uses on SDUs of which most are turned away, in per cent; 100: no limit.
    pub(crate) cycle_limit_percent: u8,
    /// By strategy: what is done at the highest load, as a share of the most.
    pub(crate) kept_at_highest_load: BTreeMap<String, f64>,
    /// The same of the model.
    pub(crate) kept_at_highest_load_modelled: BTreeMap<String, f64>,
    /// What was published.
    pub(crate) published: String,
    /// Measured.
    pub(crate) rows: Vec<EventsRow>,
    /// Modelled.
    pub(crate) modelled: Vec<EventsModelRow>,
    /// Cost of many endpoints and circuits.
    pub(crate) scale: Vec<ScaleRow>,
}

/// A strategy at one load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EventsRow {
    /// The strategy.
    pub(crate) events: String,
    /// Whether another process computes.
    pub(crate) competitor: bool,
    /// SDUs offered each second.
    pub(crate) offered_per_s: f64,
    /// SDUs done each second.
    pub(crate) done_per_s: f64,
    /// Median latency.
    pub(crate) p50_us: Option<f64>,
    /// 99th percentile of the latency.
    pub(crate) p99_us: Option<f64>,
    /// Share of a processor that the host had.
    pub(crate) host_share: f64,
    /// Share that the application had.
    pub(crate) application_share: f64,
    /// Bells each second.
    pub(crate) bells_per_s: f64,
    /// Rests while the application was behind.
    pub(crate) rests: u64,
}

/// A strategy at one load, modelled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EventsModelRow {
    /// The strategy.
    pub(crate) events: String,
    /// SDUs offered each second.
    pub(crate) offered_per_s: f64,
    /// SDUs done each second.
    pub(crate) done_per_s: f64,
    /// Median latency.
    pub(crate) p50_us: f64,
    /// 99th percentile of the latency.
    pub(crate) p99_us: f64,
    /// Share of a processor that the host had.
    pub(crate) host_share: f64,
    /// Interrupts each second.
    pub(crate) interrupts_per_s: f64,
}

/// The cost of each of many.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScaleRow {
    /// `endpoints` or `circuits`.
    pub(crate) what: String,
    /// How many there are.
    pub(crate) n: usize,
    /// Memory of each; `null` where it was not measured.
    pub(crate) octets_each: Option<f64>,
    /// Octets of an endpoint's segment.
    pub(crate) segment_octets: Option<usize>,
    /// Round trip of one among them; `null` where it was not measured.
    pub(crate) rtt_us: Option<f64>,
    /// Why it was not measured.
    pub(crate) skipped: Option<String>,
}

/// `bench path`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BenchPath {
    /// The benchmark's name.
    pub(crate) bench: String,
    /// Runs of each case; medians are given.
    pub(crate) runs: usize,
    /// Length of a run.
    pub(crate) run_seconds: f64,
    /// Throughput.
    pub(crate) rows: Vec<PathRow>,
    /// Round trips.
    pub(crate) round_trips: Vec<PathRoundTrip>,
}

/// Throughput of one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PathRow {
    /// `cells` or `frames`; `none` for a direct circuit, `memif` for peers.
    pub(crate) link: String,
    /// `credit`, `best-effort`, `contract`, `direct`; of peers `dpdk` or `ovs-dpdk`. The receiver reads SDUs in the sender's memory,
    /// which that lends, but for `credit-copied` and frames.
    pub(crate) flow: String,
    /// Processors that the threads have.
    pub(crate) cores: usize,
    /// Octets of a PDU.
    pub(crate) pdu_octets: usize,
    /// PDUs that arrived each second.
    pub(crate) pdus_per_s: f64,
    /// The least of the runs.
    pub(crate) pdus_per_s_min: Option<f64>,
    /// The greatest of the runs.
    pub(crate) pdus_per_s_max: Option<f64>,
    /// The same as octets.
    pub(crate) gbit_s: f64,
    /// Share of PDUs that were lost.
    pub(crate) lost_share: f64,
    /// Processors that were busy, in the mean.
    pub(crate) processors: f64,
    /// PDUs that a relay of datagrams carries each second.
    pub(crate) relay_pdus_per_s: f64,
    /// As a share of that.
    pub(crate) vs_relay: Option<f64>,
    /// Rate of memcpy.
    pub(crate) memcpy_gbit_s: f64,
    /// As a share of that.
    pub(crate) vs_memcpy: Option<f64>,
    /// Rate with a contract as a share of that without; `null` where there is no contract.
    pub(crate) vs_best_effort: Option<f64>,
}

/// Round trips by one way of waiting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PathRoundTrip {
    /// How the ends wait, and where the threads are.
    pub(crate) waiting: String,
    /// Octets of a PDU.
    pub(crate) pdu_octets: usize,
    /// Median.
    pub(crate) us: f64,
    /// The least of the runs' medians.
    pub(crate) us_min: Option<f64>,
    /// 99th percentile.
    pub(crate) p99_us: f64,
}

/// `bench paths`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BenchPaths {
    /// The benchmark's name.
    pub(crate) bench: String,
    /// Runs of each case; medians are given.
    pub(crate) runs: usize,
    /// Length of a run.
    pub(crate) run_seconds: f64,
    /// Data paths over the size of the PDU.
    pub(crate) rows: Vec<PathsRow>,
    /// Mapping pages beside copying them.
    pub(crate) remap: Vec<RemapRow>,
    /// What was published.
    pub(crate) published: PublishedText,
}

/// A data path with PDUs of one size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PathsRow {
    /// The data path.
    pub(crate) path: String,
    /// Octets of a PDU.
    pub(crate) pdu_octets: usize,
    /// PDUs that arrived each second.
    pub(crate) pdus_per_s: f64,
    /// The same as octets.
    pub(crate) gbit_s: f64,
    /// Rate of memcpy.
    pub(crate) memcpy_gbit_s: f64,
    /// As a share of that.
    pub(crate) vs_memcpy: Option<f64>,
    /// Share of PDUs that were lost.
    pub(crate) lost_share: f64,
    /// Page faults of the sender's thread for each PDU that arrived.
    pub(crate) sender_faults_per_pdu: Option<f64>,
    /// Page faults of the receiver's thread.
    pub(crate) receiver_faults_per_pdu: Option<f64>,
    /// Page faults of the process's other threads: the host's, and the library's that answers writes.
    pub(crate) other_faults_per_pdu: Option<f64>,
    /// TLB shootdowns of the whole machine for each PDU that arrived; none where the kernel does not count them.
    pub(crate) tlb_shootdowns_per_pdu: Option<f64>,
}

/// Mapping pages beside copying them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RemapRow {
    /// Octets.
    pub(crate) octets: usize,
    /// Nanoseconds to map them elsewhere.
    pub(crate) remap_ns: f64,
    /// Nanoseconds to copy them.
    pub(crate) copy_ns: f64,
    /// The first divided by the second.
    pub(crate) remap_vs_copy: Option<f64>,
    /// Page faults of mapping them and reading them.
    pub(crate) remap_faults: f64,
    /// Page faults of copying them and reading them.
    pub(crate) copy_faults: f64,
}

/// What was published.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PublishedText {
    /// Where.
    pub(crate) source: String,
    /// What.
    pub(crate) text: String,
}

/// `bench preload`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BenchPreload {
    /// The benchmark's name.
    pub(crate) bench: String,
    /// Runs of each case; medians are given.
    pub(crate) runs: usize,
    /// Octets of a call.
    pub(crate) octets: usize,
    /// The processor, as the machine names it.
    pub(crate) processor: Option<String>,
    /// Calls of a program that has nothing to do with ATM.
    pub(crate) cases: Vec<PreloadCase>,
}

/// One kind of call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PreloadCase {
    /// Its name.
    pub(crate) case: String,
    /// What is called.
    pub(crate) what: String,
    /// Nanoseconds without the library.
    pub(crate) limit_ns: f64,
    /// Nanoseconds with it.
    pub(crate) preloaded_ns: f64,
    /// The second divided by the first.
    pub(crate) ratio: Option<f64>,
}

/// `bench sar`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BenchSar {
    /// The benchmark's name.
    pub(crate) bench: String,
    /// Runs of each case; medians are given.
    pub(crate) runs: usize,
    /// Milliseconds of a run.
    pub(crate) run_millis: u64,
    /// The processor.
    pub(crate) processor: String,
    /// Kernels that this machine has.
    pub(crate) kernels: Vec<String>,
    /// Kernels and peers over the size of the SDU.
    pub(crate) rows: Vec<SarRow>,
    /// Cells of circuits in turn.
    pub(crate) interleaved: Vec<CircuitsRow>,
    /// Cells of many circuits in random order.
    pub(crate) circuits: Vec<CircuitsRow>,
}

/// A kernel, or a peer, with SDUs of one size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SarRow {
    /// Octets of an SDU.
    pub(crate) sdu_octets: usize,
    /// `l2` or `dram`.
    pub(crate) working_set: String,
    /// The kernel, or the peer.
    pub(crate) kernel: String,
    /// Rate of segmentation.
    pub(crate) segment_gbit_s: f64,
    /// Rate of reassembly.
    pub(crate) reassemble_gbit_s: f64,
    /// Rate of memcpy.
    pub(crate) memcpy_gbit_s: f64,
    /// Segmentation as a share of memcpy.
    pub(crate) segment_vs_memcpy: Option<f64>,
    /// Reassembly as a share of memcpy.
    pub(crate) reassemble_vs_memcpy: Option<f64>,
    /// Both as a share of memcpy.
    pub(crate) both_vs_memcpy: Option<f64>,
    /// Cells segmented each second.
    pub(crate) cells_per_s: f64,
    /// Cells reassembled each second.
    pub(crate) reassemble_cells_per_s: f64,
    /// PDUs segmented each second.
    pub(crate) segment_pdus_per_s: f64,
    /// PDUs reassembled each second.
    pub(crate) reassemble_pdus_per_s: f64,
    /// Whether this is not our code.
    pub(crate) peer: bool,
}

/// Cells of many circuits, reassembled with look-up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CircuitsRow {
    /// Circuits.
    pub(crate) circuits: usize,
    /// The order of their cells.
    pub(crate) order: String,
    /// Cells of a call.
    pub(crate) batch_cells: usize,
    /// Octets of a cell in memory.
    pub(crate) cell_octets: usize,
    /// Cells each second.
    pub(crate) cells_per_s: f64,
    /// Time of a cell.
    pub(crate) nanoseconds_per_cell: f64,
    /// Memory of the circuits' state.
    pub(crate) state_octets: usize,
    /// Memory of the buffers.
    pub(crate) buffer_octets: usize,
}

/// `bench switch`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BenchSwitch {
    /// The benchmark's name.
    pub(crate) bench: String,
    /// The processor, as the machine names it.
    pub(crate) processor: Option<String>,
    /// Runs of each case; medians are given.
    pub(crate) runs: usize,
    /// Length of a run.
    pub(crate) run_seconds: f64,
    /// Cells of a pass.
    pub(crate) cells_of_a_pass: usize,
    /// A row for each number of circuits and ports, and order of cells.
    pub(crate) rows: Vec<SwitchRow>,
}

/// The switch with so many circuits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SwitchRow {
    /// Circuits.
    pub(crate) circuits: usize,
    /// Ports.
    pub(crate) ports: u16,
    /// The order of the cells.
    pub(crate) order: String,
    /// Time to set all circuits up.
    pub(crate) setup_seconds: f64,
    /// Cells that are only copied, each second.
    pub(crate) copy_cells_per_s: f64,
    /// Cells that are switched and queued, each second.
    pub(crate) cells_per_s: f64,
    /// Translation as a share of copying.
    pub(crate) translate_vs_copy: Option<f64>,
    /// The same with policing.
    pub(crate) police_vs_copy: Option<f64>,
    /// The same with queues.
    pub(crate) switch_vs_copy: Option<f64>,
    /// The same of cells that leave at once.
    pub(crate) cut_through_vs_copy: Option<f64>,
    /// The same with contracts that are shaped.
    pub(crate) contracts_vs_copy: Option<f64>,
}

/// `bench endpoint`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BenchEndpoint {
    /// The benchmark's name.
    pub(crate) bench: String,
    /// Runs of each case; medians are given.
    pub(crate) runs: usize,
    /// Processors of the two processes.
    pub(crate) processors: Vec<usize>,
    /// Round trip of a cache line.
    pub(crate) cache_line_rtt_ns: Option<f64>,
    /// Round trip of an event descriptor.
    pub(crate) eventfd_rtt_ns: Option<f64>,
    /// Whether iceoryx2 was measured.
    pub(crate) iceoryx2: bool,
    /// A row for each path, way to wait and size.
    pub(crate) rows: Vec<EndpointRow>,
}

/// Messages of one size between two processes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EndpointRow {
    /// The path, or the peer.
    pub(crate) path: String,
    /// How the ends wait.
    pub(crate) events: String,
    /// Octets of a message.
    pub(crate) octets: usize,
    /// Round trip.
    pub(crate) rtt_ns: Option<f64>,
    /// The least of the runs.
    pub(crate) rtt_least_ns: Option<f64>,
    /// Messages each second.
    pub(crate) rate_per_s: Option<f64>,
    /// The same as octets.
    pub(crate) gbyte_s: Option<f64>,
    /// Round trip divided by that of a cache line.
    pub(crate) rtt_vs_cache_line: Option<f64>,
    /// Round trip divided by that of an event descriptor.
    pub(crate) rtt_vs_eventfd: Option<f64>,
    /// Round trip divided by that of a direct circuit.
    pub(crate) rtt_vs_direct: Option<f64>,
    /// Rate as a share of the contract.
    pub(crate) rate_vs_contract: Option<f64>,
    /// Round trip divided by that of iceoryx2.
    pub(crate) rtt_vs_iceoryx2: Option<f64>,
    /// Rate divided by that of iceoryx2.
    pub(crate) rate_vs_iceoryx2: Option<f64>,
    /// Rate divided by that of a pipe.
    pub(crate) rate_vs_write_read: Option<f64>,
    /// Rate divided by that of datagrams.
    pub(crate) rate_vs_unix_datagram: Option<f64>,
    /// Rate divided by that of TCP.
    pub(crate) rate_vs_tcp: Option<f64>,
}

/// `bench lab`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BenchLab {
    /// The benchmark's name.
    pub(crate) bench: String,
    /// Runs of each case; medians are given.
    pub(crate) runs: usize,
    /// Cells of a run.
    pub(crate) cells: u64,
    /// What is to be reached.
    pub(crate) goal_cells_per_s: f64,
    /// The processor.
    pub(crate) processor: String,
    /// A row for each scene.
    pub(crate) rows: Vec<LabRow>,
}

/// A scene in virtual time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LabRow {
    /// Its name.
    pub(crate) scene: String,
    /// What is in the loop.
    pub(crate) what: String,
    /// Cells each second of processor time.
    pub(crate) cells_per_s: f64,
    /// The least of the runs.
    pub(crate) least: Option<f64>,
    /// The greatest of the runs.
    pub(crate) greatest: Option<f64>,
    /// The same as a multiple of OC-3c.
    pub(crate) times_oc3c: f64,
    /// Whether the goal is reached.
    pub(crate) reaches_goal: bool,
}

/// `bench ip`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BenchIp {
    /// The benchmark's name.
    pub(crate) bench: String,
    /// Runs of each case; medians are given.
    pub(crate) runs: usize,
    /// Length of a transfer.
    pub(crate) tcp_in_each_run: String,
    /// The processor of what carries packets; `null`: any.
    pub(crate) carrier_processor: Option<usize>,
    /// TCP's congestion control.
    pub(crate) tcp_congestion_control: String,
    /// The processor.
    pub(crate) processor: String,
    /// A row for each way, MTU and offload.
    pub(crate) rows: Vec<IpRow>,
}

/// TCP and ping by one way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct IpRow {
    /// The way.
    pub(crate) case: String,
    /// MTU.
    pub(crate) mtu: usize,
    /// Whether checksums and cutting are left over.
    pub(crate) offload: bool,
    /// TCP in both directions, mean.
    pub(crate) tcp_gbit_s: f64,
    /// TCP in one direction.
    pub(crate) tcp_there_gbit_s: f64,
    /// TCP in the other.
    pub(crate) tcp_back_gbit_s: f64,
    /// Round trip.
    pub(crate) ping_us: f64,
    /// TCP as a share of a plain forwarder's.
    pub(crate) vs_forwarder: Option<f64>,
    /// TCP as a share of veth's.
    pub(crate) vs_veth: Option<f64>,
    /// Round trip divided by a plain forwarder's.
    pub(crate) ping_vs_forwarder: Option<f64>,
    /// Processor time for a megaoctet, in microseconds.
    pub(crate) cpu_us_per_mb: Option<f64>,
    /// Octets carried.
    pub(crate) octets: u64,
}

/// `bench contract`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BenchContract {
    /// The benchmark's name.
    pub(crate) bench: String,
    /// The processor, as the machine names it.
    pub(crate) processor: Option<String>,
    /// Length of a case.
    pub(crate) seconds: f64,
    /// A row for links of cells, and one for links of frames.
    pub(crate) rows: Vec<ContractRow>,
}

/// A circuit of a constant rate beside one of best effort.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ContractRow {
    /// `cells` or `frames`.
    pub(crate) link: String,
    /// The contract.
    pub(crate) contract_cells_per_s: f64,
    /// Its tolerance.
    pub(crate) cdvt_us: u64,
    /// Cells that arrived each second.
    pub(crate) cells_per_s: f64,
    /// As a share of the contract's.
    pub(crate) rate_vs_contract: Option<f64>,
    /// Cells that left their host and did not arrive.
    pub(crate) lost: u64,
    /// How much gaps differ from the contract's: the median.
    pub(crate) jitter_median_us: Option<f64>,
    /// The 99th percentile.
    pub(crate) jitter_p99_us: Option<f64>,
    /// The most.
    pub(crate) jitter_max_us: Option<f64>,
    /// What the circuit of best effort carried.
    pub(crate) bulk_mbit_s: f64,
}
