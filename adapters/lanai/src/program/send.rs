//! The way out: parts of messages become packets, in the order in which each user queued them.

use super::{Groups, Lanai, Outgoing, Part, PartOf, Source, Transfer, Work, packet};
use crate::config::MulticastBy;
use crate::packet::Kind;
use crate::packet::mapping::Address;
use crate::packet::message::Head;
use crate::{Destination, Event};
use std::collections::VecDeque;
use wire::DropReason;

impl Lanai {
    pub(super) fn fetch(&mut self, user: usize, groups: &Groups) {
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
                self.transfers.push_back((octets, Transfer::Fetch { id, sending: part }));
            }
            Err(message) => self.fetched(id, &Part { head, to, address: 0, octets, last }, &message, groups),
        }
    }

    /// A part is in the SRAM: a packet for each receiver.
    pub(super) fn fetched(&mut self, id: u64, part: &Part, octets: &[u8], groups: &Groups) {
        let of = part.of();
        let kind = if of.user == 0 { Kind::IP } else { Kind::MESSAGE };
        let head = part.head.emit();
        let to: Vec<Address> = match part.to {
            Destination::Host(to, _) => vec![to],
            Destination::Group(group) => self.receivers(group, groups),
        };
        let routes = to.iter().filter_map(|to| self.mapping.route(*to));
        let packets: VecDeque<Vec<u8>> = routes.map(|route| packet(route, kind, &head, octets)).collect();
        self.begun.made += to.len() as u64;
        self.monitor.packets_sent.drop_n(DropReason::UnknownCircuit, (to.len() - packets.len()) as u64);
        if packets.is_empty() {
            return self.part_failed(id, of, DropReason::UnknownCircuit);
        }
        self.outgoing.insert(id, Outgoing { copies: packets.len(), packets, of: Some(of), left: false });
        if let Some(place) = self.users[of.user].order.iter_mut().find(|(own, _)| *own == id) {
            place.1 = true;
        }
        self.start_in_order(of.user);
    }

    /// A part cannot be sent.
    pub(super) fn part_failed(&mut self, id: u64, of: PartOf, reason: DropReason) {
        self.users[of.user].order.retain(|(own, _)| *own != id);
        self.start_in_order(of.user);
        self.part_over(of, Some(reason));
    }

    /// The link has done with a packet: it has left, or not.
    pub(super) fn packet_over(&mut self, number: u64, lost: Option<DropReason>) {
        let Some(at) = self.sending.iter().position(|(sending, _)| *sending == number) else { return };
        let octets = self.sending.remove(at).map_or(0, |(_, octets)| octets);
        let of = number.checked_sub(1);
        let counters = if of.is_some() { &mut self.monitor.packets_sent } else { &mut self.monitor.mapping_sent };
        match lost {
            None => counters.pass([0, 1, octets as u64]),
            Some(reason) => counters.drop_one(reason),
        }
        let Some(id) = of else { return };
        let Some(outgoing) = self.outgoing.get_mut(&id) else { return };
        outgoing.copies -= 1;
        outgoing.left |= lost.is_none();
        if outgoing.copies > 0 {
            return;
        }
        let Some(over) = self.outgoing.remove(&id) else { return };
        if let Some(of) = over.of {
            self.part_over(of, lost.filter(|_| !over.left));
        }
    }

    /// All copies of a part have left, or it failed. With the last part the message is over, and fails if any part did.
    fn part_over(&mut self, of: PartOf, failed: Option<DropReason>) {
        self.send_buffers -= 1;
        let under_way = &mut self.users[of.user].under_way;
        let Some(at) = under_way.iter().position(|(number, _)| *number == of.number) else { return };
        let first = under_way[at].1.or(failed);
        under_way[at].1 = first;
        if !of.last {
            return;
        }
        under_way.remove(at);
        match first {
            None => self.monitor.sent.pass([0, 1, of.total.into()]),
            Some(reason) => self.monitor.sent.drop_one(reason),
        }
        let (interface, number) = (of.user, of.number);
        self.work.push_back(Work::Tell(Event::Sent { interface, number, whole: first.is_none() }));
    }

    /// What is written into the SRAM at once does not overtake what the host's engine fetches.
    fn start_in_order(&mut self, user: usize) {
        while let Some((id, true)) = self.users[user].order.front().copied() {
            self.users[user].order.pop_front();
            self.work.push_back(Work::Start(id));
        }
    }

    /// Whom this interface sends a group's packets to: the next on the cycle, or all others.
    pub(super) fn receivers(&self, group: u16, groups: &Groups) -> Vec<Address> {
        let known = self.groups.get(&group).or_else(|| groups.get(&group));
        let (own, members) = (self.mapping.address(), known.map_or(&[][..], |m| m));
        let Some(at) = members.iter().position(|member| *member == own) else { return Vec::new() };
        let mut others = members.iter().cycle().skip(at + 1).take(members.len().saturating_sub(1)).copied();
        match self.config.switches.multicast {
            MulticastBy::Cycle => others.next().into_iter().collect(),
            MulticastBy::Repetition => others.collect(),
        }
    }
}
