//! Descriptions from what other software has: the ATM switches of a GNS3 project or of a dynagen file, and the files of
//! a site that runs linux-atm (`atmsigd.conf`, `hosts.atm`, `lecs.conf`).
//!
//! In: the texts. Out: one description, with a remark for each thing that it could not take over.

mod atmsigd;
mod dynagen;
mod gns3;
pub mod hosts;
mod lecs;
mod site;
mod tables;

use anyhow::{Context as _, Result, bail};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A project of GNS3, JSON.
    Gns3,
    /// A network file of dynagen.
    Dynagen,
    /// The configuration of `atmsigd`.
    Atmsigd,
    /// Names and addresses.
    Hosts,
    /// The configuration of a LAN emulation configuration server.
    Lecs,
}

/// A description made of other software's files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Imported {
    /// The description.
    pub description: String,
    /// What was not taken over, and what is to be done about it.
    pub remarks: Vec<String>,
}

impl Format {
    /// The formats by name.
    pub const NAMES: [(&str, Format); 5] = [
        ("gns3", Format::Gns3),
        ("dynagen", Format::Dynagen),
        ("atmsigd", Format::Atmsigd),
        ("hosts", Format::Hosts),
        ("lecs", Format::Lecs),
    ];

    /// What a file is by its name and its text.
    pub fn of(name: &str, text: &str) -> Option<Self> {
        let file = name.rsplit('/').next().unwrap_or(name).to_ascii_lowercase();
        let word = |word: &str| text.split_whitespace().any(|other| other == word);
        match file.as_str() {
            "hosts.atm" => Some(Format::Hosts),
            "atmsigd.conf" => Some(Format::Atmsigd),
            "lecs.conf" | ".lecs_conf" => Some(Format::Lecs),
            _ if text.trim_start().starts_with('{') => Some(Format::Gns3),
            _ if text.to_ascii_lowercase().contains("[[atmsw") => Some(Format::Dynagen),
            _ if text.contains("LES:=") || text.contains("LES=") => Some(Format::Lecs),
            _ if word("entity") || word("sig") => Some(Format::Atmsigd),
            _ => None,
        }
    }
}

/// A description of some files, each with its name; `format`: what they are, where it is said.
///
/// # Errors
/// One cannot be understood, or they do not belong together.
pub fn import(files: &[(String, String)], format: Option<Format>) -> Result<Imported> {
    let mut site = site::Site::default();
    let mut tables = Vec::new();
    for (name, text) in files {
        let unknown = || {
            format!(
                "{name}: neither a GNS3 project, a dynagen file with [[ATMSW ...]], atmsigd.conf, hosts.atm nor lecs.conf: \
                 say which by --format"
            )
        };
        match format.or_else(|| Format::of(name, text)).with_context(unknown)? {
            Format::Gns3 => tables.push(gns3::read(text).with_context(|| name.clone())?),
            Format::Dynagen => tables.push(dynagen::read(text).with_context(|| name.clone())?),
            Format::Atmsigd => atmsigd::read(text, &mut site).with_context(|| name.clone())?,
            Format::Hosts => hosts::read(text, &mut site),
            Format::Lecs => lecs::read(text, &mut site).with_context(|| name.clone())?,
        }
    }
    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    let (body, remarks) = match tables.as_slice() {
        [] => site.description(),
        [tables] if files.len() == 1 => tables.description(),
        _ => bail!("a GNS3 project or a dynagen file is a network of its own: import one file at a time"),
    };
    let mut description = format!("# Made by `cellway import` of {}.\n", names.join(", "));
    for remark in &remarks {
        description += &format!("# - {}\n", remark.replace('\n', " "));
    }
    Ok(Imported { description: description + &body, remarks })
}

/// A name as a description can have it: without blanks and colons, and unlike all those in `taken`.
fn plain(name: &str, taken: &mut dyn FnMut(&str) -> bool) -> String {
    let plain: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' }).take(64).collect();
    let plain = if plain.is_empty() { "station".to_owned() } else { plain };
    if !taken(&plain) {
        return plain;
    }
    let numbered = (2..).map(|n: u64| format!("{plain}-{n}")).find(|name| !taken(name));
    numbered.unwrap_or(plain)
}
