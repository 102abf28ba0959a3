//! Takes the last counters of what has ended ([`crate::ended`]) from the engine, whose thread keeps them within a bound: in
//! slices between its rounds.

use crate::controller::{Controller, SLICE};
use crate::ended::{EndedStatus, Record};
use anyhow::Result;
use host::engine::{EngineHandle, processor_time};
use host::{EndedCounts, EndedObject, HostInterface};
use net::topology::StationKind;

/// Objects that are taken from one host in one step.
const TAKEN: usize = 32;

/// Takes from the engine what has ended since the last time.
///
/// # Errors
/// The engine has stopped.
pub fn gather(controller: &Controller) -> Result<()> {
    let hosts: Vec<String> = controller.with_intent(|intent| {
        let stations = intent.model().router.stations();
        stations.filter(|(_, kind)| matches!(kind, StationKind::Host)).map(|(name, _)| name.to_owned()).collect()
    });
    let (found, missed) = take(controller.engine(), hosts)?;
    let ended = controller.ended();
    ended.note(found.into_iter().map(|(host, counts)| {
        let (kind, name) = match counts.object {
            EndedObject::Circuit(circuit) => ("circuit", format!("{host} {circuit}")),
            EndedObject::Endpoint(endpoint) => ("endpoint", format!("{host} {}", endpoint.0)),
        };
        Record { kind, name, counters: [counts.sent, counts.received] }
    }));
    ended.note_missed(missed);
    Ok(())
}

/// All that has ended until now.
///
/// # Errors
/// The engine has stopped.
pub fn now(controller: &Controller) -> Result<Vec<EndedStatus>> {
    gather(controller)?;
    Ok(controller.ended().all())
}

/// What hosts have kept, each with its host's name, and how many more there were.
fn take(engine: &EngineHandle, hosts: Vec<String>) -> Result<(Vec<(String, EndedCounts)>, u64)> {
    let (mut at, mut found, mut missed) = (0, Vec::new(), 0);
    Ok(engine.named("ended").in_slices(move |core| {
        let begun = processor_time();
        while let Some(name) = hosts.get(at) {
            if processor_time().saturating_sub(begun) >= SLICE {
                return None;
            }
            let node = core.fabric.node(name);
            let host = node.and_then(|id| core.network.peek_node::<HostInterface>(id));
            let part = host.map(|host| {
                missed += host.take_missed_ended();
                host.take_ended(TAKEN)
            });
            let part = part.unwrap_or_default();
            at += usize::from(part.len() < TAKEN);
            found.extend(part.into_iter().map(|counts| (name.clone(), counts)));
        }
        Some((std::mem::take(&mut found), missed))
    })?)
}

/// Takes what has ended, and writes to the log what has dropped something.
pub(crate) fn log(controller: &Controller) {
    if let Err(e) = gather(controller) {
        tracing::error!("counters of what has ended: {e:#}");
    }
    let (lines, more) = controller.ended().take_lines();
    lines.iter().for_each(|line| tracing::warn!("{line}"));
    if more > 0 {
        tracing::warn!("{more} more have ended and had dropped something (`cellway status --ended`)");
    }
}
