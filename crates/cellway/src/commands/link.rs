//! `cellway link`: links listed, added and removed while the network runs.

use crate::certificates::Certificates;
use crate::client::ask_for;
use crate::commands::status;
use crate::commands::url::{self, Url};
use crate::context::Context;
use crate::output;
use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use control::config::Link;
use control::protocol::{LinkAdded, LinkRemoved, LinkSet, Request};
use control::status::{LinkStatus, StationKind, Status};
use std::collections::BTreeMap;
use std::path::Path;

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
    /// The other end; with --atmtcp a new name for the outside station. Or, for ATM over TCP, atmtcp://HOST:PORT
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
    /// With ATM over TCP: circuits that the peer opens lead to this host
    #[arg(long, alias = "real")]
    peer_circuits_to: Option<String>,
    #[command(flatten)]
    certificates: Certificates,
}

/// The far end of a link, of what the user wrote.
#[derive(Debug, PartialEq)]
struct FarEnd {
    station: String,
    how: Option<Url>,
}

/// A URL is a name for the far end, and how it leads there.
fn far_end(name: &str, atmtcp: Option<&str>) -> Result<FarEnd> {
    let Some(url) = url::parse(name)? else {
        let how = atmtcp.map(|says| Url::AtmTcp(says.to_owned(), false));
        return Ok(FarEnd { station: name.to_owned(), how });
    };
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
        ([], []) => bail!("this network has neither a host nor a switch for the link"),
        _ => {
            let all = [switches, hosts].concat();
            bail!(
                "from where? This network has {}: name one of them first, as in `cellway link add {} atmtcp://...`",
                all.join(", "),
                all[0]
            )
        }
    }
}

/// The near end, which may be left out before a URL, and the far one.
fn ends(add: &Add, stations: impl FnOnce() -> Result<Stations>) -> Result<(String, FarEnd)> {
    match &add.b {
        Some(b) => Ok((add.a.clone(), far_end(b, add.atmtcp.as_deref())?)),
        None if add.a.contains("://") => {
            let far = far_end(&add.a, None)?;
            Ok((near_end(&stations()?)?.to_owned(), far))
        }
        None if add.atmtcp.is_some() => Ok((add.a.clone(), far_end("outside", add.atmtcp.as_deref())?)),
        None => bail!("a link has two ends: to where does it lead from {}?", add.a),
    }
}

fn link(add: &Add, stations: impl FnOnce() -> Result<Stations>) -> Result<Link> {
    let (near, far) = ends(add, stations)?;
    // The daemon reads them, and it lives elsewhere.
    let tls = add.certificates.given().map(|tls| tls.absolute()).transpose()?;
    let by_tls = matches!(far.how, Some(Url::AtmTcp(_, true) | Url::CellsTcp(_, true)));
    if tls.is_none() && by_tls {
        bail!("TLS needs --certificate FILE, --key FILE and --trust FILE, all PEM");
    }
    if tls.is_some() && !by_tls && add.atmtcp.is_none() {
        bail!("--certificate belongs to atmtcp-tls:// and cells-tcp-tls://, or to --atmtcp");
    }
    let mut link = Link {
        cdvt_us: None,
        ends: [near, far.station],
        rate: add.rate.clone(),
        delay_us: 0,
        carries: add.carries.clone(),
        queue_cells: 4096,
        faults: None,
        atmtcp: None,
        peer_circuits_to: add.peer_circuits_to.clone(),
        cells_tcp: None,
        tls,
        cells_udp: None,
        real: None,
        tcp: None,
        udp: None,
        follows: None,
        signalling: None,
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
            link.describe(Path::new(""))?;
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
