//! What links between machines need of this one: sockets that hold what comes while a thread is late, and contracts that
//! tolerate how late it is.

use super::check;
use control::config::OUTSIDE_CDVT;
use control::results::doctor::Check;
use std::time::{Duration, Instant};
use wire::CellRate;

/// How long lateness is measured, in naps of [`NAP`].
const MEASURED: Duration = Duration::from_millis(400);
const NAP: Duration = Duration::from_millis(1);
/// Tolerances are proposed in steps of this.
const STEP: Duration = Duration::from_millis(5);

/// Whether a socket gets room for 100 ms of an OC-3c link.
pub(super) fn sockets() -> Check {
    let wanted = links::udp::buffer_octets(CellRate::from_cells_per_s(353_207.0));
    let granted = links::udp::granted_octets(wanted);
    let found = match &granted {
        Ok(octets) => format!("{} KiB of {} KiB for 100 ms of an OC-3c", octets >> 10, wanted >> 10),
        Err(e) => e.to_string(),
    };
    let cure = format!("sysctl -w net.core.rmem_max={wanted} net.core.wmem_max={wanted}, or run with CAP_NET_ADMIN");
    check("sockets of links by UDP", granted.is_ok_and(|octets| octets >= wanted), &found, &cure)
}

/// Whether threads of this machine wake up in time for the tolerance of links between machines.
pub(super) fn lateness() -> Check {
    let worst = worst_lateness();
    let proposal = proposal(worst);
    let found = format!("threads wake up to {:.1} ms late", worst.as_secs_f64() * 1e3);
    let cure = format!(
        "add cdvt_us = {} to links by cells_udp, cells_tcp and atmtcp, at both ends",
        proposal.unwrap_or(OUTSIDE_CDVT).as_micros()
    );
    check("jitter between machines (cdvt_us)", proposal.is_none(), &found, &cure)
}

fn worst_lateness() -> Duration {
    let begun = Instant::now();
    let mut worst = Duration::ZERO;
    while begun.elapsed() < MEASURED {
        let before = Instant::now();
        std::thread::sleep(NAP);
        worst = worst.max(before.elapsed().saturating_sub(NAP));
    }
    worst
}

/// The tolerance that a link needs where twice the lateness is more than the default: a sender and a receiver are late.
fn proposal(worst: Duration) -> Option<Duration> {
    let needed = worst * 2;
    let steps = needed.as_nanos().div_ceil(STEP.as_nanos());
    (needed > OUTSIDE_CDVT).then(|| STEP * steps as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tolerance_is_proposed_where_the_default_does_not_do() {
        let ms = Duration::from_millis;
        assert_eq!((proposal(ms(1)), proposal(ms(25))), (None, None));
        assert_eq!((proposal(ms(26)), proposal(ms(48))), (Some(ms(55)), Some(ms(100))));
    }
}
