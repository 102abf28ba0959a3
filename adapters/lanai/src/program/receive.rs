//! The way in: a packet is looked at, finds its buffer, and goes on to the next member of its group.

use super::{Groups, INTERFACES, Lanai, OPEN, Open, Outgoing, Transfer, Work, packet};
use crate::config::MulticastBy;
use crate::packet::message::Head;
use crate::packet::{Kind, Packet, kind};
use core::time::Duration;
use wire::{DropReason, Time};

/// After this a message's next part is lost: longer than a packet stands in the network before the time-out ends it.
const PATIENCE: Duration = Duration::from_millis(200);

impl Lanai {
    /// Looks at a packet that has come.
    pub(super) fn look(&mut self, octets: &[u8], groups: &Groups, now: Time) {
        let drop = |own: &mut Self, reason| {
            own.receive_buffers -= 1;
            own.monitor.packets_received.drop_one(reason);
        };
        let packet = match Packet::new_checked(octets) {
            Ok(packet) => packet,
            Err(wire::Error::Checksum { .. }) => return drop(self, DropReason::Crc),
            // A loop through a switch that is none: it has come to a host before its end.
            Err(_) if kind(octets) == Some(Kind::MAPPING) => return self.mapped(octets),
            Err(_) => return drop(self, DropReason::Malformed),
        };
        if packet.kind() == Kind::MAPPING {
            self.mapped(octets);
            return self.mapping.handle_message(packet.payload(), now);
        }
        let Ok((head, part)) = Head::parse(packet.payload()) else { return drop(self, DropReason::Malformed) };
        if head.group != 0 && self.config.switches.multicast == MulticastBy::Cycle {
            self.pass_on(&packet, &head, groups);
        }
        let user = usize::from(head.to_interface);
        let placed =
            if user < INTERFACES { self.place(user, &head, part.len(), now) } else { Err(DropReason::UnknownCircuit) };
        if head.offset == 0 {
            self.begun.opened += 1;
        }
        match placed {
            // A message that does not begin is counted once: its other parts belong to none.
            Err(reason) if head.offset == 0 => {
                self.receive_buffers -= 1;
                self.monitor.packets_received.pass([0, 1, octets.len() as u64]);
                self.monitor.received.drop_one(reason);
            }
            Ok(()) => {
                self.monitor.packets_received.pass([0, 1, octets.len() as u64]);
                let key = (head.from, head.number);
                let transfer = Transfer::Store { user, key, offset: head.offset, part: part.to_vec() };
                self.transfers.push_back((part.len(), transfer));
            }
            Err(reason) => drop(self, reason),
        }
    }

    fn mapped(&mut self, octets: &[u8]) {
        self.receive_buffers -= 1;
        self.monitor.mapping_received.pass([0, 1, octets.len() as u64]);
    }

    /// Finds the buffer of a part's message, or takes one for its first part.
    fn place(&mut self, user: usize, head: &Head, octets: usize, now: Time) -> Result<(), DropReason> {
        self.reclaim(user, now);
        let user = &mut self.users[user];
        let open = user.open.iter().position(|o| (o.from, o.number) == (head.from, head.number));
        match open.map(|at| (at, &mut user.open[at])) {
            Some((_, open)) if open.total == head.total && head.offset > 0 => {
                open.last = now;
                return Ok(());
            }
            // Its number came around, or a part was lost: the buffer is for the new message.
            Some((at, _)) => {
                let stale = user.open.remove(at);
                user.posted.push_front(stale.buffer);
                self.monitor.received.drop_one(DropReason::Sequence);
            }
            None => {}
        }
        if head.offset > 0 {
            return Err(DropReason::Sequence);
        }
        let Some(buffer) = user.posted.pop_front() else { return Err(DropReason::NoBuffer) };
        if buffer.octets < head.total || octets > head.total as usize {
            user.posted.push_front(buffer);
            return Err(DropReason::Oversize);
        }
        if user.open.len() >= OPEN {
            // The oldest has waited longest for a part that is lost.
            let stale = user.open.remove(0);
            user.posted.push_back(stale.buffer);
            self.monitor.received.drop_one(DropReason::TooManyOpen);
        }
        let (from, number, total) = (head.from, head.number, head.total);
        user.open.push(Open { from, number, buffer, arrived: 0, total, last: now });
        Ok(())
    }

    /// Where no buffer is posted, those of messages whose other parts are lost are free again.
    fn reclaim(&mut self, user: usize, now: Time) {
        let user = &mut self.users[user];
        if !user.posted.is_empty() {
            return;
        }
        let (posted, received) = (&mut user.posted, &mut self.monitor.received);
        user.open.retain(|open| {
            let lost = now.since(open.last) > PATIENCE;
            if lost {
                posted.push_back(open.buffer);
                received.drop_one(DropReason::Timeout);
            }
            !lost
        });
    }

    /// A group's packet goes to the next member, until that is its sender.
    fn pass_on(&mut self, packet_in: &Packet<'_>, head: &Head, groups: &Groups) {
        let next = self.receivers(head.group, groups);
        let Some(to) = next.first().filter(|to| **to != head.from) else { return };
        self.begun.made += 1;
        let Some(route) = self.mapping.route(*to) else {
            return self.monitor.packets_sent.drop_one(DropReason::UnknownCircuit);
        };
        if self.ready.len() >= 4 * self.config.queue {
            return self.monitor.packets_sent.drop_one(DropReason::QueueFull);
        }
        let octets = packet(route, packet_in.kind(), &[], packet_in.payload());
        let id = self.next;
        self.next += 1;
        self.monitor.forwarded += 1;
        self.outgoing.insert(id, Outgoing { packets: [octets].into(), copies: 1, of: None, left: false });
        self.work.push_back(Work::Start(id));
    }
}
