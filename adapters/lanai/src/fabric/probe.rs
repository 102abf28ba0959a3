//! What a mapper asks, and the messages for it.
//!
//! A message is made when it is sent: a mapper asks about all ports of a switch at once, and before the hosts of a
//! network have heard of each other all of them map, in one moment.

use super::routes::{MapPort, Routes};
use crate::packet::mapping::{Address, Body, Entries, Message, emit_entry, entry_octets};
use crate::packet::{MAX_HOPS, MAX_PAYLOAD_OCTETS, Turn, reversed};
use core::ops::Deref;

/// A message to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transmit {
    /// Its route.
    pub route: Vec<Turn>,
    /// The payload of a packet of type mapping.
    pub payload: Vec<u8>,
}

impl Transmit {
    pub(super) fn new(route: Vec<Turn>, message: &Message<'_>) -> Self {
        let mut payload = vec![0; message.buffer_len()];
        message.emit(&mut payload);
        Transmit { route, payload }
    }
}

/// A route of at most [`MAX_HOPS`] turns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Path {
    hops: u8,
    turns: [Turn; MAX_HOPS],
}

impl Deref for Path {
    type Target = [Turn];

    fn deref(&self) -> &[Turn] {
        &self.turns[..usize::from(self.hops)]
    }
}

impl Path {
    /// These turns after its own; `None` if there are too many.
    pub(super) fn and(mut self, turns: &[Turn]) -> Option<Self> {
        let hops = usize::from(self.hops);
        self.turns.get_mut(hops..hops + turns.len())?.copy_from_slice(turns);
        self.hops += turns.len() as u8;
        Some(self)
    }

    /// The way back.
    pub(super) fn back(&self) -> Self {
        let mut back = Path { hops: self.hops, turns: [Turn::default(); MAX_HOPS] };
        reversed(self, &mut back.turns);
        back
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Question {
    /// Whether a host is at the end of a path.
    Scout(Path),
    /// Whether what goes along a path comes back.
    Loop(Path),
    /// Whether a host has its routes.
    Routes(Address),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Probe {
    pub(super) question: Question,
    /// The port that is asked about; in a comparison the port that it would be.
    pub(super) port: MapPort,
    /// An answer is expected.
    pub(super) known: bool,
    pub(super) answer: Option<Address>,
}

impl Probe {
    pub(super) fn new(question: Question, port: MapPort) -> Self {
        Probe { question, port, known: false, answer: None }
    }

    /// Its message, from `from`, as number `number`.
    pub(super) fn transmit(&self, from: Address, number: u64, routes: &Routes) -> Option<Transmit> {
        match self.question {
            Question::Scout(there) => {
                let back = octets(&there.back());
                Some(Transmit::new(there.to_vec(), &Message { from, number, body: Body::Scout { back: &back } }))
            }
            Question::Loop(path) => Some(Transmit::new(path.to_vec(), &Message { from, number, body: Body::Loop })),
            Question::Routes(to) => {
                let entries = entries(to, routes);
                let entries = Entries::new_checked(&entries).ok()?;
                let back = octets(routes.route(to, from).unwrap_or_default());
                let message = Message { from, number, body: Body::Routes { back: &back, entries } };
                Some(Transmit::new(routes.route(from, to)?.to_vec(), &message))
            }
        }
    }
}

fn octets(route: &[Turn]) -> Vec<u8> {
    route.iter().map(|turn| turn.octet()).collect()
}

/// The routes of a host, as many as a message holds.
fn entries(of: Address, routes: &Routes) -> Vec<u8> {
    let mut entries = Vec::new();
    for (to, route) in routes.of(of) {
        let at = entries.len();
        if at + entry_octets(route.len()) > MAX_PAYLOAD_OCTETS - 64 {
            break;
        }
        entries.resize(at + entry_octets(route.len()), 0);
        emit_entry(to, &octets(route), &mut entries[at..]);
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::routes::Map;

    fn path(ports: &[i8]) -> Path {
        let turns: Vec<Turn> = ports.iter().map(|n| Turn::new(*n).unwrap()).collect();
        Path::default().and(&turns).unwrap()
    }

    #[test]
    fn a_path_has_as_many_turns_as_a_packet_and_no_more() {
        let longest = path(&[1; MAX_HOPS]);
        assert_eq!((longest.len(), longest.and(&[]).map(|path| path.len())), (MAX_HOPS, Some(MAX_HOPS)));
        assert!(longest.and(&[Turn::default()]).is_none());
        let there = path(&[1, -2]).and(&path(&[3])).unwrap();
        assert_eq!((there[..] == path(&[1, -2, 3])[..], there.back()[..] == path(&[-3, 2, -1])[..]), (true, true));
    }

    #[test]
    fn a_scout_has_its_way_back_in_it() {
        let probe = Probe::new(Question::Scout(path(&[1, -2])), (0, 0));
        let Transmit { route, payload } = probe.transmit(7, 9, &Routes::default()).unwrap();
        let back = octets(&path(&[2, -1]));
        assert_eq!(route, path(&[1, -2]).to_vec());
        let message = Message::parse(&payload).unwrap();
        assert_eq!(message, Message { from: 7, number: 9, body: Body::Scout { back: &back } });
    }

    #[test]
    fn a_host_is_told_its_routes_and_the_way_back_to_who_says_so() {
        let hosts = [(5, 0), (6, 3), (7, 4)].map(|(address, port)| (address, Some((0, port))));
        let routes = Map { switches: 1, hosts: hosts.to_vec(), cables: Vec::new() }.routes();
        let Transmit { route, payload } = Probe::new(Question::Routes(6), (0, 0)).transmit(7, 1, &routes).unwrap();
        assert_eq!(route, path(&[-1]).to_vec());
        let Body::Routes { back, entries } = Message::parse(&payload).unwrap().body else { panic!("{payload:?}") };
        assert_eq!(back, octets(&path(&[1])));
        let told: Vec<_> = entries.iter().map(|(to, route)| (to, route.to_vec())).collect();
        assert_eq!(told, [(5, octets(&path(&[-3]))), (7, octets(&path(&[1])))]);
        assert!(Probe::new(Question::Routes(8), (0, 0)).transmit(7, 1, &routes).is_none(), "a host that is not there");
    }

    #[test]
    fn routes_that_a_message_has_no_room_for_are_left_out_whole() {
        let hosts = (0..1700).map(|n| (n, Some((0, n as i32 % 16)))).collect();
        let told = entries(3, &Map { switches: 1, hosts, cables: Vec::new() }.routes());
        let count = Entries::new_checked(&told).unwrap().iter().count();
        let one = entry_octets(1);
        assert_eq!((told.len(), count), (count * one, (MAX_PAYLOAD_OCTETS - 64) / one));
    }
}
