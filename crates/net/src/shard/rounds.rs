//! The round over a shard's links, elements and shells.

use super::Shard;
use crate::node::{NodeIo, ROUND_WORK};
use wire::Time;

/// Units of circuits that have gone that a visit drops at a port, at most.
const PURGED_UNITS: usize = 4096;

impl Shard {
    /// One round over the links and nodes that have something to do. True if anything happened: run again before
    /// sleeping.
    ///
    /// What other shards have handed over comes first, then links, then nodes in the order in which they were added,
    /// then shells. A round that has had enough work ends early, and the next one goes on behind it.
    pub fn run(&mut self, now: Time) -> bool {
        let mut busy = self.run_calls(now);
        busy |= self.run_lines(now);
        busy |= self.run_nodes(now);
        for i in 0..self.externals.len() {
            let id = self.externals[i].0;
            let worked = self.with_external(id, now, |external, io| external.run(io, now)).unwrap_or_default();
            self.outside_work += u64::from(worked);
            busy |= worked;
        }
        for i in 0..self.followers.len() {
            busy |= self.refresh(self.followers[i]);
        }
        busy
    }

    /// Looks at the mailboxes of the shards that have called.
    fn run_calls(&mut self, now: Time) -> bool {
        let (mut callers, mut busy) = (self.bell().answer(), false);
        while callers != 0 {
            let caller = callers.trailing_zeros() as usize;
            callers &= callers - 1;
            for place in 0..self.crossings[caller].len() {
                let index = self.crossings[caller][place];
                self.lines.ready.remove(index);
                busy |= self.visit(index, now);
            }
        }
        busy
    }

    fn run_lines(&mut self, now: Time) -> bool {
        while let Some(line) = self.line_deadlines.pop_due(now) {
            self.lines.moved.insert(line);
        }
        let (mut busy, mut from) = (false, 0);
        while let Some(index) = self.lines.moved.next(from) {
            from = index + 1;
            self.lines.moved.remove(index);
            let Some(Some(line)) = self.lines.lines.get_mut(index as usize) else { continue };
            self.visits += 1;
            let moved = line.run(now, &mut self.lines.pool);
            // A time that has come already waits for the far end to read.
            let next = line.poll_timeout();
            self.line_deadlines.set(index, next);
            if moved {
                busy = true;
                self.lines.note_arrived(index);
            }
        }
        busy
    }

    fn run_nodes(&mut self, now: Time) -> bool {
        while let Some(node) = self.node_deadlines.pop_due(now) {
            self.lines.ready.insert(node);
        }
        self.lines.work = 0;
        let mut busy = false;
        let (mut from, begin) = (self.next, self.next);
        let mut wrapped = begin == 0;
        self.next = 0;
        loop {
            let index = match self.lines.ready.next(from) {
                Some(index) if !wrapped || begin == 0 || index < begin => index,
                None if !wrapped => {
                    (from, wrapped) = (0, true);
                    continue;
                }
                _ => return busy,
            };
            from = index + 1;
            self.lines.ready.remove(index);
            busy |= self.visit(index, now);
            if self.lines.work >= ROUND_WORK {
                self.next = from;
                return true;
            }
        }
    }

    /// Runs a node that has been taken off the ready list. True if it did anything.
    #[inline]
    fn visit(&mut self, index: u32, now: Time) -> bool {
        let Some(Some(slot)) = self.nodes.get_mut(index as usize) else { return false };
        self.visits += 1;
        let more = !self.lines.stale_filters.is_empty() && self.lines.purge_stale(&slot.ports, PURGED_UNITS);
        let worked = more | slot.node.run(&mut NodeIo { ports: &slot.ports, lines: &mut self.lines, now }, now);
        if worked || !slot.node.rests() {
            self.lines.ready.insert(index);
        } else {
            self.node_deadlines.set(index, slot.node.poll_timeout());
        }
        worked
    }

    /// When to run next even if nothing comes from outside; `None`: never.
    pub fn poll_timeout(&self) -> Option<Time> {
        let lines =
            self.lines.moved.iter().filter_map(|line| self.lines.lines.get(line as usize)?.as_ref()?.poll_timeout());
        let awake = |node: u32| self.nodes.get(node as usize)?.as_ref()?.node.poll_timeout();
        let nodes = self.lines.ready.iter().filter_map(awake);
        let resting = [self.node_deadlines.first(), self.line_deadlines.first()].into_iter().flatten();
        lines.chain(nodes).chain(resting).chain(self.externals.iter().filter_map(|(_, e)| e.poll_timeout())).min()
    }
}
