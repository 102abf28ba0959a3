//! Who makes room where all places for calls are taken: so that one station that calls often keeps no other from
//! calling.

use std::collections::BTreeMap;
use wire::aesa::Aesa;

/// Of calls that came, which one ends for one more from `from`: of the station that has most, if that are at least two
/// more than the caller's, so that no two stations push out each other in turns; of its calls one that is of no use
/// yet, and the first of those. `None`: the new one is refused.
///
/// In: each call, oldest first, with its name, who called, and whether it is of use.
pub(crate) fn who_yields<C: Copy>(
    calls: impl Iterator<Item = (C, Option<Aesa>, bool)> + Clone,
    from: Option<Aesa>,
) -> Option<C> {
    // A host chooses its selectors.
    let station = |address: Option<Aesa>| address.map(Aesa::without_selector);
    let mut stations: BTreeMap<Option<Aesa>, usize> = BTreeMap::new();
    for (_, address, _) in calls.clone() {
        *stations.entry(station(address)).or_default() += 1;
    }
    let own = stations.get(&station(from)).copied().unwrap_or_default();
    let (most, _) = stations.iter().filter(|(_, n)| **n >= own + 2).max_by_key(|(_, n)| **n)?;
    let of_it = calls.filter(|(_, address, _)| station(*address) == *most);
    of_it.min_by_key(|(.., is_of_use)| *is_of_use).map(|(call, ..)| call)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(host: u8, selector: u8) -> Option<Aesa> {
        Some(Aesa::new([0x47; 13], [0, 0, 0, 0, 0, host], selector))
    }

    #[test]
    fn who_has_most_yields_the_oldest_call_that_is_of_no_use_and_nobody_does_where_all_have_about_the_same() {
        let of = |calls: &[(u8, u8, bool)], from| {
            let calls = calls.iter().enumerate().map(|(n, (host, selector, used))| (n, at(*host, *selector), *used));
            who_yields(calls, from)
        };
        assert_eq!(of(&[], at(1, 0)), None);
        assert_eq!(of(&[(1, 0, false)], at(2, 0)), None, "one each");
        let calls = [(1, 0, true), (2, 0, false), (2, 7, false), (1, 1, true)];
        assert_eq!(of(&calls[..3], at(3, 0)), Some(1), "of one station whatever the selectors");
        assert_eq!(of(&calls[..3], at(1, 0)), None);
        assert_eq!(of(&[(2, 0, true), (2, 1, false), (2, 2, false)], at(1, 0)), Some(1), "those of use stay longest");
        assert_eq!(of(&[(2, 0, true), (2, 1, true)], at(1, 0)), Some(0));
        assert_eq!(of(&[(2, 0, false), (2, 1, false)], at(2, 5)), None, "a station does not push out its own");
        assert_eq!(of(&[(2, 0, false), (2, 1, false)], None), Some(0));
    }
}
