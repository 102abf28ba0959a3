//! A Linux 5.10 guest with the kernel's own ATM stack as the peer.

use interop::guest::{Guest, aread_sdu};

/// The judge before the judged: two ATM over TCP ends in one guest, without Cellway. If this fails, the guest is at
/// fault and not the link.
#[test]
fn two_kernel_interfaces_in_one_guest_pass_an_sdu() {
    if !Guest::available() {
        return;
    }
    let script = r#"
        atmtcp virtual listen 9000 2>&1 &
        sleep 0.5
        atmtcp virtual connect 127.0.0.1 9000 2>&1 &
        sleep 1
        aread 0.0.100 &
        sleep 0.5
        awrite 1.0.100 "a PDU of the kernel"
        sleep 0.5
        cat /proc/net/atm/devices
    "#;
    let report = Guest::boot(script, &[]).unwrap().finish().unwrap();
    assert_eq!(report.console.iter().find_map(|line| aread_sdu(line)).unwrap(), b"a PDU of the kernel");
    assert_eq!(report.aal5_counters(0).unwrap(), [0, 0, 1, 0, 0]);
    assert_eq!(report.aal5_counters(1).unwrap(), [1, 0, 0, 0, 0]);
}
