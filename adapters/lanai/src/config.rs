//! What an interface has, what its program takes, and which mechanisms are on.

use core::time::Duration;

/// How a group's messages travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MulticastBy {
    /// From member to member; each stores the packet before it passes it on. The sender is a member.
    #[default]
    Cycle,
    /// One packet to each member, from one copy in the sender's SRAM.
    Repetition,
}

/// What the control program's processor takes when it has the bus for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Costs {
    /// To take a part of a message from a queue.
    pub take: Duration,
    /// To prepare a transfer by the host's engine.
    pub prepare: Duration,
    /// To start the send engine.
    pub start: Duration,
    /// To look at a packet that has come.
    pub receive: Duration,
    /// To tell the host.
    pub tell: Duration,
}

/// Mechanisms that can be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Switches {
    /// Messages of up to [`Config::immediate`] octets may be written into the SRAM by the host.
    pub immediate: bool,
    /// The host's engine moves contiguous memory (the copy block) in one transfer; else one for each page.
    pub copy_block: bool,
    /// With no buffer free the link is stopped; else what comes is dropped.
    pub stop_link: bool,
    /// See there.
    pub multicast: MulticastBy,
}

/// An interface's properties.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Config {
    /// Octets of the SRAM.
    pub sram: usize,
    /// Of those, what program and queues take.
    pub reserved: usize,
    /// Octets of a buffer: the longest part of a message.
    pub buffer: usize,
    /// Longest message that the host may write into the SRAM.
    pub immediate: usize,
    /// Longest message.
    pub message: usize,
    /// Descriptors of each queue.
    pub queue: usize,
    /// Octets of a page of the host's memory.
    pub page: u64,
    /// Megabytes (10^6) a second that the SRAM's bus, the link, and the host's bus carry.
    pub sram_mb_s: f64,
    /// See there.
    pub link_mb_s: f64,
    /// See there.
    pub host_mb_s: f64,
    /// See there.
    pub costs: Costs,
    /// See there.
    pub switches: Switches,
}

impl Default for Config {
    fn default() -> Self {
        let us = |tenths: u64| Duration::from_nanos(100 * tenths);
        Config {
            sram: 128 * 1024,
            reserved: 40 * 1024,
            buffer: 8192,
            immediate: 1024,
            message: 65_536,
            queue: 16,
            page: 4096,
            // 20 MHz, an access of four octets each half clock.
            sram_mb_s: 160.0,
            link_mb_s: 80.0,
            host_mb_s: 60.0,
            costs: Costs { take: us(30), prepare: us(15), start: us(15), receive: us(30), tell: us(15) },
            switches: Switches { immediate: true, copy_block: true, stop_link: true, multicast: MulticastBy::Cycle },
        }
    }
}

impl Config {
    /// Buffers that the SRAM has room for: half for sending, half for receiving, one of each at least.
    pub fn buffers(&self) -> usize {
        let octets = self.buffer + crate::packet::packet_octets(crate::packet::MAX_HOPS, 64);
        (self.sram.saturating_sub(self.reserved) / octets.max(1) / 2).max(1)
    }

    /// How long the host's engine takes for so many octets in so many transfers, while so many engines of the link are busy.
    pub(super) fn host_transfer(&self, octets: usize, link_engines: usize) -> Duration {
        let left = (self.sram_mb_s - self.link_mb_s * link_engines as f64).max(self.sram_mb_s * 0.05);
        Duration::from_nanos((octets as f64 * 1e3 / self.host_mb_s.min(left)) as u64)
    }

    /// How long the processor takes for work while the engines take their share of the bus.
    pub(super) fn stretched(&self, work: Duration, link_engines: usize, host_engine: bool) -> Duration {
        let taken = self.link_mb_s * link_engines as f64 + if host_engine { self.host_mb_s } else { 0.0 };
        let left = (1.0 - taken / self.sram_mb_s).max(0.1);
        Duration::from_nanos((work.as_nanos() as f64 / left) as u64)
    }
}
