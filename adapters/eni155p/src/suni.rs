//! The line framer of the ENI155P, of the PMC-Sierra S/UNI family: loss of signal, cell counters, loop-back modes.
//!
//! In: register accesses of 8 bits; whether there is a signal; cells as they pass. Out: registers, an interrupt while a
//! change of signal has not been read, the loop-back in force. Registers without a mechanism behind them are storage.

use wire::cell::CELL_OCTETS;
use wire::{Counters, DropReason};

/// Registers.
pub const REGISTERS: usize = 256;
/// Master reset, identity; a write latches the counters.
pub const MRI: u8 = 0x00;
/// Master control: loop-backs.
pub const MCT: u8 = 0x05;
/// Section overhead: interrupt enables.
pub const RSOP_CIE: u8 = 0x10;
/// Section overhead: status and interrupts; a read clears the interrupts.
pub const RSOP_SIS: u8 = 0x11;
/// Received cells that were discarded for their header, 8 bits.
pub const RACP_UCHCS: u8 = 0x55;
/// Cells received, 19 bits over three registers, low first.
pub const RACP_RX: u8 = 0x56;
/// Cells transmitted, likewise.
pub const TACP_TX: u8 = 0x64;

/// MRI: S/UNI-LITE, PM5346, in the type field.
const LITE: u8 = 0x30;
/// MRI: reset while set.
const RESET: u8 = 0x80;
const DIAGNOSTIC_LOOP: u8 = 0x02;
const LINE_LOOP: u8 = 0x04;
const LOSE: u8 = 0x04;
const LOSV: u8 = 0x04;
const LOSI: u8 = 0x20;
/// Cell counters have 19 bits, header-error counters 8; all stop at their greatest value.
const CELLS_MAX: u32 = (1 << 19) - 1;

/// Where cells turn round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Loop {
    /// Nowhere.
    #[default]
    Off,
    /// What is sent comes back to the adapter (diagnostic loop-back).
    Diagnostic,
    /// What the line brings is sent back (line loop-back); the adapter receives it as well.
    Line,
}

/// The framer.
#[derive(Debug, Clone)]
pub struct Suni {
    registers: [u8; REGISTERS],
    signal: bool,
    /// Counts since the last latch: received, transmitted, discarded for their header.
    received: u32,
    transmitted: u32,
    header_errors: u8,
    /// The same since power-on, which no register shows.
    total_received: Counters,
    total_transmitted: Counters,
}

impl Suni {
    /// As after power is switched on.
    pub fn new(signal: bool) -> Self {
        let mut suni = Suni {
            registers: [0; REGISTERS],
            signal,
            received: 0,
            transmitted: 0,
            header_errors: 0,
            total_received: Counters::default(),
            total_transmitted: Counters::default(),
        };
        suni.reset();
        suni
    }

    /// Puts all registers back; the signal is as it is.
    pub fn reset(&mut self) {
        self.registers = [0; REGISTERS];
        self.registers[usize::from(MRI)] = LITE;
        (self.received, self.transmitted, self.header_errors) = (0, 0, 0);
    }

    /// Reads a register.
    pub fn read(&mut self, register: u8) -> u8 {
        let value = self.registers[usize::from(register)];
        if register == RSOP_SIS {
            self.registers[usize::from(RSOP_SIS)] = 0;
            return value | if self.signal { 0 } else { LOSV };
        }
        value
    }

    /// Writes a register.
    pub fn write(&mut self, register: u8, value: u8) {
        match register {
            MRI if value & RESET != 0 => self.reset(),
            MRI => self.latch(),
            // Status and counters are not for writing.
            RSOP_SIS | 0x12..=0x13 | 0x54..=0x58 | 0x64..=0x66 => {}
            _ => self.registers[usize::from(register)] = value,
        }
    }

    fn latch(&mut self) {
        for (register, count) in [(RACP_RX, self.received), (TACP_TX, self.transmitted)] {
            let [low, middle, high, _] = count.to_le_bytes();
            let at = usize::from(register);
            self.registers[at..at + 3].copy_from_slice(&[low, middle, high]);
        }
        self.registers[usize::from(RACP_UCHCS)] = self.header_errors;
        (self.received, self.transmitted, self.header_errors) = (0, 0, 0);
    }

    /// The line has a signal now, or has not.
    pub fn set_signal(&mut self, signal: bool) {
        if core::mem::replace(&mut self.signal, signal) != signal {
            self.registers[usize::from(RSOP_SIS)] |= LOSI;
        }
    }

    /// Whether the line has a signal.
    pub const fn has_signal(&self) -> bool {
        self.signal
    }

    /// Whether the interrupt pin is asserted.
    pub const fn interrupt(&self) -> bool {
        self.registers[RSOP_CIE as usize] & LOSE != 0 && self.registers[RSOP_SIS as usize] & LOSI != 0
    }

    /// Cells that the line brought since power-on, and cells discarded for their header.
    pub const fn received(&self) -> &Counters {
        &self.total_received
    }

    /// Cells that went to the line since power-on.
    pub const fn transmitted(&self) -> &Counters {
        &self.total_transmitted
    }

    /// The loop-back in force.
    pub const fn loop_back(&self) -> Loop {
        let control = self.registers[MCT as usize];
        if control & DIAGNOSTIC_LOOP != 0 {
            Loop::Diagnostic
        } else if control & LINE_LOOP != 0 {
            Loop::Line
        } else {
            Loop::Off
        }
    }

    /// Cells came from the line.
    pub fn count_received(&mut self, cells: usize) {
        self.received = self.received.saturating_add(cells as u32).min(CELLS_MAX);
        self.total_received.cells = self.total_received.cells.wrapping_add(cells as u64);
    }

    /// Cells went to the line.
    pub fn count_transmitted(&mut self, cells: usize) {
        self.transmitted = self.transmitted.saturating_add(cells as u32).min(CELLS_MAX);
        self.total_transmitted.cells = self.total_transmitted.cells.wrapping_add(cells as u64);
    }

    /// Takes a cell from a wire: its header must be right.
    pub fn receive(&mut self, octets: &[u8; CELL_OCTETS]) -> Option<wire::Cell> {
        let cell = wire::octets::parse53(octets, wire::octets::Format::Uni).ok();
        if cell.is_none() {
            self.header_errors = self.header_errors.saturating_add(1);
            self.total_received.drop_one(DropReason::HeaderError);
        }
        cell
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_latched_by_a_write_and_start_again() {
        let mut suni = Suni::new(true);
        for _ in 0..0x1_0203 {
            suni.count_received(1);
        }
        suni.count_transmitted(1);
        assert_eq!(suni.read(RACP_RX), 0);
        suni.write(MRI, 0);
        assert_eq!([RACP_RX, RACP_RX + 1, RACP_RX + 2, TACP_TX].map(|r| suni.read(r)), [3, 2, 1, 1]);
        suni.write(MRI, 0);
        assert_eq!(suni.read(RACP_RX), 0);
    }

    #[test]
    fn loss_of_signal_interrupts_until_it_is_read() {
        let mut suni = Suni::new(true);
        suni.write(RSOP_CIE, LOSE);
        assert!(!suni.interrupt());
        suni.set_signal(false);
        assert!(suni.interrupt());
        assert_eq!(suni.read(RSOP_SIS), LOSV | LOSI);
        assert!(!suni.interrupt());
        assert_eq!(suni.read(RSOP_SIS), LOSV);
        suni.set_signal(true);
        assert!(suni.interrupt());
        assert_eq!(suni.read(RSOP_SIS), LOSI);
    }

    #[test]
    fn a_wrong_header_is_counted_and_its_cell_discarded() {
        let mut suni = Suni::new(true);
        let mut octets = wire::octets::emit53(&wire::Cell::default(), wire::octets::Format::Uni);
        assert!(suni.receive(&octets).is_some());
        octets[1] ^= 1;
        assert!(suni.receive(&octets).is_none());
        suni.write(MRI, 0);
        assert_eq!(suni.read(RACP_UCHCS), 1);
    }
}
