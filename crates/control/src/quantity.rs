//! Quantities in a description: a number in the key's unit, or a text with its own, `cdvt_us = "5 ms"`,
//! `pcr = "384 kbps"`.

use serde::de::{Deserialize, Deserializer, Error, Unexpected};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// A rate of circuits: cells each second, or a text.
#[derive(Debug, Clone, PartialEq, serde::Deserialize, schemars::JsonSchema)]
#[serde(untagged)]
pub enum RateText {
    /// With its unit, or the name of a line.
    Text(String),
    /// Cells each second.
    CellsPerSecond(f64),
}

/// A time: a number in the key's unit, or a text.
#[derive(Debug, Clone, PartialEq, serde::Deserialize, schemars::JsonSchema)]
#[serde(untagged)]
pub enum TimeText {
    /// In the key's unit.
    Number(u64),
    /// With its unit.
    Text(String),
}

/// A value as a document has it.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Written {
    Whole(i64),
    Number(f64),
    Text(String),
    Truth(bool),
}

impl Written {
    fn unexpected(&self) -> Unexpected<'_> {
        match self {
            Written::Whole(number) => Unexpected::Signed(*number),
            Written::Number(number) => Unexpected::Float(*number),
            Written::Text(text) => Unexpected::Str(text),
            Written::Truth(truth) => Unexpected::Bool(*truth),
        }
    }
}

/// A rate, kept as it is written.
///
/// # Errors
/// It is no number and no text.
pub fn rate<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    match Option::<Written>::deserialize(deserializer)? {
        None => Ok(None),
        Some(Written::Text(text)) => Ok(Some(text)),
        Some(Written::Whole(cells)) => Ok(Some(cells.to_string())),
        Some(Written::Number(cells)) => Ok(Some(cells.to_string())),
        Some(other) => Err(D::Error::invalid_type(other.unexpected(), &"a rate, such as \"384 kbit/s\" or 1000")),
    }
}

fn in_unit<E: Error>(written: &Written, unit: &str, of: fn(Duration) -> u128) -> Result<u64, E> {
    const EXPECTED: &str = "a number that is not negative, or a time with its unit, such as \"5 ms\"";
    let wrong = || match written {
        Written::Text(_) => E::invalid_value(written.unexpected(), &EXPECTED),
        _ => E::invalid_type(written.unexpected(), &EXPECTED),
    };
    match written {
        Written::Whole(number) => u64::try_from(*number).map_err(|_| E::invalid_value(written.unexpected(), &EXPECTED)),
        Written::Text(text) => {
            let time = wire::units::parse_duration(text, unit);
            time.and_then(|time| u64::try_from(of(time)).ok()).ok_or_else(wrong)
        }
        Written::Number(_) | Written::Truth(_) => Err(wrong()),
    }
}

/// Microseconds.
///
/// # Errors
/// It is no time.
pub fn micros<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    in_unit(&Written::deserialize(deserializer)?, "us", |time| time.as_micros())
}

/// Microseconds, or nothing.
///
/// # Errors
/// It is no time.
pub fn optional_micros<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let written = Option::<Written>::deserialize(deserializer)?;
    written.map(|written| in_unit(&written, "us", |time| time.as_micros())).transpose()
}

/// Milliseconds.
///
/// # Errors
/// It is no time.
pub fn millis<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    in_unit(&Written::deserialize(deserializer)?, "ms", |time| time.as_millis())
}

/// An IP address and a port; `localhost` is this machine's own IPv4 address.
///
/// # Errors
/// It is written otherwise.
pub fn parse_socket(text: &str) -> Result<SocketAddr, String> {
    let local = text.strip_prefix("localhost:").and_then(|port| port.parse().ok());
    if let Some(port) = local {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    text.parse().map_err(|_| format!("\"{text}\": expected an IP address and a port, or localhost:PORT"))
}

/// The same in a description.
///
/// # Errors
/// It is written otherwise.
pub fn socket<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    parse_socket(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}
