//! The "Tonga" PCI bridge of the ENI155P: configuration space, and the serial EEPROM behind configuration register 0x60.
//!
//! In: accesses to configuration space. Out: identities, the memory window's size, how DMA swaps octets, the end system
//! identifier bit by bit. The bridge exists as an FPGA (device 0, identifier in a ROM of the memory window) and as an
//! ASIC (device 2, identifier in an EEPROM like the X24C01).

/// Efficient Networks.
pub const VENDOR: u16 = 0x111a;
/// Octets of configuration space.
pub const CONFIG_OCTETS: usize = 256;
/// Octets of the memory window, BAR 0.
pub const BAR_OCTETS: u32 = 4 << 20;
/// The bridge's control register, one octet.
pub const CONTROL: usize = 0x60;
/// Control: DMA swaps the octets of a word, so that words are in network order.
pub const SWAP_DMA: u8 = 0x80;
/// Control: the EEPROM's data line.
pub const EEPROM_DATA: u8 = 0x02;
/// Control: the EEPROM's clock line.
pub const EEPROM_CLOCK: u8 = 0x01;
/// The EEPROM address of the identifier's first octet.
pub const EEPROM_ESI: usize = 64;

const COMMAND: usize = 0x04;
const BAR0: usize = 0x10;
const INTERRUPT_LINE: usize = 0x3c;
/// Command bits that exist: memory space, bus master, parity, SERR, interrupt disable.
const COMMAND_BITS: u16 = 0x0546;

/// Which bridge a board has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Board {
    /// Device 0x0002.
    #[default]
    Asic,
    /// Device 0x0000.
    Fpga,
}

/// The configuration space and what is behind it.
#[derive(Debug, Clone)]
pub struct Tonga {
    config: [u8; CONFIG_OCTETS],
    eeprom: Option<Eeprom>,
}

impl Tonga {
    /// As after power is switched on. The ASIC's EEPROM holds `esi`.
    pub fn new(board: Board, esi: [u8; 6]) -> Self {
        let mut config = [0; CONFIG_OCTETS];
        let device: u16 = if board == Board::Asic { 2 } else { 0 };
        config[0..2].copy_from_slice(&VENDOR.to_le_bytes());
        config[2..4].copy_from_slice(&device.to_le_bytes());
        // Status: medium DEVSEL timing. Class: network controller, ATM. Interrupt pin: INTA.
        config[7] = 0x02;
        config[9..12].copy_from_slice(&[0x00, 0x03, 0x02]);
        config[0x3d] = 1;
        Tonga { config, eeprom: (board == Board::Asic).then(|| Eeprom::new(esi)) }
    }

    /// Puts all registers back; the EEPROM's content stays.
    pub fn reset(&mut self) {
        self.config[COMMAND..COMMAND + 2].fill(0);
        self.config[BAR0..BAR0 + 4].fill(0);
        self.config[CONTROL] = 0;
        self.config[INTERRUPT_LINE] = 0;
        if let Some(eeprom) = &mut self.eeprom {
            eeprom.idle();
        }
    }

    /// Reads octets from `offset` on; what is beyond reads as ones, as an absent device does.
    pub fn read(&self, offset: usize, data: &mut [u8]) {
        for (i, octet) in data.iter_mut().enumerate() {
            let at = offset.saturating_add(i);
            *octet = match (at, &self.eeprom) {
                (CONTROL, Some(eeprom)) if !eeprom.drives_high() => self.config[CONTROL] & !EEPROM_DATA,
                _ => self.config.get(at).copied().unwrap_or(0xff),
            };
        }
    }

    /// Writes octets from `offset` on; what is read-only, or beyond, stays as it is.
    pub fn write(&mut self, offset: usize, data: &[u8]) {
        for (i, octet) in data.iter().enumerate() {
            let at = offset.saturating_add(i);
            let writable = match at {
                COMMAND => COMMAND_BITS as u8,
                0x05 => (COMMAND_BITS >> 8) as u8,
                // Cache line size and latency timer are storage.
                0x0c | 0x0d | INTERRUPT_LINE | CONTROL => 0xff,
                // A window of 4 MB: the low 22 bits of its address are always zero.
                0x12 => 0xc0,
                0x13 => 0xff,
                _ => continue,
            };
            self.config[at] = self.config[at] & !writable | octet & writable;
            if at == CONTROL
                && let Some(eeprom) = &mut self.eeprom
            {
                eeprom.lines(octet & EEPROM_CLOCK != 0, octet & EEPROM_DATA != 0);
            }
        }
    }

    /// Whether DMA is in network order.
    pub const fn swaps_dma(&self) -> bool {
        self.config[CONTROL] & SWAP_DMA != 0
    }

    /// Whether the host lets the adapter be a bus master.
    pub const fn is_master(&self) -> bool {
        self.config[COMMAND] & 4 != 0
    }

    /// Whether the host has switched the interrupt pin off.
    pub const fn interrupt_disabled(&self) -> bool {
        self.config[COMMAND + 1] & 4 != 0
    }
}

/// What the EEPROM does between a START and a STOP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Idle,
    /// Takes in seven bits of address and the read bit; so many are there.
    Address(u8),
    /// Pulls the data line low to say that it understood.
    Acknowledge,
    /// Puts out this bit of the octet, 7 first.
    Data(u8),
    /// Waits for the master's acknowledge: data low asks for the next octet.
    Next,
}

/// A serial EEPROM of 128 octets, read only, two lines. A bit counts when the clock rises; the output changes when it
/// falls. The data line changes while the clock is high only for START (down) and STOP (up).
#[derive(Debug, Clone)]
struct Eeprom {
    content: [u8; 128],
    phase: Phase,
    shift: u8,
    address: u8,
    clock: bool,
    data: bool,
    more: bool,
}

impl Eeprom {
    fn new(esi: [u8; 6]) -> Self {
        let mut content = [0xff; 128];
        content[EEPROM_ESI..EEPROM_ESI + 6].copy_from_slice(&esi);
        Eeprom { content, phase: Phase::Idle, shift: 0, address: 0, clock: false, data: false, more: false }
    }

    fn idle(&mut self) {
        (self.phase, self.clock, self.data) = (Phase::Idle, false, false);
    }

    /// Whether the EEPROM lets the data line go up.
    fn drives_high(&self) -> bool {
        match self.phase {
            Phase::Acknowledge => false,
            Phase::Data(bit) => self.content[usize::from(self.address & 127)] >> bit & 1 != 0,
            _ => true,
        }
    }

    /// The master drives the lines.
    fn lines(&mut self, clock: bool, data: bool) {
        let (clock_was, data_was) = (self.clock, self.data);
        (self.clock, self.data) = (clock, data);
        if clock && clock_was {
            match (data_was, data) {
                (true, false) => (self.phase, self.shift) = (Phase::Address(0), 0),
                (false, true) => self.phase = Phase::Idle,
                _ => {}
            }
        } else if clock {
            match &mut self.phase {
                Phase::Address(bits) if *bits < 8 => {
                    self.shift = self.shift << 1 | u8::from(data);
                    *bits += 1;
                }
                Phase::Next => self.more = !data,
                _ => {}
            }
        } else if clock_was {
            self.phase = match self.phase {
                Phase::Address(8) => {
                    self.address = self.shift >> 1;
                    // The low bit asks to read; this EEPROM's content is not for writing.
                    if self.shift & 1 != 0 { Phase::Acknowledge } else { Phase::Idle }
                }
                Phase::Acknowledge => Phase::Data(7),
                Phase::Data(0) => {
                    self.more = false;
                    Phase::Next
                }
                Phase::Data(bit) => Phase::Data(bit - 1),
                Phase::Next if self.more => {
                    self.address = (self.address + 1) & 127;
                    Phase::Data(7)
                }
                Phase::Next => Phase::Idle,
                other => other,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ESI: [u8; 6] = [0x00, 0x20, 0xea, 0x01, 0x02, 0x83];

    /// Reads an octet of the EEPROM as a driver does, bit by bit.
    fn eeprom_octet(tonga: &mut Tonga, address: u8) -> Option<u8> {
        let set = |tonga: &mut Tonga, clock: bool, data: bool| {
            tonga.write(CONTROL, &[0x0c | u8::from(data) << 1 | u8::from(clock)]);
        };
        let get = |tonga: &Tonga| {
            let mut octet = [0];
            tonga.read(CONTROL, &mut octet);
            octet[0] & EEPROM_DATA != 0
        };
        set(tonga, false, true);
        set(tonga, true, true);
        set(tonga, true, false);
        set(tonga, false, false);
        for bit in (0..8).rev() {
            let data = (address << 1 | 1) >> bit & 1 != 0;
            set(tonga, false, data);
            set(tonga, true, data);
            set(tonga, false, data);
        }
        let clocked = |tonga: &mut Tonga| {
            set(tonga, false, true);
            set(tonga, true, true);
            let bit = get(tonga);
            set(tonga, false, true);
            bit
        };
        if clocked(tonga) {
            return None;
        }
        let octet = (0..8).fold(0, |octet, _| octet << 1 | u8::from(clocked(tonga)));
        assert!(clocked(tonga), "nobody pulls the line while the master does not acknowledge");
        set(tonga, false, false);
        set(tonga, true, false);
        set(tonga, true, true);
        Some(octet)
    }

    #[test]
    fn the_esi_comes_out_of_the_eeprom_bit_by_bit() {
        let mut tonga = Tonga::new(Board::Asic, ESI);
        for (i, octet) in ESI.into_iter().enumerate() {
            assert_eq!(eeprom_octet(&mut tonga, (EEPROM_ESI + i) as u8), Some(octet));
        }
        let mut fpga = Tonga::new(Board::Fpga, ESI);
        assert_eq!(eeprom_octet(&mut fpga, EEPROM_ESI as u8), None);
    }

    #[test]
    fn the_window_is_sized_as_pci_does_it() {
        let mut tonga = Tonga::new(Board::Fpga, ESI);
        tonga.write(BAR0, &[0xff; 4]);
        let mut bar = [0; 4];
        tonga.read(BAR0, &mut bar);
        assert_eq!(!u32::from_le_bytes(bar) + 1, BAR_OCTETS);
        let mut class = [0; 4];
        tonga.read(8, &mut class);
        assert_eq!(u32::from_le_bytes(class) >> 8, 0x02_0300);
    }

    #[test]
    fn identities_cannot_be_written_and_nothing_is_beyond_the_end() {
        let mut tonga = Tonga::new(Board::Asic, ESI);
        tonga.write(0, &[0; 400]);
        let mut id = [0; 4];
        tonga.read(0, &mut id);
        assert_eq!(id, [0x1a, 0x11, 0x02, 0x00]);
        tonga.read(254, &mut id);
        assert_eq!(id, [0, 0, 0xff, 0xff]);
        tonga.read(usize::MAX, &mut id);
    }
}
