//! Buffers in the application's hands: loans to fill and send, and SDUs that have arrived. Dropping gives them back.

use super::Endpoint;
use crate::ChannelId;
use crate::layout::{Descriptor, INLINE_OCTETS};
use crate::segment::Segment;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

/// Buffers that are the application's to send with.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) segment: Arc<Segment>,
    /// Loans that ended without being sent.
    pub(super) returned: Mutex<Vec<u32>>,
}

/// A buffer of the segment that is the application's to fill. Sending it gives it away; dropping it gives it back.
///
/// ```no_run
/// # fn send(endpoint: &mut endpoint::Endpoint, channel: endpoint::ChannelId) -> Result<(), Box<dyn std::error::Error>> {
/// let mut loan = endpoint.loan().ok_or("no buffer is free")?;
/// loan[..4].copy_from_slice(b"ping");
/// endpoint.send(channel, loan, 4).map_err(|(e, _loan)| e)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Loan {
    /// There until the loan has been sent.
    pool: Option<Arc<Pool>>,
    pub(super) buffer: u32,
}

impl Loan {
    pub(super) fn new(pool: Arc<Pool>, buffer: u32) -> Self {
        Loan { pool: Some(pool), buffer }
    }

    /// Its buffer has been given away: gives the pool's handle back.
    #[inline]
    pub(super) fn forget(mut self) -> Option<Arc<Pool>> {
        self.pool.take()
    }

    /// The buffer. A loan whose pool has gone has none.
    #[inline]
    fn memory(&self) -> NonNull<[u8]> {
        let none = NonNull::slice_from_raw_parts(NonNull::dangling(), 0);
        self.pool.as_ref().map_or(none, |pool| pool.segment.buffer(self.buffer))
    }
}

impl Loan {
    /// Its buffer's number: no two loans of an endpoint have the same.
    #[doc(hidden)]
    pub fn number(&self) -> u32 {
        self.buffer
    }
}

impl Deref for Loan {
    type Target = [u8];
    #[inline]
    #[allow(unsafe_code)]
    fn deref(&self) -> &[u8] {
        // SAFETY: a loan owns its buffer from `loan` to `send`; the buffer's number is in no ring meanwhile, and the
        // only slices of it are made here and in `deref_mut`, under this value's borrow; the service does not write it
        // meanwhile.
        unsafe { self.memory().as_ref() }
    }
}

impl DerefMut for Loan {
    #[inline]
    #[allow(unsafe_code)]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, under an exclusive borrow.
        unsafe { self.memory().as_mut() }
    }
}

impl Drop for Loan {
    #[inline]
    fn drop(&mut self) {
        if let Some(pool) = &self.pool
            && let Ok(mut returned) = pool.returned.lock()
        {
            returned.push(self.buffer);
        }
    }
}

/// An SDU that has arrived: its octets, by `Deref`. Its buffer goes back to the host when this is dropped.
///
/// ```no_run
/// # fn receive(endpoint: &mut endpoint::Endpoint) -> Result<(), endpoint::Error> {
/// while let Some(sdu) = endpoint.receive(None)? {
///     println!("{} octets, user-to-user indication {}", sdu.len(), sdu.uu());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Received<'a> {
    /// Has the SDU's descriptor in [`Endpoint::taken`]: to copy it from hand to hand costs more than the rest of taking
    /// an SDU.
    pub(crate) endpoint: &'a mut Endpoint,
}

impl Received<'_> {
    /// What stands for the buffer of an SDU that was lent and has been copied. The host gives no such one: it is not in
    /// a ring.
    pub(crate) const COPIED: u32 = Descriptor::PAGES;

    /// The channel it came on.
    #[inline]
    pub fn channel(&self) -> ChannelId {
        ChannelId(self.endpoint.taken.head.channel)
    }

    /// Whether it came with its descriptor: nothing that was posted has been used for it.
    pub fn is_inline(&self) -> bool {
        self.endpoint.taken.head.buffer == Descriptor::INLINE
    }

    /// AAL5 user-to-user indication.
    pub fn uu(&self) -> u8 {
        self.endpoint.taken.head.uu
    }

    /// Whether a cell of it had its loss priority set.
    pub fn clp(&self) -> bool {
        self.endpoint.taken.head.clp
    }

    /// Whether its last cell had met congestion.
    pub fn congestion(&self) -> bool {
        self.endpoint.taken.head.congestion
    }
}

impl Deref for Received<'_> {
    type Target = [u8];
    #[inline]
    #[allow(unsafe_code)]
    fn deref(&self) -> &[u8] {
        let octets = self.endpoint.taken.head.octets as usize;
        if self.endpoint.taken.head.buffer == Descriptor::INLINE {
            return &self.endpoint.taken.inline[..octets.min(INLINE_OCTETS)];
        }
        if self.endpoint.taken.head.buffer == Descriptor::OWN {
            return self.endpoint.outstanding.octets(&self.endpoint.taken);
        }
        if self.endpoint.taken.head.buffer == Self::COPIED {
            return self.endpoint.borrowed.copied();
        }
        let Some(buffer) = self.endpoint.pool.segment.find_buffer(self.endpoint.taken.head.buffer) else { return &[] };
        // SAFETY: the host gave the buffer away with this descriptor and does not write it until it is free again,
        // which `drop` says; this side makes no other slice of it.
        let buffer = unsafe { buffer.as_ref() };
        &buffer[..octets.min(buffer.len())]
    }
}

impl Drop for Received<'_> {
    #[inline]
    fn drop(&mut self) {
        let buffer = self.endpoint.taken.head.buffer;
        if buffer == Descriptor::OWN {
            self.post_again();
        } else if buffer != Descriptor::INLINE && buffer != Self::COPIED {
            self.endpoint.give_free(buffer);
        }
    }
}
