//! SDUs that are read where their sender has them, on real sockets and shared memory: a sender that lends, a receiver that borrows.

use crate::lan::{Lan, circuit};
use endpoint::control::Refusal;
use endpoint::{
    Aal, ChannelId, Connection, DataPath, Direction, Endpoint, EndpointConfig, Error, Events, Geometry, Guarantee,
    OpenOptions, SendError,
};
use host::CircuitConfig;
use host::service::Everybody;
use net::Carries;
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use traffic::{Contract, Flow};
use wire::DropReason;

const TIMEOUT: Option<Duration> = Some(Duration::from_secs(10));
/// Best effort, and with credits.
const CIRCUITS: [u16; 2] = [100, 101];
const SENDING: OpenOptions = OpenOptions { aal: Aal::Aal5, direction: Direction::Send, reliable: false };
const RECEIVING: OpenOptions = OpenOptions { aal: Aal::Aal5, direction: Direction::Receive, reliable: false };

fn lan() -> Lan {
    Lan::two_hosts(Carries::Cells, Everybody, |host| {
        host.add_circuit(circuit(CIRCUITS[0]), CircuitConfig::default());
        let contract = Contract { flow: Flow::Credit, ..Contract::default() };
        host.add_circuit(circuit(CIRCUITS[1]), CircuitConfig { contract, ..CircuitConfig::default() });
    })
}

impl Lan {
    fn endpoint_of(&self, host: &str, buffers: u32) -> Endpoint {
        let geometry = Geometry { buffers, ..Geometry::default() };
        let config =
            EndpointConfig { host: host.into(), geometry, events: Events::Interrupt, ..EndpointConfig::default() };
        Endpoint::create(&self.socket, &config).unwrap()
    }

    /// An endpoint of alpha's that lends half of `buffers` buffers.
    fn lender(&self, vci: u16, buffers: u32) -> (Endpoint, ChannelId) {
        let mut endpoint = self.endpoint_of("alpha", buffers);
        endpoint.lend().unwrap();
        let channel = endpoint.open(circuit(vci), SENDING).unwrap();
        (endpoint, channel)
    }

    /// One of beta's that borrows.
    fn borrower(&self, vci: u16) -> (Endpoint, ChannelId) {
        let mut endpoint = self.endpoint_of("beta", 64);
        let channel = endpoint.open(circuit(vci), RECEIVING).unwrap();
        endpoint.borrow(channel).unwrap();
        (endpoint, channel)
    }

    /// Each PDU was counted once, at both hosts.
    fn check(&self) {
        self.engine
            .with(|core| {
                for name in ["alpha", "beta"] {
                    assert_eq!(core.host(name).unwrap().1.mismatch(), None, "{name}");
                }
            })
            .unwrap();
    }

    /// Of what beta's endpoints have received.
    fn dropped(&self, reason: DropReason) -> u64 {
        self.engine
            .with(move |core| {
                let host = core.host("beta").unwrap().1;
                host.endpoints().iter().map(|status| status.received.dropped(reason)).sum()
            })
            .unwrap()
    }
}

fn pattern(octets: usize, seed: usize) -> Vec<u8> {
    (0..octets).map(|i| (i * 131 + seed * 17 + (i >> 8)) as u8).collect()
}

fn send(endpoint: &mut Endpoint, channel: ChannelId, sdu: &[u8]) {
    loop {
        match endpoint.send_copy(channel, sdu) {
            Ok(()) => return,
            Err(SendError::Full) => assert!(endpoint.wait_send(TIMEOUT).unwrap(), "room"),
            Err(e) => panic!("{e}"),
        }
    }
}

#[test]
fn sdus_of_every_size_are_read_where_the_sender_has_them_and_all_buffers_come_back() {
    let lan = lan();
    for vci in CIRCUITS {
        let (mut a, to_b) = lan.lender(vci, 16);
        let (mut b, at_b) = lan.borrower(vci);
        for n in 0..200 {
            let octets = [1, 40, 41, 48, 1500, 9188, 65_535][n % 7];
            let sdu = pattern(octets, n);
            send(&mut a, to_b, &sdu);
            let got = b.receive_shared(TIMEOUT).unwrap().expect("an SDU");
            let guarantee = if octets <= 40 { Guarantee::Private } else { Guarantee::MayChange };
            assert_eq!(
                (got.channel(), got.len(), got.guarantee()),
                (at_b, octets, guarantee),
                "circuit {vci}, SDU {n}"
            );
            assert!(got.to_vec() == sdu, "circuit {vci}, SDU {n}");
        }
    }
    lan.check();
}

#[test]
fn many_sdus_at_once_arrive_in_order_through_few_buffers() {
    let lan = lan();
    for vci in CIRCUITS {
        let (mut a, to_b) = lan.lender(vci, 16);
        let (mut b, _) = lan.borrower(vci);
        std::thread::scope(|scope| {
            scope.spawn(|| (0..5000).for_each(|n| send(&mut a, to_b, &pattern(500 + n % 3000, n))));
            let mut n = 0;
            while n < 5000 {
                let some = b
                    .receive_shared_each(TIMEOUT, |got| {
                        assert!(got.to_vec() == pattern(500 + n % 3000, n), "circuit {vci}, SDU {n}");
                        n += 1;
                        if n < 5000 { std::ops::ControlFlow::Continue(()) } else { std::ops::ControlFlow::Break(()) }
                    })
                    .unwrap();
                assert!(some > 0, "no SDU {n} in ten seconds");
            }
        });
    }
    lan.check();
}

#[test]
fn who_receives_as_ever_gets_a_copy_and_the_sender_its_buffers() {
    let lan = lan();
    let (mut a, to_b) = lan.lender(CIRCUITS[1], 8);
    let (mut b, _) = lan.borrower(CIRCUITS[1]);
    for n in 0..50 {
        send(&mut a, to_b, &pattern(5000, n));
        let got = b.receive(TIMEOUT).unwrap().expect("an SDU");
        assert!(got[..] == pattern(5000, n)[..], "SDU {n}");
    }
}

#[test]
fn sdus_are_copied_unless_both_sides_agree() {
    let lan = lan();
    let vci = CIRCUITS[1];
    for (lends, borrows) in [(true, false), (false, true)] {
        let mut a = lan.endpoint_of("alpha", 64);
        if lends {
            a.lend().unwrap();
        }
        let to_b = a.open(circuit(vci), SENDING).unwrap();
        let mut b = lan.endpoint_of("beta", 64);
        let at_b = b.open(circuit(vci), RECEIVING).unwrap();
        if borrows {
            b.borrow(at_b).unwrap();
        }
        send(&mut a, to_b, &pattern(5000, 1));
        let got = b.receive_shared(TIMEOUT).unwrap().expect("an SDU");
        assert_eq!(got.guarantee(), Guarantee::Private, "lends {lends}, borrows {borrows}");
        assert!(got.to_vec() == pattern(5000, 1));
    }
}

#[test]
fn a_receiver_that_keeps_sdus_keeps_buffers_of_its_sender_until_it_ends() {
    let lan = lan();
    let (mut a, to_b) = lan.lender(CIRCUITS[1], 8);
    let (b, _) = lan.borrower(CIRCUITS[1]);
    (0..4).for_each(|n| send(&mut a, to_b, &pattern(5000, n)));
    assert!(!a.wait_send(Some(Duration::from_millis(200))).unwrap(), "all four buffers are out");
    drop(b);
    assert!(a.wait_send(TIMEOUT).unwrap(), "they have come back");
}

#[test]
fn no_more_is_lent_than_comes_back_by_the_free_ring_and_the_rest_is_copied() {
    let lan = lan();
    let (mut a, to_b) = lan.lender(CIRCUITS[1], 16);
    let geometry = Geometry { free_ring: 4, buffers: 64, ..Geometry::default() };
    let config = EndpointConfig { host: "beta".into(), geometry, ..EndpointConfig::default() };
    let mut b = Endpoint::create(&lan.socket, &config).unwrap();
    let at_b = b.open(circuit(CIRCUITS[1]), RECEIVING).unwrap();
    b.borrow(at_b).unwrap();
    for n in 1..=8 {
        send(&mut a, to_b, &pattern(5000, n));
        let begun = Instant::now();
        while lan.received("beta", CIRCUITS[1]).pdus < n as u64 {
            assert!(begun.elapsed() < Duration::from_secs(5), "SDU {n} is not delivered");
            std::thread::sleep(Duration::from_micros(100));
        }
    }
    let receive = |b: &mut Endpoint, n: usize| {
        let got = b.receive_shared(TIMEOUT).unwrap().expect("an SDU");
        assert!(got.to_vec() == pattern(5000, n));
        got.guarantee()
    };
    for n in 1..=8 {
        let guarantee = if n <= 4 { Guarantee::MayChange } else { Guarantee::Private };
        assert_eq!(receive(&mut b, n), guarantee, "SDU {n}");
    }
    // All eight buffers of the sender come back, those of copies too. One for which the free ring had no place goes when
    // the borrower looks for more.
    for n in 9..=24 {
        let begun = Instant::now();
        while let Err(e) = a.send_copy(to_b, &pattern(5000, n)) {
            assert!(matches!(e, SendError::Full) && begun.elapsed() < Duration::from_secs(10), "SDU {n}: {e}");
            assert!(b.try_receive_shared().unwrap().is_none());
            std::thread::yield_now();
        }
        receive(&mut b, n);
    }
    lan.check();
}

#[test]
fn what_a_sender_that_has_ended_has_lent_can_still_be_read_and_the_next_sender_lends_anew() {
    let lan = lan();
    let (mut b, _) = lan.borrower(CIRCUITS[1]);
    for round in 0..5 {
        let (mut a, to_b) = lan.lender(CIRCUITS[1], 8);
        send(&mut a, to_b, &pattern(5000, round));
        let got = b.receive_shared(TIMEOUT).unwrap().expect("an SDU");
        drop(a);
        let begun = Instant::now();
        while lan.engine.with(|core| core.host("alpha").unwrap().1.endpoints().len()).unwrap() > 0 {
            assert!(begun.elapsed() < Duration::from_secs(5), "the sender's endpoint waits for what is out");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(got.guarantee(), Guarantee::MayChange);
        assert!(got.to_vec() == pattern(5000, round), "the borrower's own mapping is still there");
    }
    assert_eq!(lan.dropped(DropReason::BadDescriptor), 0, "what comes back late is no mistake");
    lan.check();
}

#[test]
fn memory_is_lent_to_one_receiver_and_the_next_one_of_the_circuit_gets_copies() {
    let lan = lan();
    let (mut a, to_b) = lan.lender(CIRCUITS[1], 8);
    for expected in [Guarantee::MayChange, Guarantee::Private] {
        let (mut b, _) = lan.borrower(CIRCUITS[1]);
        send(&mut a, to_b, &pattern(5000, 3));
        let got = b.receive_shared(TIMEOUT).unwrap().expect("an SDU");
        assert_eq!(got.guarantee(), expected);
        assert!(got.to_vec() == pattern(5000, 3));
    }
}

#[test]
fn a_lender_has_one_channel_for_sending_and_says_so_before_it_opens_it() {
    let lan = lan();
    let [one, other] = CIRCUITS.map(circuit);
    let refused = |asked: Result<(), Error>| match asked {
        Err(Error::Refused { kind, .. }) => assert_eq!(kind, Refusal::Invalid),
        asked => panic!("{asked:?}"),
    };
    let mut a = lan.endpoint_of("alpha", 8);
    a.lend().unwrap();
    refused(a.open(one, OpenOptions::default()).map(drop));
    refused(a.open(one, RECEIVING).map(drop));
    refused(a.open(one, OpenOptions { aal: Aal::Aal0, ..SENDING }).map(drop));
    let channel = a.open(one, SENDING).unwrap();
    refused(a.open(other, SENDING).map(drop));
    a.close(channel).unwrap();
    refused(a.open(one, SENDING).map(drop));

    let mut late = lan.endpoint_of("alpha", 8);
    late.open(one, SENDING).unwrap();
    refused(late.lend());
    let copying = EndpointConfig { host: "alpha".into(), path: DataPath::Copying, ..EndpointConfig::default() };
    refused(Endpoint::create(&lan.socket, &copying).unwrap().lend());

    let mut b = lan.endpoint_of("beta", 8);
    refused(b.borrow(ChannelId(7)));
    let bare = b.open(other, OpenOptions { aal: Aal::Aal0, ..RECEIVING }).unwrap();
    refused(b.borrow(bare));
    assert!(Connection::open(&lan.socket).unwrap().has(endpoint::negotiate::LEND));
}

#[test]
fn sdus_become_cells_where_somebody_looks_and_are_copied_then() {
    let lan = lan();
    let (mut a, to_b) = lan.lender(CIRCUITS[1], 16);
    let (mut b, _) = lan.borrower(CIRCUITS[1]);
    let mut sent = VecDeque::new();
    let mut guarantees = Vec::new();
    for round in 0..3 {
        let tap = (round == 1).then(net::TapConfig::default);
        lan.engine
            .with(move |core| {
                let link = core.network.links().next().unwrap().id;
                assert!(core.network.set_tap(link, tap));
            })
            .unwrap();
        for n in 0..5 {
            sent.push_back(pattern(5000, n));
            send(&mut a, to_b, &pattern(5000, n));
            let got = b.receive_shared(TIMEOUT).unwrap().expect("an SDU");
            assert_eq!(Some(got.to_vec()), sent.pop_front());
            guarantees.push(got.guarantee());
        }
    }
    let expected = [Guarantee::MayChange, Guarantee::Private, Guarantee::MayChange].map(|g| [g; 5]);
    assert_eq!(guarantees, expected.concat());
    lan.check();
}
