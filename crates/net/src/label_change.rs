//! Labels that nodes set up: what the network is told, so that nothing of the circuits that had them before is taken
//! for the new ones'.

use wire::Label;

/// A label that a node has set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LabelChange {
    /// What comes in at a port under this label is of a new circuit.
    In(u16, Label),
    /// What leaves by a port under this label is.
    Out(u16, Label),
}

/// Labels that a node has set up since the network has asked it.
#[derive(Debug, Default)]
pub struct LabelChanges(Vec<LabelChange>);

impl LabelChanges {
    /// A label was set up.
    pub fn note(&mut self, what: LabelChange) {
        self.0.push(what);
    }

    /// For [`crate::Node::poll_label_change`].
    pub fn poll(&mut self) -> Option<LabelChange> {
        let next = self.0.pop();
        if self.0.is_empty() {
            // Thousands at once are rare.
            self.0 = Vec::new();
        }
        next
    }
}
