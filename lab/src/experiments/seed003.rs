//! Seed 003 (ATM on Linux 0.4): both performance tables and the theoretical limits.

use super::units::{MEBI, line_mbit_s};
use crate::experiment::{Experiment, MEBIBIT, Measured, Mechanism, Probe, Run, Test};
use crate::model::pair::{PairOutcome, Scenario, Transport};
use crate::model::{Profile, ProfileError};
use endpoint::DataPath;

/// Octets of each write (D-5).
const OCTETS: usize = 8192;
/// What the README says of its own accuracy (D-11).
const ACCURACY: f64 = 0.05;

/// See the module's head.
#[derive(Debug)]
pub struct Tables;

impl Tables {
    /// The real TCP, its acknowledgements and its window.
    fn tcp(&self, run: &mut Run<'_>) -> Result<(), ProfileError> {
        let tcp = Self::ttcp(run, Transport::Tcp, false)?;
        run.number("D-9", "v0.1 TCP, sent", MEBIBIT, (63.0, 67.0), ACCURACY, tcp.sent_mbit_s / MEBI)
            .fact("TCP 63 to 67 at both ends")
            .by(Mechanism::Internet);
        run.number("D-9", "v0.1 TCP, received", MEBIBIT, (63.0, 67.0), ACCURACY, tcp.received_mbit_s / MEBI)
            .fact("TCP 63 to 67 at both ends")
            .by(Mechanism::Internet);
        run.identity("D-9", "v0.1 TCP, lost", "%", 0.0, 0, tcp.lost * 100.0).note("what TCP is for");
        Ok(())
    }

    /// What a tenth more or less of one cost does to the table.
    fn accuracy(&self, run: &mut Run<'_>) -> Result<(), ProfileError> {
        let machine = run.machine("pentium90-neptune")?;
        let pdus = run.size(2048, 500);
        let ways = [Transport::Raw, Transport::Udp { checksum: false }, Transport::Udp { checksum: true }];
        let mut rates = |machine: &Profile| -> Result<Vec<f64>, ProfileError> {
            let mut one = |transport: &Transport| {
                Ok(run.pair(&Scenario::new(machine, machine, *transport, pdus))?.received_mbit_s)
            };
            ways.iter().map(&mut one).collect()
        };
        let before = rates(&machine)?;
        let mut most = (0.0, "");
        for constant in ["receive_us", "ip_receive_us", "ip_send_us", "checksum_mb_s", "send_interrupt_us"] {
            let mut changed = machine.clone();
            changed.set(constant, machine.get(constant)? * 1.1)?;
            let after = rates(&changed)?;
            let moved = before.iter().zip(&after).map(|(a, b)| (b / a - 1.0).abs() * 100.0).fold(0.0, f64::max);
            if moved > most.0 {
                most = (moved, constant);
            }
        }
        run.words(
            "D-11",
            "Even marginal changes can lead to a systematic change of 2-3%.",
            Test::new(
                most.0 > 1.5 && most.0 < 3.5,
                "a tenth more of one cost changes what raw AAL5 or UDP receives by 1.5 to 3.5 % at most",
                "a table that hardly moves, or one that moves by more than its stated accuracy",
            ),
            format!("by {:.1} % at most, by {}", most.0, most.1),
        );
        let pdu_us = OCTETS as f64 * 8.0 / before[0];
        run.absent(
            "D-11",
            "debugging code of version 0.4",
            "about 10% slower",
            &format!(
                "what it does is not in the text; a tenth of the rate of raw AAL5 is {:.0} us for each PDU",
                pdu_us / 9.0
            ),
        );
        Ok(())
    }

    /// "Neptune and Triton PCI board": each as sender and as receiver. The ranges that this gives, and the printed ones.
    fn pairings(&self, run: &mut Run<'_>) -> Result<(), ProfileError> {
        let machines = [run.machine("pentium90-neptune")?, run.machine("pentium90-triton")?];
        let pdus = run.size(2048, 500);
        for (id, name, transport, ranges) in [
            (
                "D-6",
                "raw AAL5",
                Transport::Raw,
                [(128.0, 132.0, "128-132"), (101.0, 101.0, "101"), (0.0, 13.0, "0-13%")],
            ),
            (
                "D-7",
                "UDP, checksum",
                Transport::Udp { checksum: true },
                [(111.0, 127.0, "111-127"), (17.0, 55.0, "17- 55"), (49.0, 76.0, "49-76%")],
            ),
            (
                "D-8",
                "UDP, no checksum",
                Transport::Udp { checksum: false },
                [(114.0, 128.0, "114-128"), (73.0, 82.0, "73- 82"), (27.0, 41.0, "27-41%")],
            ),
        ] {
            let mut seen: Vec<[f64; 3]> = Vec::new();
            for (sender, receiver) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                let (sender, receiver) = (&machines[sender], &machines[receiver]);
                let scenario = Scenario { octets: OCTETS, ..Scenario::new(sender, receiver, transport, pdus) };
                let outcome = run.pair(&scenario)?;
                seen.push([outcome.sent_mbit_s / MEBI, outcome.received_mbit_s / MEBI, outcome.lost * 100.0]);
            }
            for (i, what) in ["sent", "received", "lost"].into_iter().enumerate() {
                let all = || seen.iter().map(|outcome| outcome[i]);
                let (least, greatest) = (all().fold(f64::MAX, f64::min), all().fold(f64::MIN, f64::max));
                let (from, to, _) = ranges[i];
                let near = |a: f64, b: f64| if i == 2 { (a - b).abs() <= 5.0 } else { (a / b - 1.0).abs() <= ACCURACY };
                let row = run.words(
                    id,
                    ranges[i].2,
                    Test::new(
                        near(least, from) && near(greatest, to),
                        "both ends of the range over the four pairings within 5 % (of losses, 5 points)",
                        "either end further off",
                    ),
                    format!(
                        "{least:.1} to {greatest:.1}; Neptune to Neptune {:.1}, to Triton {:.1}, Triton to Neptune {:.1}, to Triton {:.1}",
                        seen[0][i], seen[1][i], seen[2][i], seen[3][i]
                    ),
                );
                row.what = format!("{name}, {what}, over the pairings of Neptune and Triton");
                row.fact = format!("{id}: {}", row.what);
            }
        }
        Ok(())
    }

    fn ttcp(run: &mut Run<'_>, transport: Transport, single_copy: bool) -> Result<PairOutcome, ProfileError> {
        let machine = run.machine("pentium90-neptune")?;
        let pdus = run.size(2048, 500);
        let scenario = Scenario { octets: OCTETS, single_copy, ..Scenario::new(&machine, &machine, transport, pdus) };
        let outcome = run.pair(&scenario)?;
        Ok(outcome)
    }
}

impl Experiment for Tables {
    fn name(&self) -> &'static str {
        "seed003-tables"
    }

    fn title(&self) -> &'static str {
        "ttcp between two Pentium 90: raw AAL5, UDP with and without checksum, TCP"
    }

    fn run(&self, run: &mut Run<'_>) -> Result<(), ProfileError> {
        run.arithmetic("D-12", "theoretical limit, raw AAL5, 8192 octets", "Mbit/s", 135.367, 3, line_mbit_s(OCTETS));
        // With 28 octets of IP and UDP, as without and as with 8 of LLC/SNAP: the same cells.
        let udp = line_mbit_s(OCTETS + 36) * OCTETS as f64 / (OCTETS + 36) as f64;
        run.arithmetic("D-12", "theoretical limit, UDP, 8192 octets", "Mbit/s", 134.580, 3, udp);

        let raw = Self::ttcp(run, Transport::Raw, false)?;
        let hacks = Self::ttcp(run, Transport::Raw, true)?;
        let plain = Self::ttcp(run, Transport::Udp { checksum: false }, false)?;
        let summed = Self::ttcp(run, Transport::Udp { checksum: true }, false)?;
        // In the row's unit.
        let mebi = |m: Measured| m.map(|mbit_s| mbit_s / MEBI);
        let live = run.measure(Probe::Path { octets: OCTETS, path: DataPath::Copying }).map(mebi);
        let live_hacks = run.measure(Probe::Path { octets: OCTETS, path: DataPath::SingleCopy }).map(mebi);

        run.anchor("D-10", "v0.0 raw AAL5, copying, sent", MEBIBIT, 132.0, raw.sent_mbit_s / MEBI);
        run.number("D-10", "v0.0 raw AAL5, copying, received", MEBIBIT, 97.0, ACCURACY, raw.received_mbit_s / MEBI)
            .measured(live)
            .note("the constant is fitted to 101, of v0.1");
        run.identity("D-10", "v0.0 raw AAL5, copying, lost", "%", 0.0, 0, raw.lost * 100.0)
            .note("kernel buffers are unbounded, and nothing else in the model loses");
        run.anchor("D-10", "v0.0 raw AAL5, MMU hacks, sent", MEBIBIT, 1607.0, hacks.sent_mbit_s / MEBI)
            .note("an enqueue rate (D-11)");
        run.identity("D-10", "v0.0 raw AAL5, MMU hacks, received", MEBIBIT, 129.0, 0, hacks.received_mbit_s / MEBI)
            .measured(live_hacks)
            .note("the row of A-53 once more: the line's maximum");
        run.identity("D-10", "v0.0 raw AAL5, MMU hacks, lost", "%", 0.0, 0, hacks.lost * 100.0)
            .note("kernel buffers are unbounded, and nothing else in the model loses");
        run.number("D-10", "v0.0 UDP, checksum, sent", MEBIBIT, 117.0, ACCURACY, summed.sent_mbit_s / MEBI)
            .note("the sender sums while it copies what is in its cache: modelled as free");
        run.anchor("D-10", "v0.0 UDP, checksum, received", MEBIBIT, 51.0, summed.received_mbit_s / MEBI);
        run.number(
            "D-10",
            "v0.0 UDP, checksum, lost",
            "%",
            56.0,
            ACCURACY,
            (1.0 - summed.received_mbit_s / summed.sent_mbit_s) * 100.0,
        )
        .note(format!("one less what is received over what is sent; counted {:.1}", summed.lost * 100.0));
        run.anchor("D-10", "v0.0 UDP, no checksum, sent", MEBIBIT, 118.0, plain.sent_mbit_s / MEBI);
        run.anchor("D-10", "v0.0 UDP, no checksum, received", MEBIBIT, 72.0, plain.received_mbit_s / MEBI);
        run.number(
            "D-10",
            "v0.0 UDP, no checksum, lost",
            "%",
            39.0,
            ACCURACY,
            (1.0 - plain.received_mbit_s / plain.sent_mbit_s) * 100.0,
        )
        .note(format!("one less what is received over what is sent, both anchors; counted {:.1}", plain.lost * 100.0));
        run.absent(
            "D-10",
            "v0.0 TCP, both ends",
            "38",
            "v0.0's TCP differs from v0.1's by code that the text does not describe",
        );

        run.number("D-6", "v0.1 raw AAL5, sent", MEBIBIT, (128.0, 132.0), ACCURACY, raw.sent_mbit_s / MEBI);
        run.anchor("D-6", "v0.1 raw AAL5, received", MEBIBIT, 101.0, raw.received_mbit_s / MEBI)
            .note("v0.0's 97 is the same machine with other code: one constant cannot give both");
        run.number("D-6", "v0.1 raw AAL5, lost", "%", (0.0, 13.0), 0.0, raw.lost * 100.0)
            .note("no cause but overload is modelled, and here there is none: kernel buffers are unbounded");
        run.number("D-7", "v0.1 UDP, checksum, sent", MEBIBIT, (111.0, 127.0), 0.0, summed.sent_mbit_s / MEBI);
        run.number("D-7", "v0.1 UDP, checksum, received", MEBIBIT, (17.0, 55.0), 0.0, summed.received_mbit_s / MEBI)
            .note("D-10's 51 in a wide range");
        run.number("D-7", "v0.1 UDP, checksum, lost", "%", (49.0, 76.0), 0.0, summed.lost * 100.0);
        run.absent(
            "D-7",
            "slowdown by printed warnings",
            "(*)",
            "how many were printed and what the console cost is not in the text; the low end of 17 to 55 is theirs",
        );
        run.number("D-8", "v0.1 UDP, no checksum, sent", MEBIBIT, (114.0, 128.0), 0.0, plain.sent_mbit_s / MEBI);
        run.number(
            "D-8",
            "v0.1 UDP, no checksum, received",
            MEBIBIT,
            (73.0, 82.0),
            ACCURACY,
            plain.received_mbit_s / MEBI,
        );
        run.number("D-8", "v0.1 UDP, no checksum, lost", "%", (27.0, 41.0), 0.0, plain.lost * 100.0);
        self.tcp(run)?;
        self.accuracy(run)?;
        self.pairings(run)?;
        let gain = plain.received_mbit_s / summed.received_mbit_s;
        run.words(
            "A-25",
            "UDP checksums are not needed if source and destination are communicating directly over ATM",
            Test::new(
                gain > 1.2,
                "omitting the checksum multiplies what is received by 1.2 at least",
                "a gain below 1.2: then omitting is not worth it",
            ),
            format!("omitting it multiplies what is received by {gain:.2} in the model, by 1.41 in v0.0's table"),
        );
        Ok(())
    }

    fn today(&self, run: &mut Run<'_>) {
        super::today::tables(run);
    }
}
