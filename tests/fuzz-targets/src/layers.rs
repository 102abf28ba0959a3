//! The machines of AAL1, AAL2 and AAL3/4 under cells from a peer: portions of an octet that says what is done, and a cell's
//! payload. What a fuzzer would hardly find, a right checksum, can be asked for.

use core::time::Duration;
use sar::{aal1, aal2, aal34};
use wire::aal1::SequenceNumber;
use wire::aal2::StartField;
use wire::aal34::{SAR_PAYLOAD, Segment, SegmentType};
use wire::{Cell, CellHeader, PayloadType, Time};

/// Ask for a right checksum.
const RIGHT: u8 = 0x80;
/// Let time pass before the cell.
const WAIT: u8 = 0x40;

fn portions(octets: &[u8]) -> impl Iterator<Item = (u8, CellHeader, [u8; 48])> {
    octets.as_chunks::<49>().0.iter().map(|[kind, payload @ ..]| {
        let payload_type = PayloadType::from_bits(*kind & 7);
        (*kind, CellHeader { payload_type, clp: kind & 8 != 0, ..CellHeader::default() }, *payload)
    })
}

pub(crate) fn aal1(octets: &[u8]) {
    for block_octets in [None, Some(1), Some(24), Some(5000)] {
        let config = aal1::ReceiverConfig { block_octets, residual: true, timeout: Some(Duration::from_millis(2)) };
        let mut receiver = aal1::Receiver::new(config).expect("blocks of some octets");
        let check = |piece: aal1::Piece<'_>| match piece {
            aal1::Piece::Octets { octets, block_at } => {
                assert!((46..=47).contains(&octets.len()) && block_at < block_octets.unwrap_or(1));
            }
            aal1::Piece::Lost { octets, block_at } => {
                assert!((46..=47).contains(&octets) && block_at < block_octets.unwrap_or(1));
            }
            aal1::Piece::Residual(bits) => assert!(bits.is_none_or(|bits| bits < 16)),
            aal1::Piece::Break => {}
        };
        let mut now = Time::ZERO;
        let mut cells = 0;
        for (kind, header, mut payload) in portions(octets) {
            if kind & RIGHT != 0 {
                payload[0] = SequenceNumber { csi: payload[0] & 8 != 0, count: payload[0] & 7 }.to_octet();
            }
            if kind & WAIT != 0 {
                now += Duration::from_millis(1);
                receiver.handle_timeout(now, check);
            }
            receiver.push(&[Cell::new(header, payload)], check, now);
            cells += 1;
        }
        assert!(receiver.counters().cells + receiver.counters().dropped_total() <= cells);
        assert!(receiver.statistics().lost_cells <= 6 * cells);
    }
}

pub(crate) fn aal2(octets: &[u8]) {
    for long_packets in [false, true] {
        let mut channels = aal2::Channels::ALL;
        channels.remove(9);
        let mut receiver = aal2::Receiver::new(aal2::ReceiverConfig { long_packets, channels });
        let mut in_cells = 0;
        for (kind, header, mut payload) in portions(octets) {
            if kind & RIGHT != 0 {
                payload[0] = StartField { offset: payload[0] >> 2, sequence: payload[0] & 2 != 0 }.to_octet();
            }
            let mut delivered = 0;
            receiver.push(&[Cell::new(header, payload)], |packet| {
                assert!((1..=if long_packets { 64 } else { 45 }).contains(&packet.payload.len()));
                assert!(packet.cid != 0 && packet.cid != 9 && packet.uui < 32);
                delivered += packet.payload.len() + 3;
            });
            in_cells += 47;
            assert!(delivered <= 47 + 66, "a cell and what was kept of the last");
        }
        assert!(receiver.counters().octets + 3 * receiver.counters().pdus <= in_cells);
    }
}

pub(crate) fn aal34(octets: &[u8]) {
    const SLOT: usize = 600;
    for max_open in [1, 3] {
        let timeout = Some(Duration::from_millis(2));
        let mut r = aal34::Reassembler::new(aal34::ReassemblyConfig { max_open, max_sdu_octets: 1000, timeout });
        let mut memory = [0; 3 * SLOT];
        let mut slots = aal34::Slots::new(&mut memory, SLOT);
        let mut now = Time::ZERO;
        for (kind, header, mut payload) in portions(octets) {
            if kind & RIGHT != 0 {
                let segment = Segment {
                    segment_type: SegmentType::from_bits(payload[0] >> 6),
                    sequence: payload[0] >> 2 & 15,
                    mid: u16::from(payload[1] & 3),
                    li: payload[46] >> 2,
                };
                segment.seal(&mut payload);
                assert_eq!(
                    Segment::parse(&payload).map(|(s, body)| (s, &body[..])),
                    Ok((segment, &payload[SAR_PAYLOAD]))
                );
            }
            if kind & WAIT != 0 {
                now += Duration::from_millis(1);
                while r.handle_timeout(now).is_some() {}
            }
            let cell = [Cell::new(header, payload)];
            let mut used = 0;
            while used == 0 {
                let step = r.push(&cell, &mut slots, now);
                if let aal34::Event::Complete { slot, sdu_octets, .. } = step.event {
                    assert!(slot < max_open && sdu_octets <= SLOT);
                }
                assert!(step.cells_used == 1 || matches!(step.event, aal34::Event::Failed { slot: Some(_), .. }));
                used = step.cells_used;
            }
            assert!(r.open_pdus() <= max_open);
        }
        while r.handle_timeout(Time::MAX).is_some() {}
        assert_eq!((r.open_pdus(), r.poll_timeout()), (0, None));
    }
}
