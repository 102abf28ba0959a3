//! Seed 001: writes beside other work: an FTP from an Ethernet, a benchmark; and what an interrupt for each cell would leave.

use crate::experiment::{Experiment, Figure, Origin, Run, Test};
use crate::model::signal::{Strategy, capacity};
use crate::model::write::{self, Driver, Rival};
use crate::model::{Profile, ProfileError};
use wire::CellRate;

/// A frame of 1500 octets each time that an Ethernet of 10 Mbit/s has carried one, with preamble and gap.
const FRAME_OCTETS: f64 = 1500.0;
const FRAME_SECONDS: f64 = 1538.0 * 8.0 / 10e6;

fn rival(m: &Profile, share: f64) -> Result<Rival, ProfileError> {
    Ok(Rival {
        interval: FRAME_SECONDS / share,
        processor: m.get("frame_us")? * 1e-6,
        bus: FRAME_OCTETS / 4.0 * m.get("dma_word_ns")? * 1e-9,
    })
}

/// See the module's head.
#[derive(Debug)]
pub struct Competition;

impl Experiment for Competition {
    fn name(&self) -> &'static str {
        "seed001-competition"
    }

    fn title(&self) -> &'static str {
        "testwr beside an FTP from an Ethernet and a benchmark; an interrupt for each cell"
    }

    fn run(&self, run: &mut Run<'_>) -> Result<(), ProfileError> {
        let m = run.machine("rs6000-320")?;
        let writes = run.size(128, 64);
        let alone = write::run(&m, Driver::UserBuffer, 65_536, writes, false)?;
        run.happened(alone.pdus, alone.cells);
        let mut points = vec![(0.0, alone)];
        for share in [0.25, 0.5, 1.0] {
            let beside = write::run_beside(&m, Driver::UserBuffer, 65_536, writes, Some(rival(&m, share)?))?;
            run.happened(beside.pdus, beside.cells);
            points.push((share, beside));
        }
        let lost = |of: &write::WriteOutcome| (1.0 - of.mbit_s / alone.mbit_s) * 100.0;
        let full = points[3].1;
        run.words(
            "B-44",
            "little or no system performance degradation, even when competing for I/O resources",
            Test::new(
                lost(&full) < 10.0 && 1.0 - alone.processor > 0.8,
                "an FTP that fills an Ethernet of 10 Mbit/s takes less than 10 % from writes of 64 KB, and these leave a benchmark more than \
                 80 % of the processor",
                "10 % less, or 80 % left or less",
            ),
            format!(
                "with an Ethernet filled to 25, 50 and 100 %: {:.1}, {:.1} and {:.1} % less; the writes leave {:.0} % of the processor, with a full \
                 Ethernet {:.0} %. What the FTP's frames cost is assumed, and a PC/RT filled no Ethernet",
                lost(&points[1].1),
                lost(&points[2].1),
                lost(&full),
                (1.0 - alone.processor) * 100.0,
                (1.0 - full.processor) * 100.0
            ),
        );
        let mut figure = Figure::new(
            "seed001-competition",
            "Writes of 64 KB beside an FTP",
            ["% of an Ethernet", "Mbit/s"],
            [false, false],
        );
        figure.add("modelled", Origin::Modelled, points.iter().map(|(share, of)| (share * 100.0, of.mbit_s)));
        run.figure(figure);

        // The system's clock, a hundred times a second, each tick as dear as the finest timer's.
        let clock = Rival { interval: 0.01, processor: m.get("timer_tick_us")? * 1e-6, bus: 0.0 };
        let long = run.size(4096, 1024);
        let rates = [128, long].map(|writes| write::run_beside(&m, Driver::UserBuffer, 65_536, writes, Some(clock)));
        let [short, long_rate] = rates;
        let (short, long_rate) = (short?.mbit_s, long_rate?.mbit_s);
        run.words(
            "B-41",
            "All measurements are repeatable to 3 significant digits of accuracy",
            Test::new(
                (short - long_rate).abs() < 0.5,
                "beside a clock of 100 Hz with ticks of 950 us, 8 MB and longer runs of writes of 64 KB print the same three digits: less than \
                 0.5 Mbit/s apart",
                "half a Mbit/s apart: then ticks would show in runs as short as the paper's",
            ),
            format!(
                "{short:.2} for 8 MB, {long_rate:.2} for {} MB: with ticks as dear as those of the finest timer the third digit differs, so the \
                 system's own are cheaper",
                long / 16
            ),
        );
        // A cell's data cross at the IOCC's rate; what an interrupt takes is what a tick takes, whose handler does as much.
        let (cell, handler) = (384.0 / (write::hardware(&m, 65_536)? * 1e6), m.get("timer_tick_us")? * 1e-6);
        let offered = CellRate::OC3C.cells_per_s();
        let served = capacity(Strategy::Interrupt, handler, cell, offered, run.size(4, 1) as f64);
        run.words(
            "B-23",
            "Full interrupt service per ATM cell would severely limit the workstation's network bandwidth, as well as leaving little capacity for \
             applications",
            Test::new(
                served < 0.1 * offered,
                "an interrupt for each cell of a full OC-3c: less than a tenth of the cells are served",
                "a tenth or more, as with an interrupt of 25 us",
            ),
            format!(
                "{:.2} % of the cells, {:.2} Mbit/s of payload, with an interrupt as long as a tick ({:.0} us), and nothing left",
                served / offered * 100.0,
                served * 384.0 / 1e6,
                handler * 1e6
            ),
        );
        run.words(
            "B-29",
            "the interrupt service time can exceed the data service time. This remains true for considerably larger aggregations of cells",
            Test::new(
                handler > 10.0 * cell,
                "an interrupt takes longer than moving ten cells",
                "an interrupt of 27 us or less; B-23's row says the same of one cell",
            ),
            format!("as long as moving {:.0} cells, {:.0} octets", handler / cell, handler / cell * 48.0),
        );
        Ok(())
    }
}
