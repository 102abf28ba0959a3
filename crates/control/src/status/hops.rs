//! Contracts of permanent circuits: what each switch on the way has policed, dropped and measured.

use crate::controller::Controller;
use crate::hops::{FEW, HopStatus, status};
use anyhow::Result;
use net::topology::{RoutedCircuit, Router};

/// The hops of circuits with a contract, or of all where they are few, by the circuit's place among those of the
/// router; those behind the last one have none.
pub(super) type Hops = Vec<Vec<HopStatus>>;

/// Asks the engine.
pub(super) fn collect(controller: &Controller, router: &Router) -> Result<Hops> {
    let few = router.circuit_count() <= FEW;
    let has_contract = |placed: &RoutedCircuit| {
        let circuit = &placed.description;
        !circuit.contract.is_plain() || !circuit.contract_back().is_plain()
    };
    let wanted = router.circuits().enumerate().filter(|(_, placed)| few || has_contract(placed));
    let (mut of, mut asked) = (Vec::new(), Vec::new());
    for (place, placed) in wanted {
        for hop in router.switch_hops(placed) {
            let contract = if hop.forward { placed.description.contract } else { placed.description.contract_back() };
            of.push((place, contract));
            asked.push(hop);
        }
    }
    let mut hops = Hops::new();
    let counters = super::harvest::hops(controller.engine(), asked)?;
    for ((place, contract), (hop, counters)) in of.into_iter().zip(counters) {
        let Some(counters) = counters else { continue };
        hops.resize_with(hops.len().max(place + 1), Vec::new);
        hops[place].push(status(hop, counters, &contract));
    }
    Ok(hops)
}
