//! The board's buffer memory, and who holds each block of it.

/// Octets of a block: more than a PDU of IP over ATM with its default MTU.
pub const BLOCK_OCTETS: usize = 16 << 10;
/// Where a received PDU's data begin in its block.
pub const DATA_AT: usize = 256;
/// Blocks that a board has at most.
pub(super) const BLOCK_TABLE: u16 = 256;

/// Who may touch a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holder {
    /// The board: it is on a list, or in use.
    Board,
    /// The host, which composes a PDU in it.
    Sender,
    /// The host, which has received it.
    Receiver,
}

#[derive(Debug)]
pub(super) struct Blocks {
    memory: Box<[u8]>,
    holders: Box<[Holder]>,
    /// The first so many are to send from.
    to_send_from: u16,
}

impl Blocks {
    pub(super) fn new(blocks: u16, to_send_from: u16) -> Self {
        let count = usize::from(blocks);
        let memory = vec![0; count * BLOCK_OCTETS].into();
        Blocks { memory, holders: vec![Holder::Board; count].into(), to_send_from }
    }

    pub(super) fn holder(&self, block: u16) -> Option<Holder> {
        self.holders.get(usize::from(block)).copied()
    }

    pub(super) fn set(&mut self, block: u16, holder: Holder) {
        debug_assert!(holder == Holder::Board || (block < self.to_send_from) == (holder == Holder::Sender));
        if let Some(place) = self.holders.get_mut(usize::from(block)) {
            *place = holder;
        }
    }

    /// Part of a block that the host holds as this.
    pub(super) fn held(&mut self, block: u32, as_this: Holder, at: usize, octets: usize) -> Option<&mut [u8]> {
        let number = u16::try_from(block).ok().filter(|number| self.holder(*number) == Some(as_this))?;
        let end = at.checked_add(octets).filter(|end| *end <= BLOCK_OCTETS)?;
        let begins = usize::from(number) * BLOCK_OCTETS;
        self.memory.get_mut(begins + at..begins + end)
    }

    pub(super) fn octets(&self, block: u16, at: usize, octets: usize) -> &[u8] {
        let begins = usize::from(block) * BLOCK_OCTETS + at;
        &self.memory[begins..begins + octets]
    }

    pub(super) fn octets_mut(&mut self, block: u16, at: usize, octets: usize) -> &mut [u8] {
        let begins = usize::from(block) * BLOCK_OCTETS + at;
        &mut self.memory[begins..begins + octets]
    }
}
