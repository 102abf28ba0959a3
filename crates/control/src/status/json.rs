//! Long answers as JSON text.

use anyhow::Result;
use serde::Serialize;

/// JSON that is expected to be so long: text that grows by doubling is copied as often.
pub(super) fn json(value: &impl Serialize, octets: usize) -> Result<String> {
    let mut text = Vec::with_capacity(octets + octets / 8 + 4096);
    serde_json::to_writer(&mut text, value)?;
    Ok(String::from_utf8(text)?)
}
