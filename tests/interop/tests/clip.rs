//! IP over ATM with the kernel's Classical IP (`clip`, `atmarpd`) as the peer: RFC 2684 LLC/SNAP, InATMARP, MTU 9180; an ATMARP
//! server of ours with which the guest registers; and the kernels of both machines carrying TCP to each other.

use endpoint::OpenOptions;
use interop::guest::Guest;
use interop::lan::Lan;
use interop::namespace::{self, Namespace, accept, connect, device, listen};
use interop::pattern;
use stack::device::inprocess::Host;
use stack::device::tun::{Settings, Tun};
use stack::ip::Config;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wire::atmarp::AtmAddress;

/// What a guest runs to have Classical IP over its link to `port`: itself 10.0.0.2, and 10.0.0.1 on 0.100.
fn joined(port: u16) -> String {
    format!(
        r#"
        atmtcp virtual connect 10.0.2.2 {port} 2>&1 &
        interfaces 1
        atmarpd -b -l /tmp/atmarpd.log
        again atmarp -c atm0
        ip addr add 10.0.0.2/24 dev atm0
        ip link set atm0 up
        again atmarp -s 10.0.0.1 0.100
        opened 100
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
        # The first request makes us ask who is there, and its answer waits for that.
        /test/pings 3 10.0.0.1 56
        /test/pings 2 10.0.0.1 9000
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
    for line in ["3 of 3 answered", "2 of 2 answered", "mtu 9180"] {
        assert!(console.contains(line), "no {line:?}:\n{console}");
    }
}

const TRANSFER_OCTETS: usize = 50_000_000;
const OURS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const GUEST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

/// What a guest runs to send and to receive a file, once it has Classical IP.
const FILES: &str = r#"
    head -c 50000000 /dev/urandom > /tmp/out
    sha256sum /tmp/out
    nc 10.0.0.1 5001 < /tmp/out
    rm /tmp/out
    nc -l -p 5002 > /tmp/in &
    receiver=$!
    say ready
    wait $receiver
    sha256sum /tmp/in
    "#;

/// The other side of that, in `host`; gives the guest's console. The sums of both files are the same on both sides.
fn carry_files(host: &Namespace, listener: &TcpListener, mut guest: Guest) -> String {
    let (mut stream, _) = accept(listener, interop::guest::PATIENCE).unwrap();
    let mut received = Vec::new();
    let begin = Instant::now();
    stream.read_to_end(&mut received).unwrap();
    println!("from the guest: {} octets in {:?}", received.len(), begin.elapsed());
    drop(stream);
    guest.wait_for("guest: ready").unwrap();
    let file = pattern(TRANSFER_OCTETS);
    let sent = file.clone();
    let sending = host.run(move || {
        let begin = Instant::now();
        let mut stream = connect(GUEST, 5002)?;
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
    console
}

#[test]
fn the_kernels_of_guest_and_host_carry_files_both_ways_over_classical_ip() {
    if !Guest::available() || !namespace::available() {
        return;
    }
    let lan = Lan::new(&[100]).unwrap();
    let host = Namespace::new("clip").unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    // Work is offered to the guest, which does not know of that and must not notice.
    let ip = Config { offload: true, ..Config::new(OURS) };
    let settings = Settings { device_offload: true, ..Settings::new("atm0", 24, ip) };
    let running = device(&lan, &host, ("alpha", 100), settings, &stop).unwrap();
    let listener = host.run(move || listen(OURS, 5001)).join().unwrap();
    let script = format!("{}\n/test/pings 2 10.0.0.1 9000\n{FILES}", joined(lan.port(0)));
    let console = carry_files(&host, &listener, Guest::boot(&script, &[]).unwrap());
    assert!(console.contains("2 of 2 answered"), "{console}");
    stop.store(true, Ordering::Relaxed);
    running.join().unwrap();
}

/// The guest's atmarpd as the server, by permanent circuits: each is entered with an address that nobody has and that may change
/// (`temp`) and be told (`pub`). Who is there it learns from what comes on the circuit, as a server does.
#[test]
fn we_register_at_the_guests_atmarpd_which_refuses_our_address_to_another_and_carry_files_both_ways() {
    if !Guest::available() || !namespace::available() {
        return;
    }
    let lan = Lan::with(&[("alpha", "left", &[100]), ("beta", "right", &[101])]).unwrap();
    let host = Namespace::new("atmarpd").unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let number = |last: u8| AtmAddress::new(&[&[0x47][..], &[0; 18], &[last]].concat(), false).unwrap();
    let mut alpha = lan.endpoint("alpha").unwrap();
    let channel = alpha.open("0.100".parse().unwrap(), OpenOptions::default()).unwrap().0;
    let settings = Settings {
        device_offload: true,
        ..Settings::new("atm0", 24, Config { number: number(1), ..Config::new(OURS) })
    };
    let ends = Arc::clone(&stop);
    let running = host.run(move || {
        let mut tun = Tun::new(&settings, alpha, &[channel])?;
        tun.ip().use_server(channel, wire::Time::ZERO);
        tun.run(|| ends.load(Ordering::Relaxed))?;
        Ok(tun.ip().client().is_some_and(|client| client.is_registered() && client.duplicate().is_none()))
    });
    let listener = host.run(move || listen(OURS, 5001)).join().unwrap();

    let script = format!(
        r#"
        mkdir -p /var/run
        atmtcp virtual 0 connect 10.0.2.2 {left} 2>&1 &
        interfaces 1
        atmtcp virtual 1 connect 10.0.2.2 {right} 2>&1 &
        interfaces 2
        atmarpd -b -n -l /tmp/atmarpd.log
        again atmarp -c atm0
        ip addr add 10.0.0.2/24 dev atm0
        ip link set atm0 up
        again atmarp -s 10.0.0.99 0.100 temp pub
        again atmarp -s 10.0.0.98 1.0.101 temp pub
        for n in $(seq 400); do
            atmarp -a | grep -qw 10.0.0.1 && break
            sleep 0.5
        done
        atmarp -a
        say registered
        /test/pings 3 10.0.0.1 56
        /test/pings 2 10.0.0.1 9000
        {FILES}
        echo "the table in the end:"
        atmarp -a
        cat /proc/net/atm/arp /tmp/atmarpd.log
        "#,
        left = lan.port(0),
        right = lan.port(1),
    );
    let mut guest = Guest::boot(&script, &[]).unwrap();
    guest.wait_for("guest: registered").unwrap();
    let before = guest.log().join("\n");
    assert!(
        before.contains("IP 10.0.0.1, state VALID, addr 47.") && !before.contains("IP 10.0.0.99,"),
        "not entered, or beside:\n{before}"
    );

    // Somebody else claims the same address, on the other circuit.
    let beta = lan.endpoint("beta").unwrap();
    let other = std::thread::spawn(move || {
        let mut beta = beta;
        let channel = beta.open("0.101".parse().unwrap(), OpenOptions::default()).unwrap().0;
        let config = Config { number: number(2), ..Config::new(OURS) };
        let mut host = Host::new(beta, OURS, 24, stack::ip::MTU, &[]).with(config, &[channel]);
        host.stack().ip().use_server(channel, wire::Time::ZERO);
        let end = Instant::now() + interop::guest::PATIENCE;
        while host.stack().ip().client().is_some_and(|client| client.duplicate().is_none()) && Instant::now() < end {
            let slice = Instant::now() + Duration::from_millis(200);
            host.serve_until(|| Instant::now() > slice).unwrap();
        }
        let client = host.stack().ip().client().unwrap();
        assert!(!client.is_registered());
        client.duplicate().map(|end| end.number)
    });
    let console = carry_files(&host, &listener, guest);
    assert_eq!(other.join().unwrap(), Some(number(1)), "the server names who has the address:\n{console}");
    for line in ["3 of 3 answered", "2 of 2 answered"] {
        assert!(console.contains(line), "no {line:?}:\n{console}");
    }
    let (_, table) = console.split_once("the table in the end:").unwrap();
    assert!(table.contains("IP 10.0.0.1, state VALID, addr 47.") && table.contains("IP 10.0.0.98,"), "{table}");
    stop.store(true, Ordering::Relaxed);
    assert!(running.join().unwrap(), "the server has not confirmed our address:\n{console}");
}
