//! Addresses that users register by ILMI at a switch, and whose they are already.

use control::calls::call_controller::{CallController, Channel};
use control::calls::layout::{Interface, Layout, Switch};
use uni::call::{Config, Side, Version};
use wire::Time;
use wire::aesa::Aesa;
use wire::ilmi::{Binding, ErrorStatus, Head, Kind, MAX_OCTETS, Message, Oid, Value, emit};

const NOW: Time = Time::ZERO;
const PREFIX: [u8; 13] = [0x47, 0, 5, 0x80, 0xff, 0xe1, 0, 0, 0, 0, 0, 0, 1];
const VALID: i64 = 1;
const INVALID: i64 = 2;

fn address(n: u8) -> Aesa {
    Aesa::new(PREFIX, [2, 0, 0, 0, 0, n], 0)
}

/// A switch with a user at each port, who has these addresses by the description.
fn layout(users: &[&[Aesa]]) -> Layout {
    let interface = |(port, addresses): (usize, &&[Aesa])| Interface {
        station: "s1".into(),
        port: port as u16,
        host: None,
        call: Config::new(Side::Network, Version::Uni31),
        rate: None,
        delay_ms: 0,
        program: false,
        ilmi: true,
        addresses: addresses.to_vec(),
        is_inner: false,
    };
    let switch = Switch { prefix: PREFIX, control_port: users.len() as u16, routes: Vec::new() };
    Layout {
        interfaces: users.iter().enumerate().map(interface).collect(),
        switches: [("s1".to_owned(), switch)].into(),
    }
}

fn arranged(users: &[&[Aesa]]) -> CallController {
    let mut controller = CallController::default();
    controller.arrange(&layout(users), NOW);
    controller
}

/// The user at a port sets atmfAddressStatus of an address; what the switch answers.
fn set(controller: &mut CallController, port: usize, address: Aesa, value: i64) -> ErrorStatus {
    let mut arcs = vec![1, 3, 6, 1, 4, 1, 353, 2, 6, 1, 1, 3, 0, 20];
    arcs.extend(address.0.map(u32::from));
    let binding = Binding { name: Oid::new(&arcs).unwrap(), value: Value::Integer(value) };
    let mut sdu = [0; MAX_OCTETS];
    let head = Head::Request { kind: Kind::Set, id: 7, status: ErrorStatus::NONE, index: 0 };
    let n = emit(&head, &[binding], &mut sdu).unwrap();
    while controller.poll_transmit(port, Channel::Ilmi, NOW).is_some() {}
    controller.handle_sdu(port, Channel::Ilmi, &sdu[..n], NOW);
    let answers = std::iter::from_fn(|| controller.poll_transmit(port, Channel::Ilmi, NOW));
    let statuses = answers.filter_map(|sdu| match Message::parse(&sdu).unwrap().head {
        Head::Request { kind: Kind::Response, status, .. } => Some(status),
        _ => None,
    });
    let statuses: Vec<ErrorStatus> = statuses.collect();
    assert_eq!(statuses.len(), 1);
    statuses[0]
}

/// The addresses at each port, and the registrations that were refused.
fn told(controller: &mut CallController) -> Vec<(Vec<String>, u64)> {
    controller.report(NOW).interfaces.into_iter().map(|i| (i.addresses, i.refused_registrations)).collect()
}

fn texts(addresses: &[Aesa]) -> Vec<String> {
    addresses.iter().map(ToString::to_string).collect()
}

#[test]
fn an_address_that_the_description_gives_to_another_port_cannot_be_registered() {
    let mut controller = arranged(&[&[], &[address(1)]]);
    let with_selector = Aesa::new(PREFIX, [2, 0, 0, 0, 0, 1], 9);
    for victim in [address(1), with_selector] {
        assert_eq!(set(&mut controller, 0, victim, VALID), ErrorStatus::BAD_VALUE);
    }
    assert_eq!(told(&mut controller), [(texts(&[]), 2), (texts(&[address(1)]), 0)]);
    // Another address is free, and the owner may register its own, and withdraw that: the description stays.
    assert_eq!(set(&mut controller, 0, address(2), VALID), ErrorStatus::NONE);
    assert_eq!(set(&mut controller, 1, address(1), VALID), ErrorStatus::NONE);
    assert_eq!(set(&mut controller, 1, address(1), INVALID), ErrorStatus::NONE);
    assert_eq!(told(&mut controller), [(texts(&[address(2)]), 2), (texts(&[address(1)]), 0)]);
}

#[test]
fn an_address_that_another_port_has_registered_is_refused_and_its_owner_gets_it_back_after_it_withdrew() {
    let mut controller = arranged(&[&[], &[]]);
    assert_eq!(set(&mut controller, 1, address(1), VALID), ErrorStatus::NONE);
    assert_eq!(set(&mut controller, 0, address(1), VALID), ErrorStatus::BAD_VALUE);
    assert_eq!(told(&mut controller), [(texts(&[]), 1), (texts(&[address(1)]), 0)]);
    assert_eq!(set(&mut controller, 1, address(1), INVALID), ErrorStatus::NONE);
    // Another port may have it twenty minutes after that (`calls::owners`).
    assert_eq!(set(&mut controller, 0, address(1), VALID), ErrorStatus::BAD_VALUE);
    assert_eq!(set(&mut controller, 1, address(1), VALID), ErrorStatus::NONE);
    assert_eq!(told(&mut controller), [(texts(&[]), 2), (texts(&[address(1)]), 0)]);
}

#[test]
fn a_reload_that_gives_an_address_to_a_port_takes_it_from_who_has_registered_it() {
    let mut controller = arranged(&[&[], &[]]);
    assert_eq!(set(&mut controller, 0, address(1), VALID), ErrorStatus::NONE);
    controller.arrange(&layout(&[&[], &[address(1)]]), NOW);
    assert_eq!(told(&mut controller), [(texts(&[]), 0), (texts(&[address(1)]), 0)]);
    assert_eq!(set(&mut controller, 0, address(1), VALID), ErrorStatus::BAD_VALUE);
    // Without it in the description, it can be registered again.
    controller.arrange(&layout(&[&[], &[]]), NOW);
    assert_eq!(set(&mut controller, 0, address(1), VALID), ErrorStatus::NONE);
}
