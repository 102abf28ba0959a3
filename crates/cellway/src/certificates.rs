//! The certificates of links with TLS, as they are named on a command line.

use clap::Args;
use control::config::LinkTls;
use std::path::PathBuf;

#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Certificates {
    /// With TLS: this end's certificate and what leads to an authority that the peer trusts, PEM
    #[arg(long, requires_all = ["key", "trust"])]
    certificate: Option<PathBuf>,
    /// With TLS: the certificate's private key, PEM
    #[arg(long, requires = "certificate")]
    key: Option<PathBuf>,
    /// With TLS: certificates of the authorities whose certificates the peer may show, PEM
    #[arg(long, requires = "certificate")]
    trust: Option<PathBuf>,
    /// With TLS: the name that the peer's certificate must be for; by default the HOST that is connected to
    #[arg(long, requires = "certificate")]
    name: Option<String>,
}

impl Certificates {
    /// None if none were named.
    pub(crate) fn given(&self) -> Option<LinkTls> {
        let (certificate, key, trust) = (self.certificate.clone()?, self.key.clone()?, self.trust.clone()?);
        Some(LinkTls { certificate, key, trust, name: self.name.clone() })
    }
}
