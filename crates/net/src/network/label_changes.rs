//! Labels that elements have set up between two rounds: what is on the lines to them by then was sent on other
//! circuits.

use super::{End, LinkId, Network, NodePlace};
use crate::line::Side;
use std::collections::BTreeMap;
use wire::Label;

impl Network {
    /// Asks the elements that somebody has called which labels they have set up. Comes before anything can be put on a
    /// line or taken off, so that what is sent on the new circuits is told from what was sent before.
    #[inline]
    pub(super) fn note_label_changes(&mut self) {
        if !self.called.is_empty() {
            self.take_label_changes();
        }
    }

    fn take_label_changes(&mut self) {
        let mut lines: BTreeMap<u32, Vec<Label>> = BTreeMap::new();
        while let Some(node) = self.called.next(0) {
            self.called.remove(node);
            let Some(NodePlace::Shard(shard)) = self.nodes.get(node as usize).and_then(|slot| slot.content) else {
                continue;
            };
            let Some(Some(shard)) = self.shards.get_mut(shard as usize) else { continue };
            while let Some((line, label)) = shard.poll_label_change(node) {
                lines.entry(line).or_default().push(label);
            }
        }
        for (line, labels) in lines {
            self.outdate(line, &labels);
        }
    }

    /// A link between two shards has gone down in both: what has not been handed over is gone.
    pub(super) fn shorten_sieves(&mut self, id: LinkId) {
        let Some(place) = self.place(id).filter(|place| place.crossing.is_some()) else { return };
        for side in [Side::A, Side::B] {
            let [from, to] = [place.shards[side as usize], place.shards[1 - side as usize]];
            let beyond = self.shard(from as usize).map(|shard| shard.handed_over(id, side));
            if let (Some(beyond), Some(shard)) = (beyond, self.here_mut(to as usize)) {
                shard.shorten_sieve(id.index * 2 + side as u32, beyond);
            }
        }
    }

    fn outdate(&mut self, line: u32, labels: &[Label]) {
        let side = Side::of_line(line);
        let Some(slot) = self.links.get(line as usize / 2) else { return };
        let Some(place) = slot.content else { return };
        let id = LinkId { index: line / 2, generation: slot.generation };
        let [from, to] = [place.shards[side as usize], place.shards[1 - side as usize]];
        let mut beyond = 0;
        let leads_out = self
            .of_link(id, side)
            .and_then(|shard| shard.link(id))
            .is_none_or(|link| link.ends[1 - side as usize] == End::External);
        if !leads_out && let Some(Some(shard)) = self.shards.get_mut(from as usize) {
            shard.drop_waiting(line, labels);
        }
        if place.crossing.is_some()
            && let Some(Some(shard)) = self.shards.get_mut(from as usize)
        {
            beyond = shard.under_way(line, labels) + shard.handed_over(id, side);
        }
        if let Some(Some(shard)) = self.shards.get_mut(to as usize) {
            shard.outdate(line, labels, beyond);
        }
    }
}
