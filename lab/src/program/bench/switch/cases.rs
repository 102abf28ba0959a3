//! One size of switch: its table, the cells that come in, and what is timed.

use super::thread_seconds;
use ::switch::{
    Bucket, Discard, Excess, Outputs, Police, Profile, Shape, ShapeKind, Switch, SwitchConfig, Transaction,
};
use traffic::Fine;
use wire::{Cell, CellHeader, CircuitId, Label, Time};

/// Cells of a pass. In and out they take 256 KiB each, which second-level caches hold.
pub(super) const CELLS: usize = 4096;
/// Cells of one call, what a link hands over at once.
pub(super) const BATCH: usize = 512;
/// Headers that follow each other before they repeat: more than a processor learns.
const HEADERS: usize = 1 << 21;

/// How the circuits of neighbouring cells follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Each cell's circuit is drawn anew.
    Random,
    /// The circuits of 32 cells are drawn without repetition; the next 32 cells are of the same, in another order.
    Twice,
    /// As [`Order::Twice`], but no circuit comes again within 64 cells: what repetition is compared with.
    Once,
}

impl Order {
    /// The name in output.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Order::Random => "random",
            Order::Twice => "twice in 64",
            Order::Once => "once in 64",
        }
    }
}

/// What a pass does to each cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// Copies it.
    Copy,
    /// Looks its circuit up, rewrites its header, copies it.
    Translate,
    /// The same with policing and counters.
    Police,
    /// The whole switch, in and out, by the queues of its circuits.
    Queue,
    /// The whole switch, straight to links that always have room.
    CutThrough,
    /// As [`Work::Queue`], each circuit policed, with a guaranteed share and discard by fair shares.
    Contracts,
}

impl Work {
    pub(super) const ALL: [Work; 6] =
        [Work::Copy, Work::Translate, Work::Police, Work::Queue, Work::CutThrough, Work::Contracts];
}

/// See the head of the module.
pub(super) struct Case {
    ports: u16,
    switch: Switch,
    /// The same table with a contract for each circuit.
    policed: Switch,
    /// The same with all that a contract may ask for.
    managed: Switch,
    headers: Vec<u32>,
    next: usize,
    input: Vec<Cell>,
    links: Links,
    out_ports: Vec<u16>,
    now: u64,
}

/// Rings that wrap: nobody takes their cells, and there is always room.
struct Links {
    cells: Vec<Cell>,
    at: Vec<usize>,
    each: usize,
}

impl Outputs for Links {
    fn slots(&mut self, port: u16) -> &mut [Cell] {
        let at = self.at[usize::from(port)];
        let begin = usize::from(port) * self.each;
        &mut self.cells[begin + at..begin + self.each]
    }

    fn commit(&mut self, port: u16, n: usize) {
        let at = &mut self.at[usize::from(port)];
        *at = if *at + n >= self.each { 0 } else { *at + n };
    }
}

/// xorshift64*.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((u128::from(self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)) * n as u128) >> 64) as usize
    }

    fn shuffle<T>(&mut self, list: &mut [T]) {
        for i in (1..list.len()).rev() {
            list.swap(i, self.below(i + 1));
        }
    }
}

/// The `i`th circuit: 65 536 to a path, as far as there are.
fn circuit(i: usize) -> CircuitId {
    CircuitId::from_key((i + 64) as u32)
}

fn headers(random: &mut Random, circuits: usize, order: Order) -> Vec<u32> {
    let word = |i| CellHeader { circuit: circuit(i), ..CellHeader::default() }.to_word() | 2;
    if order == Order::Random {
        return (0..HEADERS).map(|_| word(random.below(circuits))).collect();
    }
    // Groups of 64 cells; a circuit comes once, or once in each half.
    let mut headers = Vec::with_capacity(HEADERS);
    let mut group: Vec<usize> = Vec::with_capacity(64);
    while headers.len() < HEADERS {
        group.clear();
        let different = if order == Order::Twice { 32 } else { 64 };
        while group.len() < different {
            let i = random.below(circuits);
            if !group.contains(&i) {
                group.push(i);
            }
        }
        headers.extend(group.iter().map(|i| word(*i)));
        if order == Order::Twice {
            random.shuffle(&mut group);
            headers.extend(group.iter().map(|i| word(*i)));
        }
    }
    headers
}

impl Case {
    /// A switch of so many circuits from port 0 to all ports, in random order in memory. Also gives the seconds of
    /// a processor in which the circuits were set up.
    pub(super) fn new(circuits: usize, ports: u16, order: Order) -> (Self, f64) {
        let mut random = Random(0x1234_5678_9abc_def1);
        let config = SwitchConfig {
            ports,
            circuits: circuits as u32,
            index_pages: (circuits / 200 + 64) as u32,
            queue_cells: 16_384,
            credit_cells: 0,
            ..SwitchConfig::default()
        };
        let mut numbers: Vec<usize> = (0..circuits).collect();
        random.shuffle(&mut numbers);
        let table = |profiles: &[Profile]| {
            let begin = thread_seconds();
            let mut change = Transaction::new();
            for (i, number) in numbers.iter().enumerate() {
                let to = ((i % usize::from(ports)) as u16, Label::Vc(circuit(i)));
                change.add((0, Label::Vc(circuit(*number))), to, &profiles[i / 7 % profiles.len()]);
            }
            let mut switch = Switch::new(config);
            if let Err(error) = switch.apply(change) {
                // The bounds above are made for these circuits.
                panic!("{error}");
            }
            (switch, thread_seconds() - begin)
        };
        let (switch, seconds) = table(&[Profile::default()]);
        let rate = |nanos| Bucket::new(Fine::from_nanos(nanos), Fine::from_nanos(1 << 40));
        let contract = |i: u64| Police {
            peak: rate(10 + i),
            sustainable: None,
            high_priority_only: false,
            excess: Excess::Discard,
        };
        let contracts: Vec<_> =
            (0..8u64).map(|i| Profile { police: Some(contract(i)), ..Profile::default() }).collect();
        let (policed, _) = table(&contracts);
        let managed: Vec<_> = (0..8u64)
            .map(|i| Profile {
                police: Some(contract(i)),
                shape: Some(Shape { peak: rate(1_000_000 + i), sustainable: None, kind: ShapeKind::Share }),
                discard: Discard::Fair { threshold: 8192, percent: 80 },
                low_priority_cells: Some(8192),
                congestion_cells: Some(4096),
                ..Profile::default()
            })
            .collect();
        let (managed, _) = table(&managed);
        let each = CELLS * 2 / usize::from(ports);
        let links = Links { cells: vec![Cell::default(); each * usize::from(ports)], at: vec![0; ports.into()], each };
        let headers = headers(&mut random, circuits, order);
        let input = vec![Cell::default(); CELLS];
        let out_ports = vec![0; CELLS];
        (Case { ports, switch, policed, managed, headers, next: 0, input, links, out_ports, now: 0 }, seconds)
    }

    /// New headers for the next pass, as a link would bring them; not timed.
    pub(super) fn fill(&mut self) {
        for cell in &mut self.input {
            cell.set_header_word(self.headers[self.next]);
            self.next = (self.next + 1) % HEADERS;
        }
    }

    /// One pass over all cells; returns how many came out.
    pub(super) fn pass(&mut self, work: Work) -> usize {
        self.now += 1_000_000;
        let now = Time::from_nanos(self.now);
        let out = &mut self.links.cells[..CELLS];
        match work {
            Work::Copy => {
                out.copy_from_slice(std::hint::black_box(&self.input));
                CELLS
            }
            Work::Translate => self.switch.translate(0, &self.input, out, &mut self.out_ports),
            Work::Police => self.policed.translate_policed(0, &self.input, now, out, &mut self.out_ports),
            Work::Queue | Work::Contracts => {
                let switch = if work == Work::Queue { &mut self.switch } else { &mut self.managed };
                let mut sent = 0;
                for batch in self.input.chunks(BATCH) {
                    switch.handle_cells(0, batch, now, &mut ());
                    for port in 0..self.ports {
                        sent += switch.poll_transmit(port, &mut self.links.cells[sent..], now);
                    }
                }
                sent
            }
            Work::CutThrough => {
                for batch in self.input.chunks(BATCH) {
                    self.switch.handle_cells(0, batch, now, &mut self.links);
                }
                for port in 0..self.ports {
                    let n = self.switch.poll_transmit(port, &mut self.links.cells[..BATCH], now);
                    debug_assert!(n < BATCH);
                }
                CELLS
            }
        }
    }
}
