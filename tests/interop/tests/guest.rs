//! A Linux 5.10 guest with the kernel's own ATM stack as the peer.

use endpoint::OpenOptions;
use interop::guest::{Guest, PATIENCE, aread_sdu, exchange};
use interop::lan::Lan;
use interop::pattern;

/// The judge before the judged: two ATM over TCP ends in one guest, without Cellway. If this fails, the guest is at
/// fault and not the link.
#[test]
fn two_kernel_interfaces_in_one_guest_pass_an_sdu() {
    if !Guest::available() {
        return;
    }
    let script = r#"
        atmtcp virtual listen 9000 2>&1 &
        # Port 9000, and listened on.
        until grep -q ':2328 00000000:0000 0A' /proc/net/tcp; do sleep 0.1; done
        atmtcp virtual connect 127.0.0.1 9000 2>&1 &
        interfaces 2
        aread 0.0.100 &
        opened 100
        awrite 1.0.100 "a PDU of the kernel"
        sleep 0.5
        cat /proc/net/atm/devices
    "#;
    let report = Guest::boot(script, &[]).unwrap().finish().unwrap();
    assert_eq!(report.console.iter().find_map(|line| aread_sdu(line)).unwrap(), b"a PDU of the kernel");
    assert_eq!(report.aal5_counters(0).unwrap(), [0, 0, 1, 0, 0]);
    assert_eq!(report.aal5_counters(1).unwrap(), [1, 0, 0, 0, 0]);
}

/// An application's endpoint in shared memory, a cell link, a switch, ATM over TCP, the kernel's ATM stack: each way.
#[test]
fn a_guest_exchanges_aal5_pdus_with_an_application_octet_for_octet() {
    if !Guest::available() {
        return;
    }
    let lan = Lan::new(&[100, 101, 102, 103]).unwrap();
    let mut alpha = lan.endpoint("alpha").unwrap();
    let mut channel = |vci| alpha.open(wire::CircuitId::new(0, vci).unwrap(), OpenOptions::default()).unwrap();
    let (write, read, upload, download) = (channel(100), channel(101), channel(102), channel(103));

    // A file of several PDUs, the last one shorter; no PDU of ttcp's is as short as its end marks.
    let file = pattern(70_000);
    let script = format!("{}\n cat /proc/net/atm/devices\n", exchange(lan.port(0)));
    let mut guest = Guest::boot(&script, &[("file", &file)]).unwrap();

    let first = alpha.receive(Some(PATIENCE)).unwrap().expect("the SDU of awrite");
    assert_eq!((first.channel(), &first[..]), (write, &b"a PDU of the guest"[..]));
    drop(first);
    let mut uploaded = Vec::new();
    while uploaded.len() < file.len() {
        let sdu = alpha.receive(Some(PATIENCE)).unwrap().expect("an SDU of ttcp_atm");
        assert_eq!(sdu.channel(), upload);
        uploaded.extend_from_slice(&sdu);
    }
    assert!(uploaded[..file.len()] == file, "the file arrived changed from the guest");

    guest.wait_for("guest: ready").unwrap();
    let sdus = [pattern(1), pattern(41), pattern(48), pattern(1000)];
    for sdu in &sdus {
        alpha.send_copy(read, sdu).unwrap();
    }
    for sdu in file.chunks(9180) {
        alpha.send_copy(download, sdu).unwrap();
    }
    let report = guest.finish().unwrap();
    let downloaded = report.file("/tmp/download").unwrap();
    assert!(downloaded == file, "{} octets arrived in the guest, changed", downloaded.len());
    let read: Vec<Vec<u8>> = report.console.iter().filter_map(|line| aread_sdu(line)).collect();
    assert!(read == sdus, "aread printed:\n{}", report.console.join("\n"));
}
