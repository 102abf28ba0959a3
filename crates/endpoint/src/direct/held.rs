//! Messages and loans of a direct circuit in hands that have no lifetimes: for bindings to other languages, as
//! [`crate::held`].

use super::memory::{Ours, Theirs};
use super::receiver::{Message, Receiver};
use super::sender::{Loan, Sender};

impl Message<'_> {
    /// Keeps the message's blocks beyond this borrow of its receiver: its octets stay where they are. Gives the first
    /// block; `None` where the message came inside its line, and is gone with this.
    #[inline]
    pub fn into_block(self) -> Option<u32> {
        let block = self.shared_block();
        if block.is_some() {
            // Dropped, it would give its blocks back.
            std::mem::forget(self);
        }
        block
    }
}

impl Receiver {
    /// The sender's memory, which stays mapped for as long as whoever shows its octets has this.
    pub fn keep_mapped(&self) -> Theirs {
        self.memory()
    }

    /// Gives the blocks of a message that was kept back to the sender. What the sender did not send it counts, and
    /// ignores.
    #[inline]
    pub fn release_block(&mut self, first: u32, octets: usize) {
        self.give_back(first, octets);
    }
}

impl Loan<'_> {
    /// Keeps the blocks beyond this borrow of the sender. Gives their number, for [`Sender::loan_again`]: no two loans
    /// of a sender have the same.
    #[inline]
    pub fn into_number(self) -> u32 {
        let first = self.first_block();
        // Dropped, it would give them back.
        std::mem::forget(self);
        first
    }
}

impl Sender {
    /// This side's memory, which stays mapped for as long as whoever shows its octets has this.
    pub fn keep_mapped(&self) -> Ours {
        self.memory()
    }

    /// The loan of this number that was kept; `None` if it was sent or given back.
    #[inline]
    pub fn loan_again(&mut self, number: u32) -> Option<Loan<'_>> {
        self.kept_loan(number)
    }
}

#[cfg(test)]
mod tests {
    use crate::client::SendError;
    use crate::direct::{Direct, DirectConfig, DirectGeometry};

    fn pair() -> (Direct, Direct) {
        let geometry = DirectGeometry { ring: 16, returns: 16, blocks: 4, block_octets: 192 };
        Direct::pair(&DirectConfig { geometry, ..DirectConfig::default() }).unwrap()
    }

    #[test]
    fn kept_messages_keep_their_blocks_until_they_are_released_in_any_order() {
        let (mut here, mut there) = pair();
        (0..4u8).for_each(|n| here.sender.send_copy(&[n; 100]).unwrap());
        assert!(here.sender.loan(100).is_none());
        let mut kept: Vec<_> =
            (0..4).map(|_| there.receiver.try_receive().unwrap().into_block().expect("in a block")).collect();
        assert!(there.receiver.try_receive().is_none() && here.sender.loan(100).is_none());
        for n in [2, 0, 1, 0] {
            there.receiver.release_block(kept.remove(n), 100);
        }
        assert!(there.receiver.try_receive().is_none());
        assert_eq!((here.sender.away_blocks(), here.sender.forged_returns()), (0, 0));
        here.sender.send_copy(b"short").unwrap();
        assert_eq!(there.receiver.try_receive().unwrap().into_block(), None);
    }

    #[test]
    fn a_kept_loan_is_sent_once_or_given_back_once() {
        let (mut here, mut there) = pair();
        let mut loan = here.sender.loan(100).unwrap();
        loan[..100].fill(7);
        let (one, other) = (loan.into_number(), here.sender.loan(300).unwrap().into_number());
        assert_eq!(here.sender.loan_again(one).unwrap().send(100).map_err(|(e, _)| e), Ok(()));
        assert!(here.sender.loan_again(one).is_none() && here.sender.loan_again(4).is_none());
        let refused = here.sender.loan_again(other).unwrap().send(1000).map_err(|(e, _)| e);
        assert_eq!(refused, Err(SendError::TooLong { octets: 1000, buffer_octets: 384 }));
        assert!(here.sender.loan_again(other).is_none(), "it went back");
        assert_eq!(there.receiver.receive(None).unwrap().unwrap().to_vec(), [7; 100]);
    }
}
