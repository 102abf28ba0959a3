//! Which shard of a network each station is in.
//!
//! In: the stations, with the shard that the description gives some of them, and the links between them. Out: a shard
//! for each. What belongs together by links stays together as long as no shard has more than its share of the work, for
//! a link between two shards costs more than one within a shard.

use crate::config::Config;
use net::topology::Station;
use std::collections::{BTreeMap, BTreeSet};

/// Stations and their shards, by name.
pub type Placement = BTreeMap<String, usize>;

/// The shards of a description's stations.
pub fn of(config: &Config) -> Placement {
    let file = &config.file;
    let stations = config.description.stations.iter().filter(|(_, station)| **station != Station::Outside);
    let given = stations.map(|(name, _)| {
        let of_host = file.host.get(name).and_then(|host| host.shard);
        (name.as_str(), of_host.or_else(|| file.switch.get(name).and_then(|switch| switch.shard)))
    });
    let links = config.description.links.iter().map(|link| [0, 1].map(|end| link.ends[end].station.as_str()));
    assign(file.engine.shards, &given.collect::<Vec<_>>(), &links.collect::<Vec<_>>())
}

/// A station counts as its links and one; a shard's share is its part of the sum. Stations that links join are one
/// piece, cut along its links where it is more than a share. A piece goes where most of its links lead, if its share is
/// not used up there; else where the least is.
fn assign(shards: usize, stations: &[(&str, Option<usize>)], links: &[[&str; 2]]) -> Placement {
    let mut near: BTreeMap<&str, Vec<&str>> = stations.iter().map(|(name, _)| (*name, Vec::new())).collect();
    let mut weights: BTreeMap<&str, usize> = stations.iter().map(|(name, _)| (*name, 1)).collect();
    for [a, b] in links {
        for (here, there) in [(a, b), (b, a)] {
            weights.entry(here).and_modify(|weight| *weight += 1);
            if near.contains_key(there)
                && let Some(near) = near.get_mut(here)
            {
                near.push(there);
            }
        }
    }
    let shards = shards.max(1);
    let share = weights.values().sum::<usize>().div_ceil(shards).max(1);
    let mut loads = vec![0; shards];
    let mut placement = Placement::new();
    for (name, shard) in stations.iter().filter_map(|(name, shard)| Some((*name, (*shard)?))) {
        let shard = shard.min(shards - 1);
        loads[shard] += weights[name];
        placement.insert(name.to_owned(), shard);
    }
    let free: BTreeSet<&str> = near.keys().copied().filter(|name| !placement.contains_key(*name)).collect();
    let mut pieces = pieces(&free, &near, &weights, share);
    // The largest first; the order of names decides between equals.
    pieces.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
    for (weight, piece) in pieces {
        let mut ties = vec![0; shards];
        piece.iter().flat_map(|name| &near[name]).filter_map(|name| placement.get(*name)).for_each(|s| ties[*s] += 1);
        let least = loads.iter().copied().min().unwrap_or(0);
        let fits = |shard: &usize| loads[*shard] + weight <= share || loads[*shard] == least;
        let best = (0..shards).filter(fits).max_by_key(|s| (ties[*s], std::cmp::Reverse((loads[*s], *s))));
        let shard = best.unwrap_or(0);
        loads[shard] += weight;
        placement.extend(piece.into_iter().map(|name| (name.to_owned(), shard)));
    }
    placement
}

/// Stations that links join, in pieces of at most a share, with their weights.
fn pieces<'a>(
    free: &BTreeSet<&'a str>,
    near: &BTreeMap<&'a str, Vec<&'a str>>,
    weights: &BTreeMap<&'a str, usize>,
    share: usize,
) -> Vec<(usize, Vec<&'a str>)> {
    let (mut pieces, mut seen) = (Vec::new(), BTreeSet::new());
    for first in free {
        if !seen.insert(*first) {
            continue;
        }
        // In depth first, so that what follows each other is near each other.
        let (mut order, mut stack) = (Vec::new(), vec![*first]);
        while let Some(name) = stack.pop() {
            order.push(name);
            stack.extend(near[name].iter().rev().filter(|next| free.contains(*next) && seen.insert(**next)));
        }
        let (mut weight, mut piece) = (0, Vec::new());
        for name in order {
            if weight > 0 && weight + weights[name] > share {
                pieces.push((std::mem::take(&mut weight), std::mem::take(&mut piece)));
            }
            weight += weights[name];
            piece.push(name);
        }
        pieces.push((weight, piece));
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(shards: usize, stations: &[(&str, Option<usize>)], links: &[[&str; 2]]) -> Vec<usize> {
        let placement = assign(shards, stations, links);
        stations.iter().map(|(name, _)| placement[*name]).collect()
    }

    #[test]
    fn networks_of_their_own_are_spread_over_the_shards_and_stay_whole() {
        let stations = ["a1", "a2", "as", "b1", "b2", "bs"].map(|name| (name, None));
        let links = [["a1", "as"], ["a2", "as"], ["b1", "bs"], ["b2", "bs"]];
        assert_eq!(placed(2, &stations, &links), [0, 0, 0, 1, 1, 1]);
        assert_eq!(placed(1, &stations, &links), [0; 6]);
    }

    #[test]
    fn one_network_is_cut_where_a_shard_would_have_more_than_its_share() {
        let names: Vec<String> = (0..16).map(|n| format!("s{n:02}")).collect();
        let stations: Vec<(&str, Option<usize>)> = names.iter().map(|name| (name.as_str(), None)).collect();
        let links: Vec<[&str; 2]> = names.windows(2).map(|two| [two[0].as_str(), &two[1]]).collect();
        let shards = placed(4, &stations, &links);
        let crossings = shards.windows(2).filter(|two| two[0] != two[1]).count();
        assert!((3..=4).contains(&crossings), "{shards:?}");
        for shard in 0..4 {
            let has = shards.iter().filter(|s| **s == shard).count();
            assert!((3..=5).contains(&has), "{shards:?}");
        }
    }

    #[test]
    fn what_the_description_says_holds_and_draws_its_neighbours() {
        let stations = [("a", Some(1)), ("b", None), ("c", Some(0)), ("d", None), ("e", Some(9))];
        assert_eq!(placed(2, &stations, &[["a", "b"], ["c", "d"]]), [1, 1, 0, 0, 1]);
    }

    #[test]
    fn a_station_without_links_goes_where_the_least_is() {
        assert_eq!(placed(2, &[("a", None), ("b", None), ("c", Some(0)), ("d", None)], &[]), [1, 0, 0, 1]);
    }
}
