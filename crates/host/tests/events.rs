//! Event strategies on real sockets and shared memory: each carries the same, idle ones cost nothing, and they change while
//! PDUs are on their way.

use crate::lan::{Lan, circuit, until};
use endpoint::{ChannelId, Endpoint, Events, OpenOptions, SendError};
use host::engine;
use host::service::Everybody;
use host::{CircuitConfig, EventCounts};
use net::Carries;
use std::time::{Duration, Instant};
use traffic::{Contract, Flow};
use wire::CircuitId;

const TIMEOUT: Option<Duration> = Some(Duration::from_secs(10));
const ALL: [Events; 5] = [
    Events::Interrupt,
    Events::Polling,
    Events::Clocked { hertz: 1000 },
    Events::Hybrid { quota: 64 },
    Events::Soft { hertz: 10_000 },
];

/// Hosts alpha and beta with circuits of best effort, and from 0.160 on with credits.
fn lan() -> Lan {
    Lan::two_hosts(Carries::Cells, Everybody, |host| {
        for vci in 100..170 {
            let flow = if vci < 160 { Flow::BestEffort } else { Flow::Credit };
            let contract = Contract { flow, ..Contract::default() };
            host.add_circuit(circuit(vci), CircuitConfig { contract, ..CircuitConfig::default() });
        }
    })
}

impl Lan {
    fn counts(&self, name: &'static str) -> Vec<EventCounts> {
        let counts = move |core: &mut engine::Core| {
            core.host(name).unwrap().1.endpoints().iter().map(|e| e.event_counts).collect()
        };
        self.engine.with(counts).unwrap()
    }
}

fn pattern(i: usize) -> Vec<u8> {
    (0..1 + i * 37 % 3000).map(|j| (i + j * 7) as u8).collect()
}

fn send(endpoint: &mut Endpoint, channel: ChannelId, sdu: &[u8]) {
    while endpoint.send_copy(channel, sdu) == Err(SendError::Full) {
        assert!(endpoint.wait_send(TIMEOUT).unwrap());
    }
}

#[test]
fn every_strategy_carries_the_same_both_ways() {
    let lan = lan();
    for (i, a_events) in ALL.into_iter().enumerate() {
        for (j, b_events) in ALL.into_iter().enumerate() {
            let vci = 100 + (i * ALL.len() + j) as u16;
            let (mut a, to_b) = lan.endpoint("alpha", a_events, vci);
            let (mut b, to_a) = lan.endpoint("beta", b_events, vci);
            for n in 0..30 {
                send(&mut a, to_b, &pattern(n));
                let got = b.receive(TIMEOUT).unwrap().expect("an SDU").to_vec();
                assert_eq!(got, pattern(n), "{a_events} to {b_events}");
                send(&mut b, to_a, &got);
                assert_eq!(&a.receive(TIMEOUT).unwrap().expect("it comes back")[..], &got[..]);
            }
        }
    }
}

#[test]
fn a_strategy_changes_while_pdus_are_on_their_way() {
    let lan = lan();
    let (mut a, to_b) = lan.endpoint("alpha", Events::Interrupt, 100);
    let (mut b, _) = lan.endpoint("beta", Events::Clocked { hertz: 500 }, 100);
    for n in 0..200 {
        send(&mut a, to_b, &pattern(n));
        if n % 5 == 0 {
            let events = ALL[n / 5 % ALL.len()];
            a.set_events(events).unwrap();
            assert_eq!(a.events(), events);
            b.set_events(ALL[(n / 5 + 2) % ALL.len()]).unwrap();
        }
        if n % 3 == 2 {
            for i in n - 2..=n {
                assert_eq!(&b.receive(TIMEOUT).unwrap().expect("an SDU")[..], &pattern(i)[..]);
            }
        }
    }
}

#[test]
fn idle_endpoints_cost_nothing_with_interrupts_and_hybrid() {
    let lan = lan();
    let mut all: Vec<_> = (0..20)
        .map(|i| lan.endpoint("alpha", if i % 2 == 0 { Events::Interrupt } else { Events::default() }, 100 + i))
        .collect();
    let (mut b, _) = lan.endpoint("beta", Events::default(), 100);
    send(&mut all[0].0, ChannelId(0), b"one");
    assert!(b.receive(TIMEOUT).unwrap().is_some());
    let stats = || lan.engine.with(|core| core.stats()).unwrap();
    // Until the engine has slept for a while: the two questions woke it, and only they.
    until("it rests", || {
        let before = stats();
        std::thread::sleep(Duration::from_millis(100));
        let after = stats();
        after.sleeps - before.sleeps <= 2 && after.rounds - before.rounds <= 100
    });
    let before = stats();
    std::thread::sleep(Duration::from_millis(500));
    let (sleeps, rounds) = (stats().sleeps - before.sleeps, stats().rounds - before.rounds);
    assert!(sleeps <= 4 && rounds <= 100, "{sleeps} sleeps and {rounds} rounds in half a second without traffic");
}

#[test]
fn clocks_tick_between_whole_milliseconds() {
    let lan = lan();
    let _clocked = lan.endpoint("alpha", Events::Clocked { hertz: 4000 }, 100);
    // As long as others leave the processor: four ticks a millisecond, where a timeout in whole milliseconds gives one at most.
    until("its ticks come in time", || {
        let ticks = || lan.counts("alpha")[0].ticks;
        let (begun, before) = (Instant::now(), ticks());
        std::thread::sleep(Duration::from_millis(50));
        let ticks = ticks() - before;
        ticks as f64 > begun.elapsed().as_secs_f64() * 2000.0
    });
}

#[test]
fn an_application_that_takes_nothing_does_not_hold_others_up() {
    let lan = lan();
    for (i, events) in [Events::Clocked { hertz: 2000 }, Events::Hybrid { quota: 16 }].into_iter().enumerate() {
        let (mut a, to_b) = lan.endpoint("alpha", events, 100 + 2 * i as u16);
        let (_stuck, _) = lan.endpoint("beta", events, 100 + 2 * i as u16);
        let (mut c, to_d) = lan.endpoint("alpha", events, 101 + 2 * i as u16);
        let (mut d, _) = lan.endpoint("beta", events, 101 + 2 * i as u16);
        for n in 0..400 {
            send(&mut a, to_b, &pattern(n)[..1]);
        }
        for n in 0..50 {
            send(&mut c, to_d, &pattern(n));
            assert_eq!(&d.receive(TIMEOUT).unwrap().expect("an SDU of the others")[..], &pattern(n)[..]);
        }
        for n in 0..400 {
            send(&mut a, to_b, &pattern(n)[..1]);
        }
    }
}

#[test]
fn one_active_endpoint_among_fifty_idle_ones_is_heard_at_once() {
    let lan = lan();
    let _idle: Vec<_> = (0..50).map(|i| lan.endpoint("alpha", Events::Interrupt, 101 + i)).collect();
    let (mut a, to_b) = lan.endpoint("alpha", Events::Interrupt, 100);
    let (mut b, _) = lan.endpoint("beta", Events::Interrupt, 100);
    for n in 0..50 {
        send(&mut a, to_b, &pattern(n));
        assert!(b.receive(TIMEOUT).unwrap().is_some());
        // So long that everything has gone to sleep.
        std::thread::sleep(Duration::from_micros(500));
    }
    assert_eq!(lan.counts("alpha")[..50].iter().map(|c| c.doorbells).sum::<u64>(), 0);
}

#[test]
fn one_endpoint_receives_on_several_channels_by_callback() {
    let lan = lan();
    let (mut a, first) = lan.endpoint("alpha", Events::default(), 100);
    let (mut b, at_first) = lan.endpoint("beta", Events::default(), 100);
    let open = |e: &mut Endpoint| e.open(CircuitId::new(0, 101).unwrap(), OpenOptions::default()).unwrap();
    let (second, at_second) = (open(&mut a), open(&mut b));
    for n in 0..20 {
        send(&mut a, if n % 2 == 0 { first } else { second }, &pattern(n));
    }
    // In order on each channel.
    let (mut n, mut next) = (0, [0, 1]);
    let got = b.receive_each(TIMEOUT, |channel, sdu| {
        let which = usize::from(channel == at_second);
        assert_eq!((channel, sdu), ([at_first, at_second][which], &pattern(next[which])[..]));
        next[which] += 2;
        n += 1;
        if n == 20 { std::ops::ControlFlow::Break(()) } else { std::ops::ControlFlow::Continue(()) }
    });
    assert_eq!(got.unwrap(), 20);
    assert_eq!(b.take_each(|_, _| ()), 0);
    assert_eq!(b.receive_each(Some(Duration::from_millis(1)), |_, _| std::ops::ControlFlow::Continue(())).unwrap(), 0);
}

#[test]
fn a_circuit_with_credits_loses_nothing_however_its_ends_wait_and_whoever_is_slow() {
    const N: u32 = 1000;
    let lan = lan();
    for (i, events) in ALL.into_iter().enumerate() {
        for slow_sender in [false, true] {
            let vci = 160 + i as u16 * 2 + u16::from(slow_sender);
            let (mut sender, channel) = lan.endpoint("alpha", events, vci);
            let (mut receiver, _) = lan.endpoint("beta", events, vci);
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    for n in 0..N {
                        let sdu = [n.to_ne_bytes(); 30].concat();
                        while let Err(e) = sender.send_copy(channel, &sdu) {
                            assert!(matches!(e, SendError::Full), "{e}");
                            assert!(sender.wait_send(TIMEOUT).unwrap(), "{events}: no room at {n}");
                        }
                        if slow_sender && n % 250 == 0 {
                            std::thread::sleep(Duration::from_millis(2));
                        }
                    }
                    assert!(sender.wait_sent(TIMEOUT).unwrap(), "{events}: not all has left");
                });
                for n in 0..N {
                    let sdu = receiver.receive(TIMEOUT).unwrap();
                    let sdu = sdu.unwrap_or_else(|| panic!("{events}: SDU {n} has not come"));
                    assert_eq!(sdu[..4], n.to_ne_bytes(), "{events}");
                    drop(sdu);
                    if !slow_sender && n % 250 == 0 {
                        std::thread::sleep(Duration::from_millis(2));
                    }
                }
            });
        }
    }
}

#[test]
fn a_thread_keeps_to_its_cycle_limit_while_all_is_turned_away_and_hears_others_at_once() {
    let lan = lan();
    lan.engine.with(|core| core.limit_cycles(0.25)).unwrap();
    let (mut flood, to_full) = lan.endpoint("alpha", Events::Interrupt, 100);
    let (_full, _) = lan.endpoint("beta", Events::Interrupt, 100);
    let (mut a, to_b) = lan.endpoint("alpha", Events::Interrupt, 101);
    let (mut b, _) = lan.endpoint("beta", Events::Interrupt, 101);
    let busy = || lan.engine.with(|_| engine::processor_time()).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let flooding = scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                if flood.send_copy(to_full, b"in vain") == Err(SendError::Full) {
                    std::thread::yield_now();
                }
            }
        });
        // Until its ring is full.
        std::thread::sleep(Duration::from_millis(20));
        let (begun, before) = (Instant::now(), busy());
        let mut worst = Duration::ZERO;
        for _ in 0..30 {
            std::thread::sleep(Duration::from_millis(10));
            let sent = Instant::now();
            send(&mut a, to_b, b"for somebody");
            assert!(b.receive(TIMEOUT).unwrap().is_some());
            worst = worst.max(sent.elapsed());
        }
        let share = (busy() - before).div_duration_f64(begun.elapsed());
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        flooding.join().unwrap();
        println!("share {share}, worst {worst:?}");
        assert!(share < 0.4, "{share} of a processor");
        // Two busy threads on a busy machine.
        assert!(worst < Duration::from_millis(100), "{worst:?}");
    });
}
