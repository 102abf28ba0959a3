//! What every command gets.

use std::path::PathBuf;

/// The options that all commands share.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    /// The service's socket.
    pub(crate) socket: PathBuf,
    /// Whether results are printed as JSON.
    pub(crate) json: bool,
}
