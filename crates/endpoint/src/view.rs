//! Octets of an SDU that has come, as far as they are this side's own: a copy, or memory that its sender may still
//! write.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering, fence};

/// What holds of the octets of an SDU.
///
/// ```
/// use endpoint::direct::{Direct, DirectConfig};
///
/// let (mut here, mut there) = Direct::pair(&DirectConfig::default())?;
/// here.sender.send_copy(b"short")?; // travels inside its line of the ring
/// let message = there.receiver.receive(None)?.ok_or("nothing came")?;
/// assert_eq!(message.guarantee(), endpoint::Guarantee::Private);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Guarantee {
    /// They are this side's own copy: nobody changes them.
    Private,
    /// They are the sender's memory: it may still change them, and what was checked may not be what is used.
    MayChange,
}

/// The sender was seen to change an SDU while it was copied.
///
/// ```no_run
/// # fn look(sdu: &endpoint::SharedSdu<'_>) {
/// let mut copy = vec![0; sdu.len()];
/// if let Err(endpoint::Changed { at, .. }) = sdu.checked_copy(&mut copy) {
///     eprintln!("octet {at} changed");
/// }
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the sender changed the message at octet {at} while it was copied")]
pub struct Changed {
    /// Where.
    pub at: usize,
}

/// The octets of an SDU.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Octets<'a> {
    Private(&'a [u8]),
    /// All of them, and the whole words of eight octets among them.
    Shared(&'a [AtomicU8], &'a [AtomicU64]),
}

impl<'a> Octets<'a> {
    #[inline]
    pub(crate) fn guarantee(&self) -> Guarantee {
        match self {
            Octets::Private(_) => Guarantee::Private,
            Octets::Shared(..) => Guarantee::MayChange,
        }
    }

    #[inline]
    pub(crate) fn private(&self) -> Option<&'a [u8]> {
        if let Octets::Private(octets) = self { Some(octets) } else { None }
    }

    #[inline]
    pub(crate) fn shared(&self) -> Option<&'a [AtomicU8]> {
        if let Octets::Shared(octets, _) = self { Some(octets) } else { None }
    }

    #[inline]
    pub(crate) fn shared_words(&self) -> Option<&'a [AtomicU64]> {
        if let Octets::Shared(_, words) = self { Some(words) } else { None }
    }

    /// Copies as many octets as `into` has and there are; gives how many.
    pub(crate) fn copy_to(&self, into: &mut [u8]) -> usize {
        let (octets, words) = match self {
            Octets::Private(octets) => {
                let n = octets.len().min(into.len());
                into[..n].copy_from_slice(&octets[..n]);
                return n;
            }
            Octets::Shared(octets, words) => (octets, words),
        };
        let n = octets.len().min(into.len());
        let (parts, rest) = into[..n].as_chunks_mut::<8>();
        for (part, word) in parts.iter_mut().zip(*words) {
            *part = word.load(Ordering::Relaxed).to_ne_bytes();
        }
        for (octet, from) in rest.iter_mut().zip(&octets[n - n % 8..]) {
            *octet = from.load(Ordering::Relaxed);
        }
        n
    }

    /// Copies, then compares.
    pub(crate) fn checked_copy(&self, into: &mut [u8]) -> Result<usize, Changed> {
        let n = self.copy_to(into);
        fence(Ordering::Acquire);
        if let Octets::Shared(octets, _) = self {
            let differs = |(copied, now): (&u8, &AtomicU8)| *copied != now.load(Ordering::Relaxed);
            if let Some(at) = into[..n].iter().zip(*octets).position(differs) {
                return Err(Changed { at });
            }
        }
        Ok(n)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_all_octets_in_order_whatever_its_length() {
        let plain: Vec<u8> = (1..=27).collect();
        let octets: Vec<AtomicU8> = plain.iter().map(|octet| AtomicU8::new(*octet)).collect();
        let words: Vec<AtomicU64> =
            plain.as_chunks::<8>().0.iter().map(|w| AtomicU64::new(u64::from_ne_bytes(*w))).collect();
        for view in [Octets::Private(&plain), Octets::Shared(&octets, &words)] {
            for room in 0..40 {
                let mut into = vec![0; room];
                let n = view.checked_copy(&mut into).unwrap();
                assert_eq!((n, &into[..n], &into[n..]), (room.min(27), &plain[..n], &vec![0; room - n][..]));
            }
        }
    }

    #[test]
    fn an_sdu_that_changes_while_it_is_copied_is_told_apart() {
        let octets = [1, 2, 3].map(AtomicU8::new);
        // The words are read by the copy, the octets by the comparison: here they differ from the beginning.
        let long = [1, 2, 3, 4, 5, 6, 7, 9, 9].map(AtomicU8::new);
        let words = [AtomicU64::new(u64::from_ne_bytes([1, 2, 3, 4, 5, 6, 7, 8]))];
        assert_eq!(Octets::Shared(&octets, &[]).checked_copy(&mut [0; 3]), Ok(3));
        assert_eq!(Octets::Shared(&long, &words).checked_copy(&mut [0; 9]), Err(Changed { at: 7 }));
    }
}
