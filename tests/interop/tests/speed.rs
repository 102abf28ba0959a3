//! How fast an unmodified program is on Cellway's sockets, beside the same program on a kernel's own: Debian's `ttcp_atm`
//! and a round trip, under `cellway run` and in user-mode Linux with two ends of ATM over TCP, in one run.
//! A test program of its own: `make speed` runs it optimised.

use interop::guest::Guest;
use interop::peer::Peer;
use interop::up::Up;
use interop::{program, uml};
use std::time::Duration;

/// PDUs of frames, as ATM over TCP has them.
const NETWORK: &str = r#"
[host.alpha]
[host.beta]
[[link]]
ends = ["alpha", "beta"]
carries = "frames"
[[circuit]]
ends = ["alpha 0.100", "beta 0.100"]
"#;

const WAIT: Duration = Duration::from_secs(60);
const PDUS: u32 = 20_480;
const OCTETS: u32 = 8192;

/// The rate that `ttcp_atm -r` printed, Mbit/s, and octets received.
fn received(lines: &[String]) -> (f64, u64) {
    let line = lines.iter().find(|line| line.starts_with("ttcp-r:") && line.contains("bytes in"));
    let line = line.unwrap_or_else(|| panic!("ttcp_atm said nothing of a rate: {lines:?}"));
    let octets = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    let rate = line.split_once('(').unwrap().1.split_whitespace().next().unwrap().parse().unwrap();
    (rate, octets)
}

/// The median round trip, microseconds.
fn median(lines: &[String]) -> f64 {
    let line = lines.iter().find(|line| line.starts_with("rounds of")).unwrap_or_else(|| panic!("{lines:?}"));
    line.split_once("median ").unwrap().1.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn ttcp_atm_is_many_times_as_fast_as_on_a_kernels_own_stack_and_loses_nothing() {
    if !Guest::available() {
        return;
    }
    let up = Up::new(NETWORK);
    program::compile("rounds.c", &up.path("rounds"), &[]).unwrap();
    let rounds = program::for_guest("rounds.c").unwrap();
    let console = uml::run(
        r#"
        atmtcp virtual listen 9000 2>&1 &
        sleep 0.5
        atmtcp virtual connect 127.0.0.1 9000 2>&1 &
        sleep 1
        /test/rounds 101 40 2000
        ttcp_atm -r -s -a -l 8192 1.0.100 2>&1 &
        sleep 0.5
        ttcp_atm -t -s -a -l 8192 -n 2048 0.0.100 > /dev/null 2>&1
        sleep 2
        true
        "#,
        &[("rounds", &rounds)],
    );
    let console = match console {
        Ok(console) => console,
        Err(e) if uml::cannot_run_here(&e) => {
            println!("skipped: user-mode Linux cannot set the floating-point state of this processor");
            return;
        }
        Err(e) => panic!("{e:#}"),
    };
    let ((kernel_rate, kernel_octets), kernel_round) = (received(&console), median(&console));

    let (mut rates, mut losing) = (Vec::new(), 0);
    for _ in 0..5 {
        let sink = format!("run --host beta -- ttcp_atm -r -s -a -l {OCTETS} 0.0.100");
        let mut sink = Peer::start(&mut up.command(&sink)).unwrap();
        up.wait_for_endpoints(1, WAIT);
        let source = format!("run --host alpha -- ttcp_atm -t -s -a -l {OCTETS} -n {PDUS} 0.0.100");
        assert!(up.run(&source).status.success());
        let (_, lines) = sink.wait(WAIT).unwrap();
        let (rate, octets) = received(lines);
        // Best effort: a sink that gets no processor for many milliseconds is waited for no longer.
        let sent = u64::from(PDUS * OCTETS);
        losing += u32::from(octets != sent);
        assert!(losing < 2 && octets > sent / 100 * 98, "lost on the way: {octets} of {sent}, {losing} times");
        rates.push(rate);
    }
    rates.sort_by(f64::total_cmp);
    let rate = rates[2];
    let output = up.run("run -- ./rounds 100 40 5000");
    let round = median(&String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect::<Vec<_>>());

    let lost = 100.0 * (1.0 - kernel_octets as f64 / f64::from(2048 * OCTETS));
    println!(
        "ttcp_atm, {OCTETS} octets: {rate:.0} Mbit/s, none lost; on the kernel's stack {kernel_rate:.0} Mbit/s, {lost:.1} % lost"
    );
    println!("round trip of 40 octets: {round:.1} us; on the kernel's stack {kernel_round:.1} us");
    // Where Cellway is compiled for tests, it is less optimised; other tests may run beside this one. The kernel's round trip is
    // between 480 and 1060 us by the machine's mood, ours four wake-ups: bounds that both leave room.
    let (least_rate, least_round) = if cfg!(debug_assertions) { (50.0, 3.0) } else { (100.0, 10.0) };
    assert!(rate >= least_rate * kernel_rate, "{rate:.0} Mbit/s is not {least_rate} times {kernel_rate:.0}");
    assert!(
        round * least_round <= kernel_round,
        "{round:.1} us is not {least_round} times less than {kernel_round:.1}"
    );
}
