//! The kernels alone, for those who optimise them further: `cargo bench -p cellway-sar`. Ratios to memcpy and to others are in
//! `cellway-lab bench sar`.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use sar::{Delivery, Demux, DemuxConfig, Kernel, Outgoing, Reassembler, ReassemblyConfig, SduMeta, Segmentation};
use std::hint::black_box;
use wire::cell::CELL_OCTETS;
use wire::{Cell, CircuitId, Time};

const SIZES: [usize; 4] = [40, 512, 1500, 9188];

fn circuit(i: u32) -> CircuitId {
    CircuitId::from_key(100 + i % 64)
}

fn one_pdu(c: &mut Criterion) {
    for octets in SIZES {
        let sdu = vec![0x5a; octets];
        let mut cells = vec![Cell::default(); wire::aal5::cells(octets)];
        let mut wire = vec![0; cells.len() * CELL_OCTETS];
        let mut buffer = vec![0; cells.len() * 48];
        let mut group = c.benchmark_group(format!("{octets} octets"));
        group.throughput(Throughput::Bytes(octets as u64));
        for kernel in Kernel::all() {
            let begin = || Segmentation::with_kernel(*kernel, circuit(0), octets, SduMeta::default()).unwrap();
            group.bench_function(BenchmarkId::new("segment, slots", kernel.name()), |b| {
                b.iter(|| begin().fill(black_box(&sdu), &mut cells));
            });
            group.bench_function(BenchmarkId::new("segment, 53 octets", kernel.name()), |b| {
                b.iter(|| begin().fill53(black_box(&sdu), &mut wire));
            });
            let mut r = Reassembler::with_kernel(*kernel, ReassemblyConfig::default());
            group.bench_function(BenchmarkId::new("reassemble, slots", kernel.name()), |b| {
                b.iter(|| r.push(black_box(&cells), &mut buffer, Time::ZERO));
            });
            group.bench_function(BenchmarkId::new("reassemble, 53 octets", kernel.name()), |b| {
                b.iter(|| r.push53(black_box(&wire), &mut buffer, Time::ZERO));
            });
        }
        group.finish();
    }
}

fn batches(c: &mut Criterion) {
    let sdu = [0x5a; 40];
    let batch: Vec<Outgoing<'_>> =
        (0..256).map(|i| Outgoing::new(circuit(i), &sdu, SduMeta::default()).unwrap()).collect();
    let mut cells = vec![Cell::default(); batch.len()];
    let mut group = c.benchmark_group("256 PDUs of 40 octets on 64 circuits");
    group.throughput(Throughput::Elements(batch.len() as u64));
    for kernel in Kernel::all() {
        group.bench_function(BenchmarkId::new("segment", kernel.name()), |b| {
            b.iter(|| sar::segment_batch_by(*kernel, black_box(&batch), &mut cells));
        });
        let config = DemuxConfig { circuits: 64, max_sdu_octets: 40, ..DemuxConfig::default() };
        let mut demux = Demux::with_kernel(*kernel, config);
        (0..64).for_each(|i| demux.open(circuit(i)).unwrap());
        let mut pool = vec![0; demux.pool_octets()];
        let mut out = [Delivery::default(); 256];
        group.bench_function(BenchmarkId::new("reassemble", kernel.name()), |b| {
            b.iter(|| {
                let progress = demux.push(black_box(&cells), &mut pool, &mut out, Time::ZERO);
                out[..progress.deliveries].iter().for_each(|d| assert!(demux.release(d.buffer)));
                progress
            });
        });
    }
    group.finish();
}

criterion_group!(kernels, one_pdu, batches);
criterion_main!(kernels);
