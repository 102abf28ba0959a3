//! Rates as people write them.

use wire::CellRate;

/// Text that is no rate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is no rate: write OC-3c, OC-12c, STS-1, unlimited, or a number with cell/s, kbit/s, Mbit/s or Gbit/s")]
pub struct RateError(pub String);

/// Names of lines and what their payload carries in bit/s (SONET and SDH: the line's rate less its overhead).
const LINES: [(&[&str], f64); 4] = [
    (&["sts-1", "oc-1"], 48_384_000.0),
    (&["oc-3c", "oc-3", "sts-3c", "stm-1"], 149_760_000.0),
    (&["oc-12c", "oc-12", "sts-12c", "stm-4"], 599_040_000.0),
    (&["taxi-100"], 100_000_000.0),
];

/// What bits of a cell a rate in bit/s counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bits {
    Line,
    Payload,
}

/// A link's rate: bits are those of whole 53-octet cells. `None` for `unlimited`.
///
/// # Errors
/// [`RateError`] with the text.
pub fn parse_link_rate(text: &str) -> Result<Option<CellRate>, RateError> {
    if text.trim().eq_ignore_ascii_case("unlimited") {
        return Ok(None);
    }
    parse(text, Bits::Line).map(Some)
}

/// A circuit's rate: bits are those of cell payloads (48 octets), as Linux's `text2qos` counts them.
///
/// # Errors
/// [`RateError`] with the text.
pub fn parse_circuit_rate(text: &str) -> Result<CellRate, RateError> {
    parse(text, Bits::Payload)
}

fn parse(text: &str, bits: Bits) -> Result<CellRate, RateError> {
    let error = || RateError(text.to_owned());
    let lower = text.trim().to_ascii_lowercase();
    if let Some((_, bit_s)) = LINES.iter().find(|(names, _)| names.contains(&lower.as_str())) {
        return CellRate::from_line_bits_per_s(*bit_s).ok_or_else(error);
    }
    let digits = lower.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(lower.len());
    let number: f64 = lower[..digits].parse().map_err(|_| error())?;
    let bit_s = match lower[digits..].trim() {
        "cell/s" | "cells/s" => return CellRate::from_cells_per_s(number).ok_or_else(error),
        "bit/s" => number,
        "kbit/s" => number * 1e3,
        "mbit/s" => number * 1e6,
        "gbit/s" => number * 1e9,
        _ => return Err(error()),
    };
    match bits {
        Bits::Line => CellRate::from_line_bits_per_s(bit_s),
        Bits::Payload => CellRate::from_payload_bits_per_s(bit_s),
    }
    .ok_or_else(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_in_the_fields_words() {
        assert_eq!(parse_link_rate("OC-3c"), Ok(Some(CellRate::OC3C)));
        assert_eq!(parse_link_rate("Unlimited"), Ok(None));
        assert_eq!(parse_link_rate("42.4 Mbit/s"), Ok(CellRate::from_cells_per_s(1e5)));
        assert_eq!(parse_circuit_rate("38.4Mbit/s"), Ok(CellRate::from_cells_per_s(1e5).unwrap()));
        assert_eq!(parse_circuit_rate("1000 cells/s"), Ok(CellRate::from_cells_per_s(1e3).unwrap()));
        for bad in ["", "fast", "-1 Mbit/s", "0 Mbit/s", "20", "20 MB/s", "1e3 bit/s", "1.2.3 bit/s"] {
            assert!(parse_link_rate(bad).is_err(), "{bad}");
        }
        assert!(parse_circuit_rate("unlimited").is_err());
    }
}
