//! What carries messages between the two processes, each with the same four loops: ping, pong, flood, drain. Whoever sends
//! writes every octet, whoever receives adds every octet up, unless a pipe says otherwise.

use anyhow::{Result, bail};
use endpoint::SendError;
use endpoint::direct::{Direct, Message, Spin};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::hint::{black_box, spin_loop};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Messages between two bells in a flood.
const BELL_EVERY: usize = 32;
/// Nobody answers for so long: the other process is gone.
const PATIENCE: Duration = Duration::from_secs(20);

/// One way to the other process.
pub(super) trait Pipe: Send {
    /// Sends a message full of `value`.
    fn send(&mut self, octets: usize, value: u8) -> Result<()>;
    /// Receives one; gives the sum of its words.
    fn receive(&mut self, octets: usize) -> Result<u64>;
    /// Sends without waking anybody.
    fn post(&mut self, octets: usize, value: u8) -> Result<()> {
        self.send(octets, value)
    }
    /// Wakes who was not woken.
    fn flush(&mut self) {}

    /// Round trips; gives how long each batch took.
    fn ping(&mut self, octets: usize, batch: usize, batches: usize) -> Result<Vec<Duration>> {
        let mut times = Vec::with_capacity(batches);
        for _ in 0..batches {
            let begin = Instant::now();
            for i in 0..batch {
                self.send(octets, i as u8)?;
                black_box(self.receive(octets)?);
            }
            times.push(begin.elapsed());
        }
        Ok(times)
    }

    /// The other side of `ping`.
    fn pong(&mut self, octets: usize, count: usize) -> Result<()> {
        for i in 0..count {
            black_box(self.receive(octets)?);
            self.send(octets, i as u8)?;
        }
        Ok(())
    }

    /// Sends as fast as it goes.
    fn flood(&mut self, octets: usize, count: usize) -> Result<()> {
        for i in 0..count {
            self.post(octets, i as u8)?;
            if i % BELL_EVERY == 0 {
                self.flush();
            }
        }
        self.flush();
        Ok(())
    }

    /// The other side of `flood`; gives how long each batch took.
    fn drain(&mut self, octets: usize, batch: usize, batches: usize) -> Result<Vec<Duration>> {
        let mut times = Vec::with_capacity(batches);
        let mut begin = Instant::now();
        for _ in 0..batches {
            for _ in 0..batch {
                black_box(self.receive(octets)?);
            }
            let now = Instant::now();
            times.push(now - begin);
            begin = now;
        }
        Ok(times)
    }
}

/// How a direct circuit waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Wait {
    /// The application looks again and again.
    Polling,
    /// The library's default: looks a while, then sleeps.
    SpinThenBlock,
    /// Sleeps at once.
    Blocking,
}

/// A direct circuit.
pub(super) struct DirectPipe {
    pub(super) direct: Direct,
    pub(super) wait: Wait,
    /// Whether octets are written and read.
    pub(super) touch: bool,
}

impl DirectPipe {
    pub(super) fn new(mut direct: Direct, wait: Wait, touch: bool) -> Self {
        let spin = if wait == Wait::Blocking { Spin::none() } else { Spin::default() };
        direct.receiver.set_spin(spin);
        DirectPipe { direct, wait, touch }
    }
}

#[inline]
fn sum(message: &Message<'_>, touch: bool) -> u64 {
    if !touch {
        return message.len() as u64;
    }
    match message.private() {
        Some(octets) => sum_octets(octets),
        None => {
            let words = message.shared_words().unwrap_or_default();
            let (fours, rest) = words.as_chunks::<4>();
            let mut sums = [0u64; 4];
            for four in fours {
                for (sum, word) in sums.iter_mut().zip(four) {
                    *sum = sum.wrapping_add(word.load(Ordering::Relaxed));
                }
            }
            let rest = rest.iter().fold(0u64, |s, w| s.wrapping_add(w.load(Ordering::Relaxed)));
            sums.into_iter().fold(rest, u64::wrapping_add)
        }
    }
}

#[inline]
pub(super) fn sum_octets(octets: &[u8]) -> u64 {
    let (words, rest) = octets.as_chunks::<8>();
    let sum = words.iter().fold(0u64, |s, w| s.wrapping_add(u64::from_ne_bytes(*w)));
    rest.iter().fold(sum, |s, b| s.wrapping_add(u64::from(*b)))
}

impl Pipe for DirectPipe {
    #[inline]
    fn send(&mut self, octets: usize, value: u8) -> Result<()> {
        self.post(octets, value)?;
        self.direct.sender.ring_bell();
        Ok(())
    }

    #[inline]
    fn post(&mut self, octets: usize, value: u8) -> Result<()> {
        let (wait, touch) = (self.wait, self.touch);
        let sender = &mut self.direct.sender;
        if octets <= endpoint::direct::layout::INLINE_OCTETS {
            let message = [value; endpoint::direct::layout::INLINE_OCTETS];
            while let Err(e) = sender.post_copy(&message[..octets]) {
                match e {
                    SendError::Full if wait == Wait::Polling => spin_loop(),
                    SendError::Full => drop(sender.wait_room(octets, Some(PATIENCE))?),
                    e => bail!(e),
                }
            }
            return Ok(());
        }
        loop {
            if sender.room() > 0
                && let Some(mut loan) = sender.loan(octets)
            {
                if touch {
                    loan[..octets].fill(value);
                }
                return loan.post(octets).map_err(|(e, _)| e.into());
            }
            if wait == Wait::Polling {
                spin_loop();
            } else {
                sender.wait_room(octets, Some(PATIENCE))?;
            }
        }
    }

    fn flush(&mut self) {
        self.direct.sender.ring_bell();
    }

    #[inline]
    fn receive(&mut self, _: usize) -> Result<u64> {
        if self.wait != Wait::Polling {
            return match self.direct.receiver.receive(Some(PATIENCE))? {
                Some(message) => Ok(sum(&message, self.touch)),
                None => bail!("no message in {PATIENCE:?}"),
            };
        }
        let mut looks = 0u64;
        loop {
            if let Some(message) = self.direct.receiver.try_receive() {
                return Ok(sum(&message, self.touch));
            }
            looks += 1;
            if looks.is_multiple_of(1 << 20) {
                self.direct.receiver.alive()?;
            }
            spin_loop();
        }
    }
}

/// Sockets and pipes, which block or are looked at again and again.
pub(super) struct FdPipe {
    out: OwnedFd,
    into: OwnedFd,
    buffer: Vec<u8>,
    received: Vec<u8>,
}

impl FdPipe {
    pub(super) fn new(out: OwnedFd, into: OwnedFd, blocking: bool) -> Result<Self> {
        for fd in [&out, &into] {
            rustix::io::ioctl_fionbio(fd, !blocking)?;
        }
        Ok(FdPipe { out, into, buffer: vec![0; 65_536], received: vec![0; 65_536] })
    }
}

impl Pipe for FdPipe {
    fn send(&mut self, octets: usize, value: u8) -> Result<()> {
        let message = &mut self.buffer[..octets];
        message.fill(value);
        let mut sent = 0;
        while sent < octets {
            match rustix::io::write(&self.out, &message[sent..]) {
                Ok(n) => sent += n,
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::INTR) => spin_loop(),
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }

    fn receive(&mut self, octets: usize) -> Result<u64> {
        let mut received = 0;
        while received < octets {
            match rustix::io::read(&self.into, &mut self.received[received..octets]) {
                Ok(0) => bail!("the other process has gone"),
                Ok(n) => received += n,
                Err(Errno::AGAIN | Errno::INTR) => spin_loop(),
                Err(e) => return Err(e.into()),
            }
        }
        Ok(sum_octets(&self.received[..octets]))
    }
}
