//! Which routes of a gateway hold frames of unfinished PDUs, in order of their last cells, and which of them yields
//! one.
//!
//! Routes share the frames by the port that they come in at, so that a sender with many circuits has one share.

use std::time::Duration;
use wire::Time;

/// No place in the list: the route holds no frame.
pub(super) const NOWHERE: u32 = u32::MAX;
/// A PDU that has been silent for this long yields its frame to a port that holds no more than its own.
const SILENCE: Duration = Duration::from_millis(100);

/// A route that holds frames, among those of its port.
#[derive(Debug, Clone, Copy)]
struct Holder {
    at: u32,
    from: u16,
    frames: u16,
    last: Time,
    older: u32,
    newer: u32,
}

/// What routes of one input port hold.
#[derive(Debug, Clone, Copy)]
struct Share {
    from: u16,
    frames: usize,
    oldest: u32,
    newest: u32,
}

/// See the module's head. Never longer than there are frames; nothing is allocated once it has been that long.
#[derive(Debug, Default)]
pub(super) struct PduSlots {
    list: Vec<Holder>,
    free: Vec<u32>,
    shares: Vec<Share>,
    frames: usize,
}

impl PduSlots {
    /// Frames that all hold.
    pub(super) fn frames(&self) -> usize {
        self.frames
    }

    /// Route `at`, which comes in at `from` and has `place`, got a cell and holds so many frames. Gives its place.
    pub(super) fn note(&mut self, place: u32, (at, from): (u32, u16), frames: usize, now: Time) -> u32 {
        if frames == 0 {
            return self.lessen(place, 0);
        }
        let place = match place {
            NOWHERE => self.free.pop().unwrap_or(self.list.len() as u32),
            place => {
                self.unlink(place);
                place
            }
        };
        let share = match self.shares.iter().position(|share| share.from == from) {
            Some(share) => &mut self.shares[share],
            None => {
                self.shares.push(Share { from, frames: 0, oldest: NOWHERE, newest: NOWHERE });
                let last = self.shares.len() - 1;
                &mut self.shares[last]
            }
        };
        let older = std::mem::replace(&mut share.newest, place);
        share.frames += frames;
        if older == NOWHERE {
            share.oldest = place;
        }
        let holder = Holder { at, from, frames: frames as u16, last: now, older, newer: NOWHERE };
        match self.list.get_mut(place as usize) {
            Some(free) => *free = holder,
            None => self.list.push(holder),
        }
        if let Some(older) = self.list.get_mut(older as usize) {
            older.newer = place;
        }
        self.frames += frames;
        place
    }

    /// The route at `place` has given frames up and holds so many. Gives its place.
    pub(super) fn lessen(&mut self, place: u32, frames: usize) -> u32 {
        let Some(holder) = self.list.get_mut(place as usize) else { return NOWHERE };
        if frames == 0 {
            self.unlink(place);
            self.free.push(place);
            return NOWHERE;
        }
        let fewer = usize::from(holder.frames).saturating_sub(frames);
        holder.frames -= fewer as u16;
        self.frames -= fewer;
        let from = holder.from;
        self.shares.iter_mut().filter(|share| share.from == from).for_each(|share| share.frames -= fewer);
        place
    }

    fn unlink(&mut self, place: u32) {
        let Holder { from, frames, older, newer, .. } = self.list[place as usize];
        self.frames -= usize::from(frames);
        if let Some(older) = self.list.get_mut(older as usize) {
            older.newer = newer;
        }
        if let Some(newer) = self.list.get_mut(newer as usize) {
            newer.older = older;
        }
        let Some(at) = self.shares.iter().position(|share| share.from == from) else { return };
        let share = &mut self.shares[at];
        share.frames -= usize::from(frames);
        if share.oldest == place {
            share.oldest = newer;
        }
        if share.newest == place {
            share.newest = older;
        }
        if share.oldest == NOWHERE {
            self.shares.swap_remove(at);
        }
    }

    /// Which route yields a frame to one more PDU that comes in at `from`: of the port whose routes hold most, if that
    /// are at least two more than those of `from`, so that no two ports push each other out in turns; else one that has
    /// been silent for [`SILENCE`], of a port that holds no fewer. In either case the longest silent. `None`: the new
    /// one is refused.
    pub(super) fn victim(&self, from: u16, now: Time) -> Option<u32> {
        let own = self.shares.iter().find(|share| share.from == from).map_or(0, |share| share.frames);
        let most = self.shares.iter().filter(|share| share.frames >= own + 2).max_by_key(|share| share.frames);
        let oldest = |share: &Share| self.list[share.oldest as usize];
        let holder = most.map(oldest).or_else(|| {
            let no_fewer = self.shares.iter().filter(|share| share.frames >= own).map(oldest);
            no_fewer.min_by_key(|holder| holder.last).filter(|holder| now.since(holder.last) >= SILENCE)
        });
        holder.map(|holder| holder.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use std::collections::BTreeMap;

    const LATER: Time = Time::from_millis(1000);

    #[test]
    fn the_port_with_most_yields_its_longest_silent_and_ports_with_about_the_same_do_not_push_each_other_out() {
        let (mut pdu_slots, mut now) = (PduSlots::default(), Time::ZERO);
        let places: Vec<u32> = (0..3).map(|at| pdu_slots.note(NOWHERE, (at, 1), 1, now)).collect();
        assert_eq!(pdu_slots.victim(2, now), Some(0), "ties go to the one whose cell came first");
        pdu_slots.note(places[0], (0, 1), 1, now);
        assert_eq!(pdu_slots.victim(2, now), Some(1));
        assert_eq!(pdu_slots.victim(1, now), None, "a port does not push out its own");
        pdu_slots.note(NOWHERE, (7, 2), 2, now);
        assert_eq!(pdu_slots.victim(2, now), None, "two, and the other has three");
        assert_eq!(pdu_slots.victim(3, now), Some(1));
        now += SILENCE;
        assert_eq!(pdu_slots.victim(1, now), Some(1), "one of its own that is silent");
        pdu_slots.note(places[1], (1, 1), 1, now);
        pdu_slots.note(places[2], (2, 1), 1, now);
        assert_eq!(pdu_slots.victim(1, now), Some(0), "the port with fewer keeps its silent one");
        pdu_slots.note(places[0], (0, 1), 1, now);
        assert_eq!(pdu_slots.victim(1, now), None);
        assert_eq!(pdu_slots.victim(2, now), Some(7));
    }

    #[test]
    fn random_changes_agree_with_a_plain_list() {
        for seed in 1..20 {
            let mut random = Random::new(seed);
            let mut pdu_slots = PduSlots::default();
            // By route: its place, its frames, when its last cell came and which one that was.
            let mut plain: BTreeMap<u32, (u32, usize, u64)> = BTreeMap::new();
            let from = |at: u32| (at % 4) as u16;
            for step in 0..3000 {
                let at = random.below(30) as u32;
                let (place, frames, last) = plain.get(&at).copied().unwrap_or((NOWHERE, 0, 0));
                let (place, frames, last) = match random.below(3) {
                    0 => {
                        let fewer = frames.saturating_sub(random.below(3) as usize);
                        (pdu_slots.lessen(place, fewer), fewer, last)
                    }
                    _ => {
                        let frames = random.below(4) as usize;
                        (pdu_slots.note(place, (at, from(at)), frames, Time::from_nanos(step)), frames, step)
                    }
                };
                plain.remove(&at);
                if frames > 0 {
                    plain.insert(at, (place, frames, last));
                }
                assert_eq!(pdu_slots.frames(), plain.values().map(|(_, frames, _)| frames).sum::<usize>());
                assert!(pdu_slots.list.len() <= 30 && pdu_slots.shares.len() <= 4);
                let held = |port: u16| -> usize {
                    plain.iter().filter(|(at, _)| from(**at) == port).map(|(_, (_, frames, _))| frames).sum()
                };
                for port in 0..4 {
                    let most = (0..4).map(held).max().filter(|most| *most >= held(port) + 2);
                    let victim = pdu_slots.victim(port, Time::from_nanos(step));
                    assert_eq!(victim.is_some(), most.is_some(), "seed {seed}, step {step}");
                    if let (Some(victim), Some(most)) = (victim, most) {
                        let of_it = plain.iter().filter(|(at, _)| from(**at) == from(victim));
                        assert_eq!(held(from(victim)), most);
                        assert_eq!(of_it.min_by_key(|(_, (.., last))| *last).map(|(at, _)| *at), Some(victim));
                    }
                    let silent = pdu_slots.victim(port, LATER);
                    assert_eq!(silent.is_some(), (0..4).any(|other| held(other) >= held(port).max(1)));
                }
            }
        }
    }
}
