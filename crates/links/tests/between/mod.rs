//! What is between two ends of a link: datagrams that are lost, repeated and overtaken, or a connection's octets in pieces.

use links::cells;
use links::udp::{Codec, Form};
use net::{LinkId, Network, NodeIo};
use rand::rngs::StdRng;
use rand::{Rng, RngCore, SeedableRng};
use std::collections::VecDeque;
use std::time::Duration;
use wire::Time;
use wire::cell::PayloadType;
use wire::udp::{Batch, MAX_OCTETS};

/// See the module's head.
pub trait Between {
    /// Takes what each end sends, and gives each what comes.
    fn carry(&mut self, ends: [(&mut Network, LinkId); 2], now: Time);

    /// What went wrong with it.
    fn troubles(&self) -> String {
        String::new()
    }
}

/// A UDP link's datagrams. Shares of them are lost, come twice, or come later than others.
pub struct Datagrams {
    pub codecs: [Codec; 2],
    /// To each end: what arrives when.
    on_the_way: [Vec<(Time, Vec<u8>)>; 2],
    pub loss: f64,
    /// Loss of those datagrams that carry nothing but credit.
    pub credit_loss: f64,
    twice: f64,
    late: f64,
    /// How much later twice at most, microseconds.
    pub late_us: u64,
    random: StdRng,
}

impl Datagrams {
    pub fn new(seed: u64, loss: f64, twice: f64, late: f64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let codecs = [(); 2].map(|()| Codec::starting_at(Form::Batch, random.next_u32()));
        Datagrams {
            codecs,
            on_the_way: [Vec::new(), Vec::new()],
            loss,
            credit_loss: loss,
            twice,
            late,
            late_us: 400,
            random,
        }
    }

    /// What one end's link has to send goes on its way, in datagrams.
    fn take(&mut self, n: usize, io: &mut NodeIo<'_>, now: Time) {
        let (codec, to_other) = (&mut self.codecs[n], &mut self.on_the_way[1 - n]);
        let mut datagram = [0; MAX_OCTETS];
        while let Some((octets, cells)) = codec.transmit(io, &mut datagram) {
            codec.transmitted(cells, io);
            let datagram = &datagram[..octets];
            let mut at = now + Duration::from_micros(100);
            for chance in [self.late, self.late / 2.0] {
                if self.random.random_bool(chance) {
                    at += Duration::from_micros(self.random.random_range(1..self.late_us));
                }
            }
            let loss = if is_credit_only(datagram) { self.credit_loss } else { self.loss };
            if !self.random.random_bool(loss) {
                to_other.push((at, datagram.to_vec()));
            }
            if self.random.random_bool(self.twice) {
                to_other.push((at + Duration::from_micros(700), datagram.to_vec()));
            }
        }
    }

    /// What has arrived goes to one end's link as far as there is room, as a socket is read.
    fn give(&mut self, n: usize, io: &mut NodeIo<'_>, now: Time) {
        let (codec, arriving) = (&mut self.codecs[n], &mut self.on_the_way[n]);
        // In the order of their arrival; of equal times, of their departure.
        arriving.sort_by_key(|(at, _)| *at);
        let due = arriving.partition_point(|(at, _)| *at <= now);
        let mut given = 0;
        while given < due && codec.release(io) {
            codec.receive(&arriving[given].1, io);
            given += 1;
        }
        arriving.drain(..given);
        if given == due {
            codec.handle_timeout(io);
        }
    }
}

fn is_credit_only(datagram: &[u8]) -> bool {
    Batch::new_checked(datagram)
        .is_ok_and(|batch| batch.cells().all(|cell| cell.header().payload_type == PayloadType::ResourceManagement))
}

impl Between for Datagrams {
    fn troubles(&self) -> String {
        let of = |codec: &Codec| [codec.lost_datagrams(), codec.late_datagrams(), codec.repeated_datagrams()];
        format!("lost, late, twice {:?}", self.codecs.each_ref().map(of))
    }

    fn carry(&mut self, mut ends: [(&mut Network, LinkId); 2], now: Time) {
        for (n, (network, link)) in ends.iter_mut().enumerate() {
            network.external(*link, now, |io| self.take(n, io, now)).unwrap();
        }
        for (n, (network, link)) in ends.iter_mut().enumerate() {
            network.external(*link, now, |io| self.give(n, io, now)).unwrap();
        }
    }
}

/// A TCP connection's octets, in pieces of random sizes.
pub struct Octets {
    machines: [cells::Machine; 2],
    on_the_way: [VecDeque<u8>; 2],
    random: StdRng,
}

impl Octets {
    pub fn new(seed: u64) -> Self {
        Octets { machines: Default::default(), on_the_way: Default::default(), random: StdRng::seed_from_u64(seed) }
    }
}

impl Between for Octets {
    fn carry(&mut self, ends: [(&mut Network, LinkId); 2], now: Time) {
        for (n, (network, link)) in ends.into_iter().enumerate() {
            let Octets { machines, on_the_way, random } = self;
            let give = |io: &mut NodeIo<'_>| {
                let machine = &mut machines[n];
                while machine.transmit(io) {}
                let octets = machine.poll_transmit();
                let piece = octets.len().min(random.random_range(0..20_000));
                on_the_way[1 - n].extend(&octets[..piece]);
                machine.transmitted(piece);
                let here = on_the_way[n].make_contiguous();
                let piece = here.len().min(random.random_range(0..20_000));
                let taken = machine.receive(&here[..piece], io).unwrap();
                on_the_way[n].drain(..taken);
            };
            network.external(link, now, give).unwrap();
        }
    }
}
