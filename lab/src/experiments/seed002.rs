//! Seed 002 (Kazantzidis 1997): the Myrinet table.

use crate::experiment::{Experiment, Figure, Origin, Run, Test};
use crate::model::{Level, Machine, Profile, ProfileError, Work};

/// The table as the text gives it: size; nothing special; flow control; copy; copy and flow control (Mbit/s).
pub(super) const TABLE: [[f64; 5]; 15] = [
    [4.0, 0.2, 0.0, 0.2, 0.0],
    [16.0, 0.52, 0.3, 0.51, 0.31],
    [32.0, 0.9, 0.27, 0.9, 0.3],
    [56.0, 1.46, 0.89, 1.48, 0.94],
    [100.0, 2.51, 0.68, 2.51, 0.16],
    [512.0, 12.16, 0.42, 12.07, 0.51],
    [576.0, 13.47, 0.02, 13.7, 1.0],
    [640.0, 15.1, 0.61, 15.01, 0.5],
    [768.0, 17.85, 0.45, 17.89, 0.0],
    [896.0, 20.4, 1.02, 20.6, 1.2],
    [1024.0, 23.26, 1.96, 23.53, 0.04],
    [3000.0, 60.57, 1.07, 60.49, 1.12],
    [5000.0, 86.81, 0.2, 87.67, 0.16],
    [8192.0, 113.21, 0.32, 117.54, 0.32],
    [9200.0, 105.48, 0.36, 107.46, 0.36],
];

/// Messages of so many octets, one after another, each moved by a processor or by DMA, whichever takes less: Mbit/s.
fn messages(machine: &Profile, octets: f64, copy: bool) -> Result<f64, ProfileError> {
    let us = |name: &str| Ok(machine.get(name)? * 1e-6);
    let ns = |name: &str| Ok(machine.get(name)? * 1e-9);
    let by_dma = us("dma_setup_us")? + octets * ns(if copy { "copy_ns_per_octet" } else { "plain_ns_per_octet" })?;
    let by_processor = octets * ns("programmed_ns_per_octet")?;
    let second = if octets > machine.get("buffer_octets")? { us("second_buffer_us")? } else { 0.0 };
    let work = Work::cached(us("message_us")? + second).and(Work::cached(by_dma.min(by_processor)));
    let mut simulated = Machine::default();
    let mut now = wire::Time::ZERO;
    for _ in 0..100 {
        simulated.submit(Level::Process, work, ());
    }
    while let Some(at) = simulated.poll_timeout() {
        simulated.advance(at, |()| {});
        now = at;
    }
    Ok(octets * 8.0 * 100.0 / now.as_secs_f64() / 1e6)
}

/// See the module's head.
#[derive(Debug)]
pub struct Myrinet;

impl Experiment for Myrinet {
    fn name(&self) -> &'static str {
        "seed002-myrinet"
    }

    fn title(&self) -> &'static str {
        "Myrinet between two hosts: bandwidth over message size, and what the text of seed 002 gives"
    }

    fn run(&self, run: &mut Run<'_>) -> Result<(), ProfileError> {
        let m = run.machine("ucla-myrinet")?;
        for (column, name, copy) in [(1, "nothing special", false), (3, "copy", true)] {
            let mut modelled = Vec::new();
            for row in TABLE {
                let (octets, published) = (row[0], row[column]);
                let value = messages(&m, octets, copy)?;
                modelled.push((octets, value));
                let what = format!("{name}, {octets} octets");
                let anchors: &[f64] = if copy { &[8192.0] } else { &[16.0, 32.0, 100.0, 8192.0, 9200.0] };
                if anchors.contains(&octets) {
                    run.anchor("C-31", &what, "Mbit/s", published, value);
                } else {
                    // A line through a few of the points foretells the others: that is one fact, however many the points.
                    let range = (published - 0.05, published + 0.05);
                    let row = if octets < 10.0 {
                        run.number("C-31", &what, "Mbit/s", range, 0.0, value).note(format!(
                            "printed as {published}, with one digit: what rounds to it, and nothing else"
                        ))
                    } else {
                        run.number("C-31", &what, "Mbit/s", published, 0.05, value)
                    };
                    row.fact(match (copy, octets) {
                        (false, ..=64.0) => "nothing special: small messages on the line through 16 and 32 octets",
                        (false, _) => "nothing special: messages of up to 8 kB on the line through 100 and 8192 octets",
                        (true, ..=64.0) => "copy: small messages as without",
                        (true, ..=8192.0) => {
                            "copy: messages of up to 8 kB by the first column's set-up and 8192 octets"
                        }
                        (true, _) => "copy: a second buffer costs what it costs without",
                    });
                }
            }
            let mut figure = Figure::new(
                &format!("seed002-{}", name.replace(' ', "-")),
                &format!("Myrinet, {name}"),
                ["octets of a message", "Mbit/s"],
                [true, true],
            );
            figure.add("published", Origin::Published, TABLE.iter().map(|r| (r[0], r[column])));
            figure.add("modelled", Origin::Modelled, modelled);
            run.figure(figure);
        }
        for row in TABLE {
            run.absent(
                "C-31",
                &format!("flow control; copy and flow control, {} octets", row[0]),
                &format!("{}; {}", row[2], row[4]),
                "no function of size, and the headings' alignment is uncertain: kept, not modelled; stop-and-wait with these costs per \
                 message would give about half of the other columns, not a fiftieth",
            );
        }
        let most = messages(&m, 8192.0, true)?;
        run.number("C-35", "maximum with Mt, \"approx\"", "Mbit/s", 120.0, 0.05, most)
            .note("the table's own maximum is 117.54, an anchor");
        let falls = messages(&m, 9200.0, false)? < messages(&m, 8192.0, false)?;
        run.words(
            "C-34",
            "The anomaly appearing at message sizes of 8K and 9000 is attributed to buffer size rounding problems",
            Test::new(
                falls,
                "9200 octets are slower than 8192",
                "9200 octets as fast as 8192: then no second buffer is needed",
            ),
            "a second buffer costs something for itself; what, is calibrated on 9200 octets without a copy",
        );
        let (least, small) = (messages(&m, 4.0, false)?, messages(&m, 56.0, false)?);
        run.words(
            "C-37",
            "less than 1Mbps",
            Test::new(
                least < 1.0 && small < 2.0,
                "below 1 Mbit/s at 4 octets and below 2 Mbps at best, at 56",
                "1 Mbit/s at 4 octets, or 2 at 56",
            ),
            format!("{least:.2} at 4 octets, {small:.2} at 56"),
        );
        run.arithmetic(
            "C-12",
            "15 MB/s, in Mbit/s (\"126 MBps\" is a slip)",
            "Mbit/s",
            126.0,
            0,
            15.0 * 1.048_576 * 8.0,
        );
        run.identity("C-24", "Myrinet link, both ways", "Mbit/s", 1280.0, 0, 2.0 * m.get("link_mbit_s")?)
            .note("cables: the text says up to 25 m, and full rate up to 10 m; the table says 10 m at high bandwidth and 25 m at 640 Mbit/s");
        run.absent(
            "C-42",
            "multicast by 1, 2 and 3 groups at once",
            "a table; the maximum at 3 groups and 8192 octets",
            "the table is not in the text, and what several applications on one host share of it is not either",
        );
        run.absent(
            "C-36",
            "send-immediate below and above 500 octets",
            "words",
            "the effect is shown in a graph whose values are not in the text; what the host's own writes into the LANai cost, and how \
             its buffers are divided, is not given",
        );
        let (setup, octet) = (m.get("dma_setup_us")?, m.get("programmed_ns_per_octet")? / 1e3);
        run.words(
            "C-36",
            "This saves overhead in setting up the DMA in the MCP and so reduces latency for small messages",
            Test::new(
                16.0 * octet < setup && 1024.0 * octet > setup,
                "moving 16 octets by a processor takes less than preparing a DMA transfer, 1024 octets more",
                "a preparation that takes less than 16 octets do",
            ),
            format!(
                "moved by a processor, 16 octets take {:.0} us of the {setup:.0} that preparing a DMA transfer takes; the two break even at \
                 {:.0} octets. Both constants are calibrated on the first column of the table, where the interface chooses, not on the graph",
                16.0 * octet,
                setup / octet
            ),
        );
        Ok(())
    }

    fn today(&self, run: &mut Run<'_>) {
        super::today::messages(run);
    }
}
