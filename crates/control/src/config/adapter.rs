//! `[adapter.NAME]`: a virtual adapter, for a guest to drive.

use super::word;
use crate::fault::Faults;
use anyhow::{Context as _, Result, anyhow, bail};
use eni155p::registers::CIRCUITS;
use eni155p::tonga::Board;
use eni155p::{Config, Pace, RamSize};
use net::CallShare;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// How late the engine's thread may ask for a cell without costing the line its rate.
const TOLERANCE: Duration = Duration::from_millis(2);

/// `[adapter.NAME]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Adapter {
    /// `eni155p`.
    #[serde(default = "eni155p")]
    pub kind: String,
    /// The guest's name in the network: an end of one link, and of circuits.
    pub host: String,
    /// The socket that a virtual machine attaches to by vfio-user; relative to the description's folder.
    pub socket: PathBuf,
    /// `asic` or `fpga`.
    #[serde(default = "asic")]
    pub board: String,
    /// `512 kB` or `2 MB`.
    #[serde(default = "kb512")]
    pub ram: String,
    /// The end system identifier, such as `02:20:ea:00:00:01`; made of the adapter's name if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub esi: Option<String>,
    /// `line`: cells leave at the payload rate of OC-3c; `unpaced`: as fast as the link takes them.
    #[serde(default = "line")]
    pub pace: String,
}

fn eni155p() -> String {
    "eni155p".into()
}
fn asic() -> String {
    "asic".into()
}
fn kb512() -> String {
    "512 kB".into()
}
fn line() -> String {
    "line".into()
}

/// A virtual adapter as the daemon makes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Served {
    /// Its name in the description.
    pub name: String,
    /// The guest's name in the network.
    pub host: String,
    /// Where a virtual machine attaches.
    pub socket: PathBuf,
    /// The card.
    pub config: Config,
}

impl Adapter {
    /// Whether the card has the circuits of calls.
    ///
    /// # Errors
    /// It has not.
    pub(super) fn check_labels(calls: &CallShare) -> Result<()> {
        let (vpi, [first, last]) = (calls.vpi.get(), calls.vcis);
        if vpi != 0 || u32::from(last) >= CIRCUITS {
            bail!(
                "signalling labels = \"{vpi}.{first}-{last}\": an ENI155P has VPI 0 and VCIs up to {}, of which Linux's driver \
                 serves those below 512; write labels = \"0.256-511\"",
                CIRCUITS - 1
            );
        }
        Ok(())
    }

    /// What it means.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn describe(&self, name: &str) -> Result<Served, Faults> {
        let mut faults = Faults::default();
        word(&mut faults, "kind", &self.kind, &[("eni155p", ())]);
        let board = word(&mut faults, "board", &self.board, &[("asic", Board::Asic), ("fpga", Board::Fpga)]);
        let ram = word(&mut faults, "ram", &self.ram, &[("512 kB", RamSize::Kb512), ("2 MB", RamSize::Mb2)]);
        let paces = [("line", Pace::Line { tolerance: TOLERANCE }), ("unpaced", Pace::Unpaced)];
        let pace = word(&mut faults, "pace", &self.pace, &paces);
        let esi = faults
            .take("esi", self.esi.as_deref().map_or_else(|| Ok(esi_of(name)), |text| parse_mac(text).context("esi")));
        let config = || Some(Config { board: board?, ram: ram?, esi: esi?, pace: pace? });
        let served = config().map(|config| Served {
            name: name.to_owned(),
            host: self.host.clone(),
            socket: self.socket.clone(),
            config,
        });
        faults.or(served)
    }
}

/// Six octets of an end system identifier or a MAC address: `02:20:ea:00:00:01`.
///
/// # Errors
/// It is written otherwise.
pub fn parse_mac(text: &str) -> Result<[u8; 6]> {
    let octet = |pair: &str| {
        let digits = pair.len() == 2 && pair.bytes().all(|digit| digit.is_ascii_hexdigit());
        u8::from_str_radix(pair, 16).ok().filter(|_| digits)
    };
    let octets: Option<Vec<u8>> = text.split(':').map(octet).collect();
    octets
        .and_then(|octets| octets.try_into().ok())
        .ok_or_else(|| anyhow!("\"{text}\": write six octets in hexadecimal, such as 02:20:ea:00:00:01"))
}

/// A locally administered identifier, the same for the same name (FNV-1a).
fn esi_of(name: &str) -> [u8; 6] {
    let hash =
        name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, octet| (h ^ u64::from(octet)).wrapping_mul(0x100_0000_01b3));
    let [a, b, c, d, e, ..] = hash.to_be_bytes();
    [0x02, a, b, c, d, e]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_read_or_made_of_the_name() {
        assert_eq!(parse_mac("02:20:ea:00:0F:01").unwrap(), [2, 0x20, 0xea, 0, 15, 1]);
        for bad in ["", "02:20:ea:00:00", "02:20:ea:00:00:01:02", "2:20:ea:00:00:01", "02:20:ea:00:00:+1"] {
            assert!(parse_mac(bad).is_err(), "{bad}");
        }
        assert_eq!(esi_of("eni0"), esi_of("eni0"));
        assert_ne!(esi_of("eni0"), esi_of("eni1"));
        assert_eq!(esi_of("x")[0] & 3, 2, "locally administered, of one station");
    }
}
