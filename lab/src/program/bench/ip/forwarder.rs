//! The plain forwarder: what it takes at least to join two TUN devices. Two threads; each blocks in a read of one device and
//! writes to the other what it got, virtio header and all.

use crate::bench::pin;
use anyhow::Result;
use cellway::output;
use stack::device::tun::{Device, DeviceSettings};
use std::sync::Arc;

/// The longest packet, and some room.
const PACKET_OCTETS: usize = 66_000;

/// Joins two devices for as long as this process lives: a read that blocks is not to be ended otherwise.
pub(super) fn join(ends: [&DeviceSettings; 2], processor: Option<usize>) -> Result<()> {
    let [a, b] = ends;
    let (a, b) = (Arc::new(Device::new(a)?), Arc::new(Device::new(b)?));
    for (from, to) in [(a.clone(), b.clone()), (b, a)] {
        std::thread::Builder::new().name("forwarder".into()).spawn(move || {
            if let Some(Err(e)) = processor.map(pin) {
                output::note(format_args!("cellway-lab bench ip: the forwarder: {e:#}"));
            }
            let mut packet = vec![0; PACKET_OCTETS];
            // A device that has gone ends its thread; a packet that is not taken is lost.
            while let Ok((header, octets)) = from.read(&mut packet) {
                let _ = to.write(&header, &packet[..octets]);
            }
        })?;
    }
    Ok(())
}
