//! PPP over ATM (RFC 2364) with the kernel's `pppoatm` as the peer, in a guest. Our side, `cellway ip ppp`, gives its frames to a
//! `pppd` as the octets of an asynchronous line; that `pppd` lives in the same guest, in a network namespace of its own, so that no
//! machine needs a PPP driver for the test.

use interop::frames::free_port;
use interop::guest::{Guest, PATIENCE};
use interop::namespace::accept;
use interop::up::Up;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::process::Stdio;

#[test]
fn pppd_over_our_circuit_and_a_guest_with_pppoatm_ping_each_other() {
    if !Guest::available() || !interop::have(&[("pppd", "ppp")]) {
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
[[link]]
ends = ["s1:1", "linux"]
atmtcp = "listen 127.0.0.1:{port}"
[[circuit]]
ends = ["alpha 0.100", "linux 0.100"]
[[circuit]]
ends = ["alpha 0.101", "linux 0.101"]
"#
    ));
    let mut script = format!(
        r#"
        mkdir -p /dev/pts /etc/ppp
        mount -t devpts devpts /dev/pts
        touch /etc/ppp/options
        atmtcp virtual connect 10.0.2.2 {port} 2>&1 &
        interfaces 1
        "#
    );
    let mut lines = Vec::new();
    let kinds = [("ip ppp alpha 0.100", "vc-encaps", 0), ("ip ppp alpha 0.101 --llc", "llc-encaps", 1)];
    for (ours, option, i) in kinds {
        let mut ours = up.command(ours);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        lines.push(std::thread::spawn(move || {
            let line = OwnedFd::from(accept(&listener, PATIENCE).unwrap().0);
            ours.stdin(line.try_clone().unwrap())
                .stdout(line)
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
                .wait_with_output()
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
    // The line ends with the guest, and `cellway ip ppp` with the line.
    for line in lines {
        let output = line.join().unwrap().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let frames: Vec<u64> = said.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        assert!(output.status.success(), "{said}");
        assert!(frames.len() == 2 && frames.iter().all(|n| *n > 100), "{said}");
    }
    let status: serde_json::Value = serde_json::from_slice(&up.run("status --json").stdout).unwrap();
    for end in status["circuits"].as_array().unwrap().iter().map(|circuit| &circuit["ends"][0]) {
        assert_eq!(end["received"]["dropped"], serde_json::json!({}), "{end}");
    }
}
