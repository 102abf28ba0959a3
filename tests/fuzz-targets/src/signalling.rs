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
            // One question is answered by "no error"; the others are lost.
            let mut answer = None;
            while let Some(sdu) = ilmi.poll_transmit() {
                answer = answer.or_else(|| agreement(&sdu));
            }
            if let Some(answer) = answer {
                ilmi.handle_sdu(&answer, now);
            }
            while ilmi.poll_transmit().is_some() || ilmi.poll().is_some() {}
            assert!(ilmi.addresses().count() <= 4);
            now += std::time::Duration::from_secs(2);
            if ilmi.poll_timeout().is_some_and(|at| at <= now) {
                ilmi.handle_timeout(now);
            }
        }
    }
}

/// The answer "no error" to an ILMI request.
fn agreement(sdu: &[u8]) -> Option<Vec<u8>> {
    use wire::ilmi::{ErrorStatus, Head, Kind, Message};
    let message = Message::parse(sdu).ok()?;
    let Head::Request { kind, id, .. } = message.head else { return None };
    if kind == Kind::Response {
        return None;
    }
    let bindings: Vec<_> = message.bindings().collect();
    let mut answer = vec![0; sdu.len() + 16];
    let head = Head::Request { kind: Kind::Response, id, status: ErrorStatus::NONE, index: 0 };
    let n = wire::ilmi::emit(&head, &bindings, &mut answer)?;
    answer.truncate(n);
    Some(answer)
}

/// What happens to the calls of an emulated LAN's servers and clients, as steps of four octets (what, on which call,
/// from which station, how many octets follow) and a frame: nobody keeps more than its bounds, and what is due is done.
pub(crate) fn emulated_lan(octets: &[u8]) {
    use stack::lane::{Client, Config, Configuration, Lan, Link, Server, Service, Unknown};
    let station = |number: u8| wire::aesa::Aesa::new([0x47; 13], [2, 0, 0, 0, 0, number & 7], 0);
    let config = |number, server| Config {
        own: station(number),
        mac: [2, 0, 0, 0, 0, number],
        name: wire::q2931::Octets::default(),
        configuration: station(0),
        server,
    };
    let mut lecs = Configuration::new(vec![Lan { name: wire::q2931::Octets::default(), server: station(1) }]);
    let (mut les, mut bus) = (Server::new(wire::q2931::Octets::default(), station(2), 2), Unknown::new(2));
    let mut clients = [Client::new(config(3, None)), Client::new(config(4, Some(station(1))))];
    let mut now = wire::Time::ZERO;
    let mut rest = octets;
    while let Some((&[what, call, from, n], after)) = rest.split_first_chunk::<4>() {
        let (frame, left) = after.split_at(usize::from(n).min(after.len()));
        rest = left;
        let number = call & 7;
        let link = if call & 8 == 0 { Link::Made(number.into()) } else { Link::Taken(number.into()) };
        let service = [Service::Control, Service::Direct, Service::Multicast][usize::from(from >> 4) % 3];
        let (party, known) = (station(from), (from & 8 == 0).then_some(station(from)));
        match what & 7 {
            0 => {
                lecs.handle_incoming(link, known, service, now);
                les.handle_incoming(link, known, service, now);
                bus.handle_incoming(link, known, service);
                clients.iter_mut().for_each(|client| client.handle_incoming(link, known, service, now));
            }
            1 => {
                les.handle_up(link);
                bus.handle_up(link);
                clients.iter_mut().for_each(|client| client.handle_up(link, now));
            }
            2 => {
                lecs.handle_released(link);
                les.handle_released(link);
                bus.handle_released(link);
                clients.iter_mut().for_each(|client| client.handle_released(link, now));
            }
            3 => {
                les.handle_party(link, party, call & 16 == 0);
                bus.handle_party(link, party, call & 16 == 0);
            }
            4 => clients.iter_mut().for_each(|client| client.send(frame, now)),
            _ => {
                lecs.handle_frame(link, frame);
                les.handle_frame(link, frame);
                bus.handle_frame(link, frame);
                for (at, client) in clients.iter_mut().enumerate() {
                    let inner = client.handle_frame(link, frame, now);
                    let own = [2, 0, 0, 0, 0, 3 + at as u8];
                    assert!(inner.is_none_or(|inner| inner.len() >= 14 && (inner[0] & 1 != 0 || inner[..6] == own)));
                }
            }
        }
        now += std::time::Duration::from_millis(u64::from(what >> 3) * 100);
        lecs.handle_timeout(now);
        les.handle_timeout(now);
        bus.handle_timeout(now);
        clients.iter_mut().for_each(|client| client.handle_timeout(now));
        // A shell that takes nothing at times; frames are bounded then.
        if what & 0x80 == 0 {
            while lecs.poll().is_some() || les.poll().is_some() || bus.poll().is_some() {}
            while les.poll_frame().is_some() || bus.poll_frame().is_some() || lecs.poll_frame().is_some() {}
            for client in &mut clients {
                while client.poll().is_some() || client.poll_frame().is_some() {}
            }
        }
        assert!(les.clients().count() <= 2 && bus.len() <= 2);
        let due = clients.iter().map(Client::poll_timeout).chain([
            lecs.poll_timeout(),
            les.poll_timeout(),
            bus.poll_timeout(),
        ]);
        assert!(due.flatten().all(|at| at > now));
    }
}
