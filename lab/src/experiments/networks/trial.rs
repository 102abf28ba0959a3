//! One number of one network, for a registration.

use super::work::Made;
use crate::model::networks::Kind;
use crate::model::{Profile, ProfileError};
use core::time::Duration;
use lanai::MulticastBy;

/// Asks a network by its name for one kind of work; none, where the model gives no result.
///
/// # Errors
/// A machine lacks a constant, or there is no such network or work.
pub(crate) fn ask(network: &str, work: &str, octets: usize, hosts: usize) -> Result<Option<f64>, ProfileError> {
    let kind = match network {
        "unet" => Kind::Unet,
        "apic" => Kind::Apic,
        "myrinet" => Kind::Myrinet(MulticastBy::Cycle),
        "myrinet-repeated" => Kind::Myrinet(MulticastBy::Repetition),
        other => return Err(ProfileError::Shape(format!("no network {other}"))),
    };
    let names = ["sparcstation20", "unet-sba200", "apic", "myrinet-lanai"];
    let [host, unet, chip, lanai] = names.map(Profile::named);
    let made = Made::new([&host?, &unet?, &chip?, &lanai?])?;
    let (short, long) = (Duration::from_millis(8), Duration::from_millis(16));
    let answer = match work {
        "one-way" => made.one_way(kind, octets, short).map(|one_way| one_way.mbit_s),
        "processor" => made.one_way(kind, octets, short).map(|one_way| one_way.processor_us),
        "round-trip" => made.round_trip(kind, octets),
        "senders" => made.senders(kind, hosts, long).map(|gathered| gathered.mbit_s),
        "least-sender" => made.senders(kind, hosts, long).map(|gathered| gathered.least),
        "group" => made.multicast(kind, hosts, short).map(|[rate, _]| rate),
        other => return Err(ProfileError::Shape(format!("no work {other}"))),
    };
    Ok(answer.filter(|value| *value > 0.0))
}
