//! Fabrics from a seed, for tests and the laboratory: switches of 4 to 16 ports in any topology that hangs together,
//! hosts at ports that are free, cables up to 25 m.

use super::{Config, End, Fabric, FabricError, HostId};
use net::random::Random;

/// How much there may be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Switches at most.
    pub switches: usize,
    /// Hosts at a switch at most.
    pub hosts: usize,
    /// Metres of the longest cable.
    pub metres: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { switches: 20, hosts: 3, metres: 25.0 }
    }
}

/// A fabric, and its hosts.
///
/// # Errors
/// The configuration's buffers are too small for the cables.
pub fn fabric(config: Config, limits: Limits, seed: u64) -> Result<(Fabric, Vec<HostId>), FabricError> {
    let mut random = Random::new(seed);
    let mut fabric = Fabric::new(config);
    let mut free: Vec<Vec<End>> = Vec::new();
    let count = random.within(1..=limits.switches.max(1));
    for n in 0..count {
        let ports = random.within(4..=16);
        let id = fabric.add_switch(ports)?;
        let mut ends: Vec<End> = (0..ports).map(|port| End::Port(id, port)).collect();
        random.shuffle(&mut ends);
        // A tree first, so that all hang together; a port stays free for it.
        let near: Vec<usize> = (0..n).filter(|m| free[*m].len() > 1 || (*m + 1 == n && !free[*m].is_empty())).collect();
        free.push(ends);
        if let Some(to) = near.get(random.index(near.len()))
            && let (Some(a), Some(b)) = (free[*to].pop(), free[n].pop())
        {
            fabric.connect(a, b, random.share() * limits.metres)?;
        }
    }
    // Cables beyond the tree, parallel ones among them; a port of each switch stays for a host.
    for _ in 0..random.within(0..=2 * count) {
        let (a, b) = (random.index(count), random.index(count));
        if a != b
            && free[a].len() > 1
            && free[b].len() > 1
            && let (Some(near), Some(far)) = (free[a].pop(), free[b].pop())
        {
            fabric.connect(near, far, random.share() * limits.metres)?;
        }
    }
    let mut hosts = Vec::new();
    for ends in &mut free {
        for _ in 0..random.within(1..=limits.hosts.max(1)) {
            let Some(end) = ends.pop() else { break };
            let host = fabric.add_host();
            fabric.connect(End::Host(host), end, random.share() * limits.metres)?;
            hosts.push(host);
        }
    }
    Ok((fabric, hosts))
}
