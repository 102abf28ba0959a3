//! Conformance definitions (TM 4.1 section 4.5): which cells of a connection conform to its contract, and which may be
//! tagged.

use crate::category::Category;
use core::fmt;
use core::str::FromStr;

/// A conformance definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Conformance {
    /// GCRA(1/PCR, CDVT) on CLP 0+1.
    Cbr1,
    /// Peak rate on CLP 0+1, sustainable rate on CLP 0+1.
    Vbr1,
    /// Peak rate on CLP 0+1, sustainable rate on CLP 0; nothing is tagged.
    Vbr2,
    /// As VBR.2, and a CLP 0 cell beyond the sustainable rate is tagged.
    Vbr3,
    /// Peak rate on CLP 0+1 where there is one.
    Ubr1,
    /// As UBR.1, and the network may tag any cell.
    Ubr2,
    /// Peak rate on CLP 0, at which ABR is sent here.
    Abr1,
    /// Peak rate on CLP 0+1, frames of one loss priority and at most MFS cells; nothing is tagged.
    Gfr1,
    /// As GFR.1, and frames beyond the minimum rate are tagged whole.
    Gfr2,
}

impl Conformance {
    /// All of them.
    pub const ALL: [Conformance; 9] = [
        Conformance::Cbr1,
        Conformance::Vbr1,
        Conformance::Vbr2,
        Conformance::Vbr3,
        Conformance::Ubr1,
        Conformance::Ubr2,
        Conformance::Abr1,
        Conformance::Gfr1,
        Conformance::Gfr2,
    ];

    /// The name in files and output.
    pub const fn name(self) -> &'static str {
        match self {
            Conformance::Cbr1 => "cbr.1",
            Conformance::Vbr1 => "vbr.1",
            Conformance::Vbr2 => "vbr.2",
            Conformance::Vbr3 => "vbr.3",
            Conformance::Ubr1 => "ubr.1",
            Conformance::Ubr2 => "ubr.2",
            Conformance::Abr1 => "abr.1",
            Conformance::Gfr1 => "gfr.1",
            Conformance::Gfr2 => "gfr.2",
        }
    }

    /// The first definition of a category.
    pub const fn default_of(category: Category) -> Self {
        match category {
            Category::Cbr => Conformance::Cbr1,
            Category::RtVbr | Category::NrtVbr => Conformance::Vbr1,
            Category::Abr => Conformance::Abr1,
            Category::Gfr => Conformance::Gfr1,
            Category::Ubr => Conformance::Ubr1,
        }
    }

    /// Whether a category has it.
    pub const fn is_of(self, category: Category) -> bool {
        match self {
            Conformance::Cbr1 => matches!(category, Category::Cbr),
            Conformance::Vbr1 | Conformance::Vbr2 | Conformance::Vbr3 => {
                matches!(category, Category::RtVbr | Category::NrtVbr)
            }
            Conformance::Ubr1 | Conformance::Ubr2 => matches!(category, Category::Ubr),
            Conformance::Abr1 => matches!(category, Category::Abr),
            Conformance::Gfr1 | Conformance::Gfr2 => matches!(category, Category::Gfr),
        }
    }

    /// The definitions of a category, in words.
    pub const fn names_of(category: Category) -> &'static str {
        match category {
            Category::Cbr => "cbr.1",
            Category::RtVbr | Category::NrtVbr => "vbr.1, vbr.2 or vbr.3",
            Category::Abr => "abr.1",
            Category::Gfr => "gfr.1 or gfr.2",
            Category::Ubr => "ubr.1 or ubr.2",
        }
    }

    /// Whether cells or frames beyond the contract are tagged (CLP set to 1) rather than discarded or left alone.
    pub const fn tags(self) -> bool {
        matches!(self, Conformance::Vbr3 | Conformance::Ubr2 | Conformance::Gfr2)
    }

    /// Whether the sustainable rate is tested on CLP 0 cells only.
    pub const fn exempts_low_priority(self) -> bool {
        matches!(self, Conformance::Vbr2 | Conformance::Vbr3)
    }
}

impl fmt::Display for Conformance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Text that names no conformance definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no conformance definition: write cbr.1, vbr.1, vbr.2, vbr.3, abr.1, gfr.1, gfr.2, ubr.1 or ubr.2")]
pub struct UnknownConformance;

impl FromStr for Conformance {
    type Err = UnknownConformance;
    fn from_str(s: &str) -> Result<Self, UnknownConformance> {
        Conformance::ALL.into_iter().find(|c| c.name() == s).ok_or(UnknownConformance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_definition_is_read_by_its_name_and_each_category_has_its_own() {
        for conformance in Conformance::ALL {
            assert_eq!(conformance.name().parse(), Ok(conformance));
            let categories = Category::ALL.into_iter().filter(|category| conformance.is_of(*category));
            assert!(categories.clone().count() >= 1);
            assert!(
                categories.into_iter().all(|category| Conformance::names_of(category).contains(conformance.name()))
            );
        }
        for category in Category::ALL {
            assert!(Conformance::default_of(category).is_of(category));
        }
    }
}
