//! Captures, the daemon's side: a thread takes records from a link's tap ([`pump`]) and writes them to a recorder
//! ([`stream`]).

pub mod pump;
pub mod stream;

/// What the service keeps by default for a recorder that is behind, in MiB.
pub const BUFFER_MIB: u32 = 32;
/// What it keeps at most.
pub const MAX_BUFFER_MIB: u32 = 4096;
