//! The kernel's own TCP/IP stack as the user at both ends: two network namespaces, each with a TUN device of ours, and
//! between them nothing but a circuit. So the kernel judges every header and checksum that crosses.

use interop::lan::Lan;
use interop::namespace::{Namespace, accept, available, device, listen};
use interop::pattern;
use interop::up::Up;
use stack::device::tun::Settings;
use stack::ip::Config;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const ALPHA: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
const BETA: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 2);
const PATIENCE: Duration = Duration::from_secs(120);

#[test]
fn the_kernel_pings_and_carries_tcp_through_our_circuit() {
    if available() {
        carry(false, false);
    }
}

#[test]
fn two_devices_that_leave_work_to_each_other_carry_the_same() {
    if available() {
        carry(true, true);
    }
}

#[test]
fn a_device_that_leaves_work_cuts_and_completes_packets_for_one_that_does_not() {
    if available() {
        carry(true, false);
    }
}

/// An interface of each of the hosts alpha and beta: `atm0` at 10.20.0.1 and 10.20.0.2, in these namespaces.
fn interfaces(namespaces: [&Namespace; 2]) -> String {
    let ends = [("alpha", 1), ("beta", 2)].into_iter().zip(namespaces);
    let one = |((host, own), namespace): ((&str, u8), &Namespace)| {
        let namespace = namespace.path();
        format!(
            r#"
[interface.{host}]
host = "{host}"
device = "atm0"
address = "10.20.0.{own}/24"
namespace = "{namespace}"
"#
        )
    };
    ends.map(one).collect()
}

/// The first packet goes to a peer that has not said yet who it is, for it is far away; nor is there only one circuit.
#[test]
fn the_first_packet_waits_until_it_is_known_on_which_circuit_its_destination_is() {
    if !available() {
        return;
    }
    let [red, blue] = ["first-red", "first-blue"].map(|name| Namespace::new(name).unwrap());
    let interfaces = interfaces([&red, &blue]);
    let description = format!(
        r#"
[switch.s1]
[host.gamma]
{interfaces}
[[link]]
ends = ["alpha", "s1:0"]
[[link]]
ends = ["beta", "s1:1"]
delay_us = 100000
[[link]]
ends = ["gamma", "s1:2"]
[[circuit]]
ends = ["alpha 0.100", "gamma 0.100"]
[[circuit]]
ends = ["alpha 0.101", "beta 0.100"]
"#
    );
    // A machine on which all stands still for three seconds may lose one; not always.
    let answered = || {
        let _up = Up::new(&description);
        let said = red.output(&["ping", "-c", "1", "-W", "60", "10.20.0.2"]).unwrap();
        println!("{said}");
        said.contains("1 packets transmitted, 1 received")
    };
    assert!((0..3).any(|_| answered()));
}

/// An interface of a description, whose device somebody deletes: it is said at once, and SIGHUP brings it back.
#[test]
fn a_device_that_is_deleted_is_missed_at_once_and_comes_back_when_the_description_is_read_again() {
    if !available() {
        return;
    }
    let [red, blue] = ["red", "blue"].map(|name| Namespace::new(name).unwrap());
    let interfaces = interfaces([&red, &blue]);
    let mut up = Up::new(&format!(
        r#"
[switch.s1]
{interfaces}
[[link]]
ends = ["alpha", "s1:0"]
[[link]]
ends = ["beta", "s1:1"]
[[circuit]]
ends = ["alpha 0.100", "beta 0.100"]
"#
    ));
    let pinged = |said: String| said.contains(" 1 received");
    let ping = || pinged(red.output(&["ping", "-c", "1", "-i", "0.2", "-w", "60", "10.20.0.2"]).unwrap());
    assert!(ping());
    for round in 0..2 {
        blue.output(&["ip", "link", "delete", "atm0"]).unwrap();
        up.wait_for("interface atm0: the device has been deleted; SIGHUP makes it again");
        let listed = String::from_utf8_lossy(&up.run("link list").stdout).into_owned();
        assert!(listed.contains("atm0: the device has been deleted"), "{listed}");
        assert!(!pinged(red.output(&["ping", "-c", "1", "-W", "1", "10.20.0.2"]).unwrap()));
        let links: serde_json::Value = serde_json::from_slice(&up.run("link list --json").stdout).unwrap();
        assert!(links.to_string().contains("link_down"), "{links}");
        up.hang_up();
        up.wait_for("applied");
        assert!(ping(), "round {round}");
    }
}

/// Pings and a TCP transfer from alpha to beta, each with or without offload.
fn carry(alpha_offload: bool, beta_offload: bool) {
    let lan = Lan::of_two_hosts(100).unwrap();
    let (a, b) = (Namespace::new("a").unwrap(), Namespace::new("b").unwrap());
    let stop = Arc::new(AtomicBool::new(false));
    let settings = |address, offload| {
        let ip = Config { offload, ..Config::new(address) };
        Settings::new("atm0", 24, ip)
    };
    let devices = [
        device(&lan, &a, ("alpha", 100), settings(ALPHA, alpha_offload), &stop).unwrap(),
        device(&lan, &b, ("beta", 100), settings(BETA, beta_offload), &stop).unwrap(),
    ];

    let listener = b.run(|| listen(BETA, 5001)).join().unwrap();
    // The other device is up when its address can be bound to.
    drop(a.run(|| listen(ALPHA, 5001)).join().unwrap());

    // Whoever is at the far end is asked for by InATMARP, for whose answer the first packet waits.
    let first = a.output(&["ping", "-c", "1", "-i", "0.2", "-w", "60", "10.99.0.2"]).unwrap();
    assert!(first.contains(" 1 received"), "nobody answers:\n{first}");
    // Five and no more, however late the answers are: with -w ping would send on until it has five of them.
    // 9152 octets of data, ICMP and IP headers: exactly the MTU, and not to be fragmented.
    for size in ["56", "9152"] {
        let said =
            a.output(&["ping", "-c", "5", "-i", "0.2", "-W", "60", "-M", "do", "-s", size, "10.99.0.2"]).unwrap();
        assert!(said.contains("5 packets transmitted, 5 received, 0% packet loss"), "ping -s {size}:\n{said}");
    }
    let said = a.output(&["ping", "-c", "1", "-W", "1", "-M", "do", "-s", "9153", "10.99.0.2"]).unwrap();
    assert!(said.contains("mtu=9180") || said.contains("mtu 9180"), "the kernel knows the MTU:\n{said}");

    let file = Arc::new(pattern(20_000_000));
    let sent = Arc::clone(&file);
    let sender = a.run(move || {
        let mut stream = TcpStream::connect((BETA, 5001))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(stream.write_all(&sent)?)
    });
    let (mut stream, from) = accept(&listener, PATIENCE).unwrap();
    assert_eq!(from, ALPHA);
    let mut received = Vec::new();
    let begin = Instant::now();
    stream.read_to_end(&mut received).unwrap();
    let took = begin.elapsed();
    sender.join().unwrap();
    assert!(received == *file, "{} octets came by TCP, {} were sent", received.len(), file.len());
    println!("TCP: {} octets in {took:?}", received.len());

    stop.store(true, Ordering::Relaxed);
    for device in devices {
        device.join().unwrap();
    }
}
