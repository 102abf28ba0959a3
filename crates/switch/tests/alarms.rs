//! AIS at a switch: when it begins, in which order it leaves, how a path's alarm becomes its channels', and what forged cells do.

use std::time::Duration;
use switch::oam::AlarmKind;
use switch::{Flow as Loss, Profile, Switch, SwitchConfig, Transaction};
use wire::oam::{Activation, BlockCode, Defect, DefectType, Directions, Flow, Function, Location, Message, Subject};
use wire::{Cell, CellHeader, CircuitId, DropReason, Label, Time, Vpi};

fn vc(vpi: u16, vci: u16) -> Label {
    Label::Vc(CircuitId::new(vpi, vci).unwrap())
}

fn vp(vpi: u16) -> Label {
    Label::Vp(Vpi::new(vpi).unwrap())
}

fn at(ms: u64) -> Time {
    Time::from_millis(ms)
}

/// A port and a label there.
type PortLabel = (u16, Label);

fn switch(routes: &[(PortLabel, PortLabel)]) -> Switch {
    let config = SwitchConfig { ports: 4, circuits: 30_000, queue_cells: 100, ..SwitchConfig::default() };
    let mut switch = Switch::new(config);
    switch.set_location(Location::named("s1"));
    let mut change = Transaction::new();
    routes.iter().for_each(|(from, to)| {
        change.add(*from, *to, &Profile { pdu_cells: None, queue_cells: 50, ..Profile::default() })
    });
    switch.apply(change).unwrap();
    switch
}

const fn down(name: &str) -> Defect {
    let mut octets = [0; 16];
    octets.split_at_mut(name.len()).0.copy_from_slice(name.as_bytes());
    Defect { kind: DefectType::LINK, location: Location(octets) }
}

/// Everything that a port sends now: circuit, flow, function. Other ports keep what they have.
fn take(switch: &mut Switch, port: u16, now: Time) -> Vec<(CircuitId, Option<Flow>, Function)> {
    let mut all = Vec::new();
    loop {
        let listed = switch.list_indications(now);
        let mut out = [Cell::default(); 700];
        let n = switch.poll_transmit(port, &mut out, now);
        let said = |c: &Cell| (c.circuit(), Flow::of(c.header()), Function::parse(&c.payload).unwrap());
        all.extend(out[..n].iter().map(said));
        if n == 0 && !listed {
            return all;
        }
    }
}

fn of(flow: Flow, label: Label, function: Function) -> Cell {
    let circuit = match label {
        Label::Vc(circuit) => circuit,
        Label::Vp(vpi) => CircuitId { vpi, vci: wire::Vci(0) },
    };
    Cell::new(flow.header(CellHeader { circuit, ..CellHeader::default() }), function.emit())
}

#[test]
fn a_link_that_goes_down_has_ais_sent_on_each_circuit_behind_it_at_once_and_each_second_until_it_is_up() {
    let routes = [((0, vc(0, 50)), (1, vc(5, 60))), ((0, vp(7)), (2, vp(9))), ((3, vc(0, 50)), (1, vc(5, 61)))];
    let mut switch = switch(&routes);
    switch.set_signal(0, false, at(10));
    let (channel, path) = (CircuitId::new(5, 60).unwrap(), CircuitId::new(9, 4).unwrap());
    let ais = Function::Ais(down("s1"));
    let mut times = Vec::new();
    for ms in 10..4000 {
        switch.handle_timeout(at(ms));
        let (to_1, to_2) = (take(&mut switch, 1, at(ms)), take(&mut switch, 2, at(ms)));
        assert_eq!(to_1.len(), to_2.len());
        if !to_1.is_empty() {
            assert_eq!(to_1, [(channel, Some(Flow::F5EndToEnd), ais)]);
            assert_eq!(to_2, [(path, Some(Flow::F4EndToEnd), ais)]);
            times.push(ms);
        }
        if ms == 2500 {
            let told: Vec<_> = switch.indications().collect();
            assert_eq!((told.len(), told[0].port, told[0].path, told[0].circuits), (1, 0, None, 2));
            switch.set_signal(0, true, at(ms));
            assert_eq!(switch.indications().count(), 0);
        }
    }
    assert_eq!(times, [10, 1010, 2010]);
    let events: Vec<_> =
        std::iter::from_fn(|| switch.poll_event()).map(|e| (e.port, e.path, e.kind, e.began)).collect();
    assert_eq!(events, [(0, None, AlarmKind::Ais, true), (0, None, AlarmKind::Ais, false)]);
    assert_eq!(switch.poll_timeout(), None);
}

#[test]
fn ais_goes_before_data_that_waits_and_is_not_lost_where_the_queue_is_full_of_it() {
    let mut switch = switch(&[((0, vc(0, 50)), (1, vc(0, 50))), ((2, vc(0, 60)), (1, vc(0, 60)))]);
    let data = Cell::new(CellHeader { circuit: CircuitId::new(0, 60).unwrap(), ..CellHeader::default() }, [1; 48]);
    switch.handle_cells(2, &[data; 200], at(0), &mut ());
    assert!(switch.port_counters(1).sent.dropped_total() > 0);
    switch.set_signal(0, false, at(0));
    switch.handle_timeout(at(0));
    let mut out = [Cell::default(); 3];
    assert_eq!(switch.poll_transmit(1, &mut out, at(0)), 3);
    assert_eq!(Function::parse(&out[0].payload), Ok(Function::Ais(down("s1"))));
    assert_eq!([out[1].payload, out[2].payload], [[1; 48]; 2]);
}

#[test]
fn later_sweeps_are_spread_and_an_output_that_takes_nothing_has_each_circuit_listed_once() {
    let routes: Vec<_> = (0..20_000u32)
        .map(|n| {
            let label = Label::Vc(CircuitId::from_key(32 + n));
            ((0, label), (1 + (n % 2) as u16, label))
        })
        .collect();
    let mut switch = switch(&routes);
    switch.set_signal(0, false, at(0));
    // Port 2 sends nothing until the third second.
    let mut heard = std::collections::BTreeMap::<CircuitId, Vec<u64>>::new();
    let mut most_in_a_step = 0;
    for ms in (0..3000).step_by(10) {
        switch.handle_timeout(at(ms));
        let told = take(&mut switch, 1, at(ms));
        if ms > 0 {
            most_in_a_step = most_in_a_step.max(told.len());
        }
        told.into_iter().for_each(|(circuit, ..)| heard.entry(circuit).or_default().push(ms));
    }
    assert_eq!(heard.len(), 10_000);
    for times in heard.values() {
        assert_eq!((times.len(), times[0]), (3, 0));
        assert!(times[1] >= 1000 && times[1] <= 1500 && times[2] == times[1] + 1000, "{times:?}");
    }
    assert!(most_in_a_step <= 400, "{most_in_a_step} at once");
    let mut late = vec![Cell::default(); 30_000];
    assert_eq!(switch.poll_transmit(2, &mut late, at(3000)), 10_000);
}

#[test]
fn the_alarm_of_a_path_that_ends_here_becomes_that_of_its_channels_and_rdi_goes_back() {
    let routes = [((0, vc(7, 50)), (1, vc(0, 50))), ((0, vc(7, 51)), (2, vc(0, 51))), ((0, vc(8, 50)), (1, vc(0, 80)))];
    for flow in [Flow::F4EndToEnd, Flow::F4Segment] {
        let mut switch = switch(&routes);
        let (far, unsaid) = (Defect { kind: DefectType(9), ..down("far") }, Defect::UNSPECIFIED);
        let path = Defect { kind: DefectType::PATH, ..unsaid };
        for (begin, said, told) in [(0, far, far), (20_000, unsaid, path)] {
            for ms in begin..begin + 10_000 {
                if (ms - begin) % 1000 == 0 && ms - begin < 4000 {
                    switch.handle_cells(0, &[of(flow, vp(7), Function::Ais(said))], at(ms), &mut ());
                }
                switch.handle_timeout(at(ms));
                let (back, one, two) =
                    (take(&mut switch, 0, at(ms)), take(&mut switch, 1, at(ms)), take(&mut switch, 2, at(ms)));
                // The last AIS cell comes after three seconds, and the state lasts 2.5 s from then on.
                if (ms - begin) % 1000 == 0 && ms - begin < 5500 {
                    assert_eq!(
                        back.iter().map(|b| (b.1, b.2)).collect::<Vec<_>>(),
                        [(Some(flow), Function::Rdi(said))]
                    );
                    for (got, vci) in [(one, 50), (two, 51)] {
                        let circuit = CircuitId::new(0, vci).unwrap();
                        assert_eq!(got, [(circuit, Some(Flow::F5EndToEnd), Function::Ais(told))], "at {ms}");
                    }
                } else {
                    assert!(back.is_empty() && one.is_empty() && two.is_empty(), "at {ms}");
                }
            }
        }
        assert_eq!((switch.poll_timeout(), switch.indications().count()), (None, 0));
    }
}

#[test]
fn ais_of_a_segment_goes_on_end_to_end_and_rdi_of_the_segment_goes_back() {
    let mut switch = switch(&[((0, vc(3, 50)), (1, vc(0, 51))), ((0, vp(9)), (1, vp(2)))]);
    let ais = Function::Ais(down("peer"));
    let cases = [
        (Flow::F5Segment, vc(3, 50), Flow::F5EndToEnd, CircuitId::new(0, 51)),
        (Flow::F4Segment, vp(9), Flow::F4EndToEnd, CircuitId::new(2, 4)),
    ];
    for (segment, label, end_to_end, leaves_as) in cases {
        switch.handle_cells(0, &[of(segment, label, ais)], at(0), &mut ());
        assert_eq!(take(&mut switch, 1, at(0)), [(leaves_as.unwrap(), Some(end_to_end), ais)]);
        let back = take(&mut switch, 0, at(0));
        assert_eq!((back.len(), back[0].1, back[0].2), (1, Some(segment), Function::Rdi(down("peer"))));
    }
}

#[test]
fn a_path_that_ends_here_denies_activation_and_what_has_no_state_here_is_counted() {
    let mut switch = switch(&[((0, vc(7, 50)), (1, vc(0, 50)))]);
    let request = Activation {
        subject: Subject::ContinuityCheck,
        message: Message::Activate,
        directions: Directions::Both,
        tag: 5,
        blocks: [BlockCode::NONE; 2],
    };
    switch.handle_cells(0, &[of(Flow::F4EndToEnd, vp(7), Function::Activation(request))], at(0), &mut ());
    assert_eq!(take(&mut switch, 0, at(0))[0].2, Function::Activation(request.answered(false)));
    switch.handle_cells(0, &[of(Flow::F4EndToEnd, vp(7), Function::ContinuityCheck)], at(0), &mut ());
    assert_eq!(switch.port_counters(0).received.dropped(DropReason::NotOpen), 1);
}

#[test]
fn whoever_forges_alarms_of_a_path_at_line_rate_makes_each_of_its_channels_told_once_a_second_and_no_others() {
    let mut routes: Vec<_> = (0..3000).map(|n| ((0, vc(7, 100 + n)), (1, vc(1, 100 + n)))).collect();
    routes.push(((0, vc(8, 50)), (1, vc(0, 80))));
    routes.push(((2, vc(7, 50)), (1, vc(0, 81))));
    let mut switch = switch(&routes);
    let (ais, clear) = (of(Flow::F4EndToEnd, vp(7), Function::Ais(down("evil"))), Function::ContinuityCheck);
    let clear = of(Flow::F4EndToEnd, vp(7), clear);
    let mut told = std::collections::BTreeMap::<CircuitId, u32>::new();
    let mut rounds = 0;
    for ms in 0..2000 {
        for _ in 0..20 {
            // Now the alarm is on, now it is off, hundred times a millisecond, and at the end of it on.
            switch.handle_cells(0, &[ais, clear].repeat(5), at(ms), &mut ());
            switch.handle_cells(0, &[ais], at(ms), &mut ());
            rounds += u32::from(switch.list_indications(at(ms)));
            let mut out = [Cell::default(); 1024];
            let n = switch.poll_transmit(1, &mut out, at(ms));
            out[..n].iter().for_each(|cell| *told.entry(cell.circuit()).or_default() += 1);
        }
    }
    assert_eq!(told.len(), 3000);
    assert!(told.values().all(|n| *n <= 2) && told.keys().all(|circuit| circuit.vpi.get() == 1));
    assert!(rounds < 400, "{rounds} slices in two seconds");
}

#[test]
fn a_circuit_with_credits_spends_one_for_an_ais_cell_and_without_one_the_cell_is_counted() {
    let mut switch = switch(&[]);
    (0..2).for_each(|port| switch.set_credit(port, true));
    let mut change = Transaction::new();
    let profile = Profile { flow: Loss::Credit { window: 10 }, pdu_cells: None, ..Profile::default() };
    change.add((0, vc(0, 50)), (1, vc(0, 50)), &profile);
    switch.apply(change).unwrap();
    let mut out = [Cell::default(); 10];
    switch.poll_transmit(1, &mut out, at(0));
    switch.set_signal(0, false, at(0));
    switch.handle_timeout(at(0));
    assert_eq!(switch.poll_transmit(1, &mut out, at(0)), 0);
    assert_eq!(switch.port_counters(1).sent.dropped(DropReason::QueueFull), 1);
    // The neighbour grants two cells.
    let entry = wire::credit::parse(&{
        switch.handle_timeout(at(200));
        switch.poll_transmit(1, &mut out, at(200));
        out[0].payload
    });
    let grant =
        entry.unwrap().next().map(|entry| wire::credit::Entry { kind: wire::credit::Kind::Limit, cells: 2, ..entry });
    switch.handle_cells(1, &[wire::credit::emit(&[grant.unwrap()])], at(200), &mut ());
    let sent: usize = (1..=3)
        .map(|s| {
            switch.handle_timeout(at(1000 * s));
            let n = switch.poll_transmit(1, &mut out, at(1000 * s));
            out[..n].iter().filter(|c| Function::parse(&c.payload) == Ok(Function::Ais(down("s1")))).count()
        })
        .sum();
    assert_eq!((sent, switch.port_counters(1).sent.dropped(DropReason::QueueFull)), (2, 2));
    assert_eq!(Duration::from_secs(1), switch::oam::PERIOD);
}
