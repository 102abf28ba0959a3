//! Capture files and pseudowires: what people bring along, and what other vendors' routers send.

use links::udp::pseudowire::{Carries as Passes, Codec, Config};
use net::{Carries, End, FramePool, LinkConfig, Network};
use wire::Time;
use wire::pseudowire::{Mode, Packet};

/// Every packet of a file lies within it, and the file ends.
pub(crate) fn pcap(octets: &[u8]) {
    let Ok(mut reader) = wire::pcap::Reader::new(octets) else { return };
    let mut sum = 0;
    while let Ok(Some(packet)) = reader.next_packet() {
        sum += packet.octets.len() + 1;
        assert!(sum <= octets.len(), "packets of {sum} octets in a file of {}", octets.len());
        let _ = wire::erf::Head::parse(packet.octets);
        sunatm(packet.octets);
    }
}

pub(crate) fn sunatm(octets: &[u8]) {
    let Ok((head, sdu)) = wire::sunatm::Head::parse(octets) else { return };
    let again = head.emit().expect("a VPI of eight bits has room");
    assert_eq!(wire::sunatm::Head::parse(&[&again[..], sdu].concat()), Ok((head, sdu)));
}

/// What parses comes back when it is written again.
pub(crate) fn pseudowire(octets: &[u8]) {
    for (mode, has_control) in [(Mode::Cells, true), (Mode::Cells, false), (Mode::Sdu, true)] {
        let Ok(packet) = Packet::parse(octets, mode, has_control) else { continue };
        let (head, n) = packet.emit_head();
        let again = [&head[..n], packet.payload].concat();
        assert_eq!(Packet::parse(&again, mode, has_control), Ok(packet));
    }
}

/// The first octet is the pseudowire's kind; datagrams follow, each behind its length.
pub(crate) fn pseudowire_link(octets: &[u8]) {
    let Some((kind, mut rest)) = octets.split_first() else { return };
    let (passes, carries) = match kind & 1 {
        0 => (Passes::Cells, Carries::Cells),
        _ => (Passes::Sdus(wire::CircuitId::from_key(100)), Carries::Frames),
    };
    let mut network = Network::new(FramePool::new(4, 65_536));
    let node = network.add_node("relay", Box::new(links::Relay::new(1)));
    let config = LinkConfig { carries, ..LinkConfig::default() };
    let Ok(link) = network.connect(End::Port(node, 0), End::External, config) else { return };
    let config = Config { carries: passes, label_out: 100, label_in: 100, control_word: kind & 2 == 0 };
    let mut codec = Codec::new(config);
    while let Some((length, after)) = rest.split_first() {
        let (datagram, after) = after.split_at(after.len().min(usize::from(*length)));
        rest = after;
        network.external(link, Time::ZERO, |io| codec.receive(datagram, io));
        network.run(Time::ZERO);
        network.external(link, Time::ZERO, |io| {
            let mut room = [0; 2000];
            if let Some(filled) = codec.fill(io, &mut room) {
                codec.sent(&filled, io);
            }
        });
    }
}
