//! Internet addresses with their prefixes, IPv4 and IPv6, as descriptions and commands write them.

use anyhow::{Result, anyhow, bail};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// One address with its prefix, or a list of an IPv4 and an IPv6 one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(untagged, expecting = "expected an address with its prefix, such as \"10.0.0.1/24\", or a list of two")]
pub enum Addresses {
    /// None: a bridged device that others give an address.
    #[default]
    #[schemars(skip)]
    #[serde(skip)]
    None,
    /// The only one.
    One(String),
    /// An IPv4 and an IPv6 address.
    Several(Vec<String>),
}

impl Addresses {
    /// Whether there is none.
    pub fn is_none(&self) -> bool {
        self.texts().is_empty()
    }

    fn texts(&self) -> &[String] {
        match self {
            Addresses::None => &[],
            Addresses::One(text) => std::slice::from_ref(text),
            Addresses::Several(texts) => texts,
        }
    }

    /// What it means.
    ///
    /// # Errors
    /// One of them is no address with a prefix, or there are two of one kind.
    pub fn parse(&self) -> Result<Internet> {
        Internet::parse(self.texts())
    }
}

/// The addresses of an interface, each with the bits of it that are the link's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Internet {
    /// IPv4.
    pub ipv4: Option<(Ipv4Addr, u8)>,
    /// IPv6.
    pub ipv6: Option<(Ipv6Addr, u8)>,
}

impl Internet {
    /// Reads a list of addresses with their prefixes.
    ///
    /// # Errors
    /// One of them is written otherwise, or there are two of one kind.
    pub fn parse(texts: &[String]) -> Result<Self> {
        let mut all = Internet::default();
        for text in texts {
            let is_first = match parse_ip_address(text)? {
                (IpAddr::V4(address), prefix) => all.ipv4.replace((address, prefix)).is_none(),
                (IpAddr::V6(address), prefix) => all.ipv6.replace((address, prefix)).is_none(),
            };
            if !is_first {
                bail!("\"{text}\": an interface has one IPv4 address and one IPv6 address");
            }
        }
        Ok(all)
    }

    /// Whether there is none.
    pub fn is_none(&self) -> bool {
        *self == Internet::default()
    }

    /// One of them, for who names an interface by an address: IPv4 first.
    pub fn any(&self) -> Option<IpAddr> {
        let ipv6 = || self.ipv6.map(|(address, _)| IpAddr::V6(address));
        self.ipv4.map(|(address, _)| IpAddr::V4(address)).or_else(ipv6)
    }
}

/// An IPv4 or IPv6 address and its prefix: `10.0.0.1/24`, `fd00:9::1/64`.
///
/// # Errors
/// It is written otherwise.
pub fn parse_ip_address(text: &str) -> Result<(IpAddr, u8)> {
    let form = || anyhow!("\"{text}\" is no address with a prefix: write such as 10.0.0.1/24 or fd00:9::1/64");
    let (address, prefix) = text.split_once('/').ok_or_else(form)?;
    let address: IpAddr = address.parse().map_err(|_| form())?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let prefix = prefix.parse().ok().filter(|prefix| *prefix <= most).ok_or_else(form)?;
    Ok((address, prefix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_interface_has_one_address_of_each_kind_in_any_order() {
        let texts = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
        let both = Internet::parse(&texts(&["fd00:9::1/64", "10.0.0.1/24"])).unwrap();
        assert_eq!(both.ipv4, Some(("10.0.0.1".parse().unwrap(), 24)));
        assert_eq!(both.ipv6, Some(("fd00:9::1".parse().unwrap(), 64)));
        assert_eq!(both.any(), Some("10.0.0.1".parse().unwrap()));
        assert!(Internet::parse(&[]).unwrap().is_none());
        for twice in [["10.0.0.1/24", "10.0.0.2/24"], ["fd00::1/64", "fd00::2/64"]] {
            let says = Internet::parse(&texts(&twice)).unwrap_err().to_string();
            assert!(says.contains(twice[1]) && says.contains("one IPv4"), "{says}");
        }
        for bad in ["10.0.0.1", "10.0.0.1/33", "fd00::1/129", "fd00::1", "fd00::g/64", "/24", ""] {
            assert!(parse_ip_address(bad).unwrap_err().to_string().contains("fd00:9::1/64"), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn an_address_that_is_written_is_read_again(v4: u32, v6: u128, is_ipv4: bool, prefix in 0u8..=128) {
            let address = if is_ipv4 { IpAddr::from(Ipv4Addr::from(v4)) } else { IpAddr::from(Ipv6Addr::from(v6)) };
            let prefix = if is_ipv4 { prefix.min(32) } else { prefix };
            prop_assert_eq!(parse_ip_address(&format!("{address}/{prefix}")).unwrap(), (address, prefix));
        }

        #[test]
        fn no_text_panics(text: String) {
            let _ = parse_ip_address(&text);
        }
    }
}
