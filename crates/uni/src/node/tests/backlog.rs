//! A peer that asks without end and takes no answers, at a switch whose other ports are in use.

use super::*;
use wire::q2931::{Builder, CallReference, MessageType, RestartClass};
use wire::sscop::{Pdu, Sequence, StatList};

/// The neighbour's port.
const ATTACKED: usize = 2;
const MAX_CALLS: usize = 64;
/// As many as [`crate::call`] lets wait, and SSCOP's.
const BOUND: usize = MAX_CALLS + 1024;
const BACKLOG: usize = 256;

/// Two hosts at a switch, and a neighbour whose PDUs the test makes.
struct Attacked {
    net: Simulation,
    book: Book,
    /// N(S) of the neighbour's next SD.
    number: Sequence,
}

impl Attacked {
    fn new() -> Self {
        let mut neighbour = port(Side::User, Version::Iisp, Vec::new());
        neighbour.call.max_calls = MAX_CALLS;
        let user = |n| port(Side::Network, Version::Uni31, vec![address(0, n)]);
        let node = Node::new(vec![user(0), user(1), neighbour]);
        let hosts =
            (0..2).map(|_| Port::new(Config { labels: (0, 32, 531), ..Config::new(Side::User, Version::Uni31) }));
        let mut net = Simulation::new(hosts.collect(), vec![node]);
        for n in 0..2 {
            net.join(WireEnd::Host(n), WireEnd::Switch(0, n), DELAY);
        }
        net.start();
        net.run_for(Duration::from_secs(3));
        let mut attacked = Attacked { net, book: Book::default(), number: Sequence::ZERO };
        attacked.begin(1);
        attacked
    }

    /// BGN that grants no window.
    fn begin(&mut self, sq: u8) {
        self.number = Sequence::ZERO;
        self.send(Pdu::Begin { sq, mr: Sequence::ZERO, uu: &[] });
    }

    /// The switch takes a PDU, and each of its POLLs is answered: nothing arrived, and nothing may be sent.
    fn send(&mut self, pdu: Pdu<'_>) {
        let mut octets = vec![0; pdu.buffer_len()];
        pdu.emit(&mut octets);
        let now = self.net.now();
        self.net.switch_mut(0).handle_pdu(ATTACKED, &octets, now);
        while let Some(octets) = self.net.switch_mut(0).poll_transmit(ATTACKED, now) {
            if let Ok(Pdu::Poll { ps, .. }) = Pdu::parse(&octets) {
                let answer = Pdu::Stat { r: Sequence::ZERO, mr: Sequence::ZERO, ps, list: StatList::new(&[]) };
                let mut octets = vec![0; answer.buffer_len()];
                answer.emit(&mut octets);
                self.net.switch_mut(0).handle_pdu(ATTACKED, &octets, now);
            }
        }
    }

    fn ask(&mut self, reference: CallReference, kind: MessageType, elements: &[Element]) {
        let mut octets = vec![0; 64];
        let mut builder = Builder::new(&mut octets, reference, kind);
        elements.iter().for_each(|element| assert!(builder.push(element)));
        let n = builder.finish();
        let number = self.number;
        self.number = number.plus(1);
        self.send(Pdu::Data { s: number, data: &octets[..n] });
    }

    fn calls(&self) -> &crate::call::Calls {
        self.net.switch(0).port(ATTACKED).unwrap().calls()
    }

    /// A call from host 0 to host 1 is answered and released.
    fn assert_others_call(&mut self) {
        let id = call(&mut self.net, 0, address(0, 1), cbr(1));
        self.book.serve(&mut self.net, Duration::from_millis(50));
        assert!(self.book.up.contains(&(0, id)));
        let now = self.net.now();
        self.net.host_mut(0).calls_mut().release(id, Cause::new(Location::USER, CauseValue::NORMAL), now).unwrap();
        self.net.flush(0);
        self.book.serve(&mut self.net, Duration::from_millis(50));
        assert_eq!(self.net.switch(0).len(), 0);
    }
}

#[test]
fn enquiries_of_a_peer_that_grants_no_window_keep_a_bounded_queue_and_others_can_call() {
    let mut attacked = Attacked::new();
    let asked = 5000;
    for i in 0..asked {
        attacked.ask(CallReference::from_originator(7), MessageType::STATUS_ENQUIRY, &[]);
        assert!(attacked.calls().waiting() <= BOUND, "{} messages wait", attacked.calls().waiting());
        if i % 1000 == 0 {
            attacked.assert_others_call();
        }
    }
    assert_eq!(attacked.calls().counts().unsent, (asked - BOUND - BACKLOG) as u64);
    assert!(attacked.net.switch(0).port(ATTACKED).unwrap().is_up(), "the link stays for those that can be dropped");
    // What can be dropped does not pile up by beginning anew either.
    for sq in 0..200 {
        attacked.begin(sq);
        assert!(attacked.calls().waiting() <= BOUND);
    }
    attacked.assert_others_call();
}

#[test]
fn a_peer_that_takes_no_acknowledgements_loses_its_link_and_can_establish_it_anew() {
    let mut attacked = Attacked::new();
    let up = |attacked: &Attacked| attacked.net.switch(0).port(ATTACKED).unwrap().is_up();
    let global = CallReference::from_originator(CallReference::GLOBAL);
    let mut asked = 0;
    while up(&attacked) {
        attacked.ask(global, MessageType::RESTART, &[Element::Restart(RestartClass::All)]);
        asked += 1;
        assert!(attacked.calls().waiting() <= 4 * BOUND, "{} messages wait", attacked.calls().waiting());
        assert!(asked <= 4 * BOUND + BACKLOG + 1);
    }
    assert_eq!((attacked.calls().waiting(), attacked.calls().counts().unsent), (0, 4 * BOUND as u64 + 1));
    attacked.assert_others_call();
    attacked.begin(9);
    assert!(up(&attacked));
}
