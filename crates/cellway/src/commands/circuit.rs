//! `cellway circuit`: circuits listed, added and removed while the network runs.

use crate::client::{ask_for, ask_text};
use crate::commands::status;
use crate::context::Context;
use crate::exit_status::OrUsage;
use crate::output;
use crate::units;
use crate::words::{self, options};
use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use control::config::{Circuit, Oam, Traffic};
use control::protocol::{Done, Request};
use control::status::{CircuitRow, CircuitStatus};
use std::collections::BTreeMap;
use std::time::Duration;

/// Circuits.
#[derive(Debug, Subcommand)]
pub(crate) enum CircuitCommand {
    /// All circuits with their counters
    List,
    /// Add a circuit: `cellway circuit add "alpha 0.300" "beta 0.300" --category cbr --pcr "20 Mbit/s"`
    Add(Box<Added>),
    /// Remove a circuit by its ends
    Remove {
        /// Its ends, as `circuit list` shows them
        #[arg(required = true, num_args = 2..)]
        ends: Vec<String>,
    },
}

/// `cellway circuit add`: the keys of `[[circuit]]`.
#[derive(Debug, Args)]
pub(crate) struct Added {
    /// Its ends, each a host and vpi.vci in quotes, or a path at a switch's port, such as "s1:0 7.*". With more than
    /// two, from the first to all others. Two ports of one switch map their labels onto each other: mappings of
    /// several switches that meet on a link with the same label form one circuit
    #[arg(required = true, num_args = 2..)]
    ends: Vec<String>,
    /// The label of a link on the way, at a switch's port: --via "A:3 100.150". May be repeated, in order; other links
    /// have labels that are free
    #[arg(long, value_name = "PORT LABEL")]
    via: Vec<String>,
    /// cbr, rt-vbr, nrt-vbr, gfr or ubr
    #[arg(long, default_value = "ubr")]
    category: String,
    /// cbr.1, vbr.1, vbr.2, vbr.3, gfr.1, gfr.2, ubr.1 or ubr.2 [default: the category's first]
    #[arg(long)]
    conformance: Option<String>,
    /// best-effort, or credit: no cell is dropped for lack of room
    #[arg(long, default_value = "best-effort")]
    flow: String,
    /// Peak cell rate, such as "20 Mbit/s" of payload or "5000 cell/s"
    #[arg(long)]
    pcr: Option<String>,
    /// Sustainable cell rate (VBR)
    #[arg(long)]
    scr: Option<String>,
    /// Maximum burst size in cells (VBR, GFR)
    #[arg(long)]
    mbs: Option<u32>,
    /// Minimum cell rate (GFR, UBR)
    #[arg(long)]
    mcr: Option<String>,
    /// Maximum frame size in cells (GFR)
    #[arg(long)]
    mfs: Option<u32>,
    /// Cell delay variation tolerance in microseconds
    #[arg(long = "cdvt-us", value_name = "US", default_value = "1000", value_parser = units::micros)]
    cdvt: Duration,
    /// The longest delay of a cell in microseconds (CBR, rt-VBR)
    #[arg(long = "max-ctd-us", value_name = "US", value_parser = units::micros)]
    max_ctd: Option<Duration>,
    /// The largest difference between delays, in microseconds (CBR, rt-VBR)
    #[arg(long = "max-cdv-us", value_name = "US", value_parser = units::micros)]
    max_cdv: Option<Duration>,
    /// Cells go before all others at each switch (CBR, rt-VBR)
    #[arg(long)]
    low_latency: bool,
    /// How switches discard in congestion: early, cells, partial, selective or fair
    #[arg(long, default_value = "early")]
    discard: String,
    /// The contract of the direction to the first end, as in a description: 'category = "cbr", pcr = "1 Mbit/s"'
    #[arg(long, value_name = "KEYS")]
    back: Option<String>,
    /// aal5, aal0 or aal34
    #[arg(long, default_value = "aal5")]
    aal: String,
    /// One direction only, from the first end to the second
    #[arg(long)]
    one_way: bool,
    /// Check continuity both ways (OAM, I.610)
    #[arg(long)]
    continuity: bool,
    /// Monitor performance both ways, in blocks of 128, 256, 512 or 1024 cells (OAM, I.610)
    #[arg(long, value_name = "CELLS")]
    monitoring: Option<u16>,
}

fn us(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl Added {
    fn circuit(&self) -> Result<Circuit> {
        let back = self.back.as_deref().map(|keys| {
            let table = format!("back = {{ {keys} }}");
            let read = toml::from_str::<BTreeMap<String, Traffic>>(&table);
            read.map(|mut all| all.remove("back").unwrap_or_default()).with_context(|| {
                format!("--back '{keys}': write keys as in a description, such as 'pcr = \"1 Mbit/s\"'")
            })
        });
        Ok(Circuit {
            ends: self.ends.clone(),
            via: self.via.clone(),
            category: self.category.clone(),
            conformance: self.conformance.clone(),
            pcr: self.pcr.clone(),
            scr: self.scr.clone(),
            mbs: self.mbs,
            mcr: self.mcr.clone(),
            mfs: self.mfs,
            cdvt_us: us(self.cdvt),
            max_ctd_us: self.max_ctd.map(us),
            max_cdv_us: self.max_cdv.map(us),
            low_latency: self.low_latency,
            discard: self.discard.clone(),
            back: back.transpose()?,
            flow: self.flow.clone(),
            aal: self.aal.clone(),
            one_way: self.one_way,
            oam: Oam { continuity: self.continuity, monitoring: self.monitoring },
        })
    }
}

/// `cellway circuit`
pub(crate) fn run(context: &Context, command: &CircuitCommand) -> Result<()> {
    match command {
        CircuitCommand::List => {
            if context.json {
                return output::print_text::<Vec<CircuitStatus>>(&ask_text(context, &Request::Circuits)?);
            }
            let rows: Vec<CircuitRow> = ask_for(context, &Request::CircuitRows)?;
            output::print_lines(&status::circuits_text(&rows))
        }
        CircuitCommand::Add(added) => {
            let circuit = added.circuit().or_usage()?;
            circuit.describe().map_err(|faults| words::usage(faults, &options::<Added>()))?;
            let done: Done = ask_for(context, &Request::AddCircuit(Box::new(circuit)))?;
            output::print(context, &done, || format!("added {}", added.ends.join(" - ")))
        }
        CircuitCommand::Remove { ends } => {
            let done: Done = ask_for(context, &Request::RemoveCircuit { ends: ends.clone() })?;
            output::print(context, &done, || format!("removed {}", ends.join(" - ")))
        }
    }
}
