//! What a switch on a circuit's way makes of its contract: offered, conforming, tagged, dropped and why; the measured
//! rate and the variation of delay beside what was promised.

use net::CircuitCounters;
use net::topology::SwitchHop;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Circuits up to which those without a contract are asked about too.
pub(crate) const FEW: usize = 1000;

/// A circuit in one direction at a switch that it passes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HopStatus {
    /// The switch.
    pub switch: String,
    /// The port that it leaves by.
    pub to_port: u16,
    /// Whether it leads away from the first end.
    pub forward: bool,
    /// Cells that came in.
    pub offered: u64,
    /// Of those: within the contract.
    pub conformed: u64,
    /// Beyond the contract, and sent on with CLP 1.
    pub tagged: u64,
    /// Beyond the contract, and dropped.
    pub policed: u64,
    /// Dropped for want of room in a queue.
    pub queue_dropped: u64,
    /// Dropped with whole PDUs (EPD), or as the rest of a PDU that had lost a cell (PPD).
    pub pdu_dropped: u64,
    /// Sent on.
    pub sent: u64,
    /// Waiting.
    pub queued: u64,
    /// The rate of cells that left, over the last second and more; of CBR and rt-VBR.
    pub rate_cells_per_s: Option<f64>,
    /// The rate of the contract: SCR of VBR, MCR of GFR, else PCR.
    pub contract_cells_per_s: Option<f64>,
    /// By how much a cell left later than its schedule, at most: the jitter that this switch has added.
    pub jitter_s: Option<f64>,
}

/// What a switch counted of a circuit in one direction, beside its contract.
pub(crate) fn status(hop: SwitchHop, counters: CircuitCounters, contract: &traffic::Contract) -> HopStatus {
    let rate = contract.scr.or(contract.mcr).or(contract.pcr);
    let paced = contract.is_real_time();
    HopStatus {
        switch: hop.switch,
        to_port: hop.to.0,
        forward: hop.forward,
        offered: counters.received,
        conformed: counters.conformed(),
        tagged: counters.tagged().into(),
        policed: counters.policed,
        queue_dropped: counters.overflowed(),
        pdu_dropped: counters.early,
        sent: counters.sent(),
        queued: counters.queued.into(),
        rate_cells_per_s: paced.then_some(counters.cells_per_1000_s as f64 * 1e-3),
        contract_cells_per_s: rate.map(|rate| rate.cells_per_s()),
        jitter_s: paced.then_some(counters.late_nanos as f64 * 1e-9),
    }
}
