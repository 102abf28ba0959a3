//! A day of virtual time on links with faults: what arrives is whole, what is lost is counted, and all recovers.
//!
//! The load: 8 PDUs of 9188 octets, 1536 cells, every 219 ms from alpha to beta, 7013 cells/s in the mean, through a switch
//! and two cell links of 50 us, looked at every 500 us. The faults: cells lost, duplicated and damaged one in 100 000 each;
//! an outage of the first link in each hour; the second link is pulled for two seconds, and the circuit is removed and
//! set up again, once in each hour. A day where the environment has `CELLWAY_LONG=1`, else two minutes of each hour's
//! kind. `cargo test --release -p cellway-lab --test laboratory day:: -- --nocapture` prints what came of it.

use lab::{Station, World};
use net::{FaultConfig, FrameAal, LinkConfig, Outage};
use std::time::Duration;
use traffic::Contract;
use wire::{CircuitId, Time, aal5};

const ENDS: [&str; 2] = ["alpha 0.100", "beta 0.100"];
const OCTETS: usize = 9188;
const BURST: u64 = 8;
const PERIOD: Duration = Duration::from_millis(219);

struct Day {
    world: World<Station>,
    circuit: CircuitId,
    sdu: Vec<u8>,
    sent: u64,
    arrived: u64,
}

impl Day {
    /// `hour` is how long an hour lasts.
    fn new(hours: u64, hour: Duration) -> Self {
        let mut world = World::new(24);
        world.set_grain(Duration::from_micros(500));
        world.add_host("alpha", Station::default());
        world.add_host("beta", Station::default());
        world.add_switch("s1");
        let at = |n: u64, part: u32| Time::ZERO + hour * n as u32 + hour / 60 * part;
        let link = |outages| {
            let faults =
                FaultConfig { loss: 1e-5, duplication: 1e-5, corruption: 1e-5, outages, ..FaultConfig::default() };
            LinkConfig { delay: Duration::from_micros(50), faults: Some(faults), ..LinkConfig::default() }
        };
        let outages = (0..hours).map(|n| Outage { from: at(n, 10), until: at(n, 11) }).collect();
        world.add_link("alpha", "s1:0", link(outages));
        let second = world.add_link("beta", "s1:1", link(Vec::new()));
        world.add_circuit(&ENDS, FrameAal::Aal5, Contract::default()).unwrap();
        for n in 0..hours {
            world.at(at(n, 20), move |w| assert!(w.network().set_link_up(second, false)));
            world.at(at(n, 20) + Duration::from_secs(2), move |w| assert!(w.network().set_link_up(second, true)));
            world.at(at(n, 30), |w| {
                w.remove_circuit(&ENDS).unwrap();
                w.add_circuit(&ENDS, FrameAal::Aal5, Contract::default()).unwrap();
            });
        }
        let sdu = (0..OCTETS).map(|i| (i * 31 + i / 251) as u8).collect();
        Day { world, circuit: "0.100".parse().unwrap(), sdu, sent: 0, arrived: 0 }
    }

    fn burst(&mut self, at: Time) {
        let (circuit, sdu) = (self.circuit, self.sdu.clone());
        self.world.at(at, move |w| (0..BURST).for_each(|_| w.host("alpha").send(circuit, sdu.clone())));
        self.sent += BURST;
        assert!(self.world.now() <= at, "what came before never came to rest");
        self.world.settle(at - self.world.now() + PERIOD / 2);
        self.world.host("alpha").clear_departures(self.circuit);
        for (_, sdu) in self.world.host("beta").received(self.circuit) {
            assert!(sdu == self.sdu, "a wrong SDU was delivered at {}", self.world.now());
            self.arrived += 1;
        }
    }
}

#[test]
fn a_day_with_faults_passes_in_virtual_time_in_the_long_run() {
    let long = std::env::var_os("CELLWAY_LONG").is_some();
    let (hours, hour) = if long { (24, Duration::from_secs(3600)) } else { (2, Duration::from_secs(60)) };
    let mut day = Day::new(hours, hour);
    let end = hour * hours as u32;
    let mut at = Duration::ZERO;
    while at < end {
        day.burst(Time::ZERO + at);
        at += PERIOD;
    }
    let cells = day.sent * aal5::cells(OCTETS) as u64;
    let mean = cells as f64 / end.as_secs_f64();
    println!(
        "{cells} cells in {} h of {} s, {mean:.0} a second; {} of {} PDUs arrived",
        hours,
        hour.as_secs(),
        day.arrived,
        day.sent
    );
    assert!(mean >= 7000.0);
    // An outage of a sixtieth, two seconds without a link, and one PDU in a hundred by damage.
    let share = day.arrived as f64 / day.sent as f64;
    let without = 1.0 - 1.0 / 60.0 - 2.0 / hour.as_secs_f64();
    assert!((without - 0.05..without).contains(&share), "{share} of all PDUs arrived");
    // All works in the end.
    assert!(day.world.trace().events() > 0);
}
