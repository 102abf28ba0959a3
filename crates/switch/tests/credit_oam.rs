//! OAM cells that begin or end at a switch, on circuits with credits: both ends of the link count them alike.

use switch::credit::{Receiver, Sender};
use switch::{Flow as Loss, Profile, Switch, SwitchConfig, Transaction};
use wire::credit::{self, Kind};
use wire::oam::{Flow, Function, Loopback};
use wire::{Cell, CellHeader, CircuitId, DropReason, Label, Time, Vpi};

const WINDOW: u16 = 16;

/// A channel and a path, each with the segment flow that ends at the switch.
const CIRCUITS: [(Label, Flow); 2] = [
    (Label::Vc(CircuitId { vpi: Vpi::truncated(5), vci: wire::Vci(100) }), Flow::F5Segment),
    (Label::Vp(Vpi::truncated(5)), Flow::F4Segment),
];

/// A switch with one circuit in both directions, and the neighbour at port 0.
struct World {
    switch: Switch,
    label: Label,
    sender: Sender,
    receiver: Receiver,
    /// The neighbour takes cells and says so.
    takes: bool,
}

impl World {
    fn new(label: Label) -> Self {
        let mut switch = Switch::new(SwitchConfig { ports: 2, ..SwitchConfig::default() });
        (0..2).for_each(|port| switch.set_credit(port, true));
        let profile =
            Profile { pdu_cells: None, flow: Loss::Credit { window: WINDOW }, queue_cells: 400, ..Profile::default() };
        let mut change = Transaction::new();
        change.add((0, label), (1, label), &profile);
        change.add((1, label), (0, label), &profile);
        switch.apply(change).unwrap();
        let mut world = World { switch, label, sender: Sender::new(3), receiver: Receiver::new(WINDOW), takes: true };
        let start = world.sender.check(label);
        world.give(credit::emit(&[start]));
        world.take();
        world.take();
        assert_eq!(world.sender.room(), WINDOW.into());
        world
    }

    fn give(&mut self, cell: Cell) {
        self.switch.handle_cells(0, &[cell], Time::ZERO, &mut ());
    }

    /// Takes what the switch has for the neighbour; how many cells of the circuit there were.
    fn take(&mut self) -> u32 {
        let (mut out, mut got) = ([Cell::default(); 256], 0);
        let n = self.switch.poll_transmit(0, &mut out, Time::ZERO);
        for cell in &out[..n] {
            if !credit::is_credit(cell.header_word()) {
                assert!(self.label.holds(cell.circuit()));
                self.receiver.received(1);
                self.receiver.forwarded(u32::from(self.takes));
                got += 1;
                continue;
            }
            for entry in credit::parse(&cell.payload).unwrap().filter(|entry| entry.label == self.label) {
                match entry.kind {
                    Kind::Limit => {
                        self.sender.handle_limit(&entry);
                    }
                    Kind::Start | Kind::Check => self.receiver.handle_check(&entry, 0),
                }
            }
        }
        if self.takes && self.receiver.limit_is_due() {
            let limit = self.receiver.limit(self.label);
            self.give(credit::emit(&[limit.unwrap()]));
        }
        got
    }

    fn ask(&mut self, flow: Flow) {
        let circuit = CircuitId { vpi: Vpi::truncated(5), vci: wire::Vci(100) };
        let header = flow.header(CellHeader { circuit, ..CellHeader::default() });
        self.give(Cell::new(header, Function::Loopback(Loopback::request(9)).emit()));
    }

    /// Cells of the circuit that leave for the neighbour while it gives no limit, of more than it has room for.
    fn outstanding(&mut self) -> u32 {
        self.takes = false;
        let circuit = CircuitId { vpi: Vpi::truncated(5), vci: wire::Vci(100) };
        let data = [Cell::new(CellHeader { circuit, ..CellHeader::default() }, [7; 48]); WINDOW as usize];
        (0..4)
            .map(|_| {
                self.switch.handle_cells(1, &data, Time::ZERO, &mut ());
                self.take()
            })
            .sum()
    }
}

#[test]
fn an_answer_spends_a_credit_so_the_neighbour_never_has_more_than_its_window() {
    for (label, flow) in CIRCUITS {
        // After as many answers as a limit may be ahead, the neighbour's limits would be refused.
        for answers in [100, 70_000] {
            let mut world = World::new(label);
            for _ in 0..answers {
                world.ask(flow);
                assert_eq!(world.take(), 1, "{label:?}");
            }
            let outstanding = world.outstanding();
            // A limit comes when a quarter of the window is free again.
            let right = u32::from(WINDOW - WINDOW / 4)..=u32::from(WINDOW);
            assert!(right.contains(&outstanding), "{label:?}: {outstanding} cells after {answers} answers");
        }
    }
}

#[test]
fn an_answer_without_a_credit_is_dropped_and_counted() {
    for (label, flow) in CIRCUITS {
        let mut world = World::new(label);
        world.takes = false;
        let answered: u32 = (0..40)
            .map(|_| {
                world.ask(flow);
                world.take()
            })
            .sum();
        assert_eq!(answered, WINDOW.into(), "{label:?}");
        let counters = world.switch.port_counters(0);
        assert_eq!(counters.sent.dropped(DropReason::ManagementFull), 40 - u64::from(WINDOW));
        assert!(world.switch.sums().add_up());
    }
}

#[test]
fn a_cell_that_ends_at_the_switch_gives_its_credit_back_without_a_check() {
    for (label, flow) in CIRCUITS {
        let mut world = World::new(label);
        for n in 0..1000 {
            assert!(world.sender.room() > 0, "{label:?}: no credit for cell {n}");
            world.sender.sent(1);
            if n % 2 == 0 {
                world.ask(flow);
            } else {
                // Nobody at the switch waits for it: it is dropped.
                let circuit = CircuitId { vpi: Vpi::truncated(5), vci: wire::Vci(100) };
                let header = flow.header(CellHeader { circuit, ..CellHeader::default() });
                world.give(Cell::new(header, Function::ContinuityCheck.emit()));
            }
            world.take();
        }
    }
}
