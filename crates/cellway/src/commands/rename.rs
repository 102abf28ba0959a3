//! `cellway rename`: another name of a host or switch, while it runs.

use crate::client::ask_for;
use crate::context::Context;
use crate::output;
use anyhow::Result;
use clap::Args;
use control::protocol::{Done, Request};

/// Give a host or switch another name. Its links, circuits and endpoints stay as they are, and nothing that passes is
/// interrupted. Programs that know the former name go on with it. A description that still has the former name is read
/// with the new one. A station with signalling cannot be renamed
#[derive(Debug, Args)]
pub(crate) struct Rename {
    /// The name that it has
    from: String,
    /// The name that it is to have
    to: String,
}

/// `cellway rename`
pub(crate) fn run(context: &Context, Rename { from, to }: &Rename) -> Result<()> {
    let done: Done = ask_for(context, &Request::Rename { from: from.clone(), to: to.clone() })?;
    output::print(context, &done, || format!("{from} is called {to} now"))
}
