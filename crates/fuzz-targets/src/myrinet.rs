//! Myrinet: packets as switches and hosts take them, and mapping messages.

use wire::myrinet::mapping::Message;
use wire::myrinet::{MAX_HOPS, Packet, Turn, advance, emit, packet_octets, reversed, turns};

/// A packet through as many switches as it names; what a host takes comes back when it is written again.
pub(crate) fn packet(octets: &[u8]) {
    let mut octets = octets.to_vec();
    let mut route = Vec::new();
    while let Ok(turn) = advance(&mut octets[route.len()..]) {
        route.push(turn);
    }
    let rest = &octets[route.len()..];
    if let Ok(packet) = Packet::new_checked(rest) {
        let mut again = vec![0; packet_octets(0, packet.payload().len())];
        emit(&[], packet.kind(), packet.payload(), &mut again);
        assert_eq!(again, rest);
        if let Ok((head, part)) = wire::myrinet::message::Head::parse(packet.payload()) {
            assert_eq!([&head.emit()[..], part].concat(), packet.payload());
        }
    }
    let mut back = [Turn::default(); MAX_HOPS];
    if let Some(n) = reversed(&route, &mut back) {
        assert!(back[..n].iter().rev().zip(&route).all(|(back, there)| back.ports() == -there.ports()));
    }
}

/// A message that is read is the same octets when it is written again, and each of its routes is one.
pub(crate) fn mapping(octets: &[u8]) {
    use wire::myrinet::mapping::Body;
    if let Ok(message) = Message::parse(octets) {
        let mut again = vec![0; message.buffer_len()];
        message.emit(&mut again);
        assert_eq!(again, octets);
        if let Body::Routes { entries, .. } = message.body {
            assert!(entries.iter().all(|(_, route)| turns(route).is_some()));
        }
    }
}
