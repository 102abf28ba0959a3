//! Places for the stations of a topology: layers side by side. In: how many stations there are, and which are joined.
//! Out: a column and a row for each; the same every time.
//!
//! The most central station of each component is in the middle. Others are so many columns beside it as they are links
//! away. What hangs on a neighbour of the centre is on one side, and so is all that is joined with it otherwise: a line
//! joins neighbouring columns, or stations of one column, and passes through no other station.

use std::collections::{BTreeMap, VecDeque};

/// Sweeps that bring stations near those that they are joined with.
const SWEEPS: usize = 6;
/// Of a component with more stations, the one with most links is the centre: looking from each takes too long.
const LOOKS: usize = 1000;

/// A station's place, in columns and rows. Rows of stations in neighbouring columns may be half a row apart.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Place {
    /// From the left.
    pub(super) column: usize,
    /// From the top.
    pub(super) row: f64,
}

/// Whom each station is joined with, in order.
struct Joined(Vec<Vec<usize>>);

impl Joined {
    fn new(stations: usize, links: &[[usize; 2]]) -> Self {
        let mut joined = vec![Vec::new(); stations];
        for [a, b] in links.iter().filter(|[a, b]| a != b) {
            joined[*a].push(*b);
            joined[*b].push(*a);
        }
        for all in &mut joined {
            all.sort_unstable();
            all.dedup();
        }
        Joined(joined)
    }

    /// How far each station is from one, in links, and the neighbour of that one by which it is reached.
    fn distances(&self, from: usize) -> BTreeMap<usize, (usize, usize)> {
        let mut found = BTreeMap::from([(from, (0, from))]);
        let mut ahead = VecDeque::from([from]);
        while let Some(here) = ahead.pop_front() {
            let (far, by) = found[&here];
            for next in &self.0[here] {
                if !found.contains_key(next) {
                    found.insert(*next, (far + 1, if here == from { *next } else { by }));
                    ahead.push_back(*next);
                }
            }
        }
        found
    }

    /// The station that is nearest to all others; of several, the one with most links, then the first.
    fn centre(&self, component: &[usize]) -> usize {
        let farthest = |station: usize| {
            if component.len() > LOOKS {
                return 0;
            }
            self.distances(station).values().map(|(far, _)| *far).max().unwrap_or(0)
        };
        let rank = |station: &usize| (farthest(*station), usize::MAX - self.0[*station].len(), *station);
        component.iter().copied().min_by_key(rank).unwrap_or_default()
    }
}

/// Places of all stations.
pub(super) fn places(stations: usize, links: &[[usize; 2]]) -> Vec<Place> {
    let joined = Joined::new(stations, links);
    let mut places = vec![None; stations];
    let mut top = 0.0;
    for first in 0..stations {
        if places[first].is_some() {
            continue;
        }
        let component: Vec<usize> = joined.distances(first).into_keys().collect();
        let layers = layers(&joined, &component);
        let height = layers.values().map(Vec::len).max().unwrap_or(0) as f64;
        let leftmost = layers.keys().next().copied().unwrap_or(0);
        for (layer, all) in &layers {
            let above = top + (height - all.len() as f64) / 2.0;
            for (station, nth) in all.iter().zip(0..) {
                let column = (layer - leftmost) as usize;
                places[*station] = Some(Place { column, row: above + f64::from(nth) });
            }
        }
        top += height;
    }
    places.into_iter().map(Option::unwrap_or_default).collect()
}

/// The columns of a component, those to the left with negative numbers, each in order from the top.
fn layers(joined: &Joined, component: &[usize]) -> BTreeMap<isize, Vec<usize>> {
    let centre = joined.centre(component);
    let distances = joined.distances(centre);
    let left = left_of(joined, centre, &distances);
    let mut layers: BTreeMap<isize, Vec<usize>> = BTreeMap::new();
    for (station, (far, by)) in &distances {
        let far = *far as isize;
        layers.entry(if left.contains(by) { -far } else { far }).or_default().push(*station);
    }
    for sweep in 0..SWEEPS {
        let mut order: Vec<isize> = layers.keys().copied().collect();
        if sweep % 2 == 1 {
            order.reverse();
        }
        for layer in order {
            bring_near(joined, &mut layers, layer);
        }
    }
    layers
}

/// The neighbours of the centre to whose left side everything goes that is reached by them.
fn left_of(joined: &Joined, centre: usize, distances: &BTreeMap<usize, (usize, usize)>) -> Vec<usize> {
    let mut group: BTreeMap<usize, usize> = joined.0[centre].iter().map(|next| (*next, *next)).collect();
    // What is joined otherwise than by the centre stays on one side.
    for (station, (_, by)) in distances.iter().filter(|(station, _)| **station != centre) {
        for other in joined.0[*station].iter().filter(|other| **other != centre) {
            let (one, two) = (group[by], group[&distances[other].1]);
            let lower = one.min(two);
            group.values_mut().filter(|of| **of == one || **of == two).for_each(|of| *of = lower);
        }
    }
    let mut sizes: BTreeMap<usize, usize> = BTreeMap::new();
    for (_, (_, by)) in distances.iter().filter(|(station, _)| **station != centre) {
        *sizes.entry(group[by]).or_default() += 1;
    }
    let mut order: Vec<(usize, usize)> = sizes.into_iter().collect();
    order.sort_by_key(|(group, size)| (usize::MAX - size, *group));
    let (mut left, mut sums) = (Vec::new(), [0, 0]);
    for (of, size) in order {
        let to_left = sums[0] <= sums[1];
        sums[usize::from(!to_left)] += size;
        if to_left {
            left.extend(group.iter().filter(|(_, group)| **group == of).map(|(next, _)| *next));
        }
    }
    left
}

/// Orders a column by the mean place of those in the columns beside it.
fn bring_near(joined: &Joined, layers: &mut BTreeMap<isize, Vec<usize>>, layer: isize) {
    let mut beside: BTreeMap<usize, f64> = BTreeMap::new();
    for near in [layer - 1, layer + 1] {
        let Some(all) = layers.get(&near) else { continue };
        let middle = (all.len() as f64 - 1.0) / 2.0;
        beside.extend(all.iter().zip(0..).map(|(station, nth)| (*station, f64::from(nth) - middle)));
    }
    let Some(all) = layers.get_mut(&layer) else { return };
    let middle = (all.len() as f64 - 1.0) / 2.0;
    let mut wanted: Vec<(f64, usize, usize)> = (all.iter().enumerate())
        .map(|(nth, station)| {
            let rows: Vec<f64> = joined.0[*station].iter().filter_map(|other| beside.get(other)).copied().collect();
            let mean = if rows.is_empty() { nth as f64 - middle } else { rows.iter().sum::<f64>() / rows.len() as f64 };
            (mean, nth, *station)
        })
        .collect();
    wanted.sort_by(|one, two| one.0.total_cmp(&two.0).then(one.1.cmp(&two.1)));
    *all = wanted.into_iter().map(|(_, _, station)| station).collect();
}
