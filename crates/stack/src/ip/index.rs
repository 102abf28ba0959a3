//! Circuits by what is known of their far ends: address, number, when to ask, whether there is an answer. So no packet
//! costs a search through all circuits.

use super::{Circuit, Encapsulation, IpInterface, Way};
use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use wire::Time;
use wire::atmarp::AtmAddress;

/// What a circuit is found by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Keys {
    address: Option<Ipv4Addr>,
    number: AtmAddress,
    ask: Option<Time>,
    speaks: bool,
}

/// See the module's head.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Index {
    addresses: BTreeSet<(Ipv4Addr, u32)>,
    numbers: BTreeSet<(AtmAddress, u32)>,
    asks: BTreeSet<(Time, u32)>,
    speaks: BTreeSet<u32>,
}

impl Index {
    fn enter(&mut self, circuit: u32, keys: &Keys) {
        self.addresses.extend(keys.address.map(|ip| (ip, circuit)));
        self.numbers.extend(Some((keys.number, circuit)).filter(|(number, _)| *number != AtmAddress::NONE));
        self.asks.extend(keys.ask.map(|at| (at, circuit)));
        self.speaks.extend(keys.speaks.then_some(circuit));
    }

    fn leave(&mut self, circuit: u32, keys: &Keys) {
        keys.address.map(|ip| self.addresses.remove(&(ip, circuit)));
        self.numbers.remove(&(keys.number, circuit));
        keys.ask.map(|at| self.asks.remove(&(at, circuit)));
        self.speaks.remove(&circuit);
    }

    /// The circuits whose far ends have said that they have an address.
    fn of_address(&self, ip: Ipv4Addr) -> impl Iterator<Item = u32> + '_ {
        self.addresses.range((ip, 0)..=(ip, u32::MAX)).map(|(_, circuit)| *circuit)
    }

    /// The first circuit to a number.
    fn of_number(&self, number: AtmAddress) -> Option<u32> {
        self.numbers.range((number, 0)..=(number, u32::MAX)).next().map(|(_, circuit)| *circuit)
    }

    /// When the first circuit asks, and which.
    pub(super) fn next_ask(&self) -> Option<(Time, u32)> {
        self.asks.first().copied()
    }

    /// A circuit whose far end is to be told something.
    pub(super) fn speaker(&self) -> Option<u32> {
        self.speaks.first().copied()
    }
}

impl IpInterface {
    /// Whether each circuit asks who is there. A server asks itself.
    pub(super) fn asks_each(&self) -> bool {
        self.config.encapsulation == Encapsulation::LlcRouted && self.server.is_none()
    }

    fn keys(&self, c: &Circuit) -> Keys {
        Keys {
            address: c.inverse.peer().and_then(|peer| peer.ip),
            number: c.far_number(self.is_switched),
            ask: c.inverse.poll_timeout().filter(|_| self.asks_each()),
            speaks: c.inverse.has_packet(),
        }
    }

    /// Changes a circuit, and what it is found by.
    pub(super) fn with_circuit<T>(&mut self, circuit: u32, change: impl FnOnce(&mut Circuit) -> T) -> Option<T> {
        let before = self.keys(self.circuits.get(&circuit)?);
        let changed = change(self.circuits.get_mut(&circuit)?);
        let after = self.keys(self.circuits.get(&circuit)?);
        if before != after {
            self.index.leave(circuit, &before);
            self.index.enter(circuit, &after);
        }
        Some(changed)
    }

    pub(super) fn insert_circuit(&mut self, circuit: u32, state: Circuit) {
        self.take_circuit(circuit);
        let keys = self.keys(&state);
        self.index.enter(circuit, &keys);
        self.circuits.insert(circuit, state);
    }

    pub(super) fn take_circuit(&mut self, circuit: u32) {
        if let Some(state) = self.circuits.remove(&circuit) {
            let keys = self.keys(&state);
            self.index.leave(circuit, &keys);
        }
    }

    /// What the interface is has changed, and with it how all circuits are found.
    pub(super) fn index_anew(&mut self) {
        self.index = Index::default();
        let all: Vec<_> = self.circuits.iter().map(|(circuit, state)| (*circuit, self.keys(state))).collect();
        all.iter().for_each(|(circuit, keys)| self.index.enter(*circuit, keys));
    }

    /// Whether the far end of a circuit may say by itself which address it has. Over calls anybody may be there: where
    /// there is a server to say who has an address, it is believed, and nobody else.
    fn is_believed(&self, circuit: u32) -> bool {
        match &self.client {
            Some((server, _)) if self.is_switched && *server != Some(circuit) => {
                self.circuits.get(&circuit).is_some_and(|c| c.inverse.is_static())
            }
            _ => true,
        }
    }

    /// The circuit to an address: whose far end has said so, or where the server's or the client's table leads.
    pub(super) fn way(&self, ip: Ipv4Addr) -> Option<Way> {
        if let Some(circuit) = self.index.of_address(ip).find(|circuit| self.is_believed(*circuit)) {
            return Some(Way { circuit, resolved: false });
        }
        if let Some(server) = &self.server
            && let Some((end, circuit)) = server.entry(ip)
        {
            let open = Some(circuit).filter(|circuit| self.circuits.contains_key(circuit) && server.is_there(ip));
            if let Some(circuit) = open.or_else(|| self.index.of_number(end.number)) {
                return Some(Way { circuit, resolved: false });
            }
        }
        let end = self.client.as_ref().and_then(|(_, client)| client.station(ip))?;
        Some(Way { circuit: self.index.of_number(end.number)?, resolved: true })
    }

    /// Whether there is such a circuit.
    pub fn has_circuit(&self, circuit: u32) -> bool {
        self.circuits.contains_key(&circuit)
    }

    /// How many circuits there are.
    pub fn circuit_count(&self) -> usize {
        self.circuits.len()
    }

    /// On how many circuits somebody's address is known.
    pub fn known_circuits(&self) -> usize {
        let Some(server) = &self.server else { return self.index.addresses.len() };
        let by_user = self.index.addresses.iter().filter(|(_, circuit)| server.addresses(*circuit).next().is_none());
        server.known_circuits() + by_user.count()
    }

    /// Who is known to be where. It goes through all tables, for reports.
    pub fn peers(&self) -> impl Iterator<Item = (u32, Option<Ipv4Addr>)> + '_ {
        self.circuits.iter().map(|(circuit, state)| {
            let said = state.inverse.peer().and_then(|peer| peer.ip);
            let entered = self.server.iter().flat_map(|server| server.addresses(*circuit));
            let known = self.client.iter().flat_map(|(_, client)| client.known()).map(|(ip, _)| ip);
            let leads_here = |ip: &Ipv4Addr| self.way(*ip).is_some_and(|way| way.circuit == *circuit);
            (*circuit, said.into_iter().chain(entered).chain(known).find(leads_here))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{A, B, interface, packet, poll};
    use super::super::{Config, Verdict};
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;
    use wire::atmarp::{End, Operation, Packet};
    use wire::llc::{ARP, Protocol, ROUTED_OCTETS};

    fn number(n: u8) -> AtmAddress {
        AtmAddress::new(&[n; 20], false).unwrap()
    }

    fn end(n: u8, ip: Ipv4Addr) -> End {
        End { number: if n == 0 { AtmAddress::NONE } else { number(n) }, ip: Some(ip), ..End::default() }
    }

    fn sdu(operation: Operation, sender: End, target: End) -> Vec<u8> {
        let packet = Packet { operation, sender, target };
        let mut sdu = vec![0; ROUTED_OCTETS + packet.buffer_len()];
        Protocol::Routed(ARP).emit(&mut sdu);
        packet.emit(&mut sdu[ROUTED_OCTETS..]);
        sdu
    }

    fn say(i: &mut IpInterface, circuit: u32, sdu: &[u8]) {
        assert_eq!(i.handle_pdu(circuit, sdu, Time::ZERO), None);
        while poll(i).is_some() {}
    }

    fn thread_time() -> Duration {
        let at = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(at.tv_sec as u64, at.tv_nsec as u32)
    }

    #[test]
    fn what_comes_to_a_server_costs_little_however_many_stations_it_knows() {
        const STATIONS: u32 = 4096;
        let address = |n: u32| Ipv4Addr::from(0x0a01_0000 + n);
        let mut server = interface(A);
        server.serve(STATIONS as usize, Time::ZERO);
        (0..40).for_each(|circuit| server.add_circuit(circuit, None, Time::ZERO));
        let asks = |n: u32| sdu(Operation::Request, end(0, address(n)), end(0, address(n)));
        // Circuits 0 to 31 have all places.
        (0..STATIONS).for_each(|n| say(&mut server, n % 32, &asks(n)));
        assert_eq!(server.server().unwrap().entries().count(), STATIONS as usize);
        let senseless = sdu(Operation::Reply, end(0, address(1)), end(0, address(2)));
        let (refresh, new) = (asks(32), asks(STATIONS));
        let data = [&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0][..], &packet(A, 40)].concat();
        let begin = thread_time();
        for n in 0..10_000 {
            match n % 5 {
                0 => say(&mut server, 0, &senseless),
                1 => say(&mut server, 0, &refresh),
                // No room: all have the same.
                2 => say(&mut server, 1, &new),
                3 => assert!(server.handle_pdu(39, &data, Time::ZERO).is_some()),
                _ => assert_eq!((server.known_circuits(), server.has_circuit(39)), (32, true)),
            }
        }
        let took = thread_time() - begin;
        assert!(took < Duration::from_millis(200), "{took:?}");
        // Another circuit gets its share of a table that is full.
        say(&mut server, 38, &new);
        assert!(server.route(&packet(address(STATIONS), 40), Time::ZERO) == Verdict::To(38));
    }

    #[test]
    fn over_calls_a_station_is_where_the_server_and_the_network_say_and_not_where_a_packet_says() {
        let now = Time::ZERO;
        let (server, victim, eve) = (number(9), number(2), number(5));
        let mut a = IpInterface::new(Config { number: number(1), ..Config::new(A) });
        a.set_switched(true, now);
        let call = |a: &mut IpInterface, circuit, number| {
            a.add_circuit(circuit, None, now);
            a.set_number(circuit, number);
        };
        call(&mut a, 0, server);
        a.set_server_circuit(Some(0), now);
        call(&mut a, 3, eve);
        call(&mut a, 4, AtmAddress::NONE);
        let claims = |a: &mut IpInterface| {
            say(a, 3, &sdu(Operation::InverseRequest, end(5, B), end(1, A)));
            say(a, 4, &sdu(Operation::InverseRequest, end(2, B), end(1, A)));
        };
        claims(&mut a);
        assert_eq!(a.route(&packet(B, 40), now), Verdict::Waits(B), "nobody who has to know has named B's station");
        say(&mut a, 0, &sdu(Operation::Reply, end(2, B), end(1, A)));
        claims(&mut a);
        assert_eq!(a.route(&packet(B, 40), now), Verdict::Waits(B), "no circuit leads there");
        assert_eq!(a.poll_wanted().map(|end| end.number), Some(victim));
        call(&mut a, 7, victim);
        claims(&mut a);
        assert_eq!(a.route(&packet(B, 40), now), Verdict::To(7));
    }

    fn arp() -> impl Strategy<Value = Vec<u8>> {
        (0usize..5, 0u8..4, 1u8..5, 1u8..5).prop_map(|(operation, number, from, to)| {
            use Operation::*;
            let at = |n| Ipv4Addr::new(10, 0, 0, n);
            sdu([Request, Reply, InverseRequest, InverseReply, Nak][operation], end(number, at(from)), end(0, at(to)))
        })
    }

    proptest! {
        #[test]
        fn circuits_are_found_by_what_is_known_of_them_after_each_step(
            steps in proptest::collection::vec((0u32..4, arp(), 0u8..10, 0u64..200), 1..100),
            kind in 0u8..4,
        ) {
            let mut now = Time::ZERO;
            let mut i = IpInterface::new(Config { number: number(1), ..Config::new(A) });
            match kind {
                0 => i.serve(3, now),
                1 => i.use_server(0, now),
                2 => i.set_switched(true, now),
                _ => {}
            }
            for (circuit, sdu, what, wait) in steps {
                now += Duration::from_secs(wait);
                match what {
                    0 => i.add_circuit(circuit, Some(B).filter(|_| wait % 2 == 0), now),
                    1 => i.remove_circuit(circuit),
                    2 => i.set_number(circuit, number(wait as u8 % 4)),
                    3 => i.handle_timeout(now),
                    4 => drop(poll(&mut i)),
                    5 => drop(i.route(&packet(Ipv4Addr::new(10, 0, 0, circuit as u8), 40), now)),
                    _ => drop(i.handle_pdu(circuit, &sdu, now)),
                }
                let kept = std::mem::take(&mut i.index);
                i.index_anew();
                prop_assert_eq!(&kept, &i.index);
                let known = i.peers().filter(|(_, peer)| peer.is_some()).count();
                prop_assert!(kind != 0 || i.known_circuits() >= known);
            }
        }
    }
}
