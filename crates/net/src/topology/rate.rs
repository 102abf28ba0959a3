//! Rates as people write them: names of lines, or a number with its unit.

use wire::CellRate;

/// Text that is no rate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RateError {
    /// Of a link.
    #[error(
        "\"{0}\" is no rate: write OC-3c, STM-1, E1, T1, E3, DS3 or the like, unlimited, or a number with cell/s, kbit/s, \
         Mbit/s or Gbit/s (of 53-octet cells)"
    )]
    Link(String),
    /// Of a circuit.
    #[error(
        "\"{0}\" is no rate: write a number of cells each second, or one with cell/s, kbit/s, Mbit/s or Gbit/s (of 48-octet \
         payloads), or OC-3c, STM-1, E1, T1, E3, DS3 or the like"
    )]
    Circuit(String),
    /// Of a circuit that may have no bound.
    #[error(
        "\"{0}\" is no rate: write unlimited, a number of cells each second, or one with cell/s, kbit/s, Mbit/s or Gbit/s \
         (of 48-octet payloads), or OC-3c, STM-1, E1, T1, E3, DS3 or the like"
    )]
    CircuitBound(String),
}

/// Lines by name, and the bits each second that they carry of 53-octet cells: their rate less the overhead.
const LINES: [(&[&str], f64); 8] = [
    // G.804: 30 of the 32 octets of a frame, and 24 of 24, 8000 times a second.
    (&["e1"], 1_920_000.0),
    (&["t1", "ds1", "j1"], 1_536_000.0),
    // G.832: 530 octets of payload in a frame, 8000 times a second.
    (&["e3"], 33_920_000.0),
    // DS3 with PLCP: 12 cells in 125 us (ATM_DS3_PCR of Linux); without, G.804's direct mapping.
    (&["ds3", "t3", "ds3-plcp"], 96_000.0 * 424.0),
    (&["ds3-direct", "ds3-hec"], 44_209_758.0),
    (&["sts-1", "oc-1"], STS_1),
    (&["taxi-100"], 100_000_000.0),
    // The ATM Forum's 25.6 Mbit/s interface: 4B5B leaves 25.6, a frame mark each 125 us and an octet a cell
    // (ATM_25_PCR of Linux).
    (&["atm25", "atm-25"], (25_600_000.0 / 8.0 - 8000.0) / 54.0 * 424.0),
];

/// STS-1: 84 columns of 9 octets, 8000 times a second.
const STS_1: f64 = 48_384_000.0;

/// One of the N of a concatenated STS-Nc: 260 columns for each three (I.432.2), which is 149.76 Mbit/s at OC-3c.
const STS_OF_CONCATENATED: f64 = 49_920_000.0;

/// Orders of SONET's hierarchy that carry one concatenated payload.
const CONCATENATED: [u32; 6] = [3, 12, 24, 48, 192, 768];

/// What bits of a cell a rate in bit/s counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bits {
    Line,
    Payload,
}

fn is_unlimited(text: &str) -> bool {
    text.trim().eq_ignore_ascii_case("unlimited")
}

/// A link's rate: bits are those of whole 53-octet cells. `None` for `unlimited`.
///
/// # Errors
/// [`RateError`] with the text.
pub fn parse_link_rate(text: &str) -> Result<Option<CellRate>, RateError> {
    if is_unlimited(text) {
        return Ok(None);
    }
    parse(text, Bits::Line).map(Some).ok_or_else(|| RateError::Link(text.to_owned()))
}

/// A circuit's rate: bits are those of cell payloads (48 octets), as Linux's `text2qos` counts them, and a number alone
/// is cells each second.
///
/// # Errors
/// [`RateError`] with the text.
pub fn parse_circuit_rate(text: &str) -> Result<CellRate, RateError> {
    parse(text, Bits::Payload).ok_or_else(|| RateError::Circuit(text.to_owned()))
}

/// The same where there may be no bound: `None` for `unlimited`.
///
/// # Errors
/// [`RateError`] with the text.
pub fn parse_circuit_bound(text: &str) -> Result<Option<CellRate>, RateError> {
    if is_unlimited(text) {
        return Ok(None);
    }
    parse(text, Bits::Payload).map(Some).ok_or_else(|| RateError::CircuitBound(text.to_owned()))
}

/// What a line of this name carries of cells, in bit/s.
fn line(lower: &str) -> Option<f64> {
    if let Some((_, bit_s)) = LINES.iter().find(|(names, _)| names.contains(&lower)) {
        return Some(*bit_s);
    }
    let (order, each) = [("oc", 1), ("sts", 1), ("stm", 3)].into_iter().find_map(|(name, each)| {
        let order = lower.strip_prefix(name)?;
        Some((order.strip_prefix('-').unwrap_or(order), each))
    })?;
    let order = order.strip_suffix('c').unwrap_or(order);
    let plain = !order.is_empty() && !order.starts_with('0') && order.bytes().all(|digit| digit.is_ascii_digit());
    let sts = order.parse::<u32>().ok().filter(|_| plain)?.checked_mul(each)?;
    match sts {
        1 => Some(STS_1),
        _ => CONCATENATED.contains(&sts).then(|| f64::from(sts) * STS_OF_CONCATENATED),
    }
}

fn parse(text: &str, bits: Bits) -> Option<CellRate> {
    let text = text.trim();
    if let Some(bit_s) = line(&text.to_ascii_lowercase()) {
        return CellRate::from_line_bits_per_s(bit_s);
    }
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..digits].parse().ok()?;
    let unit = text[digits..].trim();
    let bit_s = match unit.to_ascii_lowercase().as_str() {
        "" if bits == Bits::Payload => return CellRate::from_cells_per_s(number),
        "cell/s" | "cells/s" | "cps" => return CellRate::from_cells_per_s(number),
        "bit/s" | "bps" => number,
        "kbit/s" | "kbps" => number * 1e3,
        "mbit/s" | "mbps" => number * 1e6,
        "gbit/s" | "gbps" => number * 1e9,
        // A small b is a bit, a large one a byte, which no rate is in.
        _ if unit.ends_with("b/s") => match unit.trim_end_matches("b/s") {
            "" => number,
            "k" | "K" => number * 1e3,
            "M" => number * 1e6,
            "G" => number * 1e9,
            _ => return None,
        },
        _ => return None,
    };
    match bits {
        Bits::Line => CellRate::from_line_bits_per_s(bit_s),
        Bits::Payload => CellRate::from_payload_bits_per_s(bit_s),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(rate: f64) -> CellRate {
        CellRate::from_cells_per_s(rate).unwrap()
    }

    #[test]
    fn rates_are_read_in_the_fields_words() {
        assert_eq!(parse_link_rate("OC-3c"), Ok(Some(CellRate::OC3C)));
        assert_eq!(parse_link_rate("Unlimited"), Ok(None));
        assert_eq!(parse_link_rate("42.4 Mbit/s"), Ok(Some(cells(1e5))));
        assert_eq!(parse_circuit_rate("38.4Mbit/s"), Ok(cells(1e5)));
        assert_eq!(parse_circuit_rate("1000 cells/s"), Ok(cells(1e3)));
        for bad in ["", "fast", "-1 Mbit/s", "0 Mbit/s", "20", "20 MB/s", "1e3 bit/s", "1.2.3 bit/s", "OC-5", "STM-0"] {
            assert!(parse_link_rate(bad).is_err(), "{bad}");
        }
        assert!(parse_circuit_rate("unlimited").is_err());
        assert_eq!(parse_circuit_bound("unlimited"), Ok(None));
    }

    #[test]
    fn each_notation_of_a_rate_is_the_same_rate() {
        for same in [
            &["42400 kbit/s", "42.4 Mbit/s", "42.4Mbps", "42400kbps", "42.4 Mb/s", "0.0424 Gbit/s", "100000 cps"][..],
            &["OC-3c", "OC-3", "oc3", "STM-1", "stm1", "STS-3c", "149.76 Mbit/s"],
            &["OC-12c", "OC12", "STM-4", "599.04 Mbit/s"],
            &["OC-48c", "STM-16"],
            &["E1", "1.92 Mbit/s"],
            &["T1", "DS1", "1536 kbit/s"],
            &["E3", "80000 cell/s", "33.92 Mbps"],
            &["DS3", "T3", "96000 cells/s"],
        ] {
            let rates: Vec<CellRate> = same.iter().map(|text| parse_link_rate(text).unwrap().unwrap()).collect();
            for (rate, text) in rates.iter().zip(same) {
                let apart = (rate.cells_per_s() / rates[0].cells_per_s() - 1.0).abs();
                assert!(apart < 1e-12, "{text} is {rate:?}, and {} {:?}", same[0], rates[0]);
            }
        }
        for same in [["1000", "1000 cell/s", "1000cps"], ["384 kbit/s", "384 kbps", "384 Kbps"]] {
            same.iter().for_each(|text| assert_eq!(parse_circuit_rate(text), Ok(cells(1000.0)), "{text}"));
        }
        assert_eq!(parse_circuit_rate("E3"), Ok(cells(80_000.0)), "a line's name is that line, whatever asks");
    }
}
