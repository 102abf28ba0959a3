//! The label table: from port, VPI and VCI to a number of 24 bits, by index alone.
//!
//! | level | by | entry |
//! |---|---|---|
//! | root, a port's | VPI bits 11..7 | page of paths |
//! | page of paths | VPI bits 6..0 | page of channel pages; the path's own number |
//! | page of channel pages | VCI bits 15..8 | page of channels |
//! | page of channels | VCI bits 7..0 | the channel's number |
//!
//! A page is 256 entries of 3 octets. Page 0 is all zero and stands for every page that is not there, and number 0 for
//! "none": a look-up has no branches until its end. The number of a channel of VCI 3 or 4 has its highest bit set: no
//! user data comes under it. A page is allocated by its first entry and given back with its last; their number is
//! bounded.
//!
//! Beside each page of numbers there may be one of [`Outgoing`] entries, 4 octets each: where cells of a channel leave,
//! and as what, without a look at its circuit's line.

use crate::circuit::{Circuit, flag};
use crate::prefetch;
use crate::table::Table;
use wire::Label;

/// Entries of a page.
const ENTRIES: usize = 256;
/// A number or a page's, lowest octet first.
type Entry = [u8; 3];
/// Octets of a page.
pub(crate) const PAGE_OCTETS: usize = ENTRIES * size_of::<Entry>();
/// Entries behind the last page, so that each entry can be read with the octet behind it.
const SPARE: usize = 1;
pub(crate) const ROOTS: usize = 32;
/// Numbers before the mark is set fit into 23 bits.
const F4_MARK: u32 = 1 << 23;
/// The highest number.
pub(crate) const MOST: u32 = F4_MARK - 1;

/// Whether any of some entries has to be looked at: there is no number, or it is of an F4 flow.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rare(u32);

impl Rare {
    /// One less than a number that is not rare has 23 bits.
    #[inline(always)]
    pub(crate) const fn note(&mut self, number: u32) {
        self.0 |= number.wrapping_sub(1);
    }

    #[inline(always)]
    pub(crate) const fn any(self) -> bool {
        self.0 > MOST
    }
}

/// The number at `at`, with its mark: one read of four octets.
#[inline(always)]
fn read(entries: &[Entry], at: usize) -> u32 {
    let octets = entries[at..at + 1 + SPARE].as_flattened().first_chunk();
    u32::from_le_bytes(octets.copied().unwrap_or_default()) & 0x00ff_ffff
}

/// The first place of the page that the entry at `at` names.
#[inline(always)]
fn page_named(entries: &[Entry], at: usize) -> u32 {
    read(entries, at) << 8
}

/// Where cells of a channel leave: the port in the highest octet, the label's VPI and VCI below. 0: the circuit's line
/// tells, or there is no channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Outgoing(u32);

impl Outgoing {
    pub(crate) const NONE: Outgoing = Outgoing(0);

    /// Of a circuit with one branch, where port and VPI fit into 8 bits.
    pub(crate) fn of(circuit: &Circuit) -> Self {
        let key = circuit.label >> 4;
        let fits = circuit.port < 256 && key >> 24 == 0;
        match circuit.has_one_branch() && !circuit.is(flag::PATH) && fits {
            true => Outgoing(u32::from(circuit.port) << 24 | key),
            false => Outgoing::NONE,
        }
    }

    #[inline(always)]
    pub(crate) const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// The header word that a cell leaves with, and the port.
    #[inline(always)]
    pub(crate) const fn translate(self, word: u32) -> (u32, u16) {
        (self.0 << 8 >> 4 | word & 0xf, (self.0 >> 24) as u16)
    }
}

/// No page is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoPage;

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Index {
    roots: Table<[u32; ROOTS]>,
    /// Pages one after another, page 0 first.
    entries: Vec<Entry>,
    /// The same of [`Outgoing`] entries, or empty.
    outgoing: Vec<Outgoing>,
    /// Entries of each page that are not zero.
    used: Vec<u16>,
    free: Vec<u32>,
    max_pages: usize,
}

/// Where a cell's channel entry is, as far as the upper levels tell.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct EntryPlace(u32);

impl EntryPlace {
    /// The number of the entry, as [`Index::outgoing`] has them.
    #[inline(always)]
    pub(crate) const fn entry(self) -> usize {
        self.0 as usize
    }
}

/// The paths of a port with VPIs below 128: their page, found once for many cells.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paths<'a> {
    page: &'a [Entry; ENTRIES],
    entries: &'a [Entry],
}

impl Paths<'_> {
    /// Whether a port's cells may be looked up here, by the header words of all of them or-ed together.
    #[inline(always)]
    pub(crate) const fn hold(words: u32) -> bool {
        words >> 27 == 0
    }

    /// As [`Index::place_of`].
    #[inline(always)]
    pub(crate) fn place_of(self, word: u32) -> EntryPlace {
        let channels = page_named(self.page, (word >> 19) as usize & 0xfe);
        let page = page_named(self.entries, channels as usize + ((word >> 12) as usize & 0xff));
        EntryPlace(page | (word >> 4) & 0xff)
    }
}

impl Index {
    /// An empty table for so many ports, with at most `max_pages` pages.
    pub(crate) fn new(ports: usize, max_pages: usize) -> Self {
        let max_pages = max_pages.min(u32::MAX as usize / ENTRIES - 1);
        let mut entries = Vec::with_capacity((max_pages + 1) * ENTRIES + SPARE);
        prefetch::large_pages(&mut entries);
        entries.resize(ENTRIES + SPARE, Entry::default());
        let mut used = Vec::with_capacity(max_pages + 1);
        used.push(0);
        Index {
            roots: Table::from(vec![[0; ROOTS]; ports]),
            entries,
            outgoing: Vec::new(),
            used,
            free: Vec::new(),
            max_pages,
        }
    }

    /// The same, with [`Outgoing`] entries.
    pub(crate) fn with_outgoing(ports: usize, max_pages: usize) -> Self {
        let index = Index::new(ports, max_pages);
        // Pages of 4 KiB: they are backed one by one as circuits come, and nothing waits for 2 MiB of zeros.
        let mut outgoing = Vec::with_capacity((index.max_pages + 1) * ENTRIES);
        outgoing.resize(ENTRIES, Outgoing::NONE);
        Index { outgoing, ..index }
    }

    /// As [`crate::Switch::touch`].
    pub(crate) fn touch(&mut self) {
        prefetch::first_pages(&mut self.entries);
        prefetch::first_pages(&mut self.used);
    }

    /// Where the tables of its ports begin.
    pub(crate) fn roots(&mut self) -> &mut Table<[u32; ROOTS]> {
        &mut self.roots
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

    /// Octets of the pages, but for those of [`Outgoing`] entries.
    pub(crate) fn octets(&self) -> usize {
        self.used.len() * PAGE_OCTETS
    }

    /// The paths of `port` with VPIs below 128.
    #[inline]
    pub(crate) fn paths(&self, port: usize) -> Option<Paths<'_>> {
        let page = self.entries[self.roots[port][0] as usize..].first_chunk()?;
        Some(Paths { page, entries: &self.entries })
    }

    /// Walks the upper levels.
    #[inline(always)]
    pub(crate) fn place_of(&self, port: usize, word: u32) -> EntryPlace {
        let channels = page_named(&self.entries, self.path_at(port, word >> 20));
        let page = page_named(&self.entries, channels as usize + ((word >> 12) as usize & 0xff));
        EntryPlace(page | (word >> 4) & 0xff)
    }

    /// Asks for the line of an entry.
    #[inline(always)]
    pub(crate) fn prefetch(&self, place: EntryPlace) {
        prefetch::early(&self.entries, place.0 as usize);
    }

    /// Asks for the line of an [`Outgoing`] entry, for use soon.
    #[inline(always)]
    pub(crate) fn prefetch_outgoing(&self, place: EntryPlace) {
        prefetch::line(&self.outgoing, place.0 as usize);
    }

    /// The number of the channel at `place`, else 0. For VCI 3 and 4 it is more than any number.
    #[inline(always)]
    pub(crate) fn channel(&self, place: EntryPlace) -> u32 {
        read(&self.entries, place.0 as usize)
    }

    /// The [`Outgoing`] entries, by the place of a channel's.
    #[inline(always)]
    pub(crate) fn outgoing(&self) -> &[Outgoing] {
        &self.outgoing
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
        read(&self.entries, self.path_at(port, vpi) + 1)
    }

    /// Whether any channel of this path has an entry: the path ends at this port.
    pub(crate) fn has_channels(&self, port: usize, vpi: u32) -> bool {
        // A page without entries is reserved for a change that is not made yet.
        self.page(page_named(&self.entries, self.path_at(port, vpi))).any(|page| self.used[page as usize] != 0)
    }

    /// The number under exactly this label, else 0.
    pub(crate) fn get(&self, port: usize, label: Label) -> u32 {
        match label {
            Label::Vc(circuit) => self.channel(self.place_of(port, circuit.key() << 4)) & !F4_MARK,
            Label::Vp(vpi) => self.path(port, vpi.get().into()),
        }
    }

    /// The entries of the page that begins at a place.
    fn page(&self, first: u32) -> impl DoubleEndedIterator<Item = u32> + ExactSizeIterator + '_ {
        (0..ENTRIES).map(move |at| read(&self.entries, first as usize + at))
    }

    /// A page that was in no use, as entries name it.
    fn new_page(&mut self) -> Result<u32, NoPage> {
        if let Some(page) = self.free.pop() {
            return Ok(page);
        }
        if self.used.len() > self.max_pages {
            return Err(NoPage);
        }
        self.entries.resize(self.entries.len() + ENTRIES, Entry::default());
        if !self.outgoing.is_empty() {
            self.outgoing.resize(self.outgoing.len() + ENTRIES, Outgoing::NONE);
        }
        self.used.push(0);
        Ok((self.used.len() - 1) as u32)
    }

    fn write(&mut self, at: usize, value: u32) {
        let (used, had) = (&mut self.used[at / ENTRIES], read(&self.entries, at));
        *used = used.wrapping_add(u16::from(value != 0)).wrapping_sub(u16::from(had != 0));
        let [low, middle, high, _] = value.to_le_bytes();
        self.entries[at] = [low, middle, high];
    }

    /// The first place of the page that the entry at `at` names, made if it is not there.
    fn below(&mut self, at: usize) -> Result<usize, NoPage> {
        if read(&self.entries, at) == 0 {
            let page = self.new_page()?;
            self.write(at, page);
        }
        Ok(page_named(&self.entries, at) as usize)
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
            self.roots[port][vpi >> 7] = self.new_page()? << 8;
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

    /// Sets a label's number, and where its cells leave; 0 takes the entry away, with pages that are empty then.
    ///
    /// # Errors
    /// [`NoPage`], and nothing has changed.
    pub(crate) fn set(&mut self, port: usize, label: Label, value: u32, leaves: Outgoing) -> Result<(), NoPage> {
        if value == 0 {
            self.remove(port, label);
            return Ok(());
        }
        self.reserve(port, label)?;
        let at = self.place(port, label)?;
        let is_f4 = matches!(label, Label::Vc(circuit) if matches!(circuit.vci.get(), 3 | 4));
        self.write(at, if is_f4 { value | F4_MARK } else { value });
        self.write_outgoing(at, if is_f4 { Outgoing::NONE } else { leaves });
        Ok(())
    }

    fn write_outgoing(&mut self, at: usize, leaves: Outgoing) {
        if let Some(entry) = self.outgoing.get_mut(at) {
            *entry = leaves;
        }
    }

    fn give_back(&mut self, at: usize) {
        let page = read(&self.entries, at);
        if page != 0 && self.used[page as usize] == 0 {
            self.free.push(page);
            self.write(at, 0);
        }
    }

    fn remove(&mut self, port: usize, label: Label) {
        if self.get(port, label) != 0
            && let Ok(at) = self.place(port, label)
        {
            self.write(at, 0);
            self.write_outgoing(at, Outgoing::NONE);
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
        let channels = page_named(&self.entries, path) as usize;
        if let Some(vci) = vci.filter(|_| channels != 0) {
            self.give_back(channels + usize::from(vci >> 8));
            self.give_back(path);
        }
        let root = usize::from(vpi >> 7);
        let page = self.roots[port][root] >> 8;
        if page != 0 && self.used[page as usize] == 0 {
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
        let paths = self.roots[port].iter().enumerate().skip(vpi0 >> 7).filter(|(_, root)| **root != 0);
        paths.flat_map(move |(high, root)| {
            let low0 = if high == vpi0 >> 7 { vpi0 & 127 } else { 0 };
            (low0..ENTRIES / 2).flat_map(move |low| {
                let vpi = wire::Vpi::truncated((high << 7 | low) as u32);
                let sub = if high << 7 | low == vpi0 { sub0 } else { 0 };
                let path = *root as usize + low * 2;
                let (channels, number) = (page_named(&self.entries, path), read(&self.entries, path + 1));
                let own = Some((Label::Vp(vpi), number)).filter(|(_, number)| *number != 0 && sub == 0);
                own.into_iter().chain(self.channels(vpi, channels, sub.saturating_sub(1)))
            })
        })
    }

    /// The labels of a path's channels from VCI `vci0` on, by the page of their pages.
    fn channels(&self, vpi: wire::Vpi, first: u32, vci0: usize) -> impl Iterator<Item = (Label, u32)> + '_ {
        let pages = if first == 0 { 0 } else { ENTRIES };
        let pages = self.page(first).take(pages).enumerate().skip(vci0 >> 8).filter(|(_, page)| *page != 0);
        pages.flat_map(move |(high, page)| {
            let low0 = if high == vci0 >> 8 { vci0 & 255 } else { 0 };
            let numbers = self.page(page << 8).enumerate().skip(low0).filter(|(_, number)| *number != 0);
            numbers.map(move |(low, number)| {
                let vci = wire::Vci((high << 8 | low) as u16);
                (Label::Vc(wire::CircuitId { vpi, vci }), number & !F4_MARK)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::circuit::label_word;
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

    fn leaves(port: u16, vpi: u16, vci: u16) -> Circuit {
        let label = label_word(Label::Vc(CircuitId::new(vpi, vci).unwrap()));
        Circuit { port, label, flags: flag::LIVE, ..Circuit::default() }
    }

    #[test]
    fn an_entry_says_where_cells_leave_if_its_octets_hold_it() {
        for (port, vpi, vci) in [(0, 0, 1), (255, 255, 65_535), (7, 200, 32), (1, 0, 0)] {
            let circuit = leaves(port, vpi, vci);
            for word in [0, 0xffff_ffff, 0x0012_345b] {
                assert_eq!(Outgoing::of(&circuit).translate(word), (circuit.translate(word), port));
            }
            assert!(!Outgoing::of(&circuit).is_none());
        }
        let plain = leaves(1, 2, 300);
        let path = Circuit { flags: flag::LIVE | flag::PATH, ..plain };
        let root = Circuit { flags: flag::LIVE | flag::ROOT, ..plain };
        for circuit in [leaves(256, 0, 32), leaves(0, 256, 32), leaves(0, 0, 0), path, root, Circuit::default()] {
            assert!(Outgoing::of(&circuit).is_none(), "{circuit:?}");
        }
    }

    fn is_rare(number: u32) -> bool {
        let mut rare = Rare::default();
        rare.note(number);
        rare.any()
    }

    #[test]
    fn numbers_are_of_23_bits_and_no_number_and_those_of_f4_flows_are_rare() {
        let mut index = Index::new(1, 10);
        for number in [1, 0xff, 0x0100, 0x00ff_ff00 & MOST, 0x0012_3456, MOST] {
            for vci in [32, 33, 255, 256] {
                let label = Label::Vc(CircuitId::new(0, vci).unwrap());
                index.set(0, label, number, Outgoing::NONE).unwrap();
                assert_eq!(index.get(0, label), number);
                assert_eq!(index.channel(index.place_of(0, u32::from(vci) << 4)), number);
            }
            let f4 = Label::Vc(CircuitId::new(0, 3).unwrap());
            index.set(0, f4, number, Outgoing::NONE).unwrap();
            assert_eq!(index.get(0, f4), number);
            assert!(!is_rare(number) && is_rare(index.channel(index.place_of(0, 3 << 4))));
        }
        assert!(is_rare(0));
        let mut rare = Rare::default();
        [MOST, 1, 2].into_iter().for_each(|number| rare.note(number));
        assert!(!rare.any());
        [MOST, 0, 2].into_iter().for_each(|number| rare.note(number));
        assert!(rare.any());
    }

    proptest! {
        #[test]
        fn an_index_is_a_map_in_which_channels_go_before_paths(
            steps in proptest::collection::vec((0usize..2, label(), 0u32..5), 0..300), pages in 0usize..20,
        ) {
            let (mut index, mut model) = (Index::with_outgoing(2, pages), BTreeMap::new());
            let mut outgoing = BTreeMap::new();
            for (step, (port, label, number)) in steps.into_iter().enumerate() {
                let leaves = match label {
                    Label::Vc(_) => Outgoing::of(&leaves(port as u16, number as u16, step as u16)),
                    Label::Vp(_) => Outgoing::NONE,
                };
                match index.set(port, label, number, leaves) {
                    Ok(()) if number == 0 => { model.remove(&(port, label)); }
                    Ok(()) => {
                        model.insert((port, label), number);
                        outgoing.insert((port, label), leaves);
                    }
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
                        let f4 = matches!(circuit.vci.get(), 3 | 4);
                        let leaves = if f4 { Outgoing::NONE } else { outgoing[&(*port, *label)] };
                        prop_assert_eq!(index.outgoing()[index.place_of(*port, word).entry()], leaves);
                    }
                }
                if let Label::Vc(circuit) = label && !model.contains_key(&(port, label)) {
                    let word = circuit.key() << 4;
                    let path = model.get(&(port, Label::Vp(circuit.vpi))).copied().unwrap_or_default();
                    prop_assert_eq!(index.find(port, word), path);
                    prop_assert!(index.outgoing()[index.place_of(port, word).entry()].is_none());
                }
            }
            for (port, label) in model.keys() {
                index.set(*port, *label, 0, Outgoing::NONE).unwrap();
            }
            prop_assert_eq!(index.pages(), 0);
        }
    }
}
