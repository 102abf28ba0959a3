//! `/proc/net/atm`: what the kernel's files would hold, as files in memory.

use crate::calls::{self, Listed};
use crate::interfaces::{self, Interface, Statistics, TYPE};
use crate::service::complain;
use crate::system::is_capable;
use rustix::fd::OwnedFd;
use rustix::fs::{MemfdFlags, SealFlags, SeekFrom};
use rustix::io::Errno;
use rustix::thread::CapabilitySet;
use std::fmt::Write as _;

/// The folder.
pub(crate) const FOLDER: &str = "/proc/net/atm";

/// The file's name inside the folder, if a path leads there.
pub(crate) fn name_of(path: &[u8]) -> Option<&str> {
    let rest = path.strip_prefix(FOLDER.as_bytes())?.strip_prefix(b"/")?;
    std::str::from_utf8(rest).ok().filter(|name| !name.is_empty())
}

/// Opens a file of the folder, for reading.
///
/// # Errors
/// `ENOENT`: no such file; `EACCES`: it is to be written.
pub(crate) fn open(name: &str, writes: bool, close_on_exec: bool) -> Result<OwnedFd, Errno> {
    if !is_file(name) {
        return Err(Errno::NOENT);
    }
    // The files are to be read only; who may override that may open them otherwise, and has nothing of it.
    if writes && !is_capable(CapabilitySet::DAC_OVERRIDE) {
        return Err(Errno::ACCESS);
    }
    let interfaces = interfaces::all().map_err(|e| {
        complain(&e.why);
        e.errno
    })?;
    let text = if name == "svc" { svc(&calls::listed()) } else { content(name, &interfaces).ok_or(Errno::NOENT)? };
    let flags = MemfdFlags::ALLOW_SEALING | if close_on_exec { MemfdFlags::CLOEXEC } else { MemfdFlags::empty() };
    let file = rustix::fs::memfd_create("atm", flags)?;
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        rest = &rest[rustix::io::write(&file, rest)?..];
    }
    rustix::fs::fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK)?;
    rustix::fs::seek(&file, SeekFrom::Start(0))?;
    Ok(file)
}

const TABLES: [&str; 4] = ["devices", "pvc", "svc", "vc"];

/// Whether the folder has a file of this name.
pub(crate) fn is_file(name: &str) -> bool {
    TABLES.contains(&name) || device_number(name).is_some()
}

/// The names of all files of the folder.
pub(crate) fn names() -> Vec<String> {
    let devices = interfaces::numbers().map(|number| format!("{TYPE}:{number}"));
    TABLES.iter().map(ToString::to_string).chain(devices).collect()
}

/// `cellway:0` and so on: a device's own file.
fn device_number(name: &str) -> Option<i32> {
    let number = name.strip_prefix(TYPE)?.strip_prefix(':')?.parse::<i32>().ok()?;
    interfaces::numbers().find(|n| *n == number)
}

/// A file's text.
fn content(name: &str, interfaces: &[Interface]) -> Option<String> {
    match name {
        "devices" => Some(devices(interfaces)),
        "pvc" => Some(pvc(interfaces)),
        "vc" => Some(vc(interfaces)),
        _ => {
            let number = device_number(name)?;
            interfaces.iter().find(|i| i.number == number).map(|i| format!("{} cells/s\n", i.cells_per_s))
        }
    }
}

fn devices(interfaces: &[Interface]) -> String {
    let mut text = String::from("Itf Type    ESI/\"MAC\"addr AAL(TX,err,RX,err,drop) ...               [refcnt]\n");
    let aal = |name: &str, s: &Statistics| {
        let [tx, tx_err, rx, rx_err, drop] = s.numbers();
        format!("{name} ( {tx} {tx_err} {rx} {rx_err} {drop} )")
    };
    for i in interfaces {
        let open = i.circuits.iter().filter(|c| c.open.is_some()).count();
        let _ = writeln!(
            text,
            "{:3} {:<8}{}  {}  {}\t[{}]",
            i.number,
            TYPE,
            "0".repeat(12),
            aal("0", &i.aal0),
            aal("5", &i.aal5),
            open + 1
        );
    }
    text
}

/// The kernel's name of a category.
fn class(category: &str) -> &'static str {
    match category {
        "cbr" => "CBR",
        "abr" => "ABR",
        name if name.contains("vbr") => "VBR",
        _ => "UBR",
    }
}

fn pvc(interfaces: &[Interface]) -> String {
    let mut text = String::from("Itf VPI VCI   AAL RX(PCR,Class) TX(PCR,Class)\n");
    for (i, c) in open_circuits(interfaces) {
        let aal = match c.open.as_deref() {
            Some("aal0") => "0",
            Some("aal34") => "3/4",
            _ => "5",
        };
        let class = class(&c.category);
        let (number, vpi, vci) = (i.number, c.id.vpi.get(), c.id.vci.get());
        let _ = writeln!(text, "{number:3} {vpi:3} {vci:5} {aal:<3} {0:7} {class:<5} {0:7} {class:<6}", c.pcr);
    }
    text
}

/// Sockets for calls that call or have a circuit. Those that only listen are known to their programs alone.
fn svc(calls: &[Listed]) -> String {
    let mut text = String::from("Itf VPI VCI           State      Remote\n");
    for Listed { itf, circuit, up, remote } in calls {
        let place = match circuit {
            Some(id) => format!("{itf:3} {:3} {:5}", id.vpi.get(), id.vci.get()),
            None => format!("{itf:3}   -     -"),
        };
        let state = if *up { "CONNECTED" } else { "INUSE" };
        let _ = writeln!(text, "{place}         {state:<10} {}", remote.as_deref().unwrap_or_default());
    }
    text
}

fn vc(interfaces: &[Interface]) -> String {
    let mut text =
        format!("{:<16}Itf VPI VCI   Fam Flags Reply Send buffer     Recv buffer      [refcnt]\n", "Address ");
    for (i, c) in open_circuits(interfaces) {
        let (vpi, vci) = (c.id.vpi.get(), c.id.vci.get());
        let _ = writeln!(
            text,
            "{:016x} {:3} {vpi:3} {vci:5} PVC  0000      0       0/ 212992       0/ 212992 [1]",
            0, i.number
        );
    }
    text
}

fn open_circuits(interfaces: &[Interface]) -> impl Iterator<Item = (&Interface, &interfaces::Circuit)> {
    interfaces.iter().flat_map(|i| i.circuits.iter().filter(|c| c.open.is_some()).map(move |c| (i, c)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::CircuitId;

    #[test]
    fn the_tables_are_the_kernels() {
        let circuit = |vci, open: Option<&str>| interfaces::Circuit {
            id: CircuitId::new(0, vci).unwrap(),
            open: open.map(str::to_owned),
            category: "cbr".into(),
            pcr: 1000,
        };
        let interface = Interface {
            number: 0,
            cells_per_s: 353_207,
            aal0: Statistics::default(),
            aal34: Statistics::default(),
            aal5: Statistics { sent: 1, send_errors: 2, received: 3, receive_errors: 4, dropped: 5 },
            circuits: vec![
                circuit(100, Some("aal5")),
                circuit(101, None),
                circuit(102, Some("aal0")),
                circuit(103, Some("aal34")),
            ],
        };
        let all = [interface];
        assert_eq!(
            devices(&all).lines().nth(1).unwrap(),
            "  0 cellway 000000000000  0 ( 0 0 0 0 0 )  5 ( 1 2 3 4 5 )\t[4]"
        );
        let rows: Vec<String> = pvc(&all).lines().skip(1).map(str::to_owned).collect();
        assert_eq!(rows[0], "  0   0   100 5      1000 CBR      1000 CBR   ");
        assert_eq!(rows[1], "  0   0   102 0      1000 CBR      1000 CBR   ");
        assert_eq!(rows[2], "  0   0   103 3/4    1000 CBR      1000 CBR   ");
        assert_eq!(vc(&all).lines().count(), 4);
    }

    #[test]
    fn only_paths_of_the_folder_are_meant() {
        assert_eq!(name_of(b"/proc/net/atm/devices"), Some("devices"));
        for other in [&b"/proc/net/atm"[..], b"/proc/net/atm/", b"/proc/net/atmosphere", b"devices", b""] {
            assert_eq!(name_of(other), None);
        }
        assert!(!is_file("arp") && !is_file("cellway:7") && !is_file("cellway:x"));
    }
}
