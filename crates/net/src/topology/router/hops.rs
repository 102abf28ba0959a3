//! What the hops of a circuit add up to: promises of links, delay and its variation, and the tolerance of each switch's
//! input.

use super::{Hop, Route, RoutedCircuit, Router, SwitchHop, SwitchRoute, directions};
use crate::frame::LONG_FRAME_CELLS;
use crate::line::{Carries, Side};
use crate::topology::inventory::{LinkState, StationKind, other};
use crate::topology::{CircuitDescription, LinkKey, TopologyError};
use std::collections::BTreeMap;
use std::time::Duration;
use traffic::{Admission, Contract};

/// What a link adds to the delay of a cell: always, and at most beyond that.
#[derive(Debug, Clone, Copy)]
struct HopDelay {
    fixed: Duration,
    variation: Duration,
}

impl Router {
    /// How late whoever runs the network may look after it: each hop adds that to the variation of delay. Zero in
    /// virtual time.
    pub fn set_round(&mut self, round: Duration) {
        self.round = round;
    }

    /// Cells that should wait in the queue of a link's sender at most, where order matters: what leaves in a quarter of
    /// a round. `None` where nothing is promised, or the link has no rate.
    pub(in crate::topology) fn window(&self, link: LinkKey, side: Side) -> Option<usize> {
        let link = self.inventory.links.get(&link)?;
        let rate = link.description.config.rate?;
        let promised = link.admission[side as usize].circuits() > 0 || link.calls[side as usize] > 0;
        promised.then(|| 2 + (rate.cells_per_s() * self.round.as_secs_f64() / 4.0) as usize)
    }

    fn delay_of(&self, link: &LinkState) -> HopDelay {
        let config = &link.description.config;
        let cell = config.rate.map_or(Duration::ZERO, |rate| Duration::from_nanos(rate.interval_nanos() as u64));
        // A frame that leaves and one that waits go before whatever comes, however urgent.
        let frames = if config.carries == Carries::Frames { 2 * LONG_FRAME_CELLS as u32 } else { 0 };
        let variation = Admission::variation(config.rate) + cell * frames + self.round;
        HopDelay { fixed: config.delay + cell, variation }
    }

    /// The link at a port of a station, and which of its sides is there.
    pub(in crate::topology) fn link_at(&self, station: &str, port: u16) -> Option<(LinkKey, Side)> {
        self.inventory.stations.get(station)?.ports.get(&port).copied()
    }

    /// By how much a link lets the delays of cells differ, as far as contracts must tolerate it.
    pub(in crate::topology) fn link_variation(&self, link: LinkKey) -> Duration {
        let of = |link: &LinkState| self.delay_of(link).variation + link.description.config.tolerance;
        self.inventory.links.get(&link).map_or(Duration::ZERO, of)
    }

    /// One call with a promised rate more, or less, leaves by a side of a link.
    pub(in crate::topology) fn count_call(&mut self, link: LinkKey, side: Side, more: bool) {
        if let Some(link) = self.inventory.links.get_mut(&link) {
            let calls = &mut link.calls[side as usize];
            *calls = if more { *calls + 1 } else { calls.saturating_sub(1) };
        }
    }

    /// The hop before each one on the way from the root.
    fn hops_before(&self, way: &Route) -> Vec<Option<usize>> {
        // The last hop that leads to a station.
        let mut into = BTreeMap::new();
        let before = way.hops.iter().enumerate().map(|(at, hop)| {
            let near = self.end(hop, hop.from).and_then(|(station, _)| into.get(station).copied());
            if let Some((station, _)) = self.end(hop, other(hop.from)) {
                into.insert(station, at);
            }
            near
        });
        before.collect()
    }

    /// By how much the delays of cells may differ where they come in at the far end of each hop, or at its near end on
    /// the way back.
    pub(in crate::topology) fn variations(&self, way: &Route, away: bool) -> Vec<Duration> {
        let mut variations: Vec<Duration> = way.hops.iter().map(|hop| self.link_variation(hop.link)).collect();
        if away {
            for (at, before) in self.hops_before(way).into_iter().enumerate() {
                let before = before.map_or(Duration::ZERO, |before| variations[before]);
                variations[at] += before;
            }
        } else {
            // Only a circuit both ways, whose hops are one after another, has a way back.
            let mut sum = Duration::ZERO;
            for variation in variations.iter_mut().rev() {
                sum += *variation;
                *variation = sum;
            }
        }
        variations
    }

    /// What each switch on the way has to do: from each hop into it to each hop out of it, and back if both ways.
    pub(in crate::topology) fn routes<'a>(&'a self, way: &'a Route, both_ways: bool) -> Vec<SwitchRoute<'a>> {
        let mut routes = Vec::new();
        if way.inside {
            return routes;
        }
        // The hops that leave each station.
        let mut leaving: BTreeMap<&str, Vec<(usize, &Hop, u16)>> = BTreeMap::new();
        for (nth, out) in way.hops.iter().enumerate() {
            if let Some((station, port)) = self.end(out, out.from) {
                leaving.entry(station).or_default().push((nth, out, port));
            }
        }
        for (nth, into) in way.hops.iter().enumerate() {
            let Some((switch, port)) = self.end(into, other(into.from)) else { continue };
            for (out_nth, out, out_port) in leaving.get(switch).into_iter().flatten() {
                let (from, to) = ((port, into.label), (*out_port, out.label));
                routes.push(SwitchRoute { switch, from, to, away: true, hop: nth });
                if both_ways {
                    routes.push(SwitchRoute { switch, from: to, to: from, away: false, hop: *out_nth });
                }
            }
        }
        routes
    }

    /// The switches on a circuit's way, in each direction that it has.
    pub fn switch_hops(&self, placed: &RoutedCircuit) -> Vec<SwitchHop> {
        let routes = self.routes(&placed.route, placed.description.is_both_ways());
        let hop = |route: SwitchRoute<'_>| {
            let SwitchRoute { from, to, away: forward, .. } = route;
            SwitchHop { switch: route.switch.to_owned(), from, to, forward }
        };
        routes.into_iter().map(hop).collect()
    }

    /// How many routes each switch on the way has for it.
    pub(super) fn routes_by_switch(&self, way: &Route, both_ways: bool) -> Vec<(String, usize)> {
        let all = self.routes(way, both_ways);
        let mut inputs: Vec<_> = all.into_iter().map(|route| (route.switch, route.from)).collect();
        inputs.sort_unstable();
        inputs.dedup();
        inputs.chunk_by(|a, b| a.0 == b.0).map(|same| (same[0].0.to_owned(), same.len())).collect()
    }

    pub(super) fn check_routes(&self, routes: &[(String, usize)]) -> Result<(), TopologyError> {
        for (switch, more) in routes {
            let Some(state) = self.inventory.stations.get(switch) else { continue };
            let StationKind::Switch(config) = state.kind else { continue };
            if state.routes + more > config.max_routes {
                let needed = state.routes + more - config.max_routes;
                return Err(TopologyError::NoRoutes { switch: switch.clone(), bound: config.max_routes, needed });
            }
        }
        Ok(())
    }

    pub(super) fn count_routes(&mut self, routes: &[(String, usize)], sign: isize) {
        for (switch, more) in routes {
            if let Some(state) = self.inventory.stations.get_mut(switch) {
                state.routes = state.routes.saturating_add_signed(sign * *more as isize);
            }
        }
    }

    /// The promises of all links of a way with those of one circuit more, and less those of `had`.
    pub(super) fn admitted(
        &self,
        way: &Route,
        circuit: &CircuitDescription,
        had: Option<&CircuitDescription>,
    ) -> Result<Vec<(LinkKey, [Admission; 2])>, TopologyError> {
        self.check_delay(way, circuit)?;
        let mut changed = Vec::with_capacity(way.hops.len());
        for hop in &way.hops {
            let link = self.link_state(hop.link)?;
            let mut admission = link.admission;
            for side in directions(hop.from, circuit.is_both_ways()) {
                let direction = &mut admission[side as usize];
                if let Some(had) = had {
                    direction.release(&had.contract_of(side == hop.from));
                }
                direction.admit(&circuit.contract_of(side == hop.from)).map_err(|cause| TopologyError::Admission {
                    link: link.name(),
                    from: link.station(side).to_owned(),
                    cause,
                })?;
            }
            changed.push((hop.link, admission));
        }
        Ok(changed)
    }

    /// Whether delay and its variation stay within what a circuit allows, in each direction and to each leaf.
    fn check_delay(&self, way: &Route, circuit: &CircuitDescription) -> Result<(), TopologyError> {
        let mut directions = vec![(true, circuit.contract)];
        if circuit.is_both_ways() {
            directions.push((false, circuit.contract_back()));
        }
        directions.retain(|(_, contract)| contract.max_ctd.is_some() || contract.max_cdv.is_some());
        if directions.is_empty() {
            return Ok(());
        }
        let before = self.hops_before(way);
        let mut is_last = vec![true; before.len()];
        before.iter().flatten().for_each(|at| is_last[*at] = false);
        for (away, contract) in directions {
            for last in (0..before.len()).filter(|at| is_last[*at]) {
                let mut path: Vec<usize> = std::iter::successors(Some(last), |at| before[*at]).collect();
                path.reverse();
                self.check_path(way, &path, away, &contract)?;
            }
        }
        Ok(())
    }

    fn check_path(&self, way: &Route, path: &[usize], away: bool, contract: &Contract) -> Result<(), TopologyError> {
        let (Some(first), Some(last)) = (path.first(), path.last()) else { return Ok(()) };
        let links: Vec<&LinkState> =
            path.iter().map(|at| self.link_state(way.hops[*at].link)).collect::<Result<_, _>>()?;
        let delays: Vec<HopDelay> = links.iter().map(|link| self.delay_of(link)).collect();
        let of = |delay: &HopDelay, ctd: bool| if ctd { delay.fixed + delay.variation } else { delay.variation };
        for (parameter, most, ctd) in [("max_ctd", contract.max_ctd, true), ("max_cdv", contract.max_cdv, false)] {
            let sum: Duration = delays.iter().map(|delay| of(delay, ctd)).sum();
            let Some(most) = most.filter(|most| sum > *most) else { continue };
            let name = |hop: &Hop, side| self.end(hop, side).map(|(name, _)| name.to_owned()).unwrap_or_default();
            let (root, leaf) = (&way.hops[*first], &way.hops[*last]);
            let (near, far) = (name(root, root.from), name(leaf, other(leaf.from)));
            let (from, to) = if away { (near, far) } else { (far, near) };
            let hops = links.iter().zip(&delays).map(|(l, d)| format!("{} {} us", l.name(), of(d, ctd).as_micros()));
            return Err(TopologyError::Delay {
                parameter,
                from,
                to,
                allowed_us: most.as_micros() as u64,
                sum_us: (sum.as_nanos() as u64).div_ceil(1000),
                hops: hops.collect::<Vec<_>>().join(", "),
            });
        }
        Ok(())
    }
}
