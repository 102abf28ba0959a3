//! Seed 002 (Kazantzidis 1997): the Myrinet table.

use crate::experiment::{Experiment, Figure, Origin, Run};
use crate::model::{Level, Machine, Profile, ProfileError, Work};

/// The table as the text gives it: size; nothing special; flow control; copy; copy and flow control (Mbit/s).
const TABLE: [[f64; 5]; 15] = [
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

/// Messages of so many octets, one after another: Mbit/s.
fn messages(machine: &Profile, octets: f64, copy: bool) -> Result<f64, ProfileError> {
    let per_octet = machine.get(if copy { "copy_ns_per_octet" } else { "plain_ns_per_octet" })? * 1e-9;
    let second = if octets > machine.get("buffer_octets")? { machine.get("second_buffer_us")? } else { 0.0 };
    let message = (machine.get("message_us")? + second) * 1e-6;
    let work = Work::cached(message).and(Work::cached(per_octet * octets));
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
        let m = run.machine("sparcstation20")?;
        for (column, name, copy) in [(1, "nothing special", false), (3, "copy", true)] {
            let mut modelled = Vec::new();
            for row in TABLE {
                let (octets, published) = (row[0], row[column]);
                let value = messages(&m, octets, copy)?;
                modelled.push((octets, value));
                let what = format!("{name}, {octets} octets");
                let anchor = [100.0, 8192.0].contains(&octets) || octets == 9200.0 && !copy;
                if anchor {
                    run.anchor("C-31", &what, "Mbit/s", published, value);
                } else {
                    let row = run.within("C-31", &what, "Mbit/s", published, 0.05, value);
                    if octets < 100.0 {
                        row.note("messages of less than about 50 octets are cheaper than two constants say; 0.2 is one digit");
                    }
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
                "no function of size, and the headings' alignment is uncertain: kept, not modelled",
            );
        }
        let most = messages(&m, 8192.0, true)?;
        run.within("C-35", "maximum with Mt, \"approx\"", "Mbit/s", 120.0, 0.05, most)
            .note("the table's own maximum is 117.54");
        let falls = messages(&m, 9200.0, false)? < messages(&m, 8192.0, false)?;
        run.words(
            "C-34",
            "the anomaly above 8K is attributed to buffer size rounding",
            falls,
            "a second buffer costs something for itself; what, is calibrated on 9200 octets without a copy",
        );
        let (least, small) = (messages(&m, 4.0, false)?, messages(&m, 56.0, false)?);
        run.words(
            "C-37",
            "small messages: less than 1 Mbps, 2 Mbps at best",
            least < 1.0 && small < 2.0,
            format!("{least:.2} at 4 octets, {small:.2} at 56"),
        );
        run.exact("C-12", "15 MB/s, in Mbit/s (\"126 MBps\" is a slip)", "Mbit/s", 126.0, 0, 15.0 * 1.048_576 * 8.0);
        run.exact("C-24", "Myrinet link, both ways", "Mbit/s", 1280.0, 0, 2.0 * m.get("link_mbit_s")?)
            .note("25 m at full rate in the table, 10 m in the text");
        run.absent("C-41", "emulation with 2 and 3 receivers", "a table", "its data is not in the text");
        run.absent(
            "C-42",
            "multicast, 1 to 3 groups",
            "a table; maximum at 3 groups and 8192 octets",
            "its data is not in the text",
        );
        run.absent(
            "C-29",
            "the testbed: 5 switches, 6 hosts",
            "a drawing",
            "at very low loads the hops only slightly affect the results",
        );
        run.absent(
            "C-36",
            "send-immediate below and above 500 octets",
            "words",
            "costs of the host's writes into the LANai are not given",
        );
        Ok(())
    }
}
