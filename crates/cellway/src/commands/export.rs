//! `cellway export` and `cellway reset`: the running network as a description, and back to its description.

use crate::client::{ask_for, change};
use crate::commands::apply;
use crate::context::Context;
use crate::output;
use anyhow::Result;
use clap::Args;
use control::protocol::{Applied, Exported, Request};

/// Print the running network as a description that `apply` finds unchanged: the description that was read last, with
/// what commands have added, removed, taken down and up. Paths are absolute. Circuits of calls and of peers are left out
#[derive(Debug, Args)]
pub(crate) struct Export {}

/// Make the network what its description says again: what commands have added is removed, what they removed is there
/// again, and links are up or down as the description has them. Calls and counters stay
#[derive(Debug, Args)]
pub(crate) struct Reset {
    /// Show the changes and make none; exit status 4 if there are any
    #[arg(long)]
    dry_run: bool,
    /// Only if this is the number of the last change; otherwise exit status 5, and what has changed since
    #[arg(long, value_name = "REVISION")]
    expect: Option<u64>,
}

/// `cellway export`
pub(crate) fn run(context: &Context, _: &Export) -> Result<()> {
    let exported: Exported = ask_for(context, &Request::Export)?;
    output::print(context, &exported, || exported.description.clone())
}

/// `cellway reset`
pub(crate) fn reset(context: &Context, reset: &Reset) -> Result<()> {
    let applied: Applied = change(context, &Request::Reset { dry_run: reset.dry_run }, reset.expect)?;
    apply::report(context, &applied)
}
