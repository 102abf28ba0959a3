//! The scatter-gather list: where the octets of an SDU lie, piece by piece, as physical pages have them.

/// A page frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Frame(pub u32);

/// Octets in one frame, or in frames that follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// The first frame.
    pub frame: Frame,
    /// Where in it they begin.
    pub offset: usize,
    /// How many.
    pub octets: usize,
}

/// An SDU's extents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gather {
    page: usize,
    extents: Vec<Extent>,
    octets: usize,
}

impl Gather {
    /// Of nothing yet; `page` is the octets of a frame.
    pub const fn new(page: usize) -> Self {
        Gather { page, extents: Vec::new(), octets: 0 }
    }

    /// Adds octets from `offset` of `frame` on; what follows the last extent in memory makes that one longer.
    pub fn push(&mut self, frame: Frame, offset: usize, octets: usize) {
        let address = |frame: Frame, offset: usize| frame.0 as usize * self.page + offset;
        self.octets += octets;
        match self.extents.last_mut() {
            Some(last) if address(last.frame, last.offset) + last.octets == address(frame, offset) => {
                last.octets += octets;
            }
            _ if octets == 0 => {}
            _ => {
                let frame = Frame(frame.0 + (offset / self.page) as u32);
                self.extents.push(Extent { frame, offset: offset % self.page, octets });
            }
        }
    }

    /// The extents in order.
    pub fn extents(&self) -> &[Extent] {
        &self.extents
    }

    /// Octets of a page.
    pub const fn page(&self) -> usize {
        self.page
    }

    /// Octets of the SDU.
    pub const fn octets(&self) -> usize {
        self.octets
    }

    /// The part of the SDU from octet `at` on, `octets` long or as long as there is.
    pub fn part(&self, at: usize, octets: usize) -> Gather {
        let mut part = Gather::new(self.page);
        let (mut skip, mut left) = (at, octets);
        for extent in &self.extents {
            let from = skip.min(extent.octets);
            let n = left.min(extent.octets - from);
            part.push(extent.frame, extent.offset + from, n);
            (skip, left) = (skip - from, left - n);
        }
        part
    }

    /// The pages of the SDU: each extent cut where a frame ends.
    pub fn pages(&self) -> impl Iterator<Item = Extent> + '_ {
        let page = self.page;
        self.extents.iter().flat_map(move |extent| {
            let (mut at, end) = (extent.offset, extent.offset + extent.octets);
            std::iter::from_fn(move || {
                let octets = (page - at % page).min(end - at);
                let frame = Frame(extent.frame.0 + (at / page) as u32);
                let piece = (octets > 0).then_some(Extent { frame, offset: at % page, octets });
                at += octets;
                piece
            })
        })
    }

    /// Cuts off what is behind octet `octets`.
    pub fn truncate(&mut self, octets: usize) {
        *self = self.part(0, octets);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parts_and_pages_name_the_same_octets(
            pieces in prop::collection::vec((0u32..8, 0usize..64, 1usize..200), 0..6), at in 0usize..300, octets in 0usize..300,
        ) {
            let mut gather = Gather::new(64);
            let mut plain = Vec::new();
            for (frame, offset, octets) in pieces {
                gather.push(Frame(frame), offset, octets);
                plain.extend((0..octets).map(|n| frame as usize * 64 + offset + n));
            }
            let of = |gather: &Gather| gather.pages().flat_map(|e| {
                assert!(e.offset + e.octets <= 64);
                (0..e.octets).map(move |n| e.frame.0 as usize * 64 + e.offset + n)
            }).collect::<Vec<_>>();
            prop_assert_eq!(of(&gather), plain.clone());
            prop_assert_eq!(gather.octets(), plain.len());
            let end = plain.len().min(at + octets);
            prop_assert_eq!(of(&gather.part(at, octets)), plain.get(at..end).unwrap_or_default());
        }
    }
}
