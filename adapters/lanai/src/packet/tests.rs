//! Packets through switches, mapping messages, and what damaged octets do.

use super::mapping::{Body, Entries, Message, emit_entry, entry_octets};
use super::*;
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

fn routes(most: usize) -> impl Strategy<Value = Vec<Turn>> {
    proptest::collection::vec((-31i8..=31).prop_map(|n| Turn::new(n).unwrap()), 0..=most)
}

fn octets_of(route: &[Turn]) -> Vec<u8> {
    route.iter().map(|turn| turn.octet()).collect()
}

fn packet(route: &[Turn], kind: Kind, payload: &[u8]) -> Vec<u8> {
    let mut octets = vec![0; packet_octets(route.len(), payload.len())];
    assert_eq!(emit(route, kind, payload, &mut octets), octets.len());
    octets
}

#[test]
fn a_turn_is_six_bits_with_a_sign_behind_a_one() {
    assert_eq!(Turn::new(0).unwrap().octet(), 0x80);
    assert_eq!(Turn::new(3).unwrap().octet(), 0x83);
    assert_eq!(Turn::new(-1).unwrap().octet(), 0xbf);
    assert_eq!(Turn::new(32), None);
    assert_eq!(Turn::from_octet(0x3f), None);
    for octet in 0x80..=0xbf {
        assert_eq!(Turn::from_octet(octet).unwrap().octet(), octet);
    }
}

#[test]
fn the_type_of_a_packet_is_known_with_its_route_a_rest_of_it_and_without() {
    let route = [Turn::new(3).unwrap(); MAX_HOPS];
    let whole = packet(&route, Kind::MAPPING, b"payload");
    for gone in 0..=MAX_HOPS {
        assert_eq!(kind(&whole[gone..]), Some(Kind::MAPPING));
    }
    let too_long = [&[Turn::new(3).unwrap().octet()][..], &whole].concat();
    assert_eq!((kind(&too_long), kind(&whole[..MAX_HOPS + 3]), kind(&[])), (None, None, None));
}

#[test]
fn a_port_beyond_the_switch_is_none() {
    assert_eq!(Turn::between(6, 2).unwrap().output(6, 8), Some(2));
    assert_eq!(Turn::new(-3).unwrap().output(2, 8), None);
    assert_eq!(Turn::new(5).unwrap().output(3, 8), None);
}

#[test]
fn a_host_refuses_a_packet_whose_route_has_not_ended_and_a_switch_one_whose_route_has() {
    let mut octets = packet(&[Turn::default()], Kind::IP, b"x");
    assert!(matches!(Packet::new_checked(&octets), Err(Error::Field { field: "type", .. })));
    assert!(advance(&mut octets).is_ok());
    assert!(Packet::new_checked(&octets[1..]).is_ok());
    assert!(matches!(advance(&mut octets[1..]), Err(Error::Field { field: "route octet", .. })));
}

proptest! {
    #[test]
    fn a_packet_comes_through_its_switches_as_it_was_sent(route in routes(MAX_HOPS), kind in 0u32..1 << 31, payload: Vec<u8>) {
        let kind = Kind::new(kind).unwrap();
        let mut octets = packet(&route, kind, &payload);
        for (hop, turn) in route.iter().enumerate() {
            prop_assert_eq!(advance(&mut octets[hop..]), Ok(*turn));
            // What the linear step made is what a CRC over the rest would be.
            let rest = &octets[hop + 1..];
            prop_assert_eq!(rest[rest.len() - 1], crc8(&rest[..rest.len() - 1]));
        }
        let got = Packet::new_checked(&octets[route.len()..]).unwrap();
        prop_assert_eq!((got.kind(), got.payload()), (kind, &payload[..]));
    }

    #[test]
    fn a_wrong_bit_is_seen_by_the_host_though_each_switch_makes_the_crc_anew(
        route in routes(8), payload in proptest::collection::vec(any::<u8>(), 0..100), at: proptest::sample::Index, bit in 0..8u8, hop: proptest::sample::Index,
    ) {
        let mut octets = packet(&route, Kind::IP, &payload);
        let damaged_at = hop.index(route.len() + 1);
        for n in 0..=route.len() {
            if n == damaged_at {
                let (from, len) = (route.len(), octets.len());
                octets[from + at.index(len - from)] ^= 1 << bit;
            }
            if n < route.len() {
                prop_assert!(advance(&mut octets[n..]).is_ok());
            }
        }
        prop_assert!(Packet::new_checked(&octets[route.len()..]).is_err());
    }

    #[test]
    fn there_and_back_is_where_one_was(route in routes(MAX_HOPS), first in 0usize..64) {
        let mut back = [Turn::default(); MAX_HOPS];
        let n = reversed(&route, &mut back).unwrap();
        // At each switch, the way back leaves by the port where the way there came in.
        for (there, back) in route.iter().zip(back[..n].iter().rev()) {
            if let Some(output) = there.output(first, 64) {
                prop_assert_eq!(back.output(output, 64), Some(first));
            }
        }
    }

    #[test]
    fn a_mapping_message_read_is_the_one_written(
        from: u64, number: u64, back in routes(MAX_HOPS), which in 0..5, hosts in proptest::collection::vec((any::<u64>(), routes(5)), 0..9),
    ) {
        let back = octets_of(&back);
        let mut entries = Vec::new();
        for (address, route) in &hosts {
            let at = entries.len();
            entries.resize(at + entry_octets(route.len()), 0);
            emit_entry(*address, &octets_of(route), &mut entries[at..]);
        }
        let body = match which {
            0 => Body::Scout { back: &back },
            1 => Body::Answer,
            2 => Body::Loop,
            3 => Body::Routes { back: &back, entries: Entries::new_checked(&entries).unwrap() },
            _ => Body::Acknowledged,
        };
        let message = Message { from, number, body };
        let mut octets = vec![0; message.buffer_len()];
        message.emit(&mut octets);
        prop_assert_eq!(Message::parse(&octets), Ok(message));
        if let Body::Routes { entries, .. } = Message::parse(&octets).unwrap().body {
            let read: Vec<_> = entries.iter().map(|(address, route)| (address, route.to_vec())).collect();
            let wrote: Vec<_> = hosts.iter().map(|(address, route)| (*address, octets_of(route))).collect();
            prop_assert_eq!(read, wrote);
        }
    }

    #[test]
    fn a_message_head_read_is_the_one_written_and_its_part_lies_in_the_message(
        from: u64, interfaces: [u8; 2], group: u16, number: u32, offset in 0u32..100_000, part in proptest::collection::vec(any::<u8>(), 1..50), more in 0u32..9,
    ) {
        let total = offset + part.len() as u32 + more;
        let head = message::Head { from, from_interface: interfaces[0], to_interface: interfaces[1], group, number, total, offset };
        let octets = [&head.emit()[..], &part].concat();
        prop_assert_eq!(message::Head::parse(&octets), Ok((head, &part[..])));
        let short = message::Head { total: total - more - 1, ..head };
        prop_assert!(message::Head::parse(&[&short.emit()[..], &part].concat()).is_err());
    }

    #[test]
    fn a_tag_read_is_the_one_written(
        uu: u8, cpi: u8, clp: bool, congestion: bool, layer in 0..3usize, vpi in 0u16..4096, vci: u16, route: u16,
        sdu: Vec<u8>,
    ) {
        use super::tag::{Layer, Tag};
        let circuit = wire::CircuitId { vpi: wire::Vpi::new(vpi).unwrap(), vci: wire::Vci(vci) };
        let layer = [Layer::Aal0, Layer::Aal34, Layer::Aal5][layer];
        let tag = Tag { layer, uu, cpi, clp, congestion, circuit, route };
        let octets = [&tag.emit()[..], &sdu].concat();
        prop_assert_eq!(Tag::parse(&octets), Ok((tag, &sdu[..])));
    }

    #[test]
    fn no_octets_panic(mut octets: Vec<u8>) {
        let _ = Packet::new_checked(&octets);
        if let Ok(message) = Message::parse(&octets) {
            let mut again = vec![0; message.buffer_len()];
            message.emit(&mut again);
            prop_assert_eq!(again, octets.clone());
        }
        let _ = message::Head::parse(&octets);
        let _ = super::tag::Tag::parse(&octets);
        let _ = advance(&mut octets);
    }
}
