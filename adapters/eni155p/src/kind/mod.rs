//! The ENI155P as a kind of virtual adapter of a daemon: what `[adapter.NAME]` may say, and the server that a guest's
//! machine attaches to.

mod keys;

use crate::Config;
use crate::vfio::apart::Apart;
use crate::vfio::server::Server;
use anyhow::Result;
use control::fault::Faults;
use control::kinds::{AdapterKind, ServedAdapter};
use net::CallShare;
use std::path::Path;

pub use keys::Adapter;

/// The kind of ENI155Ps.
#[derive(Debug)]
pub enum Eni155pKind {}

impl AdapterKind for Eni155pKind {
    type Keys = Adapter;
    type Card = Config;

    const KIND: &'static str = "eni155p";

    fn host(keys: &Adapter) -> &str {
        &keys.host
    }

    fn socket(keys: &Adapter) -> &Path {
        &keys.socket
    }

    fn describe(keys: &Adapter, name: &str) -> Result<Config, Faults> {
        keys.describe(name)
    }

    fn check_labels(_: &Config, calls: &CallShare) -> Result<()> {
        Adapter::check_labels(calls)
    }

    fn serve(card: &Config, socket: &Path, beside: bool) -> Result<ServedAdapter> {
        let listen = if beside { Server::listen_beside } else { Server::listen };
        let made = Apart::start(listen(socket, *card)?)?;
        let place = made.place().clone();
        Ok(ServedAdapter { external: Box::new(made), place })
    }
}
