//! Other cards of a host's bus, as a bus master sees them: addresses that lead into a card's memory instead of the host's.
//!
//! In: reads and writes by bus address. Out: octets of a card, or of the host's memory behind it. So an adapter can stream
//! from a video capture card, or deliver to a display, while the host's memory and its processor have no part in it (Traw
//! and Smith 1993, sections 3.3 to 3.5).

use crate::memory::{CrossMemory, Descriptor, Flat, HostMemory, Reach, Unmapped};

/// Memory of a card, at its place on the bus.
#[derive(Debug, Clone)]
pub struct PeerCard {
    base: u64,
    memory: Flat,
    /// Octets that bus masters read from it.
    pub read_octets: u64,
    /// Octets that bus masters wrote to it.
    pub written_octets: u64,
}

impl PeerCard {
    /// A card with `octets` octets from bus address `base` on.
    pub fn new(base: u32, octets: usize) -> Self {
        let base = u64::from(base);
        PeerCard { base, memory: Flat::new(base, octets), read_octets: 0, written_octets: 0 }
    }

    /// What the card itself has at an offset of its memory, to read or write.
    pub fn own(&mut self, offset: u32, octets: usize) -> Option<&mut [u8]> {
        self.memory.slice_mut(self.base + u64::from(offset), octets)
    }

    fn has(&self, address: u64) -> bool {
        self.memory.slice(address, 1).is_some()
    }
}

/// A host's memory with other cards beside it.
#[derive(Debug)]
pub struct WithPeers<'a, M> {
    /// The host's memory: addresses of no card.
    pub host: &'a mut M,
    /// The cards. The first one that has an address answers.
    pub cards: &'a mut [PeerCard],
}

impl<M: HostMemory> HostMemory for WithPeers<'_, M> {
    fn read(&mut self, address: u64, data: &mut [u8]) -> Result<(), Unmapped> {
        let Some(card) = self.cards.iter_mut().find(|card| card.has(address)) else {
            return self.host.read(address, data);
        };
        card.memory.read(address, data)?;
        card.read_octets += data.len() as u64;
        Ok(())
    }

    fn write(&mut self, address: u64, data: &[u8]) -> Result<(), Unmapped> {
        let Some(card) = self.cards.iter_mut().find(|card| card.has(address)) else {
            return self.host.write(address, data);
        };
        card.memory.write(address, data)?;
        card.written_octets += data.len() as u64;
        Ok(())
    }

    fn copy_from(&mut self, address: u64, data: &mut [u8]) -> Result<(), Unmapped> {
        self.host.copy_from(address, data)
    }

    fn copy_to(&mut self, address: u64, data: &[u8]) -> Result<(), Unmapped> {
        self.host.copy_to(address, data)
    }
}

impl<M: CrossMemory> CrossMemory for WithPeers<'_, M> {
    fn attach(&mut self, address: u32, octets: u32, reach: Reach) -> Result<Descriptor, Unmapped> {
        self.host.attach(address, octets, reach)
    }

    fn detach(&mut self, descriptor: Descriptor) {
        self.host.detach(descriptor);
    }

    fn copy_in(&mut self, address: u32, data: &mut [u8]) -> Result<(), Unmapped> {
        self.host.copy_in(address, data)
    }

    fn copy_out(&mut self, address: u32, data: &[u8]) -> Result<(), Unmapped> {
        self.host.copy_out(address, data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_leads_to_one_card_or_to_the_host_and_never_across_a_border() {
        let mut host = Flat::new(0, 64);
        let mut cards = [PeerCard::new(0x1000, 16), PeerCard::new(0x2000, 16)];
        let mut bus = WithPeers { host: &mut host, cards: &mut cards };
        bus.write(0x1008, &[1; 8]).unwrap();
        bus.write(0x2000, &[2; 16]).unwrap();
        bus.write(0, &[3; 64]).unwrap();
        for (address, octets) in [(0x1009, 8), (0x100f, 2), (0x1010, 1), (0x1fff, 2), (60, 8)] {
            let data = vec![9; octets];
            assert_eq!(bus.write(address, &data), Err(Unmapped { address }), "{address:#x}");
        }
        assert_eq!(cards[0].own(0, 16).unwrap(), [[0; 8], [1; 8]].concat());
        assert_eq!((cards[0].written_octets, cards[1].written_octets), (8, 16));
        assert_eq!(host.slice(0, 64).unwrap(), [3; 64]);
    }
}
