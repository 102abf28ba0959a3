//! Names of who is called: of a host of the network, or of `/etc/hosts.atm`, as linux-atm has them. Also a native E.164
//! number, as `+15551234567`.

use crate::client::ask_for;
use crate::context::Context;
use crate::target::Target;
use crate::usage;
use anyhow::{Context as _, Result, bail};
use control::calls::report::CallsStatus;
use control::protocol::Request;
use std::fmt;
use std::io::Read as _;
use std::path::PathBuf;
use std::str::FromStr;
use wire::PvcAddress;
use wire::aesa::Aesa;

/// Names with their addresses, one line for each address: the address, then its names.
const HOSTS: &str = "/etc/hosts.atm";
/// Another such file.
const HOSTS_VARIABLE: &str = "CELLWAY_HOSTS_ATM";
/// No more of it is read.
const MAX_OCTETS: u64 = 1 << 20;

/// A circuit, an address, or the name of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// A circuit or an address.
    Target(Target),
    /// The name of a host of the network, or one of `/etc/hosts.atm`.
    Name(String),
}

impl FromStr for Destination {
    type Err = anyhow::Error;
    fn from_str(text: &str) -> Result<Self> {
        if let Some(address) = number(text) {
            return address.map(Target::Address).map(Destination::Target);
        }
        match text.parse::<Target>() {
            Ok(target) => Ok(Destination::Target(target)),
            // Digits are no name, but a label or an address that is none.
            Err(e) if !text.contains(|c: char| c.is_ascii_alphabetic()) || text.contains(char::is_whitespace) => Err(e),
            Err(_) => Ok(Destination::Name(text.to_owned())),
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Destination::Target(target) => target.fmt(f),
            Destination::Name(name) => name.fmt(f),
        }
    }
}

impl Destination {
    /// What it stands for: a name is one of the network's hosts first, then one of `/etc/hosts.atm`.
    ///
    /// # Errors
    /// The name is unknown, or its host cannot be called.
    pub fn resolve(&self, context: &Context) -> Result<Target> {
        let name = match self {
            Destination::Target(target) => return Ok(*target),
            Destination::Name(name) => name,
        };
        let calls = ask_for::<CallsStatus>(context, &Request::Calls(endpoint::calls::Request::List))?;
        let mut here = calls.interfaces.iter().filter(|i| i.station == *name && i.side == "user").peekable();
        let is_host = here.peek().is_some();
        if let Some(address) = here.flat_map(|interface| &interface.addresses).next() {
            return Ok(Target::Address(address.parse().with_context(|| format!("the address of host {name}"))?));
        }
        let file = std::env::var_os(HOSTS_VARIABLE).map_or_else(|| PathBuf::from(HOSTS), PathBuf::from);
        if let Some(address) = find(&read(&file)?, name).with_context(|| format!("{}", file.display()))? {
            return Ok(address);
        }
        if is_host {
            bail!("host {name} has no address yet: its signalling link is down, or no prefix has been registered");
        }
        usage!(
            "{name}: no host of this network with signalling, and not in {}: write vpi.vci, such as 0.100, a name, or an \
             address of 40 hexadecimal digits",
            file.display()
        )
    }

    /// The same where only an address will do.
    ///
    /// # Errors
    /// As above, or it is a circuit.
    pub fn address(&self, context: &Context) -> Result<Aesa> {
        match self.resolve(context)? {
            Target::Address(address) => Ok(address),
            Target::Circuit(circuit) => usage!("{self}: {circuit} is a circuit: write an address, or a host's name"),
        }
    }
}

/// A native E.164 number, with the sign that says so.
fn number(text: &str) -> Option<Result<Aesa>> {
    let digits: String = text.strip_prefix('+')?.chars().filter(|c| !matches!(c, '-' | '.' | ' ')).collect();
    let wrong = || format!("\"{text}\" is no E.164 number: write + and up to 15 digits");
    Some(Aesa::from_e164(&digits).with_context(wrong))
}

fn read(file: &std::path::Path) -> Result<String> {
    let mut text = String::new();
    let opened = match std::fs::File::open(file) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(text),
        opened => opened.with_context(|| format!("{}", file.display()))?,
    };
    opened.take(MAX_OCTETS).read_to_string(&mut text).with_context(|| format!("{}", file.display()))?;
    Ok(text)
}

/// The address of a name, in the text of a `hosts.atm`.
fn find(text: &str, name: &str) -> Result<Option<Target>> {
    for (address, names) in control::import::hosts::entries(text) {
        if names.contains(&name) {
            return hosts_address(address).map(Some).with_context(|| format!("the address of {name}"));
        }
    }
    Ok(None)
}

fn hosts_address(text: &str) -> Result<Target> {
    if let Ok(PvcAddress { itf: 0, circuit }) = text.parse() {
        return Ok(Target::Circuit(circuit));
    }
    match text.parse::<Destination>()? {
        Destination::Target(target) => Ok(target),
        Destination::Name(_) => bail!("\"{text}\" is no address"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_a_circuit_an_address_a_number_or_a_name() {
        let of = |text: &str| text.parse::<Destination>();
        for text in ["8.35", "8/35", "0.8.35"] {
            assert_eq!(of(text).unwrap(), Destination::Target(Target::Circuit("8.35".parse().unwrap())));
        }
        let number: Aesa = "45.000015551234567f.00000000.000000000000.00".parse().unwrap();
        for text in ["+1-555-123-4567", "+15551234567"] {
            assert_eq!(of(text).unwrap(), Destination::Target(Target::Address(number)));
        }
        assert_eq!(of("beta").unwrap(), Destination::Name("beta".into()));
        for bad in ["", "8", "8.", "+", "+1234567890123456", "two words", "99.99.99.99"] {
            assert!(of(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn hosts_atm_is_read_as_linux_atm_writes_it() {
        let text =
            "# ours\n47.000580ffde00000000000001.020000000001.00 server server.example # the LECS\n0.8.35\tline\n";
        let address = "47000580ffde0000000000000102000000000100".parse().unwrap();
        assert_eq!(find(text, "server.example").unwrap(), Some(Target::Address(address)));
        assert_eq!(find(text, "line").unwrap(), Some(Target::Circuit("8.35".parse().unwrap())));
        assert_eq!(find(text, "the").unwrap(), None);
        assert!(find("what ever\n", "ever").is_err());
    }
}
