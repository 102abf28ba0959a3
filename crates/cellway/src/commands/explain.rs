//! `cellway explain`: what a reason to drop means, and what to do about it.

use crate::context::Context;
use crate::output;
use anyhow::Result;
use clap::Args;
use clap::builder::PossibleValuesParser;
use control::results::drops::ExplainedReason;
use std::collections::BTreeMap;
use wire::DropReason;

/// Explains a reason to drop: what it means, and what to do about it. Without an argument, lists all reasons.
#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// The reason, as `status` shows it
    #[arg(value_parser = PossibleValuesParser::new(DropReason::ALL.iter().map(|reason| reason.name())), hide_possible_values = true)]
    reason: Option<String>,
}

/// `cellway explain`
pub(crate) fn run(context: &Context, explain: &Explain) -> Result<()> {
    let wanted = explain.reason.as_deref().and_then(DropReason::named);
    let reasons = wanted.map_or_else(|| DropReason::ALL.to_vec(), |one| vec![one]);
    let explained: Vec<ExplainedReason> = reasons.into_iter().map(Into::into).collect();
    output::print(context, &explained, || {
        explained.iter().map(|one| format!("{}: {}\n  -> {}\n", one.reason, one.meaning, one.cure)).collect()
    })
}

/// A line for each reason that occurs, behind the tables; nothing without any.
pub(crate) fn footnotes<'a>(dropped: impl IntoIterator<Item = &'a BTreeMap<String, u64>>) -> String {
    let occurring: std::collections::BTreeSet<DropReason> = dropped
        .into_iter()
        .flat_map(|counts| counts.iter().filter(|(_, n)| **n > 0))
        .filter_map(|(name, _)| DropReason::named(name))
        .collect();
    if occurring.is_empty() {
        return String::new();
    }
    let lines: String = occurring.iter().map(|reason| format!("  {reason}: {}\n", reason.meaning())).collect();
    format!("\ndropped (`cellway explain REASON` says what to do):\n{lines}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_that_occurs_has_one_footnote_and_others_have_none() {
        let counts = |reason: &str, n| BTreeMap::from([(reason.to_owned(), n)]);
        let all = [counts("no_buffer", 3), counts("no_buffer", 1), counts("crc", 0), counts("queue_full", 2)];
        let text = footnotes(&all);
        assert_eq!(text.matches(DropReason::NoBuffer.meaning()).count(), 1, "{text}");
        assert!(text.contains(DropReason::QueueFull.meaning()) && !text.contains("crc:"), "{text}");
        assert_eq!(footnotes(&[counts("crc", 0)]), "");
    }
}
