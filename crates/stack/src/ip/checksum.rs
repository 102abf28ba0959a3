//! The Internet checksum (RFC 1071), and who may do without (Almesberger, 1995).

/// The ones' complement sum of `octets` as big-endian words, added to `sum`, not folded.
pub(crate) fn add(octets: &[u8], sum: u64) -> u64 {
    // The sum does not depend on the order of octets but for its own (RFC 1071, section 2 B): in the machine's order
    // the loop is of vectors.
    let (chunks, rest) = octets.as_chunks::<16>();
    let mut lanes = [0u64; 4];
    for chunk in chunks {
        for (lane, word) in lanes.iter_mut().zip(chunk.as_chunks::<4>().0) {
            *lane += u64::from(u32::from_ne_bytes(*word));
        }
    }
    let mut last = [0; 16];
    last[..rest.len()].copy_from_slice(rest);
    for (lane, word) in lanes.iter_mut().zip(last.as_chunks::<4>().0) {
        *lane += u64::from(u32::from_ne_bytes(*word));
    }
    let folded = fold(lanes.iter().sum());
    sum + u64::from(u16::from_be_bytes(folded.to_ne_bytes()))
}

/// Folds a sum to 16 bits.
pub(crate) fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    sum as u16
}

/// The sum of the pseudo-header of an IPv4 or IPv6 packet for `octets` octets of transport (RFC 768, 8200).
pub(crate) fn pseudo_header(packet: &[u8], protocol: u8, octets: usize) -> u64 {
    let addresses = if packet[0] >> 4 == 4 { &packet[12..20] } else { &packet[8..40] };
    add(addresses, u64::from(protocol) + octets as u64)
}

/// Writes the checksum of an IPv4 header.
pub(crate) fn write_ipv4(header: &mut [u8]) {
    header[10..12].fill(0);
    let sum = !fold(add(header, 0));
    header[10..12].copy_from_slice(&sum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_example_of_rfc_1071() {
        assert_eq!(fold(add(&[0, 1, 0xf2, 3, 0xf4, 0xf5, 0xf6, 0xf7], 0)), 0xddf2);
    }

    proptest! {
        #[test]
        fn it_is_the_sum_word_by_word(octets in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut sum = 0u32;
            for pair in octets.chunks(2) {
                sum += u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
                sum = (sum & 0xffff) + (sum >> 16);
            }
            prop_assert_eq!(fold(add(&octets, 0)), sum as u16);
        }
    }
}
