//! The checksums of ATM, most significant bit first, by table: CRC-8 (HEC, I.432.1), CRC-10 (OAM and AAL3/4, I.610,
//! I.363.3) and CRC-32 (AAL5, I.363.5). The CRC-32 takes eight octets a step (slicing); it is the portable reference
//! for faster kernels.

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
static CRC10: [[u32; 256]; 1] = table(10, 0x233);
static CRC32: [[u32; 256]; 8] = table(32, 0x04c1_1db7);

/// CRC-8 with polynomial x^8+x^2+x+1, starting from zero.
pub fn crc8(octets: &[u8]) -> u8 {
    octets.iter().fold(0, |crc: u8, &octet| CRC8[0][usize::from(crc ^ octet)] as u8)
}

/// CRC-10 with polynomial x^10+x^9+x^5+x^4+x+1, starting from zero.
pub fn crc10(octets: &[u8]) -> u16 {
    octets
        .iter()
        .fold(0u16, |crc, &octet| ((crc << 8) & 0x3ff) ^ CRC10[0][usize::from((crc >> 2) as u8 ^ octet)] as u16)
}

/// The remainder of `octets` themselves, without ten zero bits appended: the CRC-10 of a message that already ends in
/// ten zero bits where its CRC will stand, as those of OAM cells and AAL3/4 SAR-PDUs do.
pub fn remainder10(octets: &[u8]) -> u16 {
    octets.iter().fold(0u16, |r, &octet| ((r << 8 & 0x3ff) | u16::from(octet)) ^ CRC10[0][usize::from(r >> 2)] as u16)
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
        let mut eights = octets.chunks_exact(8);
        for e in &mut eights {
            let a = r ^ u32::from_be_bytes([e[0], e[1], e[2], e[3]]);
            r = CRC32[7][(a >> 24) as usize]
                ^ CRC32[6][(a >> 16 & 0xff) as usize]
                ^ CRC32[5][(a >> 8 & 0xff) as usize]
                ^ CRC32[4][(a & 0xff) as usize]
                ^ CRC32[3][usize::from(e[4])]
                ^ CRC32[2][usize::from(e[5])]
                ^ CRC32[1][usize::from(e[6])]
                ^ CRC32[0][usize::from(e[7])];
        }
        for &octet in eights.remainder() {
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
        fn a_crc_10_in_place_and_appended_agree(mut octets: std::vec::Vec<u8>) {
            let crc = crc10(&octets);
            octets.push(0);
            octets.push(0);
            // 16 zero bits appended: x^6 more than the CRC's ten.
            let mut r = crc;
            for _ in 0..6 {
                r = if r & 0x200 != 0 { r << 1 ^ 0x633 } else { r << 1 };
            }
            prop_assert_eq!(remainder10(&octets), r);
        }
    }
}
