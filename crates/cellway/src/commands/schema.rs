//! `cellway schema`: the management protocol as a JSON schema, made of the types that the service and the commands use.

use anyhow::Result;
use std::io::Write;

/// `cellway schema`
pub(crate) fn run() -> Result<()> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, &control::protocol::schema())?;
    writeln!(out)?;
    Ok(())
}
