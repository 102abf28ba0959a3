//! What the three networks of seed 002 are asked live: work of applications at hosts of one daemon, and what came of it.

/// What applications do. Hosts have numbers, as in [`crate::model::networks`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workload {
    /// Host 0 sends host 1 messages as fast as its interface takes them: [`Told::Rate`].
    Stream {
        /// Octets of a message.
        octets: usize,
    },
    /// Host 0 sends host 1 a message, and the next when its answer has come: [`Told::Mean`] of a round trip.
    Answered {
        /// Octets of a message, each way.
        octets: usize,
    },
    /// Host 0 sends host 1 bursts of 16 messages, each when the last one has come whole: [`Told::Processor`].
    Bursts {
        /// Octets of a message.
        octets: usize,
    },
    /// So many hosts stream messages of 4096 octets to host 0: [`Told::Rate`], [`Told::Least`], [`Told::Lost`].
    Senders(usize),
    /// Host 1 streams messages of 4096 octets to host 0, whose application takes 500 us for each: [`Told::Lost`].
    SlowReceiver,
    /// Host 0 streams messages of 4096 octets to hosts 1 to this one: [`Told::Least`] is what the worst of them gets.
    Group(usize),
    /// Host 0 sends host 3 a message of 1024 octets each 500 us: [`Told::Mean`] and [`Told::Most`] of its way.
    Paced {
        /// Streams of 8192 octets to host 3 meanwhile, from hosts 1, 2 and 0.
        beside: usize,
        /// By a circuit of a constant rate that asks for low latency.
        low_latency: bool,
    },
    /// A connection of the TCP in process from host 0 to host 1: [`Told::Rate`].
    Tcp {
        /// Octets of data in a segment.
        octets: usize,
    },
}

/// Which of the numbers that came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// Mbit/s that arrived, of all flows together.
    Rate,
    /// Mbit/s of the flow, or of the receiver, with the least.
    Least,
    /// Messages that never arrived, per cent.
    Lost,
    /// Microseconds from when a message was given to when its receiver, or its sender, had it or its answer: the mean.
    Mean,
    /// The longest of these.
    Most,
    /// Microseconds on a processor for a message, of all threads together.
    Processor,
}
