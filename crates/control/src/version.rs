//! The version of the management protocol.

/// It rises when something that was understood would be understood otherwise.
pub const VERSION: u32 = 2;
