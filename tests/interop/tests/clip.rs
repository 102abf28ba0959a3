//! IP over ATM with the kernel's Classical IP (`clip`, `atmarpd`) as the peer: RFC 2684 LLC/SNAP, InATMARP, MTU 9180.

use endpoint::OpenOptions;
use interop::guest::Guest;
use interop::lan::Lan;
use interop::pattern;
use stack::device::inprocess::Host;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[test]
fn a_guest_with_classical_ip_pings_us_and_carries_tcp() {
    if !Guest::available() {
        return;
    }
    // Nobody is on the other circuit: only InATMARP can say on which of the two the guest's address is.
    let lan = Lan::new(&[99, 100]).unwrap();
    let mut alpha = lan.endpoint("alpha").unwrap();
    let mut open = |circuit: &str| alpha.open(circuit.parse().unwrap(), OpenOptions::default()).unwrap().0;
    let channels = [open("0.99"), open("0.100")];
    let mut host = Host::new(alpha, Ipv4Addr::new(10, 0, 0, 1), 24, stack::ip::MTU, &channels);

    let file = pattern(300_000);
    let script = format!(
        r#"
        atmtcp virtual connect 10.0.2.2 {port} 2>&1 &
        sleep 1
        atmarpd -b -l /tmp/atmarpd.log
        sleep 0.5
        atmarp -c atm0
        ip addr add 10.0.0.2/24 dev atm0
        ip link set atm0 up
        atmarp -s 10.0.0.1 0.100
        sleep 1
        atmarp -a
        ip link show atm0
        ping -c 3 -w 20 10.0.0.1
        ping -c 2 -w 20 -s 9000 10.0.0.1
        say pinged
        nc 10.0.0.1 5001 < /test/file
        cat /proc/net/atm/arp
        "#,
        port = lan.port(0),
    );
    let mut guest = Guest::boot(&script, &[("file", &file)]).unwrap();
    let pinged = Arc::new(AtomicBool::new(false));
    let done = Arc::clone(&pinged);
    let console = std::thread::spawn(move || {
        let result = guest.wait_for("guest: pinged");
        done.store(true, Ordering::Relaxed);
        result.map(|_| guest)
    });
    host.serve_until(|| pinged.load(Ordering::Relaxed)).unwrap();
    let guest = console.join().unwrap().unwrap();
    let mut received = Vec::new();
    host.tcp_receive(5001, Duration::from_secs(60), |octets| received.extend_from_slice(octets)).unwrap();
    let report = guest.finish().unwrap();
    let console = report.console.join("\n");
    assert!(received == file, "{} octets came by TCP, {} were sent\n{console}", received.len(), file.len());
    for line in ["3 packets transmitted, 3 packets received", "2 packets transmitted, 2 packets received", "mtu 9180"] {
        assert!(console.contains(line), "no {line:?}:\n{console}");
    }
}
