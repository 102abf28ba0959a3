//! Guests of Linux 6.1 with an ENI155P of ours each, on one switch: what the tests of its driver share.

use crate::guest::{Guest, Kernel, Machine, Report};
use crate::program;
use crate::up::Up;
use std::ops::Range;
use std::path::PathBuf;

/// The circuit on which two guests meet (`exchange.c`).
const MEETING_VCI: u16 = 99;

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
