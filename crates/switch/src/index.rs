//! The label table: from port, VPI and VCI to a number of 32 bits, by index alone.
//!
//! | level | by | entry |
//! |---|---|---|
//! | root, a port's | VPI bits 11..7 | page of paths |
//! | page of paths, 1 KiB | VPI bits 6..0 | page of channel pages; the path's own number |
//! | page of channel pages, 1 KiB | VCI bits 15..8 | page of channels |
//! | page of channels, 1 KiB | VCI bits 7..0 | the channel's number |
//!
//! Page 0 is all zero and stands for every page that is not there, and number 0 for "none": a look-up has no branches
//! until its end. Entries name a page by its first entry's place. The number of a channel of VCI 3 or 4 has its highest bit
//! set: no user data comes under it. A page is allocated by its first entry and given back with its last; their number is
//! bounded.

use crate::prefetch;
use wire::Label;

/// Entries of a page: 4 octets each, 1 KiB.
const ENTRIES: usize = 256;
const ROOTS: usize = 32;
/// Entries before the mark is set fit into 31 bits.
const F4_MARK: u32 = 1 << 31;

/// No page is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoPage;

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Index {
    roots: Vec<[u32; ROOTS]>,
    /// Pages one after another, page 0 first.
    entries: Vec<u32>,
    /// Entries of each page that are not zero.
    used: Vec<u16>,
    free: Vec<u32>,
    max_pages: usize,
}

/// Where a cell's channel entry is, as far as the upper levels tell.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Place(u32);

/// The paths of a port with VPIs below 128: their page, found once for many cells.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paths<'a> {
    page: &'a [u32; ENTRIES],
    entries: &'a [u32],
}

impl Paths<'_> {
    /// Whether a port's cells may be looked up here, by the header words of all of them or-ed together.
    #[inline(always)]
    pub(crate) const fn hold(words: u32) -> bool {
        words >> 27 == 0
    }

    /// As [`Index::place_of`].
    #[inline(always)]
    pub(crate) fn place_of(self, word: u32) -> Place {
        let channels = self.page[(word >> 19) as usize & 0xfe];
        let page = self.entries[channels as usize + ((word >> 12) as usize & 0xff)];
        Place(page + ((word >> 4) & 0xff))
    }
}

impl Index {
    /// An empty table for so many ports, with at most `max_pages` pages.
    pub(crate) fn new(ports: usize, max_pages: usize) -> Self {
        let max_pages = max_pages.min(u32::MAX as usize / ENTRIES - 1);
        let mut entries = Vec::with_capacity((max_pages + 1) * ENTRIES);
        prefetch::large_pages(&mut entries);
        entries.resize(ENTRIES, 0);
        let mut used = Vec::with_capacity(max_pages + 1);
        used.push(0);
        Index { roots: vec![[0; ROOTS]; ports], entries, used, free: Vec::new(), max_pages }
    }

    /// As [`crate::Switch::touch`].
    pub(crate) fn touch(&mut self) {
        prefetch::first_pages(&mut self.entries);
        prefetch::first_pages(&mut self.used);
    }

    /// Makes it a table for so many ports. Those that are gone have no entries.
    pub(crate) fn set_ports(&mut self, ports: usize) {
        self.roots.resize(ports, [0; ROOTS]);
    }

    /// Pages in use.
    #[cfg(test)]
    fn pages(&self) -> usize {
        self.used.len() - 1 - self.free.len()
    }

    #[inline(always)]
    fn path_at(&self, port: usize, vpi: u32) -> usize {
        let page = self.roots[port][(vpi >> 7) as usize % ROOTS];
        page as usize + (vpi as usize & 127) * 2
    }

    /// Octets of the pages.
    pub(crate) fn octets(&self) -> usize {
        self.used.len() * ENTRIES * size_of::<u32>()
    }

    /// The paths of `port` with VPIs below 128.
    #[inline]
    pub(crate) fn paths(&self, port: usize) -> Option<Paths<'_>> {
        let page = self.entries[self.roots[port][0] as usize..].first_chunk()?;
        Some(Paths { page, entries: &self.entries })
    }

    /// Walks the upper levels.
    #[inline(always)]
    pub(crate) fn place_of(&self, port: usize, word: u32) -> Place {
        let channels = self.entries[self.path_at(port, word >> 20)];
        let page = self.entries[channels as usize + ((word >> 12) as usize & 0xff)];
        Place(page + ((word >> 4) & 0xff))
    }

    /// Asks for the line of an entry.
    #[inline(always)]
    pub(crate) fn prefetch(&self, place: Place) {
        prefetch::early(&self.entries, place.0 as usize);
    }

    /// The number of the channel at `place`, else 0. For VCI 3 and 4 it is more than any number.
    #[inline(always)]
    pub(crate) fn channel(&self, place: Place) -> u32 {
        self.entries[place.0 as usize]
    }

    /// The number for a cell of this header: its channel's, else its path's, else 0.
    #[inline(always)]
    pub(crate) fn find(&self, port: usize, word: u32) -> u32 {
        let channel = self.channel(self.place_of(port, word)) & !F4_MARK;
        if channel != 0 { channel } else { self.path(port, word >> 20) }
    }

    /// The number of a path, else 0.
    #[inline]
    pub(crate) fn path(&self, port: usize, vpi: u32) -> u32 {
        self.entries[self.path_at(port, vpi) + 1]
    }

    /// Whether any channel of this path has an entry: the path ends at this port.
    pub(crate) fn has_channels(&self, port: usize, vpi: u32) -> bool {
        let channels = self.entries[self.path_at(port, vpi)] as usize;
        // A page without entries is reserved for a change that is not made yet.
        self.entries[channels..channels + ENTRIES].iter().any(|page| self.used[*page as usize / ENTRIES] != 0)
    }

    /// The number under exactly this label, else 0.
    pub(crate) fn get(&self, port: usize, label: Label) -> u32 {
        match label {
            Label::Vc(circuit) => self.channel(self.place_of(port, circuit.key() << 4)) & !F4_MARK,
            Label::Vp(vpi) => self.path(port, vpi.get().into()),
        }
    }

    /// A page, as entries name it.
    fn page(&mut self) -> Result<u32, NoPage> {
        if let Some(page) = self.free.pop() {
            return Ok(page);
        }
        if self.used.len() > self.max_pages {
            return Err(NoPage);
        }
        self.entries.resize(self.entries.len() + ENTRIES, 0);
        self.used.push(0);
        Ok((self.used.len() - 1) as u32 * ENTRIES as u32)
    }

    fn write(&mut self, at: usize, value: u32) {
        let used = &mut self.used[at / ENTRIES];
        *used = used.wrapping_add(u16::from(value != 0)).wrapping_sub(u16::from(self.entries[at] != 0));
        self.entries[at] = value;
    }

    /// The page that the entry at `at` names, made if it is not there.
    fn below(&mut self, at: usize) -> Result<usize, NoPage> {
        if self.entries[at] == 0 {
            let page = self.page()?;
            self.write(at, page);
        }
        Ok(self.entries[at] as usize)
    }

    /// Makes the pages for a label's entry.
    ///
    /// # Errors
    /// [`NoPage`], and nothing has changed.
    pub(crate) fn reserve(&mut self, port: usize, label: Label) -> Result<(), NoPage> {
        let made = self.place(port, label).map(|_| ());
        if made.is_err() {
            self.trim(port, label);
        }
        made
    }

    fn place(&mut self, port: usize, label: Label) -> Result<usize, NoPage> {
        let vpi = match label {
            Label::Vc(circuit) => circuit.vpi.get() as usize,
            Label::Vp(vpi) => vpi.get() as usize,
        };
        if self.roots[port][vpi >> 7] == 0 {
            self.roots[port][vpi >> 7] = self.page()?;
        }
        let path = self.path_at(port, vpi as u32);
        match label {
            Label::Vp(_) => Ok(path + 1),
            Label::Vc(circuit) => {
                let vci = circuit.vci.get() as usize;
                let channels = self.below(path)?;
                let page = self.below(channels + (vci >> 8))?;
                Ok(page + vci % ENTRIES)
            }
        }
    }

    /// Sets a label's number; 0 takes the entry away, with pages that are empty then.
    ///
    /// # Errors
    /// [`NoPage`], and nothing has changed.
    pub(crate) fn set(&mut self, port: usize, label: Label, value: u32) -> Result<(), NoPage> {
        if value == 0 {
            self.remove(port, label);
            return Ok(());
        }
        self.reserve(port, label)?;
        let at = self.place(port, label)?;
        let is_f4 = matches!(label, Label::Vc(circuit) if matches!(circuit.vci.get(), 3 | 4));
        self.write(at, if is_f4 { value | F4_MARK } else { value });
        Ok(())
    }

    fn give_back(&mut self, at: usize) {
        let page = self.entries[at];
        if page != 0 && self.used[page as usize / ENTRIES] == 0 {
            self.free.push(page);
            self.write(at, 0);
        }
    }

    fn remove(&mut self, port: usize, label: Label) {
        if self.get(port, label) != 0
            && let Ok(at) = self.place(port, label)
        {
            self.write(at, 0);
        }
        self.trim(port, label);
    }

    /// Gives back those pages of a label that are empty.
    pub(crate) fn trim(&mut self, port: usize, label: Label) {
        let (vpi, vci) = match label {
            Label::Vc(circuit) => (circuit.vpi.get(), Some(circuit.vci.get())),
            Label::Vp(vpi) => (vpi.get(), None),
        };
        let path = self.path_at(port, vpi.into());
        let channels = self.entries[path] as usize;
        if let Some(vci) = vci.filter(|_| channels != 0) {
            self.give_back(channels + usize::from(vci >> 8));
            self.give_back(path);
        }
        let root = usize::from(vpi >> 7);
        let page = self.roots[port][root];
        if page != 0 && self.used[page as usize / ENTRIES] == 0 {
            self.free.push(page);
            self.roots[port][root] = 0;
        }
    }

    /// All labels of a port with their numbers, paths before their channels, in ascending order.
    pub(crate) fn labels(&self, port: usize) -> impl Iterator<Item = (Label, u32)> + '_ {
        self.labels_after(port, None)
    }

    /// The same, from the label behind `after` on.
    pub(crate) fn labels_after(&self, port: usize, after: Option<Label>) -> impl Iterator<Item = (Label, u32)> + '_ {
        // Where to begin: a VPI, and in it the path itself (0) or a channel (its VCI and 1).
        let (vpi0, sub0) = match after {
            None => (0, 0),
            Some(Label::Vp(vpi)) => (usize::from(vpi.get()), 1),
            Some(Label::Vc(circuit)) => (usize::from(circuit.vpi.get()), usize::from(circuit.vci.get()) + 2),
        };
        let page = |page: u32| &self.entries[page as usize..page as usize + ENTRIES];
        let paths = self.roots[port].iter().enumerate().skip(vpi0 >> 7).filter(|(_, root)| **root != 0);
        paths.flat_map(move |(high, root)| {
            let low0 = if high == vpi0 >> 7 { vpi0 & 127 } else { 0 };
            page(*root).chunks_exact(2).enumerate().skip(low0).flat_map(move |(low, entry)| {
                let vpi = wire::Vpi::truncated((high << 7 | low) as u32);
                let sub = if high << 7 | low == vpi0 { sub0 } else { 0 };
                let own = Some((Label::Vp(vpi), entry[1])).filter(|(_, number)| *number != 0 && sub == 0);
                let vci0 = sub.saturating_sub(1);
                let pages = if entry[0] == 0 { &[] } else { page(entry[0]) };
                let channels = pages.iter().enumerate().skip(vci0 >> 8).filter(|(_, page)| **page != 0);
                own.into_iter().chain(channels.flat_map(move |(high, channels)| {
                    let low0 = if high == vci0 >> 8 { vci0 & 255 } else { 0 };
                    let numbers = page(*channels).iter().enumerate().skip(low0).filter(|(_, number)| **number != 0);
                    numbers.map(move |(low, number)| {
                        let vci = wire::Vci((high << 8 | low) as u16);
                        (Label::Vc(wire::CircuitId { vpi, vci }), *number & !F4_MARK)
                    })
                }))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use wire::{CircuitId, Vpi};

    fn label() -> impl Strategy<Value = Label> {
        // Few values that share pages at every level, and some that do not.
        (
            any::<bool>(),
            prop_oneof![0u16..3, 126u16..130, 4094u16..4096],
            prop_oneof![0u16..6, 254u16..258, 65_534u16..],
        )
            .prop_map(|(path, vpi, vci)| match path {
                true => Label::Vp(Vpi::new(vpi).unwrap()),
                false => Label::Vc(CircuitId::new(vpi, vci).unwrap()),
            })
    }

    proptest! {
        #[test]
        fn an_index_is_a_map_in_which_channels_go_before_paths(
            steps in proptest::collection::vec((0usize..2, label(), 0u32..5), 0..300), pages in 0usize..20,
        ) {
            let (mut index, mut model) = (Index::new(2, pages), BTreeMap::new());
            for (step, (port, label, number)) in steps.into_iter().enumerate() {
                match index.set(port, label, number) {
                    Ok(()) if number == 0 => { model.remove(&(port, label)); }
                    Ok(()) => { model.insert((port, label), number); }
                    Err(NoPage) => prop_assert!(index.pages() + 3 > pages),
                }
                prop_assert!(index.pages() <= pages);
                for port in (0..2).filter(|_| step % 16 == 0) {
                    let mut all: Vec<_> = index.labels(port).collect();
                    all.sort_unstable();
                    let want: Vec<_> =
                        model.iter().filter(|((p, _), _)| *p == port).map(|((_, l), n)| (*l, *n)).collect();
                    prop_assert_eq!(all, want);
                    let in_order: Vec<_> = index.labels(port).collect();
                    let after = index.labels_after(port, Some(label)).collect::<Vec<_>>();
                    if let Some(at) = in_order.iter().position(|(known, _)| *known == label) {
                        prop_assert_eq!(&after[..], &in_order[at + 1..]);
                    } else {
                        prop_assert!(in_order.ends_with(&after));
                    }
                }
                for ((port, label), number) in &model {
                    prop_assert_eq!(index.get(*port, *label), *number);
                    if let Label::Vc(circuit) = label {
                        let word = circuit.key() << 4 | 2;
                        prop_assert_eq!(index.find(*port, word), *number);
                    }
                }
                if let Label::Vc(circuit) = label && !model.contains_key(&(port, label)) {
                    let word = circuit.key() << 4;
                    let path = model.get(&(port, Label::Vp(circuit.vpi))).copied().unwrap_or_default();
                    prop_assert_eq!(index.find(port, word), path);
                }
            }
            for (port, label) in model.keys() {
                index.set(*port, *label, 0).unwrap();
            }
            prop_assert_eq!(index.pages(), 0);
        }
    }
}
