//! RFC 2684 with the kernel's `br2684` as the peer: bridged and routed, LLC and VC multiplexing, each on a circuit of its own, between
//! the TCP/IP stacks of two kernels.

use interop::guest::{Guest, PATIENCE};
use interop::lan::Lan;
use interop::namespace::{self, Namespace, accept, connect, device, listen};
use interop::pattern;
use stack::device::tun::Settings;
use stack::ip::{Config, Encapsulation};
use std::io::{Read as _, Write as _};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn a_guest_with_br2684_pings_us_and_carries_tcp_in_each_encapsulation() {
    if !Guest::available() || !namespace::available() || !interop::have(&[("br2684ctl", "br2684ctl")]) {
        return;
    }
    use Encapsulation::{LlcBridged, LlcRouted, VcBridged, VcRouted};
    // Encapsulation, and the arguments -e (0 LLC, 1 VC multiplexing) and -p (0 routed, 1 bridged) of br2684ctl.
    let kinds =
        [(LlcBridged { fcs: false }, 0, 1), (VcBridged { fcs: false }, 1, 1), (LlcRouted, 0, 0), (VcRouted, 1, 0)];
    let vci = |i: usize| 100 + i as u16;
    let ours = |i: usize| Ipv4Addr::new(10, 1, i as u8, 1);
    let lan = Lan::new(&[0, 1, 2, 3].map(vci)).unwrap();
    let namespace = Namespace::new("br2684").unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let mut devices = Vec::new();
    let mut script = format!("atmtcp virtual connect 10.0.2.2 {} 2>&1 &\ninterfaces 1\n", lan.port(0));
    for (i, (encapsulation, e, p)) in kinds.into_iter().enumerate() {
        let ip = Config { encapsulation, mtu: 1500, ..Config::new(ours(i)) };
        let settings = Settings { device_offload: true, ..Settings::new(&format!("nas{i}"), 24, ip) };
        devices.push(device(&lan, &namespace, ("alpha", vci(i)), settings, &stop).unwrap());
        script += &format!(
            r#"
            br2684ctl -b -c {i} -e {e} -p {p} -a 0.{vci} 2>&1
            again ip addr add 10.1.{i}.2/24 dev nas{i}
            ip link set nas{i} up
            "#,
            vci = vci(i),
        );
    }
    let listeners: Vec<_> =
        (0..kinds.len()).map(|i| namespace.run(move || listen(ours(i), 5001)).join().unwrap()).collect();
    script += r#"
        until [ "$(grep -c vcc /proc/net/atm/br2684)" = 4 ]; do sleep 0.1; done
        cat /proc/net/atm/br2684
        for i in 0 1 2 3; do
            say ping $i $(/test/pings 2 10.1.$i.1 56)
            say long $i $(/test/pings 2 10.1.$i.1 9000)
            nc 10.1.$i.1 5001 < /test/file
            nc -l -p 5002 > /tmp/in$i &
            receiver=$!
            say listens $i
            wait $receiver
            sha256sum /tmp/in$i
        done
        "#;
    let file = pattern(1_000_000);
    let mut guest = Guest::boot(&script, &[("file", &file)]).unwrap();
    let mut received = Vec::new();
    for (i, listener) in listeners.iter().enumerate() {
        let Ok((mut stream, _)) = accept(listener, PATIENCE) else { break };
        let mut octets = Vec::new();
        stream.read_to_end(&mut octets).unwrap();
        received.push(octets);
        drop(stream);
        // And back.
        guest.wait_for(&format!("guest: listens {i}")).unwrap();
        let file = file.clone();
        let sending = namespace.run(move || {
            let mut stream = connect(Ipv4Addr::new(10, 1, i as u8, 2), 5002)?;
            stream.write_all(&file)?;
            stream.shutdown(std::net::Shutdown::Write)?;
            let _ = stream.read(&mut [0])?;
            Ok(())
        });
        sending.join().unwrap();
    }
    let console = guest.finish().unwrap().console.join("\n");
    for (i, (encapsulation, ..)) in kinds.into_iter().enumerate() {
        for what in ["ping", "long"] {
            let line = format!("guest: {what} {i} 2 of 2 answered");
            assert!(console.contains(&line), "no {line:?}:\n{console}");
        }
        let back = format!("{}  /tmp/in{i}", interop::sha256(&file));
        assert!(console.contains(&back), "another file came to the guest with {encapsulation:?}:\n{console}");
        let octets = received.get(i).map_or(0, Vec::len);
        assert!(received.get(i) == Some(&file), "{octets} octets by TCP with {encapsulation:?}:\n{console}");
    }
    stop.store(true, Ordering::Relaxed);
    for device in devices {
        device.join().unwrap();
    }
}
