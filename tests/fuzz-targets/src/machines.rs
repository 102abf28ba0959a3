//! State machines under octets from a peer.

use endpoint::layout::{BODY_OCTETS, Geometry, HEAD_OCTETS};
use endpoint::segment::Segment;
use endpoint::{Aal, DataPath, Events};
use host::{CircuitConfig, HostEndpoint, HostInterface};
use net::{Carries, End, FramePool, LinkConfig, Network};
use sar::{Event, Reassembler, ReassemblyConfig};
use std::sync::Arc;
use wire::octets::{Format, parse52};
use wire::{CircuitId, Time};

/// Octets as cells of 52, then 49 octets each: a header octet that says what the cell is, and its payload.
pub(crate) fn reassembly(octets: &[u8]) {
    let mut r = Reassembler::new(ReassemblyConfig { max_sdu_octets: 1000, ..ReassemblyConfig::default() });
    let mut buffer = [0; 500];
    for part in octets.as_chunks::<49>().0 {
        let (kind, payload) = (part[0], &part[1..]);
        let mut message = [0; 52];
        message[3] = kind & 0xf;
        message[4..].copy_from_slice(payload);
        let Ok(cell) = parse52(&message, Format::Nni) else { continue };
        let step =
            if kind & 0x80 != 0 { r.skip(&[cell], Time::ZERO) } else { r.push(&[cell], &mut buffer, Time::ZERO) };
        if let Event::Complete { sdu_octets, .. } = step.event {
            assert!(sdu_octets <= buffer.len() && sdu_octets > 0);
        }
    }
}

/// Octets as cells of 53, then 50 octets each: which circuit, payload type and CLP, whether the HEC is damaged, and the
/// payload. Every kernel does with them what the portable one does, for one circuit and for many, and no buffer is lost.
pub(crate) fn mixed_circuits(octets: &[u8]) {
    use sar::{Delivery, Demux, DemuxConfig, Kernel, Reason};
    const BUFFERS: u32 = 3;
    let mut wire = Vec::new();
    for part in octets.as_chunks::<50>().0 {
        let header = [0, 0, part[0] >> 4 & 7, (part[0] & 0xf) | 0x50];
        wire.extend_from_slice(&header);
        wire.push(wire::hec::generate(header) ^ (part[1] & 0x11));
        wire.extend_from_slice(&part[2..]);
    }
    let mut results = Vec::new();
    for kernel in Kernel::all() {
        let config = DemuxConfig { circuits: 5, buffers: BUFFERS, max_sdu_octets: 200, any_cpi: false };
        let mut demux = Demux::with_kernel(*kernel, config);
        for n in 0..5 {
            demux.open(CircuitId::from_key(5 + (n << 4))).expect("room for five");
        }
        let mut pool = vec![0; demux.pool_octets()];
        let mut out = [Delivery::default(); 2];
        let (mut at, mut sdus) = (0, Vec::new());
        while at < wire.len() / 53 {
            let progress = demux.push53(&wire[at * 53..], &mut pool, &mut out, Time::ZERO);
            at += progress.cells_used + usize::from(progress.reason == Reason::NotUser);
            for d in &out[..progress.deliveries] {
                sdus.push((d.circuit, d.meta, pool[demux.octets_of(d)].to_vec()));
                assert!(demux.release(d.buffer));
            }
        }
        demux.expire(Time::from_nanos(1));
        assert_eq!(demux.free_buffers(), BUFFERS as usize);
        let mut single = Reassembler::with_kernel(*kernel, ReassemblyConfig::default());
        let (mut rest, mut buffer) = (&wire[..], [0; 300]);
        while !rest.is_empty() {
            let step = single.push53(rest, &mut buffer, Time::ZERO);
            if let Event::Complete { sdu_octets, meta } = step.event {
                sdus.push((CircuitId::from_key(0), meta, buffer[..sdu_octets].to_vec()));
            }
            rest = &rest[step.cells_used * 53..];
        }
        results.push((sdus, *demux.counters(), *single.counters()));
    }
    assert!(results.iter().all(|r| *r == results[0]), "kernels differ: {:?}", Kernel::all());
}

/// Operations on the shared reassembly memory, each an octet that says which, and what it needs: a cell of 53 octets, or
/// a slot's header octets and payload with its CRC-10 put right, or a read, or a delete.
pub(crate) fn penn(octets: &[u8]) {
    use penn::reassembly::{Config, Event, ListId, Reassembler};
    let config = Config { circuits: 3, pdus: 3, slots: 9, longest_list: 6, open_at_begin_only: false };
    let mut r = Reassembler::new(config).expect("small capacities");
    let (mut rest, mut now) = (octets, Time::ZERO);
    let mut memory = [0; 200];
    while let Some((&kind, after)) = rest.split_first() {
        now += std::time::Duration::from_micros(u64::from(kind));
        rest = match kind & 3 {
            0 => {
                let Some((cell, rest)) = after.split_first_chunk::<53>() else { break };
                r.handle_octets(cell, now);
                rest
            }
            1 => {
                let Some((parts, rest)) = after.split_first_chunk::<50>() else { break };
                let mut message = [0; 52];
                (message[1], message[3]) = (parts[0] & 8, parts[1]);
                message[4..].copy_from_slice(&parts[2..]);
                message[50] &= 0xfc;
                message[51] = 0;
                let [high, low] = wire::crc::remainder10(&message[4..]).to_be_bytes();
                message[50] |= high;
                message[51] = low;
                if let Ok(cell) = parse52(&message, Format::Uni)
                    && let Event::Stored { list, .. } = r.handle_cell(&cell, now)
                {
                    assert!(r.status(list).is_some_and(|status| status.last_cell == now));
                }
                rest
            }
            2 => {
                let Some((&list, rest)) = after.split_first() else { break };
                let read = r.read_into(ListId::from_number(list.into()), usize::from(kind >> 2), &mut memory);
                assert!(read.octets <= memory.len() && read.cells * 48 >= read.octets);
                rest
            }
            _ => {
                let Some((&list, rest)) = after.split_first() else { break };
                r.delete(ListId::from_number((list % 8).into()));
                rest
            }
        };
        assert_eq!(r.check(), Ok(()));
    }
}

/// A network with a host at one end of a link and nothing at the other.
fn outside(carries: Carries) -> (Network, net::LinkId) {
    let mut network = Network::new(FramePool::new(8, 65_536));
    let mut host = HostInterface::new(4);
    host.add_circuit(CircuitId::from_key(100), CircuitConfig::default());
    let node = network.add_node("host", Box::new(host));
    let config = LinkConfig { carries, queue_cells: 64, ..LinkConfig::default() };
    let link = network.connect(End::Port(node, 0), End::External, config).expect("a fresh port");
    (network, link)
}

/// A TCP peer's octets, in portions.
pub(crate) fn atmtcp_link(octets: &[u8]) {
    let (mut network, link) = outside(Carries::Frames);
    let mut machine = links::atmtcp::Machine::new();
    let portion = usize::from(octets.first().copied().unwrap_or(1)).max(1);
    for part in octets.chunks(portion) {
        let mut rest = part;
        // What does not fit now fits after a round, or the link is in error.
        for _ in 0..100 {
            let taken = network.external(link, Time::ZERO, |io| machine.receive(rest, io));
            match taken {
                Some(Ok(n)) => rest = &rest[n..],
                _ => return,
            }
            network.run(Time::ZERO);
            if rest.is_empty() {
                break;
            }
        }
    }
    assert!(network.pool().in_use() <= 8);
}

/// A TCP peer's octets at each link of a relay in turn. What comes out at the others is what a peer of theirs can read.
pub(crate) fn relay(octets: &[u8]) {
    const LINKS: usize = 3;
    let mut network = Network::new(FramePool::new(64, 65_536));
    let node = network.add_node("relay", Box::new(links::Relay::new(LINKS)));
    let config = LinkConfig { carries: Carries::Frames, queue_cells: 4, ..LinkConfig::default() };
    let port = |n| End::Port(node, n as u16);
    let links: Vec<_> =
        (0..LINKS).map(|n| network.connect(port(n), End::External, config.clone()).expect("a fresh port")).collect();
    let mut machines: Vec<_> = std::iter::repeat_with(links::atmtcp::Machine::relaying).take(LINKS).collect();
    let mut out = vec![Vec::new(); LINKS];
    let portion = usize::from(octets.first().copied().unwrap_or(1)).max(1);
    for (i, part) in octets.chunks(portion).enumerate() {
        let from = i / 8 % LINKS;
        let mut rest = part;
        while !rest.is_empty() {
            match network.external(links[from], Time::ZERO, |io| machines[from].receive(rest, io)) {
                Some(Ok(n)) => rest = &rest[n..],
                _ => {
                    network.external(links[from], Time::ZERO, |io| machines[from].disconnect(io));
                    network.set_link_up(links[from], false);
                    network.run(Time::ZERO);
                    network.set_link_up(links[from], true);
                    rest = &[];
                }
            }
            for (n, machine) in machines.iter_mut().enumerate() {
                network.run(Time::ZERO);
                network.external(links[n], Time::ZERO, |io| while machine.transmit(io) {});
                let octets = machine.poll_transmit();
                out[n].extend_from_slice(octets);
                let n = octets.len();
                machine.transmitted(n);
            }
        }
    }
    for stream in out {
        let mut rest = stream.as_slice();
        while let Some((head, after)) = rest.split_first_chunk() {
            let head = wire::atmtcp::Head::parse(head).expect("a head that was written here");
            let (octets, after) = after.split_at(head.octets);
            assert!(!head.is_control() || wire::atmtcp::Control::parse(octets).is_ok());
            rest = after;
        }
    }
}

/// Octets of a TCP peer that sends cells, in portions. What the link takes goes out again as batches that a peer can read.
pub(crate) fn cells_link(octets: &[u8]) {
    let (mut network, link) = outside(Carries::Cells);
    let (mut machine, mut answers) = (links::cells::Machine::new(), links::cells::Machine::new());
    let portion = usize::from(octets.first().copied().unwrap_or(1)).max(1);
    'all: for part in octets.chunks(portion) {
        let mut rest = part;
        for _ in 0..100 {
            match network.external(link, Time::ZERO, |io| machine.receive(rest, io)) {
                Some(Ok(n)) => rest = &rest[n..],
                _ => break 'all,
            }
            network.run(Time::ZERO);
            network.external(link, Time::ZERO, |io| while answers.transmit(io) {});
            if rest.is_empty() {
                break;
            }
        }
    }
    network.external(link, Time::ZERO, |io| machine.disconnect(io));
    let mut sent = answers.poll_transmit();
    while let Some(begin) = sent.first_chunk() {
        let octets = wire::udp::octets_of(*begin).expect("a batch that was written here");
        let (batch, after) = sent.split_at(octets);
        assert!(wire::udp::Batch::new_checked(batch).is_ok());
        sent = after;
    }
}

/// A UDP peer's datagrams.
pub(crate) fn udp_link(octets: &[u8]) {
    for form in [links::udp::Form::Cell(Format::Uni), links::udp::Form::Batch] {
        let (mut network, link) = outside(Carries::Cells);
        let mut codec = links::udp::Codec::new(form);
        for datagram in octets.chunks(usize::from(octets.first().copied().unwrap_or(53)).max(1) * 6) {
            network.external(link, Time::ZERO, |io| codec.receive(datagram, io));
            network.run(Time::ZERO);
        }
    }
}

/// Octets of a descriptor's head and of what its body may hold.
const DESCRIPTOR_OCTETS: usize = 64;

/// What a hostile client writes into its segment: the whole of it, in portions, between rounds of the host.
pub(crate) fn descriptors(octets: &[u8]) {
    let geometry = Geometry { send_ring: 4, receive_ring: 4, free_ring: 4, buffers: 4, buffer_octets: 128 };
    let paths = [DataPath::Shared, DataPath::Copying, DataPath::SingleCopy];
    for (path, carries) in paths.into_iter().zip([Carries::Cells, Carries::Frames, Carries::Cells]) {
        let segment = Arc::new(Segment::anonymous(geometry).expect("a small segment"));
        let mut network = Network::new(FramePool::new(8, 65_536));
        let nodes = [0, 1].map(|i| {
            let mut host = HostInterface::new(2);
            host.add_circuit(CircuitId::from_key(100), CircuitConfig::default());
            host.add_circuit(CircuitId::from_key(101), CircuitConfig::default());
            host.add_circuit(CircuitId::from_key(102), CircuitConfig::default());
            let segment =
                if i == 0 { segment.clone() } else { Arc::new(Segment::anonymous(geometry).expect("a small segment")) };
            let id = host.attach(HostEndpoint::new(segment, Events::Polling, path, None)).expect("room");
            host.open(id, CircuitId::from_key(100), Aal::Aal5).expect("a circuit");
            host.open(id, CircuitId::from_key(101), Aal::Aal0).expect("a circuit");
            host.open(id, CircuitId::from_key(102), Aal::Aal34).expect("a circuit");
            network.add_node(["a", "b"][i], Box::new(host))
        });
        let config = LinkConfig { carries, queue_cells: 64, ..LinkConfig::default() };
        network.connect(End::Port(nodes[0], 0), End::Port(nodes[1], 0), config).expect("fresh ports");
        // Each portion: where (two octets), then a descriptor's worth of octets, and the send ring's producer index.
        for (i, part) in octets.chunks(2 + DESCRIPTOR_OCTETS).enumerate() {
            let Some((at, data)) = part.split_at_checked(2) else { break };
            let at = usize::from(u16::from_le_bytes([at[0], at[1]])) % (geometry.octets() - DESCRIPTOR_OCTETS);
            segment.copy_in(at, data);
            let (head, body) = data.split_at(data.len().min(HEAD_OCTETS));
            segment.copy_in(Geometry::heads_at(geometry.send_at()) + (i % 4) * HEAD_OCTETS, head);
            segment.copy_in(Geometry::bodies_at(geometry.send_at(), geometry.send_ring) + (i % 4) * BODY_OCTETS, body);
            if i % 3 != 2 {
                segment.copy_in(geometry.send_at() + 64, &(i as u32 + 1).to_ne_bytes());
            }
            for _ in 0..3 {
                network.run(Time::from_micros(i as u64));
            }
        }
        assert!(network.pool().in_use() <= 8);
        // Its connection ends; it has a copy of the memory, and goes on writing.
        let hostile = network.node_mut::<HostInterface>(nodes[0]).expect("a host");
        let id = hostile.endpoints()[0].id;
        assert!(hostile.depart(id));
        for i in 0..16u32 {
            segment.copy_in(geometry.send_at() + 64, &(i * 3).to_ne_bytes());
            network.run(Time::from_millis(100 + u64::from(i) * 50));
        }
        let hostile = network.node_mut::<HostInterface>(nodes[0]).expect("a host");
        assert!(hostile.endpoints().is_empty(), "an endpoint whose application has gone ends");
    }
}

/// IP and ATMARP from a circuit's far end.
pub(crate) fn ip(octets: &[u8]) {
    use stack::ip::{Config, Fragments, IpInterface, Join, MAX_MESSAGE_OCTETS, Verdict, too_big};
    let config = Config { offload: true, ..Config::new(std::net::Ipv4Addr::new(10, 0, 0, 1)) };
    let mut ip = IpInterface::new(config);
    // The first octet says who it is: a server, a client, or neither.
    match octets.first().map(|o| o % 3) {
        Some(0) => ip.serve(8, Time::ZERO),
        Some(1) => ip.use_server(1, Time::ZERO),
        _ => {}
    }
    ip.add_circuit(1, None, Time::ZERO);
    let mut sdu = vec![0; stack::ip::MTU + 64];
    let mut join = Join::new(0);
    for (i, pdu) in octets.chunks(64).enumerate() {
        let now = Time::from_millis(i as u64 * 20_000);
        if let Some(delivery) = ip.handle_pdu(1, pdu, now) {
            let mut packet = delivery.packet.to_vec();
            if !join.append(&packet) {
                if let Some((header, joined, segments)) = join.poll_packet() {
                    assert_eq!(header.cut(joined, 0).map_or(1, |cut| cut.count(joined)), segments);
                }
                let _ = join.begin(&packet);
            }
            if let Some(cut) = delivery.header.cut(&packet, 0) {
                let _ = cut.write(&packet, i, &mut sdu);
            }
            delivery.header.complete(&mut packet, i % 2 == 0);
        }
        match ip.route(pdu, now) {
            Verdict::To(_) => {
                sdu[8..8 + pdu.len()].copy_from_slice(pdu);
                assert!(ip.encapsulate(&mut sdu, pdu.len()).is_none_or(|n| n == pdu.len() + 8));
            }
            Verdict::Waits(hop) => ip.keep(hop, &Default::default(), pdu, now),
            _ => {}
        }
        while let Some((_, octets)) = ip.poll_kept(&mut sdu) {
            assert!((20..=64).contains(&octets));
        }
        if let Some(fragments) = Fragments::new(pdu, 40) {
            let _ = fragments.write(pdu, i, &mut sdu);
        }
        let _ = too_big(pdu, 40, [10, 0, 0, 1], &mut sdu[..MAX_MESSAGE_OCTETS]);
        ip.handle_timeout(now);
        while let Some((_, said)) = ip.poll_pdu(&mut sdu) {
            assert!(said <= wire::atmarp::MAX_OCTETS + 8);
        }
    }
}

/// A transfer's peer.
pub(crate) fn transfer(octets: &[u8]) {
    let mut sender = stack::transfer::Sender::new(0, Time::ZERO);
    let mut receiver = stack::transfer::Receiver::new();
    for (i, pdu) in octets.chunks(32).enumerate() {
        let now = Time::from_millis(i as u64);
        if sender.has_room() {
            sender.push(&[1, 2, 3], false, now);
            sender.sent(now);
        }
        sender.handle_pdu(pdu, now);
        receiver.handle_pdu(pdu);
        let _ = receiver.poll_transmit(true);
        while receiver.poll_octets().is_some() {}
        sender.handle_timeout(now);
    }
}
