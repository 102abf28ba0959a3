//! Service categories of the ATM Forum.

use core::fmt;

/// Service categories of TM 4.0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Category {
    /// Constant bit rate.
    Cbr,
    /// Variable bit rate, real time.
    RtVbr,
    /// Variable bit rate, not real time.
    NrtVbr,
    /// Available bit rate.
    Abr,
    /// Guaranteed frame rate: whole frames at a minimum rate.
    Gfr,
    /// Unspecified bit rate: best effort.
    #[default]
    Ubr,
}

impl Category {
    /// All of them, by falling priority.
    pub const ALL: [Category; 6] =
        [Category::Cbr, Category::RtVbr, Category::NrtVbr, Category::Abr, Category::Gfr, Category::Ubr];

    /// The name in files and output.
    pub const fn name(self) -> &'static str {
        match self {
            Category::Cbr => "cbr",
            Category::RtVbr => "rt-vbr",
            Category::NrtVbr => "nrt-vbr",
            Category::Abr => "abr",
            Category::Gfr => "gfr",
            Category::Ubr => "ubr",
        }
    }
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
