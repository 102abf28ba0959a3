//! OAM cells that somebody forges: random functions, contents, tags and times. They harm the flow that they are on, and no other.

use proptest::prelude::*;
use std::collections::BTreeMap;
use switch::oam::{EndPoint, PointConfig, Request, RequestOutcome};
use switch::{Profile, Switch, SwitchConfig, Transaction};
use wire::oam::{BlockCode, Flow, Function, Location, Loopback, Message};
use wire::{Cell, CellHeader, CircuitId, Label, PayloadType, Time, Vci, Vpi};

/// An OAM payload whose function is most often a known one, with a right CRC-10 most of the time.
fn payload() -> impl Strategy<Value = [u8; 48]> {
    let known = prop::sample::select(vec![0x10u8, 0x11, 0x14, 0x18, 0x20, 0x21, 0x80, 0x81, 0x82, 0x50, 0xf0]);
    let function = prop_oneof![8 => known, 1 => any::<u8>()];
    // Octets of few values, so that messages, directions, tags and sizes of blocks that exist come up.
    let body = prop_oneof![
        2 => prop::collection::vec(any::<u8>(), 45),
        3 => prop::collection::vec(prop::sample::select(vec![0u8, 1, 2, 3, 5, 7, 9, 0x11, 0x44, 0x6a, 0x88, 0xff]), 45),
    ];
    (function, body, 0u8..20).prop_map(|(function, body, broken)| {
        let mut payload = [0; 48];
        payload[0] = function;
        payload[1..46].copy_from_slice(&body);
        [payload[46], payload[47]] = wire::crc::remainder10(&payload).to_be_bytes();
        payload[20] ^= u8::from(broken == 0);
        payload
    })
}

/// All that an end point has to say now. It ends: nothing makes an end point talk without end.
fn pump(point: &mut EndPoint, now: Time) -> Vec<Function> {
    let mut said = Vec::new();
    loop {
        point.handle_timeout(now);
        while let Some(function) = point.poll_transmit(now) {
            said.push(function);
            assert!(said.len() <= 16, "{said:?}");
        }
        if point.poll_timeout().is_none_or(|due| due > now) {
            return said;
        }
    }
}

proptest! {
    #[test]
    fn an_end_point_keeps_what_its_description_has_and_is_calm_again_once_the_forger_is_silent(
        steps in prop::collection::vec((payload(), 0u64..1500, 0u8..12), 1..250), managed: bool,
    ) {
        let mut point = EndPoint::new(PointConfig { name: Location::named("here"), sends: true, sees_cells: true });
        if managed {
            point.manage_continuity(true, false, Time::ZERO);
            point.manage_monitoring(Some(256)).unwrap();
        }
        let user = Cell::new(CellHeader { circuit: CircuitId::from_key(77), ..CellHeader::default() }, [5; 48]);
        let (mut now, mut told, mut second) = (Time::ZERO, 0, Time::ZERO);
        for (payload, wait, other) in steps {
            now += std::time::Duration::from_millis(wait / 10 * u64::from(other > 5));
            if let Ok(function) = Function::parse(&payload) {
                point.handle_cell(&function, now);
            }
            match other {
                0 => point.handle_user_cells(&[user; 3], now),
                1 => point.handle_sent(&[user], now),
                _ => {}
            }
            pump(&mut point, now);
            prop_assert!(point.alarms().count() <= 3);
            if now >= second + std::time::Duration::from_secs(2) {
                (told, second) = (0, now);
            }
            while point.poll_event().is_some() {
                told += 1;
            }
            // Four in each second; two seconds may touch three.
            prop_assert!(told <= 12, "{} changes in two seconds", told);
            if managed {
                prop_assert_eq!(point.continuity(), [true; 2]);
                let (sent, received) = point.monitoring();
                prop_assert!(sent.is_some_and(|(block, _)| block == 256) && received.is_some());
            }
        }
        // Silence from there, as one who checks continuity has it.
        for ms in (0..20_000u64).step_by(250) {
            let now = now + std::time::Duration::from_millis(ms);
            if managed {
                point.handle_cell(&Function::ContinuityCheck, now);
            }
            pump(&mut point, now);
        }
        let kinds: Vec<_> = point.alarms().map(|alarm| alarm.kind).collect();
        // A forger may have had continuity check begin, which the other end then has to end.
        let lost = kinds == [switch::oam::AlarmKind::LossOfContinuity] && !managed && point.continuity()[1];
        prop_assert!(kinds.is_empty() || lost, "{:?}", kinds);
    }

    #[test]
    fn an_answer_with_another_tag_settles_no_request_and_begins_nothing(
        forged in prop::collection::vec(payload(), 1..200), monitors: bool,
    ) {
        let mut point = EndPoint::new(PointConfig { name: None, sends: true, sees_cells: true });
        let request = match monitors {
            true => Request::monitoring(true, BlockCode::of_cells(512).unwrap()),
            false => Request::continuity(true),
        };
        point.request(request, Time::ZERO).unwrap();
        let said = pump(&mut point, Time::ZERO);
        let [Function::Activation(asked)] = said[..] else { panic!("{said:?}") };
        for payload in forged {
            let Ok(function) = Function::parse(&payload) else { continue };
            let settles = matches!(function, Function::Activation(answer)
                if !answer.message.is_request() && answer.tag == asked.tag);
            // Whoever knows the tag is on the circuit: its requests, which begin things here too, are not in question.
            let asks = matches!(function, Function::Activation(other) if other.message.is_request());
            if !settles && !asks {
                point.handle_cell(&function, Time::ZERO);
            }
        }
        prop_assert_eq!(point.last_request(), Some((request, RequestOutcome::Asking)));
        prop_assert!(point.continuity() == [false; 2] && point.monitoring() == (None, None));
        let answer = asked.answered(true);
        prop_assert!(answer.message == Message::ActivationConfirmed);
        point.handle_cell(&Function::Activation(answer), Time::ZERO);
        prop_assert_eq!(point.last_request(), Some((request, RequestOutcome::Confirmed)));
    }

    #[test]
    fn forged_cells_on_some_circuits_change_nothing_on_others(
        forged in prop::collection::vec((payload(), 0usize..6, 0u8..4), 1..400), seed: u64,
    ) {
        let calm = run(&[], seed);
        let attacked = run(&forged, seed);
        prop_assert_eq!(calm, attacked);
    }
}

fn vc(vpi: u16, vci: u16) -> Label {
    Label::Vc(CircuitId::new(vpi, vci).unwrap())
}

fn vp(vpi: u16) -> Label {
    Label::Vp(Vpi::new(vpi).unwrap())
}

/// What passes a switch of circuits that are nobody's but their own users', while others are attacked: VPI 1 and 2 are the forger's.
fn run(forged: &[([u8; 48], usize, u8)], seed: u64) -> BTreeMap<(u16, CircuitId), Vec<Cell>> {
    let config = SwitchConfig { ports: 3, circuits: 100, queue_cells: 100, ..SwitchConfig::default() };
    let mut switch = Switch::new(config);
    switch.set_location(Location::named("s1"));
    let mut change = Transaction::new();
    let profile = Profile { pdu_cells: None, queue_cells: 90, ..Profile::default() };
    let pairs = [
        ((0, vc(1, 50)), (1, vc(1, 50))),
        ((0, vc(1, 51)), (1, vc(1, 51))),
        ((0, vp(2)), (1, vp(2))),
        ((0, vc(3, 50)), (1, vc(3, 50))),
        ((0, vc(3, 51)), (2, vc(3, 51))),
        ((0, vp(4)), (1, vp(4))),
        ((2, vc(5, 50)), (1, vc(5, 50))),
        ((2, vp(6)), (1, vp(6))),
    ];
    for (from, to) in pairs {
        change.add(from, to, &profile);
        change.add(to, from, &profile);
    }
    switch.apply(change).unwrap();
    let innocent =
        [(0, 3, 50), (0, 3, 51), (0, 4, 77), (2, 5, 50), (2, 6, 99), (1, 3, 50), (1, 4, 4), (0, 3, 4), (0, 3, 3)];
    let mut passed = BTreeMap::<_, Vec<Cell>>::new();
    let mut random = seed | 1;
    let mut forged = forged.chunks(8);
    for step in 0..200u64 {
        let now = Time::from_millis(step * 100);
        for (payload, at, kind) in forged.next().unwrap_or_default() {
            let circuit = [(1, 50), (1, 51), (2, 33), (1, 3), (1, 4), (2, 4)][*at];
            let circuit = CircuitId { vpi: Vpi::new(circuit.0).unwrap(), vci: Vci(circuit.1) };
            let payload_type = [PayloadType::OamSegment, PayloadType::OamEndToEnd][usize::from(*kind) % 2];
            let header = CellHeader { circuit, payload_type, clp: *kind > 1 };
            for port in [0, 1] {
                switch.handle_cells(port, &[Cell::new(header, *payload); 3], now, &mut ());
            }
        }
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (port, vpi, vci) = innocent[(random >> 33) as usize % innocent.len()];
        let circuit = CircuitId { vpi: Vpi::new(vpi).unwrap(), vci: Vci(vci) };
        let header = CellHeader { circuit, ..CellHeader::default() };
        let user = Cell::new(header, [step as u8; 48]);
        let ask = Function::Loopback(Loopback { location: Location::EVERY_POINT, ..Loopback::request(step as u32) });
        let oam = match vci {
            3 | 4 => Cell::new(header, ask.emit()),
            _ => Cell::new(Flow::F5EndToEnd.header(header), ask.emit()),
        };
        let cells = if vci < 5 { vec![oam] } else { vec![user, oam, user] };
        switch.handle_cells(port, &cells, now, &mut ());
        switch.handle_timeout(now);
        while switch.list_indications(now) {}
        for port in 0..3 {
            let mut out = [Cell::default(); 500];
            let n = switch.poll_transmit(port, &mut out, now);
            for cell in &out[..n] {
                if cell.circuit().vpi.get() > 2 {
                    passed.entry((port, cell.circuit())).or_default().push(*cell);
                }
            }
        }
    }
    assert!(switch.indications().all(|told| told.path.is_some_and(|path| path.get() == 1)));
    passed
}
