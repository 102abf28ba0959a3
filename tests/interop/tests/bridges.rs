//! Devices as people need them: bridged without an address, with one MAC address over restarts or a given one, and IPv6
//! between the stacks of two kernels and in process.

use interop::namespace::{Namespace, available};
use interop::peer::Peer;
use interop::up::Up;
use std::process::Command;
use std::time::{Duration, Instant};

const WAIT: Duration = Duration::from_secs(60);
const NETWORK: &str = r#"
[host.alpha]
[host.beta]
[switch.s1]
[[link]]
ends = ["alpha", "s1:0"]
[[link]]
ends = ["beta", "s1:1"]
[[circuit]]
ends = ["alpha 8.35", "beta 8.35"]
"#;

/// `cellway ip tun` in a namespace.
fn tun(up: &Up, namespace: &Namespace, line: &str) -> Peer {
    let plain = up.command(line);
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace.name()]).arg(plain.get_program()).args(plain.get_args());
    if let Some(folder) = plain.get_current_dir() {
        command.current_dir(folder);
    }
    command.envs(plain.get_envs().filter_map(|(key, value)| Some((key, value?))));
    Peer::start(&mut command).unwrap()
}

/// What a command in a namespace says once it says this.
fn until(namespace: &Namespace, command: &[&str], what: &str) -> String {
    let end = Instant::now() + WAIT;
    loop {
        let said = namespace.output(command).unwrap();
        if said.contains(what) {
            return said;
        }
        assert!(Instant::now() < end, "{command:?} never said {what}: {said}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn mac(namespace: &Namespace, device: &str) -> String {
    let said = until(namespace, &["ip", "link", "show", device], "link/ether");
    said.split("link/ether ").nth(1).unwrap().split(' ').next().unwrap().to_owned()
}

#[test]
fn a_bridged_device_needs_no_address_and_has_the_same_mac_at_each_start_or_the_given_one() {
    if !available() {
        return;
    }
    let up = Up::new(NETWORK);
    let namespace = Namespace::new("nas").unwrap();
    let line = "ip tun alpha 8.35 --encapsulation llc-bridged --name nas0";
    let macs = [line, line, &format!("{line} --mac 02:00:00:00:00:09")].map(|line| {
        let mut device = tun(&up, &namespace, line);
        let (mac, addresses) =
            (mac(&namespace, "nas0"), namespace.output(&["ip", "-4", "addr", "show", "nas0"]).unwrap());
        assert!(!addresses.contains("inet "), "{addresses}");
        device.kill();
        // The device goes with its process.
        until(&namespace, &["ip", "link", "show", "nas0"], "does not exist");
        mac
    });
    assert_eq!(macs[0], macs[1], "another MAC address after a restart");
    assert_eq!(macs[2], "02:00:00:00:00:09");
    assert_ne!(macs[0], macs[2]);
}

#[test]
fn kernels_ping_each_other_by_ipv6_and_a_process_without_a_device_does_too() {
    if !available() {
        return;
    }
    let up = Up::new(NETWORK);
    let [red, blue] = ["red6", "blue6"].map(|name| Namespace::new(name).unwrap());
    let alpha = tun(&up, &red, "ip tun alpha 8.35 --address fd00:9::1/64 --address 10.9.0.1/24");
    let mut beta = tun(&up, &blue, "ip tun beta 8.35 --address fd00:9::2/64");
    for namespace in [&red, &blue] {
        until(namespace, &["ip", "-6", "addr", "show", "atm0"], "fd00:9::");
    }
    until(&red, &["ping", "-6", "-c", "1", "-w", "20", "fd00:9::2"], "1 received");
    until(&red, &["ping", "-6", "-s", "8000", "-c", "1", "-w", "20", "fd00:9::2"], "1 received");
    beta.kill();
    up.wait_for_endpoints(1, WAIT);
    let pinged = up.run("ip ping beta 8.35 fd00:9::1 --address fd00:9::2/64 -c 2 --json");
    assert!(pinged.status.success(), "{}", String::from_utf8_lossy(&pinged.stderr));
    let said: serde_json::Value = serde_json::from_slice(&pinged.stdout).unwrap();
    assert_eq!(said["received"], 2, "{said}");
    drop(alpha);
}
