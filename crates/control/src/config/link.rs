//! `[[link]]`: what it joins, what it carries and how fast, and what is outside at it.

use super::pseudowire::Pseudowire;
use super::shell::Shell;
use super::signalling::Signalling;
use super::tcp::{self, LinkTls};
use super::udp::Udp;
use super::word;
use crate::fault::{Fault, Faults};
use crate::quantity;
use net::topology::{Attachment, LinkDescription, parse_link_rate};
use net::{Carries, FaultConfig, LinkConfig};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Duration;

/// Cells that may wait at a side of a link.
const QUEUE_CELLS: std::ops::RangeInclusive<usize> = 16..=1 << 20;

/// Between machines, threads and sockets let cells come together by up to so much.
pub const OUTSIDE_CDVT: Duration = Duration::from_millis(50);

/// The longest delay of a link: far beyond a satellite's, and time still adds up.
pub(super) const MAX_DELAY_US: u64 = 10_000_000;

/// Keys that had another name in the release before: that name, and the one of today.
pub const RENAMED: [(&str, &str); 3] = [("real", "peer_circuits_to"), ("tcp", "cells_tcp"), ("udp", "cells_udp")];

/// `[[link]]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Two names, with a port after a colon where it matters.
    pub ends: [String; 2],
    /// `unlimited`, `OC-3c`, `20 Mbit/s`, ...
    #[serde(default = "unlimited")]
    pub rate: String,
    /// Microseconds from end to end.
    #[serde(deserialize_with = "quantity::micros", default)]
    #[schemars(with = "quantity::TimeText")]
    pub delay_us: u64,
    /// `cells` or `frames`.
    #[serde(default = "cells")]
    pub carries: String,
    /// Cells (or frames) that wait at most.
    #[serde(default = "queue_cells")]
    pub queue_cells: usize,
    /// By how much the far end outside may let cells come together, in microseconds: contracts that come in from there
    /// are tolerated so much more. Without: 50 000 with `cells_udp`, `cells_tcp`, `atmtcp` or `pseudowire`, else 0.
    #[serde(deserialize_with = "quantity::optional_micros", default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<quantity::TimeText>")]
    pub cdvt_us: Option<u64>,
    /// Faults on purpose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub faults: Option<LinkFaults>,
    /// ATM over TCP: `listen ADDRESS:PORT` or `connect ADDRESS:PORT`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub atmtcp: Option<String>,
    /// With `atmtcp`: circuits that the peer opens lead to this host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_circuits_to: Option<String>,
    /// Cells over TCP, to another Cellway: `listen ADDRESS:PORT` or `connect ADDRESS:PORT`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cells_tcp: Option<String>,
    /// With `atmtcp` or `cells_tcp`: by TLS, with certificates at both ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<LinkTls>,
    /// Cells in UDP datagrams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cells_udp: Option<Udp>,
    /// An ATM pseudowire in MPLS over UDP, to a router (RFC 4717, 7510).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pseudowire: Option<Pseudowire>,
    /// The old name of `peer_circuits_to`: read for one release, with a warning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub real: Option<String>,
    /// The old name of `cells_tcp`: read for one release, with a warning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<String>,
    /// The old name of `cells_udp`: read for one release, with a warning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub udp: Option<Udp>,
    /// Another link's ends as written there, `s1:1 - far`: while that one is down, this one is too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follows: Option<String>,
    /// Calls over this link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signalling: Option<Signalling>,
    /// Whether it may carry anything: `false` is what `cellway link down` does.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    #[schemars(extend("default" = true))]
    pub enabled: bool,
}

fn take<T>(
    from: &mut Option<T>,
    to: &mut Option<T>,
    (old, new): (&'static str, &'static str),
    used: &mut Vec<(&'static str, &'static str)>,
    faults: &mut Faults,
) {
    let Some(value) = from.take() else { return };
    used.push((old, new));
    if to.is_some() {
        faults.add(old, format!("`{old}` is the old name of `{new}`: leave it out"));
    } else {
        *to = Some(value);
    }
}

const fn yes() -> bool {
    true
}
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_yes(said: &bool) -> bool {
    *said
}
fn unlimited() -> String {
    "unlimited".into()
}
fn cells() -> String {
    "cells".into()
}
fn queue_cells() -> usize {
    LinkConfig::default().queue_cells
}

/// `faults = { ... }` of a link: probabilities per cell.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LinkFaults {
    /// Same seed, same faults.
    pub seed: u64,
    /// Lost.
    pub loss: f64,
    /// Arriving twice.
    pub duplication: f64,
    /// Arriving late.
    pub reordering: f64,
    /// With a bit flipped.
    pub corruption: f64,
}

impl Link {
    /// What it means; files that it names are looked for in `folder`.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn describe(&self, folder: &Path) -> Result<(LinkDescription, Option<Shell>), Faults> {
        let mut faults = Faults::default();
        let mut link = self.clone();
        link.take_old_names(&mut faults);
        let meant = link.understand(folder, &mut faults);
        faults.or(meant)
    }

    /// Takes what old names of keys say for what the new ones do. Gives both names of each; a key with both is a fault.
    pub(super) fn take_old_names(&mut self, faults: &mut Faults) -> Vec<(&'static str, &'static str)> {
        let mut old = Vec::new();
        let [real, tcp, udp] = RENAMED;
        take(&mut self.real, &mut self.peer_circuits_to, real, &mut old, faults);
        take(&mut self.tcp, &mut self.cells_tcp, tcp, &mut old, faults);
        take(&mut self.udp, &mut self.cells_udp, udp, &mut old, faults);
        old
    }

    /// The same where something is wrong: what can be understood, with defaults for the rest. `None` without both ends.
    pub(super) fn understand(&self, folder: &Path, faults: &mut Faults) -> Option<(LinkDescription, Option<Shell>)> {
        let shell = self.shell(folder, faults);
        let outside = self.atmtcp.is_some();
        let carried = word(faults, "carries", &self.carries, &[("cells", Carries::Cells), ("frames", Carries::Frames)]);
        let carries = match carried {
            Some(Carries::Frames) if self.cells_udp.is_some() && !outside => {
                faults.add("carries", "`cells_udp` carries cells: leave `carries` out");
                Carries::Cells
            }
            Some(Carries::Frames) if self.cells_tcp.is_some() && !outside => {
                faults.add(
                    "carries",
                    "`cells_tcp` carries cells: leave `carries` out, or write `atmtcp`, which carries frames",
                );
                Carries::Cells
            }
            _ if outside => Carries::Frames,
            _ if self.pseudowire.as_ref().is_some_and(Pseudowire::carries_frames) => Carries::Frames,
            Some(Carries::Frames) if self.pseudowire.is_some() => {
                faults.add(
                    "carries",
                    "a pseudowire carries cells, or frames with `mode = \"aal5\"`: leave `carries` out",
                );
                Carries::Cells
            }
            carried => carried.unwrap_or_default(),
        };
        if !QUEUE_CELLS.contains(&self.queue_cells) {
            let (least, most) = QUEUE_CELLS.into_inner();
            faults.add("queue_cells", format!("{} is out of bounds: write {least} to {most}", self.queue_cells));
        }
        if self.delay_us > MAX_DELAY_US {
            faults.add("delay_us", format!("{} is out of bounds: write {MAX_DELAY_US} at most", self.delay_us));
        }
        let mut config = LinkConfig {
            carries,
            rate: faults.take("rate", parse_link_rate(&self.rate)).flatten(),
            delay: Duration::from_micros(self.delay_us.min(MAX_DELAY_US)),
            queue_cells: self.queue_cells.clamp(*QUEUE_CELLS.start(), *QUEUE_CELLS.end()),
            faults: self.faults.as_ref().map(|written| written.config(faults)),
            peer_takes_credits: match &shell {
                Some(Shell::Tcp { .. }) => true,
                Some(Shell::Udp(udp)) => udp.form == "batch",
                _ => false,
            },
            tolerance: self.tolerance(),
            max_vpi: if self.cells_udp.as_ref().is_some_and(|udp| udp.form == "cell" && udp.header != "nni") {
                wire::Vpi::MAX_UNI
            } else {
                wire::Vpi::MAX
            },
            calls: None,
        };
        config.calls = self.signalling.as_ref().and_then(|s| faults.take("signalling", s.share(&config)));
        let [a, b] = [0, 1].map(|n| faults.take(("ends", n), self.ends[n].parse::<Attachment>()));
        Some((LinkDescription { ends: [a?, b?], config }, shell))
    }

    /// Writes out what follows from the kind of link.
    pub fn spell_out(&mut self) {
        self.cdvt_us.get_or_insert(self.tolerance().as_micros() as u64);
    }

    /// What `cdvt_us` says, or means by the kind of link.
    fn tolerance(&self) -> Duration {
        let default = if self.leads_out() { OUTSIDE_CDVT } else { Duration::ZERO };
        self.cdvt_us.map_or(default, Duration::from_micros)
    }

    /// Whether something outside this process is at its far end.
    pub(super) fn leads_out(&self) -> bool {
        let sockets = self.atmtcp.is_some() || self.cells_tcp.is_some() || self.cells_udp.is_some();
        sockets || self.pseudowire.is_some()
    }

    /// The end of a pseudowire, where it is one.
    fn pseudowire_shell(&self, pseudowire: &Pseudowire, faults: &mut Faults) -> Option<Shell> {
        if self.atmtcp.is_some() || self.cells_tcp.is_some() || self.cells_udp.is_some() {
            let says = "a link has one of `atmtcp`, `cells_tcp`, `cells_udp` and `pseudowire`: leave the others out";
            faults.add("pseudowire", says);
            return None;
        }
        if let Err(Faults(within)) = pseudowire.config() {
            faults.0.extend(within.into_iter().map(|Fault { mut at, says }| {
                at.0.insert(0, "pseudowire".into());
                Fault { at, says }
            }));
        }
        Some(Shell::Pseudowire(pseudowire.clone()))
    }

    fn shell(&self, folder: &Path, faults: &mut Faults) -> Option<Shell> {
        if let Some(pseudowire) = &self.pseudowire {
            return self.pseudowire_shell(pseudowire, faults);
        }
        if self.atmtcp.is_none() && self.peer_circuits_to.is_some() {
            let says = "`peer_circuits_to` belongs to a link with `atmtcp`: add that, or leave this out";
            faults.add("peer_circuits_to", says);
        }
        if self.atmtcp.is_none() && self.cells_tcp.is_none() && self.tls.is_some() {
            faults.add("tls", "`tls` belongs to a link with `atmtcp` or `cells_tcp`: add that, or leave this out");
        }
        let read_tls = |text, faults: &mut Faults| {
            let tls = self.tls.as_ref().map(|tls| faults.take("tls", tls.read(folder, tcp::host(text))));
            tls.flatten()
        };
        match (&self.atmtcp, &self.cells_tcp, &self.cells_udp) {
            (Some(_), _, Some(_)) | (_, Some(_), Some(_)) => {
                faults
                    .add("cells_udp", "a link has one of `atmtcp`, `cells_tcp` and `cells_udp`: leave the others out");
                None
            }
            (Some(_), Some(_), None) => {
                faults
                    .add("cells_tcp", "a link has one of `atmtcp`, `cells_tcp` and `cells_udp`: leave the others out");
                None
            }
            (Some(text), None, None) => {
                let tls = read_tls(text, faults);
                let role = faults.take("atmtcp", tcp::parse_atmtcp(text))?;
                Some(Shell::AtmTcp { role, peer_circuits_to: self.peer_circuits_to.clone(), tls })
            }
            (None, Some(text), None) => {
                let tls = read_tls(text, faults);
                Some(Shell::Tcp { role: faults.take("cells_tcp", tcp::parse_tcp(text))?, tls })
            }
            (None, None, Some(udp)) => {
                if let Err(Faults(of_udp)) = udp.form() {
                    let within = of_udp.into_iter().map(|Fault { mut at, says }| {
                        at.0.insert(0, "cells_udp".into());
                        Fault { at, says }
                    });
                    faults.0.extend(within);
                }
                Some(Shell::Udp(udp.clone()))
            }
            (None, None, None) => None,
        }
    }
}

impl LinkFaults {
    fn config(&self, faults: &mut Faults) -> FaultConfig {
        let all = [
            ("loss", self.loss),
            ("duplication", self.duplication),
            ("reordering", self.reordering),
            ("corruption", self.corruption),
        ];
        for (key, probability) in all {
            if !(0.0..=1.0).contains(&probability) {
                faults.add(("faults", key), format!("{probability} is no probability: write 0 to 1"));
            }
        }
        FaultConfig {
            seed: self.seed,
            loss: self.loss,
            duplication: self.duplication,
            reordering: self.reordering,
            reorder_by: Duration::from_micros(100),
            corruption: self.corruption,
            outages: Vec::new(),
        }
    }
}
