//! The workloads, and what each network makes of them.

use super::super::myrinet;
use crate::model::networks::{
    Apics, BUFFERS, Carried, Flow, Ground, HostCosts, Interconnect, Kind, Myrinet, Pace, Protocol, Streamed, To, Unet,
    UnetCosts, run as flows, run_and_drain, stream,
};
use crate::model::{Profile, ProfileError};
use core::time::Duration;

/// What machines' files say.
#[derive(Debug, Clone, Copy)]
pub(super) struct Made {
    pub(super) host: HostCosts,
    pub(super) unet: UnetCosts,
    pub(super) chip: apic::Config,
    pub(super) lanai: myrinet::Made,
}

/// What is under way at the end comes within this.
const DRAIN: Duration = Duration::from_millis(150);

fn micros(m: &Profile, name: &str) -> Result<Duration, ProfileError> {
    Ok(Duration::from_nanos((m.get(name)? * 1e3).round() as u64))
}

impl Made {
    pub(super) fn new([host, unet, chip, lanai]: [&Profile; 4]) -> Result<Self, ProfileError> {
        let costs = HostCosts {
            send: host.get("send_us")? * 1e-6,
            receive: host.get("receive_us")? * 1e-6,
            copy: host.get("copy_ns")? * 1e-9,
        };
        let unet = UnetCosts {
            pdu: micros(unet, "pdu_us")?,
            cell: micros(unet, "cell_us")?,
            switch: micros(unet, "switch_us")?,
            link_bits_per_s: unet.get("link_mbit_s")? * 1e6,
        };
        Ok(Made { host: costs, unet, chip: chip_of(chip)?, lanai: myrinet::Made::new(lanai)? })
    }

    fn network(&self, kind: Kind, hosts: usize, buffers: usize) -> Option<Box<dyn Interconnect>> {
        Some(match kind {
            Kind::Unet => Box::new(Unet::new(hosts, self.unet, buffers)?),
            Kind::Apic => Box::new(Apics::new(hosts, self.chip, buffers)?),
            Kind::Myrinet(multicast) => {
                let switches = lanai::Switches { multicast, ..self.lanai.lanai.switches };
                let config = lanai::Config { switches, ..self.lanai.lanai };
                Box::new(Myrinet::new(hosts, config, self.lanai.links, buffers)?)
            }
        })
    }

    /// What flows between hosts of a network become, and what `look` sees afterwards.
    fn carry<R>(
        &self,
        kind: Kind,
        [hosts, buffers]: [usize; 2],
        all: &[Flow],
        (length, consumes): (Duration, f64),
        look: impl FnOnce(&mut Ground<'_>, &[Carried]) -> R,
    ) -> Option<(Vec<Carried>, R)> {
        let mut network = self.network(kind, hosts, buffers)?;
        let mut ground = Ground::new(network.as_mut(), hosts, self.host).consuming(consumes);
        let carried = flows(&mut ground, all, length);
        let seen = look(&mut ground, &carried);
        carried.iter().all(|flow| flow.damaged == 0).then_some((carried, seen))
    }

    /// Messages one way, as ttcp sends them.
    pub(super) fn one_way(&self, kind: Kind, octets: usize, length: Duration) -> Option<OneWay> {
        let all = [Flow::stream(0, To::Host(1), octets)];
        let (carried, costs) = self.carry(kind, [2, BUFFERS], &all, (length, 0.0), |ground, carried| {
            let (taken, came) = (carried[0].taken.max(1) as f64, carried[0].came[0].max(1) as f64);
            let left = ground.left(0).max(1) as f64;
            let processor_us = (ground.worked(0) / taken + ground.worked(1) / came) * 1e6;
            let sides = [ground.touched(0), ground.touched(1)];
            let per = |out: u64, given: f64, into: u64| (out as f64 / given + into as f64 / came) / 2.0 / octets as f64;
            let touches = per(sides[0].0, taken, sides[1].0);
            [processor_us, touches, touches + per(sides[0].1.moved, left, sides[1].1.moved)]
        })?;
        let [processor_us, touches, crossings] = costs;
        Some(OneWay { mbit_s: carried[0].mbit_s, processor_us, touches, crossings })
    }

    /// A message and its answer, in microseconds.
    pub(super) fn round_trip(&self, kind: Kind, octets: usize) -> Option<f64> {
        let flow = Flow { pace: Pace::Answered, ..Flow::stream(0, To::Host(1), octets) };
        let length = Duration::from_millis(5);
        let (carried, ()) = self.carry(kind, [2, BUFFERS], &[flow], (length, 0.0), |_, _| ())?;
        Some(carried[0].mean_us())
    }

    /// So many senders of messages of 4096 octets to one receiver.
    pub(super) fn senders(&self, kind: Kind, senders: usize, length: Duration) -> Option<Gathered> {
        let all: Vec<Flow> = (1..=senders).map(|from| Flow::stream(from, To::Host(0), 4096)).collect();
        self.gathered(kind, &all, BUFFERS, (length, 0.0))
    }

    /// One sender to a receiver whose application takes 500 us for each message of 4096 octets, and its buffers.
    pub(super) fn slow_receiver(&self, kind: Kind, buffers: usize, length: Duration) -> Option<Gathered> {
        self.gathered(kind, &[Flow::stream(1, To::Host(0), 4096)], buffers, (length, 500e-6))
    }

    /// One sender of messages of 1024 octets, and its receiver's buffers.
    pub(super) fn buffers(&self, kind: Kind, buffers: usize, length: Duration) -> Option<Gathered> {
        self.gathered(kind, &[Flow::stream(1, To::Host(0), 1024)], buffers, (length, 0.0))
    }

    /// Rates, and what is missing when all that was under way has come.
    fn gathered(&self, kind: Kind, all: &[Flow], buffers: usize, how: (Duration, f64)) -> Option<Gathered> {
        let mut network = self.network(kind, all.len() + 1, buffers)?;
        let mut ground = Ground::new(network.as_mut(), all.len() + 1, self.host).consuming(how.1);
        let carried = run_and_drain(&mut ground, all, how.0, DRAIN);
        if carried.iter().any(|flow| flow.damaged > 0) {
            return None;
        }
        let held = ground.most_held(0);
        let rates: Vec<f64> = carried.iter().map(|flow| flow.mbit_s).collect();
        let (taken, came) = carried.iter().fold((0, 0), |(t, c), flow| (t + flow.taken, c + flow.came[0]));
        Some(Gathered {
            mbit_s: rates.iter().sum(),
            least: rates.iter().copied().fold(f64::MAX, f64::min),
            most: rates.iter().copied().fold(0.0, f64::max),
            missing: taken - came,
            taken,
            held,
        })
    }

    /// A message of 4096 octets to each of a group: what the worst receiver gets, Mbit/s, and octets that the sender's
    /// interface moved for each octet of it.
    pub(super) fn multicast(&self, kind: Kind, receivers: usize, length: Duration) -> Option<[f64; 2]> {
        let all = [Flow::stream(0, To::Group(receivers), 4096)];
        let (carried, moved) = self.carry(kind, [receivers + 1, BUFFERS], &all, (length, 0.0), |ground, _| {
            ground.touched(0).1.moved as f64 / ground.left(0).max(1) as f64 / 4096.0
        })?;
        Some([carried[0].mbit_s, moved])
    }

    /// A message of 1024 octets each half millisecond from host 0 to host 3, beside so many streams of 8192 octets to host
    /// 3, from hosts 1, 2 and 0: microseconds, in the mean and at most.
    pub(super) fn paced(&self, kind: Kind, urgent: bool, beside: usize, length: Duration) -> Option<[f64; 2]> {
        let pace = Pace::Every(Duration::from_micros(500));
        let mut all = vec![Flow { pace, urgent, ..Flow::stream(0, To::Host(3), 1024) }];
        all.extend([1, 2, 0].iter().take(beside).map(|from| Flow::stream(*from, To::Host(3), 8192)));
        let (carried, ()) = self.carry(kind, [4, BUFFERS], &all, (length, 0.0), |_, _| ())?;
        Some([carried[0].mean_us(), carried[0].most_us()])
    }

    /// TCP one way.
    pub(super) fn tcp(&self, kind: Kind, protocol: Protocol, length: Duration) -> Option<Streamed> {
        let mut network = self.network(kind, 2, BUFFERS)?;
        let mut ground = Ground::new(network.as_mut(), 2, self.host);
        stream(&mut ground, protocol, length, 1).filter(|streamed| streamed.intact)
    }
}

/// A chip as its machine's file has it.
pub(in super::super) fn chip_of(m: &Profile) -> Result<apic::Config, ProfileError> {
    Ok(apic::Config {
        link_bits_per_s: m.get("link_mbit_s")? * 1e6,
        memory_bits_per_s: m.get("memory_mbit_s")? * 1e6,
        memory_setup: Duration::from_nanos(m.get("setup_ns")?.round() as u64),
        batch: m.get("batch_cells")?.round() as usize,
        miss: micros(m, "miss_us")?,
        ..apic::Config::default()
    })
}

/// What messages one way took.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct OneWay {
    pub(super) mbit_s: f64,
    /// Of both hosts' processors, for a message.
    pub(super) processor_us: f64,
    /// Octets that a processor read or wrote for each octet of a message, in the mean of the two hosts.
    pub(super) touches: f64,
    /// Octets that crossed the memory bus: those, and what the interface moved.
    pub(super) crossings: f64,
}

/// What several senders, or one that is too fast, got to a receiver.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Gathered {
    pub(super) mbit_s: f64,
    /// What the sender with the least, and the one with the most, has got there.
    pub(super) least: f64,
    pub(super) most: f64,
    /// Messages that interfaces took and no application ever had.
    pub(super) missing: u64,
    pub(super) taken: u64,
    /// Buffers of the receiver that waited for its processor, at most.
    pub(super) held: usize,
}
