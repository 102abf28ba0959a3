//! Formats of signalling (SSCOP, Q.2931, ILMI, LAN emulation) and the machines that take them.

use wire::q2931::{Builder, Element, Elements, MAX_OCTETS, Message};

pub(crate) fn sscop(octets: &[u8]) {
    if let Ok(pdu) = wire::sscop::Pdu::parse(octets) {
        let mut again = vec![0; pdu.buffer_len()];
        pdu.emit(&mut again);
        assert_eq!(again.len(), octets.len());
        assert_eq!(wire::sscop::Pdu::parse(&again), Ok(pdu));
    }
}

pub(crate) fn q2931(octets: &[u8]) {
    let Ok(message) = Message::new_checked(octets) else { return };
    let mut buffer = vec![0; MAX_OCTETS.max(octets.len())];
    let mut builder = Builder::new(&mut buffer, message.reference(), message.message_type());
    let mut written = Vec::new();
    for raw in message.elements().map_while(Result::ok) {
        assert!(builder.push_raw(&raw), "what came in fits");
        if let Ok(element) = Element::parse(&raw) {
            let mut octets = vec![0; element.buffer_len()];
            assert_eq!(element.emit(&mut octets), octets.len());
            let again = Elements::of(&octets).next().and_then(Result::ok).expect("an element was written");
            assert_eq!(Element::parse(&again), Ok(element));
        }
        written.push(raw);
    }
    let n = builder.finish();
    let again = Message::new_checked(&buffer[..n]).expect("a message was written");
    assert_eq!((again.reference(), again.message_type()), (message.reference(), message.message_type()));
    assert_eq!(again.elements().map_while(Result::ok).collect::<Vec<_>>(), written);
}

pub(crate) fn ilmi(octets: &[u8]) {
    if let Ok(message) = wire::ilmi::Message::parse(octets) {
        let bindings: Vec<_> = message.bindings().collect();
        // Minimal lengths and integers: what is written is never longer than what came, but for the community.
        let mut again = vec![0; octets.len() + 16];
        let n = wire::ilmi::emit(&message.head, &bindings, &mut again).expect("what came in fits");
        let back = wire::ilmi::Message::parse(&again[..n]).expect("a message was written");
        assert_eq!(back.head, message.head);
        assert_eq!(back.bindings().collect::<Vec<_>>(), bindings);
    }
}

pub(crate) fn lane(octets: &[u8]) {
    if let Ok(control) = wire::lane::Control::parse(octets) {
        let tlvs: Vec<_> = wire::lane::tlvs(octets).collect();
        let mut again = vec![0; octets.len()];
        let n = control.emit(&tlvs, &mut again);
        assert_eq!(wire::lane::Control::parse(&again[..n]), Ok(control));
        assert_eq!(wire::lane::tlvs(&again[..n]).collect::<Vec<_>>(), tlvs);
    }
    if let Ok(data) = wire::lane::Data::parse(octets) {
        let mut again = vec![0; data.buffer_len()];
        data.emit(&mut again);
        assert_eq!(again, octets);
    }
    if let Some(operation) = wire::lane::parse_ready(octets) {
        assert_eq!(wire::lane::emit_ready(operation), octets[..6]);
    }
}

/// What a peer sends on a signalling channel, as SDUs of two octets of length and the octets: a port of each side takes them
/// with a link that is up, answers every call, and keeps no more than its bounds.
pub(crate) fn port(octets: &[u8]) {
    use uni::call::{Config, ElementList, Event, Side, Version};
    for side in [Side::User, Side::Network] {
        let config = Config { max_calls: 8, max_parties: 8, ..Config::new(side, Version::Uni40) };
        let mut calls = uni::call::Calls::new(config);
        let mut link = uni::saal::Saal::new(uni::sscop::Config::default());
        let mut now = wire::Time::ZERO;
        calls.link_established(now);
        let mut rest = octets;
        while let Some((&[high, low], after)) = rest.split_first_chunk::<2>() {
            let n = usize::from(u16::from_be_bytes([high, low])).min(after.len());
            let (sdu, left) = after.split_at(n);
            rest = left;
            link.handle_pdu(sdu, now);
            calls.handle_message(sdu, now);
            while let Some(event) = calls.poll() {
                match event {
                    Event::Setup { call, .. } => drop(calls.connect(call, &ElementList::default(), now)),
                    Event::AddParty { party, .. } => drop(calls.accept_party(party, &ElementList::default())),
                    _ => {}
                }
            }
            while calls.poll_transmit().is_some() || link.poll_transmit().is_some() || link.poll().is_some() {}
            assert!(calls.len() <= 8 && calls.labels().in_use() <= 8);
            assert!(link.sscop().held() <= 8192);
            now += std::time::Duration::from_millis(700);
            if calls.poll_timeout().is_some_and(|at| at <= now) {
                calls.handle_timeout(now);
            }
            if link.poll_timeout().is_some_and(|at| at <= now) {
                link.handle_timeout(now);
            }
        }
    }
}

/// ILMI messages, framed likewise, at each side.
pub(crate) fn registration(octets: &[u8]) {
    use uni::call::Side;
    use uni::ilmi::{Config, Identity, Ilmi};
    for side in [Side::User, Side::Network] {
        let identity = Identity { system: [1; 6], interface: 1 };
        let config =
            Config { prefixes: vec![[0x47; 13]], esis: vec![[2; 6]], max_addresses: 4, ..Config::new(side, identity) };
        let mut ilmi = Ilmi::new(config);
        let mut now = wire::Time::ZERO;
        ilmi.start(now);
        let mut rest = octets;
        while let Some((&[high, low], after)) = rest.split_first_chunk::<2>() {
            let n = usize::from(u16::from_be_bytes([high, low])).min(after.len());
            let (sdu, left) = after.split_at(n);
            rest = left;
            ilmi.handle_sdu(sdu, now);
            while ilmi.poll_transmit().is_some() || ilmi.poll().is_some() {}
            assert!(ilmi.addresses().count() <= 4);
            now += std::time::Duration::from_secs(2);
            if ilmi.poll_timeout().is_some_and(|at| at <= now) {
                ilmi.handle_timeout(now);
            }
        }
    }
}
