//! OAM cells of a running network, captured live: tshark names each function and finds each CRC-10 right.

use interop::peer::Peer;
use interop::up::Up;
use interop::{have, tshark};
use std::process::Command;
use std::time::{Duration, Instant};

const WAIT: Duration = Duration::from_secs(30);
const NETWORK: &str = "[host.alpha]\n[host.beta]\n[switch.s1]\n\
    [[link]]\nends = [\"alpha\", \"s1:0\"]\n[[link]]\nends = [\"s1:1\", \"beta\"]\n\
    [[circuit]]\nends = [\"alpha 0.100\", \"beta 0.100\"]\n";

#[test]
fn tshark_names_each_oam_cell_that_a_running_network_sends_and_finds_its_crc_10_right() {
    if !have(tshark::TOOLS) {
        return;
    }
    let up = Up::new(NETWORK);
    let mut capture = up.command("capture");
    capture.args(["s1:1 - beta:0", "oam.pcapng", "--what", "cells"]);
    let mut capture = Peer::start(&mut capture).unwrap();
    capture.wait_for("capturing", WAIT).unwrap();
    let run = |line: &str| {
        let done = up.run(line);
        assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
    };
    run("ping alpha 0.100 --count 3 --interval-ms 50");
    run("oam continuity alpha 0.100");
    run("oam monitor alpha 0.100 --block 128");
    // 300 PDUs of 11 cells: some twenty blocks.
    std::fs::write(up.path("sdu"), interop::pattern(150_000)).unwrap();
    let mut receiver = up.start_command("receive beta 0.100 got --count 300");
    up.wait_for_endpoints(1, WAIT);
    run("send alpha 0.100 sdu --pdu 500");
    assert!(receiver.wait(WAIT).unwrap().0.success());
    // Continuity check cells come once nothing else was sent for a second; AIS and RDI with a cut.
    let link =
        |what: &str| assert!(up.command(&format!("link {what}")).arg("alpha:0 - s1:0").status().unwrap().success());
    std::thread::sleep(Duration::from_millis(2300));
    link("down");
    let alarms = || String::from_utf8(up.run("oam status beta 0.100").stdout).unwrap();
    let until = |what: &dyn Fn() -> bool| {
        let begun = Instant::now();
        while !what() {
            assert!(begun.elapsed() < WAIT, "{}", alarms());
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    until(&|| alarms().contains("ais"));
    std::thread::sleep(Duration::from_millis(1200));
    link("up");
    until(&|| !alarms().contains("ais"));
    assert!(Command::new("kill").args(["-INT", &capture.id().to_string()]).status().unwrap().success());
    let (status, said) = capture.wait(WAIT).unwrap();
    assert!(status.success(), "{said:?}");

    let file = up.path("oam.pcapng");
    let text = tshark::decode(&file, "atm").unwrap();
    let count = |what: &str| text.lines().filter(|line| line.contains(what)).count();
    let functions = [
        ("OAM Cell Loopback (8)", 6),
        ("Continuity Check (4)", 2),
        ("Alarm Indication Signal (0)", 1),
        ("Far End Receive Failure (1)", 1),
        ("Forward Monitoring (0)", 20),
        ("Backward Reporting (1)", 20),
        ("Performance Monitoring (0)", 2),
        ("Continuity Check (1)", 2),
    ];
    for (name, least) in functions {
        let seen = count(&format!("Function Type: {name}"));
        assert!(
            seen >= least,
            "{seen} of {name:?}, {least} at least, in:\n{}",
            &text[text.len().saturating_sub(4000)..]
        );
    }
    let oam = count("Function Type: ");
    let right = text.lines().filter(|line| line.contains("CRC-10") && line.contains("(correct)")).count();
    let unknown = text.lines().filter(|line| line.contains("Function Type: ") && line.contains("Unknown")).count();
    assert_eq!((right, unknown), (oam, 0), "a CRC-10 is wrong, or a function unknown");
}
