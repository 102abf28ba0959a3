//! Segmentation and reassembly: cells from SDUs and SDUs from cells.

/// What AAL5 carries beside an SDU (I.363.5), and what the cells of a PDU said of loss priority and congestion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SduMeta {
    /// CPCS user-to-user indication.
    pub uu: u8,
    /// Common part indicator: 0, other values are not yet defined.
    pub cpi: u8,
    /// Cell loss priority: sent on all cells; received if any cell had it.
    pub clp: bool,
    /// Explicit forward congestion indication of the last cell.
    pub congestion: bool,
}
