//! SDUs of one size over one working set: memcpy, every kernel, the peers.

use super::{median, peers, seconds_per_pass};
use ::sar::{Delivery, Demux, DemuxConfig, Event, Kernel, Outgoing, Reassembler, ReassemblyConfig, SduMeta};
use anyhow::{Result, ensure};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Duration;
use wire::{Cell, CircuitId, Time};

/// The sizes of SDUs: a TCP acknowledgement in one cell, small messages, Ethernet's MTU, RFC 2225's with its LLC header,
/// the longest.
pub(super) const SIZES: [usize; 6] = [40, 64, 512, 1500, 9188, 65_535];
/// Smaller SDUs come in batches of many circuits.
const SMALL: usize = 1000;
/// How many circuits a batch is of.
const CIRCUITS: usize = 64;
/// Source and destination at the same place of their pages slow some processors' string moves down tenfold.
const APART: usize = 2112;

/// Where the octets lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WorkingSet {
    /// In the second-level cache, cells and all.
    L2,
    /// Far more than the caches hold.
    Dram,
}

impl WorkingSet {
    fn name(self) -> &'static str {
        match self {
            WorkingSet::L2 => "l2",
            WorkingSet::Dram => "dram",
        }
    }

    fn sdu_octets(self) -> usize {
        match self {
            WorkingSet::L2 => 72 * 1024,
            WorkingSet::Dram => 64 << 20,
        }
    }
}

fn circuit(i: usize) -> CircuitId {
    CircuitId::from_key(100 + (i % CIRCUITS) as u32)
}

/// Seconds per pass, of one way to do it.
#[derive(Default)]
struct Times {
    segment: Vec<f64>,
    reassemble: Vec<f64>,
}

/// SDUs of one size over one working set, and all that was measured of them.
pub(super) struct Case {
    octets: usize,
    set: WorkingSet,
    sdus: usize,
    memcpy: Vec<f64>,
    /// By their place in the output.
    ways: BTreeMap<(usize, &'static str), Times>,
}

impl Case {
    pub(super) fn new(octets: usize, set: WorkingSet) -> Self {
        let sdus = (set.sdu_octets() / octets).max(1);
        Case { octets, set, sdus, memcpy: Vec::new(), ways: BTreeMap::new() }
    }

    fn cells(&self) -> usize {
        wire::aal5::cells(self.octets) * self.sdus
    }

    /// One run: every way once. The memory is taken anew, so that runs differ in its pages as well.
    pub(super) fn run(&mut self, kernels: &[Kernel], length: Duration) -> Result<()> {
        let (octets, sdus) = (self.octets, self.sdus);
        let total = octets * sdus;
        let from: Vec<u8> = (0..total).map(|i| (i * 7 + i / 251) as u8).collect();
        let mut to = vec![0u8; total + APART];
        let mut cells = vec![Cell::default(); self.cells()];
        let meta = SduMeta::default();
        let batch: Vec<Outgoing<'_>> = from
            .chunks_exact(octets)
            .enumerate()
            .map(|(i, sdu)| Outgoing::new(circuit(i), sdu, meta))
            .collect::<Result<_, _>>()?;
        self.memcpy.push(seconds_per_pass(length, || {
            for (a, b) in from.chunks_exact(octets).zip(to[APART..].chunks_exact_mut(octets)) {
                b.copy_from_slice(black_box(a));
                black_box(&mut *b);
            }
        }));
        for (i, kernel) in kernels.iter().enumerate() {
            let times = self.ways.entry((i, kernel.name())).or_default();
            times.segment.push(seconds_per_pass(length, || {
                let done = ::sar::segment_batch_by(*kernel, black_box(&batch), &mut cells);
                assert_eq!(black_box(done.sdus), batch.len());
            }));
            times.reassemble.push(if octets < SMALL {
                small(*kernel, octets, sdus, &cells, length)
            } else {
                large(*kernel, octets, &cells, &from, length)?
            });
        }
        if self.set == WorkingSet::L2 {
            for (i, peer) in peers::ALL.iter().enumerate() {
                let times = self.ways.entry((100 + i, peer.name)).or_default();
                times.segment.push(seconds_per_pass(length, || {
                    let mut at = 0;
                    for (i, sdu) in from.chunks_exact(octets).enumerate() {
                        at += (peer.segment)(circuit(i), black_box(sdu), &mut cells[at..]);
                    }
                }));
                let mut whole = 0;
                let per_pdu = wire::aal5::cells(octets);
                // Peers write padding and trailer to the buffer as well.
                let mut to = vec![0u8; per_pdu * 48 * sdus];
                times.reassemble.push(seconds_per_pass(length, || {
                    whole = 0;
                    for (pdu, buffer) in cells.chunks_exact(per_pdu).zip(to.chunks_exact_mut(per_pdu * 48)) {
                        whole += usize::from((peer.reassemble)(black_box(pdu), buffer) == Some(octets));
                    }
                }));
                ensure!(whole == sdus, "{} lost PDUs", peer.name);
            }
        }
        Ok(())
    }

    /// A row for each way: Gbit/s of SDU octets, and their ratios to memcpy in the same run.
    pub(super) fn rows(&mut self) -> Vec<Value> {
        let bits = (self.octets * self.sdus * 8) as f64;
        let cells = self.cells() as f64;
        let memcpy = self.memcpy.clone();
        let ratios = |times: &[f64]| median(&mut times.iter().zip(&memcpy).map(|(t, m)| m / t).collect::<Vec<_>>());
        let memcpy_gbit_s = bits / 1e9 / median(&mut self.memcpy);
        let mut rows = Vec::new();
        for ((_, name), times) in &mut self.ways {
            let both: Vec<f64> = times.segment.iter().zip(&times.reassemble).map(|(a, b)| a + b).collect();
            let (segment_ratio, reassemble_ratio) = (ratios(&times.segment), ratios(&times.reassemble));
            let (segment, reassemble) = (median(&mut times.segment), median(&mut times.reassemble));
            rows.push(json!({
                "sdu_octets": self.octets, "working_set": self.set.name(), "kernel": name,
                "segment_gbit_s": bits / 1e9 / segment, "reassemble_gbit_s": bits / 1e9 / reassemble,
                "memcpy_gbit_s": memcpy_gbit_s,
                "segment_vs_memcpy": segment_ratio, "reassemble_vs_memcpy": reassemble_ratio,
                "both_vs_memcpy": ratios(&both),
                "cells_per_s": cells / segment,
                "reassemble_cells_per_s": cells / reassemble,
                "segment_pdus_per_s": self.sdus as f64 / segment,
                "reassemble_pdus_per_s": self.sdus as f64 / reassemble,
                "peer": peers::ALL.iter().any(|p| p.name == *name),
            }));
        }
        rows
    }
}

/// Batches of many circuits: each pass fills all buffers of the pool, which are given back after it.
fn small(kernel: Kernel, octets: usize, sdus: usize, cells: &[Cell], length: Duration) -> f64 {
    let config =
        DemuxConfig { circuits: CIRCUITS, buffers: sdus as u32, max_sdu_octets: octets, ..DemuxConfig::default() };
    let mut demux = Demux::with_kernel(kernel, config);
    for i in 0..CIRCUITS {
        demux.open(circuit(i)).unwrap_or_else(|e| panic!("{e}"));
    }
    let mut pool = vec![0u8; demux.pool_octets()];
    let mut out = vec![Delivery::default(); 256];
    let seconds = seconds_per_pass(length, || {
        let (mut at, mut whole) = (0, 0);
        while at < cells.len() {
            let progress = demux.push(&cells[at..], &mut pool, &mut out, Time::ZERO);
            at += progress.cells_used;
            whole += progress.deliveries;
            black_box(&out);
        }
        assert_eq!(whole, sdus);
        for buffer in (0..sdus as u32).rev() {
            demux.release(buffer);
        }
    });
    black_box(&pool);
    seconds
}

/// PDU by PDU into buffers one after another, each with room for its cells.
fn large(kernel: Kernel, octets: usize, cells: &[Cell], from: &[u8], length: Duration) -> Result<f64> {
    let per_pdu = wire::aal5::cells(octets);
    let room = per_pdu * 48;
    let sdus = cells.len() / per_pdu;
    let mut to = vec![0u8; room * sdus];
    let mut reassembler = Reassembler::with_kernel(kernel, ReassemblyConfig::default());
    let mut whole = 0;
    let seconds = seconds_per_pass(length, || {
        whole = 0;
        for (pdu, buffer) in cells.chunks_exact(per_pdu).zip(to.chunks_exact_mut(room)) {
            let step = reassembler.push(black_box(pdu), buffer, Time::ZERO);
            whole += usize::from(matches!(step.event, Event::Complete { sdu_octets, .. } if sdu_octets == octets));
        }
    });
    let same = to.chunks_exact(room).zip(from.chunks_exact(octets)).all(|(a, b)| a[..octets] == *b);
    ensure!(whole == sdus && same, "{kernel:?} lost or changed SDUs");
    Ok(seconds)
}
