//! Labels that elements have set up, and what is on the lines to them.

use super::Shard;
use crate::label_change::LabelChange;
use crate::link::End;
use crate::node::NONE;
use wire::Label;

impl Shard {
    /// The next label that an element has set up, with the line on which units of another circuit of that label may be.
    pub(crate) fn poll_label_change(&mut self, node: u32) -> Option<(u32, Label)> {
        let slot = self.nodes.get_mut(node as usize)?.as_mut()?;
        while let Some(change) = slot.node.poll_label_change() {
            let port = |port: u16| slot.ports.get(usize::from(port));
            let (line, label) = match change {
                LabelChange::In(at, label) => (port(at).map(|port| port.input), label),
                // What is inside the process has its own label at the far end. Outside, the label is all there is.
                LabelChange::Out(at, label) => {
                    (port(at).map(|port| port.output).filter(|line| leaves(&self.links, *line)), label)
                }
            };
            if let Some(line) = line.filter(|line| *line != NONE) {
                return Some((line, label));
            }
        }
        None
    }

    /// [`crate::Node::drop_waiting`] at the sender of a line.
    pub(crate) fn drop_waiting(&mut self, line: u32, labels: &[Label]) {
        let link = self.links.get(line as usize / 2).and_then(Option::as_ref);
        let Some(End::Port(node, port)) = link.map(|link| link.ends[line as usize % 2]) else { return };
        if let Some(slot) = self.slot_mut(node) {
            labels.iter().for_each(|label| slot.node.drop_waiting(port, *label));
        }
    }

    /// How much on a line whose sender is here has to pass a filter at its end, which is in another shard.
    pub(crate) fn under_way(&mut self, line: u32, labels: &[Label]) -> u64 {
        let lines = &mut self.lines;
        let Some(Some(there)) = lines.lines.get_mut(line as usize) else { return 0 };
        lines.moved.insert(line);
        there.under_way(labels, &mut lines.pool)
    }

    /// Labels are set up at the end of a line: what is on it, and the `beyond` units that are before it in another
    /// shard, are not theirs.
    pub(crate) fn outdate(&mut self, line: u32, labels: &[Label], beyond: u64) {
        let ahead = self.under_way(line, labels) + beyond;
        let Some(Some(there)) = self.lines.lines.get_mut(line as usize).filter(|_| ahead > 0) else { return };
        there.outdate(labels, ahead);
        self.lines.stale_filters.insert(line);
        self.lines.note_arrived(line);
    }

    /// A line from another shard was emptied there, as a link is that goes down: of what was on it, so much can come
    /// yet at most.
    pub(crate) fn shorten_sieve(&mut self, line: u32, beyond: u64) {
        if let Some(Some(there)) = self.lines.lines.get_mut(line as usize) {
            there.shorten_sieve(beyond);
        }
    }
}

/// Whether a line leads out of the process.
fn leaves(links: &[Option<super::Link>], line: u32) -> bool {
    let link = links.get(line as usize / 2).and_then(Option::as_ref);
    link.is_some_and(|link| link.ends[1 - line as usize % 2] == End::External)
}
