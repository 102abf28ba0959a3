//! An application on a host of the world: it moves SDUs through the rings of a real endpoint.

use endpoint::layout::{Descriptor, Head};
use endpoint::segment::Segment;
use endpoint::{Aal, DataPath, Events, Geometry, Local};
use host::{EndpointId, HostEndpoint, HostInterface};
use lab::World;
use std::sync::Arc;
use wire::CircuitId;

pub const BUFFERS: u32 = 64;
const GEOMETRY: Geometry =
    Geometry { send_ring: 64, receive_ring: 64, free_ring: 64, buffers: 2 * BUFFERS, buffer_octets: 9216 };

/// An application's end, and the channel it has open.
pub struct Application {
    pub local: Local,
    channel: u32,
}

impl Application {
    /// Opens 0.100 at a host of the world; half of the buffers are given to the host to receive into.
    pub fn open(world: &mut World<HostInterface>, host: &str, path: DataPath) -> Self {
        let segment = Arc::new(Segment::anonymous(GEOMETRY).unwrap());
        let mut local = Local::new(&segment);
        assert!((0..BUFFERS).all(|buffer| local.free.push(Head::of_buffer(buffer))));
        let host = world.host(host);
        let id: EndpointId = host.attach(HostEndpoint::new(segment, Events::Polling, path, None)).unwrap();
        let channel = host.open(id, CircuitId::new(0, 100).unwrap(), Aal::Aal5).unwrap().0;
        Application { local, channel }
    }

    /// Sends by buffer `n`, which wraps: the caller sees to it that it is free again.
    pub fn send(&mut self, n: u32, sdu: &[u8]) {
        let buffer = BUFFERS + n % BUFFERS;
        self.local.segment.copy_in(GEOMETRY.buffer_at(buffer).unwrap(), sdu);
        let descriptor = Head { channel: self.channel, octets: sdu.len() as u32, ..Head::of_buffer(buffer) };
        assert!(self.local.send.push(descriptor));
    }

    /// The next SDU that has come.
    pub fn receive(&mut self) -> Option<Vec<u8>> {
        let d = self.local.receive.pop()?;
        if d.head.buffer == Descriptor::INLINE {
            return Some(d.inline[..d.head.octets as usize].to_vec());
        }
        let mut sdu = vec![0; d.head.octets as usize];
        self.local.segment.copy_out(GEOMETRY.buffer_at(d.head.buffer).unwrap(), &mut sdu);
        assert!(self.local.free.push(Head::of_buffer(d.head.buffer)));
        Some(sdu)
    }
}
