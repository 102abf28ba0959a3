//! Whether each PDU of a Myrinet is accounted for: at each port beside the counters of its link, at its interface, and in the
//! fabric.

use super::Myrinet;
use super::circuits::Port;
use super::counted::{PortSums, of_circuits};
use crate::LanaiSums;
use crate::network::NetworkSums;
use net::{Carries, LineCounters, NodeIo};
use wire::Counters;

/// What became of all PDUs, messages and packets of a Myrinet, those before changes of its hosts or switches included. Counters wrap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MyrinetSums {
    /// PDUs that left links, over all ports.
    pub taken: u64,
    /// PDUs from ports into the Myrinet, over all ports; those that were dropped.
    pub sent: Counters,
    /// PDUs that are on their way through interfaces.
    pub under_way: u64,
    /// PDUs out at ports, over all ports; those that were dropped.
    pub received: Counters,
    /// Of messages and packets.
    pub network: NetworkSums,
}

fn over(counters: &Counters) -> u64 {
    counters.pdus.wrapping_add(counters.dropped_total())
}

impl Port {
    /// Another link is there.
    pub(super) fn begin(&mut self) {
        self.sums.told = self.received;
        self.sums.before = [self.sums.taken, self.received.pdus, self.received.dropped_total()];
    }

    /// What it dropped on the way out since it was asked last is what the link shows too.
    fn tell_drops(&mut self, n: usize, io: &mut NodeIo<'_>) {
        let told = core::mem::replace(&mut self.sums.told, self.received);
        for (reason, drops) in self.received.drops().filter(|(reason, drops)| *drops != told.dropped(*reason)) {
            io.count_drops(n, reason, drops.wrapping_sub(told.dropped(reason)));
        }
    }

    /// What is wrong if a PDU is not accounted for, or is not at the port's interface.
    fn mismatch(&self, lanai: &LanaiSums, at_interface: usize) -> Option<String> {
        let taken = over(&self.sent).wrapping_add(self.under_way() as u64);
        let told = of_circuits(&self.sums.former.told).wrapping_add(of_circuits(&lanai.told));
        let right = self.sums.taken == taken
            && self.under_way() == at_interface
            && over(&self.received) == told
            && self.sums.former.add_up();
        (!right).then(|| format!("{at_interface} at the interface, {told} told: {self:?}"))
    }
}

impl Myrinet {
    /// What became of all PDUs, messages and packets.
    pub fn sums(&self) -> MyrinetSums {
        let mut sums = MyrinetSums { network: self.former, ..MyrinetSums::default() };
        sums.network.add(&self.network.sums());
        for port in &self.ports {
            sums.taken += port.sums.taken;
            sums.under_way += port.under_way() as u64;
            sums.sent.add(&port.sent);
            sums.received.add(&port.received);
        }
        sums
    }

    /// What is wrong if a PDU, message or packet is not accounted for: at a port, at its interface, or in the fabric.
    pub fn mismatch(&self) -> Option<String> {
        let of_port = self.ports.iter().zip(self.network.stations()).enumerate().find_map(|(n, (port, station))| {
            let at_interface = station.lanai.under_way(super::CIRCUITS);
            port.mismatch(&station.lanai.sums(), at_interface).map(|what| format!("port {n}: {what}"))
        });
        let of_former = || (!self.former.add_up()).then(|| format!("before: {:?}", self.former));
        of_port.or_else(|| self.network.mismatch()).or_else(of_former)
    }

    /// What is wrong if what came in at a port is not what its link has delivered: its counters in this direction.
    pub fn intake_mismatch(&self, port: u16, carries: Carries, line: &LineCounters) -> Option<String> {
        let sums = &self.ports.get(usize::from(port))?.sums;
        let (came, taken) = (line.taken(carries), sums.taken.wrapping_sub(sums.before[0]));
        (carries == Carries::Frames && came != taken)
            .then(|| format!("port {port}: the link delivered {came} frames, {taken} were taken"))
    }

    /// What is wrong if what left by a port, or was dropped there, is not what its link was given or told: its counters in this
    /// direction.
    pub fn output_mismatch(&self, port: u16, carries: Carries, line: &LineCounters) -> Option<String> {
        let port_state = self.ports.get(usize::from(port))?;
        let PortSums { told, before: [_, pdus, drops], .. } = &port_state.sums;
        let left = port_state.received.pdus.wrapping_sub(*pdus);
        // Those since its last run are told in the next one.
        let dropped = told.dropped_total().wrapping_sub(*drops);
        let given = line.given(carries);
        (carries == Carries::Frames && given != left.wrapping_add(dropped))
            .then(|| format!("port {port}: the link has {given}, {left} left and {dropped} were dropped: {line:?}"))
    }

    pub(super) fn tell_drops(&mut self, io: &mut NodeIo<'_>) {
        self.ports.iter_mut().enumerate().for_each(|(n, port)| port.tell_drops(n, io));
    }
}
