//! The CAM Lookup Controller (section 3.5.2): which list a cell goes to, and how many clocks finding it takes.
//!
//! The CAMs have a bus of 16 bits. A VCI is one word on it, VCI and MID two. The paper gives the greatest number of
//! clocks, eleven; how they are spent is this unit's:
//!
//! | clocks | for |
//! |---|---|
//! | 1 | take the identifiers from the Cell Manager, select the CAM |
//! | 1 or 2 | write them to the comparand register |
//! | 1 | compare all entries |
//! | 1 | read the match flag and the entry's address |
//! | 1, on a miss | read the flag that says whether an entry is free |
//! | 1 or 2, on a miss | write the identifiers to the entry |
//! | 1, on a miss | mark it valid |
//! | 1, on a miss | read its address |
//! | 1 | hand it to the Linked List Manager |

use super::super::cam::Cam;
use super::super::manager::{Key, Tag};
use super::super::{Config, ListId};
use wire::DropReason;

/// What the lookup hands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// A cell and its list.
    Cell { list: usize, tag: Tag },
    /// The FIFO's next body is to be flushed.
    Flush(DropReason),
    /// The host deleted the list's entry.
    Delete { list: usize },
}

/// Both CAMs.
#[derive(Debug, Clone)]
pub(super) struct Lookup {
    circuits: Cam,
    pdus: Cam,
    begin_only: bool,
}

impl Lookup {
    pub(super) fn new(config: &Config) -> Self {
        let (circuits, pdus) = (Cam::new(config.circuits), Cam::new(config.pdus));
        Lookup { circuits, pdus, begin_only: config.open_at_begin_only }
    }

    /// Finds a list, or takes an entry; with the clocks of it.
    pub(super) fn find(&mut self, key: Key, tag: Tag) -> (Found, u32) {
        let word = key.word();
        let (cam, first, words) = match key {
            Key::Circuit { .. } => (&mut self.circuits, 0, 1),
            Key::Pdu { .. } => (&mut self.pdus, self.circuits.capacity(), 2),
        };
        let compared = 1 + words + 1 + 1;
        if first > 0 && self.begin_only && !tag.begin && cam.find(word).is_none() {
            return (Found::Flush(DropReason::Sequence), compared + 1);
        }
        match cam.find_or_insert(word) {
            Some((entry, false)) => (Found::Cell { list: first + entry, tag }, compared + 1),
            Some((entry, true)) => (Found::Cell { list: first + entry, tag }, compared + 1 + words + 1 + 1 + 1),
            None => (Found::Flush(DropReason::TableFull), compared + 1 + 1),
        }
    }

    /// Removes an entry; with the clocks of it: take the number, invalidate, hand on.
    pub(super) fn delete(&mut self, list: usize) -> Option<(Found, u32)> {
        match list.checked_sub(self.circuits.capacity()) {
            None => self.circuits.remove(list)?,
            Some(entry) => self.pdus.remove(entry)?,
        };
        Some((Found::Delete { list }, 3))
    }

    pub(super) fn key(&self, list: ListId) -> Option<Key> {
        let list = usize::from(list.number());
        match list.checked_sub(self.circuits.capacity()) {
            None => self.circuits.key(list).map(Key::circuit),
            Some(entry) => self.pdus.key(entry).map(Key::pdu),
        }
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = (ListId, Key)> + '_ {
        let lists = self.circuits.capacity() + self.pdus.capacity();
        (0..lists as u16).map(ListId::from_number).filter_map(|list| Some((list, self.key(list)?)))
    }
}
