//! `signalling = { ... }` of a link, and what of hosts and switches belongs to it.

use anyhow::{Context as _, Result, anyhow, bail};
use net::topology::{Attachment, Station, parse_link_rate};
use net::{CallShare, LinkConfig};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use uni::call::{Side, Version};
use wire::Vpi;
use wire::aesa::{Aesa, ESI_OCTETS, PREFIX_OCTETS, Prefix};

/// `signalling = { ... }` of a link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Signalling {
    /// `uni31` or `uni40` between a user and a network, `iisp` between two switches.
    pub version: String,
    /// `user` or `network`: the side of the link's first end that is a host or a switch of this network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side: Option<String>,
    /// `host`, or `program`: the host leaves its side to a program under `cellway run`, such as `atmsigd`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The labels of calls: a VPI, and the first and last VCI.
    #[serde(default = "labels")]
    pub labels: String,
    /// What calls may be promised in each direction; half of the link's rate where it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<String>,
    /// Whether addresses are registered by ILMI (VPI 0, VCI 16), at a UNI.
    #[serde(default = "yes")]
    pub ilmi: bool,
    /// Addresses of a user outside who does not register any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// Prefixes of addresses that lie beyond this link, outside of this network.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<String>,
    /// Calls at a time.
    #[serde(default = "max_calls")]
    pub max_calls: usize,
    /// Calls that the peer may begin within a second.
    #[serde(default = "max_calls_per_second")]
    pub max_calls_per_second: u32,
}

fn labels() -> String {
    "0.1024-16383".into()
}
const fn yes() -> bool {
    true
}
const fn max_calls() -> usize {
    15_360
}
const fn max_calls_per_second() -> u32 {
    100_000
}

impl Signalling {
    /// Which signalling.
    ///
    /// # Errors
    /// The word is none of those.
    pub fn version(&self) -> Result<Version> {
        Ok(match self.version.as_str() {
            "uni31" => Version::Uni31,
            "uni40" => Version::Uni40,
            "iisp" => Version::Iisp,
            other => bail!("signalling version = \"{other}\": write uni31, uni40 or iisp"),
        })
    }

    /// Whether a program signals for the host.
    ///
    /// # Errors
    /// The word is none of those.
    pub fn by_program(&self) -> Result<bool> {
        match self.by.as_deref() {
            None | Some("host") => Ok(false),
            Some("program") => Ok(true),
            Some(other) => bail!("signalling by = \"{other}\": write host or program"),
        }
    }

    fn side(&self) -> Result<Option<Side>> {
        Ok(match self.side.as_deref() {
            None => None,
            Some("user") => Some(Side::User),
            Some("network") => Some(Side::Network),
            Some(other) => bail!("signalling side = \"{other}\": write user or network"),
        })
    }

    /// The sides of a link's two ends; an end outside has none here.
    ///
    /// # Errors
    /// Such stations do not speak this with each other.
    pub fn sides(&self, stations: [Station; 2]) -> Result<[Option<Side>; 2]> {
        let iisp = self.version()? == Version::Iisp;
        let natural = |station| match station {
            Station::Host => Some(Side::User),
            Station::Switch => Some(Side::Network),
            Station::Outside => None,
        };
        let sides = match (iisp, stations) {
            (true, [Station::Host, _] | [_, Station::Host]) => {
                bail!("iisp is for links between switches: a host has uni31 or uni40")
            }
            (true, [Station::Switch, Station::Switch]) => {
                let first = self.side()?.unwrap_or(Side::Network);
                [Some(first), Some(if first == Side::User { Side::Network } else { Side::User })]
            }
            (true, _) => {
                let ours = self.side()?.unwrap_or(Side::Network);
                stations.map(|station| natural(station).map(|_| ours))
            }
            (false, [Station::Switch, Station::Switch]) => {
                bail!("two switches signal by iisp: write version = \"iisp\"")
            }
            (false, [Station::Host, Station::Host]) => {
                bail!("a link between two hosts has no network side: calls need a switch")
            }
            (false, _) => stations.map(natural),
        };
        let first = sides.into_iter().flatten().next();
        match (self.side()?, first) {
            (Some(said), Some(is)) if said != is => {
                bail!(
                    "signalling side = \"{}\": at a UNI a host is the user and a switch is the network",
                    self.side.as_deref().unwrap_or_default()
                )
            }
            _ => Ok(sides),
        }
    }

    /// The part of a link that calls have.
    ///
    /// # Errors
    /// The labels or the rate cannot be.
    pub fn share(&self, link: &LinkConfig) -> Result<CallShare> {
        let wrong = || {
            anyhow!("signalling labels = \"{}\": write a VPI and VCIs from 32 on, such as 0.1024-16383", self.labels)
        };
        let (vpi, vcis) = self.labels.split_once(['.', '/']).ok_or_else(wrong)?;
        let (first, last) = vcis.split_once('-').ok_or_else(wrong)?;
        let vpi = vpi.parse().ok().and_then(Vpi::new).filter(|vpi| *vpi <= link.max_vpi).ok_or_else(wrong)?;
        let vcis: [u16; 2] = [first.parse().map_err(|_| wrong())?, last.parse().map_err(|_| wrong())?];
        if vcis[0] < wire::Vci::FIRST_USER.get() || vcis[0] > vcis[1] {
            return Err(wrong());
        }
        let rate = match (&self.rate, link.rate) {
            (None, None) => None,
            (None, Some(rate)) => wire::CellRate::from_cells_per_s(rate.cells_per_s() / 2.0),
            (Some(text), Some(most)) => {
                let rate = parse_link_rate(text)?.unwrap_or(most);
                if rate.cells_per_s() > most.cells_per_s() {
                    bail!("signalling rate = \"{text}\": the link has less");
                }
                Some(rate)
            }
            (Some(text), None) => parse_link_rate(text)?,
        };
        Ok(CallShare { vpi, vcis, rate })
    }

    /// [`Signalling::addresses`].
    ///
    /// # Errors
    /// One is none.
    pub fn addresses(&self) -> Result<Vec<Aesa>> {
        self.addresses.iter().map(|text| parse_aesa(text)).collect()
    }

    /// [`Signalling::routes`].
    ///
    /// # Errors
    /// One is none.
    pub fn routes(&self) -> Result<Vec<Prefix>> {
        let one = |text: &String| text.parse().with_context(|| format!("signalling routes \"{text}\""));
        self.routes.iter().map(one).collect()
    }

    /// Whether everything in it can be, for a link between such stations.
    ///
    /// # Errors
    /// What cannot.
    pub fn check(&self, stations: [Station; 2], link: &LinkConfig) -> Result<()> {
        self.sides(stations)?;
        if self.by_program()? && !stations.contains(&Station::Host) {
            bail!("signalling by = \"program\" is for a link with a host: whatever is outside signals as it likes");
        }
        self.share(link)?;
        self.addresses()?;
        self.routes()?;
        Ok(())
    }
}

fn parse_aesa(text: &str) -> Result<Aesa> {
    text.parse().with_context(|| format!("address \"{text}\": write 20 octets as hexadecimal digits"))
}

/// The prefix of a switch: 13 octets.
///
/// # Errors
/// It has another length, or other signs.
pub fn parse_prefix(text: &str) -> Result<[u8; PREFIX_OCTETS]> {
    let prefix: Prefix = text.parse().with_context(|| format!("prefix \"{text}\""))?;
    if usize::from(prefix.bits()) != PREFIX_OCTETS * 8 {
        bail!("prefix \"{text}\": write 13 octets, 26 hexadecimal digits");
    }
    Ok(Aesa(*prefix.octets()).prefix())
}

/// What a host says of its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Its end system identifier.
    pub esi: [u8; ESI_OCTETS],
    /// Its address, where it does not leave the prefix to the network.
    pub address: Option<Aesa>,
}

impl Identity {
    /// Of a host of this name; without an identifier it has one that is made of its name.
    ///
    /// # Errors
    /// A text is no address or identifier.
    pub fn of(name: &str, esi: Option<&str>, address: Option<&str>) -> Result<Self> {
        let address = address.map(parse_aesa).transpose()?;
        let esi = match (esi, address) {
            (Some(text), _) => {
                let wrong = || anyhow!("esi = \"{text}\": write 6 octets, 12 hexadecimal digits");
                let prefix: Prefix = text.parse().map_err(|_| wrong())?;
                if usize::from(prefix.bits()) != ESI_OCTETS * 8 {
                    return Err(wrong());
                }
                std::array::from_fn(|i| prefix.octets()[i])
            }
            (None, Some(address)) => address.esi(),
            (None, None) => {
                use sha2::Digest;
                let hash = sha2::Sha256::digest(name.as_bytes());
                // Locally administered, for one station.
                std::array::from_fn(|i| if i == 0 { 0x02 } else { hash[i] })
            }
        };
        Ok(Identity { esi, address })
    }
}

/// Checks what belongs together at the ends of links with signalling: a host has one such link, and a switch a prefix.
/// `has_prefix` says of a switch whether it has one.
///
/// # Errors
/// What is missing, or too much.
pub fn check_ends<'a>(
    ends: impl Iterator<Item = (&'a Attachment, Station)>,
    has_prefix: impl Fn(&str) -> Option<bool>,
) -> Result<(), (String, String)> {
    let mut hosts: BTreeSet<&str> = BTreeSet::new();
    for (end, station) in ends {
        if station == Station::Host && !hosts.insert(&end.station) {
            return Err((end.station.clone(), "a host has one link with signalling".into()));
        }
        if station == Station::Switch && has_prefix(&end.station) == Some(false) {
            let says = "a switch with signalling needs the prefix of its users' addresses: prefix = \"47000580ffe100000000000001\"";
            return Err((end.station.clone(), says.into()));
        }
    }
    Ok(())
}
