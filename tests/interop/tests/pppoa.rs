//! PPP over ATM (RFC 2364) with the kernel's `pppoatm` as the peer, in a guest. Our side gives its frames to a `pppd` as the octets of
//! an asynchronous line; that `pppd` lives in the same guest, in a network namespace of its own, so that no machine needs
//! a PPP driver for the test.

use endpoint::OpenOptions;
use interop::guest::{Guest, PATIENCE};
use interop::lan::Lan;
use interop::namespace::accept;
use stack::device::pppd;
use stack::ppp::Encapsulation;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn pppd_over_our_circuit_and_a_guest_with_pppoatm_ping_each_other() {
    if !Guest::available() || !interop::have(&[("pppd", "ppp")]) {
        return;
    }
    let lan = Lan::new(&[100, 101]).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let mut script = format!(
        r#"
        mkdir -p /dev/pts /etc/ppp
        mount -t devpts devpts /dev/pts
        touch /etc/ppp/options
        atmtcp virtual connect 10.0.2.2 {} 2>&1 &
        sleep 1
        "#,
        lan.port(0)
    );
    let mut lines = Vec::new();
    let kinds = [(Encapsulation::Vc, "vc-encaps", 0), (Encapsulation::Llc, "llc-encaps", 1)];
    for (encapsulation, option, i) in kinds {
        let mut endpoint = lan.endpoint("alpha").unwrap();
        let channel = endpoint.open(format!("0.10{i}").parse().unwrap(), OpenOptions::default()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let stop = Arc::clone(&stop);
        lines.push(std::thread::spawn(move || {
            let (stream, _) = accept(&listener, PATIENCE).unwrap();
            pppd::run(&mut endpoint, channel, encapsulation, &stream, &stream, || stop.load(Ordering::Relaxed))
        }));
        script += &format!(
            r#"
            pppd plugin pppoatm.so 0.0.10{i} {option} nodetach noauth noccp 10.9.{i}.2:10.9.{i}.1 > /tmp/kernel{i} 2>&1 &
            mkfifo /tmp/in{i} /tmp/out{i}
            nc 10.0.2.2 {port} < /tmp/out{i} > /tmp/in{i} &
            unshare -n sh -c '
                pppd notty nodetach noauth noccp 10.9.{i}.1:10.9.{i}.2 logfile /tmp/line{i} > /tmp/out{i} < /tmp/in{i} &
                for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
                    ip addr show ppp0 2> /dev/null | grep -q 10.9.{i}.2 && break
                    sleep 1
                done
                echo guest: {option} $(/test/pings 3 10.9.{i}.2 56)
                echo guest: {option} long $(/test/pings 2 10.9.{i}.2 5000)
                nc -l -p 5002 -e sh /test/keep /tmp/to{i} &
                kept=$!
                for n in $(seq 60); do nc 10.9.{i}.2 5001 < /test/file > /dev/null && break; sleep 1; done
                wait $kept
            ' &
            side=$!
            nc -l -p 5001 -e sh /test/keep /tmp/from{i}
            for n in $(seq 60); do nc 10.9.{i}.1 5002 < /test/file > /dev/null && break; sleep 1; done
            wait $side
            sha256sum /tmp/from{i} /tmp/to{i}
            cat /tmp/kernel{i} /tmp/line{i}
            "#
        );
    }
    let file = interop::pattern(200_000);
    // Whoever listens keeps what comes until its sender has ended.
    let guest = Guest::boot(&script, &[("file", &file), ("keep", b"cat > $1\n")]).unwrap();
    let console = guest.finish().unwrap().console.join("\n");
    let sum = interop::sha256(&file);
    for (_, option, i) in kinds {
        for line in [
            format!("guest: {option} 3 of 3 answered"),
            format!("guest: {option} long 2 of 2 answered"),
            // A file each way, by TCP.
            format!("{sum}  /tmp/from{i}"),
            format!("{sum}  /tmp/to{i}"),
        ] {
            assert!(console.contains(&line), "no {line:?}:\n{console}");
        }
    }
    stop.store(true, Ordering::Relaxed);
    for line in lines {
        let passed = line.join().unwrap().unwrap();
        assert!(passed.sent.pdus > 5 && passed.received.pdus > 5, "{passed:?}");
        assert_eq!(passed.received.dropped_total() + passed.sent.dropped_total(), 0, "{passed:?}");
    }
}
