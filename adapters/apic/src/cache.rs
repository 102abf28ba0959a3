//! The connection cache: the state of active connections is on the chip, that of all others in memory.
//!
//! A cell of a connection that is not on the chip waits until its state has come, in a queue of its own, so that
//! cells of other connections overtake it; cells of one connection stay in order. Low-latency connections never leave
//! the chip, which bounds their delay. The place that is taken for a new connection is that of one without a cell
//! since the hand came by (second chance).

use core::time::Duration;
use std::collections::VecDeque;
use wire::Time;

/// Where a connection's state is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Home {
    Memory,
    /// On its way to the chip, or in line for that.
    Fetched,
    /// At this place; whether a cell has come since the hand last passed.
    Chip {
        place: u32,
        used: bool,
    },
    /// Low latency: always on the chip.
    Locked,
}

/// What [`Cache::touch`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Hit,
    Miss,
}

/// See the module's head.
#[derive(Debug, Clone)]
pub(super) struct Cache {
    homes: Vec<Home>,
    places: Vec<Option<u32>>,
    hand: usize,
    locked: usize,
    most: usize,
    on: bool,
    miss: Duration,
    /// Connections to fetch; the first is on its way until `arrives`.
    fetches: VecDeque<u32>,
    arrives: Time,
    pub(super) hits: u64,
    pub(super) misses: u64,
}

impl Cache {
    pub(super) fn new(connections: usize, places: usize, miss: Duration, on: bool) -> Self {
        let most = places.max(1);
        Cache {
            homes: vec![Home::Memory; connections],
            places: vec![None; most],
            hand: 0,
            locked: 0,
            most,
            on,
            miss,
            fetches: VecDeque::with_capacity(connections),
            arrives: Time::ZERO,
            hits: 0,
            misses: 0,
        }
    }

    /// Places that low-latency connections may take.
    pub(super) fn lockable(&self) -> usize {
        self.most - 1
    }

    /// Whether one more low-latency connection may stay on the chip.
    pub(super) fn can_lock(&self) -> bool {
        !self.on || self.locked < self.lockable()
    }

    /// Keeps a new connection on the chip for good.
    pub(super) fn lock(&mut self, connection: u32) {
        if self.on {
            self.places.pop().flatten().into_iter().for_each(|gone| self.homes[gone as usize] = Home::Memory);
            self.locked += 1;
        }
        self.homes[connection as usize] = Home::Locked;
    }

    /// A connection is there no more.
    pub(super) fn forget(&mut self, connection: u32) {
        match self.homes[connection as usize] {
            Home::Chip { place, .. } => self.places[place as usize] = None,
            Home::Locked if self.on => {
                self.locked -= 1;
                self.places.push(None);
            }
            // What is under way arrives for the next in line: the time is spent.
            Home::Fetched => self.fetches.retain(|other| *other != connection),
            Home::Memory | Home::Locked => {}
        }
        self.homes[connection as usize] = Home::Memory;
    }

    /// A cell of a connection has come.
    pub(super) fn touch(&mut self, connection: u32, now: Time) -> Found {
        let home = &mut self.homes[connection as usize];
        match home {
            _ if !self.on => {}
            Home::Locked => {}
            Home::Chip { used, .. } => *used = true,
            Home::Fetched => return Found::Miss,
            Home::Memory => {
                *home = Home::Fetched;
                self.misses += 1;
                if self.fetches.is_empty() {
                    self.arrives = now + self.miss;
                }
                self.fetches.push_back(connection);
                return Found::Miss;
            }
        }
        self.hits += 1;
        Found::Hit
    }

    /// The connection whose state has come by `now`; the next one is fetched.
    pub(super) fn poll_arrived(&mut self, now: Time) -> Option<u32> {
        if self.arrives > now {
            return None;
        }
        let connection = self.fetches.pop_front()?;
        self.arrives += self.miss;
        let place = self.free_place();
        self.places[place] = Some(connection);
        self.homes[connection as usize] = Home::Chip { place: place as u32, used: true };
        Some(connection)
    }

    /// When [`Cache::poll_arrived`] has something.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        (!self.fetches.is_empty()).then_some(self.arrives)
    }

    fn free_place(&mut self) -> usize {
        // Twice around: the first time may only find connections that were used.
        for _ in 0..2 * self.places.len() {
            let at = self.hand % self.places.len();
            self.hand = at + 1;
            let Some(connection) = self.places[at] else { return at };
            match &mut self.homes[connection as usize] {
                Home::Chip { used, .. } if *used => *used = false,
                home => {
                    *home = Home::Memory;
                    return at;
                }
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_in_use_stays_and_an_idle_one_makes_room() {
        let miss = Duration::from_micros(1);
        let mut cache = Cache::new(8, 2, miss, true);
        let mut now = Time::ZERO;
        let mut use_it = |cache: &mut Cache, connection| {
            let found = cache.touch(connection, now);
            now += miss;
            while cache.poll_arrived(now).is_some() {}
            found
        };
        assert_eq!(use_it(&mut cache, 0), Found::Miss);
        assert_eq!(use_it(&mut cache, 1), Found::Miss);
        assert_eq!(use_it(&mut cache, 2), Found::Miss);
        // All had been used: the hand took the first. From here on 1 is idle, 2 is in use.
        assert_eq!(use_it(&mut cache, 2), Found::Hit);
        assert_eq!(use_it(&mut cache, 3), Found::Miss);
        assert_eq!(use_it(&mut cache, 2), Found::Hit);
        assert_eq!(use_it(&mut cache, 1), Found::Miss);
        assert_eq!((cache.hits, cache.misses), (2, 5));
    }

    #[test]
    fn locked_connections_never_miss_and_leave_a_place_for_others() {
        let mut cache = Cache::new(8, 3, Duration::from_micros(1), true);
        for connection in 0..2 {
            assert!(cache.can_lock());
            cache.lock(connection);
        }
        assert!(!cache.can_lock());
        for round in 0..10u64 {
            let now = Time::from_micros(10 * round);
            assert_eq!(cache.touch(0, now), Found::Hit);
            cache.touch(2 + round as u32 % 4, now);
            while cache.poll_arrived(now + Duration::from_micros(1)).is_some() {}
        }
        cache.forget(0);
        assert!(cache.can_lock());
    }
}
