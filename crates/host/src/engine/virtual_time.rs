//! An engine without its thread: a test says what time it is.

use super::{Core, PressureBoard, ShardLoop};
use net::Network;
use net::topology::Fabric;
use rustix::event::epoll;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::Time;

/// A network and its engine, at a time.
pub(crate) struct VirtualEngine {
    pub(crate) core: Core,
    pub(crate) now: Time,
}

impl VirtualEngine {
    /// With an empty network of so many shards.
    pub(crate) fn new(shards: usize) -> Self {
        let network = Network::sharded(shards, 64, 65_536);
        let epoch = Instant::now();
        let board = (shards > 1).then(|| Arc::new(PressureBoard::new(network.bells().to_vec())));
        let shard_loop = || {
            let bells = Arc::new(epoll::create(epoll::CreateFlags::CLOEXEC).unwrap());
            Some(Box::new(ShardLoop::new(bells, board.clone(), None, epoch)))
        };
        let core = Core {
            loops: (0..shards).map(|_| shard_loop()).collect(),
            network,
            fabric: Fabric::new(),
            handoffs: Vec::new(),
            hosts: Vec::new(),
            ended_lenders: 0,
            epoch,
            jobs: VecDeque::new(),
            threads: Vec::new(),
        };
        VirtualEngine { core, now: Time::from_micros(1) }
    }

    /// After nodes were added.
    pub(crate) fn find_hosts(&mut self) {
        self.core.find_hosts();
    }

    /// A round of each shard.
    pub(crate) fn round(&mut self) {
        let Core { network, fabric, loops, hosts, .. } = &mut self.core;
        for (number, shard_loop) in loops.iter_mut().flatten().enumerate() {
            let (shard, names) = (network.shard_mut(number).unwrap(), Some((&*fabric, &hosts[..])));
            let names = names.filter(|_| number == 0);
            shard_loop.look_at_backlogged(shard, names, self.now);
            shard.run(self.now);
            shard_loop.share_pressure(shard, names, self.now);
        }
    }

    /// A round each microsecond.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.round();
            self.now += Duration::from_micros(1);
        }
    }
}
