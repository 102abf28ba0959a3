//! The cell switch, the credit cells of its neighbours, and end points of OAM flows.

use switch::oam::{EndPoint, PointConfig, Request};
use switch::{Flow, Profile, Switch, SwitchConfig, Transaction};
use wire::octets::{Format, parse52};
use wire::{Cell, CircuitId, Label, Time, Vpi, credit};

/// Credit cells: what parses comes back.
pub(crate) fn credit(octets: &[u8]) {
    let Some(payload) = octets.first_chunk::<48>() else { return };
    if let Ok(entries) = credit::parse(payload) {
        let entries: Vec<_> = entries.collect();
        let again = credit::emit(&entries);
        assert_eq!(credit::parse(&again.payload).map(|entries| entries.collect::<Vec<_>>()), Ok(entries));
    }
}

/// OAM cells of a peer, in steps of 49 octets: what to do before, then the payload, which gets the checksum that it lacks.
pub(crate) fn oam_point(octets: &[u8]) {
    let first = octets.first().copied().unwrap_or_default();
    let managed = first & 1 != 0;
    let mut point = EndPoint::new(PointConfig { name: None, sends: first & 2 == 0, sees_cells: first & 4 == 0 });
    let mut now = Time::from_nanos(1);
    if managed {
        point.manage_continuity(true, first & 8 != 0, now);
    }
    let managed_blocks = managed && point.manage_monitoring(Some(128)).is_ok();
    for step in octets.chunks_exact(49) {
        let Some((what, payload)) = step.split_first() else { continue };
        let Some(mut payload) = payload.first_chunk::<48>().copied() else { continue };
        (payload[46], payload[47]) = (payload[46] & 0xfc, 0);
        let [high, low] = wire::crc::remainder10(&payload).to_be_bytes();
        (payload[46], payload[47]) = (payload[46] | high, low);
        now += std::time::Duration::from_millis(u64::from(what >> 4) * 300);
        match what & 3 {
            0 => point.handle_user_cells(&[Cell::default(); 100], now),
            1 => point.handle_sent(&[Cell::default(); 64], now),
            // Refused where it cannot be.
            2 => _ = point.request(Request::continuity(what & 4 != 0), now),
            _ => {}
        }
        if let Ok(function) = wire::oam::Function::parse(&payload) {
            point.handle_cell(&function, now);
        }
        for said in 0.. {
            point.handle_timeout(now);
            if point.poll_transmit(now).is_none() {
                break;
            }
            assert!(said < 16, "an end point talks without end");
        }
        assert!(!point.has_output(now) && point.poll_timeout().is_none_or(|due| due > now));
        assert!(point.alarms().count() <= 3);
        let [away, here] = point.continuity();
        assert!(!managed || here && (away || !point.config().sends));
        assert!(!managed_blocks || point.monitoring().0.is_some_and(|(block, _)| block == 128));
        while point.poll_event().is_some() {}
    }
}

/// Cells as a neighbour sends them, in steps of 53 octets: what to do before, then the cell. Credit cells get the checksum
/// that they lack.
pub(crate) fn cell_switch(octets: &[u8]) {
    let config = SwitchConfig {
        ports: 3,
        circuits: 12,
        index_pages: 40,
        queue_cells: 30,
        credit_cells: 20,
        control_cells: 3,
        management_cells: 40,
        profiles: 8,
        incarnation: 0,
    };
    let mut switch = Switch::new(config);
    let vc = |key| Label::Vc(CircuitId::from_key(key));
    let short = Profile { queue_cells: 12, pdu_cells: Some(5), ..Profile::default() };
    let lossless = Profile { flow: Flow::Credit { window: 7 }, ..short };
    let mut change = Transaction::new();
    for port in 0..2 {
        switch.set_credit(port, true);
    }
    change.add((0, vc(100)), (1, vc(200)), &lossless);
    change.add((1, vc(200)), (0, vc(100)), &lossless);
    change.add((0, vc(101)), (1, vc(201)), &short);
    change.add((0, vc(101)), (2, vc(201)), &short);
    change.add((0, vc(102)), (2, vc(202)), &Profile { pdu_cells: None, ..short });
    let path = |vpi| Label::Vp(Vpi::truncated(vpi));
    change.add((0, path(3)), (2, path(4)), &short);
    switch.apply(change).expect("a table that fits");
    let mut out = [Cell::default(); 8];
    let (mut now, mut given) = (0u64, 0u64);
    for step in octets.chunks_exact(53) {
        let Ok(mut cell) = parse52(&step[1..], Format::Nni) else { continue };
        if credit::is_credit(cell.header_word()) {
            cell.payload[46] &= 0xfc;
            cell.payload[47] = 0;
            let [high, low] = wire::crc::remainder10(&cell.payload).to_be_bytes();
            cell.payload[46] |= high;
            cell.payload[47] = low;
        }
        now += u64::from(step[0] >> 4) * 1_000_000;
        let at = Time::from_nanos(now);
        switch.handle_cells(u16::from(step[0] & 1), &[cell], at, &mut ());
        given += 1;
        if step[0] & 2 != 0 {
            switch.handle_timeout(at);
            assert!(switch.poll_timeout().is_none_or(|deadline| deadline > at));
        }
        if step[0] & 12 != 0 {
            switch.poll_transmit(u16::from(step[0] >> 2 & 3), &mut out[..usize::from(step[0] >> 5)], at);
        }
        assert!(switch.queued() <= switch.store_cells());
        let received: u64 = (0..3).map(|port| switch.port_counters(port).received.cells).sum();
        assert_eq!(received, given);
        for route in (0..3).flat_map(|port| switch.routes(port)) {
            for branch in &route.branches {
                let counters = branch.counters;
                assert!(counters.dropped + u64::from(counters.queued) <= counters.received, "{route:?}");
            }
        }
    }
}
