//! AAL3/4: sockets of an unmodified program, against the kernel's own in a guest and with tshark reading the cells.

use interop::frames::free_port;
use interop::guest::Guest;
use interop::peer::Peer;
use interop::tshark::{self, Aal};
use interop::up::Up;
use interop::{have, program};
use std::io::Write as _;
use std::time::Duration;
use wire::Cell;
use wire::erf::{Head, Kind};

const WAIT: Duration = Duration::from_secs(60);
/// `ATM_AAL34` of `linux/atm.h`.
const ATM_AAL34: u8 = 3;

#[test]
fn sdus_go_there_and_back_between_our_sockets_and_the_kernels() {
    if !have(&[("cc", "gcc")]) || !Guest::available() {
        return;
    }
    let port = free_port();
    // From alpha to the switch as cells, from there to the guest as the SDUs of ATM over TCP.
    let up = Up::new(&format!(
        r#"
[host.alpha]
[switch.s1]
[outside.linux]
[[link]]
ends = ["alpha", "s1:0"]
[[link]]
ends = ["s1:1", "linux"]
atmtcp = "listen 127.0.0.1:{port}"
[[circuit]]
ends = ["alpha 0.100", "linux 0.100"]
aal = "aal34"
[[circuit]]
ends = ["alpha 0.101", "linux 0.101"]
aal = "aal34"
"#
    ));
    program::compile("echo.c", &up.path("echo"), &[]).unwrap();
    let echo = program::for_guest("echo.c").unwrap();
    let mut answer = Peer::start(&mut up.command(&format!("run -- ./echo 0 101 {ATM_AAL34} answer"))).unwrap();
    answer.wait_for("echo: bound", WAIT).unwrap();
    let script = format!(
        r#"
        atmtcp virtual connect 10.0.2.2 {port} 2>&1 &
        interfaces 1
        /test/echo 0 101 {ATM_AAL34} ask 200
        /test/echo 0 100 {ATM_AAL34} answer &
        opened 100
        say ready
        wait %2
        "#
    );
    let mut guest = Guest::boot(&script, &[("echo", &echo)]).unwrap();
    guest.wait_for("guest: ready").unwrap();
    let asked = up.run(&format!("run -- ./echo 0 100 {ATM_AAL34} ask 500"));
    let said = String::from_utf8_lossy(&asked.stdout).into_owned();
    assert!(asked.status.success() && said.contains("500 there and back"), "{said}");
    let report = guest.finish().unwrap();
    let console = report.console.join("\n");
    assert!(console.contains("echo: 200 there and back"), "{console}");
    assert!(answer.wait(WAIT).unwrap().0.success());
}

/// The cells of an enhanced packet block's ERF record each.
fn cells_of(capture: &[u8]) -> Vec<Cell> {
    const ENHANCED_PACKET: u32 = 6;
    let word = |at: usize| u32::from_le_bytes(capture[at..at + 4].try_into().unwrap());
    let (mut at, mut cells) = (0, Vec::new());
    while at < capture.len() {
        let (kind, octets) = (word(at), word(at + 4) as usize);
        if kind == ENHANCED_PACKET {
            let captured = word(at + 20) as usize;
            let (head, payload) = Head::parse(&capture[at + 28..at + 28 + captured]).unwrap();
            assert_eq!(head.kind, Kind::Cell);
            cells.push(Cell::new(head.header, payload.try_into().unwrap()));
        }
        at += octets;
    }
    cells
}

#[test]
fn tshark_finds_the_crc_of_every_cell_on_the_link_correct() {
    if !have(tshark::TOOLS) || !have(&[("cc", "gcc")]) {
        return;
    }
    let network = |carries: &str| {
        format!(
            r#"
[host.alpha]
[host.beta]
[[link]]
ends = ["alpha", "beta"]
carries = "{carries}"
[[circuit]]
ends = ["alpha 0.100", "beta 0.100"]
aal = "aal34"
"#
        )
    };
    // As they are on a cell link, and as capture makes them of a frame link's SDUs.
    for carries in ["cells", "frames"] {
        let up = Up::new(&network(carries));
        program::compile("echo.c", &up.path("echo"), &[]).unwrap();
        // The link's name has blanks.
        let mut command = up.command("capture");
        command.args(["alpha - beta", "link.pcapng", "--what", "cells", "--seconds", "6"]);
        let mut capture = Peer::start(&mut command).unwrap();
        capture.wait_for("capturing", WAIT).unwrap();
        let mut answer = Peer::start(&mut up.command(&format!("run -- ./echo 1 100 {ATM_AAL34} answer"))).unwrap();
        answer.wait_for("echo: bound", WAIT).unwrap();
        let asked = up.run(&format!("run -- ./echo 0 100 {ATM_AAL34} ask 7"));
        assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stdout));
        assert!(capture.wait(WAIT).unwrap().0.success());
        let cells = cells_of(&std::fs::read(up.path("link.pcapng")).unwrap());
        let due: usize = [2, 36, 37, 40, 44, 48, 1500].map(sar::aal34::cells).iter().sum::<usize>() * 2 + 1;
        assert_eq!(cells.len(), due, "{carries}");
        let cells: Vec<(Aal, Cell)> = cells.into_iter().map(|cell| (Aal::ThreeFour, cell)).collect();
        let mut file = tempfile::Builder::new().suffix(".enc").tempfile().unwrap();
        file.write_all(&tshark::sniffer(&cells)).unwrap();
        let text = tshark::decode(file.path(), "aal3_4").unwrap();
        let crcs = |verdict| text.lines().filter(|line| line.contains(" CRC: ") && line.contains(verdict)).count();
        assert_eq!((crcs("(correct)"), crcs("incorrect")), (due, 0), "{text}");
        let rows = tshark::fields(file.path(), &["atm.aal3_4.multiplex_id"]).unwrap();
        assert!(rows.iter().all(|row| row == &["0"]), "MID 0 is what applications send under");
    }
}
