//! Figures of `ttcp` by windows and behind an adapter.

use control::results::Ttcp as Plain;
use schemars::JsonSchema;
use serde::Serialize;

/// `ttcp`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Ttcp {
    /// As of `cellway ttcp`.
    #[serde(flatten)]
    pub(crate) plain: Plain,
    /// What was done instead of copying, with `--windows`.
    pub(crate) windows: Option<TtcpWindows>,
    /// What the adapter's driver did, with `--adapter`.
    pub(crate) adapter: Option<TtcpAdapter>,
}

/// What the driver of `ttcp --adapter` has done. PDUs that say begin and end count as well.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct TtcpAdapter {
    /// Which adapter.
    pub(crate) name: String,
    /// PDUs whose data came to lie as the driver had guessed that they are wanted.
    pub(crate) pdus_predicted: u64,
    /// PDUs that all layers were processed for, as their headers were not what the interrupt handler had assumed (`eni155p`), or whose
    /// data lay elsewhere than the last PDUs had let expect (`jit`).
    pub(crate) pdus_mispredicted: u64,
    /// PDUs for nobody: with other headers, or for another port.
    pub(crate) pdus_unclaimed: u64,
    /// PDUs that came to the adapter damaged, or found no memory.
    pub(crate) pdus_dropped: u64,
    /// Trailers on two pages that are no neighbours, which were copied to two new ones.
    pub(crate) trailers_repaired: u64,
    /// How often the circuit got another kind of buffers, because of such trailers.
    pub(crate) strategies_changed: u64,
    /// Pages that became the application's.
    pub(crate) pages_mapped: u64,
    /// Octets that were copied to the application's pages.
    pub(crate) octets_copied: u64,
    /// Octets that the adapter wrote to the host's memory.
    pub(crate) octets_by_device: u64,
    /// Octets that the driver read from the host's memory and wrote there, to copy.
    pub(crate) octets_by_copy: u64,
    /// Octets that the application read.
    pub(crate) octets_by_application: u64,
    /// How often each octet that arrived crossed the memory bus of the adapter's host. Headers count as well.
    pub(crate) crossings: f64,
}

/// What `ttcp --windows` has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct TtcpWindows {
    /// Pages that were protected against writing while they left.
    pub(crate) pages_protected: u64,
    /// Pages that were copied, since they were written meanwhile.
    pub(crate) pages_copied: u64,
    /// Pages of received PDUs that were mapped.
    pub(crate) pages_mapped: u64,
    /// Octets of received PDUs that were copied.
    pub(crate) octets_copied: u64,
}
