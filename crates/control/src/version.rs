//! The version of the management protocol.

/// It rises with requests, and when something that was understood would be understood otherwise.
pub const VERSION: u32 = 2;
/// The oldest version that is understood: later ones have more requests and fields, and changed none.
pub const OLDEST: u32 = 1;
