//! IP over ATM with the kernel's Classical IP (`clip`, `atmarpd`) as the peer: RFC 2684 LLC/SNAP, InATMARP, MTU 9180; an ATMARP
//! server of ours with which the guest registers; and the kernels of both machines carrying TCP to each other.

use endpoint::OpenOptions;
use interop::guest::Guest;
use interop::lan::Lan;
use interop::namespace::{self, Namespace, accept, device, listen};
use interop::pattern;
use stack::device::inprocess::Host;
use stack::device::tun::Settings;
use stack::ip::Config;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What a guest runs to have Classical IP over its link to `port`: itself 10.0.0.2, and 10.0.0.1 on 0.100.
fn joined(port: u16) -> String {
    format!(
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
        "#
    )
}

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
    // The guest registers as RFC 1577 has it: by its answer to the InATMARP request of the server. Its atmarpd uses
    // ATMARP servers on switched circuits only, which need calls; so it asks nothing of ours.
    host.stack().ip().serve(8, wire::Time::ZERO);

    let file = pattern(300_000);
    let script = format!(
        r#"
        {joined}
        atmarp -a
        ip link show atm0
        # The first packet makes us ask who is there.
        ping -c 1 -w 3 10.0.0.1 > /dev/null
        ping -c 3 -w 20 10.0.0.1
        ping -c 2 -w 20 -s 9000 10.0.0.1
        say pinged
        nc 10.0.0.1 5001 < /test/file
        cat /proc/net/atm/arp
        "#,
        joined = joined(lan.port(0)),
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
    let guest_ip = Ipv4Addr::new(10, 0, 0, 2);
    let registered: Vec<_> =
        host.stack().ip().server().unwrap().entries().map(|(ip, _, circuit)| (ip, circuit)).collect();
    assert_eq!(registered, [(guest_ip, channels[1])]);
    let report = guest.finish().unwrap();
    let console = report.console.join("\n");
    assert!(received == file, "{} octets came by TCP, {} were sent\n{console}", received.len(), file.len());
    for line in ["3 packets transmitted, 3 packets received", "2 packets transmitted, 2 packets received", "mtu 9180"] {
        assert!(console.contains(line), "no {line:?}:\n{console}");
    }
}

const TRANSFER_OCTETS: usize = 50_000_000;

#[test]
fn the_kernels_of_guest_and_host_carry_files_both_ways_over_classical_ip() {
    if !Guest::available() || !namespace::available() {
        return;
    }
    let ours = Ipv4Addr::new(10, 0, 0, 1);
    let lan = Lan::new(&[100]).unwrap();
    let host = Namespace::new("clip").unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    // Work is offered to the guest, which does not know of that and must not notice.
    let ip = Config { offload: true, ..Config::new(ours) };
    let settings = Settings { device_offload: true, ..Settings::new("atm0", 24, ip) };
    let running = device(&lan, &host, ("alpha", 100), settings, &stop).unwrap();
    let listener = host.run(move || listen(ours, 5001)).join().unwrap();

    let script = format!(
        r#"
        {joined}
        ping -c 2 -w 20 -s 9000 10.0.0.1
        head -c {TRANSFER_OCTETS} /dev/urandom > /tmp/out
        sha256sum /tmp/out
        nc 10.0.0.1 5001 < /tmp/out
        rm /tmp/out
        nc -l -p 5002 > /tmp/in &
        receiver=$!
        say ready
        wait $receiver
        sha256sum /tmp/in
        "#,
        joined = joined(lan.port(0)),
    );
    let mut guest = Guest::boot(&script, &[]).unwrap();
    let (mut stream, _) = accept(&listener, interop::guest::PATIENCE).unwrap();
    let mut received = Vec::new();
    let begin = std::time::Instant::now();
    stream.read_to_end(&mut received).unwrap();
    println!("from the guest: {} octets in {:?}", received.len(), begin.elapsed());
    drop(stream);
    guest.wait_for("guest: ready").unwrap();
    let file = pattern(TRANSFER_OCTETS);
    let sent = file.clone();
    let sending = host.run(move || {
        let begin = std::time::Instant::now();
        let mut stream = TcpStream::connect((Ipv4Addr::new(10, 0, 0, 2), 5002))?;
        stream.write_all(&sent)?;
        stream.shutdown(std::net::Shutdown::Write)?;
        // The guest closes when it has it all.
        let _ = stream.read(&mut [0])?;
        println!("to the guest: {} octets in {:?}", sent.len(), begin.elapsed());
        Ok(())
    });
    sending.join().unwrap();
    let console = guest.finish().unwrap().console.join("\n");
    for (name, octets) in [("/tmp/out", &received), ("/tmp/in", &file)] {
        let sum = interop::sha256(octets);
        assert!(console.contains(&format!("{sum}  {name}")), "{name} is {sum} here:\n{console}");
    }
    assert!(console.contains("2 packets transmitted, 2 packets received"), "{console}");
    stop.store(true, Ordering::Relaxed);
    running.join().unwrap();
}
