//! Data paths, with own memory of every kind: whatever carries an SDU, it arrives the same.

use crate::lan::{Held, Lan, circuit};
use endpoint::control::Refusal;
use endpoint::{
    ChannelId, DataPath, Endpoint, EndpointConfig, Error, Events, Geometry, Memory, OpenOptions, Overlap, SendError,
};
use host::CircuitConfig;
use host::engine;
use host::service::Everybody;
use net::Carries;
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use traffic::Contract;
use wire::DropReason;

const TIMEOUT: Option<Duration> = Some(Duration::from_secs(10));

/// A circuit that takes its time.
const SLOW: u16 = 150;

fn lan(carries: Carries) -> Lan {
    Lan::two_hosts(carries, Everybody, |host| {
        for vci in 100..SLOW {
            host.add_circuit(circuit(vci), CircuitConfig::default());
        }
        let pcr = wire::CellRate::from_cells_per_s(2000.0);
        let contract = Contract { category: "cbr".parse().unwrap(), pcr, ..Contract::default() };
        let slow = CircuitConfig { contract: contract.checked().unwrap(), ..CircuitConfig::default() };
        host.add_circuit(circuit(SLOW), slow);
    })
}

impl Lan {
    /// `send_buffers` of 16 buffers; the others are free to receive into.
    fn endpoint_by(&self, host: &str, path: DataPath, vci: u16, send_buffers: u32) -> (Endpoint, ChannelId) {
        let geometry = Geometry { buffers: 16, ..Geometry::default() };
        let events = Events::default();
        let config = EndpointConfig { host: host.into(), path, geometry, events, send_buffers: Some(send_buffers) };
        let mut endpoint = Endpoint::create(&self.socket, &config).unwrap();
        let channel = endpoint.open(circuit(vci), OpenOptions::default()).unwrap();
        (endpoint, channel)
    }
}

/// A way to send or receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// `send_copy`, and the segment's buffers.
    Copy(DataPath),
    /// A loan.
    Loan(DataPath),
    /// Own memory: registered, or any.
    Own { registered: bool },
    /// From wherever it is, blocking.
    Blocking,
    /// Guarded memory.
    Guarded,
}

const SEND: [Way; 8] = [
    Way::Copy(DataPath::Copying),
    Way::Copy(DataPath::Shared),
    Way::Loan(DataPath::ZeroCopy),
    Way::Loan(DataPath::Copying),
    Way::Own { registered: true },
    Way::Own { registered: false },
    Way::Blocking,
    Way::Guarded,
];
const RECEIVE: [Way; 4] = [
    Way::Copy(DataPath::Copying),
    Way::Copy(DataPath::ZeroCopy),
    Way::Own { registered: true },
    Way::Own { registered: false },
];

fn path_of(way: Way) -> DataPath {
    match way {
        Way::Copy(path) | Way::Loan(path) => path,
        _ => DataPath::SingleCopy,
    }
}

fn send(a: &mut Endpoint, channel: ChannelId, way: Way, sdu: &[u8]) {
    let fill = |memory: &mut [u8]| memory[..sdu.len()].copy_from_slice(sdu);
    match way {
        Way::Copy(_) => a.send_copy(channel, sdu).unwrap(),
        Way::Loan(_) => {
            let mut loan = a.loan().unwrap();
            fill(&mut loan);
            a.send(channel, loan, sdu.len()).unwrap();
        }
        Way::Own { registered } => {
            let mut memory = match registered {
                true => a.register(1, sdu.len()).unwrap().pop().unwrap(),
                false => Memory::from(vec![0; sdu.len()]),
            };
            fill(&mut memory);
            a.send_own(channel, memory, sdu.len()).unwrap();
            assert!(a.wait_sent(TIMEOUT).unwrap());
            assert_eq!(&a.take_back().expect("it comes back")[..], sdu);
        }
        Way::Blocking => a.send_blocking(channel, sdu).unwrap(),
        Way::Guarded => {
            let mut guarded = a.guarded(sdu.len()).unwrap();
            fill(&mut guarded);
            a.send_guarded(channel, &mut guarded, sdu.len()).unwrap();
            // At once: the host must not see this.
            guarded.fill(0xEE);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, ..ProptestConfig::default() })]
    #[test]
    fn an_sdu_arrives_the_same_by_every_data_path(
        sizes in prop::collection::vec(prop_oneof![1usize..200, 200usize..10_000, 60_000usize..=65_535], 2..4),
        seed: u8,
        frames: bool,
    ) {
        let lan = lan(if frames { Carries::Frames } else { Carries::Cells });
        let mut vci = 100;
        for sending in SEND {
            for receiving in RECEIVE {
                vci += 1;
                let (mut a, to_b) = lan.endpoint_by("alpha", path_of(sending), vci, 8);
                let own = matches!(receiving, Way::Own { .. });
                let (mut b, at_b) = lan.endpoint_by("beta", path_of(receiving), vci, if own { 16 } else { 0 });
                if let Way::Own { registered } = receiving {
                    let memory = match registered {
                        true => b.register(4, 65_536).unwrap(),
                        false => (0..4).map(|_| Memory::from(vec![0; 65_536])).collect(),
                    };
                    for piece in memory {
                        b.post(piece).unwrap();
                    }
                }
                for (i, octets) in sizes.iter().enumerate() {
                    let sdu: Vec<u8> = (0..*octets).map(|j| (j * 31 + i * 7) as u8 ^ seed ^ (j >> 8) as u8).collect();
                    send(&mut a, to_b, sending, &sdu);
                    let got = b.receive(TIMEOUT).unwrap().expect("an SDU");
                    prop_assert_eq!(got.channel(), at_b);
                    prop_assert!(got[..] == sdu[..], "{} octets from {:?} to {:?}", octets, sending, receiving);
                    if own && i == 0 && *octets > 40 {
                        let (memory, n) = got.into_memory().expect("posted memory");
                        prop_assert_eq!(&memory[..n], &sdu[..]);
                        b.post(memory).unwrap();
                    }
                }
            }
        }
    }
}

#[test]
fn a_write_to_guarded_memory_waits_until_the_host_has_taken_the_sdu() {
    let lan = lan(Carries::Cells);
    let (mut a, to_b) = lan.endpoint_by("alpha", DataPath::SingleCopy, 100, 4);
    let (mut b, _) = lan.endpoint_by("beta", DataPath::Shared, 100, 0);
    let mut guarded = a.guarded(10_000).unwrap();
    if guarded.overlap() == Overlap::Block {
        assert!(guarded.why_not().unwrap().contains("userfaultfd"));
        return;
    }
    for ms in [50, 200, 800, 3200] {
        guarded.fill(1);
        // The host takes nothing before that is over: the send does not wait for it, and reading does not.
        let held = Held::new(&lan.engine);
        a.send_guarded(to_b, &mut guarded, 10_000).unwrap();
        // One that is refused leaves it alone.
        assert!(a.send_guarded(to_b, &mut guarded, 0).is_err());
        assert!(a.send_guarded(to_b, &mut guarded, 10_001).is_err());
        assert_eq!(guarded[9_999], 1);
        let (waits, over) = (guarded.waits(), Arc::new(AtomicBool::new(false)));
        let ends = over.clone();
        let release = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(ms));
            ends.store(true, Ordering::Relaxed);
            assert!(held.release());
        });
        guarded[0] = 2;
        assert!(over.load(Ordering::Relaxed), "written before the host has taken it");
        release.join().unwrap();
        let waited = guarded.waits() - waits;
        guarded.fill(3);
        assert_eq!(&b.receive(TIMEOUT).unwrap().expect("an SDU")[..], &[1; 10_000]);
        a.send_guarded(to_b, &mut guarded, 100).unwrap();
        assert_eq!(&b.receive(TIMEOUT).unwrap().expect("the next")[..], &[3; 100]);
        if waited == 1 {
            return;
        }
        assert_eq!(waited, 0);
        // This thread had no processor all the while: nothing was shown.
    }
    panic!("no write has waited");
}

/// Pinned until acknowledged: what a reliable circuit may have to send again must not change before.
#[test]
fn memory_held_until_acknowledged_is_sent_again_as_it_was_and_written_afterwards() {
    let lan = lan(Carries::Cells);
    let (mut a, to_b) = lan.endpoint_by("alpha", DataPath::SingleCopy, 100, 4);
    let (mut b, _) = lan.endpoint_by("beta", DataPath::Shared, 100, 0);
    let mut guarded = a.guarded(10_000).unwrap();
    guarded.fill(1);
    let hold = a.send_held(to_b, &mut guarded, 10_000).unwrap();
    a.wait_sent(Some(Duration::MAX)).unwrap();
    assert_eq!(&b.receive(TIMEOUT).unwrap().expect("the first")[..], &[1; 10_000]);
    // As if it had been lost: once more, from where it is.
    a.send_guarded(to_b, &mut guarded, 10_000).unwrap();
    assert_eq!(&b.receive(TIMEOUT).unwrap().expect("the same again")[..], &[1; 10_000]);
    a.wait_sent(None).unwrap();
    // One that is refused holds nothing, and ends no hold.
    assert!(a.send_held(to_b, &mut guarded, 0).is_err());
    let wait = Duration::from_millis(80);
    let begin = Instant::now();
    let acknowledges = std::thread::spawn(move || {
        std::thread::sleep(wait);
        hold.acknowledge();
    });
    guarded[9_999] = 2;
    assert!(begin.elapsed() >= wait, "written {:?} before the acknowledgement", wait - begin.elapsed());
    acknowledges.join().unwrap();
    guarded.fill(3);
    a.send_guarded(to_b, &mut guarded, 100).unwrap();
    assert_eq!(&b.receive(TIMEOUT).unwrap().expect("the next")[..], &[3; 100]);
    // The hold of a send that was refused holds nothing.
    assert!(a.send_held(to_b, &mut guarded, 0).is_err());
    guarded.fill(4);
}

#[test]
fn a_wait_for_as_long_as_can_be_said_ends_with_what_it_waits_for() {
    let lan = lan(Carries::Cells);
    let long = Some(Duration::MAX);
    let (mut a, to_b) = lan.endpoint_by("alpha", DataPath::Shared, 100, 1);
    let (mut b, _) = lan.endpoint_by("beta", DataPath::Shared, 100, 0);
    for events in [endpoint::Events::Interrupt, endpoint::Events::Polling] {
        b.set_events(events).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // Longer than it dozes.
                std::thread::sleep(Duration::from_millis(30));
                assert!(a.wait_send(long).unwrap());
                let loan = a.loan().expect("a buffer");
                a.send(to_b, loan, 100).map_err(|(e, _)| e).unwrap();
                assert!(a.wait_sent(long).unwrap());
            });
            assert_eq!(b.receive(long).unwrap().expect("an SDU").len(), 100);
        });
    }
}

#[test]
fn nobody_waits_for_a_host_that_is_gone() {
    let mut lan = lan(Carries::Cells);
    let (mut a, to_b) = lan.endpoint_by("alpha", DataPath::SingleCopy, SLOW, 4);
    let mut guarded = a.guarded(60_000).unwrap();
    if guarded.overlap() == Overlap::Block {
        return;
    }
    a.send_guarded(to_b, &mut guarded, 60_000).unwrap();
    lan.service.take();
    // Who waits for a host that is gone waits for ever.
    guarded.fill(9);
}

#[test]
fn descriptors_that_name_memory_of_nobodys_are_counted_and_dropped() {
    let lan = lan(Carries::Cells);
    let (mut a, to_b) = lan.endpoint_by("alpha", DataPath::SingleCopy, 100, 4);
    let (mut b, _) = lan.endpoint_by("beta", DataPath::SingleCopy, 100, 16);
    // Unmapped by the time that the host reads it, or posted and gone: the address is all that the host has.
    let far = Memory::from(vec![1; 5000]);
    a.send_own(to_b, far, 5000).unwrap();
    let dropped = |host: &'static str| {
        let count = move |core: &mut engine::Core| {
            let endpoints = core.host(host).unwrap().1.endpoints();
            (endpoints[0].sent.dropped(DropReason::BadDescriptor), endpoints[0].received.dropped(DropReason::NoBuffer))
        };
        lan.engine.with(count).unwrap()
    };
    let deadline = Instant::now() + Duration::from_secs(10);
    while dropped("beta").1 == 0 {
        assert!(Instant::now() < deadline, "an SDU without posted memory was not dropped");
    }
    // A short piece: too long for it, counted, and the piece is used for the next.
    b.post(Memory::from(vec![0; 100])).unwrap();
    a.send_copy(to_b, &[2; 3000]).unwrap();
    a.send_copy(to_b, &[3; 90]).unwrap();
    assert_eq!(&b.receive(TIMEOUT).unwrap().expect("the short one")[..], &[3; 90]);
}

#[test]
fn own_memory_is_for_the_path_that_has_it() {
    let lan = lan(Carries::Cells);
    let (mut a, to_b) = lan.endpoint_by("alpha", DataPath::Shared, 100, 4);
    let (error, memory) = a.send_own(to_b, Memory::from(vec![1; 100]), 100).unwrap_err();
    assert_eq!(error, SendError::OtherPath);
    assert!(a.post(memory).is_err());
    let refused = a.register(1, 4096).unwrap_err();
    assert!(matches!(&refused, Error::Refused { kind: Refusal::Invalid, .. }), "{refused}");
}
