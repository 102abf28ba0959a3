//! Guests of Linux 6.1 with an ENI155P of ours each, on one switch: what the tests of its driver share.

use crate::guest::{Guest, Kernel, Machine, Report};
use crate::program;
use crate::up::Up;
use serde_json::Value;
use std::ops::Range;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The circuit on which two guests meet (`exchange.c`).
const MEETING_VCI: u16 = 99;

/// After both scripts' ends, what is on its way has so long to arrive.
const SETTLING: Duration = Duration::from_secs(30);

/// A board of the adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Board {
    /// `asic` or `fpga`.
    pub kind: &'static str,
    /// Its RAM: 512 or 2048.
    pub kilobytes: u32,
}

impl Board {
    /// The board with the ASIC and the small RAM.
    pub const ASIC_512_KB: Board = Board { kind: "asic", kilobytes: 512 };
    /// The board with the ASIC and the large RAM.
    pub const ASIC_2_MB: Board = Board { kind: "asic", kilobytes: 2048 };
    /// The board with the FPGA and the small RAM.
    pub const FPGA_512_KB: Board = Board { kind: "fpga", kilobytes: 512 };
    /// The board with the FPGA and the large RAM.
    pub const FPGA_2_MB: Board = Board { kind: "fpga", kilobytes: 2048 };
    /// All there are.
    pub const ALL: [Board; 4] = [Self::ASIC_512_KB, Self::ASIC_2_MB, Self::FPGA_512_KB, Self::FPGA_2_MB];
}

/// A switch, and an adapter on each of its ports.
pub struct Network {
    /// The network.
    pub up: Up,
}

impl Network {
    /// Adapters of these boards; between the first two, circuits of the VCIs on which they meet and of `vcis`.
    pub fn new(boards: &[Board], vcis: &[Range<u16>]) -> Self {
        let mut text = String::from("[switch.s1]\n");
        for (n, Board { kind, kilobytes }) in boards.iter().enumerate() {
            let ram = if *kilobytes == 2048 { "2 MB".to_owned() } else { format!("{kilobytes} kB") };
            text += &format!(
                r#"
[adapter.eni{n}]
host = "guest{n}"
socket = "eni{n}.sock"
esi = "02:20:ea:61:00:0{n}"
board = "{kind}"
ram = "{ram}"
[[link]]
ends = ["guest{n}", "s1:{n}"]
"#
            );
        }
        if boards.len() > 1 {
            for vci in std::iter::once(MEETING_VCI).chain(vcis.iter().flat_map(Clone::clone)) {
                text += &format!("[[circuit]]\nends = [\"guest0 0.{vci}\", \"guest1 0.{vci}\"]\n");
            }
        }
        Network { up: Up::new(&text) }
    }

    /// Where QEMU attaches to adapter `n`.
    pub fn socket(&self, n: usize) -> PathBuf {
        self.up.path(&format!("eni{n}.sock"))
    }

    /// The ESI of adapter `n` as `/proc/net/atm/devices` has it.
    pub fn esi(&self, n: usize) -> String {
        format!("0220ea61000{n}")
    }

    /// Boots a guest on adapter `n`.
    pub fn boot(&self, n: usize, script: &str, files: &[(&str, &[u8])]) -> anyhow::Result<Guest> {
        Guest::boot_kernel(Kernel::Linux6_1, Machine::Adapter(&self.socket(n)), script, files)
    }

    /// Runs a script in a guest on each of the first two adapters, both at once, to their ends. The second has its time anew
    /// for each `say alive` in its script.
    pub fn run_two(&self, scripts: [&str; 2], files: &[(&str, &[u8])]) -> [Report; 2] {
        let [first, second] = [0, 1].map(|n| self.boot(n, scripts[n], files).unwrap());
        let stages = scripts[1].matches("say alive").count();
        let second = finish(second, stages);
        // The first says why the second waits for ever.
        let first = first.finish();
        [first.unwrap(), second.unwrap()]
    }

    /// The same, and when both scripts have ended, and before the guests do, the counters of switch, adapters and drivers:
    /// see [`Traffic`]. Ends early where `hopeless` says so of them; then the consoles lack what was not said yet.
    ///
    /// # Errors
    /// A script failed, or took longer than `within`; says what both consoles said.
    pub fn run_two_and_count(
        &self,
        scripts: [&str; 2],
        files: &[(&str, &[u8])],
        within: Duration,
        hopeless: impl Fn(&[Traffic; 2]) -> bool,
    ) -> anyhow::Result<[(Report, Traffic); 2]> {
        // Both stay until the other's last PDUs have come, and been counted.
        let ends = "\nsay finished\nwhile :; do cat /proc/net/atm/devices; sleep 1; done\n";
        let mut guests = [0, 1].map(|n| self.boot(n, &format!("{}{ends}", scripts[n]), files).unwrap());
        let said = |guest: &mut Guest, what: &str| guest.log().iter().any(|line| line.starts_with(what));
        let (begin, mut finished) = (Instant::now(), None);
        let (traffic, failed) = loop {
            let traffic = self.traffic(&mut guests);
            if finished.is_none() && guests.each_mut().map(|guest| said(guest, "guest: finished")) == [true; 2] {
                finished = Some(Instant::now());
            }
            let settles = finished.is_some_and(|at| at.elapsed() < SETTLING);
            if traffic.iter().all(Traffic::is_settled) && settles
                || finished.is_some() && !settles
                || hopeless(&traffic)
            {
                break (traffic, "");
            }
            if guests.iter_mut().any(|guest| said(guest, "guest: end ")) {
                break (traffic, "a guest's script failed");
            }
            if begin.elapsed() > within {
                break (traffic, "the guests took too long");
            }
            std::thread::sleep(Duration::from_millis(300));
        };
        let [first, second] = guests.each_mut().map(|guest| Report { console: guest.log().to_vec() });
        let consoles = [&first, &second].map(|report| report.console.join("\n"));
        let [from_first, from_second] = traffic;
        anyhow::ensure!(
            failed.is_empty(),
            "{failed}; the first:\n{}\n{from_first:?}\nthe second:\n{}\n{from_second:?}",
            consoles[0],
            consoles[1]
        );
        Ok([(first, from_first), (second, from_second)])
    }

    fn traffic(&self, guests: &mut [Guest; 2]) -> [Traffic; 2] {
        let status: Value = serde_json::from_slice(&self.up.run("status --json").stdout).unwrap();
        let of = |n: usize| &status["adapters"][n]["counters"];
        let number = |value: &Value| value.as_u64().unwrap_or_default();
        let drivers = guests.each_mut().map(|guest| {
            let report = Report { console: guest.log().to_vec() };
            report.aal5_counters(0).unwrap_or_default()
        });
        [(0, 1), (1, 0)].map(|(from, to)| {
            let dropped = of(to)["received"]["dropped"].as_object().cloned().unwrap_or_default();
            let dropped = dropped.into_iter().map(|(reason, n)| (reason, number(&n))).collect();
            Traffic {
                driver_sent: drivers[from][0],
                sent: number(&of(from)["sent"]["pdus"]),
                cells: [
                    number(&of(from)["sent"]["cells"]),
                    number(&of(from)["line_sent"]["cells"]),
                    number(&of(to)["line_received"]["cells"]),
                ],
                kept: number(&of(to)["received"]["cells"]),
                dropped,
                received: number(&of(to)["received"]["pdus"]),
                driver_received: [drivers[to][2], drivers[to][3], drivers[to][4]],
            }
        })
    }
}

/// What went from one adapter to the other, as everybody on the way has counted it.
#[derive(Debug, Clone, PartialEq)]
pub struct Traffic {
    /// PDUs, by the sender's driver.
    pub driver_sent: u64,
    /// PDUs, by its adapter.
    pub sent: u64,
    /// Cells: segmented; onto the line; off the line at the other end.
    pub cells: [u64; 3],
    /// Cells that the receiving adapter kept.
    pub kept: u64,
    /// What it dropped, by reason: cells; for `crc`, PDUs.
    pub dropped: Vec<(String, u64)>,
    /// Whole PDUs, by the receiving adapter.
    pub received: u64,
    /// By its driver: PDUs, errors, and drops for want of memory.
    pub driver_received: [u64; 3],
}

impl Traffic {
    /// How many were dropped for `reason`.
    pub fn dropped(&self, reason: &str) -> u64 {
        self.dropped.iter().filter(|(name, _)| name == reason).map(|(_, n)| n).sum()
    }

    /// Whether nothing is on its way, and nothing has been lost that nobody counted: each cell segmented came to the other
    /// end, was kept there or dropped for a reason; the drivers have sent and received the PDUs that their adapters have.
    pub fn is_settled(&self) -> bool {
        let dropped: u64 = self.dropped.iter().filter(|(reason, _)| reason != "crc").map(|(_, n)| n).sum();
        let [received, _, no_memory] = self.driver_received;
        let [segmented, sent, came] = self.cells;
        segmented == sent
            && sent == came
            && came == self.kept + dropped
            && self.driver_sent == self.sent
            && received + no_memory == self.received
    }
}

fn finish(mut guest: Guest, stages: usize) -> anyhow::Result<Report> {
    for _ in 0..stages {
        guest.wait_for("guest: alive")?;
    }
    guest.finish()
}

/// The program `exchange` for guests: it exchanges and compares PDUs, and lets two scripts meet.
pub fn exchange() -> anyhow::Result<Vec<u8>> {
    program::for_guest("exchange.c")
}
