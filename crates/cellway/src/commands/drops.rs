//! `cellway drops`: what was dropped, where and why; with `--follow`, as it happens.

use crate::client::{self, ask_for};
use crate::commands::explain;
use crate::context::Context;
use crate::output;
use anyhow::{Result, bail};
use clap::Args;
use control::drops::{Subject, rows, since};
use control::protocol::Request;
use control::results::drops::Dropped;
use control::status::Status;
use std::collections::BTreeMap;
use std::time::Duration;

/// From one look at the counters to the next, in steps of [`STEP`].
const STEPS: u32 = 5;
const STEP: Duration = Duration::from_millis(50);

/// Shows what was dropped: where, of which circuit, which way and why.
///
/// It reads counters that the network keeps anyway, so that neither it nor --follow slows the network down. In a network
/// of more than 1000 circuits, --follow looks at those that are open or have counted something, 1000 at most.
#[derive(Debug, Args)]
pub(crate) struct Drops {
    /// Only of this circuit ("alpha 0.100"), link, host, switch, or port of a switch
    of: Option<String>,
    /// Print what is dropped from now on, a line for each place and reason, until Ctrl-C
    #[arg(long)]
    follow: bool,
}

/// `cellway drops`
pub(crate) fn run(context: &Context, drops: &Drops) -> Result<()> {
    let stop = client::interrupted()?;
    let status: Status = ask_for(context, &Request::Status)?;
    let subject = match &drops.of {
        None => None,
        Some(name) => match Subject::named(&status, name) {
            None => bail!("{name} is no circuit, link, host or switch: `cellway status` shows their names"),
            subject => subject,
        },
    };
    let wanted = |mut all: Vec<Dropped>| {
        all.retain(|row| subject.as_ref().is_none_or(|subject| subject.covers(row)));
        all
    };
    let mut before = wanted(rows(&status));
    if !drops.follow {
        return output::print(context, &before, || text(&before));
    }
    while client::goes_on(&stop) {
        for _ in 0..STEPS {
            std::thread::sleep(STEP);
            if !client::goes_on(&stop) {
                return Ok(());
            }
        }
        let now = wanted(rows(&ask_for(context, &Request::Overview)?));
        for row in since(&before, now.clone()) {
            if context.json {
                output::say(&row)?;
            } else {
                output::print_lines(&line(&row))?;
            }
        }
        before = now;
    }
    Ok(())
}

fn line(row: &Dropped) -> String {
    let circuit = row.circuit.as_ref().map_or_else(String::new, |circuit| format!(" {circuit}"));
    format!("{}{circuit} {}: {} {}", row.place, row.direction, row.reason, row.count)
}

fn text(all: &[Dropped]) -> String {
    if all.is_empty() {
        return "nothing was dropped".to_owned();
    }
    let cells: Vec<Vec<String>> = all
        .iter()
        .map(|row| {
            let circuit = row.circuit.clone().unwrap_or_else(|| "-".into());
            vec![row.place.clone(), circuit, row.direction.clone(), row.reason.clone(), row.count.to_string()]
        })
        .collect();
    let mut sums = BTreeMap::new();
    all.iter().for_each(|row| *sums.entry(row.reason.clone()).or_default() += row.count);
    output::table(&["at", "circuit", "direction", "reason", "dropped"], &cells) + &explain::footnotes([&sums])
}
