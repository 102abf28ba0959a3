//! ttcp by windows: PDUs leave from protected pages, and come to pages that are mapped, each place of the window in turn.

use crate::results::ttcp::TtcpWindows;
use anyhow::{Result, ensure};
use endpoint::window::{PAGE, Window};
use endpoint::{ChannelId, Endpoint, SendError};
use std::time::Duration;

/// PDUs that a window has places for.
const PLACES: usize = 32;

/// A window and whose turn it is.
#[derive(Debug)]
pub(super) struct Turns {
    window: Window,
    length: usize,
    next: usize,
    /// PDUs for which frames have not been posted.
    unposted: usize,
}

impl Turns {
    /// A window for PDUs of up to `length` octets, each place filled with ttcp's octets; a receiver's takes three times as much for what
    /// comes.
    pub(super) fn new(endpoint: &mut Endpoint, length: usize) -> Result<Self> {
        let octets = PLACES * length.next_multiple_of(PAGE);
        let window = endpoint.window(octets, 3 * octets)?;
        let sdu = cellway::ttcp::pattern(length);
        (0..PLACES).for_each(|n| window.write(n * length.next_multiple_of(PAGE), &sdu));
        Ok(Turns { window, length, next: 0, unposted: PLACES })
    }

    fn take_place(&mut self) -> usize {
        let at = self.next * self.length.next_multiple_of(PAGE);
        self.next = (self.next + 1) % PLACES;
        at
    }

    /// Sends the next place, with `sdu` in it or what it has.
    pub(super) fn send(
        &mut self,
        endpoint: &mut Endpoint,
        channel: ChannelId,
        sdu: Option<Vec<u8>>,
    ) -> Result<(), SendError> {
        let at = self.next * self.length.next_multiple_of(PAGE);
        if let Some(sdu) = sdu {
            self.window.write(at, &sdu);
        }
        endpoint.send_window(channel, &self.window, at, self.length)?;
        self.take_place();
        Ok(())
    }

    /// Gives frames for as many PDUs as there is room for, and takes the next PDU to the next place: its length, and its octets if
    /// they are `wanted`.
    pub(super) fn receive(
        &mut self,
        endpoint: &mut Endpoint,
        patience: Option<Duration>,
        wanted: bool,
    ) -> Result<Option<(usize, Option<Vec<u8>>)>> {
        while self.unposted > 0 && endpoint.post_window(&self.window, self.length, 0).is_ok() {
            self.unposted -= 1;
        }
        ensure!(self.unposted < PLACES, "there are no frames in a row for a PDU of {} octets", self.length);
        let at = self.take_place();
        let Some(sdu) = endpoint.receive(patience)? else { return Ok(None) };
        let octets = sdu.len();
        ensure!(octets <= self.length, "a PDU of {octets} octets came: give -l {octets} or more");
        // What is short comes with its descriptor, and needs no frames.
        self.unposted += usize::from(!sdu.is_inline());
        let given = sdu.into_window(&self.window, 0, at);
        ensure!(given.is_some_and(|given| given.octets == octets), "a PDU was not given to its window");
        let read = wanted.then(|| {
            let mut read = vec![0; octets];
            self.window.read(at, &mut read);
            read
        });
        Ok(Some((octets, read)))
    }

    /// What was done.
    pub(super) fn done(&self) -> TtcpWindows {
        let counts = self.window.counts();
        TtcpWindows {
            pages_protected: counts.protected,
            pages_copied: counts.copied,
            pages_mapped: counts.mapped,
            octets_copied: counts.octets_copied,
        }
    }
}
