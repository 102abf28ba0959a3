//! `cells_udp` of a link: cells in datagrams.

use super::word;
use crate::fault::Faults;
use crate::quantity;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// `cells_udp = { ... }` of a link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Udp {
    /// This end: an IP address, or `localhost`, and a port.
    #[serde(deserialize_with = "quantity::socket")]
    #[schemars(with = "String")]
    pub local: SocketAddr,
    /// The far end: an IP address, or `localhost`, and a port.
    #[serde(deserialize_with = "quantity::socket")]
    #[schemars(with = "String")]
    pub peer: SocketAddr,
    /// `cell`: one 53-octet cell to a datagram; `batch`: up to 27.
    #[serde(default = "one_cell")]
    pub form: String,
    /// With `cell`: the header at the `uni` (8 bits of VPI) or at the `nni` (12 bits).
    #[serde(default = "uni", skip_serializing_if = "is_uni")]
    #[schemars(extend("default" = "uni"))]
    pub header: String,
}

impl Udp {
    /// What a datagram holds.
    ///
    /// # Errors
    /// A word is none of those.
    pub fn form(&self) -> Result<links::udp::Form, Faults> {
        use wire::octets::Format;
        let mut faults = Faults::default();
        let header = word(&mut faults, "header", &self.header, &[("uni", Format::Uni), ("nni", Format::Nni)]);
        let forms =
            [("cell", links::udp::Form::Cell(header.unwrap_or(Format::Uni))), ("batch", links::udp::Form::Batch)];
        let form = word(&mut faults, "form", &self.form, &forms);
        faults.or(form)
    }
}

fn uni() -> String {
    "uni".into()
}
fn is_uni(header: &str) -> bool {
    header == "uni"
}

fn one_cell() -> String {
    "cell".into()
}
