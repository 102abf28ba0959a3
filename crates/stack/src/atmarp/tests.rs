//! ATMARP client and server in a world of a few stations: registering, ageing, refusals.

mod claims;

use super::*;
use proptest::prelude::*;
use std::net::Ipv4Addr;
use wire::atmarp::{AtmAddress, Operation, Packet};
use wire::{DropReason, Time};

fn ip(n: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, n)
}

/// A station with a number; 0: without.
fn end(address: u8, number: u8) -> End {
    let number = if number == 0 { AtmAddress::NONE } else { AtmAddress::new(&[0x47, number], false).unwrap() };
    End { number, ip: Some(ip(address)), ..End::default() }
}

fn seconds(s: u64) -> Time {
    Time::from_millis(s * 1000)
}

/// Passes packets between a server and its clients, each on the circuit of its place, until nobody says anything.
fn settle(server: &mut Server, clients: &mut [Client], now: Time) {
    server.handle_timeout(now);
    for client in clients.iter_mut() {
        client.handle_timeout(now);
    }
    loop {
        let mut quiet = true;
        for (i, client) in clients.iter_mut().enumerate() {
            while let Some(packet) = client.poll() {
                server.handle(i as u32, &packet, now);
                quiet = false;
            }
        }
        while let Some((circuit, packet)) = server.poll() {
            if let Some(client) = clients.get_mut(circuit as usize) {
                client.handle(&packet, now);
            }
            quiet = false;
        }
        if quiet {
            return;
        }
    }
}

#[test]
fn clients_register_and_find_each_other() {
    let mut server = Server::new(end(1, 1), 10);
    let mut clients = [Client::new(end(2, 2), Time::ZERO), Client::new(end(3, 3), Time::ZERO)];
    server.add_circuit(0, Time::ZERO);
    server.add_circuit(1, Time::ZERO);
    settle(&mut server, &mut clients, Time::ZERO);
    assert!(clients.iter().all(Client::is_registered));
    assert_eq!(clients[0].resolve(ip(3), Time::ZERO), Resolution::Asking);
    settle(&mut server, &mut clients, Time::ZERO);
    assert_eq!(clients[0].resolve(ip(3), Time::ZERO), Resolution::Known(end(3, 3)));
    // The server itself can be asked for.
    clients[0].resolve(ip(1), Time::ZERO);
    settle(&mut server, &mut clients, Time::ZERO);
    assert_eq!(clients[0].resolve(ip(1), Time::ZERO), Resolution::Known(end(1, 1)));
}

#[test]
fn an_address_that_nobody_has_is_refused_and_asked_for_again_later() {
    let mut server = Server::new(end(1, 1), 10);
    let mut clients = [Client::new(end(2, 2), Time::ZERO)];
    server.add_circuit(0, Time::ZERO);
    clients[0].resolve(ip(9), Time::ZERO);
    settle(&mut server, &mut clients, Time::ZERO);
    assert_eq!(clients[0].resolve(ip(9), Time::ZERO), Resolution::Unreachable);
    settle(&mut server, &mut clients, seconds(11));
    assert_eq!(clients[0].resolve(ip(9), seconds(11)), Resolution::Asking);
}

#[test]
fn a_second_station_of_the_same_address_is_told_and_changes_nothing() {
    let mut server = Server::new(end(1, 1), 10);
    let mut clients = [Client::new(end(2, 2), Time::ZERO), Client::new(end(2, 9), seconds(1))];
    server.add_circuit(0, Time::ZERO);
    server.add_circuit(1, Time::ZERO);
    settle(&mut server, &mut clients, Time::ZERO);
    settle(&mut server, &mut clients, seconds(1));
    assert!(clients[0].is_registered() && clients[0].duplicate().is_none());
    assert!(!clients[1].is_registered());
    assert_eq!(clients[1].duplicate(), Some(&end(2, 2)));
    assert_eq!(server.entries().map(|(a, e, _)| (a, *e)).collect::<Vec<_>>(), [(ip(2), end(2, 2))]);
    assert!(server.duplicates >= 1);
    // The first one's circuit is gone: the second may have the address 20 minutes after it was heard last.
    server.remove_circuit(0);
    let claims = |server: &mut Server, at| {
        let mut second = Client::new(end(2, 9), seconds(at));
        second.handle_timeout(seconds(at));
        server.handle_timeout(seconds(at));
        server.handle(1, &second.poll().unwrap(), seconds(at));
        while let Some((_, reply)) = server.poll() {
            second.handle(&reply, seconds(at));
        }
        second.is_registered()
    };
    assert!(!claims(&mut server, 2) && !claims(&mut server, 1199));
    assert!(claims(&mut server, 1201));
}

#[test]
fn the_servers_own_address_cannot_be_claimed() {
    let mut server = Server::new(end(1, 1), 10);
    let mut clients = [Client::new(end(1, 5), Time::ZERO)];
    server.add_circuit(0, Time::ZERO);
    settle(&mut server, &mut clients, Time::ZERO);
    assert_eq!(clients[0].duplicate(), Some(&end(1, 1)));
    assert_eq!(server.entries().count(), 0);
}

#[test]
fn an_entry_of_twenty_minutes_is_asked_for_once_more_and_forgotten_if_nobody_answers() {
    let mut server = Server::new(end(1, 1), 10);
    server.add_circuit(7, Time::ZERO);
    assert!(matches!(server.poll(), Some((7, Packet { operation: Operation::InverseRequest, .. }))));
    // A client of RFC 1577 registers by its answer; it has no number, as on a permanent circuit.
    let answer = Packet { operation: Operation::InverseReply, sender: end(2, 0), target: end(1, 1) };
    server.handle(7, &answer, Time::ZERO);
    assert_eq!(server.entries().count(), 1);
    assert_eq!(server.poll_timeout(), Some(Time::ZERO + SERVER_AGEING));
    server.handle_timeout(Time::ZERO + SERVER_AGEING);
    assert!(matches!(server.poll(), Some((7, Packet { operation: Operation::InverseRequest, .. }))));
    server.handle(7, &answer, seconds(1201));
    server.handle_timeout(seconds(1300));
    assert_eq!(server.entries().count(), 1);
    server.handle_timeout(seconds(1201 + 1200));
    assert!(server.poll().is_some());
    server.handle_timeout(seconds(1201 + 1200 + 10));
    assert_eq!(server.entries().count(), 0);
}

#[test]
fn a_circuit_on_which_nobody_is_known_is_asked_until_somebody_answers() {
    let mut server = Server::new(end(1, 1), 10);
    server.add_circuit(7, Time::ZERO);
    assert!(server.poll().is_some());
    // That was lost: the link was down.
    server.handle_timeout(seconds(1));
    assert!(server.poll().is_some());
    assert!(server.handle_sign_of_life(7, seconds(2)));
    assert_eq!(server.poll_timeout(), Some(seconds(2)));
    server.handle_timeout(seconds(3));
    assert!(server.poll().is_some());
    let answer = Packet { operation: Operation::InverseReply, sender: end(2, 0), target: end(1, 1) };
    server.handle(7, &answer, seconds(3));
    server.handle_timeout(seconds(100));
    assert!(server.poll().is_none() && !server.handle_sign_of_life(7, seconds(100)));
}

#[test]
fn a_client_registers_anew_before_fifteen_minutes_and_gives_up_a_silent_server() {
    let mut client = Client::new(end(2, 2), Time::ZERO);
    client.handle_timeout(Time::ZERO);
    assert!(client.poll().is_some());
    client.handle(&Packet { operation: Operation::Reply, sender: end(2, 2), target: end(2, 2) }, Time::ZERO);
    assert!(client.is_registered());
    client.handle_timeout(seconds(450));
    assert!(client.poll().is_some(), "asked after half of the time");
    client.handle_timeout(seconds(900));
    assert!(!client.is_registered());
    client.resolve(ip(3), seconds(1000));
    let mut questions = 0;
    for s in 1000..1100 {
        client.handle_timeout(seconds(s));
        while let Some(packet) = client.poll() {
            questions += u32::from(packet.target.ip == Some(ip(3)));
        }
        if client.resolve(ip(3), seconds(s)) == Resolution::Unreachable {
            break;
        }
    }
    assert_eq!(questions, 5);
}

#[test]
fn a_silent_far_end_is_asked_ever_less_often() {
    let mut inverse = Inverse::new(None, Time::ZERO);
    let mut asked = Vec::new();
    for s in 0..200 {
        inverse.handle_timeout(seconds(s));
        if inverse.poll(end(1, 0)).is_some() {
            asked.push(s);
        }
    }
    assert_eq!(asked, [0, 1, 3, 7, 15, 31, 63, 127, 191]);
    // A packet of any kind shows that somebody is there now.
    inverse.handle_sign_of_life(seconds(200));
    assert_eq!(inverse.poll_timeout(), Some(seconds(200)));
}

#[test]
fn one_circuit_that_fills_the_table_yields_to_stations_of_others() {
    let mut server = Server::new(end(1, 1), 4);
    (0..4).for_each(|circuit| server.add_circuit(circuit, Time::ZERO));
    let enter = |server: &mut Server, circuit, address, at| {
        let says = Packet { operation: Operation::InverseReply, sender: end(address, address), target: end(1, 1) };
        server.handle(circuit, &says, seconds(at));
        let mut all: Vec<u8> = server.entries().map(|(ip, ..)| ip.octets()[3]).collect();
        all.sort_unstable();
        all
    };
    for (at, address) in [(1, 12), (2, 11), (3, 13), (4, 14), (5, 12)] {
        enter(&mut server, 0, address, at);
    }
    assert_eq!(enter(&mut server, 0, 15, 6), [11, 12, 13, 14], "its own stay");
    assert_eq!(enter(&mut server, 1, 21, 7), [12, 13, 14, 21], "11 was not heard of for the longest time");
    assert_eq!(enter(&mut server, 2, 31, 8), [12, 14, 21, 31]);
    // Two, one and one.
    assert_eq!(enter(&mut server, 1, 22, 9), [12, 14, 21, 31]);
    assert_eq!(enter(&mut server, 0, 16, 10), [12, 14, 21, 31]);
    // What a circuit that is gone has left yields to who has nothing, where nobody has more than one.
    server.remove_circuit(2);
    assert_eq!(enter(&mut server, 0, 16, 11), [12, 14, 21, 31], "who has entries pushes out nobody's claim");
    assert_eq!(enter(&mut server, 3, 41, 12), [12, 21, 31, 41]);
    server.add_circuit(4, seconds(13));
    assert_eq!(enter(&mut server, 4, 51, 13), [12, 21, 41, 51]);
}

fn packet() -> impl Strategy<Value = Packet> {
    (0usize..5, 0u8..5, 0u8..4, 0u8..5, 0u8..4).prop_map(|(op, a, b, c, d)| {
        use Operation::*;
        let operation = [Request, Reply, InverseRequest, InverseReply, Nak][op];
        let some = |address: u8, number| if address == 0 { End::default() } else { end(address, number) };
        Packet { operation, sender: some(a, b), target: some(c, d) }
    })
}

fn says(operation: Operation, sender: End) -> Packet {
    Packet { operation, sender, target: sender }
}

#[test]
fn a_number_that_only_a_packet_says_moves_no_entry_to_another_circuit() {
    let mut server = Server::new(end(1, 1), 10);
    let victim = end(2, 2);
    (0..5).for_each(|circuit| server.add_circuit(circuit, Time::ZERO));
    server.set_number(0, victim.number);
    server.set_number(3, end(3, 3).number);
    server.set_number(4, victim.number);
    assert_eq!(server.handle(0, &says(Operation::Request, victim), Time::ZERO), victim.ip);
    let stands = |server: &Server, on| server.entry(ip(2)) == Some((&victim, on));
    // Under the victim's number, where the network names nobody or somebody else; and then under another's.
    for circuit in [1, 3] {
        assert_eq!(server.handle(circuit, &says(Operation::Request, victim), Time::ZERO), None);
        assert!(stands(&server, 0));
    }
    server.remove_circuit(1);
    assert_eq!(server.handle(2, &says(Operation::Request, end(2, 9)), Time::ZERO), None);
    assert!(stands(&server, 0) && server.duplicates == 3);
    // The station itself has called again.
    assert_eq!(server.handle(4, &says(Operation::InverseReply, victim), Time::ZERO), victim.ip);
    assert!(stands(&server, 4));
    server.remove_circuit(4);
    assert_eq!(server.handle(2, &says(Operation::Request, end(2, 9)), seconds(1199)), None);
    assert_eq!(server.handle(2, &says(Operation::Request, end(2, 9)), seconds(1200)), Some(ip(2)));
}

#[test]
fn a_circuit_that_asks_without_end_pushes_out_no_answer_and_no_question_to_others() {
    let mut server = Server::new(end(1, 1), 16);
    (0..3).for_each(|circuit| server.add_circuit(circuit, Time::ZERO));
    while server.poll().is_some() {}
    server.handle(2, &says(Operation::InverseReply, end(2, 2)), Time::ZERO);
    let now = Time::ZERO + SERVER_AGEING;
    for _ in 0..100 {
        server.handle(0, &says(Operation::Request, end(3, 3)), now);
    }
    server.handle(1, &says(Operation::Request, end(4, 4)), now);
    server.handle_timeout(now);
    let out: Vec<_> = std::iter::from_fn(|| server.poll()).collect();
    let to = |circuit, operation| out.iter().filter(|(c, p)| (*c, p.operation) == (circuit, operation)).count();
    assert_eq!([to(0, Operation::Reply), to(1, Operation::Reply), to(2, Operation::InverseRequest)], [14, 1, 1]);
    assert_eq!(server.counters.dropped(DropReason::QueueFull), 100 - 14);
    // What waits for a circuit that goes is counted.
    server.handle(0, &says(Operation::Request, end(3, 3)), now);
    server.remove_circuit(0);
    assert_eq!((server.poll(), server.counters.dropped(DropReason::Closed)), (None, 1));
}

#[test]
fn an_entry_that_ages_while_there_is_no_room_for_a_question_is_asked_later() {
    let mut server = Server::new(end(1, 1), 20);
    (0..20).for_each(|circuit| server.add_circuit(circuit, Time::ZERO));
    while server.poll().is_some() {}
    for circuit in 0..20 {
        server.handle(circuit, &says(Operation::InverseReply, end(100 + circuit as u8, 0)), Time::ZERO);
    }
    let now = Time::ZERO + SERVER_AGEING;
    for circuit in 0..20 {
        server.handle(circuit, &says(Operation::Request, End { ip: Some(ip(1)), ..end(1, 0) }), now);
    }
    server.handle_timeout(now);
    assert_eq!(server.entries().count(), 20);
    let later = server.poll_timeout().unwrap();
    assert!(later > now, "no round without end while nobody takes what is said");
    while server.poll().is_some() {}
    server.handle_timeout(later);
    let asked: Vec<_> = std::iter::from_fn(|| server.poll()).map(|(circuit, _)| circuit).collect();
    assert_eq!(asked, (0..20).collect::<Vec<_>>());
}

proptest! {
    /// The network has said who is on circuits 2 and 3: stations 2 and 3. On the others it names nobody.
    #[test]
    fn whatever_stations_say_an_entry_changes_hands_only_when_it_has_ended_or_the_network_says_so(
        said in proptest::collection::vec((packet(), 0u32..4, 0u64..3000, 0u8..10), 1..200)
    ) {
        let mut server = Server::new(end(1, 1), 3);
        let open = |server: &mut Server, circuit, now| {
            server.add_circuit(circuit, now);
            if circuit > 1 {
                server.set_number(circuit, end(0, circuit as u8).number);
            }
        };
        (0..4).for_each(|circuit| open(&mut server, circuit, Time::ZERO));
        let mut now = Time::ZERO;
        let mut owners: std::collections::BTreeMap<Ipv4Addr, (End, u32)> = Default::default();
        for (packet, circuit, step, what) in said {
            now += std::time::Duration::from_millis(step * 100);
            server.handle_timeout(now);
            if what == 0 {
                server.remove_circuit(circuit);
                open(&mut server, circuit, now);
            }
            let present: Vec<_> = server.entries().map(|(ip, ..)| ip).collect();
            owners.retain(|ip, _| present.contains(ip));
            server.handle(circuit, &packet, now);
            while let Some((_, answer)) = server.poll() {
                // No answer speaks for a station that is not entered.
                if answer.operation == Operation::Reply {
                    let known = answer.sender == end(1, 1) || server.entries().any(|(_, e, _)| *e == answer.sender);
                    prop_assert!(known);
                }
            }
            for (ip, e, c) in server.entries() {
                prop_assert!(ip != Ipv4Addr::new(10, 0, 0, 1));
                let (owner, on) = *owners.entry(ip).or_insert((*e, c));
                let is_proven = c > 1 && owner.number == end(0, c as u8).number;
                prop_assert!(owner == *e && (c == on || is_proven), "{ip}: {owner:?} on {on}, {e:?} on {c}");
                owners.insert(ip, (*e, c));
            }
            prop_assert!(server.entries().count() <= 3);
        }
    }

    #[test]
    fn no_packet_makes_a_client_believe_what_it_did_not_ask(said in proptest::collection::vec(packet(), 0..50)) {
        let mut client = Client::new(end(2, 2), Time::ZERO);
        for packet in said {
            client.handle(&packet, Time::ZERO);
        }
        for a in 3..5 {
            prop_assert_eq!(client.resolve(ip(a), Time::ZERO), Resolution::Asking);
        }
    }
}
