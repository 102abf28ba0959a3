//! tshark as the judge of a capture, and plain capture files for what a test makes itself: pcap for ERF records, and the
//! one format in which tshark takes single cells of AAL1 and AAL3/4 as such.

use std::path::Path;
use std::process::Command;

/// The packages that the tests with tshark need.
pub const TOOLS: &[(&str, &str)] = &[("tshark", "tshark")];

/// What tshark says of each packet of `capture` that `filter` lets pass: everything it decodes, as `-V` prints it.
pub fn decode(capture: &Path, filter: &str) -> anyhow::Result<String> {
    let output = Command::new("tshark").args(["-n", "-V", "-Y", filter, "-r"]).arg(capture).output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "tshark: {errors}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Fields of each packet of `capture`, in the order of `names`; a field that a packet has not is empty.
pub fn fields(capture: &Path, names: &[&str]) -> anyhow::Result<Vec<Vec<String>>> {
    let mut tshark = Command::new("tshark");
    tshark.args(["-n", "-T", "fields"]);
    for name in names {
        tshark.args(["-e", name]);
    }
    let output = tshark.arg("-r").arg(capture).output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "tshark: {errors}");
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect())
}

/// How many packets `filter` lets pass.
pub fn count(capture: &Path, filter: &str) -> anyhow::Result<usize> {
    let mut tshark = Command::new("tshark");
    let output = tshark.args(["-n", "-T", "fields", "-e", "frame.number", "-Y", filter, "-r"]).arg(capture).output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "tshark: {errors}");
    Ok(output.stdout.split(|octet| *octet == b'\n').filter(|line| !line.is_empty()).count())
}

/// A pcap file of ERF records (draft-ietf-opsawg-pcap, link type 197).
pub fn pcap(records: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::new();
    for word in [0xA1B2_C3D4, 2 | 4 << 16, 0, 0, 0x4_0000, u32::from(wire::erf::LINKTYPE)] {
        out.extend_from_slice(&u32::to_le_bytes(word));
    }
    for record in records {
        let octets = record.len() as u32;
        for word in [0, 0, octets, octets] {
            out.extend_from_slice(&u32::to_le_bytes(word));
        }
        out.extend_from_slice(record);
    }
    out
}

/// A pcap file of AAL5 SDUs as SunATM has them (link type 123): whether the user sent it, the circuit, the SDU. tshark
/// takes VPI 0, VCI 5 for SSCOP, VCI 16 for ILMI, and others for what `kind` says.
pub fn sunatm(kind: SunAtm, records: &[(bool, wire::CircuitId, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::new();
    for word in [0xA1B2_C3D4, 2 | 4 << 16, 0, 0, 0x4_0000, 123] {
        out.extend_from_slice(&u32::to_le_bytes(word));
    }
    for (i, (from_user, circuit, sdu)) in records.iter().enumerate() {
        let octets = sdu.len() as u32 + 4;
        for word in [i as u32, 0, octets, octets] {
            out.extend_from_slice(&u32::to_le_bytes(word));
        }
        let [high, low] = circuit.vci.0.to_be_bytes();
        out.extend([kind as u8 | u8::from(*from_user) << 7, circuit.vpi.get() as u8, high, low]);
        out.extend_from_slice(sdu);
    }
    out
}

/// What a SunATM record holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SunAtm {
    /// LAN emulation.
    Lane = 1,
    /// ILMI.
    Ilmi = 5,
    /// SSCOP.
    Signalling = 6,
}

/// The adaptation layer that a Sniffer record names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aal {
    /// AAL1.
    One = 1,
    /// AAL3/4.
    ThreeFour = 2,
}

/// A Sniffer (DOS) file of cells with their HEC, uncompressed, as version 5 has it. All numbers are little-endian.
pub fn sniffer(cells: &[(Aal, wire::Cell)]) -> Vec<u8> {
    const VERSION: u16 = 1;
    const END: u16 = 3;
    const CELL: u16 = 8;
    const ATM: u8 = 10;
    let head = |kind: u16, octets: usize| [kind, octets as u16, 0].into_iter().flat_map(u16::to_le_bytes);
    let mut out = b"TRSNIFF data    \x1a".to_vec();
    out.extend(head(VERSION, 18));
    // Version 5.0, midnight of 1 January 2000, network, uncompressed.
    out.extend([5, 0, 0, 20 << 9 | 1 << 5 | 1].into_iter().flat_map(u16::to_le_bytes));
    out.extend([4, ATM, 1, 5, 0, 0, 0, 0, 0, 0]);
    for (aal, cell) in cells {
        let octets = wire::octets::emit53(cell, wire::octets::Format::Uni);
        let length = (octets.len() as u16).to_le_bytes();
        out.extend(head(CELL, 48 + octets.len()));
        out.extend([0; 6]);
        out.extend(length);
        out.extend([0; 2]);
        out.extend(length);
        out.extend([0; 4]);
        // A raw cell, no AAL5 trailer; then the layer, the circuit and one cell.
        out.extend(0x100u32.to_le_bytes());
        out.extend([0; 8]);
        out.extend([*aal as u8, 0, 0, 0]);
        let circuit = cell.circuit();
        out.extend([circuit.vpi.get(), circuit.vci.0, 0, 1].into_iter().flat_map(u16::to_le_bytes));
        out.extend([0; 8]);
        out.extend(octets);
    }
    out.extend(head(END, 0));
    out
}
