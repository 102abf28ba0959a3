//! The SDUs of an interface's two channels, by an endpoint whose application is the thread of calls: rings of a fixed
//! size in memory that it shares with the engine's thread. What does not fit is dropped by the host interface, and
//! counted there.

use super::call_controller::Channel;
use endpoint::layout::{
    ANY_NEWS, CLIENT_SLEEPS, Descriptor, Geometry, HOST_RESTS, HOST_SLEEPS, Head, INLINE_OCTETS, NEWS_OF_SDUS,
};
use endpoint::segment::Segment;
use endpoint::{DataPath, Events, Local};
use host::{Bell, Doorbell, HostEndpoint};
use rustix::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::task::Waker;

/// The longest SDU: an SSCOP PDU.
pub const MAX_SDU_OCTETS: usize = wire::sscop::MAX_OCTETS;
/// Half for sending, half for receiving.
const BUFFERS: u32 = 256;
const GEOMETRY: Geometry = Geometry {
    send_ring: 256,
    receive_ring: 256,
    free_ring: 128,
    buffers: BUFFERS,
    buffer_octets: MAX_SDU_OCTETS.next_multiple_of(64) as u32,
};

/// The application's side.
pub struct Channels {
    local: Local,
    doorbell: OwnedFd,
    /// Buffers free for sending.
    idle: Vec<u32>,
    /// Descriptors that the host has given back, ever (wraps).
    completed: u32,
    /// The endpoint's channels, in the order of [`Channel::ALL`].
    numbers: [u32; 2],
}

/// The host's side, to be given to the engine.
pub struct HostSide {
    /// The endpoint.
    pub endpoint: HostEndpoint,
    /// By which it is woken.
    pub doorbell: Doorbell,
}

/// A pair at a station; `waker` wakes the thread of calls, and never waits.
///
/// # Errors
/// The system has no memory or no descriptor for it.
pub fn pair(engine: &host::engine::EngineHandle, station: &str, waker: Waker) -> anyhow::Result<(Channels, HostSide)> {
    let segment = Arc::new(Segment::anonymous(GEOMETRY)?);
    let mut local = Local::new(&segment);
    let (doorbell, bell) = engine.doorbell(station)?;
    for buffer in BUFFERS / 2..BUFFERS {
        local.free.push(Head::of_buffer(buffer));
    }
    let endpoint = HostEndpoint::new(segment, Events::Interrupt, DataPath::Shared, Some(Bell::of_thread(waker)));
    let idle = (0..BUFFERS / 2).collect();
    let channels = Channels { local, doorbell: bell, idle, completed: 0, numbers: [0, 1] };
    Ok((channels, HostSide { endpoint, doorbell }))
}

impl Channels {
    /// What the engine has opened.
    pub fn set_numbers(&mut self, numbers: [u32; 2]) {
        self.numbers = numbers;
    }

    /// The next SDU that has come, into `sdu`, and on which channel.
    pub fn receive(&mut self, sdu: &mut Vec<u8>) -> Option<Channel> {
        loop {
            let d = self.local.receive.pop()?;
            let octets = (d.head.octets as usize).min(MAX_SDU_OCTETS);
            sdu.clear();
            sdu.resize(octets, 0);
            if d.head.buffer == Descriptor::INLINE {
                let octets = octets.min(INLINE_OCTETS);
                sdu.truncate(octets);
                sdu.copy_from_slice(&d.inline[..octets]);
            } else {
                let Some(at) = GEOMETRY.buffer_at(d.head.buffer) else { continue };
                self.local.segment.copy_out(at, sdu);
                self.local.free.push(Head::of_buffer(d.head.buffer));
            }
            if let Some(at) = self.numbers.iter().position(|number| *number == d.head.channel) {
                return Some(Channel::ALL[at]);
            }
        }
    }

    /// What a slot says is overwritten by the descriptor that is pushed there next: it is read before that, or a buffer
    /// would be filled again that is still to be sent.
    fn reclaim(&mut self) {
        let consumed = self.local.send.consumed();
        while self.completed != consumed {
            let (_, buffer) = self.local.send.given_back(self.completed);
            self.completed = self.completed.wrapping_add(1);
            if buffer < BUFFERS {
                self.idle.push(buffer);
            }
        }
    }

    /// Whether an SDU can be sent.
    pub fn has_room(&mut self) -> bool {
        let pushed = |local: &Local, completed: u32| local.send.pushed().wrapping_sub(completed);
        if self.idle.is_empty() || pushed(&self.local, self.completed) >= GEOMETRY.send_ring {
            self.reclaim();
        }
        !self.idle.is_empty() && pushed(&self.local, self.completed) < GEOMETRY.send_ring
    }

    /// Sends an SDU; there must be room, and it is not longer than a buffer.
    pub fn send(&mut self, channel: Channel, sdu: &[u8]) {
        let mut d = Descriptor::from(Head::of_buffer(Descriptor::INLINE));
        d.head.channel = self.numbers[usize::from(channel == Channel::Ilmi)];
        d.head.octets = sdu.len() as u32;
        if sdu.len() <= INLINE_OCTETS {
            d.inline[..sdu.len()].copy_from_slice(sdu);
        } else {
            let Some(buffer) = self.idle.pop() else { return };
            let Some(at) = GEOMETRY.buffer_at(buffer).filter(|_| sdu.len() <= MAX_SDU_OCTETS) else { return };
            self.local.segment.copy_in(at, sdu);
            d.head.buffer = buffer;
        }
        if self.local.send.push(d) {
            self.ring_if(HOST_SLEEPS);
        }
    }

    /// Rings for the host if it has said so in a word of the segment. What was done for it must be visible before that
    /// is read.
    fn ring_if(&self, word: usize) {
        fence(Ordering::SeqCst);
        let flag = self.local.segment.word32(word);
        if flag.load(Ordering::Relaxed) != 0 && flag.swap(0, Ordering::AcqRel) != 0 {
            let _ = rustix::io::write(&self.doorbell, &1u64.to_ne_bytes());
        }
    }

    /// Asks for a wake-up. False if something has come already.
    pub fn arm(&mut self) -> bool {
        // The host may wait until what it had delivered was taken.
        self.ring_if(HOST_RESTS);
        let wanted = if self.has_room() { NEWS_OF_SDUS } else { ANY_NEWS };
        self.local.segment.word32(CLIENT_SLEEPS).store(wanted, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.local.receive.waiting() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use endpoint::ring::{Consumer, Which};
    use std::collections::VecDeque;

    #[test]
    fn each_sdu_is_read_as_it_was_sent_however_many_short_ones_go_between_long_ones() {
        let segment = Arc::new(Segment::anonymous(GEOMETRY).unwrap());
        let mut host = Consumer::new(&segment, Which::Send);
        let doorbell = rustix::event::eventfd(0, rustix::event::EventfdFlags::empty()).unwrap();
        let idle = (0..BUFFERS / 2).collect();
        let local = Local::new(&segment);
        let mut channels = Channels { local, doorbell, idle, completed: 0, numbers: [0, 1] };
        let (mut sent, mut random) = (VecDeque::new(), 1u64);
        let mut roll = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        let mut read = 0;
        for step in 0..20_000u32 {
            let many = roll(300);
            for _ in 0..many {
                if !channels.has_room() {
                    break;
                }
                // One of three needs a buffer.
                let octets = if roll(3) == 0 { 200 } else { 20 };
                let sdu: Vec<u8> =
                    (0..octets).map(|i: u32| (i.wrapping_mul(7) + step + sent.len() as u32) as u8).collect();
                channels.send(Channel::Signalling, &sdu);
                sent.push_back(sdu);
            }
            for _ in 0..roll(300) {
                let Some(d) = host.peek() else { break };
                let wanted = sent.pop_front().expect("nothing comes that was not sent");
                let mut got = vec![0; d.head.octets as usize];
                match d.head.buffer {
                    Descriptor::INLINE => got.copy_from_slice(&d.inline[..d.head.octets as usize]),
                    buffer => segment.copy_out(GEOMETRY.buffer_at(buffer).unwrap(), &mut got),
                }
                assert_eq!(got, wanted, "SDU {read}");
                host.advance();
                read += 1;
            }
            if read > 100_000 {
                break;
            }
        }
        assert!(read > 50_000, "{read} SDUs");
    }
}
