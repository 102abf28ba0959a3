//! Adapters under a guest's accesses.

use bus::HostMemory;
use bus::memory::Flat;
use eni155p::vfio::protocol::{HEADER_OCTETS, Header};
use eni155p::vfio::session::Session;
use eni155p::{Config, Eni155p, Pace, registers as r};
use wire::{Cell, CellHeader, Time};

/// Octets as a guest's doings, six each: what, where (two), a value (three) or what is made of it.
pub(crate) fn eni155p(octets: &[u8]) {
    let mut adapter = Eni155p::new(Config { pace: Pace::Unpaced, ..Config::default() });
    adapter.config_write(4, &[6, 0]);
    let mut memory = Flat::new(0, 1 << 16);
    memory.write(0, &octets[..octets.len().min(1 << 16)]).expect("not more than there is");
    let mut cells = [Cell::default(); 8];
    let mut now = Time::ZERO;
    for part in octets.as_chunks::<6>().0 {
        let [kind, a, b, c, d, e] = *part;
        let at = u32::from(u16::from_le_bytes([a, b]));
        let value = u32::from_le_bytes([c, d, e, kind]);
        // The RAM takes all of it, so that the kind's upper half is a mode or an identity.
        let (value, data) = (value & 0x00ff_ffff, value.to_le_bytes());
        match kind & 15 {
            0..=2 => adapter.bar_write(r::RAM_AT + 4 * at, &data, now),
            3 => adapter.bar_write(r::RAM_AT + r::BUFFERS + 4 * at, &(r::TX_IDENT | value).to_le_bytes(), now),
            4..=6 => adapter.bar_write(r::REGISTERS_AT + 4 * (at % r::REGISTERS), &value.to_le_bytes(), now),
            7 => adapter.bar_write(r::PHY_AT + 4 * (at & 255), &data, now),
            8 => adapter.bar_write(at << 7, &data[..usize::from(c & 3) + 1], now),
            9 => {
                let mut read = [0; 8];
                adapter.bar_read(r::REGISTERS_AT + at % 0x100, &mut read[..usize::from(c & 7) + 1], now);
                adapter.bar_read(at << 7, &mut read, now);
            }
            10 => {
                adapter.config_write(usize::from(a), &data[..3]);
                adapter.config_read(usize::from(b), &mut [0; 4]);
            }
            11 => adapter.handle_cell(&Cell::new(CellHeader::from_word(value), [d; 48])),
            12 => {
                let cell = Cell::new(CellHeader::from_word(u32::from(c) << 4 | u32::from(a & 7)), [d; 48]);
                for _ in 0..e & 31 {
                    adapter.handle_cell(&cell);
                }
            }
            13 => assert!(adapter.fill(&mut cells, now) <= cells.len()),
            14 => {
                adapter.run_dma(&mut memory, at as usize & 0x3fff);
            }
            _ => {
                now += std::time::Duration::from_nanos(u64::from(value));
                adapter.handle_timeout(now);
                let _ = (adapter.interrupt(now), adapter.poll_timeout());
            }
        }
    }
}

/// A client's messages, one after the other, after the one that agrees on a version.
pub(crate) fn vfio_user(octets: &[u8]) {
    let mut adapter = Eni155p::new(Config::default());
    let mut session = Session::default();
    let mut replies = Vec::new();
    let version = Header { id: 0, command: 1, size: 20, flags: 0 };
    session
        .handle(&version, &[0; 4], Vec::new(), &mut adapter, Time::ZERO, &mut replies)
        .expect("the version is agreed on");
    let mut rest = octets;
    while let Ok(header) = Header::parse(rest) {
        let Some((message, after)) = rest.split_at_checked(header.size) else { break };
        replies.clear();
        let payload = &message[HEADER_OCTETS..];
        let result = session.handle(&header, payload, Vec::new(), &mut adapter, Time::ZERO, &mut replies);
        if result.is_ok() && header.wants_reply() {
            // One answer, as long as it says.
            let size = u32::from_ne_bytes([replies[4], replies[5], replies[6], replies[7]]);
            assert_eq!(size as usize, replies.len());
            assert_eq!(replies[..2], message[..2]);
        }
        session.update_interrupt(adapter.interrupt(Time::ZERO));
        adapter.run_dma(&mut session.memory, 1000);
        rest = after;
    }
}
