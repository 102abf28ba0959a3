//! The small PDUs that say begin and end. Their four octets, as many as the classic's have, say how many PDUs are between
//! them: with the first bit set, which is never so in the classic's, whose octets are printable characters.

/// Set in a mark that has a count.
const COUNTED: u32 = 1 << 31;

/// The marks of so many PDUs: begin and end.
pub(super) fn of(count: u64) -> [[u8; 4]; 2] {
    match u32::try_from(count) {
        Ok(count) if count < COUNTED => [(COUNTED | count).to_be_bytes(); 2],
        // More than a mark can say: the receiver counts by -n.
        _ => [*b"ttcp", *b"done"],
    }
}

/// The count of a mark that has one.
pub(super) fn count(mark: &[u8]) -> Option<u64> {
    let mark = u32::from_be_bytes(mark.try_into().ok()?);
    (mark & COUNTED != 0).then_some(u64::from(mark & !COUNTED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_says_a_count_and_the_classics_says_none() {
        for n in [0, 1, 2048, u64::from(COUNTED) - 1] {
            assert_eq!(of(n).map(|mark| count(&mark)), [Some(n); 2]);
        }
        assert_eq!(of(u64::from(COUNTED)).map(|mark| count(&mark)), [None; 2]);
        for classic in [&b"ttcp"[..], b"done", b" !\"#", b"", b"12345678"] {
            assert_eq!(count(classic), None);
        }
    }
}
