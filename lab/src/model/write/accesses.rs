//! What a transfer without a system call costs the modelled machine is what the driver touches for it.

use super::{Host, Profile, USER};
use core::time::Duration;
use penn::Streaming;
use penn::driver::shared::{Layout, Way};
use penn::driver::{BUFFER_OCTETS, Control};
use penn::reassembly::Config;
use penn::segmenter::Segmenter;
use wire::{Cell, Time};

/// An access of the processor to a register over the Micro Channel, which no text gives.
const ACCESS_US: f64 = 1.0;

#[test]
fn a_shared_write_costs_the_register_accesses_that_the_driver_makes_for_it() {
    let machine = Profile::named("rs6000-320").unwrap();
    let config = Config { circuits: 1, pdus: 1, slots: 1, ..Config::default() };
    let segmenter = Segmenter::new(Streaming::MICRO_CHANNEL);
    let memory = USER as usize + 2 * BUFFER_OCTETS;
    let mut host = Host::new(segmenter, config, memory, Duration::from_millis(1)).unwrap();
    host.driver.control(host.file, Control::Vci(100), Time::ZERO).unwrap();
    let layout = Layout { address: USER, slots: 4, octets: 480 };
    let mut region = host.with(|driver, cards, file| driver.share(cards, file, Way::Send, layout)).unwrap();
    let (mut cells, mut sdus, mut now) = ([Cell::default(); 16], 0, Time::ZERO);
    while host.segmenter.counters().pdus < 100 {
        while region.submit(&mut host.memory, &[sdus as u8; 480]).unwrap() {
            sdus += 1;
        }
        let due = host.with(|driver, cards, _| driver.poll_timeout(cards));
        now = due.max(now);
        host.segmenter.fill(&mut cells, &mut host.memory, now);
        host.with(|driver, cards, _| driver.handle_timeout(cards, now));
    }
    let accesses = host.driver.accesses;
    assert_eq!(accesses.calls, 0);
    // The first transfer writes header and MID too. The idle flag that lets a transfer start is read once.
    let each = (accesses.registers_written - 2) as f64 / host.segmenter.counters().pdus as f64 + 1.0;
    assert!((machine.get("shared_write_us").unwrap() - each * ACCESS_US).abs() < 0.1, "{each} accesses");
}
