//! What a pair of PCs sends and carries: the cost of a copy out of the cache, and a receiver whose timer starts late.

use super::*;

/// As the two rates meet, the difference of their times goes to nothing; a copy's stores do not.
#[test]
fn a_copy_out_of_the_cache_takes_half_of_a_copy_at_least_and_a_slower_bus_makes_it_no_cheaper() {
    let copy = 39e6;
    let least = 0.5 / copy;
    for out in [20e6, 39e6, 40e6, 53e6, 60e6] {
        assert!(store_seconds(copy, out) >= least, "{out}");
    }
    assert!((store_seconds(19e6, 51e6) - (1.0 / 19e6 - 1.0 / 51e6)).abs() < 1e-15);
    let triton = Profile::named("pentium90-triton").unwrap();
    let sent = run(&Scenario::new(&triton, &triton, Transport::Raw, 100)).unwrap().sent_mbit_s;
    let writes = 8192.0 * least + (triton.get("allocate_us").unwrap()) * 1e-6;
    assert!(sent < 8192.0 * 8.0 / writes / 1e6, "{sent} Mbit/s enqueued");
}

/// A read of what waits in kernel memory is faster than the line; what the network carried is not.
#[test]
fn no_more_is_carried_than_the_line_carries_however_late_the_receiver_s_timer_starts() {
    let neptune = Profile::named("pentium90-neptune").unwrap();
    let line = 149.76 * 4096.0 * 8.0 / (86.0 * 424.0);
    let mut late = 0;
    for (own, others) in [(0.5, 2.0), (1.0, 0.5), (1.0, 2.0), (1.0, 0.1)] {
        let plain = Scenario::new(&neptune, &neptune, Transport::Raw, 600);
        let quanta = [own, others];
        let looped = Scenario { octets: 4096, single_copy: true, loopback: true, quanta, ..plain };
        let outcome = run(&looped).unwrap();
        assert!(outcome.carried_mbit_s <= 1.001 * line, "{outcome:?}");
        late += u32::from(outcome.received_mbit_s > outcome.carried_mbit_s);
    }
    assert!(late > 0, "the timer starts late in some run");
}
