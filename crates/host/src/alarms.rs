//! The state of OAM at a host: which end points want to be called and when, paths that end here, changes of alarms.

use std::collections::{BTreeMap, VecDeque};
use switch::oam::{EndPoint, Event, Timers};
use wire::{CircuitId, Time, Vpi};

/// OAM cells that make an end point in one round at all ports, timers of end points that it lets fire, end points that
/// it lets send, and circuits of a path with an alarm that it tells. Each may touch memory that was not used for long.
pub(crate) const ROUND_OAM: usize = 128;
/// What a cell that makes an end point is worth in OAM cells that make none.
pub(crate) const NEW_POINT: usize = 8;
/// What one of these is worth in user cells that are passed on.
pub(crate) const OAM_WORK: usize = 128;
/// Changes of alarms that nobody has fetched are kept at most.
const MAX_EVENTS: usize = 1024;

/// A circuit, and whether it is its segment flow.
pub(crate) type PointKey = (u32, bool);
/// Port, VPI, and whether it is the segment flow.
pub(crate) type PathKey = (u16, Vpi, bool);

/// The end of a path whose channels end here too.
#[derive(Debug)]
pub(crate) struct PathEnd {
    pub(crate) point: EndPoint,
    /// The key of the circuit that is told next, while a sweep over the path's circuits is under way.
    pub(crate) at: Option<u32>,
    /// When the next sweep begins.
    pub(crate) next: Time,
}

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Oam {
    pub(crate) timers: Timers<PointKey>,
    pub(crate) awake: VecDeque<PointKey>,
    pub(crate) points: usize,
    pub(crate) paths: BTreeMap<PathKey, PathEnd>,
    pub(crate) path_timers: Timers<PathKey>,
    /// Since when links bring no signal, by port.
    pub(crate) dark: Vec<Option<Time>>,
    pub(crate) events: VecDeque<(CircuitId, Event)>,
    pub(crate) missed: u64,
    /// OAM cells that this round may still receive at the port whose turn it is.
    pub(crate) left: usize,
    /// Circuits whose description has something begin.
    pub(crate) begins: Vec<u32>,
}

impl Oam {
    pub(crate) fn wake(&mut self, key: PointKey, point: &mut EndPoint) {
        if !point.awake {
            point.awake = true;
            self.awake.push_back(key);
        }
    }

    /// Whether nothing waits to be sent now.
    pub(crate) fn rests(&self) -> bool {
        self.awake.is_empty()
    }

    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let sweeps = self.paths.values().filter(|path| path.point.incoming_defect().is_some()).map(|path| path.next);
        sweeps.chain(self.timers.poll_timeout()).chain(self.path_timers.poll_timeout()).min()
    }

    pub(crate) fn note(&mut self, id: CircuitId, event: Event) {
        if self.events.len() == MAX_EVENTS {
            self.events.pop_front();
            self.missed = self.missed.wrapping_add(1);
        }
        self.events.push_back((id, event));
    }

    /// A circuit with end points is gone.
    pub(crate) fn forget(&mut self, points: bool) {
        self.points -= usize::from(points);
    }
}
