//! Numbers by call reference, in pages: references that are given one after the other lie side by side, so that finding
//! the calls that come and go touches the same few cache lines however many are up.

use super::CallId;
use wire::q2931::CallReference;

const PAGE: usize = 256;
/// No number: an entry of a page that is free.
const FREE: u32 = u32::MAX;
/// Pages that one part of the calls is looked for in.
const PAGES_IN_PART: usize = 1024;

#[derive(Debug)]
struct Page {
    numbers: [u32; PAGE],
    used: usize,
}

/// A number below 2^32 - 1 for each of some calls. A page is 1 KiB for 256 references and goes with its last call: a
/// peer that scatters its references takes a page for each call, and 32 MiB at most.
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// The pages of the peer's references, and of our own.
    pages: [Vec<Option<Box<Page>>>; 2],
    len: usize,
}

impl Index {
    /// How many calls have a number.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// The call's number.
    pub(crate) fn get(&self, id: CallId) -> Option<u32> {
        let page = self.pages[usize::from(id.ours)].get(id.value as usize / PAGE)?.as_ref()?;
        Some(page.numbers[id.value as usize % PAGE]).filter(|number| *number != FREE)
    }

    /// Gives the call a number, in place of the one that it has.
    ///
    /// # Panics
    ///
    /// If the reference has more than 23 bits, which no message can say.
    pub(crate) fn insert(&mut self, id: CallId, number: u32) {
        assert!(id.value <= CallReference::DUMMY && number != FREE, "reference {:#x}", id.value);
        let at = id.value as usize / PAGE;
        let pages = &mut self.pages[usize::from(id.ours)];
        if pages.len() <= at {
            pages.resize_with(at + 1, || None);
        }
        let page = pages[at].get_or_insert_with(|| Box::new(Page { numbers: [FREE; PAGE], used: 0 }));
        let entry = &mut page.numbers[id.value as usize % PAGE];
        let new = usize::from(*entry == FREE);
        *entry = number;
        page.used += new;
        self.len += new;
    }

    /// Takes the call's number.
    pub(crate) fn remove(&mut self, id: CallId) -> Option<u32> {
        let number = self.get(id)?;
        let slot = &mut self.pages[usize::from(id.ours)][id.value as usize / PAGE];
        if let Some(page) = slot {
            page.numbers[id.value as usize % PAGE] = FREE;
            page.used -= 1;
            if page.used == 0 {
                *slot = None;
            }
        }
        self.len -= 1;
        Some(number)
    }

    /// The next calls in the order of [`Index::iter`], from the reference `from` on and `most` at most, and where the
    /// rest begins; `None` if there is none. It may be none of them where many pages are empty.
    pub(crate) fn part(&self, from: CallId, most: usize) -> (Vec<(CallId, u32)>, Option<CallId>) {
        let mut part = Vec::with_capacity(most);
        let mut pages_left = PAGES_IN_PART;
        for ours in [false, true].into_iter().skip(usize::from(from.ours)) {
            let pages = &self.pages[usize::from(ours)];
            let mut next = if ours == from.ours { from.value as usize } else { 0 };
            while next / PAGE < pages.len() {
                let rest = CallId { value: next as u32, ours };
                if pages_left == 0 || part.len() == most {
                    return (part, Some(rest));
                }
                pages_left -= 1;
                let page = pages[next / PAGE].as_ref();
                let end = (next / PAGE + 1) * PAGE;
                if let Some(page) = page {
                    while next < end && part.len() < most {
                        let number = page.numbers[next % PAGE];
                        if number != FREE {
                            part.push((CallId { value: next as u32, ours }, number));
                        }
                        next += 1;
                    }
                } else {
                    next = end;
                }
            }
        }
        (part, None)
    }

    /// All calls in the order of their references, the peer's first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (CallId, u32)> {
        [false, true].into_iter().flat_map(move |ours| {
            let pages = self.pages[usize::from(ours)].iter().enumerate();
            pages.filter_map(|(at, page)| Some((at, page.as_ref()?))).flat_map(move |(at, page)| {
                let entries = page.numbers.iter().enumerate().filter(|(_, number)| **number != FREE);
                entries.map(move |(i, number)| (CallId { value: (at * PAGE + i) as u32, ours }, *number))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn id() -> impl Strategy<Value = CallId> {
        let value = prop_oneof![0..3u32, 254..258u32, Just(CallReference::DUMMY), 0..=CallReference::DUMMY];
        (value, any::<bool>()).prop_map(|(value, ours)| CallId { value, ours })
    }

    proptest! {
        #[test]
        fn an_index_is_a_map(steps in prop::collection::vec((id(), prop::option::of(0..FREE)), 0..200)) {
            let (mut index, mut map) = (Index::default(), BTreeMap::new());
            for (id, number) in steps {
                match number {
                    Some(number) => {
                        index.insert(id, number);
                        map.insert((id.ours, id.value), number);
                    }
                    None => prop_assert_eq!(index.remove(id), map.remove(&(id.ours, id.value))),
                }
                prop_assert_eq!(index.get(id), map.get(&(id.ours, id.value)).copied());
                prop_assert_eq!(index.len(), map.len());
            }
            let all: Vec<_> = index.iter().map(|(id, number)| ((id.ours, id.value), number)).collect();
            prop_assert_eq!(&all, &map.into_iter().collect::<Vec<_>>());
            let (mut parts, mut from) = (Vec::new(), Some(CallId { value: 0, ours: false }));
            while let Some(at) = from {
                let (part, rest) = index.part(at, 3);
                prop_assert!(part.len() <= 3);
                parts.extend(part.iter().map(|(id, number)| ((id.ours, id.value), *number)));
                from = rest;
            }
            prop_assert_eq!(parts, all);
        }
    }

    #[test]
    fn a_page_goes_with_its_last_call() {
        let mut index = Index::default();
        let ids = [0, 255].map(|value| CallId { value, ours: true });
        for id in ids {
            index.insert(id, 7);
        }
        assert_eq!(index.remove(ids[0]), Some(7));
        assert!(index.pages[1][0].is_some());
        assert_eq!(index.remove(ids[1]), Some(7));
        assert!(index.pages[1][0].is_none());
    }
}
