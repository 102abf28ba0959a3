//! `atmtcp` and `tls` of a link: ATM over TCP, and certificates where it leaves the machine.

use anyhow::{Context as _, Result, anyhow, bail};
use links::tcp::{Tls, TlsTexts};
use serde::{Deserialize, Serialize};
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// A file of certificates, or a key, has no more.
const MAX_OCTETS: u64 = 1 << 20;

/// `tls = { ... }` of a link with `atmtcp`: PEM files, beside the description if their paths are relative.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkTls {
    /// This end's certificate, and after it those between it and an authority that the peer trusts.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Certificates of the authorities whose certificates a peer may show.
    pub trust: PathBuf,
    /// The name that the peer's certificate must be for. Who connects takes the host of `atmtcp` for it; who listens
    /// takes any certificate of `trust`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl LinkTls {
    /// Reads the files, and tries whether TLS can be made of them. `host` is the one that is connected to.
    pub fn read(&self, folder: &Path, host: Option<&str>) -> Result<TlsTexts> {
        let text = |what, path: &Path| {
            let path = folder.join(path);
            certificate(&path).with_context(|| format!("tls: {what} = {path:?}"))
        };
        let texts = TlsTexts {
            certificate: text("certificate", &self.certificate)?,
            key: text("key", &self.key)?,
            trust: text("trust", &self.trust)?,
            name: self.name.clone().or_else(|| host.map(str::to_owned)),
        };
        Tls::new(&texts).context("tls")?;
        Ok(texts)
    }

    /// The same with paths that mean the same wherever they are read.
    pub fn absolute(&self) -> Result<Self> {
        let absolute = |path: &Path| std::path::absolute(path).with_context(|| format!("tls: {path:?}"));
        Ok(LinkTls {
            certificate: absolute(&self.certificate)?,
            key: absolute(&self.key)?,
            trust: absolute(&self.trust)?,
            name: self.name.clone(),
        })
    }
}

/// Reads a file of certificates or a key. Whoever names one may be somebody else than who runs the network: of a FIFO
/// or a device nothing is read, and nobody waits for one.
fn certificate(path: &Path) -> Result<Vec<u8>> {
    use rustix::fs::{FileType, Mode, OFlags, fstat, open};
    let file = open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?;
    if FileType::from_raw_mode(fstat(&file)?.st_mode) != FileType::RegularFile {
        bail!("it is no regular file");
    }
    let mut octets = Vec::new();
    std::fs::File::from(file).take(MAX_OCTETS + 1).read_to_end(&mut octets)?;
    if octets.len() as u64 > MAX_OCTETS {
        bail!("it has more than {MAX_OCTETS} octets");
    }
    Ok(octets)
}

/// The host that `atmtcp = "connect HOST:PORT"` names.
pub fn host(atmtcp: &str) -> Option<&str> {
    let address = atmtcp.strip_prefix("connect ")?;
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    Some(host.trim_start_matches('[').trim_end_matches(']'))
}

/// Who connects, of what `cells_tcp` says.
pub fn parse_tcp(text: &str) -> Result<links::tcp::Role> {
    parse("cells_tcp", text)
}

/// Who connects, of what `atmtcp` says.
pub fn parse_atmtcp(text: &str) -> Result<links::tcp::Role> {
    parse("atmtcp", text)
}

fn parse(key: &str, text: &str) -> Result<links::tcp::Role> {
    let (verb, address) = text.split_once(' ').unwrap_or((text, ""));
    let resolve = || {
        use std::net::ToSocketAddrs;
        let address =
            if address.contains(':') { address.to_owned() } else { format!("{address}:{}", wire::atmtcp::PORT) };
        let found = address.to_socket_addrs().with_context(|| format!("{key} address {address}"))?.next();
        found.ok_or_else(|| anyhow!("{key} address {address}: no such host"))
    };
    match verb {
        "listen" => Ok(links::tcp::Role::Listen(resolve()?)),
        "connect" => Ok(links::tcp::Role::Connect(resolve()?)),
        _ => bail!("{key} = \"{text}\": write \"listen ADDRESS:PORT\" or \"connect ADDRESS:PORT\""),
    }
}
