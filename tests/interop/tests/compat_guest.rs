//! `cellway run` and a Linux guest: Debian's tools on both sides, here on Cellway's sockets, there on the kernel's.

use interop::frames::free_port;
use interop::guest::{Guest, aread_sdu};
use interop::peer::Peer;
use interop::up::Up;
use interop::{have, pattern};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const WAIT: Duration = Duration::from_secs(60);

fn on(up: &Up, command: &str) -> Command {
    up.command(&format!("run --host alpha -- {command}"))
}

#[test]
fn the_same_tools_on_both_sides_exchange_cells_pdus_and_files() {
    if !have(&[("ttcp_atm", "atm-tools"), ("atmdump", "atm-tools")]) || !Guest::available() {
        return;
    }
    let port = free_port();
    let circuits: String = [(100, "aal5"), (101, "aal5"), (102, "aal5"), (103, "aal5"), (104, "aal0"), (105, "aal0")]
        .iter()
        .map(|(vci, aal)| format!("[[circuit]]\nends = [\"alpha 0.{vci}\", \"linux 0.{vci}\"]\naal = \"{aal}\"\n"))
        .collect();
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
{circuits}
"#
    ));
    let file = pattern(70_000);
    std::fs::write(up.path("file"), &file).unwrap();
    std::fs::write(up.path("sink"), "exec ttcp_atm -r -a -l 9180 0.0.102 > copy").unwrap();
    let mut aread = Peer::start(&mut on(&up, "stdbuf -oL aread 0.0.100")).unwrap();
    let mut dump = Peer::start(&mut on(&up, "atmdump 0.0.104")).unwrap();
    let mut sink = Peer::start(&mut on(&up, "sh sink")).unwrap();
    up.wait_for_endpoints(3, WAIT);
    let script = format!(
        r#"
        atmtcp virtual connect 10.0.2.2 {port} 2>&1 &
        interfaces 1
        aread 0.101 &
        atmdump 0.105 &
        ttcp_atm -r -a -l 9180 0.103 > /tmp/copy &
        opened 101 103 105
        awrite 0.100 "a PDU of the guest"
        head -c 48 /test/file | atmdump -t 1 -c 0.104
        ttcp_atm -t -a -l 9180 0.102 < /test/file
        say ready
        while [ "$(stat -c %s /tmp/copy)" -lt 70000 ]; do sleep 0.2; done
        sleep 0.5
        emit /tmp/copy
        cat /proc/net/atm/devices
        "#
    );
    let mut guest = Guest::boot(&script, &[("file", &file)]).unwrap();
    assert_eq!(aread_sdu(&aread.wait_for("18:", WAIT).unwrap()).unwrap(), b"a PDU of the guest");
    let cell = dump.wait_for("VCI=104", WAIT).unwrap();
    assert!(cell.contains("VPI=0 VCI=104, GFC=0x0, CLP=1, Data SDU 1 (PTI 1)"), "{cell}");
    guest.wait_for("guest: ready").unwrap();
    let copy = || std::fs::read(up.path("copy")).unwrap();
    let begin = Instant::now();
    while copy().len() < file.len() {
        assert!(begin.elapsed() < WAIT, "{} octets came from the guest", copy().len());
        std::thread::sleep(Duration::from_millis(50));
    }
    sink.kill();
    assert!(copy()[..file.len()] == file, "the file came changed from the guest");

    let from_file = |command: &str| {
        let input = std::fs::File::open(up.path("file")).unwrap();
        let output = on(&up, command).stdin(Stdio::from(input)).output().unwrap();
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    };
    from_file("awrite 0.0.101 a-PDU-of-a-tool");
    from_file("atmdump -t 0 0.0.105");
    from_file("ttcp_atm -t -a -l 9180 0.0.103");
    let report = guest.finish().unwrap();
    assert!(report.file("/tmp/copy").unwrap()[..file.len()] == file, "the file came changed to the guest");
    let read: Vec<Vec<u8>> = report.console.iter().filter_map(|line| aread_sdu(line)).collect();
    assert_eq!(read, [b"a-PDU-of-a-tool".to_vec()]);
    let cells: Vec<&String> = report.console.iter().filter(|line| line.contains("VCI=105")).collect();
    assert!(cells.len() == 1 && cells[0].contains("CLP=0, Data SDU 0 (PTI 0)"), "{cells:?}");
    assert_eq!(report.aal5_counters(0).unwrap()[1], 0);
}
