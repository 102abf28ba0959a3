//! AAL0 and AAL5 PDUs of every size against a Linux 5.10 guest's own ATM stack, octet for octet and many; a hundred circuits
//! at once; and both sides' counters, which agree to the last PDU.

use endpoint::{Aal, ChannelId, Endpoint, OpenOptions};
use interop::guest::{Guest, PATIENCE};
use interop::have;
use interop::lan::Lan;
use interop::program;
use std::collections::HashMap;
use std::time::Instant;
use wire::{CircuitId, DropReason};

/// PDUs one size after the other: octets to the guest and in its answer, and how many.
type Schedule = &'static [(usize, usize, u32)];

/// Of the largest 8 octets less to the guest: its kernel takes 65535 octets from the daemon of its link, and the frame's head is among them.
const AAL5: Schedule = &[
    (1, 1, 10_000),
    (40, 40, 10_000),
    (48, 48, 10_000),
    (1500, 1500, 10_000),
    (9188, 9188, 10_000),
    (65_527, 65_535, 10_000),
];
const AAL0: Schedule = &[(52, 52, 10_000)];
/// On each of the hundred circuits.
const MANY: Schedule = &[(1, 1, 20), (40, 40, 20), (1500, 1500, 20), (9188, 9188, 20)];
const MANY_CIRCUITS: u16 = 100;

/// As `fill` of `pdus.c` has it; a cell's header here in network order.
fn fill(sdu: &mut Vec<u8>, aal: Aal, vci: u16, octets: usize, number: u32, direction: u64) {
    let seed = direction << 63 ^ u64::from(vci) << 48 ^ (octets as u64) << 24 ^ u64::from(number);
    sdu.clear();
    for word in 0..octets.div_ceil(8) as u64 {
        let x = seed.wrapping_add(word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        sdu.extend_from_slice(&(x ^ x >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9).to_le_bytes());
    }
    sdu.truncate(octets);
    if aal == Aal::Aal0 {
        sdu[..4].copy_from_slice(&(u32::from(vci) << 4).to_be_bytes());
    }
}

/// Where a circuit is in its schedule.
#[derive(Default, Clone, Copy)]
struct Place {
    step: usize,
    number: u32,
}

impl Place {
    /// Octets of the next one and of its answer, and its number among those of its size.
    fn next(&mut self, schedule: Schedule) -> Option<(usize, usize, u32)> {
        let (octets, answer, count) = *schedule.get(self.step)?;
        let number = self.number;
        self.number += 1;
        if self.number == count {
            *self = Place { step: self.step + 1, number: 0 };
        }
        Some((octets, answer, number))
    }
}

/// One side of the exchange; the guest's program is the other. At most `window` octets or 32 PDUs are on their way.
fn exchange(endpoint: &mut Endpoint, channels: &[(u16, ChannelId)], aal: Aal, schedule: Schedule, window: usize) {
    let (mut sent, mut got) = (vec![Place::default(); channels.len()], vec![Place::default(); channels.len()]);
    let place: HashMap<ChannelId, usize> = channels.iter().enumerate().map(|(i, (_, c))| (*c, i)).collect();
    let mut left = channels.len() as u64 * schedule.iter().map(|(.., count)| u64::from(*count)).sum::<u64>();
    let (mut octets_out, mut pdus_out, mut turn) = (0, 0, 0);
    let (mut sdu, mut wanted) = (Vec::new(), Vec::new());
    let mut next: Option<(usize, usize)> = None;
    while left > 0 {
        loop {
            if next.is_none() {
                // The circuits in turn; those that have ended are passed over.
                next = (0..channels.len()).find_map(|step| {
                    let i = (turn + step) % channels.len();
                    let (octets, _, number) = sent[i].next(schedule)?;
                    turn = i + 1;
                    fill(&mut sdu, aal, channels[i].0, octets, number, 0);
                    Some((i, octets))
                });
            }
            let Some((i, octets)) = next else { break };
            if pdus_out > 0 && (octets_out + octets > window || pdus_out == 32) {
                break;
            }
            if endpoint.send_copy(channels[i].1, &sdu).is_err() {
                break;
            }
            (octets_out, pdus_out, next) = (octets_out + octets, pdus_out + 1, None);
        }
        let received = endpoint.receive(Some(PATIENCE)).unwrap().expect("an answer of the guest's");
        let i = place[&received.channel()];
        let (octets, answer, number) = got[i].next(schedule).expect("no more answers than PDUs");
        fill(&mut wanted, aal, channels[i].0, answer, number, 1);
        assert!(received[..] == wanted, "circuit {}: number {number} of {answer} octets differs", channels[i].0);
        (octets_out, pdus_out, left) = (octets_out - octets, pdus_out - 1, left - 1);
    }
}

fn words(schedule: Schedule) -> String {
    schedule.iter().map(|(octets, answer, count)| format!(" {octets} {answer} {count}")).collect()
}

fn pdus(schedule: Schedule) -> u64 {
    schedule.iter().map(|(.., count)| u64::from(*count)).sum()
}

#[test]
fn ten_thousand_pdus_of_each_size_and_a_hundred_circuits_at_once_and_the_counters_agree() {
    if !have(&[("cc", "gcc")]) || !Guest::available() {
        return;
    }
    let many: Vec<u16> = (200..200 + MANY_CIRCUITS).collect();
    let lan = Lan::new(&[&[100][..], &many].concat()).unwrap();
    lan.add_circuit("alpha", "outside", 50, net::FrameAal::Aal0).unwrap();
    let mut alpha = lan.endpoint("alpha").unwrap();
    let mut open = |vci, aal| {
        let circuit = CircuitId::new(0, vci).unwrap();
        (vci, alpha.open(circuit, OpenOptions { aal, ..OpenOptions::default() }).unwrap())
    };
    let (aal5, aal0) = ([open(100, Aal::Aal5)], [open(50, Aal::Aal0)]);
    let many: Vec<_> = many.into_iter().map(|vci| open(vci, Aal::Aal5)).collect();

    // Room for what is on its way: the link's daemon and the circuits have sockets that drop what they cannot hold.
    let script = format!(
        r#"
        for limit in rmem_max rmem_default wmem_max wmem_default; do echo 8388608 > /proc/sys/net/core/$limit; done
        atmtcp virtual connect 10.0.2.2 {port} 2>&1 &
        interfaces 1
        /test/pdus 5 100 1{aal5}
        /test/pdus 0 50 1{aal0}
        /test/pdus 5 200 {MANY_CIRCUITS}{many}
        cat /proc/net/atm/devices
        "#,
        port = lan.port(0),
        aal5 = words(AAL5),
        aal0 = words(AAL0),
        many = words(MANY),
    );
    let mut guest = Guest::boot(&script, &[("pdus", &program::for_guest("pdus.c").unwrap())]).unwrap();
    for (channels, aal, schedule) in
        [(&aal5[..], Aal::Aal5, AAL5), (&aal0[..], Aal::Aal0, AAL0), (&many[..], Aal::Aal5, MANY)]
    {
        guest.wait_for("pdus: ready").unwrap();
        let begin = Instant::now();
        exchange(&mut alpha, channels, aal, schedule, 140_000);
        guest.wait_for(&format!("pdus: good {}", channels.len() as u64 * pdus(schedule))).unwrap();
        eprintln!("{} circuits, {schedule:?}: {:?}", channels.len(), begin.elapsed());
    }
    let report = guest.finish().unwrap();

    // Each PDU went once each way, and none was lost: the kernel's counters say so, and so do the link's.
    let aal5 = pdus(AAL5) + u64::from(MANY_CIRCUITS) * pdus(MANY);
    assert_eq!(report.aal5_counters(0).unwrap(), [aal5, 0, aal5, 0, 0], "the kernel's: sent, errors, received, ...");
    let aal0 = pdus(AAL0);
    assert_eq!(report.aal0_counters(0).unwrap(), [aal0, 0, aal0, 0, 0], "the kernel's of AAL0");
    let octets = |of: fn(&(usize, usize, u32)) -> usize| {
        let sum = |schedule: Schedule| schedule.iter().map(|s| of(s) as u64 * u64::from(s.2)).sum::<u64>();
        // Of a cell, its payload.
        sum(AAL5) + u64::from(MANY_CIRCUITS) * sum(MANY) + aal0 * 48
    };
    let ways = [("to the guest", octets(|s| s.0)), ("from the guest", octets(|s| s.1))];
    for ((direction, octets), counters) in ways.into_iter().zip(lan.outside_counters(0).unwrap()) {
        let (sent, arrived) = (counters.sent, counters.delivered);
        assert_eq!((sent.pdus, sent.cells, sent.octets), (aal5, aal0, octets), "{direction}");
        assert_eq!((arrived.pdus, arrived.cells, arrived.octets), (aal5, aal0, octets), "{direction}");
        // The hosts tell the circuits of a guest that has ended: an alarm each, on a line that is down.
        let told = sent.dropped(DropReason::LinkDown);
        assert!(told <= 4 * (2 + u64::from(MANY_CIRCUITS)), "{direction}: {sent:?}");
        assert_eq!(sent.dropped_total(), told, "{direction}: {sent:?}");
    }
}
