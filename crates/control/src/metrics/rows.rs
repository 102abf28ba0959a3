//! Rows of metrics, as the OpenMetrics text format has them: what [`super::encode`] and the kinds of station
//! ([`crate::kinds::Kind::metrics`]) write with.

use crate::status::CounterStatus;
use prometheus_client::encoding::{DescriptorEncoder, EncodeCounterValue, NoLabelSet};
use prometheus_client::metrics::MetricType;
use std::collections::BTreeMap;
use std::fmt;

/// Names and values of a row's labels.
pub type Labels = Vec<(&'static str, String)>;

/// Rows of one metric.
pub struct Family<T> {
    /// The metric's name.
    pub name: &'static str,
    /// What it says.
    pub help: &'static str,
    /// Its rows, by their labels.
    pub rows: Vec<(Labels, T)>,
}

/// Writes a metric that rises and falls.
///
/// # Errors
/// The encoder fails.
pub fn gauges(encoder: &mut DescriptorEncoder<'_>, family: Family<f64>) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(family.name, family.help, None, MetricType::Gauge)?;
    for (labels, value) in &family.rows {
        if labels.is_empty() {
            metric.encode_gauge(value)?;
        } else {
            metric.encode_family(labels)?.encode_gauge(value)?;
        }
    }
    Ok(())
}

/// Writes a metric that only rises.
///
/// # Errors
/// The encoder fails.
pub fn counters<T: EncodeCounterValue>(encoder: &mut DescriptorEncoder<'_>, family: Family<T>) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(family.name, family.help, None, MetricType::Counter)?;
    for (labels, value) in &family.rows {
        if labels.is_empty() {
            metric.encode_counter::<NoLabelSet, T, u64>(value, None)?;
        } else {
            metric.encode_family(labels)?.encode_counter::<NoLabelSet, T, u64>(value, None)?;
        }
    }
    Ok(())
}

/// A state that is or is not.
pub fn flag(value: bool) -> f64 {
    f64::from(u8::from(value))
}

/// One value without labels.
pub fn one<T>(value: T) -> Vec<(Labels, T)> {
    vec![(Vec::new(), value)]
}

/// What was dropped, a row for each reason.
pub fn dropped(labels: &Labels, reasons: &BTreeMap<String, u64>) -> Vec<(Labels, u64)> {
    let row = |(reason, n): (&String, &u64)| {
        let labels = labels.iter().cloned().chain([("reason", reason.clone())]).collect();
        (labels, *n)
    };
    reasons.iter().map(row).collect()
}

/// A number of something that has labels, with its name and help.
pub type Of<T, N> = (&'static str, &'static str, fn(&T) -> N);

/// Writes several metrics of the same things, which rise and fall.
///
/// # Errors
/// The encoder fails.
pub fn all_gauges<T>(encoder: &mut DescriptorEncoder<'_>, values: &[Of<T, f64>], of: &[(Labels, &T)]) -> fmt::Result {
    for (name, help, value) in values {
        let rows = of.iter().map(|(labels, one)| (labels.clone(), value(one))).collect();
        gauges(encoder, Family { name, help, rows })?;
    }
    Ok(())
}

/// Writes several metrics of the same things, which only rise.
///
/// # Errors
/// The encoder fails.
pub fn all_counters<T, N: EncodeCounterValue>(
    encoder: &mut DescriptorEncoder<'_>,
    values: &[Of<T, N>],
    of: &[(Labels, &T)],
) -> fmt::Result {
    for (name, help, value) in values {
        let rows = of.iter().map(|(labels, one)| (labels.clone(), value(one))).collect();
        counters(encoder, Family { name, help, rows })?;
    }
    Ok(())
}

/// Drops of several counters, a row for each reason.
///
/// # Errors
/// The encoder fails.
pub fn drops(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help): (&'static str, &'static str),
    of: &[(Labels, &CounterStatus)],
) -> fmt::Result {
    let rows = of.iter().flat_map(|(labels, counter)| dropped(labels, &counter.dropped)).collect();
    counters(encoder, Family { name, help, rows })
}

/// Labels and one more.
pub fn with(labels: &Labels, name: &'static str, value: impl ToString) -> Labels {
    labels.iter().cloned().chain([(name, value.to_string())]).collect()
}
