//! `cellway graph`: the topology of a running network, or of a description, as SVG, DOT or Mermaid, with rates and with
//! colours for state.

mod layout;
mod svg;
#[cfg(test)]
mod tests;
mod text;
mod topology;

use crate::commands::top::ask_twice;
use crate::context::Context;
use crate::kinds::kinds;
use crate::{output, units};
use anyhow::Result;
use clap::{Args, ValueEnum};
use control::results::graph::Topology;
use std::path::PathBuf;
use std::time::Duration;

/// Draws the topology of the running network, or of a description.
///
/// Of a running network each link has the cells that arrive from its first end and from its second, each second. It is
/// green if cells pass, yellow if any are dropped, red and dashed if it is down. Stations with an alarm are red.
///
/// `cellway graph > net.svg` draws it, and `cellway graph --format dot | dot -Tpdf > net.pdf` has graphviz draw it.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Graph {
    /// A description; without one, the running network is drawn
    file: Option<PathBuf>,
    /// What to write; --json writes stations and links as JSON
    #[arg(long, value_enum, default_value_t = Format::Svg)]
    format: Format,
    /// Seconds between the two looks at the counters of which rates are made
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = units::seconds)]
    interval: Duration,
}

/// What a topology is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A picture for pages, light or dark as the page is.
    Svg,
    /// For Graphviz.
    Dot,
    /// For Markdown pages.
    Mermaid,
}

fn written(topology: &Topology, format: Format) -> String {
    match format {
        Format::Svg => svg::svg(topology),
        Format::Dot => text::dot(topology),
        Format::Mermaid => text::mermaid(topology),
    }
}

/// `cellway graph`
pub(crate) fn run(context: &Context, graph: &Graph) -> Result<()> {
    let topology = match &graph.file {
        Some(file) => topology::of_description(&control::description::load(&kinds(), file)?),
        None => {
            let Some([before, now]) = ask_twice(context, graph.interval)? else { return Ok(()) };
            topology::of_network(&before, &now)
        }
    };
    output::print(context, &topology, || written(&topology, graph.format))
}
