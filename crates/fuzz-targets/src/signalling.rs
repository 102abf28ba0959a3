//! Formats of signalling: SSCOP, Q.2931, ILMI, LAN emulation.

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
