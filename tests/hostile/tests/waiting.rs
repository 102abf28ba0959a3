//! No input waits for an output, and what manages a circuit is not held up by its data.

use endpoint::{Aal, Endpoint, OpenOptions, SendError};
use hostile::{Field, Ground, between, circuit, frames, rated};
use net::LinkConfig;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use traffic::Contract;
use wire::oam::{Flow, Function, Loopback};
use wire::{Cell, CellHeader};

#[test]
fn a_ring_of_five_switches_under_load_never_stands_still() {
    const N: usize = 5;
    let mut build = Ground::build();
    for i in 0..N {
        build = build.host(&format!("h{i}")).switch(&format!("s{i}"));
    }
    for i in 0..N {
        build = build.link(&format!("h{i}"), &format!("s{i}:0"), LinkConfig::default());
        let short = LinkConfig { queue_cells: 64, ..LinkConfig::default() };
        build = build.link(&format!("s{i}:1"), &format!("s{}:2", (i + 1) % N), short);
    }
    for i in 0..N {
        let (from, to) = (format!("h{i} 0.{}", 100 + i), format!("h{} 0.{}", (i + 2) % N, 100 + i));
        build = build.circuit(&from, &to, Contract::default());
    }
    let ground = build.up();
    let received: [AtomicUsize; N] = Default::default();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (i, received) in received.iter().enumerate() {
            let vci = 100 + i as u16;
            let (mut sender, channel) = ground.open(&format!("h{i}"), vci);
            let (mut receiver, _) = ground.open(&format!("h{}", (i + 2) % N), vci);
            let over = &over;
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    while sender.send_copy(channel, &[5; 9180]).is_ok() {}
                    while receiver.try_receive().is_some() {
                        received.fetch_add(1, Ordering::Relaxed);
                    }
                    std::thread::yield_now();
                }
            });
        }
        let counts = || received.each_ref().map(|n| n.load(Ordering::Relaxed));
        std::thread::sleep(Duration::from_secs(1));
        let before = counts();
        std::thread::sleep(Duration::from_secs(1));
        let after = counts();
        over.store(true, Ordering::Relaxed);
        for (before, after) in before.into_iter().zip(after) {
            assert!(after > before, "a circuit stands still: {before} PDUs, a second later {after}");
        }
    });
}

/// Sends loopback requests and counts the answers.
fn answered(endpoint: &mut Endpoint, vci: u16, flow: Flow, requests: u32) -> u32 {
    let channel = endpoint.open(circuit(vci), OpenOptions { aal: Aal::Oam, ..OpenOptions::default() }).unwrap();
    let mut answers = 0;
    for tag in 0..requests {
        let header = flow.header(CellHeader { circuit: circuit(vci), ..CellHeader::default() });
        let cell = Cell::new(header, Function::Loopback(Loopback::request(tag)).emit());
        endpoint.send_copy(channel, &sar::aal0::to_message(&cell)).unwrap();
        let patience = Instant::now() + Duration::from_millis(300);
        while Instant::now() < patience {
            let Some(message) = endpoint.receive(Some(Duration::from_millis(50))).unwrap() else { continue };
            let answer = sar::aal0::to_cell(&message, circuit(vci)).map(|cell| Function::parse(&cell.payload));
            if matches!(answer, Some(Ok(Function::Loopback(l))) if !l.request && l.correlation == tag) {
                answers += 1;
                break;
            }
        }
    }
    answers
}

#[test]
fn loopback_cells_pass_where_data_waits() {
    let slow = LinkConfig { queue_cells: 64, ..rated(2000.0) };
    let ground = Ground::build()
        .host("alpha")
        .host("beta")
        .host("eve")
        .switch("s1")
        .link("alpha", "s1:0", LinkConfig::default())
        .link("eve", "s1:1", LinkConfig::default())
        .link("beta", "s1:2", slow)
        .circuit("alpha 0.100", "beta 0.100", Contract::default())
        .circuit("eve 0.200", "beta 0.200", Contract::default())
        .up();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (mut eve, channel) = ground.open("eve", 200);
        let stop = &over;
        scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                if let Err(SendError::Full) = eve.send_copy(channel, &[6; 9180]) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        });
        std::thread::sleep(Duration::from_millis(100));
        let config = endpoint::EndpointConfig { host: "alpha".into(), ..Default::default() };
        let answers = answered(&mut ground.endpoint(&config).unwrap(), 100, Flow::F5EndToEnd, 10);
        over.store(true, Ordering::Relaxed);
        assert_eq!(answers, 10, "of ten requests");
    });
}

#[test]
fn loopback_on_the_path_is_answered_at_a_frame_port() {
    let ground = Ground::build()
        .host("alpha")
        .host("beta")
        .switch("s1")
        .link("alpha", "s1:0", frames())
        .link("beta", "s1:1", frames())
        .circuit("alpha 0.100", "beta 0.100", Contract::default())
        .up();
    // The channel of the path's segment flow, so that it can be opened. No switch has a route for it.
    ground
        .engine()
        .with(|core| {
            for host in ["alpha", "beta"] {
                core.host(host).unwrap().1.add_circuit(circuit(3), host::CircuitConfig::default());
            }
        })
        .unwrap();
    let config = endpoint::EndpointConfig { host: "alpha".into(), ..Default::default() };
    let answers = answered(&mut ground.endpoint(&config).unwrap(), 3, Flow::F4Segment, 3);
    assert_eq!(answers, 3, "of three requests");
    let arrived = ground.received("beta", 3);
    assert_eq!((arrived.cells, arrived.dropped_total()), (0, 0), "the segment ends at the switch");
}

#[test]
fn a_frame_that_is_half_sent_when_its_route_changes_does_not_leave_on_another_circuit() {
    /// So few that a PDU of 65 535 octets leaves in many rounds.
    const LINE_CELLS: u64 = 16;
    let ground = Ground::build()
        .host("alpha")
        .host("beta")
        .host("eve")
        .switch("s1")
        .link("alpha", "s1:0", frames())
        .link("eve", "s1:1", LinkConfig::default())
        .link("beta", "s1:2", LinkConfig { queue_cells: LINE_CELLS as usize, ..LinkConfig::default() })
        .up();
    let change = |removed: Vec<(&'static str, &'static str)>, added: Vec<(&'static str, &'static str)>| {
        let change = move |core: &mut host::engine::Core| {
            let (network, fabric) = (&mut core.network, &mut core.fabric);
            for (a, b) in removed {
                fabric.remove_circuit(network, &between(a, b, Contract::default())).unwrap();
            }
            for (a, b) in added {
                fabric.add_circuit(network, &between(a, b, Contract::default())).unwrap();
            }
        };
        ground.engine().with(change).unwrap();
    };
    let of_alpha = ("alpha 0.100", "beta 0.100");
    let moved = vec![("alpha 0.100", "beta 0.101"), ("eve 0.100", "beta 0.100")];
    for round in 0..10 {
        change(Vec::new(), vec![of_alpha]);
        let (mut alpha, channel) = ground.open("alpha", 100);
        while alpha.send_copy(channel, &[7; 65_535]).is_ok() {}
        change(vec![of_alpha], moved.clone());
        let (mut eve, channel) = ground.open("eve", 100);
        let (mut beta, _) = ground.open("beta", 100);
        for number in 0..3 {
            eve.send_copy(channel, &[number; 480]).unwrap();
            let got = beta.receive(Some(Duration::from_millis(500))).unwrap();
            let got = got.unwrap_or_else(|| panic!("round {round}: PDU {number} of the new circuit is lost"));
            assert!(got[..] == [number; 480], "round {round}: PDU {number} came as {} octets of {}", got.len(), got[0]);
        }
        // Eleven cells a PDU, and of anybody else's what the line had before the change, with the cell that ends it.
        let cells = ground.received("beta", 100).cells;
        assert!((33..=33 + LINE_CELLS + 1).contains(&cells), "round {round}: {cells}");
        change(moved.clone(), Vec::new());
    }
}
