//! tshark reads what two clients of an emulated LAN, its LES and its BUS say to each other: all calls are answered and all
//! frames arrive at once.

use interop::have;
use interop::tshark::{self, SunAtm};
use stack::lane::{Action, Client, Config, Link, Server, Service, Unknown};
use std::io::Write as _;
use wire::Time;
use wire::aesa::Aesa;
use wire::q2931::Octets;

const LES: usize = 0;
const BUS: usize = 1;

fn address(node: usize) -> Aesa {
    Aesa::new([0x47; 13], [2, 0, 0, 0, 0, node as u8], 0)
}

type End = (usize, Link);

struct Lan {
    les: Server,
    bus: Unknown,
    clients: [Client; 2],
    /// Root, leaf, what for, and whether the root's call is point-to-multipoint and has a leaf already.
    legs: Vec<(End, End, Service, bool)>,
    said: Vec<Vec<u8>>,
    heard: Vec<(usize, Vec<u8>)>,
}

impl Lan {
    fn call(&mut self, root: End, to: Aesa, service: Service, is_party: bool) {
        let node = (0..4).find(|node| address(*node) == to).expect("a station of this LAN");
        let leaf = (node, Link::Taken(self.legs.len() as u64));
        self.legs.push((root, leaf, service, is_party));
        let (link, from) = (leaf.1, Some(address(root.0)));
        match node {
            LES => self.les.handle_incoming(link, from, service, Time::ZERO),
            BUS => self.bus.handle_incoming(link, from, service),
            client => self.clients[client - 2].handle_incoming(link, from, service, Time::ZERO),
        }
    }

    fn up(&mut self, (node, link): End) {
        match node {
            LES => self.les.handle_up(link),
            BUS => self.bus.handle_up(link),
            client => self.clients[client - 2].handle_up(link, Time::ZERO),
        }
    }

    fn carry_out(&mut self, node: usize, action: Action) {
        match action {
            Action::Call { link, to, service, .. } => self.call((node, link), to, service, false),
            Action::AddParty { link, to } => {
                let (_, _, service, _) = *self.legs.iter().find(|leg| leg.0 == (node, link)).unwrap();
                self.call((node, link), to, service, true);
            }
            Action::Answer(link) => {
                let (root, leaf, _, is_party) = *self.legs.iter().find(|leg| leg.1 == (node, link)).unwrap();
                self.up(leaf);
                match root.0 {
                    LES if is_party => self.les.handle_party(root.1, address(node), true),
                    BUS if is_party => self.bus.handle_party(root.1, address(node), true),
                    _ => self.up(root),
                }
            }
            other => panic!("{node} wants {other:?}"),
        }
    }

    fn transmit(&mut self, from: End, octets: &[u8]) {
        self.said.push(octets.to_vec());
        let legs = self.legs.iter();
        let far: Vec<End> = legs
            .filter_map(
                |(root, leaf, ..)| {
                    if *root == from { Some(*leaf) } else { Some(*root).filter(|_| *leaf == from) }
                },
            )
            .collect();
        for (node, link) in far {
            match node {
                LES => self.les.handle_frame(link, octets),
                BUS => self.bus.handle_frame(link, octets),
                client => {
                    let frame = self.clients[client - 2].handle_frame(link, octets, Time::ZERO);
                    self.heard.extend(frame.map(|frame| (client, frame.to_vec())));
                }
            }
        }
    }

    fn settle(&mut self) {
        self.clients.iter_mut().for_each(|client| client.handle_timeout(Time::ZERO));
        loop {
            let mut any = false;
            for node in 0..4 {
                let (action, frame) = match node {
                    LES => (self.les.poll(), self.les.poll_frame()),
                    BUS => (self.bus.poll(), self.bus.poll_frame()),
                    client => (self.clients[client - 2].poll(), self.clients[client - 2].poll_frame()),
                };
                any |= action.is_some() || frame.is_some();
                if let Some(action) = action {
                    self.carry_out(node, action);
                }
                if let Some((link, octets)) = frame {
                    self.transmit((node, link), &octets);
                }
            }
            if !any {
                return;
            }
        }
    }
}

/// An IPv4 packet without data, in an Ethernet frame.
fn frame() -> Vec<u8> {
    let packet = [0x45, 0, 0, 20, 0, 0, 0, 0, 64, 1, 0x66, 0xe7, 10, 0, 0, 1, 10, 0, 0, 2];
    [&address(3).esi()[..], &address(2).esi(), &[8, 0], &packet].concat()
}

#[test]
fn tshark_reads_a_conversation_of_our_emulated_lan() {
    if !have(tshark::TOOLS) {
        return;
    }
    let name = Octets::new(b"lab").unwrap();
    let client = |node: usize| {
        let (own, mac) = (address(node), address(node).esi());
        Client::new(Config { own, mac, name, configuration: address(9), server: Some(address(LES)) })
    };
    let mut lan = Lan {
        les: Server::new(name, address(BUS), 4),
        bus: Unknown::new(4),
        clients: [client(2), client(3)],
        legs: Vec::new(),
        said: Vec::new(),
        heard: Vec::new(),
    };
    lan.settle();
    assert!(lan.clients.iter().all(Client::is_up));
    lan.clients[0].send(&frame(), Time::ZERO);
    lan.settle();
    lan.clients[0].send(&frame(), Time::ZERO);
    lan.settle();
    assert_eq!(lan.clients[0].direct().collect::<Vec<_>>(), [address(3).esi()]);
    assert_eq!(lan.heard.len(), 2);
    assert!(lan.heard.iter().all(|(node, heard)| *node == 3 && heard[..34] == frame() && heard.len() == 60));

    let circuit = "0.100".parse().unwrap();
    let records: Vec<_> = lan.said.into_iter().map(|octets| (true, circuit, octets)).collect();
    let mut file = tempfile::Builder::new().suffix(".pcap").tempfile().unwrap();
    file.write_all(&tshark::sunatm(SunAtm::Lane, &records)).unwrap();
    let text = tshark::decode(file.path(), "frame").unwrap();
    let count = |line: &str| text.lines().filter(|said| said.trim().starts_with(line)).count();
    // Both join and ask for the BUS; one asks for the other, calls it and flushes the way by the BUS.
    for (line, expected) in [
        ("Opcode: LE_JOIN_REQUEST", 2),
        ("Opcode: LE_JOIN_RESPONSE", 2),
        ("Opcode: LE_ARP_REQUEST", 3),
        ("Opcode: LE_ARP_RESPONSE", 3),
        ("Opcode: READY_IND", 1),
        // To the BUS, and from it; the answer to the LES, and from it.
        ("Opcode: LE_FLUSH_REQUEST", 2),
        ("Opcode: LE_FLUSH_RESPONSE", 2),
        // To the BUS, from it, and by the call.
        ("LE Client: 0x0001", 3),
        ("Ethernet II, Src: 02:00:00:00:00:02", 3),
        ("Internet Protocol Version 4, Src: 10.0.0.1, Dst: 10.0.0.2", 3),
    ] {
        assert_eq!(count(line), expected, "{line} in:\n{text}");
    }
    assert!(!text.contains("Malformed"), "{text}");
}
