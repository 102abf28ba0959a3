//! Packets that wait for the address of their next hop to be known: a few for each, for a short time (RFC 1122 section
//! 2.3.2.2). In: packets, as a device gave them. Out: the same, the oldest first, once a circuit leads there; what
//! waits in vain is counted.

use super::{IpInterface, VNET_OCTETS};
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::time::Duration;
use wire::{DropReason, Time};

/// Packets for one next hop, as many as Linux's Classical IP keeps. Beyond, the oldest goes: the latest is the one to
/// be saved (RFC 1122).
const HOP_PACKETS: usize = 5;
/// Packets for all next hops; a search through them is short.
const PACKETS: usize = 64;
/// Octets of all packets: four of the longest, or hundreds of the requests that connections begin with.
const OCTETS: usize = 256 * 1024;
/// How long a packet waits: three questions, a second apart, as Linux asks for a neighbour.
const PATIENCE: Duration = Duration::from_secs(3);

#[derive(Debug)]
struct Kept {
    hop: Ipv4Addr,
    until: Time,
    header: [u8; VNET_OCTETS],
    octets: Box<[u8]>,
}

/// The packets, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    packets: VecDeque<Kept>,
    octets: usize,
    /// A circuit leads to the next hop of one of them.
    is_ready: bool,
}

impl Waiting {
    /// Takes a packet; gives how many others had to make room for it.
    fn push(&mut self, packet: Kept) -> u64 {
        let mut lost = 0;
        let mut of_this_hop = self.packets.iter().enumerate().filter(|(_, kept)| kept.hop == packet.hop);
        if let (Some((oldest, _)), true) = (of_this_hop.next(), of_this_hop.count() + 1 >= HOP_PACKETS) {
            lost += u64::from(self.remove(oldest).is_some());
        }
        while self.packets.len() >= PACKETS || self.octets + packet.octets.len() > OCTETS {
            if self.remove(0).is_none() {
                break;
            }
            lost += 1;
        }
        self.octets += packet.octets.len();
        self.packets.push_back(packet);
        lost
    }

    fn remove(&mut self, at: usize) -> Option<Kept> {
        let kept = self.packets.remove(at)?;
        self.octets -= kept.octets.len();
        Some(kept)
    }

    /// Removes those that `goes` says; gives how many.
    fn remove_if(&mut self, goes: impl Fn(&Kept) -> bool) -> u64 {
        let before = self.packets.len();
        self.packets.retain(|kept| !goes(kept));
        self.octets = self.packets.iter().map(|kept| kept.octets.len()).sum();
        (before - self.packets.len()) as u64
    }

    /// When the oldest has waited long enough.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.packets.front().map(|kept| kept.until)
    }
}

impl IpInterface {
    /// Keeps a packet that [`Verdict::Waits`](super::Verdict::Waits) for `hop`, with its virtio header, until
    /// [`IpInterface::poll_kept`] gives it back. What has to go for it is counted `queue_full`; what has waited three
    /// seconds, or is found to wait in vain, `unknown_circuit`.
    pub fn keep(&mut self, hop: Ipv4Addr, header: &[u8; VNET_OCTETS], packet: &[u8], now: Time) {
        let kept = Kept { hop, until: now + PATIENCE, header: *header, octets: packet.into() };
        let lost = self.waiting.push(kept);
        self.sent.drop_n(DropReason::QueueFull, lost);
        self.deadline = self.deadline.into_iter().chain(self.waiting.poll_timeout()).min();
    }

    /// Whether [`IpInterface::poll_kept`] has something.
    pub fn has_kept(&self) -> bool {
        self.waiting.is_ready
    }

    /// The oldest packet that was kept and can go now, for [`IpInterface::route`] anew: its virtio header, and its
    /// octets at the start of `packet`. It goes before what comes after it, or the order within a circuit does not
    /// hold.
    pub fn poll_kept(&mut self, packet: &mut [u8]) -> Option<([u8; VNET_OCTETS], usize)> {
        while self.waiting.is_ready {
            let Some(at) = self.waiting.packets.iter().position(|kept| self.way(kept.hop).is_some()) else {
                self.waiting.is_ready = false;
                break;
            };
            let kept = self.waiting.remove(at)?;
            match packet.get_mut(..kept.octets.len()) {
                Some(room) => {
                    room.copy_from_slice(&kept.octets);
                    return Some((kept.header, kept.octets.len()));
                }
                None => self.sent.drop_one(DropReason::Oversize),
            }
        }
        None
    }

    /// Gives up all that was kept; gives how many packets that are. They are not counted.
    pub fn forget_kept(&mut self) -> u64 {
        self.waiting.remove_if(|_| true)
    }

    /// The tables of addresses are others: some may go now, others need not wait any more.
    pub(super) fn review_kept(&mut self) {
        let mut hops: Vec<_> = self.waiting.packets.iter().map(|kept| kept.hop).collect();
        hops.sort_unstable();
        hops.dedup();
        self.waiting.is_ready = false;
        hops.into_iter().for_each(|hop| self.review_hop(hop));
    }

    /// What is known of an address is another.
    pub(super) fn review_hop(&mut self, hop: Ipv4Addr) {
        if !self.waiting.packets.iter().any(|kept| kept.hop == hop) {
            return;
        }
        let client = self.client.as_ref().map(|(_, client)| client);
        if self.way(hop).is_some() {
            self.waiting.is_ready = true;
        } else if client.is_some_and(|client| client.is_unreachable(hop)) {
            let lost = self.waiting.remove_if(|kept| kept.hop == hop);
            self.sent.drop_n(DropReason::UnknownCircuit, lost);
        } else if let Some(end) = client.and_then(|client| client.station(hop)).filter(|_| self.is_switched) {
            // It may need a call to it.
            self.want(end);
        }
    }

    /// Some have waited long enough.
    pub(super) fn expire_kept(&mut self, now: Time) {
        let lost = self.waiting.remove_if(|kept| kept.until <= now);
        self.sent.drop_n(DropReason::UnknownCircuit, lost);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{A, B, exchange, interface, packet, poll};
    use super::super::{Config, Encapsulation, Verdict};
    use super::*;
    use proptest::prelude::*;
    use wire::atmarp::{Operation, Packet};
    use wire::llc::{ARP, Protocol, ROUTED_OCTETS};

    const PLAIN: [u8; VNET_OCTETS] = [0; VNET_OCTETS];

    fn keep(i: &mut IpInterface, packet: &[u8], now: Time) {
        match i.route(packet, now) {
            Verdict::Waits(hop) => i.keep(hop, &PLAIN, packet, now),
            other => panic!("{other:?}"),
        }
    }

    /// Two circuits, so that none is the only one.
    fn with_two(address: Ipv4Addr) -> IpInterface {
        let mut i = interface(address);
        (7..9).for_each(|circuit| i.add_circuit(circuit, None, Time::ZERO));
        i
    }

    #[test]
    fn packets_to_a_peer_that_is_being_asked_for_go_in_their_order_when_it_has_answered() {
        let (mut a, mut b) = (with_two(A), interface(B));
        let long = [7; VNET_OCTETS];
        keep(&mut a, &packet(B, 40), Time::ZERO);
        assert_eq!(a.route(&packet(B, 60), Time::ZERO), Verdict::Waits(B));
        a.keep(B, &long, &packet(B, 60), Time::ZERO);
        keep(&mut a, &packet(B, 50), Time::ZERO);
        assert!(!a.has_kept());
        let mut room = [0; 100];
        assert_eq!(a.poll_kept(&mut room), None);
        b.add_circuit(7, None, Time::ZERO);
        let now = Time::ZERO + PATIENCE / 2;
        exchange(&mut a, &mut b, now);
        for (octets, header) in [(40, PLAIN), (60, long), (50, PLAIN)] {
            assert!(a.has_kept());
            assert_eq!(a.poll_kept(&mut room), Some((header, octets)));
            assert_eq!(room[..octets], packet(B, octets));
            assert_eq!(a.route(&room[..octets], now), Verdict::To(7));
        }
        assert_eq!((a.poll_kept(&mut room), a.has_kept()), (None, false));
        assert_eq!(a.sent.dropped_total(), 0);
    }

    #[test]
    fn a_packet_that_comes_asks_at_once_and_many_ask_each_second() {
        let mut a = with_two(A);
        let mut asked = 0;
        // The questions of the beginning are a minute apart by now.
        let mut now = Time::ZERO;
        while now < Time::from_millis(200_000) {
            now += Duration::from_millis(100);
            a.handle_timeout(now);
            while poll(&mut a).is_some() {}
        }
        for n in 0..100 {
            keep(&mut a, &packet(B, 40), now);
            a.handle_timeout(now);
            while poll(&mut a).is_some() {
                asked += 1;
            }
            assert!(n > 0 || asked == 2, "{asked} questions on two circuits");
            now += Duration::from_millis(100);
        }
        assert_eq!(asked, 20, "on two circuits in ten seconds");
    }

    #[test]
    fn of_too_many_packets_for_a_hop_the_oldest_goes_and_what_nobody_answers_for_goes_in_time() {
        let mut a = with_two(A);
        let other = Ipv4Addr::new(10, 0, 0, 3);
        keep(&mut a, &packet(other, 99), Time::ZERO);
        for octets in 40..40 + HOP_PACKETS + 2 {
            keep(&mut a, &packet(B, octets), Time::from_millis(octets as u64));
        }
        assert_eq!(a.sent.dropped(DropReason::QueueFull), 2);
        let lengths: Vec<usize> = a.waiting.packets.iter().map(|kept| kept.octets.len()).collect();
        assert_eq!(lengths, [99, 42, 43, 44, 45, 46]);
        assert!(a.poll_timeout().is_some_and(|at| at <= Time::ZERO + PATIENCE));
        a.handle_timeout(Time::ZERO + PATIENCE + Duration::from_millis(43));
        assert_eq!((a.sent.dropped(DropReason::UnknownCircuit), a.waiting.packets.len()), (3, 3));
        assert!(a.poll_timeout().is_some_and(|at| at <= Time::ZERO + PATIENCE + Duration::from_millis(44)));
        assert_eq!(a.forget_kept(), 3);
        assert_eq!(a.sent.dropped_total(), 5);
    }

    #[test]
    fn what_the_server_refuses_waits_no_longer() {
        let mut a = interface(A);
        a.add_circuit(7, None, Time::ZERO);
        a.use_server(7, Time::ZERO);
        keep(&mut a, &packet(B, 40), Time::ZERO);
        let mut request = None;
        while let Some((_, sdu)) = poll(&mut a) {
            let packet = Packet::parse(&sdu[ROUTED_OCTETS..]).unwrap();
            request = request.or((packet.target.ip == Some(B)).then_some(packet));
        }
        let nak = Packet { operation: Operation::Nak, ..request.expect("it asks for B") };
        let mut sdu = vec![0; ROUTED_OCTETS + nak.buffer_len()];
        Protocol::Routed(ARP).emit(&mut sdu);
        nak.emit(&mut sdu[ROUTED_OCTETS..]);
        assert_eq!(a.handle_pdu(7, &sdu, Time::ZERO), None);
        assert_eq!((a.sent.dropped(DropReason::UnknownCircuit), a.forget_kept()), (1, 0));
        assert_eq!(a.route(&packet(B, 40), Time::ZERO), Verdict::Dropped);
    }

    #[test]
    fn nothing_waits_where_nobody_can_be_asked() {
        let mut known = interface(A);
        known.add_circuit(1, Some(B), Time::ZERO);
        known.add_circuit(2, Some(Ipv4Addr::new(10, 0, 0, 3)), Time::ZERO);
        let config = Config { encapsulation: Encapsulation::VcRouted, ..Config::new(A) };
        let mut silent = IpInterface::new(config);
        (1..3).for_each(|circuit| silent.add_circuit(circuit, None, Time::ZERO));
        let nobody = Ipv4Addr::new(10, 0, 0, 9);
        for (i, to) in [(&mut known, nobody), (&mut silent, nobody), (&mut with_two(A), Ipv4Addr::new(224, 0, 0, 251))]
        {
            assert_eq!(i.route(&packet(to, 40), Time::ZERO), Verdict::Dropped);
            assert_eq!(i.sent.dropped(DropReason::UnknownCircuit), 1);
        }
    }

    proptest! {
        #[test]
        fn whatever_comes_is_bounded_and_each_packet_goes_or_is_counted_once(
            packets in proptest::collection::vec((0..40u8, 20..65_536usize, 0..200u64), 0..300),
            heard in 0..40u8,
        ) {
            let (mut a, mut now) = (with_two(A), Time::ZERO);
            let station = |n: u8| Ipv4Addr::new(10, 0, 1, n);
            for (n, octets, millis) in &packets {
                now += Duration::from_millis(*millis);
                a.handle_timeout(now);
                while poll(&mut a).is_some() {}
                keep(&mut a, &packet(station(*n), *octets), now);
                let of_hop = |hop| a.waiting.packets.iter().filter(|kept| kept.hop == hop).count();
                prop_assert!(a.waiting.packets.len() <= PACKETS && of_hop(station(*n)) <= HOP_PACKETS);
                let octets: usize = a.waiting.packets.iter().map(|kept| kept.octets.len()).sum();
                prop_assert!(octets == a.waiting.octets && octets <= OCTETS);
            }
            let mut b = interface(station(heard));
            b.add_circuit(7, None, now);
            exchange(&mut a, &mut b, now);
            let (mut gone, mut room) = (0, vec![0; 65_536]);
            while let Some((_, octets)) = a.poll_kept(&mut room) {
                prop_assert_eq!(a.route(&room[..octets.min(1000)], now), Verdict::To(7));
                gone += 1;
            }
            a.handle_timeout(now + PATIENCE);
            prop_assert_eq!(gone + a.sent.dropped_total(), packets.len() as u64);
            prop_assert_eq!((a.waiting.packets.len(), a.waiting.octets), (0, 0));
        }
    }
}
