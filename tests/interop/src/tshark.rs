//! tshark as the judge of a capture, and a plain pcap file for records that a test makes itself.

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
