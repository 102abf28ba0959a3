//! Seed 000, section 2: adapters that keep whole PDUs and ones that do not, as chips with their drivers: how long a PDU of 64 kB takes, and
//! how much memory an adapter needs at 155 Mbit/s.

use super::units::line_mbit_s;
use crate::experiment::{Experiment, Figure, Origin, Run, Test};
use crate::model::pair::{Scenario, Transport};
use crate::model::{Profile, ProfileError};
use bus::HostMemory;
use bus::memory::Flat;
use jit::{Buffer, Config, Descriptor, Event, Jit, Lists};
use wire::{Cell, CircuitId, Time, aal5};

/// The longest PDU.
const OCTETS: usize = 65_535;
/// Octets each microsecond of the bus that section 2.2 reckons with: 50 MB of 2^20.
const BUS_MB_S: f64 = 50.0 * 1.048_576;

/// The machine with that bus, on which nothing else takes time.
fn bare(mut machine: Profile) -> Result<Profile, ProfileError> {
    for constant in ["memory_io_mb_s", "receive_dma_mb_s"] {
        machine.set(constant, BUS_MB_S)?;
    }
    for constant in ["allocate_us", "lock_us", "send_interrupt_us", "receive_us"] {
        machine.set(constant, 0.0)?;
    }
    Ok(machine)
}

/// Milliseconds of one PDU from memory to memory through two just-in-time adapters.
fn just_in_time() -> Option<f64> {
    let circuit = CircuitId::new(0, 100)?;
    let lists = Lists { first: 0, rest: 0 };
    let mut ends = [Jit::new(Config::default()), Jit::new(Config::default())];
    let mut memory = [Flat::new(0, 1 << 17), Flat::new(0, 1 << 17)];
    memory[0].write(0, &vec![0x5a; OCTETS]).ok()?;
    ends.iter_mut().for_each(|end| {
        end.open(circuit, lists);
    });
    ends[1].replenish(0, Buffer { address: 0, octets: (aal5::cells(OCTETS) * 48) as u32 });
    ends[0].send(0, Descriptor { circuit, address: 0, octets: OCTETS as u32, cookie: 0 });
    let (mut now, mut cells) = (Time::ZERO, [Cell::default(); 1]);
    loop {
        let [sender, receiver] = &mut ends;
        sender.run(&mut memory[0], now);
        let n = sender.fill(&mut cells, &mut memory[0], now);
        receiver.handle_cells(&cells[..n], now);
        receiver.run(&mut memory[1], now);
        while let Some(event) = receiver.poll_event() {
            if matches!(event, Event::Received { .. }) {
                return Some(now.as_secs_f64() * 1e3);
            }
        }
        now = now.max(sender.poll_timeout().into_iter().chain(receiver.poll_timeout()).min()?);
    }
}

/// See the module's head.
#[derive(Debug)]
pub struct Adapters;

impl Experiment for Adapters {
    fn name(&self) -> &'static str {
        "seed000-adapters"
    }

    fn title(&self) -> &'static str {
        "Adapters as chips with drivers: the delay of keeping a PDU whole, and how much memory 155 Mbit/s needs"
    }

    fn run(&self, run: &mut Run<'_>) -> Result<(), ProfileError> {
        let neptune = run.machine("pentium90-neptune")?;
        let machine = bare(neptune.clone())?;
        let one =
            Scenario { octets: OCTETS, single_copy: true, ..Scenario::new(&machine, &machine, Transport::Raw, 1) };
        let outcome = run.pair(&one)?;
        let (whole, through) = (outcome.first_ms, run.ran(just_in_time(), "64 kB by two just-in-time adapters"));
        let line = OCTETS as f64 * 8.0 / line_mbit_s(OCTETS) / 1e3;
        run.number("A-10", "64 kB from memory to memory by two ENI155P over a bus of 50 MB/s", "ms", 6.4, 0.05, whole)
            .fact("the copies of a buffering adapter come before and after the line: 6.4 ms")
            .note(
                "bus and line are the paper's; that the chip sends nothing before it has all, and delivers nothing before, is the chip's. The paper \
                 reckons with \"approximately 16 MB/s\", cells take 16.2: hence not the printed digit, and the bound is wider than that",
            );
        run.words(
            "A-14",
            "the avoidance of one interrupt and the absence of the copying delay",
            Test::new(
                through > 0.0 && (through / line - 1.0).abs() < 0.01,
                "64 kB by two just-in-time adapters take as long as their cells on the line, within 1 %",
                "a delay of 1 % or more",
            ),
            format!("{through:.3} ms, on the line {line:.3}; by two ENI155P {whole:.3}"),
        );
        let pdus = run.size(2048, 300);
        let mut points = Vec::new();
        for kilobytes in [8u32, 16, 32, 64, 128, 256, 512] {
            let mut machine = neptune.clone();
            machine.set("adapter_ring_octets", f64::from(kilobytes << 10))?;
            let scenario =
                Scenario { octets: 4096, single_copy: true, ..Scenario::new(&machine, &machine, Transport::Raw, pdus) };
            let outcome = run.pair(&scenario)?;
            points.push((f64::from(kilobytes), outcome.lost * 100.0));
        }
        run.words(
            "A-8",
            "For 155 Mbps ATM, more is needed, e.g. 512 kB",
            Test::new(
                points[0].1 > 1.0 && points[6].1 == 0.0,
                "of PDUs of 4096 octets in a row, more than 1 % are lost with a receive buffer of 8 kB, and none with 512 kB",
                "none lost with 8 kB, or some with 512",
            ),
            format!(
                "{}: the chip moves a PDU on as soon as it has it, so a circuit needs room for its longest PDU and for what comes meanwhile; one \
                 circuit does not show what the paper fears, many with rings of their own",
                points.iter().map(|(kilobytes, lost)| format!("{kilobytes} kB: {lost:.1} %")).collect::<Vec<_>>().join(", ")
            ),
        );
        let mut figure = Figure::new(
            "adapter-memory",
            "PDUs of 4096 octets lost over the receive buffer of an ENI155P",
            ["kB", "%"],
            [true, false],
        );
        figure.add("modelled, single copy", Origin::Modelled, points);
        run.figure(figure);
        Ok(())
    }
}
