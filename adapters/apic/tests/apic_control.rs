//! Control cells: a chip's registers from elsewhere on the desk, for who may and for nobody else.

use apic::control_cell::{Control, Operation, Way};
use apic::{Apic, COMMAND, Config, Connection, Controller, ENTRY, ENTRY_CELLS, IDENTITY, Port};
use bus::memory::NoMemory;
use proptest::prelude::*;
use std::time::Duration;
use wire::{Cell, CellHeader, CircuitId, Time};

fn vc(vci: u16) -> CircuitId {
    CircuitId::new(0, vci).unwrap()
}

fn cell(vci: u16, payload: [u8; 48]) -> Cell {
    Cell::new(CellHeader { circuit: vc(vci), ..CellHeader::default() }, payload)
}

fn request(operation: Operation, register: u32, value: u32) -> Control {
    Control { operation, way: Way::Request, number: 7, register, value }
}

/// Chips in a chain; a cell that leaves one is at the next at once.
struct Chain {
    chips: Vec<Apic>,
    now: Time,
}

/// VCIs: control of chip n is 40 + n, its answers are 60 + n.
const CONTROL: u16 = 40;
const ANSWERS: u16 = 60;

impl Chain {
    /// Who is before the first chip controls all of them: each chip passes on what is for those behind it.
    fn new(chips: u16, may: Option<std::ops::RangeInclusive<u16>>) -> Self {
        let mut all: Vec<Apic> = (0..chips).map(|_| Apic::new(Config::default())).collect();
        for (n, chip) in (0..).zip(&mut all) {
            let answers = (Port::Left, vc(ANSWERS + n));
            assert!(chip.set_controller(0, Some(Controller { answers, vcis: may.clone() })));
            chip.connect(Port::Left, vc(CONTROL + n), Connection::to_controller(0)).unwrap();
            for behind in n + 1..chips {
                chip.connect(Port::Left, vc(CONTROL + behind), Connection::to(Port::Right, vc(CONTROL + behind)))
                    .unwrap();
                chip.connect(Port::Right, vc(ANSWERS + behind), Connection::to(Port::Left, vc(ANSWERS + behind)))
                    .unwrap();
            }
        }
        Chain { chips: all, now: Time::ZERO }
    }

    /// A cell comes at the first chip; what left the chain by each end and at each third port.
    fn pass(&mut self, at: usize, port: Port, cell: &Cell) -> Vec<(usize, Port, Cell)> {
        self.chips[at].handle_cell(port, cell, self.now);
        let mut out = Vec::new();
        for _ in 0..250 {
            for n in 0..self.chips.len() {
                while self.chips[n].handle_timeout(self.now, &mut NoMemory) {}
                for port in Port::ALL {
                    while let Some(cell) = self.chips[n].poll_cell(port) {
                        match port {
                            Port::Left if n > 0 => self.chips[n - 1].handle_cell(Port::Right, &cell, self.now),
                            Port::Right if n + 1 < self.chips.len() => {
                                self.chips[n + 1].handle_cell(Port::Left, &cell, self.now);
                            }
                            _ => out.push((n, port, cell)),
                        }
                    }
                }
            }
            self.now += Duration::from_nanos(400);
        }
        for chip in &self.chips {
            assert!(chip.sums().add_up(), "{:?}", chip.sums());
        }
        out
    }

    fn ask(&mut self, chip: u16, operation: Operation, register: u32, value: u32) -> Control {
        let out = self.pass(0, Port::Left, &cell(CONTROL + chip, request(operation, register, value).emit()));
        let [(0, Port::Left, answer)] = out[..] else { panic!("one answer: {out:?}") };
        assert_eq!(answer.circuit(), vc(ANSWERS + chip));
        let answer = Control::parse(&answer.payload).unwrap();
        assert_eq!((answer.number, answer.register), (7, register));
        answer
    }

    /// Makes a connection by control cells.
    fn connect(&mut self, chip: u16, port: Port, label: u32, outputs: u32, out: u32) -> Way {
        for (n, value) in [port.index() as u32, label, outputs, out, out, out].into_iter().enumerate() {
            let written = self.ask(chip, Operation::Write, ENTRY + 4 * n as u32, value);
            assert_eq!((written.way, written.value), (Way::Done, value));
        }
        self.ask(chip, Operation::Write, COMMAND, 1).way
    }
}

#[test]
fn a_chain_is_set_up_from_its_end_by_control_cells_alone() {
    let mut chain = Chain::new(4, Some(100..=199));
    for chip in 0..4 {
        let identity = chain.ask(chip, Operation::Read, IDENTITY, 0);
        assert_eq!((identity.way, identity.value), (Way::Done, u32::from_be_bytes(*b"APIC")));
    }
    // From before the first chip to the device at the last one, and a copy at the second.
    for (chip, outputs) in [(0, 0b010), (1, 0b110), (2, 0b010), (3, 0b100)] {
        assert_eq!(chain.connect(chip, Port::Left, 100, outputs, 100), Way::Done);
    }
    let out = chain.pass(0, Port::Left, &cell(100, [9; 48]));
    let at: Vec<_> = out.iter().map(|(n, port, cell)| (*n, *port, cell.circuit(), cell.payload[0])).collect();
    assert_eq!(at, [(1, Port::Memory, vc(100), 9), (3, Port::Memory, vc(100), 9)]);
    assert_eq!(chain.ask(3, Operation::Read, ENTRY_CELLS, 0).value, 1);
    // Cells in: the control cells too.
    assert!(chain.ask(0, Operation::Read, 0x010, 0).value > 30);
    assert_eq!(chain.ask(1, Operation::Read, 0x024, 0).value, 1, "one cell left by the third port");
    assert_eq!(chain.ask(1, Operation::Write, COMMAND, 3).way, Way::Done);
    assert_eq!(chain.ask(1, Operation::Write, COMMAND, 3).way, Way::Refused, "it is gone");
    assert!(chain.pass(0, Port::Left, &cell(100, [9; 48])).is_empty());
    assert_eq!(chain.ask(1, Operation::Read, 0x028, 0).value, 1, "and counted where it was dropped");
}

#[test]
fn a_controller_touches_its_own_labels_and_a_reader_none() {
    let mut chain = Chain::new(2, Some(100..=109));
    let before = Chain::new(2, Some(100..=109));
    // In or out beyond its range; its own circuit; one of another; a port or an output that is not there.
    for (label, outputs, out) in
        [(99, 2, 100), (110, 2, 100), (100, 2, 40), (40, 2, 100), (60, 2, 100), (1 << 28, 2, 100)]
    {
        assert_eq!(chain.connect(1, Port::Left, label, outputs, out), Way::Refused, "{label} {outputs} {out}");
    }
    assert_eq!(chain.connect(1, Port::Left, 100, 0x8, 100), Way::Refused);
    assert_eq!(chain.connect(1, Port::Left, 100, 0b1, 65_536 << 12), Way::Refused);
    for (register, value) in [(IDENTITY, 1), (0x010, 1), (ENTRY_CELLS, 1), (ENTRY + 1, 1), (COMMAND, 4), (0x200, 1)] {
        assert_eq!(chain.ask(1, Operation::Write, register, value).way, Way::Refused, "{register:#x}");
    }
    for register in [0x002, 0x02c, ENTRY, COMMAND, u32::MAX] {
        assert_eq!(chain.ask(1, Operation::Read, register, 0).way, Way::Refused, "{register:#x}");
    }
    // What leads to a channel stays, though its label is in the range.
    chain.chips[1].connect(Port::Left, vc(105), Connection::to_channel(3)).unwrap();
    assert_eq!(chain.connect(1, Port::Left, 105, 2, 105), Way::Refused);
    for command in [2, 3] {
        assert_eq!(chain.ask(1, Operation::Write, COMMAND, command).way, Way::Refused);
    }
    assert_eq!(chain.chips[1].connection(Port::Left, vc(105)).unwrap().0, Connection::to_channel(3));
    for vci in (0..4096).filter(|vci| *vci != 105) {
        for port in Port::ALL {
            let is = |chain: &Chain| chain.chips[1].connection(port, vc(vci)).map(|(connection, _)| connection);
            assert_eq!(is(&chain), is(&before), "{port:?} {vci}");
        }
    }
    let mut reader = Chain::new(1, None);
    assert_eq!(reader.ask(0, Operation::Read, 0x010, 0).way, Way::Done);
    assert_eq!(reader.ask(0, Operation::Write, ENTRY, 0).way, Way::Refused);
    // A circuit whose controller was taken away answers no more.
    assert!(reader.chips[0].set_controller(0, None) && !reader.chips[0].set_controller(200, None));
    assert!(reader.pass(0, Port::Left, &cell(CONTROL, request(Operation::Read, 0, 0).emit())).is_empty());
    assert_eq!(reader.chips[0].monitor().control_malformed, 1);
}

fn any_request() -> impl Strategy<Value = Control> {
    let register = prop_oneof![3 => (0u32..0x130).prop_map(|n| n & !3), 1 => any::<u32>()];
    let value = prop_oneof![3 => 0u32..5, 3 => 35u32..130, 1 => any::<u32>()];
    (any::<bool>(), 0u8..4, register, value, any::<u16>()).prop_map(|(write, way, register, value, number)| Control {
        operation: if write { Operation::Write } else { Operation::Read },
        way: [Way::Request, Way::Request, Way::Done, Way::Refused][usize::from(way)],
        number,
        register,
        value,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whoever forges control cells, on circuits of his own or as a controller of one range, changes nothing beyond it.
    #[test]
    fn forged_control_cells_change_nothing_beyond_their_range(
        cells in proptest::collection::vec((0u16..4, any_request(), 0usize..48, any::<u8>(), any::<bool>()), 1..120),
    ) {
        let mut chain = Chain::new(2, Some(100..=109));
        // A circuit of somebody else, and one of the forger's that is no control circuit.
        chain.chips[0].connect(Port::Left, vc(200), Connection::to(Port::Right, vc(200))).unwrap();
        chain.chips[1].connect(Port::Left, vc(200), Connection::to(Port::Memory, vc(201))).unwrap();
        chain.chips[0].connect(Port::Memory, vc(40), Connection::to(Port::Memory, vc(90))).unwrap();
        let before: Vec<_> = chain.chips.clone();
        let (mut from_memory, mut echoed) = (0, 0);
        for (way, control, at, octet, damage) in cells {
            let mut payload = control.emit();
            if damage {
                payload[at] ^= octet;
            }
            let places = [(Port::Left, 40), (Port::Left, 41), (Port::Memory, 40), (Port::Right, 41)];
            let (port, vci) = places[usize::from(way)];
            from_memory += u32::from(port == Port::Memory);
            for (_, _, cell) in chain.pass(0, port, &cell(vci, payload)) {
                // His own cells come back as they were; else there are answers alone.
                if cell.circuit() == vc(90) {
                    prop_assert_eq!(cell.payload, payload);
                    echoed += 1;
                } else {
                    let answer = Control::parse(&cell.payload).unwrap();
                    prop_assert!(answer.way != Way::Request && [60, 61].contains(&cell.circuit().vci.get()));
                }
            }
        }
        prop_assert_eq!(from_memory, echoed);
        for (chip, before) in chain.chips.iter().zip(&before) {
            for port in Port::ALL {
                for vci in (0..300).filter(|vci| !(100..=109).contains(vci)) {
                    let is = |chip: &Apic| chip.connection(port, vc(vci)).map(|(connection, _)| connection);
                    prop_assert_eq!(is(chip), is(before), "{:?} {}", port, vci);
                }
                for (connection, _) in (100..=109).filter_map(|vci| chip.connection(port, vc(vci))) {
                    let own = |label: &CircuitId| (100..=109).contains(&label.vci.get());
                    prop_assert!(connection.channel.is_none() && connection.controller.is_none());
                    prop_assert!(connection.outputs.iter().flatten().all(own));
                }
            }
        }
        let out = chain.pass(0, Port::Left, &cell(200, [3; 48]));
        let innocent = out.iter().any(|(n, port, cell)| *n == 1 && *port == Port::Memory && cell.circuit() == vc(201));
        prop_assert!(innocent, "{:?}", out);
    }
}
