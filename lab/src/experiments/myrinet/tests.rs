//! A group whose members are slow: each message is accounted for.

use super::*;
use wire::DropReason;

/// With 30 us for each step a member has more to do for a message than its sender: it looks, passes on, and tells.
#[test]
fn a_slow_member_of_a_group_drops_what_finds_no_buffer_and_each_message_is_accounted_for() {
    let step = Duration::from_micros(30);
    let costs = Costs { take: step, prepare: step, start: step, receive: step, tell: step };
    let made = Made::new(&Profile::named("myrinet-lanai").unwrap()).unwrap();
    let slow = Made { lanai: Config { costs, ..made.lanai }, ..made };
    assert!(multicast(&made, MulticastBy::Cycle, 1024, 1).is_some());
    let (network, came, _) = group_run(&slow, MulticastBy::Cycle, 1024, 1).unwrap();
    let sums: Vec<_> = network.stations().iter().map(|station| station.lanai.sums()).collect();
    assert!(sums.iter().all(lanai::LanaiSums::add_up), "{sums:?}");
    let dropped: u64 = sums.iter().map(|sums| sums.monitor.received.dropped(DropReason::NoBuffer)).sum();
    let lost: u64 = sums.iter().map(|sums| sums.monitor.packets_sent.dropped_total()).sum();
    assert!(dropped + lost > 0, "{came} came, {sums:?}");
    assert_eq!((u64::from(came) + dropped, lost), (u64::from(3 * GROUP_MESSAGES), 0), "{sums:?}");
}
