//! A map of switches, hosts and cables, and routes over it that cannot close a circle.
//!
//! Up*/down* (Schroeder et al., Autonet, 1991): a spanning tree from a root gives each cable a direction, "up" towards
//! the root, and between switches of one level towards the lower number. A route goes up as often as it likes, then
//! down, and never up again. Channels can then be numbered so that each route takes them in one order, so no circle of
//! packets can wait for each other.

use super::{End, Fabric, HostId};
use crate::packet::mapping::Address;
use crate::packet::{MAX_HOPS, Turn};
use core::ops::Range;
use std::collections::{HashMap, VecDeque};

/// A port of a switch in a map: the switch's number there, and the port's. Ports may be counted from any one: a mapper
/// learns distances only.
pub type MapPort = (usize, i32);

/// What hangs together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Map {
    /// Switches, numbered from 0.
    pub switches: usize,
    /// Addresses of interfaces, and where each is plugged in; `None` for two hosts at one cable without a switch.
    pub hosts: Vec<(Address, Option<MapPort>)>,
    /// Cables between switches.
    pub cables: Vec<[MapPort; 2]>,
}

/// Routes from each host to each other one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Routes {
    hosts: Vec<Address>,
    /// Where in `turns` each route is.
    table: Vec<Option<Range<usize>>>,
    turns: Vec<Turn>,
}

impl Map {
    /// The map of a fabric as it is plugged, with the address that `address` gives each host.
    pub fn of(fabric: &Fabric, mut address: impl FnMut(HostId) -> Address) -> Map {
        let switches: Vec<_> = fabric.switches().collect();
        let number = |id| switches.iter().position(|(switch, _)| *switch == id);
        let place = |end| match end {
            End::Port(switch, port) => Some((number(switch)?, port as i32)),
            End::Host(_) => None,
        };
        let plugged = |host| fabric.far_end(End::Host(host)).map(|far| (address(host), place(far)));
        let hosts = fabric.hosts().filter_map(plugged).collect();
        let ports = switches.iter().flat_map(|(id, ports)| (0..*ports).map(|port| End::Port(*id, port)));
        let cable = |end| Some([place(end)?, place(fabric.far_end(end)?)?]);
        let cables = ports.filter_map(cable).filter(|[a, b]| a < b).collect();
        Map { switches: switches.len(), hosts, cables }
    }

    /// Cables at each switch: own port, far port.
    fn neighbours(&self) -> Vec<Vec<(i32, MapPort)>> {
        let mut of = vec![Vec::new(); self.switches];
        for [a, b] in &self.cables {
            for (near, far) in [(a, b), (b, a)] {
                if let Some(list) = of.get_mut(near.0)
                    && far.0 < self.switches
                    && near.0 != far.0
                {
                    list.push((near.1, *far));
                }
            }
        }
        of
    }

    /// What of the map hangs together with the host of an address.
    #[must_use]
    pub fn around(&self, address: Address) -> Map {
        let neighbours = self.neighbours();
        let from = self.hosts.iter().find(|(own, _)| *own == address).and_then(|(_, at)| *at);
        let mut reached: Vec<usize> = from.iter().map(|(switch, _)| *switch).collect();
        let mut next = 0;
        while let Some(switch) = reached.get(next) {
            for (_, (far, _)) in neighbours.get(*switch).cloned().unwrap_or_default() {
                if !reached.contains(&far) {
                    reached.push(far);
                }
            }
            next += 1;
        }
        let here = |at: &Option<MapPort>| at.map_or(from.is_none(), |(switch, _)| reached.contains(&switch));
        Map {
            switches: self.switches,
            hosts: self.hosts.iter().filter(|(_, at)| here(at)).copied().collect(),
            cables: self.cables.iter().filter(|[a, _]| reached.contains(&a.0)).copied().collect(),
        }
    }

    /// The same map with switches in the order in which a walk from the first address's switch meets them, and ports
    /// counted from the least that is plugged: two maps of the same network are equal in this form.
    #[must_use]
    pub fn canonical(&self) -> Map {
        let neighbours = self.neighbours();
        let mut ends: Vec<(usize, i32, Option<Address>)> = Vec::new();
        ends.extend(self.hosts.iter().filter_map(|(address, at)| at.map(|(s, p)| (s, p, Some(*address)))));
        ends.extend(neighbours.iter().zip(0..).flat_map(|(list, s)| list.iter().map(move |(p, _)| (s, *p, None))));
        ends.extend(self.cables.iter().filter(|[a, b]| a.0 == b.0).flatten().map(|(s, p)| (*s, *p, None)));
        let least = |switch| ends.iter().filter(|e| e.0 == switch).map(|e| e.1).min().unwrap_or(0);
        let mut hosts = self.hosts.clone();
        hosts.sort_unstable();
        let mut order: Vec<usize> = hosts.iter().filter_map(|(_, at)| at.map(|at| at.0)).take(1).collect();
        let mut next = 0;
        while let Some(switch) = order.get(next).copied() {
            next += 1;
            let mut far: Vec<_> = neighbours.get(switch).cloned().unwrap_or_default();
            far.sort_unstable_by_key(|(port, _)| *port);
            for (_, (switch, _)) in far {
                if !order.contains(&switch) {
                    order.push(switch);
                }
            }
        }
        let place = |(switch, port): MapPort| Some((order.iter().position(|s| *s == switch)?, port - least(switch)));
        let mut cables: Vec<[MapPort; 2]> = self
            .cables
            .iter()
            .filter_map(|[a, b]| Some([place(*a)?, place(*b)?]))
            .map(|[a, b]| if a < b { [a, b] } else { [b, a] })
            .collect();
        cables.sort_unstable();
        let hosts = hosts.iter().map(|(address, at)| (*address, at.and_then(place))).collect();
        Map { switches: order.len(), hosts, cables }
    }

    /// Each switch's distance from a root of least eccentricity, the one with most cables among such.
    fn levels(&self, neighbours: &[Vec<(i32, MapPort)>]) -> Vec<usize> {
        let from = |root: usize| {
            let mut level = vec![usize::MAX; self.switches];
            let mut queue = VecDeque::from([root]);
            level[root] = 0;
            while let Some(switch) = queue.pop_front() {
                for (_, (far, _)) in &neighbours[switch] {
                    if level[*far] == usize::MAX {
                        level[*far] = level[switch] + 1;
                        queue.push_back(*far);
                    }
                }
            }
            level
        };
        // Where parts of a map hang together with nothing else, those out of the root's reach have one level: numbers
        // order them.
        let depth = |level: &[usize]| level.iter().copied().max().unwrap_or(0);
        let candidates = (0..self.switches).map(|root| (from(root), neighbours[root].len()));
        candidates.min_by_key(|(level, cables)| (depth(level), usize::MAX - cables)).map_or(Vec::new(), |(l, _)| l)
    }

    /// Shortest up*/down* routes between all hosts. Hosts at one switch take parallel cables in turn.
    pub fn routes(&self) -> Routes {
        let neighbours = self.neighbours();
        let levels = self.levels(&neighbours);
        let is_up = |from: usize, to: usize| (levels[to], to) < (levels[from], from);
        let mut table = Vec::with_capacity(self.hosts.len() * self.hosts.len());
        let (mut turns, mut ports): (Vec<Turn>, Vec<i32>) = Default::default();
        for (n, (_, at)) in self.hosts.iter().enumerate() {
            let Some((start, port)) = at.filter(|(switch, _)| *switch < self.switches) else {
                // Two hosts at one cable need no route.
                table.extend(self.hosts.iter().enumerate().map(|(m, to)| (m != n && to.1.is_none()).then_some(0..0)));
                continue;
            };
            // States are a switch, and whether the route has gone down; each with the state before it and the cable
            // between.
            let mut before: Vec<Option<(usize, i32, i32)>> = vec![None; 2 * self.switches];
            let mut seen = vec![false; 2 * self.switches];
            let mut reached = vec![usize::MAX; self.switches];
            let mut queue = VecDeque::from([2 * start]);
            seen[2 * start] = true;
            while let Some(state) = queue.pop_front() {
                let (switch, down) = (state / 2, state % 2 == 1);
                if reached[switch] == usize::MAX {
                    reached[switch] = state;
                }
                let list = &neighbours[switch];
                for k in 0..list.len() {
                    let (near, (far, far_port)) = list[(k + n) % list.len()];
                    let up = is_up(switch, far);
                    let next = 2 * far + usize::from(!up);
                    if (up && down) || seen[next] {
                        continue;
                    }
                    seen[next] = true;
                    before[next] = Some((state, near, far_port));
                    queue.push_back(next);
                }
            }
            for (m, (_, to)) in self.hosts.iter().enumerate() {
                let route = to.filter(|(switch, _)| m != n && *switch < self.switches).and_then(|(switch, last)| {
                    let mut state = Some(reached[switch]).filter(|state| *state != usize::MAX)?;
                    ports.clear();
                    ports.push(last);
                    while let Some((previous, near, far)) = before[state] {
                        ports.extend([far, near]);
                        state = previous;
                    }
                    ports.push(port);
                    // From the last switch to the first.
                    let pairs = ports.rchunks_exact(2).filter(|_| ports.len() / 2 <= MAX_HOPS);
                    let begin = turns.len();
                    turns.extend(pairs.map_while(|pair| Turn::new(i8::try_from(pair[0] - pair[1]).ok()?)));
                    let is_whole = turns.len() - begin == ports.len() / 2;
                    if !is_whole {
                        turns.truncate(begin);
                    }
                    is_whole.then_some(begin..turns.len())
                });
                table.push(route);
            }
        }
        Routes { hosts: self.hosts.iter().map(|(address, _)| *address).collect(), table, turns }
    }

    /// Whether no circle of channels can wait for each other when packets take these routes: the order of channels,
    /// each from a switch's port, has no circle.
    pub fn is_free_of_deadlock(&self, routes: &Routes) -> bool {
        let far: HashMap<MapPort, MapPort> = self.cables.iter().flat_map(|[a, b]| [(*a, *b), (*b, *a)]).collect();
        let mut after: HashMap<MapPort, Vec<MapPort>> = HashMap::new();
        for (n, (_, at)) in self.hosts.iter().enumerate() {
            for m in 0..self.hosts.len() {
                let Some(route) = routes.between(n, m) else { continue };
                let (mut at, mut last) = (*at, None);
                for turn in route {
                    let Some((switch, port)) = at else { break };
                    let out = (switch, port + i32::from(turn.ports()));
                    after.entry(out).or_default();
                    if let Some(last) = last.replace(out) {
                        after.entry(last).or_default().push(out);
                    }
                    at = far.get(&out).copied();
                }
            }
        }
        // Kahn (1962): take away what nothing leads to, until nothing is left or there is a circle.
        let mut incoming: HashMap<MapPort, usize> = after.keys().map(|port| (*port, 0)).collect();
        for list in after.values_mut() {
            list.sort_unstable();
            list.dedup();
            list.iter().for_each(|to| *incoming.entry(*to).or_default() += 1);
        }
        let mut ready: Vec<MapPort> = incoming.iter().filter(|(_, n)| **n == 0).map(|(port, _)| *port).collect();
        let mut taken = 0;
        while let Some(port) = ready.pop() {
            taken += 1;
            for to in &after[&port] {
                if let Some(n) = incoming.get_mut(to) {
                    *n -= 1;
                    if *n == 0 {
                        ready.push(*to);
                    }
                }
            }
        }
        taken == incoming.len()
    }
}

impl Routes {
    /// The hosts, in the map's order.
    pub fn hosts(&self) -> &[Address] {
        &self.hosts
    }

    /// The route between two hosts of the map, by their numbers there.
    pub fn between(&self, from: usize, to: usize) -> Option<&[Turn]> {
        let row = self.table.get(from.checked_mul(self.hosts.len())?..)?;
        let at = row.get(to).filter(|_| to < self.hosts.len())?.clone()?;
        self.turns.get(at)
    }

    /// The route between the hosts with these addresses.
    pub fn route(&self, from: Address, to: Address) -> Option<&[Turn]> {
        self.between(self.number(from)?, self.number(to)?)
    }

    fn number(&self, of: Address) -> Option<usize> {
        self.hosts.iter().position(|host| *host == of)
    }

    /// The routes of the host with this address: where each leads, and how.
    pub fn of(&self, from: Address) -> impl Iterator<Item = (Address, &[Turn])> {
        let row = self.number(from);
        let to = move |m: usize| Some((*self.hosts.get(m)?, self.between(row?, m)?));
        (0..self.hosts.len()).filter_map(to)
    }
}
