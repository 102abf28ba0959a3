//! A desk in tests, with a device at each port.

use crate::device::Device;
use apic::desk::{Desk, Layout};
use net::{End, FramePool, LinkConfig, Network, NodeId};

/// A network of a desk, and what is at its ports in their order.
pub fn with_devices(layout: Layout) -> (Network, NodeId, Vec<NodeId>) {
    let mut network = Network::new(FramePool::new(4, 256));
    let ports = layout.ports();
    let desk = network.add_node("desk", Box::new(Desk::new(layout).unwrap()));
    let devices: Vec<_> =
        (0..ports).map(|n| network.add_node(&format!("device{n}"), Box::<Device>::default())).collect();
    for (n, device) in devices.iter().enumerate() {
        network.connect(End::Port(*device, 0), End::Port(desk, n as u16), LinkConfig::default()).unwrap();
    }
    (network, desk, devices)
}
