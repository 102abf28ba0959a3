//! SDUs in hands that have no lifetimes: for bindings to other languages.
//!
//! A [`Received`] borrows its endpoint, so an application has one at a time. A binding's caller may keep several, and
//! says of each when it is done with it: [`Received::into_buffer`], then [`Endpoint::release_buffer`]. A buffer that is
//! never released is lost to the endpoint; one that is released twice may get two SDUs. Neither harms anybody else.

use crate::client::{Endpoint, Received};
use crate::layout::Descriptor;
use crate::segment::Segment;
use std::sync::Arc;

impl Received<'_> {
    /// Keeps the SDU's buffer, where it has one, beyond this borrow of its endpoint: its octets stay where they are.
    /// Gives the buffer's number; `None` where the SDU is in none, and gone with this.
    #[inline]
    pub fn into_buffer(self) -> Option<u32> {
        match self.endpoint.taken.head.buffer {
            Descriptor::INLINE | Descriptor::OWN | Received::COPIED => None,
            buffer => {
                // Dropped, it would give its buffer back.
                std::mem::forget(self);
                Some(buffer)
            }
        }
    }
}

impl Endpoint {
    /// The segment, which stays mapped for as long as whoever shows its octets has this.
    pub fn keep_mapped(&self) -> Arc<Segment> {
        self.pool.segment.clone()
    }

    /// Gives back a buffer that was kept. What is no buffer of the endpoint is left alone.
    #[inline]
    pub fn release_buffer(&mut self, buffer: u32) {
        if self.pool.segment.find_buffer(buffer).is_some() {
            self.give_free(buffer);
        }
    }
}
