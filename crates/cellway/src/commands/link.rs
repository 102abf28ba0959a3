//! `cellway link`: links listed, added and removed while the network runs.

use crate::certificates::Certificates;
use crate::client::ask_for;
use crate::commands::status;
use crate::commands::url::{self, Url};
use crate::context::Context;
use crate::output;
use crate::units;
use crate::usage;
use crate::words::{self, options};
use anyhow::Result;
use clap::{Args, Subcommand};
use control::config::{Link, LinkFaults, Pseudowire, Signalling, Udp};
use control::protocol::{LinkAdded, LinkRemoved, LinkSet, Request};
use control::status::{LinkStatus, StationKind, Status};
use net::LinkConfig;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// Links.
#[derive(Debug, Subcommand)]
pub(crate) enum LinkCommand {
    /// All links with their counters
    List,
    /// Add a link: `cellway link add alpha s1:2`, or to the outside: `cellway link add atmtcp://192.0.2.1:2812`
    Add(Box<Add>),
    /// Take a link down, by its name: it carries no traffic until `link up`. Its circuits stay; a guest's adapter at it
    /// loses its signal
    Down {
        /// As `link list` shows it
        name: String,
    },
    /// Take a link up again
    Up {
        /// As `link list` shows it
        name: String,
    },
    /// Remove a link and the circuits over it, by its name: `cellway link remove "alpha:0 - s1:0"`. An adapter at it
    /// stays, without a signal, until another link is added
    Remove {
        /// As `link list` shows it
        name: String,
    },
}

/// `cellway link add`
#[derive(Debug, Args)]
pub(crate) struct Add {
    /// One end: a station, with :PORT if it matters. Or only a URL, as below: the link then starts at the network's
    /// only switch, or at its only host if it has no switch
    a: String,
    /// The other end; with --atmtcp, --cells-tcp or --cells-udp a new name for the outside station. Or, for ATM over TCP, atmtcp://HOST:PORT
    /// or atmtcp-listen://ADDRESS:PORT; atmtcp-tls:// and atmtcp-tls-listen:// do the same with certificates. Cells alone:
    /// cells-tcp:// likewise, or cells-udp://PEER:PORT?local=ADDRESS:PORT
    b: Option<String>,
    /// unlimited, OC-3c, "20 Mbit/s", ...
    #[arg(long, default_value = "unlimited")]
    rate: String,
    /// cells or frames
    #[arg(long, default_value = "cells")]
    carries: String,
    /// "listen ADDRESS:PORT" or "connect ADDRESS:PORT"
    #[arg(long)]
    atmtcp: Option<String>,
    /// Cells over TCP, to another Cellway: "listen ADDRESS:PORT" or "connect ADDRESS:PORT"
    #[arg(long, conflicts_with = "atmtcp")]
    cells_tcp: Option<String>,
    /// Cells in UDP datagrams, as in a description: 'local = "0.0.0.0:7", peer = "192.0.2.1:7", form = "batch"'
    #[arg(long, value_name = "TABLE", value_parser = table::<Udp>, conflicts_with_all = ["atmtcp", "cells_tcp"])]
    cells_udp: Option<Udp>,
    /// An ATM pseudowire to a router, as in a description: 'local = "192.0.2.1:6635", peer = "192.0.2.2:6635", label_out =
    /// 100, label_in = 200'
    #[arg(long, value_name = "TABLE", value_parser = table::<Pseudowire>, conflicts_with_all = ["atmtcp", "cells_tcp", "cells_udp"])]
    pseudowire: Option<Pseudowire>,
    /// The time from end to end, such as "5ms", or microseconds
    #[arg(long = "delay-us", value_name = "TIME", default_value = "0", value_parser = units::micros)]
    delay: Duration,
    /// How far cells of a contract may come together on this link, such as "50ms", or microseconds [default: 50 ms between
    /// machines, else 0]
    #[arg(long = "cdvt-us", value_name = "TIME", value_parser = units::micros)]
    cdvt: Option<Duration>,
    /// Cells, or frames, that wait at most
    #[arg(long, default_value_t = LinkConfig::default().queue_cells)]
    queue_cells: usize,
    /// Faults on purpose, as in a description: 'loss = 0.001, seed = 7'
    #[arg(long, value_name = "TABLE", value_parser = table::<LinkFaults>)]
    faults: Option<LinkFaults>,
    /// Another link, as `link list` shows it or by its ends as they were written: while that one is down, this one is
    /// too
    #[arg(long, value_name = "LINK")]
    follows: Option<String>,
    /// Calls over this link, as in a description: 'version = "uni31"'
    #[arg(long, value_name = "TABLE", value_parser = table::<Signalling>)]
    signalling: Option<Signalling>,
    /// Whether it may carry anything; `link up` takes it up later
    #[arg(long, value_name = "BOOL", action = clap::ArgAction::Set, default_value_t = true)]
    enabled: bool,
    /// With ATM over TCP: circuits that the peer opens lead to this host
    #[arg(long, alias = "real")]
    peer_circuits_to: Option<String>,
    #[command(flatten)]
    certificates: Certificates,
}

/// A table as in a description, with or without its braces.
fn table<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    #[derive(serde::Deserialize)]
    struct Wrapped<T> {
        table: T,
    }
    let inner = text.trim();
    let inner = inner.strip_prefix('{').and_then(|inner| inner.strip_suffix('}')).unwrap_or(inner);
    let wrapped = toml::from_str::<Wrapped<T>>(&format!("table = {{ {inner} }}"));
    wrapped.map(|wrapped| wrapped.table).map_err(|e| e.message().to_owned())
}

/// The far end of a link, of what the user wrote.
#[derive(Debug, PartialEq)]
struct FarEnd {
    station: String,
    how: Option<Url>,
}

/// What options say of how a link leads outside.
fn leads_out(add: &Add) -> Option<Url> {
    let atmtcp = add.atmtcp.clone().map(|says| Url::AtmTcp(says, false));
    let cells_tcp = || add.cells_tcp.clone().map(|says| Url::CellsTcp(says, false));
    atmtcp.or_else(cells_tcp).or_else(|| add.cells_udp.clone().map(Url::CellsUdp))
}

/// A URL is a name for the far end, and how it leads there.
fn far_end(name: &str, how: Option<Url>) -> Result<FarEnd> {
    let Some(url) = url::parse(name)? else {
        return Ok(FarEnd { station: name.to_owned(), how });
    };
    if how.is_some() {
        usage!("{name} says how the link leads outside: leave --atmtcp, --cells-tcp and --cells-udp out");
    }
    let says = match &url {
        Url::AtmTcp(says, _) | Url::CellsTcp(says, _) => says.clone(),
        Url::CellsUdp(udp) => format!("udp {}", udp.peer),
    };
    let station = says.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    Ok(FarEnd { station, how: Some(url) })
}

/// What the names of a network stand for.
type Stations = BTreeMap<String, StationKind>;

/// The station of a network that is meant where none is named: its only switch, or else its only host.
fn near_end(stations: &Stations) -> Result<&str> {
    let of = |kind: StationKind| -> Vec<&str> {
        stations.iter().filter(|(_, is)| **is == kind).map(|(name, _)| name.as_str()).collect()
    };
    let (switches, hosts) = (of(StationKind::Switch), of(StationKind::Host));
    match (&switches[..], &hosts[..]) {
        ([one], _) | ([], [one]) => Ok(one),
        ([], []) => usage!("this network has neither a host nor a switch for the link"),
        _ => {
            let all = [switches, hosts].concat();
            usage!(
                "from where? This network has {}: name one of them first, as in `cellway link add {} atmtcp://...`",
                all.join(", "),
                all[0]
            )
        }
    }
}

/// The near end, which may be left out before a URL, and the far one.
fn ends(add: &Add, stations: impl FnOnce() -> Result<Stations>) -> Result<(String, FarEnd)> {
    let how = leads_out(add);
    match &add.b {
        Some(b) => Ok((add.a.clone(), far_end(b, how)?)),
        None if add.a.contains("://") => {
            let far = far_end(&add.a, how)?;
            Ok((near_end(&stations()?)?.to_owned(), far))
        }
        None if how.is_some() || add.pseudowire.is_some() => Ok((add.a.clone(), far_end("outside", how)?)),
        None => usage!("a link has two ends: to where does it lead from {}?", add.a),
    }
}

fn link(add: &Add, stations: impl FnOnce() -> Result<Stations>) -> Result<Link> {
    let (near, far) = ends(add, stations)?;
    // The daemon reads them, and it lives elsewhere.
    let tls = add.certificates.given().map(|tls| tls.absolute()).transpose()?;
    let by_tls = matches!(far.how, Some(Url::AtmTcp(_, true) | Url::CellsTcp(_, true)));
    if tls.is_none() && by_tls {
        usage!("TLS needs --certificate FILE, --key FILE and --trust FILE, all PEM");
    }
    if tls.is_some() && !by_tls && add.atmtcp.is_none() && add.cells_tcp.is_none() {
        usage!("--certificate belongs to atmtcp-tls:// and cells-tcp-tls://, or to --atmtcp and --cells-tcp");
    }
    let mut link = Link {
        cdvt_us: add.cdvt.map(|cdvt| cdvt.as_micros() as u64),
        ends: [near, far.station],
        rate: add.rate.clone(),
        delay_us: add.delay.as_micros() as u64,
        carries: add.carries.clone(),
        queue_cells: add.queue_cells,
        faults: add.faults.clone(),
        atmtcp: None,
        peer_circuits_to: add.peer_circuits_to.clone(),
        cells_tcp: None,
        tls,
        cells_udp: None,
        pseudowire: add.pseudowire.clone(),
        real: None,
        tcp: None,
        udp: None,
        follows: add.follows.clone(),
        signalling: add.signalling.clone(),
        enabled: add.enabled,
    };
    match far.how {
        Some(Url::AtmTcp(says, _)) => link.atmtcp = Some(says),
        Some(Url::CellsTcp(says, _)) => link.cells_tcp = Some(says),
        Some(Url::CellsUdp(udp)) => link.cells_udp = Some(udp),
        None => {}
    }
    Ok(link)
}

/// `cellway link`
pub(crate) fn run(context: &Context, command: &LinkCommand) -> Result<()> {
    match command {
        LinkCommand::List => {
            let links: Vec<LinkStatus> = ask_for(context, &Request::Links)?;
            output::print(context, &links, || status::links_text(&links))
        }
        LinkCommand::Add(add) => {
            let link = link(add, || Ok(ask_for::<Status>(context, &Request::Overview)?.stations))?;
            link.describe(Path::new("")).map_err(|faults| words::usage(faults, &options::<Add>()))?;
            let done: LinkAdded = ask_for(context, &Request::AddLink(Box::new(link)))?;
            output::print(context, &done, || format!("added {}", done.link))
        }
        LinkCommand::Down { name } | LinkCommand::Up { name } => {
            let up = matches!(command, LinkCommand::Up { .. });
            let done: LinkSet = ask_for(context, &Request::SetLink { name: name.clone(), up })?;
            let word = if up { "up" } else { "down" };
            output::print(context, &done, || format!("{} {word}", done.link))
        }
        LinkCommand::Remove { name } => {
            let done: LinkRemoved = ask_for(context, &Request::RemoveLink { name: name.clone() })?;
            output::print(context, &done, || {
                let n = done.removed_circuits.len();
                format!("removed {name} and {n} circuits over it")
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        add: Add,
    }

    fn made(words: &str, stations: &Stations) -> Result<Link> {
        let line = Line::try_parse_from(std::iter::once("add").chain(words.split(' ')))?;
        link(&line.add, || Ok(stations.clone()))
    }

    #[test]
    fn a_url_alone_leads_from_the_only_switch_or_else_the_only_host() {
        use StationKind::{Host, Outside, Switch};
        let station = |all: &[(&str, StationKind)]| {
            let stations = all.iter().map(|(name, kind)| ((*name).to_owned(), kind.clone())).collect();
            made("atmtcp://192.0.2.1:2812", &stations).map(|link| link.ends[0].clone())
        };
        assert_eq!(station(&[("alpha", Host), ("far", Outside)]).unwrap(), "alpha");
        assert_eq!(station(&[("alpha", Host), ("beta", Host), ("s1", Switch)]).unwrap(), "s1");
        let e = station(&[("alpha", Host), ("beta", Host)]).unwrap_err().to_string();
        assert!(e.contains("alpha, beta") && e.contains("cellway link add alpha atmtcp://"), "{e}");
        assert!(station(&[("s1", Switch), ("s2", Switch), ("alpha", Host)]).is_err());
        assert!(station(&[]).is_err());
    }

    #[test]
    fn every_key_of_a_described_link_has_an_option() {
        let schema: serde_json::Value = schemars::schema_for!(Link).into();
        let command = <Line as clap::CommandFactory>::command();
        let options: Vec<&str> = command.get_arguments().filter_map(clap::Arg::get_long).collect();
        let old = |key: &str| control::config::RENAMED.iter().any(|(old, _)| *old == key);
        let keys: Vec<&String> = schema["properties"].as_object().unwrap().keys().filter(|key| !old(key)).collect();
        assert!(keys.len() > 10);
        for key in keys.into_iter().filter(|key| *key != "ends") {
            let option = if key == "tls" { "certificate".into() } else { key.replace('_', "-") };
            assert!(options.contains(&option.as_str()), "link add has no --{option}");
        }
    }

    #[test]
    fn what_a_description_says_of_a_link_a_command_says_in_the_same_words() {
        let written = "delay_us = 7\ncdvt_us = 250\nqueue_cells = 64\nrate = \"OC-3c\"\nfollows = \"s1 - s2\"\nenabled = false\n\
            faults = { loss = 0.5, seed = 3 }\nsignalling = { version = \"iisp\", side = \"user\" }\n\
            cells_udp = { local = \"[::1]:1\", peer = \"[::1]:2\", form = \"batch\" }\n";
        let described: Link = toml::from_str(&format!("ends = [\"s1:1\", \"far\"]\n{written}")).unwrap();
        let words = [
            "add",
            "s1:1",
            "far",
            "--delay-us",
            "7",
            "--cdvt-us",
            "250us",
            "--queue-cells",
            "64",
            "--rate",
            "OC-3c",
            "--follows",
            "s1 - s2",
            "--enabled",
            "false",
            "--faults",
            "{ loss = 0.5, seed = 3 }",
            "--signalling",
            "version = \"iisp\", side = \"user\"",
            "--cells-udp",
            "local = \"[::1]:1\", peer = \"[::1]:2\", form = \"batch\"",
        ];
        let line = Line::try_parse_from(words).unwrap();
        assert_eq!(link(&line.add, || Ok(Stations::new())).unwrap(), described);
        let wrong = Line::try_parse_from(["add", "a", "b", "--faults", "los = 1"]).err().unwrap().to_string();
        assert!(wrong.contains("los") && wrong.contains("loss"), "{wrong}");
    }

    #[test]
    fn urls_are_a_name_and_an_atmtcp() {
        let none = Stations::new();
        let link = made("alpha atmtcp://host.example:2812", &none).unwrap();
        assert_eq!(
            (link.ends[1].as_str(), link.atmtcp.as_deref()),
            ("connect-host-example-2812", Some("connect host.example:2812"))
        );
        let link = made("alpha atmtcp-tls-listen://0.0.0.0:2812 --certificate c --key k --trust t", &none).unwrap();
        assert_eq!(link.atmtcp.as_deref(), Some("listen 0.0.0.0:2812"));
        assert!(link.tls.unwrap().key.is_absolute());
        let link = made("alpha cells-tcp://192.0.2.1:5", &none).unwrap();
        assert_eq!((link.cells_tcp.as_deref(), link.atmtcp), (Some("connect 192.0.2.1:5"), None));
        let link = made("alpha cells-udp://192.0.2.1:5?local=0.0.0.0:6", &none).unwrap();
        assert_eq!(link.cells_udp.unwrap().local.port(), 6);
        for (words, says) in [
            ("alpha", "two ends"),
            ("alpha atmtcp-tls://host:1", "--certificate FILE"),
            ("udp://host:1", "atmtcp://HOST:PORT"),
            ("alpha atmtcp://host:1 --certificate c --key k --trust t", "belongs to atmtcp-tls://"),
            ("alpha atmtcp-tls://host:1 --certificate c", "--key"),
        ] {
            let e = made(words, &none).unwrap_err().to_string();
            assert!(e.contains(says), "{words}: {e}");
        }
    }
}
