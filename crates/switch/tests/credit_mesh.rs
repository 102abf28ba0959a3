//! Circuits with credits through random meshes of switches with cycles, beside best effort, while credit cells are lost:
//! nothing of them is lost, nothing stands still, and no queue is ever longer than its bound.
//!
//! In virtual time. 200 topologies, 10 000 where the environment has `CELLWAY_LONG=1`. `SWITCH_SEED` repeats a failure.

use std::collections::VecDeque;
use std::time::Duration;
use switch::credit::{Receiver, Sender};
use switch::{Flow, Profile, Switch, SwitchConfig, Transaction};
use wire::{Cell, CellHeader, CircuitId, DropReason, Label, PayloadType, Time, credit};

/// xorshift64*.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((u128::from(self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)) * n as u128) >> 64) as usize
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// One direction of a link: cells under way with the round in which they arrive.
struct Line {
    cells: VecDeque<(u64, Cell)>,
    delay: u64,
    /// Cells of a round.
    rate: usize,
}

/// Where a line ends: a switch's port, or a host.
#[derive(Clone, Copy)]
enum End {
    Port(usize, u16),
    Host(usize),
}

/// A source or sink of one circuit, at a host: the machine of its end of the last link.
struct Host {
    label: Label,
    sender: Option<Sender>,
    receiver: Option<Receiver>,
    /// Cells still to be sent, and the number of the next.
    left: u32,
    next: u32,
    pdu: u32,
    buffer: VecDeque<Cell>,
    got: u32,
    fired: u64,
    /// A sink that stops now and then, for rounds.
    stopped: u64,
}

struct Mesh {
    random: Random,
    switches: Vec<Switch>,
    /// Each with its two ends; line 0 goes to the second, line 1 to the first.
    links: Vec<([End; 2], [Line; 2])>,
    hosts: Vec<Host>,
    round: u64,
    credit_loss: usize,
    /// One cell of data in so many is lost too, if not 0: as on a link by UDP.
    data_loss: usize,
    /// From this round on nothing is lost, so that all arrives.
    calm: u64,
    /// Cells of circuits with credits that links have lost.
    data_lost: u32,
}

const CONFIG: SwitchConfig = SwitchConfig {
    ports: 24,
    circuits: 64,
    index_pages: 200,
    queue_cells: 60,
    credit_cells: 1000,
    control_cells: 8,
    management_cells: 64,
    profiles: 64,
    incarnation: 77,
};

fn circuit(n: usize) -> CircuitId {
    CircuitId::new((n / 100) as u16, 100 + (n % 100) as u16).unwrap()
}

impl Mesh {
    fn new(seed: u64) -> (Self, Vec<(usize, usize, u32)>) {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let n = 2 + random.below(5);
        let switches = (0..n).map(|_| Switch::new(CONFIG)).collect();
        let (credit_loss, data_loss) = (random.pick(&[0, 50, 5, 2]), random.pick(&[0, 0, 0, 20]));
        let mut mesh = Mesh {
            switches,
            links: Vec::new(),
            hosts: Vec::new(),
            round: 0,
            credit_loss,
            data_loss,
            calm: 1500,
            data_lost: 0,
            random,
        };
        let mut ports = vec![0u16; n];
        let mut port = |switch: usize| {
            ports[switch] += 1;
            ports[switch] - 1
        };
        // A ring of all switches, and chords: there are cycles of links everywhere.
        let mut trunks = Vec::new();
        for a in 0..n {
            let b = (a + 1) % n;
            let (pa, pb) = (port(a), port(b));
            trunks.push((a, pa, b, pb));
            mesh.link(End::Port(a, pa), End::Port(b, pb));
        }
        // Circuits go round the ring, some more than half of it, so that every trunk waits for the next one.
        let circuits = 1 + mesh.random.below(8);
        let mut ends = Vec::new();
        for c in 0..circuits {
            let lossless = c == 0 || mesh.random.one_in(2);
            let from = mesh.random.below(n);
            let hops = 1 + mesh.random.below(n - 1);
            let window = 1 + mesh.random.below(30) as u16;
            let flow = if lossless { Flow::Credit { window } } else { Flow::BestEffort };
            let profile = Profile {
                queue_cells: 20,
                pdu_cells: mesh.random.pick(&[None, Some(5)]),
                weight: 1 + mesh.random.below(3) as u16,
                flow,
                ..Profile::default()
            };
            let cells = 100 + mesh.random.below(400) as u32;
            let (source, sink) = (mesh.hosts.len(), mesh.hosts.len() + 1);
            let label = |hop: usize| Label::Vc(circuit(c * 10 + hop));
            let host = |hop, left| Host {
                label: label(hop),
                sender: (lossless && left > 0).then(|| Sender::new(5)),
                receiver: (lossless && left == 0).then(|| Receiver::new(window)),
                left,
                next: 0,
                pdu: 0,
                buffer: VecDeque::new(),
                got: 0,
                fired: 0,
                stopped: 0,
            };
            mesh.hosts.push(host(0, cells));
            mesh.hosts.push(host(hops + 1, 0));
            let entry = port(from);
            mesh.link(End::Host(source), End::Port(from, entry));
            let (mut at, mut arrival) = (from, entry);
            for hop in 0..=hops {
                let (leave, next) = match hop == hops {
                    true => {
                        let leave = port(at);
                        mesh.link(End::Port(at, leave), End::Host(sink));
                        (leave, (at, 0))
                    }
                    false => {
                        let (_, leave, next, arrives) = trunks[at];
                        (leave, (next, arrives))
                    }
                };
                let mut change = Transaction::new();
                change.add((arrival, label(hop)), (leave, label(hop + 1)), &profile);
                mesh.switches[at].apply(change).unwrap();
                (at, arrival) = next;
            }
            ends.push((source, sink, if lossless { cells } else { 0 }));
        }
        (mesh, ends)
    }

    fn link(&mut self, a: End, b: End) {
        let (delay, rate) = (self.random.below(8) as u64, 1 + self.random.below(6));
        let line = || Line { cells: VecDeque::new(), delay, rate };
        for end in [a, b] {
            if let End::Port(switch, port) = end {
                self.switches[switch].set_credit(port, true);
            }
        }
        self.links.push(([a, b], [line(), line()]));
    }

    fn is_lossless(&self, cell: &Cell) -> bool {
        let of = |vci: u16| usize::from(vci - 100) / 10;
        let number = |host: &Host| match host.label {
            Label::Vc(circuit) => of(circuit.vci.get()),
            Label::Vp(_) => unreachable!("all are channels"),
        };
        self.hosts.iter().any(|host| host.sender.is_some() && number(host) == of(cell.circuit().vci.get()))
    }

    fn now(&self) -> Time {
        Time::ZERO + Duration::from_micros(100 * self.round)
    }

    /// 100 microseconds: lines deliver, switches and hosts send.
    fn run_round(&mut self) {
        self.round += 1;
        let now = self.now();
        for link in 0..self.links.len() {
            for way in 0..2 {
                let to = self.links[link].0[1 - way];
                let mut arrived = Vec::new();
                let cells = &mut self.links[link].1[way].cells;
                while cells.front().is_some_and(|(at, _)| *at <= self.round) {
                    arrived.extend(cells.pop_front().map(|(_, cell)| cell));
                }
                match to {
                    _ if arrived.is_empty() => {}
                    End::Port(switch, port) => self.switches[switch].handle_cells(port, &arrived, now, &mut ()),
                    End::Host(host) => self.hosts[host].handle_cells(&arrived),
                }
            }
        }
        for switch in &mut self.switches {
            if switch.poll_timeout().is_some_and(|at| at <= now) {
                switch.handle_timeout(now);
            }
            assert!(switch.poll_timeout().is_none_or(|at| at > now));
            for port in 0..CONFIG.ports {
                assert!(switch.queued_at(port) <= (CONFIG.queue_cells + CONFIG.credit_cells) as usize);
            }
            assert!(switch.queued() <= switch.store_cells());
        }
        for link in 0..self.links.len() {
            for way in 0..2 {
                let (from, rate) = (self.links[link].0[way], self.links[link].1[way].rate);
                let mut slots = [Cell::default(); 8];
                let out = &mut slots[..rate];
                let n = match from {
                    End::Port(switch, port) if !self.switches[switch].has_output(port) => 0,
                    End::Port(switch, port) => self.switches[switch].poll_transmit(port, out, now),
                    End::Host(host) => self.hosts[host].poll_transmit(out, self.round, &mut self.random),
                };
                for cell in &out[..n] {
                    let is_credit = credit::is_credit(cell.header_word());
                    let one_in = if is_credit { self.credit_loss } else { self.data_loss };
                    let lost = self.round < self.calm && one_in > 0 && self.random.one_in(one_in);
                    self.data_lost += u32::from(lost && !is_credit && self.is_lossless(cell));
                    if !lost {
                        let line = &mut self.links[link].1[way];
                        line.cells.push_back((self.round + 1 + line.delay, *cell));
                    }
                }
            }
        }
    }
}

impl Host {
    fn handle_cells(&mut self, cells: &[Cell]) {
        for cell in cells {
            if credit::is_credit(cell.header_word()) {
                for entry in credit::parse(&cell.payload).unwrap() {
                    assert_eq!(entry.label, self.label);
                    if let Some(sender) = &mut self.sender {
                        sender.handle_limit(&entry);
                    }
                    if let Some(receiver) = &mut self.receiver {
                        receiver.handle_check(&entry, self.buffer.len() as u32);
                    }
                }
            } else if let Some(receiver) = &mut self.receiver {
                receiver.received(1);
                self.buffer.push_back(*cell);
                assert!(self.buffer.len() <= usize::from(receiver.window()), "beyond the window");
            }
        }
    }

    fn poll_transmit(&mut self, out: &mut [Cell], round: u64, random: &mut Random) -> usize {
        let mut n = 0;
        if let Some(receiver) = &mut self.receiver {
            // A sink that stops, or reads slowly.
            if random.one_in(200) {
                self.stopped = round + random.below(100) as u64;
            }
            let read = if round < self.stopped { 0 } else { random.below(4) };
            for _ in 0..read {
                let Some(cell) = self.buffer.pop_front() else { break };
                let number = u32::from_be_bytes(cell.payload[..4].try_into().unwrap());
                assert!(number >= self.next, "a cell came out of order");
                self.next = number + 1;
                self.got += 1;
                receiver.forwarded(1);
            }
            if receiver.limit_is_due()
                && let Some(entry) = receiver.limit(self.label)
            {
                out[0] = credit::emit(&[entry]);
                n = 1;
            }
            return n;
        }
        if let Some(sender) = &mut self.sender
            && round >= self.fired + 100
        {
            self.fired = round;
            if sender.handle_timeout() {
                out[0] = credit::emit(&[sender.check(self.label)]);
                n = 1;
            }
        }
        while n < out.len() && self.left > 0 && self.sender.as_ref().is_none_or(|sender| sender.room() > 0) {
            let Label::Vc(circuit) = self.label else { break };
            self.pdu = (self.pdu + 1) % 5;
            let end = self.pdu == 0;
            let header = CellHeader { circuit, payload_type: PayloadType::User { congestion: false, end }, clp: false };
            let mut payload = [0; 48];
            payload[..4].copy_from_slice(&self.next.to_be_bytes());
            out[n] = Cell::new(header, payload);
            (self.next, self.left, n) = (self.next + 1, self.left - 1, n + 1);
            if let Some(sender) = &mut self.sender {
                sender.sent(1);
            }
        }
        n
    }
}

/// Runs one mesh; returns cells that best effort lost.
fn run(seed: u64) -> u64 {
    let result = std::panic::catch_unwind(|| {
        let (mut mesh, ends) = Mesh::new(seed);
        let mut last = (0, 0);
        loop {
            mesh.run_round();
            let missing: u32 = ends.iter().map(|(_, sink, cells)| cells.saturating_sub(mesh.hosts[*sink].got)).sum();
            // What links have lost is all that is missing in the end.
            assert!(missing >= mesh.data_lost);
            if missing == mesh.data_lost {
                break;
            }
            if mesh.round < mesh.calm || last.1 != missing {
                last = (mesh.round, missing);
            }
            // Two seconds without a cell of any circuit: it stands still.
            assert!(mesh.round - last.0 < 20_000, "{missing} cells do not come");
        }
        assert!(ends.iter().all(|(source, _, cells)| *cells == 0 || mesh.hosts[*source].left == 0));
        let mut lost = 0;
        for switch in &mesh.switches {
            assert!(switch.sums().add_up(), "{:?}", switch.sums());
            for port in 0..CONFIG.ports {
                for route in switch.routes(port) {
                    let lossless = route.branches[0].profile.flow != Flow::BestEffort;
                    assert!(!lossless || route.counters.dropped == 0, "{route:?}");
                    lost += route.counters.dropped;
                }
                assert_eq!(switch.port_counters(port).received.dropped(DropReason::UnknownCircuit), 0);
            }
        }
        lost
    });
    result.unwrap_or_else(|_| panic!("SWITCH_SEED={seed} cargo test -p cellway-switch --test all credit_mesh::"))
}

#[test]
fn circuits_with_credits_lose_nothing_and_never_stand_still_in_the_long_run() {
    if let Some(seed) = std::env::var("SWITCH_SEED").ok().and_then(|seed| seed.parse().ok()) {
        run(seed);
        return;
    }
    let topologies = if std::env::var_os("CELLWAY_LONG").is_some() { 10_000 } else { 200 };
    let lost: u64 = (1..=topologies).map(run).sum();
    assert!(lost > 0, "best effort beside them was never short of room: the load is none");
}
