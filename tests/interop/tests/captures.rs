//! tcpdump and tshark as judges of what we write: SunATM with a filter of VPI and VCI, RFC 1483, pcapng; and of ATM
//! pseudowires in MPLS over UDP, with and without control word.

use interop::up::Up;
use interop::{have, tshark};
use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;
use wire::CircuitId;
use wire::octets::emit52;
use wire::pseudowire::{ControlWord, Flags, Mode, PORT, Packet};

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
[[circuit]]
ends = ["alpha 8.36", "beta 8.36"]
"#;
/// LLC/SNAP and an IPv4 packet with a UDP datagram from 10.0.0.1 to 10.0.0.2.
const SDU: [u8; 40] = [
    0xaa, 0xaa, 3, 0, 0, 0, 8, 0, 0x45, 0, 0, 32, 0, 1, 0, 0, 64, 17, 0x66, 0xca, 10, 0, 0, 1, 10, 0, 0, 2, 0x13, 0x88,
    0x13, 0x89, 0, 12, 0, 0, b'a', b't', b'm', b'!',
];

/// A capture of one PDU on each of two circuits, in this form.
fn captured(up: &Up, form: &str) -> std::path::PathBuf {
    let file = format!("{form}.cap");
    let mut capture = up.start_command(&format!("capture alpha-s1:0 {file} --format {form}"));
    capture.wait_for("capturing", WAIT).unwrap();
    std::fs::write(up.path("sdu"), SDU).unwrap();
    for circuit in ["8.35", "8.36"] {
        let mut receiver = up.start_command(&format!("receive beta {circuit} got --count 1"));
        up.wait_for_endpoints(1, WAIT);
        let sent = up.run(&format!("send alpha {circuit} sdu --datagrams"));
        assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
        assert!(receiver.wait(WAIT).unwrap().0.success());
    }
    assert!(Command::new("kill").args(["-INT", &capture.id().to_string()]).status().unwrap().success());
    assert!(capture.wait(WAIT).unwrap().0.success());
    up.path(&file)
}

#[test]
fn tcpdump_finds_a_circuit_by_its_vpi_and_vci_and_reads_what_rfc_1483_carries() {
    if !have(&[("tcpdump", "tcpdump")]) {
        return;
    }
    let up = Up::new(NETWORK);
    let read = |form: &str, filter: &str| {
        let file = captured(&up, form);
        let output = Command::new("tcpdump").args(["-n", "-r"]).arg(file).arg(filter).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let one = read("sunatm", "vpi 8 and vci 35");
    assert_eq!(one.lines().count(), 1, "{one}");
    assert!(one.contains("10.0.0.2.5001"), "{one}");
    let both = read("rfc1483", "");
    assert_eq!(both.lines().filter(|line| line.contains("10.0.0.2.5001")).count(), 2, "{both}");
}

#[test]
fn tshark_reads_each_form_down_to_the_packet() {
    if !have(tshark::TOOLS) {
        return;
    }
    let up = Up::new(NETWORK);
    for form in ["sunatm", "rfc1483", "pcapng"] {
        let file = captured(&up, form);
        assert_eq!(tshark::count(&file, "udp.dstport == 5001").unwrap(), 2, "{form}");
        if form != "rfc1483" {
            assert_eq!(tshark::count(&file, "atm.vpi == 8 && atm.vci == 35").unwrap(), 1, "{form}");
        }
    }
}

/// A pcap file of UDP datagrams in raw IPv4 packets, to the port of MPLS.
fn in_udp(datagrams: &[Vec<u8>]) -> tempfile::NamedTempFile {
    const RAW_IP: u32 = 101;
    let mut file = Vec::new();
    [0xa1b2_c3d4, 2 | 4 << 16, 0, 0, 65_535, RAW_IP].iter().for_each(|word| file.extend(u32::to_le_bytes(*word)));
    for datagram in datagrams {
        let length = 28 + datagram.len() as u16;
        let mut packet =
            vec![0x45, 0, (length >> 8) as u8, length as u8, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        for half in [49_152, PORT, length - 20, 0] {
            packet.extend(half.to_be_bytes());
        }
        packet.extend(datagram);
        let octets = packet.len() as u32;
        [1, 0, octets, octets].iter().for_each(|word| file.extend(u32::to_le_bytes(*word)));
        file.extend(packet);
    }
    let named = tempfile::Builder::new().suffix(".pcap").tempfile().unwrap();
    std::fs::write(named.path(), file).unwrap();
    named
}

/// What tshark says of datagrams, the label 100 taken for this kind of pseudowire.
fn decoded(datagrams: &[Vec<u8>], dissector: &str) -> String {
    let file = in_udp(datagrams);
    let decode_as = format!("mpls.label==100,{dissector}");
    // What it guesses of a payload's first octets says nothing of the packets around it.
    let guesses = ["--disable-protocol", "tapa"];
    let mut tshark = Command::new("tshark");
    let output = tshark.args(guesses).args(["-n", "-V", "-d", &decode_as, "-r"]).arg(file.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn datagram(control: Option<ControlWord>, payload: &[u8]) -> Vec<u8> {
    let (head, n) = Packet { label: 100, control, payload }.emit_head();
    [&head[..n], payload].concat()
}

/// Two cells of 8.35.
fn cells() -> Vec<u8> {
    let circuit: CircuitId = "8.35".parse().unwrap();
    let header = wire::CellHeader { circuit, ..wire::CellHeader::default() };
    emit52(&wire::Cell::new(header, [0x5a; 48])).repeat(2)
}

#[test]
fn tshark_decodes_pseudowires_of_cells_and_of_sdus() {
    if !have(tshark::TOOLS) {
        return;
    }
    let control = ControlWord { flags: Flags::default(), sequence: 7 };
    let with = decoded(&[datagram(Some(control), &cells())], "mplspwatmn1cw");
    let without = decoded(&[datagram(None, &cells())], "mplspwatmn1nocw");
    for text in [&with, &without] {
        assert!(text.contains("MPLS Label: 100"), "{text}");
        assert_eq!(text.matches("VPI: 8").count(), 2, "{text}");
        assert_eq!(text.matches("VCI: 35").count(), 2, "{text}");
        assert!(!text.contains("Malformed"), "{text}");
    }
    assert!(with.contains("Sequence number: 7"), "{with}");
    let flags = Flags { clp: true, ..Flags::default() };
    let sdu = decoded(&[datagram(Some(ControlWord { flags, sequence: 9 }), &SDU)], "mplspwatmaal5sdu");
    for what in ["Sequence number: 9", "CLP bit: Low priority", "= Length: 44", "Dst Port: 5001"] {
        assert!(sdu.contains(what), "{what}: {sdu}");
    }
    assert!(!sdu.contains("Malformed"), "{sdu}");
}

/// What a running network sends is what the format's own functions write, and what a plain socket says reaches a host.
#[test]
fn a_network_speaks_a_pseudowire_with_a_plain_socket() {
    let (socket, ours) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    let (peer, local) = (socket.local_addr().unwrap(), ours.local_addr().unwrap());
    drop(ours);
    let up = Up::new(&format!(
        r#"
[host.alpha]
[switch.s1]
[outside.far]
[[link]]
ends = ["alpha", "s1:0"]
[[link]]
ends = ["s1:1", "far"]
pseudowire = {{ local = "{local}", peer = "{peer}", label_out = 100, label_in = 100 }}
[[circuit]]
ends = ["alpha 8.35", "far 8.35"]
"#
    ));
    socket.set_read_timeout(Some(WAIT)).unwrap();
    assert!(up.run("inject alpha 8.35 --hex 68656c6c6f").status.success());
    let mut got = [0; 2000];
    let (n, _) = socket.recv_from(&mut got).unwrap();
    let packet = Packet::parse(&got[..n], Mode::Cells, true).unwrap();
    assert_eq!((packet.label, packet.payload.len(), packet.control.unwrap().sequence), (100, 52, 1));
    if have(tshark::TOOLS) {
        let text = decoded(&[got[..n].to_vec()], "mplspwatmn1cw");
        // The SDU is five octets without a header, which tshark takes for a short one: only the cell's is looked at.
        assert!(text.contains("VPI: 8") && text.contains("VCI: 35"), "{text}");
    }
    let mut receiver = up.start_command("receive alpha 8.35 got --count 1");
    up.wait_for_endpoints(1, WAIT);
    socket.send_to(&got[..n], local).unwrap();
    assert!(receiver.wait(WAIT).unwrap().0.success());
    assert_eq!(std::fs::read(up.path("got")).unwrap(), b"hello");
}
