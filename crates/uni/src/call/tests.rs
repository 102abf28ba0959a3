//! The tables of call control, row by row, and two interfaces that talk to each other.

mod backlog;
mod many;

use super::*;
use wire::aesa::Aesa;
use wire::q2931::{
    AalParameters, Bearer, ElementId, EndpointReference, LowLayer, Message, Number, Party as PartyNumber, Qos, Traffic,
};

const NOW: Time = Time::from_millis(1000);

fn address(last: u8) -> Aesa {
    let prefix: wire::aesa::Prefix = "47000580ffde00000000000001".parse().unwrap();
    Aesa::new(prefix.octets()[..13].try_into().unwrap(), [2, 0, 0, 0, 0, last], 0)
}

fn setup() -> ElementList {
    ElementList::from([
        Element::Aal(AalParameters::aal5(9188)),
        Element::Traffic(Traffic::best_effort(353_207, 353_207)),
        Element::Bearer(Bearer::X),
        Element::LowLayer(LowLayer::LLC),
        Element::Called(Number::aesa(address(2))),
        Element::Calling(PartyNumber::aesa(address(1))),
        Element::Qos(Qos::default()),
    ])
}

fn multipoint() -> ElementList {
    let mut elements = setup();
    elements.set(Element::Bearer(Bearer { multipoint: true, ..Bearer::X }));
    elements
}

fn interface(side: Side) -> Calls {
    let mut calls = Calls::new(Config { labels: (0, 32, 131), ..Config::new(side, Version::Uni40) });
    calls.link_established(NOW);
    calls
}

fn feed(calls: &mut Calls, reference: CallReference, kind: MessageType, elements: &[Element]) {
    calls.handle_message(&list::message(reference, kind, elements), NOW);
}

fn cause(value: CauseValue) -> Cause {
    Cause::new(Location::USER, value)
}

/// All states of a call, by their number at the user side, and Null.
const STATES: [Option<State>; 10] = [
    None,
    Some(State::OutgoingInitiated),
    Some(State::OutgoingProceeding),
    Some(State::OutgoingDelivered),
    Some(State::IncomingPresent),
    Some(State::IncomingReceived),
    Some(State::IncomingConnect),
    Some(State::IncomingProceeding),
    Some(State::Active),
    Some(State::Releasing),
];

/// An interface with a call in `state`, and the reference of messages that the peer sends for it.
fn with_call(side: Side, state: Option<State>) -> (Calls, CallId) {
    let mut calls = interface(side);
    let connection = Element::Connection(ConnectionId::exactly(0, 50));
    let incoming = matches!(
        state,
        Some(State::IncomingPresent | State::IncomingReceived | State::IncomingConnect | State::IncomingProceeding)
    );
    if incoming {
        let id = CallId { value: 7, ours: false };
        let mut elements = setup();
        elements.0.push(connection);
        feed(&mut calls, CallReference::from_originator(7), MessageType::SETUP, &elements.0);
        match state {
            Some(State::IncomingProceeding) => calls.proceed(id, NOW).unwrap(),
            Some(State::IncomingReceived) => calls.alert(id, NOW).unwrap(),
            Some(State::IncomingConnect) => calls.connect(id, &ElementList::default(), NOW).unwrap(),
            _ => {}
        }
        return (calls, id);
    }
    if state.is_none() {
        return (calls, CallId { value: 7, ours: true });
    }
    let id = calls.setup(setup(), NOW).unwrap();
    let from_peer = id.reference().reversed();
    let first = match state {
        Some(State::OutgoingProceeding) => Some(MessageType::CALL_PROCEEDING),
        Some(State::OutgoingDelivered) => Some(MessageType::ALERTING),
        Some(State::Active | State::Releasing) => Some(MessageType::CONNECT),
        _ => None,
    };
    if let Some(kind) = first {
        let connection = calls.connection(id).map_or(connection, Element::Connection);
        feed(&mut calls, from_peer, kind, &[connection]);
    }
    if state == Some(State::Releasing) {
        calls.release(id, cause(CauseValue::NORMAL), NOW).unwrap();
    }
    (calls, id)
}

/// What an interface sent and reported, and where the call stands now.
fn trace(calls: &mut Calls, id: CallId, before: Option<State>) -> String {
    let mut out = Vec::new();
    while let Some(octets) = calls.poll_transmit() {
        let message = Message::new_checked(&octets).unwrap();
        let elements = decode::decode(&message).elements;
        let cause = elements.cause().map_or(String::new(), |cause| format!("({})", cause.value.0));
        out.push(format!("!{}{cause}", message.message_type().to_string().replace(' ', "-")));
    }
    while let Some(event) = calls.poll() {
        out.push(match event {
            Event::Setup { .. } => "^setup".into(),
            Event::Proceeding(_) => "^proceeding".into(),
            Event::Alerting(_) => "^alerting".into(),
            Event::Connected { .. } => "^connected".into(),
            Event::Active(_) => "^active".into(),
            Event::Released { cause, .. } => format!("^released({})", cause.value.0),
            Event::Notified { .. } => "^notified".into(),
            other => format!("{other:?}"),
        });
    }
    let after = calls.state(id);
    if after != before {
        out.push(after.map_or(">0".into(), |state| format!(">{}", state.number(Side::User))));
    }
    out.join(" ")
}

/// `states of the user side | event | what it sends and reports, next state`. States 1, 3, 4: calling; 6, 9, 7, 8:
/// called; 10 active, 11 releasing, 0 null. The network side's numbers differ, its actions do not, but for state 8,
/// which it has not.
const TABLE: &str = "
0            | CALL-PROCEEDING  | !RELEASE-COMPLETE(81)
0            | ALERTING         | !RELEASE-COMPLETE(81)
0            | CONNECT          | !RELEASE-COMPLETE(81)
0            | CONNECT-ACK      | !RELEASE-COMPLETE(81)
0            | RELEASE          | !RELEASE-COMPLETE(81)
0            | NOTIFY           | !RELEASE-COMPLETE(81)
0            | STATUS-ENQUIRY   | !STATUS(30)
0            | STATUS           | !RELEASE-COMPLETE(101)
0            | unknown          | !RELEASE-COMPLETE(81)
1            | CALL-PROCEEDING  | ^proceeding >3
1 3          | ALERTING         | ^alerting >4
1 3 4        | CONNECT          | !CONNECT-ACKNOWLEDGE ^connected >10
3 4 6 9 7 8 10 11 | CALL-PROCEEDING | !STATUS(101)
4 6 9 7 8 10 11 | ALERTING      | !STATUS(101)
6 9 7 8 10 11 | CONNECT         | !STATUS(101)
8            | CONNECT-ACK      | ^active >10
1 3 4 6 9 7 10 11 | CONNECT-ACK | !STATUS(101)
1 3 4 6 9 7 8 10 | RELEASE      | !RELEASE-COMPLETE ^released(16) >0
11           | RELEASE          | !RELEASE-COMPLETE >0
1 3 4 6 9 7 8 10 | RELEASE-COMPLETE | ^released(16) >0
11           | RELEASE-COMPLETE | >0
3 4 6 9 7 8 10 | NOTIFY         | ^notified
1 11         | NOTIFY           | !STATUS(101)
1 3 4 6 9 7 8 10 11 | STATUS-ENQUIRY | !STATUS(30)
1 3 4 6 9 7 8 10 | STATUS-0     | ^released(101) >0
11           | STATUS-0         | >0
1 3 4 6 9 7  | STATUS           | !RELEASE(101) ^released(101) >11
1 3 4 6 9 7 8 10 11 | unknown   | !STATUS(97)
1 3 4 6 9 7 8 10 | unknown-clear | !RELEASE(97) ^released(97) >11
0            | unknown-clear    | !RELEASE-COMPLETE(81)
0            | unknown-drop     | !RELEASE-COMPLETE(81)
6            | proceed          | !CALL-PROCEEDING >9
6 9          | alert            | !ALERTING >7
6 9 7        | connect          | !CONNECT >8
6            | release          | !RELEASE-COMPLETE(16) >0
1 3 4 9 7 8 10 | release        | !RELEASE(16) >11
1            | timer            | !SETUP
1            | timer twice      | !SETUP !RELEASE-COMPLETE(102) ^released(18) >0
3            | timer            | !RELEASE(18) ^released(18) >11
4            | timer            | !RELEASE(19) ^released(19) >11
8            | timer            | !RELEASE(102) ^released(102) >11
11           | timer            | !RELEASE(16)
11           | timer twice      | !RELEASE(16) >0
1 3 4 6 9 7 8 | link down       | ^released(27) EstablishLink >0
10           | link down        | EstablishLink
0            | link down        | EstablishLink
11           | link down        | EstablishLink >0
";

const EVENTS: &[&str] = &[
    "CALL-PROCEEDING",
    "ALERTING",
    "CONNECT",
    "CONNECT-ACK",
    "RELEASE",
    "RELEASE-COMPLETE",
    "SETUP",
    "NOTIFY",
    "STATUS-ENQUIRY",
    "STATUS",
    "STATUS-0",
    "unknown",
    "unknown-clear",
    "unknown-drop",
    "proceed",
    "alert",
    "connect",
    "release",
    "timer",
    "timer twice",
    "link down",
];

fn apply(calls: &mut Calls, id: CallId, event: &str) {
    let from_peer = id.reference().reversed();
    let connection = Element::Connection(calls.connection(id).unwrap_or(ConnectionId::exactly(0, 50)));
    let normal = Element::Cause(cause(CauseValue::NORMAL));
    let status = |state, value| [Element::CallState(state), Element::Cause(cause(value))];
    let kind = |code: u8, action: u8| {
        let mut octets = list::message(from_peer, MessageType(code), &[]);
        octets[6] = action;
        octets
    };
    match event {
        "CALL-PROCEEDING" => feed(calls, from_peer, MessageType::CALL_PROCEEDING, &[connection]),
        "ALERTING" => feed(calls, from_peer, MessageType::ALERTING, &[connection]),
        "CONNECT" => feed(calls, from_peer, MessageType::CONNECT, &[connection]),
        "CONNECT-ACK" => feed(calls, from_peer, MessageType::CONNECT_ACKNOWLEDGE, &[]),
        "RELEASE" => feed(calls, from_peer, MessageType::RELEASE, &[normal]),
        "RELEASE-COMPLETE" => feed(calls, from_peer, MessageType::RELEASE_COMPLETE, &[normal]),
        // For a call of this side's it has the wrong flag; for one of the peer's it comes again.
        "SETUP" => feed(calls, from_peer, MessageType::SETUP, &setup().0),
        "NOTIFY" => feed(calls, from_peer, MessageType::NOTIFY, &[Element::Notification(Default::default())]),
        "STATUS-ENQUIRY" => feed(calls, from_peer, MessageType::STATUS_ENQUIRY, &[]),
        "STATUS" => feed(calls, from_peer, MessageType::STATUS, &status(10, CauseValue::STATUS_ENQUIRY)),
        "STATUS-0" => feed(calls, from_peer, MessageType::STATUS, &status(0, CauseValue::WRONG_STATE)),
        "unknown" => calls.handle_message(&kind(0x3f, 0x80), NOW),
        "unknown-clear" => calls.handle_message(&kind(0x3f, 0x90), NOW),
        "unknown-drop" => calls.handle_message(&kind(0x3f, 0x91), NOW),
        "proceed" => drop(calls.proceed(id, NOW)),
        "alert" => drop(calls.alert(id, NOW)),
        "connect" => drop(calls.connect(id, &ElementList::default(), NOW)),
        "release" => drop(calls.release(id, cause(CauseValue::NORMAL), NOW)),
        "timer" => {
            if let Some(at) = calls.poll_timeout() {
                calls.handle_timeout(at);
            }
        }
        "timer twice" => {
            for _ in 0..2 {
                let at = calls.poll_timeout().unwrap();
                calls.handle_timeout(at);
            }
        }
        "link down" => calls.link_released(NOW),
        other => panic!("{other}"),
    }
}

#[test]
fn every_message_request_and_timer_in_every_state_does_what_the_table_says() {
    let rows: Vec<(Vec<u8>, &str, &str)> = TABLE
        .lines()
        .filter(|line| !line.is_empty())
        .map(|line| {
            let parts: Vec<&str> = line.split('|').map(str::trim).collect();
            (parts[0].split(' ').map(|n| n.parse().unwrap()).collect(), parts[1], parts[2])
        })
        .collect();
    for side in [Side::User, Side::Network] {
        for state in STATES {
            if side == Side::Network && state == Some(State::IncomingConnect) {
                continue;
            }
            let number = state.map_or(0, |state| state.number(Side::User));
            for event in EVENTS {
                // States 3, 4 and 8 go on to 11 with the first expiry, and a link that is down has its own timer.
                if *event == "timer twice" && !matches!(number, 1 | 11) {
                    continue;
                }
                let row = rows.iter().find(|(states, e, _)| states.contains(&number) && e == event);
                let mut expected = row.map_or("", |row| row.2).to_owned();
                // The network is active at once, without waiting for the acknowledgement, and takes one without a word.
                if side == Side::Network {
                    expected = expected.replace("!CONNECT >8", "!CONNECT >10");
                }
                let (mut calls, id) = with_call(side, state);
                while calls.poll_transmit().is_some() || calls.poll().is_some() {}
                assert_eq!(calls.state(id), state);
                apply(&mut calls, id, event);
                assert_eq!(trace(&mut calls, id, state), expected, "{event} at {side:?} in state {number}");
                if calls.state(id).is_none() {
                    assert_eq!(calls.labels().in_use(), 0, "{event} in state {number} leaves a label");
                }
            }
        }
    }
}

/// Two interfaces whose messages arrive at once.
struct Pair {
    user: Calls,
    network: Calls,
}

impl Pair {
    fn new() -> Self {
        Pair { user: interface(Side::User), network: interface(Side::Network) }
    }

    fn run(&mut self) {
        loop {
            let (up, down) = (self.user.poll_transmit(), self.network.poll_transmit());
            if up.is_none() && down.is_none() {
                return;
            }
            up.into_iter().for_each(|octets| self.network.handle_message(&octets, NOW));
            down.into_iter().for_each(|octets| self.user.handle_message(&octets, NOW));
        }
    }
}

fn events(calls: &mut Calls) -> Vec<Event> {
    std::iter::from_fn(|| calls.poll()).collect()
}

#[test]
fn a_user_calls_and_the_network_chooses_the_circuit() {
    let mut pair = Pair::new();
    let call = pair.user.setup(setup(), NOW).unwrap();
    pair.run();
    let Some(Event::Setup { call: at_network, elements, connection }) = pair.network.poll() else { panic!() };
    assert_eq!((elements, connection), (setup(), ConnectionId::exactly(0, 32)));
    pair.network.proceed(at_network, NOW).unwrap();
    pair.run();
    pair.network.connect(at_network, &ElementList::default(), NOW).unwrap();
    pair.run();
    let seen = events(&mut pair.user);
    assert_eq!(seen[0], Event::Proceeding(call));
    assert!(matches!(&seen[1], Event::Connected { connection, .. } if *connection == ConnectionId::exactly(0, 32)));
    assert_eq!((pair.user.state(call), pair.network.state(at_network)), (Some(State::Active), Some(State::Active)));
    pair.user.release(call, cause(CauseValue::NORMAL), NOW).unwrap();
    pair.run();
    assert_eq!(events(&mut pair.network), [Event::Released { call: at_network, cause: cause(CauseValue::NORMAL) }]);
    assert!(pair.user.is_empty() && pair.network.is_empty());
    assert_eq!((pair.user.labels().in_use(), pair.network.labels().in_use()), (0, 0));
    assert_eq!((pair.user.poll_timeout(), pair.network.poll_timeout()), (None, None));
}

#[test]
fn the_network_calls_and_the_user_refuses() {
    let mut pair = Pair::new();
    let call = pair.network.setup(setup(), NOW).unwrap();
    pair.run();
    let Some(Event::Setup { call: at_user, .. }) = pair.user.poll() else { panic!() };
    pair.user.release(at_user, cause(CauseValue::INCOMPATIBLE), NOW).unwrap();
    pair.run();
    assert_eq!(events(&mut pair.network), [Event::Released { call, cause: cause(CauseValue::INCOMPATIBLE) }]);
    assert_eq!((pair.network.labels().in_use(), pair.user.labels().in_use()), (0, 0));
}

#[test]
fn limits_of_an_interface_refuse_with_their_causes() {
    let config = Config::new(Side::Network, Version::Uni31);
    for (config, expected) in [
        (Config { max_calls: 2, ..config }, CauseValue::RESOURCES),
        (Config { max_calls_per_second: 2, ..config }, CauseValue::TEMPORARY_FAILURE),
        (Config { labels: (0, 32, 33), ..config }, CauseValue::NO_VPCI_VCI),
    ] {
        let mut network = Calls::new(config);
        network.link_established(NOW);
        for value in 1..=3 {
            feed(&mut network, CallReference::from_originator(value), MessageType::SETUP, &setup().0);
        }
        let answers: Vec<Vec<u8>> = std::iter::from_fn(|| network.poll_transmit()).collect();
        assert_eq!(answers.len(), 1, "two calls are taken");
        let message = Message::new_checked(&answers[0]).unwrap();
        assert_eq!(decode::decode(&message).elements.cause_value(), expected);
        assert_eq!(network.len(), 2);
    }
    let mut network = interface(Side::Network);
    let mut elements = setup();
    elements.0.push(Element::Connection(ConnectionId::exactly(0, 40)));
    feed(&mut network, CallReference::from_originator(1), MessageType::SETUP, &elements.0);
    feed(&mut network, CallReference::from_originator(2), MessageType::SETUP, &elements.0);
    let answer = network.poll_transmit().unwrap();
    let message = Message::new_checked(&answer).unwrap();
    assert_eq!(decode::decode(&message).elements.cause_value(), CauseValue::VPCI_VCI_UNAVAILABLE);
}

#[test]
fn errors_are_answered_in_the_order_of_the_standard() {
    let call = CallReference::from_originator(7);
    let octets = list::message(call, MessageType::SETUP, &setup().0);
    let answers = |octets: &[u8]| {
        let mut calls = interface(Side::Network);
        calls.handle_message(octets, NOW);
        trace(&mut calls, CallId { value: 7, ours: false }, None)
    };
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut octets = octets.clone();
        change(&mut octets);
        answers(&octets)
    };
    assert_eq!(with(&|o| o[0] = 8), "", "another protocol");
    assert_eq!(with(&|o| o[1] = 2), "", "a call reference of another length");
    assert_eq!(with(&|o| o.truncate(8)), "", "too short");
    assert_eq!(with(&|o| o[2] |= 0x80), "", "SETUP for a call that this side would have begun");
    assert_eq!(with(&|o| o[8] += 1), "!RELEASE-COMPLETE(104)", "longer than what came");
    assert_eq!(with(&|o| o.extend([1, 2, 3])), "^setup >6", "what lies beyond the message is not its own");
    let without = |id: ElementId| {
        let mut elements = setup();
        elements.remove(id);
        answers(&list::message(call, MessageType::SETUP, &elements.0))
    };
    for id in [ElementId::CALLED_NUMBER, ElementId::TRAFFIC, ElementId::BEARER, ElementId::QOS] {
        assert_eq!(without(id), "!RELEASE-COMPLETE(96)", "{id}");
    }
    assert_eq!(without(ElementId::AAL_PARAMETERS), "^setup >6");
    let unknown = |action: u8| {
        let mut octets = octets.clone();
        octets.extend([0x2a, action, 0, 1, 0]);
        octets[8] += 5;
        answers(&octets)
    };
    assert_eq!(unknown(0x80), "!STATUS(99) ^setup >6");
    assert_eq!(unknown(0x90), "!RELEASE-COMPLETE(99)");
    assert_eq!(unknown(0x91), "^setup >6");
    assert_eq!(unknown(0x92), "!STATUS(99) ^setup >6");
    assert_eq!(unknown(0x95), "");
    assert_eq!(unknown(0x96), "!STATUS(99)");
}

#[test]
fn a_damaged_element_is_dropped_and_reported_unless_it_is_mandatory() {
    let octets = list::message(CallReference::from_originator(7), MessageType::SETUP, &setup().0);
    let answers = |at: usize, octet: u8| {
        let mut octets = octets.clone();
        octets[at] = octet;
        let mut calls = interface(Side::Network);
        calls.handle_message(&octets, NOW);
        trace(&mut calls, CallId { value: 7, ours: false }, None)
    };
    assert_eq!(answers(13, 0x7f), "!STATUS(100) ^setup >6", "an AAL type that does not exist");
    assert_eq!(answers(26, 0xff), "!RELEASE-COMPLETE(100)", "a traffic parameter that does not exist");
}

#[test]
fn parties_are_added_dropped_and_the_last_takes_the_call_with_it() {
    let mut pair = Pair::new();
    let call = pair.user.setup(multipoint(), NOW).unwrap();
    pair.run();
    let Some(Event::Setup { call: at_network, .. }) = pair.network.poll() else { panic!() };
    pair.network.connect(at_network, &ElementList::default(), NOW).unwrap();
    pair.run();
    let leaf = ElementList::from([Element::Called(Number::aesa(address(3)))]);
    let first = pair.user.add_party(call, &leaf, NOW).unwrap();
    let second = pair.user.add_party(call, &leaf, NOW).unwrap();
    pair.run();
    let added: Vec<PartyId> = events(&mut pair.network)
        .into_iter()
        .filter_map(|event| if let Event::AddParty { party, .. } = event { Some(party) } else { None })
        .collect();
    pair.network.alert_party(added[0]).unwrap();
    pair.network.accept_party(added[0], &ElementList::default()).unwrap();
    pair.network.drop_party(added[1], cause(CauseValue::BUSY), NOW).unwrap();
    pair.run();
    let seen = events(&mut pair.user);
    assert!(seen.contains(&Event::PartyAlerting(first)));
    assert!(seen.contains(&Event::PartyAdded { party: first, elements: ElementList::default_with(first) }));
    assert!(seen.contains(&Event::PartyDropped { party: second, cause: cause(CauseValue::BUSY) }));
    assert_eq!((pair.user.party_count(call), pair.network.party_count(at_network)), (2, 2));
    // The party of SETUP leaves; the other stays.
    pair.network.drop_party(PartyId { call: at_network, reference: 0 }, cause(CauseValue::NORMAL), NOW).unwrap();
    pair.run();
    assert_eq!((pair.user.party_count(call), pair.network.party_count(at_network)), (1, 1));
    assert_eq!(pair.user.state(call), Some(State::Active));
    pair.user.drop_party(first, cause(CauseValue::NORMAL), NOW).unwrap();
    pair.run();
    assert!(pair.user.is_empty() && pair.network.is_empty());
    assert_eq!((pair.user.poll_timeout(), pair.network.poll_timeout()), (None, None));
}

impl ElementList {
    fn default_with(party: PartyId) -> Self {
        ElementList::from([Element::EndpointReference(EndpointReference {
            value: party.reference,
            to_originator: true,
        })])
    }
}

#[test]
fn a_party_that_nobody_answers_for_is_dropped() {
    let mut user = interface(Side::User);
    let call = user.setup(multipoint(), NOW).unwrap();
    let from_peer = call.reference().reversed();
    let connection = Element::Connection(ConnectionId::exactly(0, 40));
    feed(&mut user, from_peer, MessageType::CONNECT, &[connection]);
    let party = user.add_party(call, &setup(), NOW).unwrap();
    events(&mut user);
    user.handle_timeout(NOW + user.config.timers.t399);
    let gone = Event::PartyDropped { party, cause: cause(CauseValue::NO_RESPONSE) };
    assert_eq!(events(&mut user), [gone]);
    let at = user.poll_timeout().unwrap();
    user.handle_timeout(at);
    assert_eq!((user.party_count(call), user.state(call)), (1, Some(State::Active)));
}

#[test]
fn references_and_parties_that_do_not_exist_are_answered_by_their_causes() {
    let mut user = interface(Side::User);
    let call = user.setup(multipoint(), NOW).unwrap();
    let from_peer = call.reference().reversed();
    feed(&mut user, from_peer, MessageType::CONNECT, &[Element::Connection(ConnectionId::exactly(0, 40))]);
    while user.poll_transmit().is_some() || user.poll().is_some() {}
    let nobody = Element::EndpointReference(EndpointReference { value: 99, to_originator: true });
    let normal = Element::Cause(cause(CauseValue::NORMAL));
    feed(&mut user, from_peer, MessageType::DROP_PARTY, &[normal, nobody]);
    assert_eq!(trace(&mut user, call, Some(State::Active)), "!DROP-PARTY-ACKNOWLEDGE(89)");
    feed(&mut user, from_peer, MessageType::ADD_PARTY_ACKNOWLEDGE, &[nobody]);
    assert_eq!(trace(&mut user, call, Some(State::Active)), "!DROP-PARTY-ACKNOWLEDGE(89)");
    feed(&mut user, from_peer, MessageType::DROP_PARTY, &[normal]);
    assert_eq!(trace(&mut user, call, Some(State::Active)), "!STATUS(96)");
    feed(&mut user, from_peer, MessageType::STATUS_ENQUIRY, &[nobody]);
    assert_eq!(trace(&mut user, call, Some(State::Active)), "!STATUS(30)");
}

#[test]
fn a_restart_clears_its_calls_at_both_ends_and_nobody_elses() {
    let mut pair = Pair::new();
    let calls: Vec<CallId> = (0..3).map(|_| pair.user.setup(setup(), NOW).unwrap()).collect();
    pair.run();
    for event in events(&mut pair.network) {
        let Event::Setup { call, .. } = event else { panic!() };
        pair.network.connect(call, &ElementList::default(), NOW).unwrap();
    }
    pair.run();
    events(&mut pair.user);
    let circuit = pair.user.connection(calls[1]).unwrap();
    pair.network.restart(RestartClass::Channel, Some(circuit), NOW).unwrap();
    pair.run();
    let gone = Event::Released { call: calls[1], cause: cause(CauseValue::TEMPORARY_FAILURE) };
    assert_eq!(events(&mut pair.user), [gone, Event::Restarted(RestartClass::Channel)]);
    assert_eq!((pair.user.len(), pair.network.len(), pair.network.poll_timeout()), (2, 2, None));
    pair.user.restart(RestartClass::All, None, NOW).unwrap();
    pair.run();
    assert_eq!((pair.user.len(), pair.network.len()), (0, 0));
    assert_eq!((pair.user.labels().in_use(), pair.network.labels().in_use()), (0, 0));
    assert_eq!((pair.user.poll_timeout(), pair.network.poll_timeout()), (None, None));
}

#[test]
fn errors_with_the_global_reference_are_answered_by_status() {
    let all = Element::Restart(RestartClass::All);
    let global = CallReference::from_originator(0);
    let nobody = CallId { value: 0, ours: false };
    let answer = |reference: CallReference, kind: MessageType, elements: &[Element]| {
        let mut calls = interface(Side::User);
        feed(&mut calls, reference, kind, elements);
        let all = trace(&mut calls, nobody, None);
        all.replace("Restarted(All)", "^restarted")
    };
    assert_eq!(answer(global, MessageType::RESTART, &[all]), "!RESTART-ACKNOWLEDGE ^restarted");
    assert_eq!(answer(global.reversed(), MessageType::RESTART, &[all]), "!STATUS(81)");
    assert_eq!(answer(global, MessageType::RESTART_ACKNOWLEDGE, &[all]), "!STATUS(81)");
    assert_eq!(answer(global, MessageType::CONNECT, &[]), "!STATUS(81)");
    assert_eq!(answer(global, MessageType::RESTART, &[]), "!STATUS(96)");
    assert_eq!(answer(global, MessageType::RESTART, &[Element::Restart(RestartClass::Channel)]), "!STATUS(96)");
    assert_eq!(answer(global, MessageType::STATUS, &[]), "");
    // Nobody asked for a restart: the acknowledgement is for another.
    assert_eq!(answer(global.reversed(), MessageType::RESTART_ACKNOWLEDGE, &[all]), "");
}

#[test]
fn active_calls_survive_a_link_that_comes_back_in_time_and_no_longer() {
    for back in [true, false] {
        let (mut calls, id) = with_call(Side::User, Some(State::Active));
        while calls.poll_transmit().is_some() || calls.poll().is_some() {}
        calls.link_released(NOW);
        if back {
            calls.link_established(NOW);
            assert_eq!(trace(&mut calls, id, Some(State::Active)), "!STATUS-ENQUIRY EstablishLink");
            let answer = [Element::CallState(10), Element::Cause(cause(CauseValue::STATUS_ENQUIRY))];
            feed(&mut calls, id.reference().reversed(), MessageType::STATUS, &answer);
            assert_eq!(calls.poll_timeout(), None);
            assert_eq!(calls.state(id), Some(State::Active));
        } else {
            let at = calls.poll_timeout().unwrap();
            assert_eq!(at.since(NOW), calls.config.timers.t309);
            calls.handle_timeout(at);
            assert_eq!(trace(&mut calls, id, Some(State::Active)), "EstablishLink ^released(27) >0");
            assert_eq!((calls.labels().in_use(), calls.poll_timeout()), (0, None));
        }
    }
}

#[test]
fn a_peer_that_does_not_answer_an_enquiry_loses_the_call() {
    let (mut calls, id) = with_call(Side::Network, Some(State::Active));
    while calls.poll_transmit().is_some() || calls.poll().is_some() {}
    calls.enquire(id, NOW).unwrap();
    for _ in 0..2 {
        let at = calls.poll_timeout().unwrap();
        calls.handle_timeout(at);
    }
    let expected = "!STATUS-ENQUIRY !STATUS-ENQUIRY !RELEASE(102) ^released(102) >11";
    assert_eq!(trace(&mut calls, id, Some(State::Active)), expected);
}
