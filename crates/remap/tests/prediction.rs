//! Prediction on packets as they are on the wire.

use proptest::prelude::*;
use remap::layers::{Flow, Known, Layer, Layers, Mismatch, Sizes, TCP, UDP};
use remap::look::{HEADERS, Look};
use remap::predict::{Predictor, Strategy};

/// A captured UDP packet with its LLC/SNAP header: 10.0.0.1:40000 to 10.0.0.2:5001, five octets of data.
const CAPTURED: [u8; 41] = [
    0xaa, 0xaa, 0x03, 0x00, 0x00, 0x00, 0x08, 0x00, 0x45, 0x00, 0x00, 0x21, 0x1c, 0x46, 0x40, 0x00, 0x40, 0x11, 0x0a,
    0x84, 0x0a, 0x00, 0x00, 0x01, 0x0a, 0x00, 0x00, 0x02, 0x9c, 0x40, 0x13, 0x89, 0x00, 0x0d, 0x00, 0x00, b'h', b'e',
    b'l', b'l', b'o',
];

/// An IP packet over LLC/SNAP.
fn packet(flow: Flow, options: usize, fragment: u16, data: usize, trailer: usize) -> Vec<u8> {
    let transport = if flow.protocol == TCP { 24 } else { 8 };
    let ip = 20 + options;
    let mut pdu = vec![0; 8 + ip + transport + data + trailer];
    pdu[..8].copy_from_slice(&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0]);
    pdu[8] = 0x40 | (ip / 4) as u8;
    pdu[10..12].copy_from_slice(&((ip + transport + data) as u16).to_be_bytes());
    pdu[14..16].copy_from_slice(&fragment.to_be_bytes());
    pdu[16] = 64;
    pdu[17] = flow.protocol;
    pdu[28..8 + ip].fill(1);
    let at = 8 + ip;
    pdu[at + 2..at + 4].copy_from_slice(&flow.port.to_be_bytes());
    match flow.protocol {
        TCP => pdu[at + 12] = 6 << 4,
        _ => pdu[at + 4..at + 6].copy_from_slice(&((transport + data) as u16).to_be_bytes()),
    }
    let sum = pdu[8..8 + ip].chunks(2).fold(0u32, |sum, w| sum + u32::from(w[0]) * 256 + u32::from(w[1]));
    let sum = (sum & 0xffff) + (sum >> 16);
    let check = !((sum & 0xffff) as u16 + (sum >> 16) as u16);
    pdu[18..20].copy_from_slice(&check.to_be_bytes());
    pdu
}

fn look(pdu: &[u8]) -> Option<Look> {
    let mut words = 0;
    let look = Look::new(pdu.len(), |n| {
        words += 1;
        u32::from_be_bytes(pdu[4 * n..4 * n + 4].try_into().unwrap())
    });
    assert!(words <= 4, "the look is at {words} words");
    look
}

const APPLICATION: Flow = Flow { protocol: UDP, port: 5001 };

#[test]
fn three_fields_name_the_application_and_the_rest_is_checked_afterwards() {
    let seen = look(&CAPTURED).unwrap();
    assert_eq!((seen.flow, seen.udp_octets), (APPLICATION, 13));
    assert_eq!(seen.verify(&CAPTURED, CAPTURED.len()), Ok(HEADERS..41));
    assert_eq!(look(&packet(Flow { protocol: TCP, port: 5001 }, 0, 0, 100, 0)), None);
    assert_eq!(look(&packet(APPLICATION, 0, 100, 100, 0)), None, "a later fragment has no port");
    assert_eq!(look(&CAPTURED[..30]), None);
    // What the look does not see, the check does.
    let wrong = |pdu: Vec<u8>| look(&pdu).unwrap().verify(&pdu, pdu.len()).unwrap_err();
    assert_eq!(wrong(packet(APPLICATION, 0, 0x2000, 100, 0)), Mismatch::Fragment, "more fragments follow");
    let with_options = packet(APPLICATION, 4, 0, 100, 0);
    assert!(matches!(wrong(with_options), Mismatch::Options | Mismatch::Flow));
    let mut other = CAPTURED.to_vec();
    other[6] = 0x86;
    assert_eq!(wrong(other), Mismatch::Llc);
    let mut damaged = CAPTURED.to_vec();
    damaged[20] ^= 1;
    assert_eq!(wrong(damaged), Mismatch::Checksum);
    let mut long = CAPTURED.to_vec();
    long[33] = 200;
    assert_eq!(wrong(long), Mismatch::Length);
}

#[test]
fn the_length_is_udps_and_aal5s_where_udps_cannot_be() {
    let pdu = packet(APPLICATION, 0, 0, 100, 7);
    let seen = look(&pdu).unwrap();
    assert_eq!(seen.data_octets(pdu.len()), 100);
    assert_eq!(seen.verify(&pdu, pdu.len()), Ok(HEADERS..HEADERS + 100));
    assert_eq!(Look { udp_octets: 4000, ..seen }.data_octets(pdu.len()), 107);
    assert_eq!(Look { udp_octets: 3, ..seen }.data_octets(pdu.len()), 107);
}

/// Section 3.4: memory is allocated by one length or the other.
#[test]
fn a_pdu_ends_where_udp_says_so_but_with_options_or_where_ip_says_otherwise() {
    let until = |pdu: &[u8]| {
        let word = |n: usize| u32::from_be_bytes(pdu[4 * n..4 * n + 4].try_into().unwrap());
        look(pdu).unwrap().pdu_octets(pdu.len(), word)
    };
    let pdu = packet(APPLICATION, 0, 0, 100, 7);
    assert_eq!((until(&pdu), until(&CAPTURED)), (HEADERS + 100, 41));
    // What the look has missed has to be there for the slow path.
    let mut options = packet(APPLICATION, 4, 0, 100, 7);
    options[30..34].copy_from_slice(&[0x13, 0x89, 0, 12]);
    assert_eq!((look(&options).unwrap().flow, until(&options)), (APPLICATION, options.len()));
    for (at, octets) in [(10, 120u16), (32, 7), (32, 200)] {
        let mut other = pdu.clone();
        other[at..at + 2].copy_from_slice(&octets.to_be_bytes());
        assert_eq!(until(&other), other.len(), "{octets} at {at}");
    }
}

#[test]
fn headers_and_trailers_are_found_a_layer_at_a_time_and_used_before_the_next_one_has_spoken() {
    let pdu = packet(APPLICATION, 8, 0, 100, 7);
    let (mut layers, mut known) = (Layers::new(&pdu, pdu.len()), Known::default());
    let mut sums = vec![known.sizes().header];
    let mut depth = 0;
    while let Some((layer, sizes)) = layers.process().unwrap() {
        known.tell(depth, layer, sizes);
        depth += 1;
        sums.push(known.sizes().header);
    }
    assert_eq!(sums, [0, 8, 36, 44]);
    assert_eq!((known.sizes().trailer, layers.rest(), layers.flow()), (7, 44..144, Some(APPLICATION)));
    // The application has a header of its own; then IP's options go: above it nothing is known any more.
    known.tell(3, Layer::Application, Sizes { header: 16, trailer: 4 });
    assert_eq!(known.sizes(), Sizes { header: 60, trailer: 11 });
    known.tell(1, Layer::Ip, Sizes { header: 28, trailer: 0 });
    assert_eq!(known.sizes(), Sizes { header: 60, trailer: 4 }, "another trailer is no other layer");
    known.tell(1, Layer::Ip, Sizes { header: 20, trailer: 0 });
    assert_eq!((known.depth(), known.sizes()), (2, Sizes { header: 28, trailer: 0 }));
}

#[test]
fn the_guess_is_the_most_frequent_of_the_last_ones_and_the_later_of_two() {
    let mut predictor = Predictor::default();
    assert_eq!(predictor.expected(), None);
    let [a, b] = [5001, 5002].map(|port| Flow { protocol: UDP, port });
    let mut guesses = Vec::new();
    for flow in [a, a, b, a, b, b, b] {
        predictor.observe(Some(flow));
        guesses.push(predictor.expected().unwrap());
    }
    assert_eq!(guesses, [a, a, a, a, b, b, b]);
    (0..4).for_each(|_| predictor.observe(None));
    assert_eq!(predictor.expected(), None);
}

#[test]
fn trailers_on_two_pages_change_the_strategy_where_they_are_systematic_and_back_where_they_end() {
    let mut predictor = Predictor::default();
    // One in five is none.
    assert!((0..100).all(|n| predictor.observe_trailer(n % 5 == 0).is_none()));
    let changed = (0..16).find_map(|n| predictor.observe_trailer(true).map(|to| (n, to)));
    assert!(matches!(changed, Some((4..=6, Strategy::Together))), "{changed:?}");
    let back = (0..40).find_map(|n| predictor.observe_trailer(false).map(|to| (n, to)));
    assert!(matches!(back, Some((10..=16, Strategy::Pages))), "{back:?}");
}

proptest! {
    #[test]
    fn any_octets_are_looked_at_and_taken_apart_without_harm(octets in prop::collection::vec(any::<u8>(), 0..120), known: bool) {
        let mut pdu = octets;
        if known && pdu.len() > 9 {
            pdu[..9].copy_from_slice(&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0, 0x45]);
        }
        if let Some(seen) = look(&pdu) {
            let _ = seen.verify(&pdu, pdu.len());
            prop_assert!(seen.data_octets(pdu.len()) <= pdu.len());
        }
        if let Ok(layers) = Layers::new(&pdu, pdu.len()).process_all() {
            prop_assert!(layers.rest().end <= pdu.len() && layers.rest().start <= layers.rest().end);
        }
    }

    #[test]
    fn what_was_made_is_found_again(port: u16, tcp: bool, options in 0usize..10, data in 0usize..2000, trailer in 0usize..40) {
        let flow = Flow { protocol: if tcp { TCP } else { UDP }, port };
        let trailer = if tcp { 0 } else { trailer };
        let pdu = packet(flow, 4 * options, 0, data, trailer);
        // The headers alone are enough.
        let layers = Layers::new(&pdu[..pdu.len() - data - trailer], pdu.len()).process_all().unwrap();
        prop_assert_eq!((layers.flow(), layers.rest()), (Some(flow), pdu.len() - data - trailer..pdu.len() - trailer));
    }
}
