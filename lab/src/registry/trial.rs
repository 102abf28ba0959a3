//! What a registration asks of the models: one number of one run.

use crate::experiments::networks::ask as networks;
use crate::model::compete::Notice;
use crate::model::netperf::{self, Costs, Load};
use crate::model::pair::{self, Scenario, Transport};
use crate::model::ubr::{self, Policy};
use crate::model::write::{self, Driver};
use crate::model::{Profile, ProfileError, Random};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// PDUs, or writes, of a run.
const PDUS: u64 = 500;
/// Seconds of netperf, after which a rate is taken.
const SECONDS: f64 = 0.5;
const LENGTH: Duration = Duration::from_millis(400);

/// Of two PCs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PairQuantity {
    /// Mbit/s that writes returned at.
    Sent,
    /// Mbit/s that were read.
    Received,
    /// Mbit/s that the network carried.
    Carried,
    /// The share that no read got.
    Lost,
}

/// Of TCP over a congested switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UbrQuantity {
    /// The share of the line that receivers got.
    Effective,
    /// Jain's index.
    Fairness,
    /// The share of the line with cells of PDUs that never became whole.
    Dead,
    /// The share of the line that was idle.
    Idle,
}

/// How data go from one PC to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Over {
    /// Raw AAL5.
    Raw,
    /// UDP without a checksum.
    Udp,
    /// UDP with one.
    UdpChecksum,
    /// TCP.
    Tcp,
}

/// What a switch drops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Discard {
    /// See [`Policy`].
    Packets,
    /// See [`Policy`].
    Plain,
    /// See [`Policy`].
    Partial,
    /// See [`Policy`].
    Early,
    /// See [`Policy`].
    Selective,
    /// See [`Policy`].
    Fair,
}

/// Whose writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// See [`Driver`].
    KernelBuffer,
    /// See [`Driver`].
    DoubleBuffer,
    /// See [`Driver`].
    UserBuffer,
    /// See [`Driver`].
    Shared,
}

/// A question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "run", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Ask {
    /// Two PCs, or one with its fibre looped.
    Pair {
        /// The sending machine.
        sender: String,
        /// The receiving machine.
        receiver: String,
        /// Octets of a write.
        octets: usize,
        /// See there.
        over: Over,
        /// By pages.
        #[serde(default)]
        single_copy: bool,
        /// One machine.
        #[serde(default)]
        loopback: bool,
        /// What is asked.
        quantity: PairQuantity,
    },
    /// Writes to the cards of an RS/6000, in Mbit/s.
    Write {
        /// The machine.
        machine: String,
        /// See there.
        driver: By,
        /// Octets of a write.
        octets: usize,
    },
    /// TCP over a congested switch.
    Ubr {
        /// See there.
        policy: Discard,
        /// Octets of a packet.
        packet: usize,
        /// Cells of the queue.
        queue: u32,
        /// Connections.
        connections: usize,
        /// What is asked.
        quantity: UbrQuantity,
    },
    /// netperf through two OC-12c boards, in Mbit/s.
    Board {
        /// The clock's rate; 0 is a polling process, none are interrupts.
        #[serde(default)]
        hertz: Option<f64>,
        /// Octets of a socket buffer.
        socket: usize,
        /// Beside a process that computes.
        #[serde(default)]
        computes: bool,
    },
    /// One of the three networks.
    Network {
        /// `unet`, `apic`, `myrinet` or `myrinet-repeated`.
        network: String,
        /// `one-way` and `group` in Mbit/s, `round-trip` in microseconds, `senders` in Mbit/s of all and `least-sender` of the one
        /// with the least, `processor` in microseconds of both hosts for a message.
        work: String,
        /// Octets of a message; of `senders` and `group` it is 4096.
        #[serde(default)]
        octets: usize,
        /// Senders, or receivers of a group.
        #[serde(default)]
        hosts: usize,
    },
}

/// What a question is compared with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Side {
    /// A number.
    Number(f64),
    /// Another question.
    Run(Ask),
}

impl Ask {
    /// The answer; none, where the model gives no result.
    ///
    /// # Errors
    /// A machine lacks a constant.
    pub fn ask(&self) -> Result<Option<f64>, ProfileError> {
        match self {
            Ask::Pair { .. } => self.pair(),
            Ask::Write { machine, driver, octets } => {
                let driver = match driver {
                    By::KernelBuffer => Driver::KernelBuffer,
                    By::DoubleBuffer => Driver::DoubleBuffer,
                    By::UserBuffer => Driver::UserBuffer,
                    By::Shared => Driver::Shared,
                };
                let outcome = write::run(&Profile::named(machine)?, driver, *octets, PDUS, false)?;
                Ok((outcome.mbit_s > 0.0).then_some(outcome.mbit_s))
            }
            Ask::Ubr { .. } => Ok(self.ubr()),
            Ask::Board { hertz, socket, computes } => {
                let notice = match hertz {
                    None => Notice::Interrupt,
                    Some(0.0) => Notice::Polling,
                    Some(hertz) => Notice::Clocked(*hertz),
                };
                let costs = Costs::of(&Profile::named("hp9000-755")?)?;
                let load = Load { notice, costs, socket_octets: *socket, computes: *computes };
                Ok(netperf::run(&load, SECONDS).filter(|outcome| outcome.damaged == 0).map(|outcome| outcome.mbit_s))
            }
            Ask::Network { network, work, octets, hosts } => networks(network, work, *octets, *hosts),
        }
    }

    fn pair(&self) -> Result<Option<f64>, ProfileError> {
        let Ask::Pair { sender, receiver, octets, over, single_copy, loopback, quantity } = self else {
            return Ok(None);
        };
        let (sender, receiver) = (Profile::named(sender)?, Profile::named(receiver)?);
        let transport = match over {
            Over::Raw => Transport::Raw,
            Over::Udp => Transport::Udp { checksum: false },
            Over::UdpChecksum => Transport::Udp { checksum: true },
            Over::Tcp => Transport::Tcp,
        };
        let (octets, single_copy, loopback) = (*octets, *single_copy, *loopback);
        let plain = Scenario::new(&sender, &receiver, transport, PDUS);
        let outcome = pair::run(&Scenario { octets, single_copy, loopback, ..plain })?;
        if outcome.damaged > 0 || outcome.cells == 0 {
            return Ok(None);
        }
        Ok(Some(match quantity {
            PairQuantity::Sent => outcome.sent_mbit_s,
            PairQuantity::Received => outcome.received_mbit_s,
            PairQuantity::Carried => outcome.carried_mbit_s,
            PairQuantity::Lost => outcome.lost,
        }))
    }

    fn ubr(&self) -> Option<f64> {
        let Ask::Ubr { policy, packet, queue, connections, quantity } = self else { return None };
        let policy = match policy {
            Discard::Packets => Policy::Packets,
            Discard::Plain => Policy::Plain,
            Discard::Partial => Policy::Partial,
            Discard::Early => Policy::Early,
            Discard::Selective => Policy::Selective,
            Discard::Fair => Policy::Fair,
        };
        let plain = ubr::Scenario::new(policy, *packet, *queue, LENGTH);
        let scenario = ubr::Scenario { connections: *connections, ..plain };
        // The mean of three runs.
        let runs: Vec<f64> = (1..=3)
            .filter_map(|seed| ubr::run(&scenario, Random::new(seed)).filter(|outcome| outcome.intact))
            .map(|outcome| match quantity {
                UbrQuantity::Effective => outcome.effective,
                UbrQuantity::Fairness => outcome.fairness(),
                UbrQuantity::Dead => outcome.dead,
                UbrQuantity::Idle => outcome.idle,
            })
            .collect();
        (runs.len() == 3).then(|| runs.iter().sum::<f64>() / 3.0)
    }
}
