//! The configuration of a LAN emulation configuration server of linux-atm: its own address, and for each emulated LAN a
//! name in brackets, the address of its LES, and those of its members.

use super::site::Site;
use anyhow::{Context as _, Result};
use wire::aesa::Aesa;

pub(super) fn read(text: &str, site: &mut Site) -> Result<()> {
    let mut lan: Option<String> = None;
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        let wrong = || format!("line {}: \"{line}\" is no address", number + 1);
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            lan = Some(name.trim().to_owned());
            continue;
        }
        let assigned = line.split_once('=').map(|(key, value)| (key.trim_end_matches(':').trim(), value.trim()));
        match (assigned, &lan) {
            (Some(("LES", address)), Some(name)) => {
                let host = format!("lane-{name}");
                site.host(&host, address.parse::<Aesa>().with_context(wrong)?);
                site.remarks.push(format!("the servers of the LAN {name}: `cellway lane serve {host} --lan {name}`"));
            }
            (Some(("Type", kind)), Some(name)) if !kind.eq_ignore_ascii_case("ethernet") && kind != "802_3" => {
                site.remarks.push(format!("the LAN {name} is of the type {kind}: here LANs are Ethernet"));
            }
            (Some(("Max_Frame", octets)), Some(name)) if octets != "1516" => {
                site.remarks.push(format!("the LAN {name} has frames of {octets} octets: here they have 1516"));
            }
            (None, Some(name)) if line == "DEFAULT" => {
                site.remarks.push(format!("{name} was the LAN of stations that name none: give them --lan {name}"));
            }
            (None, None) if !line.is_empty() => site.host("lecs", line.parse::<Aesa>().with_context(wrong)?),
            (None, Some(name)) if !line.is_empty() => match line.parse::<Aesa>() {
                Ok(address) => site.host(&format!("{name}-member"), address),
                Err(_) => {
                    site.remarks.push(format!("stations {line} were guided to the LAN {name}: give them --lan {name}"))
                }
            },
            _ => {}
        }
    }
    Ok(())
}
