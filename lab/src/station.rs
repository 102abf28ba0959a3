//! A plain host for scenarios about links and switches: queues of SDUs out, lists of SDUs in, no shared memory.

use net::topology::{CircuitOptions, CircuitTable};
use net::{Carries, FrameAal, Label, LabelChange, LabelChanges, Node, NodeIo};
use sar::{Event, Reassembler, ReassemblyConfig, SduMeta, Segmentation};
use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use traffic::Pacer;
use wire::oam::{Flow, Function, Loopback};
use wire::{Cell, CellHeader, CircuitId, Counters, DropReason, Time};

/// Most octets of an SDU that a station takes.
const MAX_SDU_OCTETS: usize = 65_535;
/// How long it waits for a PDU's next cell.
const REASSEMBLY_TIMEOUT: Duration = Duration::from_millis(100);

/// One circuit of a station.
#[derive(Debug)]
struct Circuit {
    port: usize,
    aal: FrameAal,
    pacer: Option<Pacer>,
    queue: VecDeque<Vec<u8>>,
    current: Option<(Segmentation, Vec<u8>)>,
    cells: VecDeque<Cell>,
    reassembler: Reassembler,
    buffer: Vec<u8>,
    received: Vec<(Time, Vec<u8>)>,
    departures: Vec<Time>,
    answers: Vec<Loopback>,
}

/// See the module's head.
#[derive(Debug, Default)]
pub struct Station {
    circuits: BTreeMap<CircuitId, Circuit>,
    counters: Counters,
    label_changes: LabelChanges,
}

impl Station {
    /// Puts an SDU (or, on an AAL0 circuit, the 48 octets of a cell) on a circuit's queue.
    ///
    /// # Panics
    /// If there is no such circuit, or no 48 octets on AAL0.
    pub fn send(&mut self, circuit: CircuitId, sdu: Vec<u8>) {
        let state = self.circuits.get_mut(&circuit).expect("a circuit of this station");
        if state.aal == FrameAal::Aal0 {
            let payload = sdu.try_into().expect("48 octets");
            state.cells.push_back(Cell::new(CellHeader { circuit, ..CellHeader::default() }, payload));
        } else {
            state.queue.push_back(sdu);
        }
    }

    /// Sends a loopback request on a flow of a circuit.
    ///
    /// # Panics
    /// If there is no such circuit.
    pub fn ping(&mut self, circuit: CircuitId, flow: Flow, correlation: u32) {
        let state = self.circuits.get_mut(&circuit).expect("a circuit of this station");
        let header = flow.header(CellHeader { circuit, ..CellHeader::default() });
        state.cells.push_back(Cell::new(header, Function::Loopback(Loopback::request(correlation)).emit()));
    }

    /// What has arrived on a circuit since the last call.
    pub fn received(&mut self, circuit: CircuitId) -> Vec<(Time, Vec<u8>)> {
        self.circuits.get_mut(&circuit).map(|c| std::mem::take(&mut c.received)).unwrap_or_default()
    }

    /// Loopback cells that came back on a circuit.
    pub fn answers(&self, circuit: CircuitId) -> &[Loopback] {
        self.circuits.get(&circuit).map(|c| c.answers.as_slice()).unwrap_or_default()
    }

    /// Forgets them, so that a long run's memory has a bound.
    pub fn clear_departures(&mut self, circuit: CircuitId) {
        if let Some(circuit) = self.circuits.get_mut(&circuit) {
            circuit.departures.clear();
        }
    }

    /// When the cells of a circuit were given to the link.
    pub fn departures(&self, circuit: CircuitId) -> &[Time] {
        self.circuits.get(&circuit).map(|c| c.departures.as_slice()).unwrap_or_default()
    }

    /// PDUs that passed and what was dropped.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// SDUs and cells that have not left.
    pub fn backlog(&self) -> usize {
        self.circuits.values().map(|c| c.queue.len() + c.cells.len() + usize::from(c.current.is_some())).sum()
    }

    fn receive_oam(&mut self, cell: &Cell) {
        let Some(state) = self.circuits.get_mut(&cell.circuit()) else {
            return self.counters.drop_one(DropReason::UnknownCircuit);
        };
        match Function::parse(&cell.payload) {
            Ok(Function::Loopback(l)) if l.request => {
                let answer = Function::Loopback(Loopback { request: false, ..l });
                state.cells.push_back(Cell::new(cell.header(), answer.emit()));
            }
            Ok(Function::Loopback(l)) => state.answers.push(l),
            Ok(_) => {}
            Err(_) => self.counters.drop_one(DropReason::Crc),
        }
    }

    /// Takes one run of cells; gives how many.
    fn receive(&mut self, cells: &[Cell], now: Time) -> usize {
        let Some(first) = cells.first() else { return 0 };
        if Flow::of(first.header()).is_some() {
            self.receive_oam(first);
            return 1;
        }
        // Cells of the same circuit with user data, up to the end of a PDU: bit 3, the payload type's highest, is clear.
        let key = first.header_word() & !0b1111;
        let goes_on = |cell: &&Cell| cell.header_word() & !0b101 == key;
        let before_last = cells.iter().take_while(goes_on).count();
        let ends = cells.get(before_last).is_some_and(|cell| cell.header_word() & !0b111 == key);
        let run = (before_last + usize::from(ends)).max(1);
        let Some(state) = self.circuits.get_mut(&first.circuit()) else {
            self.counters.drop_n(DropReason::UnknownCircuit, run as u64);
            return run;
        };
        if state.aal == FrameAal::Aal0 {
            state.received.push((now, first.payload.to_vec()));
            return 1;
        }
        let step = state.reassembler.push(&cells[..run], &mut state.buffer, now);
        match step.event {
            Event::Complete { sdu_octets, .. } => {
                state.received.push((now, state.buffer[..sdu_octets].to_vec()));
                self.counters.pdus += 1;
            }
            Event::Failed(reason) => self.counters.drop_one(reason),
            Event::NeedMore => {}
        }
        step.cells_used
    }

    fn receive_frames(&mut self, port: usize, io: &mut NodeIo<'_>, now: Time) -> bool {
        let mut busy = false;
        while let Some((frame, octets)) = io.frame_in(port) {
            busy = true;
            let (circuit, aal) = (frame.circuit, frame.aal);
            match (self.circuits.get_mut(&circuit), aal, octets) {
                (None, ..) => self.counters.drop_one(DropReason::UnknownCircuit),
                (Some(state), FrameAal::Aal5, sdu) if state.aal == FrameAal::Aal5 => {
                    state.received.push((now, sdu.to_vec()));
                    self.counters.pdus += 1;
                }
                (Some(_), FrameAal::Aal0, [a, b, c, d, payload @ ..]) if payload.len() == 48 => {
                    let header = CellHeader::from_word(u32::from_be_bytes([*a, *b, *c, *d]));
                    let mut cell = Cell::new(CellHeader { circuit, ..header }, [0; 48]);
                    cell.payload.copy_from_slice(payload);
                    self.receive(&[cell], now);
                }
                _ => self.counters.drop_one(DropReason::WrongAal),
            }
            io.release_frame(port);
        }
        busy
    }
}

impl Circuit {
    /// Sends what may go now; true if anything went.
    fn transmit(&mut self, id: CircuitId, io: &mut NodeIo<'_>, now: Time) -> bool {
        match io.carries(self.port) {
            Some(Carries::Cells) => self.transmit_cells(id, io, now),
            Some(Carries::Frames) => self.transmit_frames(id, io),
            None => false,
        }
    }

    fn transmit_cells(&mut self, id: CircuitId, io: &mut NodeIo<'_>, now: Time) -> bool {
        let mut busy = false;
        while let Some(cell) = self.cells.front() {
            if !io.put_cell(self.port, cell) {
                return busy;
            }
            self.cells.pop_front();
            busy = true;
        }
        loop {
            if self.current.is_none() {
                let Some(sdu) = self.queue.pop_front() else { return busy };
                // An SDU that cannot be segmented (empty, too long) is none that a test means to send.
                self.current = Segmentation::new(id, sdu.len(), SduMeta::default()).ok().map(|s| (s, sdu));
            }
            let Some((segmentation, sdu)) = &mut self.current else { return busy };
            let room = io.cells_out(self.port);
            let most = self.pacer.as_ref().map_or(room.len(), |p| p.allowed(now, room.len()));
            let n = segmentation.fill(sdu, &mut room[..most]);
            if segmentation.is_done() {
                self.current = None;
            }
            if n == 0 {
                return busy;
            }
            io.commit(self.port, n);
            if let Some(pacer) = &mut self.pacer {
                pacer.sent(n, now);
                self.departures.extend(std::iter::repeat_n(now, n));
            }
            busy = true;
        }
    }

    fn transmit_frames(&mut self, id: CircuitId, io: &mut NodeIo<'_>) -> bool {
        let mut busy = false;
        loop {
            let (aal, octets) = match (self.cells.front(), self.queue.front()) {
                (Some(cell), _) => {
                    (FrameAal::Aal0, [&cell.header_word().to_be_bytes()[..], &cell.payload[..]].concat())
                }
                (None, Some(sdu)) => (FrameAal::Aal5, sdu.clone()),
                (None, None) => return busy,
            };
            if io.room(self.port) == 0 {
                return busy;
            }
            let Some(frame) = io.pool_mut().copy_in(id, aal, SduMeta::default(), &octets) else { return busy };
            if let Err(frame) = io.put_frame(self.port, frame) {
                io.pool_mut().release(frame);
                return busy;
            }
            match aal {
                FrameAal::Aal0 => drop(self.cells.pop_front()),
                FrameAal::Aal5 | FrameAal::Aal34 => drop(self.queue.pop_front()),
            }
            busy = true;
        }
    }
}

impl Node for Station {
    fn run(&mut self, io: &mut NodeIo<'_>, now: Time) -> bool {
        let mut busy = false;
        for port in 0..io.ports() {
            io.forward(port, |cells, _| {
                let mut used = 0;
                while used < cells.len() {
                    used += self.receive(&cells[used..], now);
                }
                busy |= used > 0;
                used
            });
            busy |= self.receive_frames(port, io, now);
        }
        for (id, circuit) in &mut self.circuits {
            if let Some(reason) = circuit.reassembler.handle_timeout(now) {
                self.counters.drop_one(reason);
            }
            busy |= circuit.transmit(*id, io, now);
        }
        busy
    }

    fn poll_timeout(&self) -> Option<Time> {
        let of = |c: &Circuit| {
            let waits = c.current.is_some() || !c.queue.is_empty();
            let paced = c.pacer.as_ref().filter(|_| waits).map(Pacer::next_time);
            [paced, c.reassembler.poll_timeout()].into_iter().flatten().min()
        };
        self.circuits.values().filter_map(of).min()
    }

    fn poll_label_change(&mut self) -> Option<LabelChange> {
        self.label_changes.poll()
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

impl CircuitTable for Station {
    fn add_circuit(&mut self, port: u16, circuit: CircuitId, options: &CircuitOptions) -> Result<(), String> {
        let config = ReassemblyConfig {
            max_sdu_octets: MAX_SDU_OCTETS,
            timeout: Some(REASSEMBLY_TIMEOUT),
            ..ReassemblyConfig::default()
        };
        let state = Circuit {
            port: port.into(),
            aal: options.aal,
            pacer: Pacer::of_contract(&options.contract),
            queue: VecDeque::new(),
            current: None,
            cells: VecDeque::new(),
            reassembler: Reassembler::new(config),
            buffer: vec![0; MAX_SDU_OCTETS],
            received: Vec::new(),
            departures: Vec::new(),
            answers: Vec::new(),
        };
        self.circuits.insert(circuit, state);
        self.label_changes.note(LabelChange::In(port, Label::Vc(circuit)));
        Ok(())
    }

    fn remove_circuit(&mut self, _: u16, circuit: CircuitId) {
        self.circuits.remove(&circuit);
    }
}
