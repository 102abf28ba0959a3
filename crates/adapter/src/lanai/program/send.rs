//! The way out: parts of messages become packets, in the order in which each user queued them.

use super::{Lanai, Outgoing, Part, Source, Transfer, Work, packet};
use crate::lanai::config::MulticastBy;
use crate::lanai::{Destination, Event};
use std::collections::VecDeque;
use wire::DropReason;
use wire::myrinet::Kind;
use wire::myrinet::mapping::Address;
use wire::myrinet::message::Head;

impl Lanai {
    pub(super) fn fetch(&mut self, user: usize) {
        let (address, most) = (self.mapping.address(), self.config.buffer);
        let Some(sending) = self.users[user].queue.front_mut() else { return };
        let octets = ((sending.octets - sending.done) as usize).min(most);
        let (group, to_interface) = match sending.to {
            Destination::Host(_, interface) => (0, interface),
            Destination::Group(group) => (group, user as u8),
        };
        let head = Head {
            from: address,
            from_interface: user as u8,
            to_interface,
            group,
            number: sending.number,
            total: sending.octets,
            offset: sending.done,
        };
        sending.done += octets as u32;
        let (to, last) = (sending.to, sending.done == sending.octets);
        let id = self.next;
        self.next += 1;
        let source = match &mut sending.source {
            Source::Memory(address) => Ok(*address + u64::from(head.offset)),
            Source::Immediate(message) => Err(core::mem::take(message)),
        };
        if last {
            self.users[user].queue.pop_front();
        }
        self.users[user].order.push_back((id, false));
        match source {
            Ok(address) => {
                let part = Part { head, to, address, octets, last };
                self.transfers.push_back((octets, Transfer::Fetch { id, user, sending: part }));
            }
            Err(message) => self.fetched(id, user, &Part { head, to, address: 0, octets, last }, &message),
        }
    }

    /// A part is in the SRAM: a packet for each receiver.
    pub(super) fn fetched(&mut self, id: u64, user: usize, part: &Part, octets: &[u8]) {
        let kind = if user == 0 { Kind::IP } else { Kind::MESSAGE };
        let head = part.head.emit();
        let to: Vec<Address> = match part.to {
            Destination::Host(to, _) => vec![to],
            Destination::Group(group) => self.receivers(group),
        };
        let routes = to.iter().filter_map(|to| self.mapping.route(*to));
        let packets: VecDeque<Vec<u8>> = routes.map(|route| packet(route, kind, &head, octets)).collect();
        if packets.is_empty() || packets.len() < to.len() {
            self.monitor.sent.drop_one(DropReason::UnknownCircuit);
        }
        let (number, total) = (part.head.number, part.head.total);
        if packets.is_empty() {
            return self.part_failed(id, user, number, part.last);
        }
        let ends = part.last.then_some((user, number, total));
        self.outgoing.insert(id, Outgoing { copies: packets.len(), packets, ends, user: true });
        if let Some(place) = self.users[user].order.iter_mut().find(|(own, _)| *own == id) {
            place.1 = true;
        }
        self.start_in_order(user);
    }

    /// A part cannot be sent.
    pub(super) fn part_failed(&mut self, id: u64, user: usize, number: u32, last: bool) {
        self.send_buffers -= 1;
        self.users[user].order.retain(|(own, _)| *own != id);
        self.start_in_order(user);
        if last {
            self.work.push_back(Work::Tell(Event::Sent { interface: user, number, whole: false }));
        }
    }

    /// What is written into the SRAM at once does not overtake what the host's engine fetches.
    fn start_in_order(&mut self, user: usize) {
        while let Some((id, true)) = self.users[user].order.front().copied() {
            self.users[user].order.pop_front();
            self.work.push_back(Work::Start(id));
        }
    }

    /// Whom this interface sends a group's packets to: the next on the cycle, or all others.
    pub(super) fn receivers(&self, group: u16) -> Vec<Address> {
        let (own, members) = (self.mapping.address(), self.groups.get(&group).map_or(&[][..], |m| m));
        let Some(at) = members.iter().position(|member| *member == own) else { return Vec::new() };
        let mut others = members.iter().cycle().skip(at + 1).take(members.len().saturating_sub(1)).copied();
        match self.config.switches.multicast {
            MulticastBy::Cycle => others.next().into_iter().collect(),
            MulticastBy::Repetition => others.collect(),
        }
    }
}
