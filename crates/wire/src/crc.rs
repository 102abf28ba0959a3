//! The checksums of ATM, most significant bit first, by table: CRC-8 (HEC, I.432.1), CRC-10 (OAM and AAL3/4, I.610,
//! I.363.3) and CRC-32 (AAL5, I.363.5). The two longer ones take sixteen octets a step (slicing); the CRC-32 is the
//! portable reference for faster kernels.

const fn table<const N: usize>(width: u32, polynomial: u32) -> [[u32; 256]; N] {
    let top = 1u32 << (width - 1);
    let mask = top | (top - 1);
    let mut tables = [[0u32; 256]; N];
    let mut i = 0;
    while i < 256 {
        let mut r = (i as u32) << (width - 8);
        let mut bit = 0;
        while bit < 8 {
            r = if r & top != 0 { (r << 1) ^ polynomial } else { r << 1 } & mask;
            bit += 1;
        }
        tables[0][i] = r;
        i += 1;
    }
    let mut n = 1;
    while n < N {
        let mut i = 0;
        while i < 256 {
            let r = tables[n - 1][i];
            tables[n][i] = ((r << 8) & mask) ^ tables[0][((r >> (width - 8)) & 0xff) as usize];
            i += 1;
        }
        n += 1;
    }
    tables
}

static CRC8: [[u32; 256]; 1] = table(8, 0x07);
/// `POWERS10[n][octet]`: the remainder by the CRC-10's polynomial of the octet and 8(n+1) zero bits after it. As
/// half-words, the tables take 8 KiB of the nearest cache.
static POWERS10: [[u16; 256]; 16] = {
    let mut powers = [[0; 256]; 16];
    let mut i = 0;
    while i < 256 {
        let mut r = i as u16;
        let mut n = 0;
        while n < 16 {
            r = shift10(r, 8);
            powers[n][i] = r;
            n += 1;
        }
        i += 1;
    }
    powers
};

/// The remainder of a register's two high bits and 128 zero bits after the register.
static HIGH10: [u16; 4] = {
    let mut high = [0; 4];
    let mut i = 0;
    while i < 4 {
        high[i] = shift10((i << 8) as u16, 128);
        i += 1;
    }
    high
};

/// The remainder of ten bits and `bits` zero bits after them.
const fn shift10(mut r: u16, bits: u32) -> u16 {
    let mut bit = 0;
    while bit < bits {
        r = if r & 0x200 != 0 { r << 1 ^ 0x633 } else { r << 1 };
        bit += 1;
    }
    r
}

static CRC32: [[u32; 256]; 16] = table(32, 0x04c1_1db7);

/// CRC-8 with polynomial x^8+x^2+x+1, starting from zero.
pub fn crc8(octets: &[u8]) -> u8 {
    octets.iter().fold(0, |crc: u8, &octet| CRC8[0][usize::from(crc ^ octet)] as u8)
}

/// CRC-10 with polynomial x^10+x^9+x^5+x^4+x+1, starting from zero.
pub fn crc10(octets: &[u8]) -> u16 {
    shift10(remainder10(octets), 10)
}

/// The remainder after one octet more.
fn next10(r: u16, octet: u8) -> u16 {
    POWERS10[0][usize::from(r & 0xff)] ^ POWERS10[1][usize::from(r >> 8)] ^ u16::from(octet)
}

/// The remainder of `octets` themselves, without ten zero bits appended: the CRC-10 of a message that already ends in
/// ten zero bits where its CRC will stand, as those of OAM cells and AAL3/4 SAR-PDUs do.
pub fn remainder10(octets: &[u8]) -> u16 {
    let (sixteens, rest) = octets.as_chunks::<16>();
    let r = sixteens.iter().fold(0u16, |r, s| {
        let before = POWERS10[15][usize::from(r & 0xff)] ^ HIGH10[usize::from(r >> 8)];
        let part = |sum, i: usize| sum ^ POWERS10[14 - i][usize::from(s[i])];
        (0..15).fold(before, part) ^ u16::from(s[15])
    });
    rest.iter().fold(r, |r, octet| next10(r, *octet))
}

/// The running CRC-32 of AAL5: polynomial 04C11DB7, starts and ends with all ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crc32(u32);

impl Crc32 {
    /// What the register holds after a PDU and its correct CRC.
    pub const RESIDUE: u32 = 0xc704_dd7b;

    /// Before the first octet.
    pub const fn new() -> Self {
        Crc32(u32::MAX)
    }

    /// Goes on from a register's raw content.
    pub const fn from_register(register: u32) -> Self {
        Crc32(register)
    }

    /// The register's raw content.
    pub const fn register(self) -> u32 {
        self.0
    }

    /// Takes in `octets`.
    pub fn update(&mut self, octets: &[u8]) {
        let mut r = self.0;
        let (sixteens, rest) = octets.as_chunks::<16>();
        for s in sixteens {
            let a = (r ^ u32::from_be_bytes([s[0], s[1], s[2], s[3]])).to_be_bytes();
            // The twelve that do not wait for the register come first, so that only four look-ups are in each step's
            // way.
            let free = (4..16).fold(0, |sum, i| sum ^ CRC32[15 - i][usize::from(s[i])]);
            r = (0..4).fold(free, |sum, i| sum ^ CRC32[15 - i][usize::from(a[i])]);
        }
        for &octet in rest {
            r = r << 8 ^ CRC32[0][((r >> 24) as u8 ^ octet) as usize];
        }
        self.0 = r;
    }

    /// The checksum as it stands in the trailer.
    pub const fn finish(self) -> u32 {
        !self.0
    }

    /// Whether what was taken in ended with its own correct CRC.
    pub const fn is_good(self) -> bool {
        self.0 == Self::RESIDUE
    }
}

impl Default for Crc32 {
    fn default() -> Self {
        Self::new()
    }
}

/// The CRC-32 of `octets`.
pub fn crc32(octets: &[u8]) -> u32 {
    let mut crc = Crc32::new();
    crc.update(octets);
    crc.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CHECK: &[u8] = b"123456789";

    #[test]
    fn the_check_values_of_the_crc_catalogue() {
        assert_eq!(crc8(CHECK), 0xf4);
        assert_eq!(crc10(CHECK), 0x199);
        assert_eq!(crc32(CHECK), 0xfc89_1918);
    }

    proptest! {
        #[test]
        fn slices_in_any_cut_give_the_same_crc(octets: std::vec::Vec<u8>, cut: proptest::sample::Index) {
            let at = cut.index(octets.len() + 1);
            let mut crc = Crc32::new();
            crc.update(&octets[..at]);
            crc.update(&octets[at..]);
            prop_assert_eq!(crc.finish(), crc32(&octets));
            let sum = crc.finish();
            crc.update(&sum.to_be_bytes());
            prop_assert!(crc.is_good());
        }

        #[test]
        fn a_crc_10_by_sixteens_is_the_one_by_bits(mut octets: std::vec::Vec<u8>) {
            let by_bits = octets.iter().flat_map(|o| (0..8).rev().map(move |bit| u16::from(o >> bit & 1)));
            let remainder = by_bits.fold(0u16, |r, bit| if r & 0x200 != 0 { r << 1 ^ bit ^ 0x633 } else { r << 1 ^ bit });
            prop_assert_eq!(remainder10(&octets), remainder);
            let crc = crc10(&octets);
            // With the CRC after it, a message is a multiple of the polynomial.
            octets.extend((crc << 6).to_be_bytes());
            prop_assert_eq!(remainder10(&octets), 0);
        }
    }
}
