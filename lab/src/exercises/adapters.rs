//! Exercises about the line and the adapter of seed 001: cells, stages in a row, system calls, bursts over a bus.

use super::{Asked, Exercise, pick};
use crate::model::write::{self, Driver};
use crate::model::{Profile, ProfileError, Random, tandem};
use wire::{CellRate, aal5};

/// Bits of a cell on the line.
const CELL_BITS: f64 = 424.0;

/// 1: what the line carries of AAL5.
pub(super) fn line(random: &mut Random) -> Result<Exercise, ProfileError> {
    let sizes = [pick(random, 40.0, 600.0, 1.0), pick(random, 2000.0, 9180.0, 1.0)];
    let rate = |octets: f64| {
        let seconds = aal5::cells(octets as usize) as f64 / CellRate::OC3C.cells_per_s();
        octets * 8.0 / seconds / 1e6
    };
    let of = |what, octets| Asked { what, unit: "Mbit/s", answer: rate(octets), tolerance: 0.002 };
    let [small, large] = sizes;
    Ok(Exercise {
        number: 1,
        title: "The line",
        question: format!(
            "OC-3c carries 149.76 Mbit/s of cells of 53 octets. What is the greatest rate of AAL5 data with PDUs of {small} \
             octets, and with PDUs of {large}?"
        ),
        drawn: vec![("small", small), ("large", large)],
        asked: vec![of("with the smaller PDUs", small), of("with the larger PDUs", large)],
        way: "AAL5 adds a trailer of 8 octets and fills up the last cell: a PDU of n octets takes ceil((n + 8) / 48) cells. \
              The rate is n / (53 x cells) x 149.76 Mbit/s. Only cells are counted: it is arithmetic."
            .to_owned(),
    })
}

/// 4: stages in a row.
pub(super) fn which_stage(random: &mut Random) -> Result<Exercise, ProfileError> {
    let slow = [pick(random, 1600.0, 3200.0, 50.0), pick(random, 1600.0, 3200.0, 50.0)];
    let fast = [pick(random, 400.0, 600.0, 10.0), pick(random, 620.0, 900.0, 10.0)];
    let rate = |stages: &[f64]| {
        let (few, many) = (tandem::seconds(1_000, stages), tandem::seconds(3_000, stages));
        CELL_BITS * 2_000.0 / (many - few) * 1e3
    };
    let (alone, whole) = (rate(&fast), rate(&[slow[0], fast[0], fast[1], slow[1]]));
    let of = |what, answer| Asked { what, unit: "Mbit/s", answer, tolerance: 0.01 };
    Ok(Exercise {
        number: 4,
        title: "Which stage?",
        question: format!(
            "A reassembler has four stages in a row: cell manager {} ns, CAM {} ns, list manager {} ns and buffer {} ns for each \
             cell of 424 bits. Each stage works on a cell of its own. What do the CAM and the list manager pass by themselves, and \
             what does the whole pipeline pass?",
            slow[0], fast[0], fast[1], slow[1]
        ),
        drawn: vec![("manager", slow[0]), ("cam", fast[0]), ("lists", fast[1]), ("buffer", slow[1])],
        asked: vec![of("CAM and list manager", alone), of("the whole pipeline", whole)],
        way: "The slowest stage sets the rate: 424 bits in its time. The paper's 650 Mbit/s leave the cell manager and the \
              buffer out, which are clocked for OC-3c. Compare `cellway-lab run seed001-pipeline --no-measure`, row B-37."
            .to_owned(),
    })
}

fn rs6000(changes: &[(&str, f64)]) -> Result<Profile, ProfileError> {
    let mut machine = Profile::named("rs6000-320")?;
    changes.iter().try_for_each(|(constant, value)| machine.set(constant, *value))?;
    Ok(machine)
}

/// 5: what a faster system call gains.
pub(super) fn faster_call(random: &mut Random) -> Result<Exercise, ProfileError> {
    let (call, load) = (pick(random, 200.0, 800.0, 10.0), pick(random, 2.0, 4.0, 0.1));
    let rate = |call: f64, octets: usize| {
        let machine = rs6000(&[("write_us", call), ("iocc_load_us", load)])?;
        Ok(write::run(&machine, Driver::UserBuffer, octets, 24, false)?.mbit_s)
    };
    let gain = |octets| Ok(rate(call / 2.0, octets)? / rate(call, octets)?);
    let of = |what, answer| Asked { what, unit: "times the rate", answer, tolerance: 0.03 };
    let asked = vec![of("at 1 KB", gain(1024)?), of("at 64 KB", gain(65_536)?)];
    Ok(Exercise {
        number: 5,
        title: "A faster system call",
        question: format!(
            "A write to the Segmenter takes {call} us for the call, and then a burst for each 64 octets: 16 words of 100 ns, and \
             {load:.1} us to load the I/O channel controller's buffer. The call returns when the card is idle. By which factor \
             does the rate grow at writes of 1 KB and of 64 KB, if the call takes half as long?"
        ),
        drawn: vec![("call_us", call), ("load_us", load)],
        asked,
        way: format!(
            "A write of n octets takes the call and n / 64 bursts of {:.1} us. Divide both sums: the call is most of a small \
             write and little of a large one.",
            1.6 + load
        ),
    })
}

/// 7: another bus.
pub(super) fn another_bus(random: &mut Random) -> Result<Exercise, ProfileError> {
    let load = pick(random, 2.5, 8.0, 0.1);
    let machine = rs6000(&[("iocc_load_us", load)])?;
    let hardware = write::hardware(&machine, 65_536)?;
    let rate = |octets| Ok(write::run(&machine, Driver::UserBuffer, octets, 24, false)?.mbit_s);
    let share = rate(65_536)? / hardware * 100.0;
    let way = "A burst of 64 octets takes 1.6 us and the load. A write of 64 KB adds one call of 409.6 us to 1024 bursts. The \
               rate follows the load, while the share moves far less: a row that agrees with every machine is no evidence about \
               one. Compare rows B-40 and B-36: copy the file of the machine, set the constant, and run `cellway-lab run \
               seed001-pipeline seed001-writes --machine FILE --no-measure`.";
    Ok(Exercise {
        number: 7,
        title: "Another bus",
        question: format!(
            "The I/O channel controller of a machine like the RS/6000 320 takes {load:.1} us instead of 2 us to load its buffer of 16 \
             words of 100 ns each. What does the card pass by itself (64 KB), and which share of that does an application get \
             whose writes of 64 KB cost 409.6 us each beside the bursts?"
        ),
        drawn: vec![("load_us", load)],
        asked: vec![
            Asked { what: "the card by itself", unit: "Mbit/s", answer: hardware, tolerance: 0.02 },
            Asked { what: "the application's share of it", unit: "%", answer: share, tolerance: 0.02 },
        ],
        way: way.to_owned(),
    })
}
