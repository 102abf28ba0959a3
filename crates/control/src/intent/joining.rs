//! A circuit that a command adds at the ports of one switch, beside those of other switches: where they meet on a link
//! with the same label, they become one.

use super::{Intent, Next, Prepared};
use crate::config::Circuit;
use crate::config::mappings::{self, join};
use crate::objects::{Change, ObjectId, Spec};
use crate::plan::Impossible;
use crate::sources::commands::Written;
use anyhow::{Result, bail};
use net::topology::CircuitEnd;

impl Intent {
    /// The circuit that a written one forms with those that there are, and the circuits that are parts of it. The
    /// circuit itself where it forms nothing.
    pub(super) fn joined(&self, circuit: &Circuit) -> Result<(Circuit, Vec<ObjectId>)> {
        if !mappings::may_join(circuit) {
            return Ok((circuit.clone(), Vec::new()));
        }
        let router = &self.model.router;
        let mut parts = vec![circuit.clone()];
        let mut ids: Vec<Option<ObjectId>> = vec![None];
        let mut at = 0;
        while let Some(part) = parts.get(at) {
            let ends: Vec<CircuitEnd> = part.ends.iter().filter_map(|end| end.parse().ok()).collect();
            for end in ends.iter().filter_map(|end| mappings::continuation(end, router)) {
                let Some(placed) = router.find_circuit(&end) else { continue };
                let id = ObjectId::circuit(&placed.description);
                if ids.iter().flatten().any(|known| *known == id) {
                    continue;
                }
                if let Some(written) = self.written_circuit(&id) {
                    parts.push(written);
                    ids.push(Some(id));
                }
            }
            at += 1;
        }
        let (joined, wrong) = join(&parts, router);
        if let Some((_, _, says)) = wrong.into_iter().next() {
            bail!("{}: {says}", circuit.ends.join(" - "));
        }
        let own = joined.into_iter().find(|joined| joined.members.contains(&0));
        Ok(own.map_or_else(
            || (circuit.clone(), Vec::new()),
            |own| (own.circuit, own.members.iter().filter_map(|member| ids[*member].clone()).collect()),
        ))
    }

    /// A circuit more, by command, in the place of those that are parts of it.
    pub(super) fn prepare_circuit(
        &mut self,
        spec: Spec,
        written: Option<Written>,
        parts: Vec<ObjectId>,
    ) -> Result<(ObjectId, Prepared)> {
        let Spec::Circuit(circuit) = &spec else { bail!("only links and circuits are added by command") };
        let id = ObjectId::circuit(circuit);
        if self.applied.contains_key(&id) {
            bail!("{id} exists already");
        }
        let object = self.commands.object(spec, 0);
        let mut changes: Vec<Change> = parts.iter().map(|id| Change { id: id.clone(), wanted: None }).collect();
        changes.push(Change { id: id.clone(), wanted: Some(object.clone()) });
        let prepared = self.check(changes).map_err(Impossible)?;
        let added = (id.clone(), object, written);
        let next = if parts.is_empty() { Next::Added(vec![added]) } else { Next::Joined(parts, added) };
        Ok((id, Prepared { verb: "add", next, ..prepared }))
    }

    /// A circuit as the description or a command wrote it.
    fn written_circuit(&self, id: &ObjectId) -> Option<Circuit> {
        let of_command = self.commands.written().find(|(other, _)| *other == id).map(|(_, written)| written);
        if let Some(Written::Circuit(circuit)) = of_command {
            return Some((**circuit).clone());
        }
        let place = self.config.description.circuits.iter().position(|circuit| ObjectId::circuit(circuit) == *id)?;
        self.config.file.circuit.get(place).cloned()
    }

    /// The ends of a circuit as it has them: a channel at a switch's port is that of the station beyond, if that is no
    /// switch.
    pub(super) fn settled_ends(&self, ends: &[CircuitEnd]) -> Vec<CircuitEnd> {
        ends.iter().map(|end| mappings::settled(end, &self.model.router)).collect()
    }
}
