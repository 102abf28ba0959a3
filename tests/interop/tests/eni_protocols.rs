//! What protocols of Linux 6.1 make of our ENI155P, between two guests with an adapter each: `ttcp_atm`, Classical IP, bridged
//! Ethernet. Nothing is lost that no counter on the way names.

use interop::eni::{Board, Network, Traffic, exchange};
use interop::guest::{Guest, PATIENCE};
use interop::have;
use std::time::Duration;

const PDUS: u32 = 2048;
const OCTETS: u32 = 8192;
/// Cells per second at which `ttcp_atm` sends. The ring of the receiver's circuit lasts 0.28 s at the first, and so long a
/// guest may be kept from running. Where it is kept longer, it gets more time.
const RATES: [u32; 3] = [10_000, 4000, 2000];

/// One run of `ttcp_atm` each way, one after the other: what the receivers said of it. An error is a loss that was counted.
fn ttcp_each_way(rate: u32) -> Result<Vec<String>, String> {
    let network = Network::new(&[Board::ASIC_2_MB, Board::FPGA_512_KB], &[120..121, 121..122]);
    let total = PDUS * OCTETS;
    // For the other guest's boot, and for what the cells need, of which a PDU has 171, three times.
    let patience = 60 + 3 * PDUS * 171 / rate;
    let common = format!(
        r#"
        set -e
        export PATIENCE_S={patience}
        meet() {{ /test/exchange meet $1; }}
        # Of what a process has not read yet, the kernel keeps this much: all of it.
        echo 64000000 > /proc/sys/net/core/rmem_default
        # The buffers are larger than a PDU, and with them the ring: 128 kB.
        receive() {{
            (ttcp_atm -r -s -a -l 43000 0.$2 > /tmp/ttcp 2>&1; : > /tmp/ended) &
            opened $2
            meet $1
            meet $(($1 + 1))
            # Its last words may be among what was lost.
            for n in $(seq 600); do [ -e /tmp/ended ] && break; sleep 0.1; done
            cat /tmp/ttcp
            rm -f /tmp/ended
        }}
        # A send buffer of one PDU: the driver lets a PDU that fits into its ring pass others that wait for room, and so the
        # marks of the end, too, which are short.
        send() {{
            meet $1
            ttcp_atm -t -s -a -b {OCTETS} -P {rate} -l {OCTETS} -n {PDUS} 0.$2 2>&1
            meet $(($1 + 1))
        }}
        "#
    );
    let first = format!("{common}\nreceive 1 120\nsend 3 121\n");
    let second = format!("{common}\nsend 1 120\nreceive 3 121\n");
    let files: [(&str, &[u8]); 1] = [("exchange", &exchange().unwrap())];
    let whole = |line: &&String| line.starts_with("ttcp-r:") && line.contains(&format!(" {total} bytes in "));
    let within = Duration::from_secs((2 * patience).into());
    let overflows = |traffic: &[Traffic; 2]| traffic.iter().any(|traffic| traffic.dropped("no_buffer") > 0);
    let both = match network.run_two_and_count([&first, &second], &files, within, overflows) {
        Ok(both) => both,
        // A guest that lost its place hears nothing any more, also not when it is to go on.
        Err(error) => return Err(format!("{error:#}")),
    };
    let [(first, from_first), (second, from_second)] = both;
    let traffic = [from_first, from_second];
    if overflows(&traffic) {
        return Err(format!("a ring was full: {traffic:?}"));
    }
    if traffic.iter().any(|traffic| traffic.driver_received[2] > 0) {
        return Err(format!("a guest had no memory: {traffic:?}"));
    }
    let said = [first, second].map(|report| {
        let line = report.console.iter().find(whole).cloned();
        line.unwrap_or_else(|| panic!("octets that nobody counted: {traffic:?}\n{}", report.console.join("\n")))
    });
    assert!(traffic.iter().all(Traffic::is_settled), "{traffic:?}");
    Ok(said.to_vec())
}

/// At a rate that the guest can take: on a machine that keeps it from running for longer than its ring lasts, at half of that.
#[test]
fn two_guests_pass_ttcp_each_way_without_loss() {
    if !Guest::available() || !have(&[("cc", "gcc")]) {
        return;
    }
    let mut losses = String::new();
    for rate in RATES {
        match ttcp_each_way(rate) {
            Ok(said) => return println!("{rate} cells/s:\n{}", said.join("\n")),
            Err(lost) => losses += &format!("at {rate} cells/s:\n{lost}\n"),
        }
        eprintln!("{losses}");
    }
    panic!("a loss at every rate:\n{losses}");
}

/// One boot of both guests for both: a boot takes longer than either.
#[test]
fn two_guests_ping_and_carry_files_by_classical_ip_and_on_a_bridge() {
    if !Guest::available() || !have(&[("cc", "gcc"), ("br2684ctl", "br2684ctl")]) {
        return;
    }
    let network = Network::new(&[Board::ASIC_2_MB, Board::FPGA_512_KB], &[110..111, 111..112]);
    let common = r#"
        set -e
        meet() { /test/exchange meet $1; }
        classical_ip() {
            # A window of two PDUs: the adapter's ring holds three, and a guest without hardware virtualisation is slow.
            echo 4096 49152 49152 > /proc/sys/net/ipv4/tcp_rmem
            atmarpd -b -l /tmp/atmarpd.log
            again atmarp -c atm0
            ip addr add 10.9.0.$1/24 dev atm0
            ip link set atm0 up
            atmarp -s 10.9.0.$2 0.110
            opened 110
        }
        bridge() {
            # The ring holds five frames.
            echo 4096 8192 8192 > /proc/sys/net/ipv4/tcp_rmem
            br2684ctl -b -c 0 -e 0 -p 1 -a 0.111 2>&1
            opened 111
            ip addr add 10.8.0.$1/24 dev nas0
            ip link set nas0 up
        }
        # The first may come before the other side's interface is up.
        pings() { /test/pings 1 $2 56; say $1 $(/test/pings 3 $2 56), $(/test/pings 2 $2 $3); }
        got() { say file $1 $(stat -c %s /tmp/file) $(sha256sum < /tmp/file); }
        # Of what a process has not read yet, the kernel keeps this much.
        echo 4000000 > /proc/sys/net/core/rmem_default
        "#;
    let first = format!(
        r#"{common}
        # nc ends when its input does: this one does not.
        mkfifo /tmp/never
        sleep 10000 > /tmp/never &

        classical_ip 1 2
        nc -l -p 5001 < /tmp/never > /tmp/file &
        nc=$!
        meet 1
        pings ip 10.9.0.2 9000
        meet 2
        wait $nc
        got ip
        meet 3

        bridge 1
        nc -l -p 5002 < /tmp/never > /tmp/file &
        nc=$!
        meet 4
        pings bridge 10.8.0.2 1000
        meet 5
        wait $nc
        got bridge
        cat /proc/net/atm/br2684 /proc/net/atm/arp
        meet 6
        "#
    );
    let second = format!(
        r#"{common}
        classical_ip 2 1
        meet 1
        pings ip 10.9.0.1 9000
        meet 2
        head -c 10000000 /dev/urandom > /tmp/file
        nc 10.9.0.1 5001 < /tmp/file
        got ip
        meet 3

        bridge 2
        meet 4
        pings bridge 10.8.0.1 1000
        meet 5
        head -c 1000000 /dev/urandom > /tmp/file
        nc 10.8.0.1 5002 < /tmp/file
        got bridge
        meet 6
        "#
    );
    let files: [(&str, &[u8]); 1] = [("exchange", &exchange().unwrap())];
    let both = network.run_two_and_count([&first, &second], &files, 3 * PATIENCE, |_| false).unwrap();
    let consoles = both.each_ref().map(|(report, _)| report.console.join("\n"));
    let traffic: [&Traffic; 2] = both.each_ref().map(|(_, traffic)| traffic);
    let all = format!("the first:\n{}\nthe second:\n{}\n{traffic:?}", consoles[0], consoles[1]);
    for kind in ["ip", "bridge"] {
        let pings = format!("guest: {kind} 3 of 3 answered, 2 of 2 answered");
        assert!(consoles.iter().all(|console| console.contains(&pings)), "{kind}:\n{all}");
        let octets = if kind == "ip" { 10_000_000 } else { 1_000_000 };
        let head = format!("guest: file {kind} {octets} ");
        let files = both.each_ref().map(|(report, _)| report.console.iter().find(|line| line.starts_with(&head)));
        assert!(files[0].is_some() && files[0] == files[1], "{kind}:\n{all}");
    }
    assert!(consoles[0].contains("encaps=LLC payload=bridged"), "{all}");
    for traffic in traffic {
        println!("{traffic:?}");
        assert!(traffic.is_settled(), "{all}");
        // Whoever came to a meeting first was not heard: its PDUs came to a circuit that was not open, or to an adapter whose
        // guest had not yet found it.
        let reasons: Vec<&str> = traffic.dropped.iter().map(|(reason, _)| reason.as_str()).collect();
        assert!(reasons.iter().all(|reason| ["unknown_circuit", "not_open", "no_buffer"].contains(reason)), "{all}");
    }
}
