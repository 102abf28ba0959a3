//! The inner loops of AAL5, and the CRC-10 of AAL3/4, one set for each kind of processor, chosen once when the program
//! first needs them.
//!
//! | kernel | needs | cells a step |
//! |---|---|---|
//! | `avx512` | AVX-512 F, BW, VL and VPCLMULQDQ | 4 |
//! | `avx2-vpclmul` | AVX2 and VPCLMULQDQ | 2 |
//! | `avx2` | AVX2 and PCLMULQDQ | 1 |
//! | `sse` | SSE4.2 and PCLMULQDQ | 1 |
//! | `neon` | aarch64 with PMULL | 1 |
//! | `portable` | nothing | 1, by slicing tables |
//!
//! `CELLWAY_KERNEL=NAME` chooses another than the best, where the machine has it.
#![allow(unsafe_code)]

mod batch;
mod crc10;
mod crc32;
mod demultiplex;
mod engine;
mod lanes;
#[cfg(test)]
mod model;
mod polynomial;
mod portable;
#[cfg(test)]
mod tests;

#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
mod neon;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use batch::{Batch, Outgoing};
pub(crate) use crc10::Remainder;
pub use crc32::Checksum;
pub(crate) use engine::{In, Out, Stop, pass_over};

use core::fmt;
use core::ops::Range;
use demultiplex::{Ahead, Block, Loop, Steps};
pub(crate) use demultiplex::{Circuits, Entry, FREE, FreeBuffers, PduPlace, Rest, Turns, head_of, lose};
pub use demultiplex::{Delivery, DemuxConfig, Progress, Reason};
use std::sync::OnceLock;

/// Octets from one cell to the next: a slot, or a cell as on the wire.
pub(crate) const SLOT: usize = size_of::<wire::Cell>();
/// As [`SLOT`].
pub(crate) const WIRE: usize = wire::cell::CELL_OCTETS;

type Segment = unsafe fn(&mut Out, *const u8, *mut u8, usize) -> usize;
type SegmentBatch = unsafe fn(&[Outgoing<'_>], *mut u8, usize) -> Batch;
type Reassemble = unsafe fn(&mut In, *const u8, usize, *mut u8, usize) -> (usize, Stop);
type Demultiplex = unsafe fn(&mut Circuits, *const u8, usize, *mut u8, &mut [Delivery]) -> Progress;

/// A kernel's entry points: each for slots and for 53-octet cells. Their safety conditions are those of the functions
/// of the same names in `engine`, `batch` and `demux`; the processor's features are known to be there, because a
/// [`Kernel`] exists only where they are.
struct Entries {
    name: &'static str,
    start: u128,
    segment: [Segment; 2],
    segment_batch: [SegmentBatch; 2],
    reassemble: [Reassemble; 2],
    demultiplex: [Demultiplex; 2],
}

macro_rules! entries {
    ($module:ident, $name:literal, $engine:ty, $(#[$feature:meta])?) => {
        mod $module {
            use super::*;
            use engine::Engine;

            $(#[$feature])?
            unsafe fn segment<const S: usize>(out: &mut Out, sdu: *const u8, to: *mut u8, room: usize) -> usize {
                // SAFETY: the caller's.
                unsafe { engine::segment::<$engine, S>(out, sdu, to, room) }
            }

            $(#[$feature])?
            unsafe fn segment_batch<const S: usize>(sdus: &[Outgoing<'_>], to: *mut u8, room: usize) -> Batch {
                // SAFETY: the caller's; `Outgoing` holds a slice of as many octets as its `Out` says.
                unsafe {
                    batch::run(sdus, room, <$engine>::START, |out, sdu, at, cells| {
                        engine::segment::<$engine, S>(out, sdu.as_ptr(), to.add(at * S), cells)
                    })
                }
            }

            $(#[$feature])?
            unsafe fn reassemble<const S: usize>(
                pdu: &mut In,
                cells: *const u8,
                n: usize,
                to: *mut u8,
                room: usize,
            ) -> (usize, Stop) {
                // SAFETY: the caller's.
                unsafe { engine::reassemble::<$engine, S>(pdu, cells, n, to, room) }
            }

            $(#[$feature])?
            unsafe fn take_runs<const S: usize>(l: &mut Loop<'_, S>) {
                // SAFETY: the caller's.
                unsafe { l.take_runs::<$engine>() }
            }

            $(#[$feature])?
            unsafe fn take_columns<const S: usize>(l: &mut Loop<'_, S>) {
                // SAFETY: the caller's.
                unsafe { l.take_columns::<$engine>() }
            }

            $(#[$feature])?
            unsafe fn look<const S: usize>(l: &Loop<'_, S>, from: usize, block: &mut Block) {
                // SAFETY: the caller's.
                unsafe { l.look::<$engine>(from, block) }
            }

            $(#[$feature])?
            unsafe fn take_long<const S: usize, const LARGE: bool>(
                l: &mut Loop<'_, S>,
                block: &Block,
                cells: Range<usize>,
                ahead: Ahead<'_>,
            ) {
                // SAFETY: the caller's.
                unsafe { l.take_long::<$engine, LARGE>(block, cells, ahead) }
            }

            $(#[$feature])?
            unsafe fn take_short<const S: usize, const LARGE: bool>(
                l: &mut Loop<'_, S>,
                block: &Block,
                cells: Range<usize>,
                ahead: Ahead<'_>,
            ) {
                // SAFETY: the caller's.
                unsafe { l.take_short::<$engine, LARGE>(block, cells, ahead) }
            }

            $(#[$feature])?
            unsafe fn take_singles<const S: usize, const LARGE: bool>(
                l: &mut Loop<'_, S>,
                block: &Block,
                cells: Range<usize>,
                ahead: Ahead<'_>,
            ) -> usize {
                // SAFETY: the caller's.
                unsafe { l.take_singles::<$engine, LARGE>(block, cells, ahead) }
            }

            $(#[$feature])?
            unsafe fn finish<const S: usize>(l: &mut Loop<'_, S>, block: &Block) {
                // SAFETY: the caller's.
                unsafe { l.finish::<$engine>(block) }
            }

            unsafe fn demultiplex<const S: usize>(
                circuits: &mut Circuits,
                cells: *const u8,
                n: usize,
                pool: *mut u8,
                out: &mut [Delivery],
            ) -> Progress {
                let steps = Steps::<S> {
                    take_runs,
                    take_columns,
                    look,
                    take_long: [take_long::<S, false>, take_long::<S, true>],
                    take_short: [take_short::<S, false>, take_short::<S, true>],
                    take_singles: [take_singles::<S, false>, take_singles::<S, true>],
                    finish,
                };
                // SAFETY: the caller's; the steps need no other features than this kernel.
                unsafe { super::demultiplex::demultiplex(steps, circuits, cells, n, pool, out) }
            }

            pub(super) static ENTRIES: Entries = Entries {
                name: $name,
                start: <$engine>::START,
                segment: [segment::<SLOT>, segment::<WIRE>],
                segment_batch: [segment_batch::<SLOT>, segment_batch::<WIRE>],
                reassemble: [reassemble::<SLOT>, reassemble::<WIRE>],
                demultiplex: [demultiplex::<SLOT>, demultiplex::<WIRE>],
            };
        }
    };
}

entries!(by_table, "portable", portable::Portable,);
#[cfg(test)]
entries!(by_model, "model", lanes::Vectors<model::Model>,);
#[cfg(target_arch = "x86_64")]
entries!(by_sse, "sse", lanes::Vectors<core::arch::x86_64::__m128i>, #[target_feature(enable = "sse4.2,pclmulqdq")]);
#[cfg(target_arch = "x86_64")]
entries!(by_avx2, "avx2", lanes::Vectors<core::arch::x86_64::__m128i>, #[target_feature(enable = "avx2,bmi1,bmi2,pclmulqdq")]);
#[cfg(target_arch = "x86_64")]
entries!(by_vpclmul, "avx2-vpclmul", lanes::Vectors<x86::Ymm>, #[target_feature(enable = "avx2,bmi1,bmi2,pclmulqdq,vpclmulqdq")]);
#[cfg(target_arch = "x86_64")]
entries!(
    by_avx512, "avx512", lanes::Vectors<avx512::Zmm>,
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2,bmi1,bmi2,pclmulqdq,vpclmulqdq")]
);
#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
entries!(by_neon, "neon", lanes::Vectors<core::arch::aarch64::uint8x16_t>, #[target_feature(enable = "neon,aes")]);

/// The inner loops that this machine can run, by name.
#[derive(Clone, Copy)]
pub struct Kernel(&'static Entries);

impl Kernel {
    /// All that this machine can run, the best one first, `portable` last.
    pub fn all() -> &'static [Kernel] {
        static ALL: OnceLock<Vec<Kernel>> = OnceLock::new();
        ALL.get_or_init(|| {
            let mut all = Vec::new();
            #[cfg(target_arch = "x86_64")]
            {
                use std::arch::is_x86_feature_detected as has;
                let carryless = has!("pclmulqdq");
                let avx2 = has!("avx2") && has!("bmi1") && has!("bmi2") && carryless;
                let wide = avx2 && has!("vpclmulqdq");
                if wide && has!("avx512f") && has!("avx512bw") && has!("avx512vl") {
                    all.push(Kernel(&by_avx512::ENTRIES));
                }
                if wide {
                    all.push(Kernel(&by_vpclmul::ENTRIES));
                }
                if avx2 {
                    all.push(Kernel(&by_avx2::ENTRIES));
                }
                if carryless && has!("sse4.2") {
                    all.push(Kernel(&by_sse::ENTRIES));
                }
            }
            #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
            if std::arch::is_aarch64_feature_detected!("pmull") {
                all.push(Kernel(&by_neon::ENTRIES));
            }
            all.push(Kernel(&by_table::ENTRIES));
            all
        })
    }

    /// The one that `CELLWAY_KERNEL` names, if this machine has it, or else the best.
    pub fn chosen() -> Kernel {
        static CHOSEN: OnceLock<Kernel> = OnceLock::new();
        *CHOSEN.get_or_init(|| {
            let named = std::env::var("CELLWAY_KERNEL").ok().and_then(|name| Self::by_name(&name));
            named.unwrap_or(Self::all()[0])
        })
    }

    /// The one of this name, if this machine can run it.
    pub fn by_name(name: &str) -> Option<Kernel> {
        Self::all().iter().copied().find(|k| k.name() == name)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    #[cfg(test)]
    pub(crate) fn model() -> Kernel {
        Kernel(&by_model::ENTRIES)
    }

    /// The CRC-10 of AAL3/4's cells.
    pub(crate) fn remainder10(self) -> Remainder {
        #[cfg(target_arch = "x86_64")]
        if ["sse", "avx2", "avx2-vpclmul", "avx512"].contains(&self.name()) {
            return crc10::by_pclmul;
        }
        crc10::by_table
    }

    /// The CRC-32 of AAL5 over octets anywhere.
    pub fn checksum(self) -> Checksum {
        #[cfg(target_arch = "x86_64")]
        if ["sse", "avx2", "avx2-vpclmul", "avx512"].contains(&self.name()) {
            return crc32::by_pclmul;
        }
        crc32::by_table
    }

    pub(crate) fn start(self) -> u128 {
        self.0.start
    }

    /// # Safety
    /// `sdu` gives the PDU's octets, `to` has room for `room` cells of `S` octets.
    #[inline]
    pub(crate) unsafe fn segment<const S: usize>(
        self,
        out: &mut Out,
        sdu: *const u8,
        to: *mut u8,
        room: usize,
    ) -> usize {
        // SAFETY: the caller's; the features are there, or this kernel would not be.
        unsafe { self.0.segment[usize::from(S == WIRE)](out, sdu, to, room) }
    }

    /// # Safety
    /// `to` has room for `room` cells of `S` octets.
    #[inline]
    pub(crate) unsafe fn segment_batch<const S: usize>(self, sdus: &[Outgoing<'_>], to: *mut u8, room: usize) -> Batch {
        // SAFETY: as above.
        unsafe { self.0.segment_batch[usize::from(S == WIRE)](sdus, to, room) }
    }

    /// # Safety
    /// `cells` gives `n` cells of `S` octets, `to` has room for `room` octets.
    #[inline]
    pub(crate) unsafe fn reassemble<const S: usize>(
        self,
        pdu: &mut In,
        cells: *const u8,
        n: usize,
        to: *mut u8,
        room: usize,
    ) -> (usize, Stop) {
        // SAFETY: as above.
        unsafe { self.0.reassemble[usize::from(S == WIRE)](pdu, cells, n, to, room) }
    }

    /// # Safety
    /// `cells` gives `n` cells of `S` octets, `pool` has room for all of the circuits' buffers.
    #[inline]
    pub(crate) unsafe fn demultiplex<const S: usize>(
        self,
        circuits: &mut Circuits,
        cells: *const u8,
        n: usize,
        pool: *mut u8,
        out: &mut [Delivery],
    ) -> Progress {
        // SAFETY: as above.
        unsafe { self.0.demultiplex[usize::from(S == WIRE)](circuits, cells, n, pool, out) }
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
