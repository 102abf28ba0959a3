//! What every command gets.

use std::path::PathBuf;

/// The options that all commands share.
#[derive(Debug, Clone)]
pub struct Context {
    /// The service's socket.
    pub socket: PathBuf,
    /// Whether results are printed as JSON.
    pub json: bool,
}
