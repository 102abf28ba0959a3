//! What goes wrong on the way to our ENI155P, Linux's `eni` driver counts as our adapter does: PDUs with a wrong CRC, PDUs for
//! which the ring had no room, cells of circuits that are not open.

use interop::guest::{Guest, Kernel, Machine, PATIENCE, Report};
use interop::pattern;
use interop::up::Up;
use serde_json::Value;
use std::time::{Duration, Instant};

/// A circuit whose ring holds all that comes.
const WIDE: u16 = 160;
/// One whose ring does not hold a long PDU.
const NARROW: u16 = 161;
/// One that nobody opens.
const CLOSED: u16 = 162;
const PDUS: u64 = 400;
const PDU_OCTETS: usize = 200;
/// More than the ring of 4 kB holds.
const LONG_OCTETS: usize = 9000;
const LONG_PDUS: u64 = 5;

fn description(faults: &str) -> String {
    let circuit = |vci| format!("[[circuit]]\nends = [\"alpha 0.{vci}\", \"guest 0.{vci}\"]\n");
    let circuits: String = [WIDE, NARROW, CLOSED].into_iter().map(circuit).collect();
    format!(
        r#"
[host.alpha]
[switch.s1]
[adapter.eni0]
host = "guest"
socket = "eni0.sock"
[[link]]
ends = ["guest", "s1:0"]
{faults}
[[link]]
ends = ["alpha", "s1:1"]
{circuits}
"#
    )
}

/// PDUs and errors as the guest and as `cellway status` count them.
#[derive(Debug)]
struct Counted {
    status: Value,
    /// Sent, errors, received, errors, dropped, of `/proc/net/atm/devices`.
    devices: [u64; 5],
    /// The same, of `atmdiag`.
    atmdiag: Vec<u64>,
    /// Cells received, of `sonetdiag`.
    sonetdiag: u64,
}

impl Counted {
    fn now(up: &Up, guest: &mut Guest) -> Option<Self> {
        let status = serde_json::from_slice(&up.run("status --json").stdout).unwrap();
        let console = guest.log().to_vec();
        let last = |what: &str| console.iter().rev().find(|line| line.contains(what)).cloned();
        let numbers = |line: String, what: &str| -> Vec<u64> {
            let (_, rest) = line.split_once(what).unwrap_or_default();
            rest.split_whitespace().filter_map(|word| word.parse().ok()).collect()
        };
        let atmdiag = numbers(last("AAL5")?, "AAL5");
        let sonetdiag = *numbers(last("RX cells:")?, "RX cells:").first()?;
        Some(Counted { status, devices: Report { console }.aal5_counters(0).ok()?, atmdiag, sonetdiag })
    }

    fn adapter(&self, counter: &str) -> &Value {
        &self.status["adapters"][0]["counters"][counter]
    }

    fn dropped(&self, reason: &str) -> u64 {
        self.adapter("received")["dropped"][reason].as_u64().unwrap_or_default()
    }

    /// All four are of one mind, on PDUs whole and damaged, and on cells; `cut_short` PDUs found no room.
    fn agree(&self, cut_short: u64) -> bool {
        let whole = self.adapter("received")["pdus"].as_u64().unwrap();
        self.devices == [0, 0, whole, self.dropped("crc") + cut_short, 0]
            && self.atmdiag == self.devices
            && Some(self.sonetdiag) == self.adapter("line_received")["cells"].as_u64()
    }
}

fn send(up: &Up, vci: u16, pdu_octets: usize, pdus: u64) {
    std::fs::write(up.path("sent"), pattern(pdu_octets * pdus as usize)).unwrap();
    let sent = up.run(&format!("send alpha 0.{vci} sent --pdu {pdu_octets}"));
    assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
}

/// Waits until what has been counted is as it must be.
fn wait_for(up: &Up, guest: &mut Guest, what: &str, is: impl Fn(&Counted) -> bool) -> Counted {
    let begin = Instant::now();
    loop {
        let counted = Counted::now(up, guest);
        if let Some(counted) = counted.as_ref().filter(|counted| is(counted)) {
            println!("{what}: {:?}, {}", counted.devices, counted.adapter("received"));
            return Counted::now(up, guest).unwrap();
        }
        let mut all = || guest.log().join("\n");
        assert!(begin.elapsed() < PATIENCE, "{what}: {counted:?}\n{}", all());
        std::thread::sleep(Duration::from_millis(300));
    }
}

#[test]
fn a_guests_driver_counts_damaged_pdus_and_those_without_room_as_our_adapter_does() {
    if !Guest::available() || !interop::have(&[("sonetdiag", "atm-tools"), ("atmdiag", "atm-tools")]) {
        return;
    }
    let up = Up::new(&description(""));
    let script = format!(
        "echo 8000000 > /proc/sys/net/core/rmem_default\n\
         ttcp_atm -r -s -a -l 43000 0.{WIDE} > /dev/null 2>&1 &\nttcp_atm -r -s -a -l 1000 0.{NARROW} > /dev/null 2>&1 &\n\
         opened {WIDE} {NARROW}\nsay listening\n\
         while :; do cat /proc/net/atm/devices; atmdiag 0; sonetdiag 0; sleep 1; done\n"
    );
    let socket = up.path("eni0.sock");
    let mut guest = Guest::boot_kernel(Kernel::Linux6_1, Machine::Adapter(&socket), &script, &[]).unwrap();
    guest.wait_for("guest: listening").unwrap();

    // Nothing is wrong with the line: what is too long for its ring is an error each, and no other.
    send(&up, NARROW, LONG_OCTETS, LONG_PDUS);
    send(&up, WIDE, PDU_OCTETS, 3);
    let counted = wait_for(&up, &mut guest, "too long", |counted| {
        counted.agree(LONG_PDUS) && counted.adapter("received")["pdus"] == 3
    });
    assert!(counted.dropped("no_buffer") > LONG_PDUS, "{counted:?}");
    assert_eq!(counted.dropped("crc"), 0, "{counted:?}");

    // Cells of a circuit that is not open: the adapter's business alone.
    send(&up, CLOSED, PDU_OCTETS, 1);
    let cells = (PDU_OCTETS as u64 + 8).div_ceil(48);
    wait_for(&up, &mut guest, "not open", |counted| {
        counted.agree(LONG_PDUS) && counted.dropped("unknown_circuit") == cells
    });

    // One cell of fifty has a bit flipped, one of a hundred is lost: PDUs with a wrong CRC, some of them two in one.
    let faulty = description("faults = { seed = 7, loss = 0.01, corruption = 0.02 }");
    std::fs::write(up.path("net.toml"), faulty).unwrap();
    up.hang_up();
    // The link is made anew, and its counters with it.
    wait_for(&up, &mut guest, "applied", |counted| {
        let cells = &counted.status["links"][0]["from_b"]["sent"]["cells"];
        *cells == 0 && counted.status["adapters"][0]["signal"] == true
    });
    send(&up, WIDE, PDU_OCTETS, PDUS);
    let counted = wait_for(&up, &mut guest, "damaged", |counted| {
        let whole = counted.adapter("received")["pdus"].as_u64().unwrap();
        counted.agree(LONG_PDUS) && whole > 3 + PDUS / 2 && counted.dropped("crc") > 0
    });
    let crc = counted.dropped("crc");
    assert!((PDUS / 20..PDUS / 3).contains(&crc), "{counted:?}");
}
