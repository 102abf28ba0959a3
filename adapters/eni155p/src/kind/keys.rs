//! `[adapter.NAME]`: a virtual adapter, for a guest to drive.

use crate::registers::CIRCUITS;
use crate::tonga::Board;
use crate::{Config, Pace, RamSize};
use anyhow::{Context as _, Result, bail};
use control::config::parse_mac;
use control::fault::{Faults, word};
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

impl Adapter {
    /// Whether the card has the circuits of calls.
    ///
    /// # Errors
    /// It has not.
    pub(super) fn check_labels(calls: &CallShare) -> Result<()> {
        let (vpi, [first, last]) = (calls.vpi.get(), calls.vcis);
        if vpi != 0 || u32::from(last) >= CIRCUITS {
            bail!(
                "signalling labels = \"{vpi}.{first}-{last}\": an ENI155P has VPI 0 and VCIs up to {}, of which Linux's \
                 driver serves those below 512; write labels = \"0.256-511\"",
                CIRCUITS - 1
            );
        }
        Ok(())
    }

    /// What it means.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn describe(&self, name: &str) -> Result<Config, Faults> {
        let mut faults = Faults::default();
        word(&mut faults, "kind", &self.kind, &[("eni155p", ())]);
        let board = word(&mut faults, "board", &self.board, &[("asic", Board::Asic), ("fpga", Board::Fpga)]);
        let ram = word(&mut faults, "ram", &self.ram, &[("512 kB", RamSize::Kb512), ("2 MB", RamSize::Mb2)]);
        let paces = [("line", Pace::Line { tolerance: TOLERANCE }), ("unpaced", Pace::Unpaced)];
        let pace = word(&mut faults, "pace", &self.pace, &paces);
        let esi = faults
            .take("esi", self.esi.as_deref().map_or_else(|| Ok(esi_of(name)), |text| parse_mac(text).context("esi")));
        let config = || Some(Config { board: board?, ram: ram?, esi: esi?, pace: pace? });
        faults.or(config())
    }
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
    use crate::kind::Eni155pKind;
    use control::config::{Config, parse_with};
    use control::diagnostic::Diagnostics;
    use control::kinds::Kinds;
    use net::topology::Station;

    fn parse(text: &str, name: &str) -> Result<Config, Diagnostics> {
        parse_with(&Kinds::none().with_adapter::<Eni155pKind>(), text, name)
    }

    fn error(text: &str) -> String {
        format!("{:#}", parse(text, "net.toml").unwrap_err())
    }

    #[test]
    fn identifiers_are_made_of_the_name() {
        assert_eq!(esi_of("eni0"), esi_of("eni0"));
        assert_ne!(esi_of("eni0"), esi_of("eni1"));
        assert_eq!(esi_of("x")[0] & 3, 2, "locally administered, of one station");
    }

    #[test]
    fn an_adapter_stands_for_its_guest_at_the_end_of_one_link() {
        const WITH: &str = "[adapter.eni0]\nhost = \"guest\"\nsocket = \"eni0.sock\"\n[switch.s]\n\
            [[link]]\nends = [\"guest\", \"s:0\"]\n";
        let config = parse(WITH, "x").unwrap();
        assert_eq!(config.description.stations["guest"], Station::Outside);
        assert!(config.served().map(|served| served.name.as_str()).eq(["eni0"]));
        let again = format!("{WITH}[[link]]\nends = [\"guest\", \"s:1\"]\n");
        for (text, says) in [
            (again.as_str(), "has a link already"),
            (&WITH.replace("\"guest\", \"s:0\"", "\"s:0\", \"s:1\""), "no link leads to `guest`"),
            (&WITH.replace("[switch.s]", "board = \"vlsi\"\n[switch.s]"), "write asic or fpga"),
            (&WITH.replace("[switch.s]", "[switch.guest]\n[switch.s]"), "another station is called `guest`"),
            (&format!("{WITH}carries = \"frames\"\n"), "carries cells"),
        ] {
            let e = error(text);
            // What follows from something wrong is not told.
            assert!(e.contains(says) && e.lines().count() == 1, "{e}");
        }
    }

    #[test]
    fn calls_of_an_adapter_have_circuits_that_the_card_has() {
        let with = |labels: &str| {
            format!(
                "[adapter.eni0]\nhost = \"guest\"\nsocket = \"eni0.sock\"\n[switch.s]\n\
             prefix = \"47000580ffe100000000000001\"\n\
                 [[link]]\nends = [\"guest\", \"s:0\"]\nsignalling = {{ version = \"uni31\"{labels} }}\n"
            )
        };
        for (labels, says) in [
            ("", "labels = \"0.1024-16383\": an ENI155P has VPI 0 and VCIs up to 1023"),
            (", labels = \"0.256-1024\"", "write labels = \"0.256-511\""),
            (", labels = \"1.256-511\"", "write labels = \"0.256-511\""),
        ] {
            let e = error(&with(labels));
            assert!(e.starts_with("net.toml:8:") && e.contains(says), "{e}");
        }
        for labels in ["0.256-511", "0.32-1023"] {
            parse(&with(&format!(", labels = \"{labels}\"")), "x").unwrap();
        }
    }
}
