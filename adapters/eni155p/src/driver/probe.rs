//! What the driver finds out of a board: how much RAM there is, and the end system identifier of its ROM or EEPROM.

use crate::driver::Bus;
use crate::registers as r;
use wire::Error;

const PROBE_STEP: u32 = 128 << 10;

/// Finds the RAM's size whether absent RAM reads as nothing or as other RAM: each step's start gets its own offset, the
/// lowest last.
pub(super) fn size_ram(bus: &mut impl Bus) -> u32 {
    let steps = || (0..r::RAM_WINDOW / PROBE_STEP).map(|n| n * PROBE_STEP);
    let mut holds = |at: u32| {
        [0x5555_5555, 0xaaaa_aaaa, at].into_iter().all(|pattern| {
            bus.write(r::RAM_AT + at, pattern);
            bus.read(r::RAM_AT + at) == pattern
        })
    };
    let good = steps().rev().map(|at| if holds(at) { 0 } else { at }).filter(|at| *at > 0).min();
    let end = good.unwrap_or(r::RAM_WINDOW);
    steps().take_while(|at| *at < end && bus.read(r::RAM_AT + at) == *at).count() as u32 * PROBE_STEP
}

pub(super) fn esi_from_rom(bus: &mut impl Bus) -> Result<[u8; 6], Error> {
    const LAST: u32 = r::EPROM_OCTETS - 64;
    let magic = bus.read(LAST + 56);
    if magic != 0xa54b_872d || bus.read(LAST + 60) != !magic {
        return Err(Error::Field { what: "ENI155P", field: "ROM mark", value: magic.into() });
    }
    let [a, b, c, d] = bus.read(LAST).to_be_bytes();
    let [e, f, ..] = bus.read(LAST + 4).to_be_bytes();
    Ok([a, b, c, d, e, f])
}

/// Reads the identifier bit by bit. The master's lines stand in the bridge's control register with its fixed pattern.
pub(super) fn esi_from_eeprom(bus: &mut impl Bus) -> Result<[u8; 6], Error> {
    let mut esi = [0; 6];
    for (i, octet) in esi.iter_mut().enumerate() {
        let mut set = |clock: u8, data: u8| bus.config_write(0x60, &[0x0c | data << 1 | clock]);
        for (clock, data) in [(0, 1), (1, 1), (1, 0), (0, 0)] {
            set(clock, data);
        }
        let command = (64 + i as u8) << 1 | 1;
        for bit in (0..8).rev().map(|bit| command >> bit & 1) {
            for clock in [0, 1, 0] {
                set(clock, bit);
            }
        }
        let mut clocked = || {
            let mut line = [0];
            bus.config_write(0x60, &[0x0c | 2]);
            bus.config_write(0x60, &[0x0c | 3]);
            bus.config_read(0x60, &mut line);
            bus.config_write(0x60, &[0x0c | 2]);
            line[0] >> 1 & 1
        };
        let nobody = clocked();
        if nobody != 0 {
            return Err(Error::Field { what: "ENI155P", field: "EEPROM acknowledge", value: nobody.into() });
        }
        *octet = (0..8).fold(0, |octet, _| octet << 1 | clocked());
        clocked();
        for (clock, data) in [(0, 0), (1, 0), (1, 1)] {
            bus.config_write(0x60, &[0x0c | data << 1 | clock]);
        }
    }
    Ok(esi)
}
