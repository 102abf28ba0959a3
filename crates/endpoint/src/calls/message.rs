//! Messages about calls between an application and the service: JSON, inside management requests (`calls`).
//!
//! A connection is a session: what it listens for and the calls that it has end with it. [`Request::Wait`] is answered when something
//! has happened; any other request meanwhile ends the wait, whose answer comes first and may be empty.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use wire::q2931::{Layer2, Layer3, LowLayer};

/// What an application asks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Present incoming calls of a host to this session.
    Listen {
        /// The host.
        host: String,
        /// Calls to this selector only.
        #[serde(default)]
        selector: Option<u8>,
        /// Calls to this service access point only, as [`Sap`] writes it.
        #[serde(default)]
        sap: Option<String>,
    },
    /// Call an address.
    Call {
        /// The host that calls.
        host: String,
        /// Whom: 40 hexadecimal digits.
        to: String,
        /// The service access point, as [`Sap`] writes it.
        #[serde(default)]
        sap: Option<String>,
        /// What is asked of the network, in either direction.
        #[serde(default)]
        traffic: Traffic,
    },
    /// Answer a call.
    Accept {
        /// Which.
        call: u64,
    },
    /// Refuse a call, or release one.
    Release {
        /// Which.
        call: u64,
        /// The cause's number (Q.850).
        cause: u8,
    },
    /// Wait until something happens.
    Wait,
    /// The calls, addresses and failures that there are.
    List,
}

/// A traffic contract in the words of a description, rates in cells each second.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Traffic {
    /// `ubr`, `cbr`, `rt-vbr` or `nrt-vbr`.
    pub category: String,
    /// Peak cell rate.
    pub pcr: Option<u32>,
    /// Sustainable cell rate.
    pub scr: Option<u32>,
    /// Maximum burst size in cells.
    pub mbs: Option<u32>,
    /// The longest SDU in octets.
    pub sdu_octets: u16,
}

impl Default for Traffic {
    /// Best effort, SDUs of up to 9188 octets (RFC 2225).
    fn default() -> Self {
        Traffic { category: "ubr".into(), pcr: None, scr: None, mbs: None, sdu_octets: 9188 }
    }
}

/// The answer to all but [`Request::List`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It is done.
    Done,
    /// Calls are presented from now on.
    Listening {
        /// The number of this listening.
        listen: u64,
        /// The addresses under which the host can be called now.
        addresses: Vec<String>,
    },
    /// The call is being set up.
    Calling {
        /// Its number.
        call: u64,
    },
    /// What has happened since the last time, perhaps nothing.
    Events(Vec<Event>),
}

/// What happened to a call of the session's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// Somebody calls.
    Incoming {
        /// The call.
        call: u64,
        /// For this listening.
        listen: u64,
        /// Who calls, as far as the network says.
        from: Option<String>,
        /// Who is called.
        to: Option<String>,
    },
    /// The called user is alerted.
    Alerting {
        /// The call.
        call: u64,
    },
    /// The circuit is there.
    Connected {
        /// The call.
        call: u64,
        /// The host.
        host: String,
        /// VPI and VCI at the host.
        circuit: String,
    },
    /// The call is gone, and its circuit.
    Released {
        /// The call.
        call: u64,
        /// The cause's number.
        cause: u8,
        /// What it means.
        text: String,
    },
}

/// A service access point: the broadband low layer information that both ends compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sap {
    /// None: any.
    #[default]
    Any,
    /// LLC (RFC 2684), as Classical IP uses it.
    Llc,
    /// A layer 2 protocol by its code.
    Layer2(u8),
    /// A layer 3 protocol by its code.
    Layer3(u8),
    /// SNAP: organisation and protocol, without a header on the circuit.
    Snap([u8; 3], u16),
}

/// A text that names no service access point.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is no service access point: write any, llc, l2:0c, l3:0b or snap:00a03e-0001")]
pub struct SapError(pub String);

impl FromStr for Sap {
    type Err = SapError;
    fn from_str(text: &str) -> Result<Self, SapError> {
        let wrong = || SapError(text.to_owned());
        let code = |digits: &str| u8::from_str_radix(digits, 16).ok().filter(|code| *code < 32).ok_or_else(wrong);
        match text.split_once(':') {
            None if text == "any" => Ok(Sap::Any),
            None if text == "llc" => Ok(Sap::Llc),
            Some(("l2", digits)) => code(digits).map(Sap::Layer2),
            Some(("l3", digits)) => code(digits).map(Sap::Layer3),
            Some(("snap", rest)) => {
                let (oui, pid) =
                    rest.split_once('-').filter(|(oui, pid)| oui.len() == 6 && pid.len() == 4).ok_or_else(wrong)?;
                let oui = u32::from_str_radix(oui, 16).map_err(|_| wrong())?.to_be_bytes();
                let pid = u16::from_str_radix(pid, 16).map_err(|_| wrong())?;
                Ok(Sap::Snap([oui[1], oui[2], oui[3]], pid))
            }
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for Sap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Sap::Any => f.write_str("any"),
            Sap::Llc => f.write_str("llc"),
            Sap::Layer2(code) => write!(f, "l2:{code:02x}"),
            Sap::Layer3(code) => write!(f, "l3:{code:02x}"),
            Sap::Snap([a, b, c], pid) => write!(f, "snap:{a:02x}{b:02x}{c:02x}-{pid:04x}"),
        }
    }
}

impl Sap {
    /// The information element; `None` where none is sent.
    pub fn element(self) -> Option<LowLayer> {
        match self {
            Sap::Any => None,
            Sap::Llc => Some(LowLayer::LLC),
            Sap::Layer2(protocol) => Some(LowLayer {
                layer2: Some(Layer2 { protocol, mode: None, window: None, user: None }),
                ..LowLayer::default()
            }),
            Sap::Layer3(protocol) => Some(LowLayer { layer3: Some(Layer3::Plain(protocol)), ..LowLayer::default() }),
            Sap::Snap(oui, pid) => Some(LowLayer::snap(oui, pid)),
        }
    }

    /// Whether a call with this element is for whoever listens here.
    pub fn admits(self, called: Option<&LowLayer>) -> bool {
        self.element().is_none_or(|own| called == Some(&own))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_access_point_is_read_as_it_is_written_and_admits_itself() {
        for sap in [Sap::Any, Sap::Llc, Sap::Layer2(6), Sap::Layer3(0x0b), Sap::Snap([0, 0xa0, 0x3e], 1)] {
            assert_eq!(sap.to_string().parse(), Ok(sap));
            assert!(sap.admits(sap.element().as_ref()));
            assert_eq!(sap.admits(Some(&LowLayer::snap([1, 2, 3], 4))), sap == Sap::Any);
        }
        for wrong in ["", "llcx", "l2:20", "l3:zz", "snap:00a03e", "snap:00a03e-1", "snap:é00a-0001"] {
            assert_eq!(wrong.parse::<Sap>(), Err(SapError(wrong.into())));
        }
    }
}
