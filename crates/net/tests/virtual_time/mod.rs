//! Networks in virtual time.

use net::Network;
use wire::Time;

/// Runs from `now` on until nothing is left to do; when that is.
pub fn settle(network: &mut Network, mut now: Time) -> Time {
    loop {
        while network.run(now) {}
        match network.poll_timeout() {
            Some(next) => now = next.max(now),
            None => return now,
        }
    }
}
