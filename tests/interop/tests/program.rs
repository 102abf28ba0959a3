//! The program and its peers: a Linux guest in a network that `cellway up` brought up, with `send` and `receive`.

use interop::frames::free_port;
use interop::guest::{Guest, PATIENCE, aread_sdu, exchange};
use interop::pattern;
use interop::up::Up;
use std::time::Duration;

const WAIT: Duration = Duration::from_secs(30);

#[test]
fn a_guest_joins_a_network_that_cellway_up_brought_up() {
    if !Guest::available() {
        return;
    }
    let port = free_port();
    let up = Up::new(&format!(
        r#"
[host.alpha]
[switch.s1]
[outside.linux]
[[link]]
ends = ["alpha", "s1:0"]
rate = "OC-3c"
[[link]]
ends = ["s1:1", "linux"]
atmtcp = "listen 127.0.0.1:{port}"
[[circuit]]
ends = ["alpha 0.100", "linux 0.100"]
[[circuit]]
ends = ["alpha 0.101", "linux 0.101"]
[[circuit]]
ends = ["alpha 0.102", "linux 0.102"]
[[circuit]]
ends = ["alpha 0.103", "linux 0.103"]
"#
    ));
    let file = pattern(70_000);
    std::fs::write(up.path("download"), &file).unwrap();
    std::fs::write(up.path("note"), b"a PDU of the program").unwrap();
    let mut line = up.start_command("receive alpha 0.100 line --count 1");
    // 70 000 octets are 7 PDUs of 9180 and a shorter one; what ttcp sends after those is only its mark of the end.
    let mut upload = up.start_command("receive alpha 0.102 upload --count 8");
    up.wait_for_endpoints(2, WAIT);
    let script = exchange(port);
    let mut guest = Guest::boot(&script, &[("file", &file)]).unwrap();
    guest.wait_for("guest: ready").unwrap();
    for receiver in [&mut line, &mut upload] {
        let (status, said) = receiver.wait(PATIENCE).unwrap();
        assert!(status.success(), "{said:?}");
    }
    assert_eq!(std::fs::read(up.path("line")).unwrap(), b"a PDU of the guest");
    assert!(std::fs::read(up.path("upload")).unwrap() == file, "the file came changed from the guest");
    for send in ["send alpha 0.101 note", "send alpha 0.103 download"] {
        let sent = up.run(send);
        assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
    }
    let report = guest.finish().unwrap();
    assert!(report.file("/tmp/download").unwrap() == file, "the file came changed to the guest");
    let read: Vec<Vec<u8>> = report.console.iter().filter_map(|line| aread_sdu(line)).collect();
    assert_eq!(read, [b"a PDU of the program".to_vec()]);
}
