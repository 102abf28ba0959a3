//! What several use has a bound for each: pools, queues, pacers.

use endpoint::SendError;
use hostile::{Attack, Class, Field, Ground, Trial, cbr, circuit, frames, rated};
use net::{Carries, LinkConfig};
use std::time::{Duration, Instant};
use traffic::Contract;

/// Sends as fast as the endpoint takes it, to the end of the attack.
fn flood(field: &impl Field, attack: &Attack, host: &str, vci: u16) {
    let (mut endpoint, channel) = field.open(host, vci);
    let sdu = vec![0x55; 9180];
    while attack.goes_on() {
        match endpoint.send_copy(channel, &sdu) {
            Ok(()) => {}
            Err(SendError::Full) => std::thread::sleep(Duration::from_millis(1)),
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_sender_on_a_slow_frame_link_does_not_hold_up_other_frame_links() {
    let field = || {
        let slow = LinkConfig { carries: Carries::Frames, ..rated(2358.0) };
        Ground::build()
            .host("alpha")
            .host("beta")
            .host("eve")
            .host("mallory")
            .link("alpha", "beta", frames())
            .link("eve", "mallory", slow)
            .circuit("alpha 0.100", "beta 0.100", Contract::default())
            .circuit("eve 0.200", "mallory 0.200", Contract::default())
            .up()
    };
    Trial::new(Class::Other, field).withstand(|field, attack| flood(field, attack, "eve", 200));
}

#[test]
fn pdus_that_are_never_finished_do_not_hold_up_other_frame_links() {
    let field = || {
        let mut build = Ground::build()
            .host("alpha")
            .host("beta")
            .host("eve")
            .host("mallory")
            .switch("s1")
            .link("alpha", "beta", frames())
            .link("eve", "s1:0", LinkConfig::default())
            .link("mallory", "s1:1", frames())
            .circuit("alpha 0.100", "beta 0.100", Contract::default());
        for vci in 1000..1300 {
            build = build.circuit(&format!("eve 0.{vci}"), &format!("mallory 0.{vci}"), Contract::default());
        }
        build.up()
    };
    Trial::new(Class::Other, field).withstand(|field, attack| {
        let config = endpoint::EndpointConfig { host: "eve".into(), ..Default::default() };
        let mut eve = field.endpoint(&config).unwrap();
        let options = endpoint::OpenOptions { aal: endpoint::Aal::Aal0, ..Default::default() };
        // One cell of a PDU on each circuit, and never its end.
        for vci in 1000..1300 {
            let channel = eve.open(circuit(vci), options).unwrap();
            eve.send_copy(channel, &[0; 52]).unwrap();
            eve.wait_sent(None).unwrap();
        }
        attack.rest();
    });
}

#[test]
fn a_paced_circuit_does_not_hold_up_a_best_effort_circuit_of_its_endpoint() {
    let ground = Ground::build()
        .host("alpha")
        .host("beta")
        .link("alpha", "beta", LinkConfig::default())
        .circuit("alpha 0.100", "beta 0.100", Contract::default())
        .circuit("alpha 0.200", "beta 0.200", cbr(50.0))
        .up();
    let (mut sender, best_effort) = ground.open("alpha", 100);
    let paced = sender.open(circuit(200), endpoint::OpenOptions::default()).unwrap();
    let (mut receiver, _) = ground.open("beta", 100);
    // Nearly four seconds of its contract.
    sender.send_copy(paced, &[1; 9180]).unwrap();
    for _ in 0..20 {
        sender.send_copy(best_effort, &[2; 1500]).unwrap();
        let got = receiver.receive(Some(Duration::from_millis(500))).unwrap();
        assert!(got.is_some_and(|sdu| sdu[..] == [2; 1500]), "the best-effort PDU waits for the paced one");
    }
}

#[test]
fn what_is_sent_while_another_channel_waits_and_the_host_sleeps_leaves_at_once() {
    let ground = Ground::build()
        .host("alpha")
        .host("beta")
        .link("alpha", "beta", LinkConfig::default())
        .circuit("alpha 0.100", "beta 0.100", Contract::default())
        .circuit("alpha 0.200", "beta 0.200", cbr(0.5))
        .up();
    let (mut sender, best_effort) = ground.open("alpha", 100);
    let paced = sender.open(circuit(200), endpoint::OpenOptions::default()).unwrap();
    let (mut receiver, _) = ground.open("beta", 100);
    // A cell each two seconds, and the host's thread asleep between them.
    sender.send_copy(paced, &[1; 9180]).unwrap();
    for n in 0..8 {
        std::thread::sleep(Duration::from_millis(50));
        sender.send_copy(best_effort, &[2; 40]).unwrap();
        let got = receiver.receive(Some(Duration::from_millis(500))).unwrap();
        assert!(got.is_some(), "SDU {n} waits for the pacer of another channel");
    }
}

#[test]
fn a_contract_is_kept_on_a_frame_link() {
    let ground = Ground::build()
        .host("alpha")
        .host("beta")
        .link("alpha", "beta", frames())
        .circuit("alpha 0.100", "beta 0.100", cbr(2604.0))
        .up();
    let (mut sender, channel) = ground.open("alpha", 100);
    let (mut receiver, _) = ground.open("beta", 100);
    let begin = Instant::now();
    let mut octets = 0;
    while begin.elapsed() < Duration::from_millis(500) {
        let _ = sender.send_copy(channel, &[3; 1500]);
        while let Some(sdu) = receiver.try_receive() {
            octets += sdu.len();
        }
    }
    // 1 Mbit/s of payload, twice that for what the tolerance lets through at the beginning, and a queue of one PDU.
    let allowed = 2.0 * 125_000.0 * begin.elapsed().as_secs_f64() + 1500.0;
    assert!((octets as f64) < allowed, "{octets} octets in {:?}, {allowed} allowed", begin.elapsed());
    assert!(octets > 0, "nothing came at all");
}

#[test]
fn a_slow_receiver_slows_down_who_sends_to_it_and_nobody_else() {
    // A tick is a millisecond; as long as everybody rested for eve, nothing came for seconds. Time slices that the system gives to
    // somebody else can spoil a run; a slow receiver that holds others up spoils each.
    let runs: Vec<_> = (0..4).map(|_| beside_a_slow_receiver()).take_while(|worst| !is_soon(worst)).collect();
    assert!(runs.len() < 4, "{runs:?}");
}

fn is_soon(worst: &[Duration; 2]) -> bool {
    worst.iter().all(|worst| *worst < Duration::from_millis(500))
}

/// The longest that others waited for what they had sent: from an endpoint of their own, and from one that sends to eve too.
fn beside_a_slow_receiver() -> [Duration; 2] {
    use endpoint::{EndpointConfig, Events};
    let mut build = Ground::build().host("alpha").host("beta").host("eve").switch("s1");
    for (port, host) in ["alpha", "beta", "eve"].into_iter().enumerate() {
        build = build.link(host, &format!("s1:{port}"), LinkConfig::default());
    }
    let ground = build
        .circuit("alpha 0.101", "beta 0.101", Contract::default())
        .circuit("alpha 0.102", "beta 0.102", Contract::default())
        .circuit("alpha 0.200", "eve 0.200", Contract::default())
        .circuit("alpha 0.201", "eve 0.201", Contract::default())
        .up();
    let clocked = |host: &str| EndpointConfig {
        host: host.into(),
        events: Events::Clocked { hertz: 1000 },
        ..Default::default()
    };
    // One endpoint sends to eve only, one to eve and beta, one to beta only.
    let (mut feeder, to_eve) = ground.open_as(200, &clocked("alpha"));
    let (mut both, also_to_eve) = ground.open_as(201, &clocked("alpha"));
    let to_beta = both.open(circuit(102), endpoint::OpenOptions::default()).unwrap();
    let (mut innocent, on) = ground.open_as(101, &clocked("alpha"));
    let (mut eve, _) = ground.open_as(200, &clocked("eve"));
    eve.open(circuit(201), endpoint::OpenOptions::default()).unwrap();
    let (mut beta, _) = ground.open_as(101, &clocked("beta"));
    beta.open(circuit(102), endpoint::OpenOptions::default()).unwrap();
    let mut worst = [Duration::ZERO; 2];
    let end = Instant::now() + Duration::from_millis(1500);
    while Instant::now() < end {
        // Eve takes a sixteenth of her ring in each rest: enough not to be given up, and too little to catch up.
        for _ in 0..20 {
            eve.try_receive();
        }
        while feeder.send_copy(to_eve, &[1; 40]).is_ok() {}
        while both.send_copy(also_to_eve, &[1; 40]).is_ok() {}
        for (n, (sender, channel)) in [(&mut innocent, on), (&mut both, to_beta)].into_iter().enumerate() {
            let begin = Instant::now();
            sender.send_copy(channel, &[2; 40]).unwrap();
            assert!(beta.receive(Some(Duration::from_secs(2))).unwrap().is_some(), "sender {n} is starved");
            worst[n] = worst[n].max(begin.elapsed());
        }
    }
    worst
}

#[test]
fn floods_between_shards_hold_up_neither_circuits_of_another_shard_nor_commands() {
    let field = || {
        let mut build = Ground::build().shards(2).host("alpha").host("beta").host_at("eve", 1).host("mallory");
        build = build.link("alpha", "beta", LinkConfig::default());
        build = build.circuit("alpha 0.100", "beta 0.100", Contract::default());
        for link in 0..4 {
            // Cells and frames cross.
            let config = if link % 2 == 0 { LinkConfig::default() } else { frames() };
            build = build.link(&format!("eve:{link}"), &format!("mallory:{link}"), config);
            let vci = 200 + link;
            build = build.circuit(&format!("eve 0.{vci}"), &format!("mallory 0.{vci}"), Contract::default());
        }
        build.up()
    };
    Trial::new(Class::Other, field).withstand(|field, attack| {
        std::thread::scope(|scope| {
            for vci in 200..204 {
                scope.spawn(move || flood(field, attack, "eve", vci));
            }
            while attack.goes_on() {
                let begin = Instant::now();
                field.engine().with(|_| ()).unwrap();
                attack.took("a command", begin.elapsed(), Duration::from_millis(100));
                std::thread::sleep(Duration::from_millis(5));
            }
        });
    });
}
