//! `cellway circuit`: circuits listed, added and removed while the network runs.

use crate::client::{ask, ask_for};
use crate::commands::status;
use crate::context::Context;
use crate::output;
use anyhow::Result;
use clap::Subcommand;
use control::config::Circuit;
use control::protocol::Request;
use control::status::Status;

/// Circuits.
#[derive(Debug, Subcommand)]
pub(crate) enum CircuitCommand {
    /// All circuits with their counters
    List,
    /// Add a circuit: `cellway circuit add "alpha 0.300" "beta 0.300" --category cbr --pcr "20 Mbit/s"`
    Add {
        /// Its ends, each a host and vpi.vci in quotes, or a path at a switch's port, such as "s1:0 7.*"; more than two: from the first
        /// to all others
        #[arg(required = true, num_args = 2..)]
        ends: Vec<String>,
        /// cbr, rt-vbr, nrt-vbr, abr or ubr
        #[arg(long, default_value = "ubr")]
        category: String,
        /// best-effort, or credit: no cell is dropped for want of room
        #[arg(long, default_value = "best-effort")]
        flow: String,
        /// Peak cell rate, such as "20 Mbit/s" or "5000 cell/s"
        #[arg(long)]
        pcr: Option<String>,
        /// Sustainable cell rate (VBR)
        #[arg(long)]
        scr: Option<String>,
        /// Maximum burst size in cells (VBR)
        #[arg(long)]
        mbs: Option<u32>,
        /// aal5, aal0 or aal34
        #[arg(long, default_value = "aal5")]
        aal: String,
        /// From the first end to the second only
        #[arg(long)]
        one_way: bool,
    },
    /// Remove a circuit by its ends
    Remove {
        /// Its ends, as `circuit list` shows them
        #[arg(required = true, num_args = 2..)]
        ends: Vec<String>,
    },
}

/// `cellway circuit`
pub(crate) fn run(context: &Context, command: &CircuitCommand) -> Result<()> {
    match command {
        CircuitCommand::List => {
            let status = ask_for::<Status>(context, &Request::Status)?;
            output::print(context, &status.circuits, || status::circuits_text(&status.circuits))
        }
        CircuitCommand::Add { ends, category, flow, pcr, scr, mbs, aal, one_way } => {
            let circuit = Circuit {
                ends: ends.clone(),
                category: category.clone(),
                flow: flow.clone(),
                pcr: pcr.clone(),
                scr: scr.clone(),
                mbs: *mbs,
                cdvt_us: 1000,
                aal: aal.clone(),
                one_way: *one_way,
            };
            circuit.describe()?;
            let done = ask(context, &Request::AddCircuit(circuit))?;
            output::print(context, &done, || format!("added {}", ends.join(" - ")))
        }
        CircuitCommand::Remove { ends } => {
            let done = ask(context, &Request::RemoveCircuit { ends: ends.clone() })?;
            output::print(context, &done, || format!("removed {}", ends.join(" - ")))
        }
    }
}
