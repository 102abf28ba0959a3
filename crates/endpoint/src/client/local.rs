//! The application's side without a service: for virtual time and for tests.

use crate::ring::{Consumer, Producer, Which};
use crate::segment::Segment;
use std::sync::Arc;

/// The application's side over a segment in the same process: for virtual time and for tests.
#[derive(Debug)]
pub struct Local {
    /// Client to host.
    pub send: Producer,
    /// Host to client.
    pub receive: Consumer,
    /// Buffers to receive into.
    pub free: Producer,
    /// The memory.
    pub segment: Arc<Segment>,
}

impl Local {
    /// The client's ends of a fresh segment.
    pub fn new(segment: &Arc<Segment>) -> Self {
        Local {
            send: Producer::new(segment, Which::Send),
            receive: Consumer::new(segment, Which::Receive),
            free: Producer::new(segment, Which::Free),
            segment: segment.clone(),
        }
    }
}
