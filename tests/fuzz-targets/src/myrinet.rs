//! Myrinet: packets as switches and hosts take them, and mapping messages.

use lanai::packet::mapping::Message;
use lanai::packet::{MAX_HOPS, Packet, Turn, advance, emit, packet_octets, reversed, turns};

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
        if let Ok((head, part)) = lanai::packet::message::Head::parse(packet.payload()) {
            assert_eq!([&head.emit()[..], part].concat(), packet.payload());
            if let Ok((tag, sdu)) = lanai::packet::tag::Tag::parse(part) {
                assert_eq!([&tag.emit()[..], sdu].concat(), part);
            }
        }
    }
    let mut back = [Turn::default(); MAX_HOPS];
    if let Some(n) = reversed(&route, &mut back) {
        assert!(back[..n].iter().rev().zip(&route).all(|(back, there)| back.ports() == -there.ports()));
    }
}

/// A message that is read is the same octets when it is written again, and each of its routes is one.
pub(crate) fn mapping(octets: &[u8]) {
    use lanai::packet::mapping::Body;
    if let Ok(message) = Message::parse(octets) {
        let mut again = vec![0; message.buffer_len()];
        message.emit(&mut again);
        assert_eq!(again, octets);
        if let Body::Routes { entries, .. } = message.body {
            assert!(entries.iter().all(|(_, route)| turns(route).is_some()));
        }
    }
}

/// An interface whose peers send what they like: it answers mapping messages, keeps to its buffers, and writes only where a user has
/// posted one. Each step is an octet that says what happens, one of length, and so many octets.
pub(crate) fn interface(octets: &[u8]) {
    use bus::memory::Flat;
    use lanai::fabric::mapper::Settings;
    use lanai::packet::Kind;
    use lanai::{Config, Event, Lanai, Posted};
    const POSTED: Posted = Posted { address: 0x1000, octets: 0x800 };
    let mut now = wire::Time::ZERO;
    let mut memory = Flat::new(0, 0x3000);
    let mut lanai = Lanai::new(0x60dd_0001, Config::default(), Settings::default(), now);
    lanai.set_group(1, &[0x60dd_0001, 0x60dd_0002, 0x60dd_0003]);
    let mut rest = octets;
    while let Some(([step, length], after)) = rest.split_first_chunk::<2>() {
        let (part, after) = after.split_at(after.len().min((*length).into()));
        rest = after;
        if lanai.accepts() {
            let kinds = [Kind::MAPPING, Kind::MESSAGE, Kind::IP];
            match kinds.get(usize::from(step & 3)) {
                Some(kind) => {
                    let mut packet = vec![0; packet_octets(0, part.len())];
                    emit(&[], *kind, part, &mut packet);
                    lanai.handle_packet(packet);
                }
                None => lanai.handle_packet(part.to_vec()),
            }
        }
        if step & 4 != 0 {
            let _ = lanai.post(usize::from(step >> 5 & 1), POSTED);
        }
        now += core::time::Duration::from_micros(1 << (step >> 4));
        lanai.run(&mut memory, now);
        while let Some((packet, number)) = lanai.poll_packet() {
            assert!(packet.len() <= lanai::packet::MAX_OCTETS);
            lanai.handle_sent(number);
        }
        while let Some(event) = lanai.poll_event() {
            if let Event::Received { buffer, octets, .. } = event {
                assert!(buffer == POSTED && octets <= POSTED.octets);
            }
        }
    }
    let outside = [(0, 0x1000), (0x1800, 0x1800)];
    assert!(outside.iter().all(|(at, n)| memory.slice(*at, *n).is_some_and(|octets| octets.iter().all(|o| *o == 0))));
}
