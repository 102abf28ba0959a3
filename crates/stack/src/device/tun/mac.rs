//! The MAC address of a bridged device: the same at each start, for a provider binds a line to its station's address.

/// Where systemd keeps a machine's identity (machine-id(5)).
const MACHINE_ID: &str = "/etc/machine-id";

/// The address of the device at `circuit` of `host` on this machine: locally administered, of one station. The machine's
/// identity is part of it, for two machines may use the same names at the two ends of one line.
pub fn stable_mac(host: &str, circuit: &str) -> [u8; 6] {
    let machine = std::fs::read_to_string(MACHINE_ID).unwrap_or_default();
    derived(machine.trim(), host, circuit)
}

fn derived(machine: &str, host: &str, circuit: &str) -> [u8; 6] {
    // FNV-1a; a zero between the parts, so that no two triples read the same.
    let parts = [machine, "\0", host, "\0", circuit];
    let octets = parts.iter().flat_map(|part| part.bytes());
    let hash = octets.fold(0xcbf2_9ce4_8422_2325_u64, |h, octet| (h ^ u64::from(octet)).wrapping_mul(0x100_0000_01b3));
    let [_, _, a, b, c, d, e, f] = (hash ^ hash >> 32).to_be_bytes();
    // IEEE 802: the first octet's second bit says locally administered, its first one a group.
    [a & 0xfc | 2, b, c, d, e, f]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_address_is_the_same_each_time_and_another_for_each_machine_host_and_circuit() {
        assert_eq!(stable_mac("alpha", "8.35"), stable_mac("alpha", "8.35"));
        let mut all = BTreeSet::new();
        for machine in ["", "a", "b"] {
            for host in ["alpha", "beta", "alpha8"] {
                for circuit in ["8.35", "8.36", ".35", "0.100"] {
                    let mac = derived(machine, host, circuit);
                    assert_eq!(mac[0] & 3, 2, "locally administered, of one station");
                    assert!(all.insert(mac), "{machine} {host} {circuit}");
                }
            }
        }
    }
}
