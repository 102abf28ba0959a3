//! Finding cells in a stream of octets (I.432.1 section 4.3.3): the header error control itself marks the boundaries.
//! And the self-synchronising scrambler of the payload (section 4.3.4), which keeps a payload from imitating headers.
//!
//! In: octets as a physical layer gives them, byte-aligned as in SDH and SONET. Out: 53-octet cells, once in `Sync`.

use crate::cell::CELL_OCTETS;
use crate::hec::{Receiver, Verdict, syndrome};

/// Wrong headers in a row that lose synchronism.
pub const ALPHA: u8 = 7;
/// Right headers in a row, after the first, that gain it.
pub const DELTA: u8 = 6;

const HEADER_OCTETS: usize = 5;

/// How sure the receiver is of the boundaries (I.432.1 figure 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum State {
    /// Looking at every octet for a right header.
    #[default]
    Hunt,
    /// One was found; the next [`DELTA`] must be right where they are due.
    Presync,
    /// Cells are handed on.
    Sync,
}

/// What an octet has brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Nothing yet.
    More,
    /// A cell: its header right or put right, its payload as it stood on the line.
    Cell([u8; CELL_OCTETS]),
    /// A cell whose header could not be put right is dropped.
    HeaderError,
    /// [`ALPHA`] wrong headers in a row: back to `Hunt`.
    Lost,
}

/// The receiver of one direction of a line.
#[derive(Debug, Clone)]
pub struct Delineation {
    state: State,
    /// Right headers in `Presync`, wrong ones in `Sync`.
    run: u8,
    cell: [u8; CELL_OCTETS],
    /// Octets of `cell` that have come; in `Hunt` of its header.
    filled: usize,
    header: Receiver,
    drop_this: bool,
}

impl Default for Delineation {
    fn default() -> Self {
        Delineation {
            state: State::Hunt,
            run: 0,
            cell: [0; CELL_OCTETS],
            filled: 0,
            header: Receiver::default(),
            drop_this: false,
        }
    }
}

impl Delineation {
    /// How sure it is.
    pub const fn state(&self) -> State {
        self.state
    }

    /// Takes the next octet.
    pub fn handle_octet(&mut self, octet: u8) -> Event {
        if self.state == State::Hunt && self.filled == HEADER_OCTETS {
            self.cell.copy_within(1..HEADER_OCTETS, 0);
            self.filled -= 1;
        }
        self.cell[self.filled] = octet;
        self.filled += 1;
        if self.filled == HEADER_OCTETS {
            return self.handle_header();
        }
        if self.filled < CELL_OCTETS {
            return Event::More;
        }
        self.filled = 0;
        match self.state {
            State::Sync if !self.drop_this => Event::Cell(self.cell),
            _ => Event::More,
        }
    }

    fn handle_header(&mut self) -> Event {
        let mut header = [0; HEADER_OCTETS];
        header.copy_from_slice(&self.cell[..HEADER_OCTETS]);
        let right = syndrome(header) == 0;
        match self.state {
            State::Hunt if right => self.enter(State::Presync),
            State::Hunt => {}
            // The octets of this header stay in the window: a boundary may lie among them.
            State::Presync if !right => self.enter(State::Hunt),
            State::Presync => {
                self.run += 1;
                if self.run == DELTA {
                    self.enter(State::Sync);
                }
            }
            State::Sync => return self.handle_header_in_sync(header, right),
        }
        Event::More
    }

    fn handle_header_in_sync(&mut self, mut header: [u8; HEADER_OCTETS], right: bool) -> Event {
        self.run = if right { 0 } else { self.run + 1 };
        if self.run == ALPHA {
            self.enter(State::Hunt);
            return Event::Lost;
        }
        self.drop_this = self.header.check(&mut header) == Verdict::Bad;
        self.cell[..HEADER_OCTETS].copy_from_slice(&header);
        if self.drop_this { Event::HeaderError } else { Event::More }
    }

    fn enter(&mut self, state: State) {
        self.state = state;
        self.run = 0;
        self.header = Receiver::default();
        self.drop_this = false;
    }
}

/// The scrambler x^43+1 over the payloads of a line's cells; headers pass by it. One for each direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Scrambler {
    /// The last 43 bits that stood on the line, the latest lowest.
    line: u64,
}

impl Scrambler {
    /// Scrambles a payload on its way to the line.
    pub fn scramble(&mut self, payload: &mut [u8]) {
        for octet in payload {
            *octet ^= self.earlier();
            self.line = self.line << 8 | u64::from(*octet);
        }
    }

    /// Brings a payload from the line back. Right from the 44th bit on, wherever it starts.
    pub fn descramble(&mut self, payload: &mut [u8]) {
        for octet in payload {
            let on_line = *octet;
            *octet ^= self.earlier();
            self.line = self.line << 8 | u64::from(on_line);
        }
    }

    /// The eight bits that stood on the line 43 bits before the next eight.
    const fn earlier(self) -> u8 {
        (self.line >> 35) as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hec;
    use proptest::prelude::*;
    use std::vec::Vec;

    /// A cell of this header word; its payload holds no right header at any octet.
    fn cell(word: u32) -> [u8; CELL_OCTETS] {
        let mut cell = [0xa5; CELL_OCTETS];
        cell[..4].copy_from_slice(&word.to_be_bytes());
        cell[4] = hec::generate(word.to_be_bytes());
        cell
    }

    fn feed(receiver: &mut Delineation, octets: &[u8]) -> Vec<Event> {
        octets.iter().map(|o| receiver.handle_octet(*o)).filter(|e| *e != Event::More).collect()
    }

    fn in_sync() -> Delineation {
        let mut receiver = Delineation::default();
        for _ in 0..=DELTA {
            feed(&mut receiver, &cell(0x0012_3450));
        }
        assert_eq!(receiver.state(), State::Sync);
        receiver
    }

    #[test]
    fn synchronism_is_gained_by_six_right_headers_after_the_first() {
        let mut receiver = Delineation::default();
        for n in 0..DELTA {
            assert_eq!(feed(&mut receiver, &cell(0x640)), [], "cell {n}");
            assert_eq!(receiver.state(), State::Presync);
        }
        assert_eq!(feed(&mut receiver, &cell(0x640)), [Event::Cell(cell(0x640))]);
    }

    #[test]
    fn a_wrong_header_in_presync_starts_the_hunt_again() {
        let mut receiver = Delineation::default();
        feed(&mut receiver, &cell(0x640));
        let mut wrong = cell(0x640);
        wrong[0] ^= 0xff;
        feed(&mut receiver, &wrong[..HEADER_OCTETS]);
        assert_eq!(receiver.state(), State::Hunt);
    }

    #[test]
    fn seven_wrong_headers_in_a_row_lose_synchronism_and_six_do_not() {
        let mut wrong = cell(0x640);
        wrong[0] ^= 0xff;
        let mut receiver = in_sync();
        for _ in 1..ALPHA {
            assert_eq!(feed(&mut receiver, &wrong), [Event::HeaderError]);
        }
        assert_eq!(feed(&mut receiver, &cell(0x640)), [Event::Cell(cell(0x640))]);
        for _ in 1..ALPHA {
            feed(&mut receiver, &wrong);
        }
        assert_eq!(feed(&mut receiver, &wrong[..HEADER_OCTETS]), [Event::Lost]);
        assert_eq!(receiver.state(), State::Hunt);
    }

    #[test]
    fn a_single_wrong_bit_in_a_header_is_put_right_in_sync() {
        let mut wrong = cell(0x640);
        wrong[2] ^= 0x10;
        assert_eq!(feed(&mut in_sync(), &wrong), [Event::Cell(cell(0x640))]);
    }

    #[test]
    fn the_scrambler_repeats_a_lone_bit_after_43() {
        let mut octets = [0u8; 12];
        octets[0] = 0x80;
        Scrambler::default().scramble(&mut octets);
        // Bits 0, 43 and 86.
        assert_eq!(octets, [0x80, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0x02, 0]);
    }

    proptest! {
        #[test]
        fn cells_are_found_behind_any_octets(noise in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut receiver = Delineation::default();
            feed(&mut receiver, &noise);
            let found: Vec<_> = (0..40).flat_map(|_| feed(&mut receiver, &cell(0x0012_3450))).collect();
            prop_assert_eq!(found.last(), Some(&Event::Cell(cell(0x0012_3450))));
        }

        #[test]
        fn what_was_scrambled_comes_back_wherever_one_starts(payload in proptest::collection::vec(any::<u8>(), 6..200), other: u64) {
            let mut line = payload.clone();
            Scrambler::default().scramble(&mut line);
            let mut same = line.clone();
            Scrambler::default().descramble(&mut same);
            prop_assert_eq!(&same, &payload);
            Scrambler { line: other }.descramble(&mut line);
            prop_assert_eq!(&line[6..], &payload[6..]);
        }
    }
}
