//! Windows as a sender and as a receiver use them: SDUs leave from protected pages, and arrive in pages that are mapped, one by one or in
//! batches.

use anyhow::{Result, bail, ensure};
use endpoint::window::{PAGE, Window};
use endpoint::{ChannelId, Endpoint, SendError};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Places of SDUs in a window, used in turn.
const PLACES: usize = 64;
/// SDUs that are sent, or mapped, together.
pub(super) const BATCH: usize = 16;

/// A window and whose turn it is.
#[derive(Debug)]
pub(super) struct Side {
    window: Window,
    octets: usize,
    /// Octets of a place: whole pages.
    place: usize,
    batch: usize,
    next: usize,
    /// Places that frames have not been posted for.
    unposted: usize,
    /// SDUs that have been mapped and not read.
    unread: Vec<usize>,
}

impl Side {
    /// A window for SDUs of `octets` octets, with as much again as it holds for copies and for what comes, three times.
    pub(super) fn new(endpoint: &mut Endpoint, octets: usize, batch: usize) -> Result<Self> {
        let place = octets.next_multiple_of(PAGE);
        let window = endpoint.window(PLACES * place, 3 * PLACES * place)?;
        if let Some(why) = window.why_not() {
            bail!("windows cannot be measured: {why}");
        }
        Ok(Side { window, octets, place, batch, next: 0, unposted: PLACES, unread: Vec::with_capacity(BATCH) })
    }

    fn take_place(&mut self) -> usize {
        let at = self.next * self.place;
        self.next = (self.next + 1) % PLACES;
        at
    }

    /// Writes a batch of SDUs and sends it: how many were sent. `Full`: wait.
    pub(super) fn send(&mut self, endpoint: &mut Endpoint, channel: ChannelId, n: u64) -> Result<u64, SendError> {
        // A place whose SDU is leaving would be copied when it is written.
        if self.window.leaving() + self.batch > PLACES || endpoint.send_space() < self.batch {
            return Err(SendError::Full);
        }
        let mut sdus = [(0, 0); BATCH];
        for sdu in &mut sdus[..self.batch] {
            *sdu = (self.take_place(), self.octets);
            self.window.fill(sdu.0, self.octets, n as u8);
        }
        endpoint.send_windows(channel, &self.window, &sdus[..self.batch]).map(|sent| sent as u64)
    }

    /// Gives frames for all places that have none.
    pub(super) fn post(&mut self, endpoint: &mut Endpoint) -> Result<()> {
        while self.unposted > 0 {
            match endpoint.post_window(&self.window, self.octets, 0) {
                Ok(()) => self.unposted -= 1,
                Err(SendError::Full) if self.unposted < PLACES => break,
                Err(e) => bail!(e),
            }
        }
        Ok(())
    }

    /// Receives what is there, a batch at most; waits for the first. Gives how many SDUs were received, and a sum of their octets.
    pub(super) fn receive(&mut self, endpoint: &mut Endpoint, wait: Duration) -> Result<(u64, u64)> {
        let mut patience = Some(wait);
        let mut copied = false;
        let window = &self.window;
        {
            let _together = (self.batch > 1).then(|| window.batch());
            while self.unread.len() < self.batch {
                let Some(sdu) = endpoint.receive(patience)? else { break };
                ensure!(sdu.len() == self.octets, "{} octets arrived where {} were sent", sdu.len(), self.octets);
                let at = self.next * self.place;
                self.next = (self.next + 1) % PLACES;
                let Some(given) = sdu.into_window(window, 0, at) else { bail!("an SDU lies outside its window") };
                copied |= given.octets != self.octets;
                self.unread.push(at);
                patience = Some(Duration::ZERO);
            }
        }
        ensure!(!copied && window.failures() == 0, "an SDU was not given to its window");
        let (words, octets) = (window.words(), window.octets());
        let mut sum = 0u64;
        for at in &self.unread {
            let (end, whole) = (at + self.octets, (at + self.octets) / 8);
            let load = |sum: u64, word: &AtomicU64| sum.wrapping_add(word.load(Ordering::Relaxed));
            sum = words[at / 8..whole].iter().fold(sum, load);
            let rest = octets[whole * 8..end].iter().map(|octet| u64::from(octet.load(Ordering::Relaxed)));
            sum = sum.wrapping_add(rest.sum());
        }
        let received = self.unread.len();
        self.unread.clear();
        self.unposted += received;
        self.post(endpoint)?;
        Ok((received as u64, black_box(sum)))
    }
}
