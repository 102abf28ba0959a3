//! Address resolution in a logical IP subnet (RFC 2225 section 8): a [`Client`], a [`Server`], and [`Inverse`], which
//! asks who is at the far end of one circuit. State machines: packets and `now` in; packets, answers and deadlines out.

mod backoff;
mod client;
mod inverse;
mod server;
mod ties;

pub use backoff::Backoff;
pub use client::{Client, Resolution};
pub use inverse::Inverse;
pub use server::Server;

use std::time::Duration;
use wire::atmarp::End;

/// How long a client believes an entry, and registers anew (RFC 2225 section 8.5.1: 15 minutes at most).
pub const CLIENT_AGEING: Duration = Duration::from_secs(15 * 60);
/// How long a server believes an entry (RFC 2225 section 8.4.1: 20 minutes).
pub const SERVER_AGEING: Duration = Duration::from_secs(20 * 60);

/// Whether two ends say that they are the same station. Without ATM numbers, as on permanent circuits, the circuit
/// alone tells.
fn same_station(a: &End, on: u32, b: &End, other: u32) -> bool {
    let numbered = !a.number.octets().is_empty() || !b.number.octets().is_empty();
    if numbered { a.number == b.number && a.subaddress == b.subaddress } else { on == other }
}

#[cfg(test)]
mod tests;
