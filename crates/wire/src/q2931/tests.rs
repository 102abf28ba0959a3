//! Vectors of stock programs and of the standards, and what holds of all messages.

use super::*;
use crate::Error;
use crate::aesa::Aesa;
use crate::hex;
use proptest::prelude::*;
use std::vec::Vec;

const A1: &str = "47000580ffde0000000000000102000000000100";
const A2: &str = "47000580ffde0000000000000102000000000200";

fn address(text: &str) -> Aesa {
    text.parse().unwrap()
}

/// The elements of a message, all of which must be known and right.
fn elements(octets: &[u8]) -> Vec<Element> {
    Message::new_checked(octets).unwrap().elements().map(|raw| Element::parse(&raw.unwrap()).unwrap()).collect()
}

fn write(reference: CallReference, kind: MessageType, elements: &[Element]) -> Vec<u8> {
    let mut buffer = std::vec![0; MAX_OCTETS];
    let mut builder = Builder::new(&mut buffer, reference, kind);
    assert!(elements.iter().all(|element| builder.push(element)));
    let n = builder.finish();
    buffer.truncate(n);
    buffer
}

/// Reads `text`, compares it with what is meant, and writes it again.
fn vector(text: &str, value: u32, to_originator: bool, kind: MessageType, meant: &[Element]) {
    let octets = hex::octets(text);
    let message = Message::new_checked(&octets).unwrap();
    let reference = CallReference { value, to_originator };
    assert_eq!((message.reference(), message.message_type()), (reference, kind), "{text}");
    assert!(!message.is_truncated());
    assert_eq!(elements(&octets), meant, "{text}");
    assert_eq!(write(reference, kind, meant), octets, "{text}");
}

fn cause(location: Location, value: CauseValue, diagnostic: &[u8]) -> Element {
    Element::Cause(Cause::with(location, value, diagnostic))
}

/// The SETUP of a stock `atmsigd`: AAL5, best effort, LLC, from A1 to A2.
fn setup() -> [Element; 7] {
    [
        Element::Aal(AalParameters::aal5(9188)),
        Element::Traffic(Traffic::best_effort(353_207, 353_207)),
        Element::Bearer(Bearer::X),
        Element::LowLayer(LowLayer::LLC),
        Element::Called(Number::aesa(address(A2))),
        Element::Calling(Party::aesa(address(A1))),
        Element::Qos(Qos::default()),
    ]
}

#[test]
fn a_stock_setup_is_read_and_written_octet_for_octet() {
    let text = std::format!(
        "0903000001 05 80 005d 58800009058c23e48123e48400 59800009840563b7850563b7be 5e8000029080 5f800001cc \
         7080001582{A2} 6c80001582{A1} 5c8000020000"
    );
    vector(&text, 1, false, MessageType::SETUP, &setup());
}

#[test]
fn a_setup_of_rfc_1755_differs_in_its_bearer() {
    let text = std::format!(
        "0903000001 05 80 005e 58800009058c23e48123e48400 59800009840563b7850563b7be 5e800003108080 5f800001cc \
         7080001582{A2} 6c80001582{A1} 5c8000020000"
    );
    let mut meant = setup();
    meant[2] = Element::Bearer(Bearer { transfer: Some(0), ..Bearer::X });
    vector(&text, 1, false, MessageType::SETUP, &meant);
}

#[test]
fn answers_of_stock_programs_are_read_and_written_octet_for_octet() {
    let vci = Element::Connection(ConnectionId::exactly(0, 100));
    let aal = Element::Aal(AalParameters::aal5(9188));
    let user = Location::USER;
    vector("0903800001 0280 0009 5a8000058800000064", 1, true, MessageType::CALL_PROCEEDING, &[vci]);
    vector("0903800001 0780 000d 58800009058c23e48123e48400", 1, true, MessageType::CONNECT, &[aal]);
    vector("0903000001 0f80 0000", 1, false, MessageType::CONNECT_ACKNOWLEDGE, &[]);
    vector(
        "0903000001 4d80 0006 088000028090",
        1,
        false,
        MessageType::RELEASE,
        &[cause(user, CauseValue::NORMAL, &[])],
    );
    let refusal = [cause(user, CauseValue::INCOMPATIBLE, &[])];
    vector("0903800002 5a80 0006 0880000280d8", 2, true, MessageType::RELEASE_COMPLETE, &refusal);
    let status = [Element::CallState(10), cause(user, CauseValue::STATUS_ENQUIRY, &[])];
    vector("0903800009 7d80 000b 148000010a 08800002809e", 9, true, MessageType::STATUS, &status);
    let status = [Element::CallState(10), cause(user, CauseValue::WRONG_STATE, &[7])];
    vector("0903800009 7d80 000c 148000010a 0880000380e507", 9, true, MessageType::STATUS, &status);
    let all = Element::Restart(RestartClass::All);
    vector("0903000000 4680 0005 7980000182", 0, false, MessageType::RESTART, &[all]);
    vector("0903800000 4e80 0005 7980000182", 0, true, MessageType::RESTART_ACKNOWLEDGE, &[all]);
    let channel = [vci, Element::Restart(RestartClass::Channel)];
    vector("0903000000 4680 000e 5a8000058800000064 7980000180", 0, false, MessageType::RESTART, &channel);
    let timer = [cause(user, CauseValue::NORMAL, &[]), cause(user, CauseValue::TIMER, b"308")];
    vector("0903000001 4d80 000f 088000028090 0880000580e6333038", 1, false, MessageType::RELEASE, &timer);
}

#[test]
fn parties_are_added_and_refused() {
    let text = std::format!(
        "0903000004 8080 004b 58800009058c23e48123e48400 5f800001cc 7080001582{A2} 6c80001582{A1} 54800003000001"
    );
    let s = setup();
    let party = |to_originator, value| Element::EndpointReference(EndpointReference { value, to_originator });
    vector(&text, 4, false, MessageType::ADD_PARTY, &[s[0], s[3], s[4], s[5], party(false, 1)]);
    let no_route = cause(Location::USER, CauseValue::NO_ROUTE, &[]);
    let text = "0903800004 8280 000d 088000028083 54800003008001";
    vector(text, 4, true, MessageType::ADD_PARTY_REJECT, &[no_route, party(true, 1)]);
    vector("090380000c 0780 0007 54800003008000", 12, true, MessageType::CONNECT, &[party(true, 0)]);
}

#[test]
fn a_real_time_multipoint_setup_with_transit_delay_is_understood() {
    let text = std::format!(
        "0903000007 0580 0091 58800009058c00308100308400 5980001a 84001000 85000000 90000800 91000000 b0000064 b1000000 \
         bf83 5e800003108981 5d800008830060d701000003 7080001582{A2} 6c800016 0280{A1} 5a8000058800000065 5c8000020000 \
         54800003000000 4280000601000003ffff"
    );
    let side = |pcr, scr, mbs, frame_discard| Direction {
        pcr: Some(pcr),
        scr: Some(scr),
        mbs: Some(mbs),
        tagging: true,
        frame_discard,
        ..Direction::default()
    };
    let calling = Party { number: Number::aesa(address(A1)), indicators: Some((0, 0)) };
    let meant = [
        Element::Aal(AalParameters::aal5(48)),
        Element::Traffic(Traffic {
            forward: side(4096, 2048, 100, true),
            backward: side(0, 0, 0, false),
            best_effort: false,
        }),
        Element::Bearer(Bearer { class: BearerClass::X, transfer: Some(9), clipping: false, multipoint: true }),
        Element::HighLayer(HighLayer::Vendor { oui: [0, 0x60, 0xd7], application: [1, 0, 0, 3] }),
        Element::Called(Number::aesa(address(A2))),
        Element::Calling(calling),
        Element::Connection(ConnectionId::exactly(0, 101)),
        Element::Qos(Qos::default()),
        Element::EndpointReference(EndpointReference::default()),
        Element::TransitDelay(TransitDelay { cumulative: Some(0), maximum: Some(0xffff), network: false }),
    ];
    vector(&text, 7, false, MessageType::SETUP, &meant);
}

#[test]
fn lan_emulation_names_its_protocol_by_snap() {
    let raw = |text: &str| {
        let octets = hex::octets(text);
        let head = std::format!("0903000001058000{:02x}", octets.len());
        elements(&[hex::octets(&head), octets].concat())
    };
    assert_eq!(raw("5f8000096b40808000a03e0001"), [Element::LowLayer(LowLayer::snap([0, 0xa0, 0x3e], 1))],);
    let initial = LowLayer { layer3: Some(Layer3::Initial(0xcc)), ..LowLayer::default() };
    assert_eq!(raw("5f8000036b6680"), [Element::LowLayer(initial)]);
}

#[test]
fn elements_that_their_format_does_not_allow_are_refused() {
    for bad in [
        "5a80000400000000",          // too short
        "5a8000058000000064",        // not explicit
        "5e8000021080",              // an extension that does not follow
        "5e8000029082",              // a configuration that does not exist
        "59800004ff000001",          // a subfield that does not exist
        "5980000884000001 84000001", // twice the same
        "708000038247 00",           // an address that is too short
        "7980000183",                // a class that does not exist
        "0880000100",
        "5f800000",
        "99800000",
        "5ca0000200 00", // coded by ISO
    ] {
        let octets = hex::octets(bad);
        let raw = Elements::of(&octets).next().unwrap().unwrap();
        assert!(Element::parse(&raw).is_err(), "{bad}");
    }
}

#[test]
fn heads_that_are_not_q2931_are_refused() {
    let good = hex::octets("0903000001 0f80 0000");
    assert!(Message::new_checked(&good).is_ok());
    assert!(matches!(Message::new_checked(&good[..8]), Err(Error::Truncated { .. })));
    for at in [0, 1] {
        let mut bad = good.clone();
        bad[at] ^= 1;
        assert!(Message::new_checked(&bad).is_err());
    }
}

#[test]
fn a_message_that_says_it_is_longer_than_it_is_gives_what_came() {
    let octets = hex::octets("0903000001 4d80 0106 088000028090 08");
    let message = Message::new_checked(&octets).unwrap();
    assert!(message.is_truncated());
    let seen: Vec<_> = message.elements().map(|e| e.map(|raw| raw.id)).collect();
    assert_eq!(seen, [Ok(ElementId::CAUSE), Err(8)]);
}

#[test]
fn instructions_say_what_to_do_with_the_unknown() {
    let octets = hex::octets("99900000 99910000 99920000 99950000 99960000 99800000");
    let seen: Vec<_> = Elements::of(&octets).map(|raw| raw.unwrap().action).collect();
    use Action::*;
    assert_eq!(
        seen,
        [
            Some(Clear),
            Some(DropElement),
            Some(DropElementAndReport),
            Some(DropMessage),
            Some(DropMessageAndReport),
            None
        ]
    );
}

proptest! {
    /// Whatever is understood is written so that it is understood the same again.
    #[test]
    fn an_element_understood_and_written_is_the_same_element(
        id in proptest::sample::select(ElementId::KNOWN.to_vec()), contents in proptest::collection::vec(any::<u8>(), 0..40)
    ) {
        let mut octets = std::vec![id.0, 0x80, 0, contents.len() as u8];
        octets.extend_from_slice(&contents);
        let raw = Elements::of(&octets).next().unwrap().unwrap();
        if let Ok(element) = Element::parse(&raw) {
            let mut again = std::vec![0; element.buffer_len()];
            prop_assert_eq!(element.emit(&mut again), again.len());
            let raw = Elements::of(&again).next().unwrap().unwrap();
            prop_assert_eq!(Element::parse(&raw), Ok(element));
        }
    }

    #[test]
    fn traffic_sent_is_the_traffic_received(rates: [Option<u32>; 14], flags in 0u8..32) {
        let side = |i: usize| Direction {
            pcr_clp0: rates[i].map(|r| r & 0xff_ffff),
            pcr: rates[i + 1].map(|r| r & 0xff_ffff),
            scr_clp0: rates[i + 2].map(|r| r & 0xff_ffff),
            scr: rates[i + 3].map(|r| r & 0xff_ffff),
            mbs_clp0: rates[i + 4].map(|r| r & 0xff_ffff),
            mbs: rates[i + 5].map(|r| r & 0xff_ffff),
            mcr: rates[i + 6].map(|r| r & 0xff_ffff),
            tagging: flags >> (i / 7) & 1 != 0,
            frame_discard: flags >> (2 + i / 7) & 1 != 0,
        };
        let traffic = Traffic { forward: side(0), backward: side(7), best_effort: flags & 16 != 0 };
        for element in [Element::Traffic(traffic), Element::AlternativeTraffic(traffic)] {
            let mut octets = std::vec![0; element.buffer_len()];
            element.emit(&mut octets);
            let raw = Elements::of(&octets).next().unwrap().unwrap();
            prop_assert_eq!(Element::parse(&raw), Ok(element));
        }
    }

    #[test]
    fn no_octets_panic(octets: Vec<u8>) {
        let mut octets = octets;
        if octets.len() > 1 {
            octets[..2].copy_from_slice(&[9, 3]);
        }
        if let Ok(message) = Message::new_checked(&octets) {
            let _ = (message.reference(), message.message_type(), message.action(), message.is_truncated());
            for raw in message.elements().flatten() {
                let _ = Element::parse(&raw);
            }
        }
    }
}
