//! Receiving by callback: U-Net's upcall (Kazantzidis, 1997).

use crate::ChannelId;
use crate::client::{Endpoint, Error};
use std::ops::ControlFlow;
use std::time::Duration;

impl Endpoint {
    /// Hands each SDU that arrives to `f`, with its channel, until `f` says [`ControlFlow::Break`] or nothing has come
    /// for `patience`. Gives how many there were. The buffer is the host's again when `f` returns.
    ///
    /// # Errors
    /// The service has gone.
    pub fn receive_each(
        &mut self,
        patience: Option<Duration>,
        mut f: impl FnMut(ChannelId, &[u8]) -> ControlFlow<()>,
    ) -> Result<u64, Error> {
        let mut n = 0;
        while self.has_come(patience)?
            && let Some(sdu) = self.try_receive()
        {
            n += 1;
            if f(sdu.channel(), &sdu).is_break() {
                break;
            }
        }
        Ok(n)
    }

    /// The same for what has arrived already: never waits. For a loop of the caller's own around [`Endpoint::as_fd`].
    ///
    /// [`Endpoint::as_fd`]: std::os::fd::AsFd::as_fd
    pub fn take_each(&mut self, mut f: impl FnMut(ChannelId, &[u8])) -> u64 {
        let mut n = 0;
        while let Some(sdu) = self.try_receive() {
            n += 1;
            f(sdu.channel(), &sdu);
        }
        n
    }
}
