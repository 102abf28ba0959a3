//! Quantities on the command line: one notation for each, whatever the command.
//!
//! A time is a number with its unit, `250 ms` or `1.5s`; without a unit, in the option's own, which its help names.

use std::time::Duration;

fn time(text: &str, unit: &str) -> Result<Duration, String> {
    let time = wire::units::parse_duration(text, unit);
    time.ok_or_else(|| format!("expected a time such as 2, in {unit}, or with its unit: 250ms, 1.5s, 2min"))
}

/// A time, in seconds without a unit.
///
/// # Errors
/// It is none.
pub fn seconds(text: &str) -> Result<Duration, String> {
    time(text, "s")
}

/// A time, in milliseconds without a unit.
///
/// # Errors
/// It is none.
pub fn millis(text: &str) -> Result<Duration, String> {
    time(text, "ms")
}

/// A time, in microseconds without a unit.
///
/// # Errors
/// It is none.
pub fn micros(text: &str) -> Result<Duration, String> {
    time(text, "us")
}

/// A rate of cells, as everywhere: `20 Mbit/s` of payload, `5000 cell/s`. A number alone is cells each second.
///
/// # Errors
/// It is none, or below one cell each second.
pub fn cells_per_second(text: &str) -> Result<u32, String> {
    let rate = net::topology::parse_circuit_rate(text).map_err(|e| e.to_string())?;
    let cells = rate.cells_per_s();
    if (1.0..=f64::from(u32::MAX)).contains(&cells) { Ok(cells as u32) } else { Err(format!("{cells} cell/s")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_its_unit_or_that_of_its_option() {
        for (text, ns) in
            [("2", 2_000_000_000), ("250ms", 250_000_000), ("250 ms", 250_000_000), ("1.5s", 1_500_000_000)]
        {
            assert_eq!(seconds(text), Ok(Duration::from_nanos(ns)), "{text}");
        }
        assert_eq!(seconds("2min"), Ok(Duration::from_secs(120)));
        assert_eq!(millis("5000"), Ok(Duration::from_secs(5)));
        assert_eq!(micros("1000"), Ok(Duration::from_millis(1)));
        for bad in ["", "s", "-1", "5 parsecs", "1e400", "NaN"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_rate_is_written_as_in_a_description_or_in_cells() {
        assert_eq!(cells_per_second("5000"), Ok(5000));
        assert_eq!(cells_per_second("5000 cell/s"), Ok(5000));
        assert!((52_000..52_100).contains(&cells_per_second("20 Mbit/s").unwrap()));
        assert!(cells_per_second("20 Mbits").is_err());
    }
}
