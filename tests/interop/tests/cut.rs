//! A line that is cut twice in the middle of a transfer: between two `cellway up`, and between a network and a Linux guest.

use endpoint::{ChannelId, Endpoint, OpenOptions};
use interop::frames::free_port;
use interop::guest::Guest;
use interop::lan::Lan;
use interop::line::{line, watched_line};
use interop::up::Up;
use interop::{have, pattern, program};
use serde_json::Value;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use wire::DropReason;

const WAIT: Duration = Duration::from_secs(60);
/// The line lasts for so many octets of either direction.
const LASTS: u64 = 4_000_000;

fn network(host: &str, atmtcp: &str) -> String {
    format!(
        "[host.{host}]\n[outside.far]\n[[link]]\nends = [\"{host}\", \"far\"]\natmtcp = \"{atmtcp}\"\n\
         [[circuit]]\nends = [\"{host} 0.100\", \"far 0.100\"]\n"
    )
}

fn status(up: &Up) -> Value {
    serde_json::from_slice(&up.run("status --json").stdout).unwrap()
}

#[test]
fn a_transfer_goes_on_to_its_last_octet_though_the_line_is_cut_twice() {
    let port = free_port();
    let far = Up::new(&network("beta", &format!("listen 127.0.0.1:{port}")));
    let line = line(port, 2, LASTS);
    let near = Up::new(&network("alpha", &format!("connect 127.0.0.1:{line}")));
    let file = pattern(12_000_000);
    std::fs::write(near.path("file"), &file).unwrap();
    let mut receiver = far.start_command("receive beta 0.100 got --reliable --json");
    far.wait_for_endpoints(1, WAIT);
    let begin = Instant::now();
    let mut sender = near.start_command("send alpha 0.100 file --reliable --json");
    for peer in [&mut sender, &mut receiver] {
        let (status, said) = peer.wait(WAIT).unwrap();
        assert!(status.success(), "{said:?}");
    }
    let took = begin.elapsed();
    // Twice out for 1.2 s, in which attempts after 0.5 s fail.
    assert!(took > Duration::from_millis(2400), "not cut: {took:?}");
    assert!(std::fs::read(far.path("got")).unwrap() == file, "the file arrived changed");
    let said: Value = sender.log().iter().find_map(|l| serde_json::from_str(l).ok()).unwrap();
    assert!(said["pdus_repeated"].as_u64().unwrap() > 0, "{said}");
    for up in [&near, &far] {
        let status = status(up);
        let link = &status["links"][0];
        assert_eq!(link["up"], true, "{link}");
        // Nothing but the cut has cost a PDU.
        for (direction, side) in [("from_a", "sent"), ("from_b", "sent")] {
            let dropped = link[direction][side]["dropped"].as_object().unwrap();
            assert!(dropped.keys().all(|reason| reason == "link_down"), "{link}");
        }
    }
    // The PDU that had come in part is counted where it was to come in.
    let in_part = |up: &Up| status(up)["links"][0]["from_b"]["sent"]["dropped"]["link_down"].as_u64().unwrap_or(0);
    assert!(in_part(&far) >= 1, "{}", status(&far)["links"][0]);
}

/// PDUs each way.
const COUNT: u32 = 4000;
/// How many of them leave before the line has been cut for the last time. What waits in a socket is lost with the line: a side that
/// had sent all by then could lose the last one.
const HELD: u32 = 3000;
/// How many leave while the line is cut.
const OUTAGE: u32 = 500;
/// Changes of the line after which it is cut no more.
const CUT_TWICE: usize = 5;

/// As `fill` of `cuts.c` has it.
fn numbered(number: u32, direction: u32) -> Vec<u8> {
    let octets = 8 + number.wrapping_mul(977) as usize % 9000;
    let mut sdu = vec![number.wrapping_mul(31).wrapping_add(direction) as u8; octets];
    for at in (4..=octets - 4).step_by(256) {
        sdu[at] = (at / 256) as u8 ^ number as u8;
    }
    sdu[..4].copy_from_slice(&number.to_le_bytes());
    sdu
}

/// What came.
#[derive(Debug, Default, PartialEq, Eq)]
struct Came {
    received: u64,
    damaged: u64,
    twice: u64,
    next: u32,
}

/// Our side of it: sends as many, one each two milliseconds, and looks at all that comes. While the line is cut only some leave, and
/// from `HELD` on none before the line is cut no more: before, however slow the guest is, enough passes for both cuts.
fn exchange(alpha: &mut Endpoint, channel: ChannelId, line: &AtomicUsize) -> Came {
    let (mut came, mut sent, mut last) = (Came::default(), 0, Instant::now());
    let (mut changes, mut since) = (0, 0);
    while (sent < COUNT || came.next < COUNT) && last.elapsed() < WAIT {
        let now = line.load(Ordering::Relaxed);
        if now != changes {
            (changes, since) = (now, sent);
        }
        let may = now == CUT_TWICE || sent < HELD && (now % 2 == 1 || sent - since < OUTAGE);
        if sent < COUNT && may && alpha.send_copy(channel, &numbered(sent, 0)).is_ok() {
            sent += 1;
            last = Instant::now();
        }
        while let Some(sdu) = alpha.receive(Some(Duration::from_millis(2))).unwrap() {
            last = Instant::now();
            came.received += 1;
            let number = sdu.first_chunk().map_or(u32::MAX, |octets| u32::from_le_bytes(*octets));
            match number {
                _ if number >= COUNT || sdu[..] != numbered(number, 1) => came.damaged += 1,
                _ if number < came.next => came.twice += 1,
                _ => came.next = number + 1,
            }
            if sent < COUNT {
                break;
            }
        }
    }
    came
}

#[test]
fn a_guest_whose_line_is_cut_twice_goes_on_and_no_pdu_comes_damaged_or_twice() {
    let begin = Instant::now();
    if !have(&[("cc", "gcc")]) || !Guest::available() {
        return;
    }
    let lan = Lan::new(&[100]).unwrap();
    let mut alpha = lan.endpoint("alpha").unwrap();
    let channel = alpha.open("0.100".parse().unwrap(), OpenOptions::default()).unwrap();
    // An interface that stays while its daemon ends with the line and is started anew: what is sent meanwhile is lost.
    let (port, changes) = watched_line(lan.port(0), 2, LASTS);
    let script = format!(
        r#"
        for limit in rmem_max rmem_default wmem_max wmem_default; do echo 8388608 > /proc/sys/net/core/$limit; done
        atmtcp create 0
        (while true; do atmtcp virtual 0 connect 10.0.2.2 {port}; sleep 0.3; done) > /tmp/daemon 2>&1 &
        sleep 2
        /test/cuts 100 {COUNT} {HELD}
        cat /proc/net/atm/devices
        grep -c "ATMTCP connection" /tmp/daemon
        "#
    );
    let mut guest = Guest::boot(&script, &[("cuts", &program::for_guest("cuts.c").unwrap())]).unwrap();
    guest.wait_for("cuts: ready").unwrap();
    let ours = exchange(&mut alpha, channel, &changes);
    let report = guest.finish().unwrap();
    let console = report.console.join("\n");
    let said = report.console.iter().find(|line| line.starts_with("cuts: sent")).unwrap();
    let numbers: Vec<u64> = said.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [sent, received, damaged, twice, next] = numbers[..] else { panic!("{said}") };
    // Both go on to the last PDU, after two cuts.
    assert_eq!((sent, damaged, twice, next), (COUNT.into(), 0, 0, COUNT.into()), "{console}");
    assert_eq!((ours.damaged, ours.twice, ours.next), (0, 0, COUNT), "{ours:?}\n{console}");
    assert!(report.console.iter().any(|line| line == "3"), "not connected three times:\n{console}");
    // Something was lost: it was cut.
    assert!(received + ours.received < 2 * u64::from(COUNT), "{said} {ours:?}");

    let [to, from] = lan.outside_counters(0).unwrap();
    let down = |counters: &net::LineCounters| counters.sent.dropped(DropReason::LinkDown);
    eprintln!("{said} {ours:?} {to:?} {from:?}");
    // What went into the line and what found it down are all that was sent; what came out is what was delivered.
    // RDI of the host, one cell a second while it is told of the cut, finds the line down too.
    let told = (to.sent.pdus + down(&to)).checked_sub(COUNT.into()).expect("every PDU");
    assert!(told <= begin.elapsed().as_secs() + 1, "{told} cells of OAM: {to:?}");
    assert_eq!(to.sent.dropped_total(), down(&to), "{to:?}");
    assert!(to.delivered.pdus >= received, "{to:?}");
    assert_eq!(from.delivered.pdus, ours.received, "{from:?}");
    assert_eq!(from.sent.dropped_total(), down(&from), "{from:?}");
    let [kernel_sent, errors, kernel_received, damaged, dropped] = report.aal5_counters(0).unwrap();
    assert_eq!([errors, kernel_received, damaged, dropped], [0, received, 0, 0], "{console}");
    assert!((ours.received..=sent).contains(&kernel_sent), "{console}");
}
