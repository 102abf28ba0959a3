//! What protocols of Linux 6.1 make of our ENI155P, between two guests with an adapter each: `ttcp_atm`, Classical IP, bridged
//! Ethernet.

use interop::eni::{Board, Network, exchange};
use interop::guest::Guest;
use interop::have;

/// Cells per second at which `ttcp_atm` sends (the driver makes 13 951 of it). The ring of the receiver's circuit lasts 0.2 s at
/// that, and so long a guest may be kept from running.
const RATE: u32 = 15_000;
const PDUS: u32 = 2048;
const OCTETS: u32 = 8192;

/// One boot of both guests for all three: a boot takes longer than most of them.
#[test]
fn two_guests_pass_ttcp_without_loss_and_ping_and_carry_files_by_classical_ip_and_on_a_bridge() {
    if !Guest::available() || !have(&[("cc", "gcc"), ("br2684ctl", "br2684ctl")]) {
        return;
    }
    let network = Network::new(&[Board::ASIC_2_MB, Board::FPGA_512_KB], &[110..112, 120..121]);
    let total = PDUS * OCTETS;
    let common = r#"
        set -e
        meet() { /test/exchange meet $1; }
        classical_ip() {
            # A window of two PDUs: the adapter's ring holds three, and a guest without hardware virtualisation is slow.
            echo 4096 49152 49152 > /proc/sys/net/ipv4/tcp_rmem
            atmarpd -b -l /tmp/atmarpd.log
            sleep 0.5
            atmarp -c atm0
            ip addr add 10.9.0.$1/24 dev atm0
            ip link set atm0 up
            atmarp -s 10.9.0.$2 0.110
        }
        bridge() {
            # The ring holds five frames. The driver loses its place in one that went round before it has looked.
            echo 4096 8192 8192 > /proc/sys/net/ipv4/tcp_rmem
            br2684ctl -b -c 0 -e 0 -p 1 -a 0.111 2>&1
            sleep 0.5
            ip addr add 10.8.0.$1/24 dev nas0
            ip link set nas0 up
        }
        pings() { say $1 $(ping -c 3 -w 20 $2 | grep transmitted), $(ping -c 2 -w 20 -s $3 $2 | grep transmitted); }
        got() { say file $1 $(stat -c %s /tmp/file) $(sha256sum < /tmp/file); }
        # Of what a process has not read yet, the kernel keeps this much.
        echo 4000000 > /proc/sys/net/core/rmem_default
        "#;
    // The buffers of the receiver are larger than a PDU, and with them the ring: 128 kB.
    let first = format!(
        r#"{common}
        ttcp_atm -r -s -a -l 43000 0.120 > /tmp/ttcp 2>&1 &
        receiver=$!
        sleep 0.5
        meet 1
        wait $receiver
        cat /tmp/ttcp
        meet 2
        # nc ends when its input does: this one does not.
        mkfifo /tmp/never
        sleep 1000 > /tmp/never &

        classical_ip 1 2
        nc -l -p 5001 < /tmp/never > /tmp/file &
        nc=$!
        meet 3
        pings ip 10.9.0.2 9000
        wait $nc
        got ip
        meet 4

        bridge 1
        nc -l -p 5002 < /tmp/never > /tmp/file &
        nc=$!
        meet 5
        pings bridge 10.8.0.2 1000
        wait $nc
        got bridge
        cat /proc/net/atm/br2684 /proc/net/atm/arp /proc/net/atm/devices
        meet 6
        "#
    );
    let second = format!(
        r#"{common}
        meet 1
        # A send buffer of one PDU: the driver lets a PDU that fits into its ring pass others that wait for room, and so the
        # marks of the end, too, which are short.
        ttcp_atm -t -s -a -b {OCTETS} -P {RATE} -l {OCTETS} -n {PDUS} 0.120 2>&1
        say alive
        meet 2

        classical_ip 2 1
        meet 3
        pings ip 10.9.0.1 9000
        head -c 10000000 /dev/urandom > /tmp/file
        nc 10.9.0.1 5001 < /tmp/file
        got ip
        meet 4
        say alive

        bridge 2
        meet 5
        pings bridge 10.8.0.1 1000
        head -c 1000000 /dev/urandom > /tmp/file
        nc 10.8.0.1 5002 < /tmp/file
        got bridge
        cat /proc/net/atm/devices
        meet 6
        "#
    );
    let reports = network.run_two([&first, &second], &[("exchange", &exchange().unwrap())]);
    let consoles = reports.each_ref().map(|report| report.console.join("\n"));
    let all = format!("the first:\n{}\nthe second:\n{}", consoles[0], consoles[1]);
    let received = |line: &&String| line.starts_with("ttcp-r:") && line.contains(&format!(" {total} bytes in "));
    let received = reports[0].console.iter().find(received).unwrap_or_else(|| panic!("ttcp_atm lost octets:\n{all}"));
    println!("{received}");
    for kind in ["ip", "bridge"] {
        let pings = format!(
            "guest: {kind} 3 packets transmitted, 3 packets received, 0% packet loss, \
             2 packets transmitted, 2 packets received, 0% packet loss"
        );
        assert!(consoles.iter().all(|console| console.contains(&pings)), "{kind}:\n{all}");
        let octets = if kind == "ip" { 10_000_000 } else { 1_000_000 };
        let head = format!("guest: file {kind} {octets} ");
        let files = reports.each_ref().map(|report| report.console.iter().find(|line| line.starts_with(&head)));
        assert!(files[0].is_some() && files[0] == files[1], "{kind}:\n{all}");
    }
    assert!(consoles[0].contains("encaps=LLC payload=bridged"), "{all}");
}
