//! Reception into pages (Almesberger 1995, sections 3.3 and 3.4): the PDU is still in the adapter, so the interrupt handler looks at
//! its headers, knows the application, and puts the PDU where its data lie as in that application's buffer.

use super::{Eni, Received};
use bus::iocc::PAGE;
use bus::sockets::Whose;
use remap::Runs;
use remap::align::Wanted;
use remap::look::{HEADERS, Length, Look};
use std::collections::BTreeMap;
use wire::aal5::MAX_SDU_OCTETS;

/// What is wanted in front of the data, and where they begin in their page.
#[derive(Debug, Clone, Copy)]
struct Want {
    /// The application's own header.
    header: usize,
    placement: usize,
}

/// Pages for one PDU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row {
    /// The first page, by its number on the bus, and how many.
    first: u32,
    pages: u32,
    /// Where the PDU begins.
    at: u32,
    /// Octets of the PDU that are fetched.
    octets: u32,
    /// What the interrupt handler saw, if it guessed by that.
    look: Option<Look>,
}

impl Row {
    pub(super) fn address(&self) -> u64 {
        u64::from(self.first) * PAGE as u64 + u64::from(self.at)
    }

    pub(super) const fn octets(&self) -> u32 {
        self.octets
    }
}

/// Where PDUs are put.
#[derive(Debug)]
pub(super) struct Placing {
    runs: Runs,
    control: usize,
    wants: BTreeMap<Whose, Want>,
    length: Length,
}

impl Placing {
    /// Pages for a PDU of `octets` octets, which the adapter has: `word` reads it.
    pub(super) fn place(&mut self, vci: u32, octets: usize, mut word: impl FnMut(usize) -> u32) -> Option<Row> {
        let (headers, want, look) = match self.wants.get(&Whose::Circuit(vci)) {
            Some(want) => (0, Some(*want), None),
            None => {
                let look = Look::new(octets, &mut word);
                let want = look.and_then(|look| self.wants.get(&Whose::Flow(look.flow)).copied());
                (HEADERS, want, look.filter(|_| want.is_some()))
            }
        };
        let at = want.map_or(self.control, |want| {
            let wanted = Wanted { control: self.control, headers: headers + want.header, placement: want.placement };
            wanted.pdu_at(PAGE)
        });
        // DMA writes whole words to multiples of a word: what is wanted elsewhere is copied later.
        let at = if at.is_multiple_of(4) { at } else { self.control };
        let octets = match (self.length, look) {
            (Length::Udp, Some(look)) => look.pdu_octets(octets, word),
            _ => octets,
        };
        let room = if self.length == Length::Longest { MAX_SDU_OCTETS } else { octets };
        let pages = (at + room.next_multiple_of(4)).div_ceil(PAGE) as u32;
        let first = self.runs.take(pages)?;
        Some(Row { first, pages, at: at as u32, octets: octets as u32, look })
    }
}

impl Eni {
    /// PDUs of AAL5 come to pages from now on, of which there are none yet. `control` octets at the beginning of each PDU's first page
    /// are left to the host's control information; a multiple of four.
    pub fn receive_into_pages(&mut self, control: usize) {
        let control = control.next_multiple_of(4);
        self.placing =
            Some(Placing { runs: Runs::default(), control, wants: BTreeMap::new(), length: Length::default() });
    }

    /// Pages are taken by this length, from the next PDU on; of AAL5, where nothing else is said.
    pub fn allocate_by(&mut self, length: Length) {
        if let Some(placing) = &mut self.placing {
            placing.length = length;
        }
    }

    /// Gives pages to receive into: `pages` of them from bus address `address` on.
    pub fn supply(&mut self, address: u64, pages: u32) {
        if let Some(placing) = &mut self.placing {
            placing.runs.give((address / PAGE as u64) as u32, pages);
        }
    }

    /// Pages that PDUs can come to.
    pub fn pages(&self) -> u32 {
        self.placing.as_ref().map_or(0, |placing| placing.runs.free())
    }

    /// Data for an application are wanted `placement` octets behind the beginning of a page, from the next PDU on; `header` octets of
    /// the application's own stand before them. `None`: it wants nothing more.
    pub fn want(&mut self, whose: Whose, header: usize, placement: Option<usize>) {
        let Some(placing) = &mut self.placing else { return };
        match placement {
            Some(placement) => placing.wants.insert(whose, Want { header, placement }),
            None => placing.wants.remove(&whose),
        };
    }

    /// The SDU is no longer needed: those of its pages that are still the driver's can be received into again, the others are gone.
    pub fn release_pages(&mut self, received: Received, is_ours: impl Fn(u64) -> bool) {
        let (Some(row), Some(placing)) = (received.row, &mut self.placing) else { return };
        for page in (row.first..row.first + row.pages).filter(|page| is_ours(u64::from(*page) * PAGE as u64)) {
            placing.runs.give(page, 1);
        }
    }
}

impl Received {
    /// Pages that it has.
    pub fn pages(&self) -> u32 {
        self.row.map_or(0, |row| row.pages)
    }

    /// What the interrupt handler saw in the PDU's headers, if it put the PDU somewhere for that.
    pub fn look(&self) -> Option<Look> {
        self.row.and_then(|row| row.look)
    }
}
