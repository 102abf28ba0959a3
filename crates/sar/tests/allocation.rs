//! Once made, the machines of AAL1, AAL2, AAL3/4 and AAL5 allocate nothing, lossy cells included: counted by the allocator.
//! A test program of its own: its allocator counts.

#[path = "../../../tests/counting_allocator.rs"]
mod counting_allocator;

use counting_allocator::allocations;
use sar::{Delivery, Demux, DemuxConfig, Outgoing, SduMeta, aal1, aal2, aal34, segment_batch};
use std::time::Duration;
use wire::{Cell, CircuitId, Time};

const LANES: usize = 4;

/// All layers, each with its sender and receiver, and where cells and SDUs stand meanwhile.
struct World {
    circuit_emulation: (aal1::Sender, aal1::Receiver),
    packets: (aal2::Sender, aal2::Receiver),
    pdus: (aal34::Interleaver, aal34::Reassembler),
    /// AAL5: one circuit, and many.
    single: sar::Reassembler,
    many: (Demux, Vec<u8>),
    sdus: [[u8; 2000]; LANES],
    memory: Vec<u8>,
    cells: [Cell; 64],
    random: u64,
    delivered: [u64; 5],
}

impl World {
    fn new() -> Self {
        let circuit = CircuitId::new(0, 100).unwrap();
        let timeout = Some(Duration::from_millis(20));
        let blocks = aal1::SenderConfig { block_octets: Some(24), clp: false };
        let receiver = aal1::ReceiverConfig { block_octets: Some(24), residual: true, timeout };
        let config = DemuxConfig { circuits: LANES, buffers: 4, max_sdu_octets: 1500, any_cpi: false };
        let mut many = Demux::new(config);
        (0..LANES).for_each(|i| many.open(lane(i)).unwrap());
        let pool = vec![0; many.pool_octets()];
        let open = aal34::ReassemblyConfig { max_open: LANES, max_sdu_octets: 2000, timeout };
        World {
            circuit_emulation: (aal1::Sender::new(circuit, blocks).unwrap(), aal1::Receiver::new(receiver).unwrap()),
            packets: (
                aal2::Sender::new(circuit, aal2::SenderConfig::default()),
                aal2::Receiver::new(aal2::ReceiverConfig::default()),
            ),
            pdus: (aal34::Interleaver::new(circuit, &[3, 500, 7, 1023]).unwrap(), aal34::Reassembler::new(open)),
            single: sar::Reassembler::new(sar::ReassemblyConfig { timeout, ..Default::default() }),
            many: (many, pool),
            sdus: [[9; 2000]; LANES],
            memory: vec![0; LANES * 2000],
            cells: [Cell::default(); 64],
            random: 1,
            delivered: [0; 5],
        }
    }

    fn random(&mut self, below: usize) -> usize {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) as usize % below
    }

    /// Of the first `n` cells, about one in fifty is lost and one damaged; gives how many are left.
    fn spoil(&mut self, n: usize) -> usize {
        let mut left = 0;
        for at in 0..n {
            if self.random(50) == 0 {
                continue;
            }
            let mut cell = self.cells[at];
            if self.random(50) == 0 {
                cell.payload[self.random(48)] ^= 1 << self.random(8);
            }
            self.cells[left] = cell;
            left += 1;
        }
        left
    }

    fn round(&mut self, now: Time) {
        let filled = self.circuit_emulation.0.fill(&self.sdus[0], &mut self.cells);
        let n = self.spoil(filled.cells);
        let delivered = &mut self.delivered;
        let (_, receiver) = &mut self.circuit_emulation;
        receiver.push(&self.cells[..n], |_| delivered[0] += 1, now);
        receiver.handle_timeout(now, |_| {});

        let mut n = 0;
        for _ in 0..30 {
            let octets = 1 + self.random(45);
            let packet = aal2::Packet { cid: 8, uui: 0, payload: &self.sdus[0][..octets] };
            n += self.packets.0.push(packet, &mut self.cells[n..], now).unwrap();
        }
        n += usize::from(self.packets.0.handle_timeout(now, &mut self.cells[n]));
        let n = self.spoil(n);
        let delivered = &mut self.delivered;
        self.packets.1.push(&self.cells[..n], |_| delivered[1] += 1);

        for lane in 0..LANES {
            let octets = self.random(2001);
            if self.pdus.0.is_free(lane) {
                self.pdus.0.begin(lane, octets, SduMeta::default()).unwrap();
            }
        }
        let sdus = &self.sdus;
        let filled = self.pdus.0.fill(|lane| &sdus[lane], &mut self.cells);
        let n = self.spoil(filled.cells);
        let mut slots = aal34::Slots::new(&mut self.memory, 2000);
        let mut at = 0;
        loop {
            let step = self.pdus.1.push(&self.cells[at..n], &mut slots, now);
            at += step.cells_used;
            match step.event {
                aal34::Event::NeedMore => break,
                aal34::Event::Complete { .. } => self.delivered[2] += 1,
                aal34::Event::Failed { .. } => {}
            }
        }
        while self.pdus.1.handle_timeout(now).is_some() {}

        self.aal5_round(now);
    }

    /// A batch on many circuits, and the same cells as if they were one circuit's.
    fn aal5_round(&mut self, now: Time) {
        let octets = [0; LANES].map(|_| 1 + self.random(600));
        let sdus = &self.sdus;
        let batch = std::array::from_fn::<_, LANES, _>(|i| {
            Outgoing::new(lane(i), &sdus[i][..octets[i]], SduMeta::default()).unwrap()
        });
        let done = segment_batch(&batch, &mut self.cells);
        let n = self.spoil(done.cells);
        let (demux, pool) = &mut self.many;
        let mut out = [Delivery::default(); 3];
        let mut at = 0;
        while at < n {
            let progress = demux.push(&self.cells[at..n], pool, &mut out, now);
            at += progress.cells_used;
            for delivery in &out[..progress.deliveries] {
                self.delivered[3] += 1;
                assert!(demux.release(delivery.buffer));
            }
        }
        if self.random(10) == 0 {
            self.many.0.expire(now);
        }
        let mut at = 0;
        while at < n {
            let step = self.single.push(&self.cells[at..n], &mut self.memory, now);
            at += step.cells_used;
            self.delivered[4] += u64::from(matches!(step.event, sar::Event::Complete { .. }));
        }
        self.single.handle_timeout(now);
    }
}

fn lane(i: usize) -> CircuitId {
    CircuitId::new(0, 100 + i as u16).unwrap()
}

#[test]
fn the_machines_allocate_nothing_whatever_happens_to_their_cells() {
    let mut world = World::new();
    for ms in 0..100 {
        world.round(Time::from_millis(ms));
    }
    let before = allocations();
    for ms in 100..5000 {
        world.round(Time::from_millis(ms));
    }
    assert_eq!(allocations() - before, 0);
    let [pieces, packets, pdus, mixed, single] = world.delivered;
    assert!(pieces > 100_000 && packets > 50_000 && pdus > 1000, "{pieces} pieces, {packets} packets, {pdus} PDUs");
    assert!(mixed > 10_000 && single > 10_000, "{mixed} of mixed circuits, {single} of one");
    assert!(world.many.0.counters().dropped_total() > 1000 && world.single.counters().dropped_total() > 1000);
    assert!(world.circuit_emulation.1.statistics().lost_cells > 1000);
    assert!(world.packets.1.counters().dropped_total() > 1000);
    assert!(world.pdus.1.counters().dropped_total() > 1000);
}
