//! The check sequence of Ethernet frames (IEEE 802.3 clause 3.2.9): CRC-32, least significant bit first, eight octets a
//! step.

const POLYNOMIAL: u32 = 0xedb8_8320;

const TABLES: [[u32; 256]; 8] = {
    let mut tables = [[0; 256]; 8];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        tables[0][i] = crc;
        i += 1;
    }
    let mut t = 1;
    while t < 8 {
        let mut i = 0;
        while i < 256 {
            let before = tables[t - 1][i];
            tables[t][i] = before >> 8 ^ tables[0][(before & 0xff) as usize];
            i += 1;
        }
        t += 1;
    }
    tables
};

/// The check sequence of a frame; it is sent least significant octet first.
pub(crate) fn of(octets: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    let (chunks, rest) = octets.as_chunks::<8>();
    for &[a, b, c, d, e, f, g, h] in chunks {
        let low = (crc ^ u32::from_le_bytes([a, b, c, d])).to_le_bytes();
        crc = TABLES[7][usize::from(low[0])]
            ^ TABLES[6][usize::from(low[1])]
            ^ TABLES[5][usize::from(low[2])]
            ^ TABLES[4][usize::from(low[3])]
            ^ TABLES[3][usize::from(e)]
            ^ TABLES[2][usize::from(f)]
            ^ TABLES[1][usize::from(g)]
            ^ TABLES[0][usize::from(h)];
    }
    for octet in rest {
        crc = crc >> 8 ^ TABLES[0][usize::from(crc as u8 ^ octet)];
    }
    !crc
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_catalogues_check_value() {
        assert_eq!(super::of(b"123456789"), 0xcbf4_3926);
        assert_eq!(super::of(b""), 0);
    }
}
