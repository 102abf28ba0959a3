//! Requests about OAM, and changes of alarms for the log.

use crate::controller::{Controller, SLICE};
use crate::protocol::{OamAsk, OamSubject};
use crate::status::oam::OamStatus;
use anyhow::{Result, anyhow};
use host::HostInterface;
use host::engine::{Core, EngineHandle, processor_time};
use net::NodeId;
use net::topology::StationKind;
use switch::oam::Request;
use wire::CircuitId;
use wire::oam::BlockCode;

/// Changes of alarms that are logged at one look; of others only their number is.
const LINES: usize = 50;

fn host<'a>(core: &'a mut Core, name: &str) -> Result<&'a mut HostInterface> {
    let node = core.fabric.node(name).and_then(|id| core.network.node_mut::<HostInterface>(id));
    node.ok_or_else(|| anyhow!("no host is called `{name}` (`cellway status` shows them)"))
}

/// OAM of a circuit at a host.
pub(super) fn status(engine: &EngineHandle, name: String, circuit: &str) -> Result<OamStatus> {
    let circuit: CircuitId = circuit.parse()?;
    engine.with(move |core| {
        let said = host(core, &name)?.oam(circuit);
        let said =
            said.ok_or_else(|| anyhow!("no circuit {circuit} ends at `{name}` (`cellway circuit list` shows them)"))?;
        Ok(OamStatus::new(name, circuit.to_string(), &said))
    })?
}

/// Asks the other end of a circuit for something.
pub(super) fn ask(engine: &EngineHandle, ask: OamAsk) -> Result<()> {
    let OamAsk { host: name, circuit, begin, subject } = ask;
    let circuit: CircuitId = circuit.parse()?;
    let request = match subject {
        OamSubject::Continuity => Request::continuity(begin),
        OamSubject::Monitoring { block } => {
            let code = BlockCode::of_cells(block);
            let none = || anyhow!("blocks of {block} cells: expected 128, 256, 512 or 1024");
            Request::monitoring(begin, code.ok_or_else(none)?)
        }
    };
    engine.with(move |core| Ok(host(core, &name)?.request_oam(circuit, request)?))?
}

/// What has changed of alarms since the last look, a line for each, and how many more there were.
pub(crate) fn changes(controller: &Controller) -> Result<(Vec<String>, u64)> {
    let names: Vec<(String, bool)> = controller.with_intent(|intent| {
        let router = &intent.model().router;
        router
            .stations()
            .filter(|(_, kind)| !matches!(kind, StationKind::Outside))
            .map(|(name, kind)| (name.to_owned(), matches!(kind, StationKind::Host)))
            .collect()
    });
    let (mut at, mut lines, mut more) = (0, Vec::new(), 0);
    Ok(controller.engine().named("alarms").in_slices(move |core| {
        let said = |began| if began { "begins" } else { "ends" };
        let begun = processor_time();
        while let Some((name, is_host)) = names.get(at) {
            if processor_time().saturating_sub(begun) >= SLICE {
                return None;
            }
            at += 1;
            let Some(id): Option<NodeId> = core.fabric.node(name) else { continue };
            if *is_host {
                let Some(host) = core.network.peek_node::<HostInterface>(id) else { continue };
                more += host.take_missed_alarms();
                while let Some((circuit, event)) = host.poll_alarm() {
                    if lines.len() == LINES {
                        more += 1;
                        continue;
                    }
                    let (alarm, defect) = (event.alarm.kind.name(), event.alarm.defect);
                    let (kind, location) = (defect.kind, defect.location);
                    lines.push(format!(
                        "{name} {circuit}: alarm {alarm} {}: defect {kind} at {location}",
                        said(event.began)
                    ));
                }
                continue;
            }
            let Some(switch) = core.network.peek_node::<net::SwitchElement>(id) else { continue };
            while let Some(event) = switch.poll_alarm() {
                if lines.len() == LINES {
                    more += 1;
                    continue;
                }
                let at = event.path.map_or_else(|| "the link".to_owned(), |path| format!("path {}", path.get()));
                let (alarm, defect) = (event.kind.name(), event.defect);
                let (kind, location) = (defect.kind, defect.location);
                lines.push(format!(
                    "{name}:{} {at}: alarm {alarm} {}: defect {kind} at {location}",
                    event.port,
                    said(event.began)
                ));
            }
        }
        Some((std::mem::take(&mut lines), more))
    })?)
}
