//! `/etc/hosts.atm`: on each line an address, then its names.

use super::site::Site;
use wire::PvcAddress;
use wire::aesa::Aesa;

/// Each address of a `hosts.atm` with its names.
pub fn entries(text: &str) -> impl Iterator<Item = (&str, Vec<&str>)> {
    text.lines().filter_map(|line| {
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
        let address = words.next()?;
        let names: Vec<&str> = words.collect();
        (!names.is_empty()).then_some((address, names))
    })
}

pub(super) fn read(text: &str, site: &mut Site) {
    for (written, names) in entries(text) {
        let number = written.strip_prefix('+').and_then(Aesa::from_e164);
        match (written.parse::<Aesa>().ok().or(number), written.parse::<PvcAddress>()) {
            (Some(address), _) => site.host(names[0], address),
            (None, Ok(pvc)) => site.remarks.push(format!(
                "{} is the circuit {} of this host: add [[circuit]] with it and its far end",
                names[0], pvc.circuit
            )),
            (None, Err(_)) => site.remarks.push(format!("{}: \"{written}\" is no address: left out", names[0])),
        }
    }
}
