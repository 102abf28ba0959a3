//! Who may speak for an address, between two users: the first one, until 20 minutes of silence or until configuration
//! says otherwise.

use super::*;

/// A server, with the first user's station entered on circuit 0, by a call; the second user has circuits 1 and 2.
fn server_with(first: AtmAddress, second: AtmAddress) -> Server {
    let mut server = Server::new(end(1, 1), 10);
    for (circuit, number) in [(0, first), (1, second), (2, second)] {
        server.add_circuit(circuit, Time::ZERO);
        server.set_number(circuit, number);
    }
    assert_eq!(server.handle(0, &says(Operation::Request, end(2, 2)), Time::ZERO), Some(ip(2)));
    server
}

fn claim(server: &mut Server, circuit: u32, who: End, at: u64) -> bool {
    server.handle_timeout(seconds(at));
    server.handle(circuit, &says(Operation::Request, who), seconds(at)).is_some()
}

#[test]
fn a_second_users_claim_is_refused_and_counted_while_the_first_one_is_away_and_granted_after_twenty_minutes() {
    let mut server = server_with(end(2, 2).number, end(2, 9).number);
    server.remove_circuit(0);
    for at in [1, 600, 1199] {
        let before = server.duplicates;
        assert!(!claim(&mut server, 1, end(2, 9), at), "{at} s");
        assert_eq!(server.duplicates, before + 1);
    }
    // What the second user learns is who has it.
    let answers: Vec<_> =
        std::iter::from_fn(|| server.poll()).filter(|(_, p)| p.operation == Operation::Reply).collect();
    assert!(!answers.is_empty() && answers.iter().all(|(_, packet)| packet.sender == end(2, 2)));
    // The first user's station has called again, on another circuit.
    server.add_circuit(3, seconds(1199));
    server.set_number(3, end(2, 2).number);
    assert!(claim(&mut server, 3, end(2, 2), 1199));
    server.remove_circuit(3);
    assert!(!claim(&mut server, 1, end(2, 9), 1199 + 1199));
    assert!(claim(&mut server, 1, end(2, 9), 1199 + 1200));
}

#[test]
fn a_second_user_whose_call_has_the_number_of_the_first_ones_circuit_is_not_the_first_user() {
    let mut server = server_with(end(2, 2).number, end(2, 9).number);
    server.remove_circuit(0);
    server.add_circuit(0, seconds(1));
    server.set_number(0, end(2, 9).number);
    assert!(!server.is_there(ip(2)), "no packet for the first user goes to the second");
    assert!(!claim(&mut server, 0, end(2, 2), 2) && !claim(&mut server, 0, end(2, 9), 2));
    assert!(claim(&mut server, 0, end(2, 9), 1200));
    assert!(server.is_there(ip(2)));
}

#[test]
fn a_second_user_who_fills_the_table_pushes_out_no_claim_of_a_user_who_is_away() {
    let mut server = server_with(end(2, 2).number, end(2, 9).number);
    server.remove_circuit(0);
    for (address, circuit) in (20..60).zip([1, 2].into_iter().cycle()) {
        claim(&mut server, circuit, end(address, 9), 1);
    }
    // Calls that come, claim and go.
    for address in 60..90 {
        let circuit = u32::from(address);
        server.add_circuit(circuit, seconds(1));
        server.set_number(circuit, end(2, 9).number);
        claim(&mut server, circuit, end(address, 9), 1);
        server.remove_circuit(circuit);
    }
    assert_eq!(server.entries().count(), 10);
    assert_eq!(server.entry(ip(2)).map(|(station, _)| *station), Some(end(2, 2)));
    assert!(server.counters.dropped(DropReason::TableFull) > 0);
}

#[test]
fn configuration_ties_a_users_circuit_to_addresses() {
    // Permanent circuits: the network names nobody.
    let mut server = server_with(AtmAddress::NONE, AtmAddress::NONE);
    server.tie(1, ip(5));
    server.tie(1, ip(6));
    assert!(!claim(&mut server, 0, end(5, 0), 1), "it is the second user's");
    assert!(!claim(&mut server, 1, end(7, 0), 1), "the second user has its own addresses only");
    assert_eq!(server.duplicates, 2);
    assert!(claim(&mut server, 1, end(5, 0), 1) && claim(&mut server, 1, end(6, 0), 1));
    // Configuration comes before the first claim.
    server.tie(2, ip(2));
    assert!(!claim(&mut server, 0, end(2, 2), 2) && claim(&mut server, 2, end(2, 0), 2));
    server.remove_circuit(1);
    server.add_circuit(1, seconds(3));
    assert!(claim(&mut server, 1, end(7, 0), 3), "a circuit that is anew is tied anew");
}
