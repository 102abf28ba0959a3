//! The driver's clock, and what control calls ask of it: alarms, shares of the line, delays, frames at a rate.

use crate::penn::{Host, World, pattern};
use penn::driver::shared::{Layout, Way};
use penn::driver::{Control, Pacing, PennError, RESOLUTION, Written};
use std::time::Duration;
use wire::{Cell, CellRate, DropReason, Time};

const MS: Duration = Duration::from_millis(1);

/// B-32: the head of the POLL list says when the alarm goes off.
#[test]
fn each_circuit_is_polled_at_its_own_rate_to_the_tick_of_the_alarm() {
    let mut world = World::new();
    let rates = [(100, 2), (101, 5), (102, 7)];
    let writers = rates.map(|(vci, _)| world.hosts[0].open(vci, Time::ZERO));
    let readers = rates.map(|(vci, rate)| {
        let file = world.hosts[1].open(vci, Time::ZERO);
        world.hosts[1].driver.control(file, Control::PollRate(rate * MS), Time::ZERO).unwrap();
        file
    });
    assert_eq!(world.hosts[1].driver.alarm(), Some(Time::from_millis(2)));
    for writer in writers {
        let now = world.now;
        while world.hosts[0].write(writer, &pattern(48, 1), now) == Written::Wait {
            world.run_for(Duration::from_micros(10));
        }
    }
    // What came within the first microseconds is read at each circuit's own time, and not before.
    let mut got = [0; 480];
    for (reader, (_, rate)) in readers.into_iter().zip(rates) {
        let due = Time::from_millis(rate.into());
        world.run(due);
        assert_eq!(world.hosts[1].driver.read(reader, &mut got), Ok(None), "before its time");
        world.run(due + Duration::from_micros(10));
        assert_eq!(world.hosts[1].driver.read(reader, &mut got), Ok(Some(48)), "at {due}");
    }
    world.run(Time::from_millis(141));
    for (reader, (_, rate)) in readers.into_iter().zip(rates) {
        assert_eq!(world.hosts[1].driver.vc(reader).unwrap().polls, u64::from(140 / rate));
    }
    let statistics = world.hosts[1].driver.statistics;
    assert_eq!(statistics.ticks, 8, "the periodic timer goes on at 60 Hz");
    assert!(statistics.alarms >= 70);
}

#[test]
fn a_rate_finer_than_the_timer_is_polled_at_each_of_its_ticks_and_no_more_often() {
    let mut world = World::new();
    let reader = world.hosts[1].open(100, Time::ZERO);
    world.hosts[1].driver.control(reader, Control::PollRate(Duration::from_micros(30)), Time::ZERO).unwrap();
    world.run(Time::from_millis(100) + Duration::from_micros(1));
    let polls = world.hosts[1].driver.vc(reader).unwrap().polls;
    // The periodic timer's ticks beside the alarm's 1000 Hz.
    assert!((100..=106).contains(&polls), "{polls} polls with a timer of {RESOLUTION:?}");
}

fn rate(mbit_s: f64) -> CellRate {
    CellRate::from_payload_bits_per_s(mbit_s * 1e6).unwrap()
}

#[test]
fn bandwidth_is_allocated_up_to_the_line_and_given_back() {
    let mut host = Host::new();
    let files = [100, 101].map(|vci| host.open(vci, Time::ZERO));
    let mut ask = |file, mbit_s| host.driver.control(file, Control::Bandwidth(mbit_s), Time::ZERO);
    assert_eq!(ask(files[0], Some(rate(100.0))), Ok(()));
    assert!(matches!(ask(files[1], Some(rate(50.0))), Err(PennError::Bandwidth { .. })));
    assert_eq!(ask(files[1], Some(rate(30.0))), Ok(()));
    assert_eq!(ask(files[0], None), Ok(()));
    assert_eq!(ask(files[1], Some(rate(130.0))), Ok(()));
    host.driver.close(files[1]).unwrap();
    assert_eq!(host.driver.control(files[0], Control::Bandwidth(Some(rate(130.0))), Time::ZERO), Ok(()));
}

/// Sends as much as the driver takes for 200 ms; gives the times of cells.
fn flood(octets: usize, pacing: Pacing) -> Vec<Time> {
    let mut world = World::new();
    let writer = world.hosts[0].open(100, Time::ZERO);
    world.hosts[0].driver.control(writer, Control::Bandwidth(Some(rate(20.0))), Time::ZERO).unwrap();
    world.hosts[0].driver.control(writer, Control::Pacing(pacing), Time::ZERO).unwrap();
    while world.now < Time::from_millis(200) {
        let now = world.now;
        world.hosts[0].write(writer, &pattern(octets, 1), now);
        world.run_for(Duration::from_micros(500));
    }
    world.sent.iter().map(|(at, _)| *at).collect()
}

#[test]
fn a_circuit_keeps_to_its_bandwidth_by_sdus_or_by_so_many_cells_at_a_time() {
    let share = rate(20.0).cells_per_s();
    for (octets, pacing, burst) in [(4800, Pacing::Sdus, 100), (48_000, Pacing::Cells(60), 60)] {
        let sent = flood(octets, pacing);
        let reached = sent.len() as f64 / 0.2;
        assert!(reached > 0.9 * share && reached < 1.02 * share, "{pacing:?}: {reached} of {share} cell/s");
        // Cells at the line's pace are neighbours; what follows a pause begins a burst.
        let gap = Duration::from_nanos(3000);
        let mut longest = 0;
        let mut run = 0;
        for (n, at) in sent.iter().enumerate() {
            run = if n > 0 && at.since(sent[n - 1]) < gap { run + 1 } else { 1 };
            longest = longest.max(run);
        }
        // The clock's tick may be late by one: two bursts are neighbours then.
        assert!(longest <= 2 * burst, "{pacing:?}: {longest} cells in a row");
    }
}

#[test]
fn what_waits_for_its_share_keeps_no_other_circuit_waiting() {
    let mut world = World::new();
    let slow = world.hosts[0].open(100, Time::ZERO);
    let fast = world.hosts[0].open(101, Time::ZERO);
    world.hosts[0].driver.control(slow, Control::Bandwidth(Some(rate(0.5))), Time::ZERO).unwrap();
    let mut taken = 0;
    while world.now < Time::from_millis(100) {
        let now = world.now;
        world.hosts[0].write(slow, &pattern(4800, 1), now);
        taken += u64::from(world.hosts[0].write(fast, &pattern(48_000, 2), now) == Written::Done);
        world.run_for(Duration::from_micros(500));
    }
    // A thousand cells take 2.83 ms: 35 in 100 ms.
    assert!(taken >= 25, "{taken} SDUs of the circuit without a share");
}

#[test]
fn an_sdu_that_cannot_start_within_its_delay_is_dropped_and_counted() {
    let mut world = World::new();
    let bulk = world.hosts[0].open(100, Time::ZERO);
    let urgent = world.hosts[0].open(101, Time::ZERO);
    world.hosts[0].driver.control(urgent, Control::Delay(Some(MS)), Time::ZERO).unwrap();
    assert_eq!(world.hosts[0].write(bulk, &pattern(48_000, 1), Time::ZERO), Written::Done);
    assert_eq!(world.hosts[0].write(urgent, &pattern(480, 2), Time::ZERO), Written::Done);
    world.run(Time::from_millis(10));
    assert_eq!(world.hosts[0].driver.counters().dropped(DropReason::Timeout), 1);
    assert_eq!(world.sent.len(), 1000, "the card had the other transfer for 2.83 ms");
    let now = world.now;
    assert_eq!(world.hosts[0].write(urgent, &pattern(480, 2), now), Written::Done, "its buffer was given back");
    world.run_for(MS);
    assert_eq!(world.sent.len(), 1010);
}

/// Traw and Smith 1993, section 4.1.4: the Segmenter is served by the clock.
#[test]
fn an_isochronous_circuit_sends_a_frame_each_period_whatever_else_waits() {
    const PERIOD: Duration = Duration::from_millis(5);
    let mut world = World::new();
    let video = world.hosts[0].open(100, Time::ZERO);
    let bulk = world.hosts[0].open(101, Time::ZERO);
    let layout = Layout { address: crate::penn::USER + (1 << 17), slots: 4, octets: 480 };
    let mut region = world.hosts[0].with(|driver, cards| driver.share(cards, video, Way::Send, layout)).unwrap();
    world.hosts[0].driver.control(video, Control::Isochronous(Some(PERIOD)), Time::ZERO).unwrap();
    let mut frames = 0;
    while world.now < Time::from_millis(102) {
        // The process is ahead by as many frames as it has slots; after 50 ms it has none to send for a while.
        let silent = (Time::from_millis(50)..Time::from_millis(80)).contains(&world.now);
        while !silent && region.submit(&mut world.hosts[0].memory, &pattern(480, frames as u8)).unwrap() {
            frames += 1;
        }
        let now = world.now;
        world.hosts[0].write(bulk, &pattern(9600, 1), now);
        world.run_for(MS);
    }
    let is_video = |(_, cell): &&(Time, Cell)| cell.circuit().vci.get() == 100;
    let begins: Vec<Time> = world.sent.iter().filter(is_video).step_by(10).map(|(at, _)| *at).collect();
    assert_eq!(begins.len() as u64 + world.hosts[0].driver.statistics.underruns, 20);
    assert!(world.hosts[0].driver.statistics.underruns >= 2, "the silence is counted");
    for at in begins {
        // One transfer of 200 cells may be under way.
        let late = at.as_nanos() % PERIOD.as_nanos() as u64;
        assert!(late < 200 * 2832 + 5000, "{late} ns late at {at}");
    }
    assert!(world.sent.len() > 10_000, "the line is full of the other circuit's cells");
}
