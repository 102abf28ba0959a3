//! What comes in where it does not belong: at another port, or as a cell that is no part of a PDU.

use endpoint::layout::{Descriptor, Geometry, Head};
use endpoint::segment::Segment;
use endpoint::{Aal, DataPath, Events, Local};
use host::{CircuitConfig, HostEndpoint, HostInterface};
use net::{End, FramePool, LinkConfig, LinkId, Network, NodeId};
use sar::{SduMeta, Segmentation};
use std::sync::Arc;
use std::time::Duration;
use wire::oam::{Flow, Function};
use wire::{Cell, CellHeader, CircuitId, Counters, DropReason, PayloadType, Time};

const BUFFERS: u32 = 8;

/// A host with circuit 0.100 on port 0, open, and a link from outside at ports 0 and 1.
struct Border {
    network: Network,
    node: NodeId,
    links: [LinkId; 2],
    application: Local,
    now: Time,
}

fn circuit() -> CircuitId {
    CircuitId::new(0, 100).unwrap()
}

impl Border {
    fn new(aal: Aal) -> Self {
        Border::with_path(aal, DataPath::Shared)
    }

    fn with_path(aal: Aal, path: DataPath) -> Self {
        let mut network = Network::new(FramePool::new(8, 65_536));
        let geometry =
            Geometry { send_ring: 16, receive_ring: 64, free_ring: 16, buffers: BUFFERS, buffer_octets: 2048 };
        let segment = Arc::new(Segment::anonymous(geometry).unwrap());
        let mut application = Local::new(&segment);
        for buffer in 0..BUFFERS {
            application.free.push(Head::of_buffer(buffer));
        }
        let mut host = HostInterface::new(4);
        host.add_circuit(circuit(), CircuitConfig::default());
        let id = host.attach(HostEndpoint::new(segment, Events::Polling, path, None)).unwrap();
        host.open(id, circuit(), aal).unwrap();
        let node = network.add_node("beta", Box::new(host));
        let links =
            [0, 1].map(|port| network.connect(End::External, End::Port(node, port), LinkConfig::default()).unwrap());
        Border { network, node, links, application, now: Time::ZERO }
    }

    fn put(&mut self, port: usize, cells: &[Cell]) {
        let now = self.now;
        let all = self.network.external(self.links[port], now, |io| cells.iter().all(|cell| io.put_cell(0, cell)));
        assert_eq!(all, Some(true));
        self.network.run(now);
        self.now += Duration::from_micros(1);
    }

    /// The SDUs that have come; their buffers go back.
    fn received(&mut self) -> Vec<usize> {
        let mut all = Vec::new();
        while let Some(d) = self.application.receive.pop() {
            all.push(d.head.octets as usize);
            if d.head.buffer != Descriptor::INLINE {
                self.application.free.push(Head::of_buffer(d.head.buffer));
            }
        }
        all
    }

    fn host(&mut self) -> &mut HostInterface {
        self.network.node_mut(self.node).unwrap()
    }

    fn of_circuit(&mut self) -> Counters {
        self.host().circuits()[0].received
    }
}

fn pdu(octets: usize) -> Vec<Cell> {
    let mut segmentation = Segmentation::new(circuit(), octets, SduMeta::default()).unwrap();
    let mut cells = vec![Cell::default(); wire::aal5::cells(octets)];
    segmentation.fill(&vec![1; octets], &mut cells);
    cells
}

fn of_type(payload_type: u8) -> Cell {
    let mut cell = pdu(10)[0];
    cell.set_header_word(cell.header_word() & !0b1110 | u32::from(payload_type) << 1);
    cell
}

#[test]
fn what_comes_in_at_another_port_is_counted_and_disturbs_nothing() {
    let mut border = Border::new(Aal::Aal5);
    let (honest, forged) = (pdu(1000), pdu(500));
    border.put(0, &honest[..10]);
    border.put(1, &forged);
    border.put(0, &honest[10..]);
    assert_eq!(border.received(), [1000]);
    let stray = *border.host().stray();
    assert_eq!(stray.dropped(DropReason::WrongPort), forged.len() as u64);
    assert_eq!(border.of_circuit().dropped_total(), 0);
}

#[test]
fn cells_of_no_pdu_take_no_buffer_from_it_wherever_they_come() {
    for aal in [Aal::Aal5, Aal::Aal34] {
        for payload_type in [6, 7] {
            let mut border = Border::new(aal);
            // Many times as often as there are buffers: between PDUs, ...
            for _ in 0..20 * BUFFERS {
                border.put(0, &[of_type(payload_type)]);
            }
            assert_eq!(border.of_circuit().dropped(DropReason::WrongAal), u64::from(20 * BUFFERS));
            if aal == Aal::Aal34 {
                continue;
            }
            // ... and before, in and after one.
            for _ in 0..20 * BUFFERS {
                let cells = pdu(1000);
                let mixed: Vec<Cell> = cells.iter().flat_map(|cell| [of_type(payload_type), *cell]).collect();
                border.put(0, &mixed);
                border.put(0, &[of_type(payload_type)]);
                assert_eq!(border.received(), [1000], "{payload_type}");
            }
        }
    }
}

#[test]
fn a_message_of_bare_cells_leaves_as_a_user_cell_whatever_its_header_says() {
    let mut border = Border::new(Aal::Aal0);
    for payload_type in 0..8u32 {
        let mut d = Descriptor::from(Head::of_buffer(0));
        d.head.octets = 52;
        border
            .application
            .segment
            .copy_in(border.application.segment.geometry().buffer_at(0).unwrap(), &(payload_type << 1).to_be_bytes());
        border.application.send.push(d);
        border.network.run(border.now);
        let link = border.links[0];
        let now = border.now;
        let sent = border.network.external(link, now, |io| {
            let cell = io.cells_in(0)[0];
            io.consume(0, 1);
            cell
        });
        let left = sent.unwrap().header().payload_type;
        assert!(matches!(left, PayloadType::User { .. }), "{payload_type} left as {left:?}");
    }
}

/// What leaves of an SDU, as the octets of its cells.
fn leaves(border: &mut Border, sdu: &[u8]) -> Vec<u8> {
    let segment = border.application.segment.clone();
    segment.copy_in(segment.geometry().buffer_at(0).unwrap(), sdu);
    let mut d = Descriptor::from(Head::of_buffer(0));
    d.head.octets = sdu.len() as u32;
    border.application.send.push(d);
    border.network.run(border.now);
    border.now += Duration::from_micros(1);
    let taken = border.network.external(border.links[0], border.now, |io| {
        let mut octets = Vec::new();
        // In parts where the link's ring begins again.
        while !io.cells_in(0).is_empty() {
            octets.extend(io.cells_in(0).iter().flat_map(|cell| cell.payload));
            io.consume(0, io.cells_in(0).len());
        }
        octets
    });
    taken.unwrap()
}

#[test]
fn padding_holds_no_octet_of_an_earlier_sdu() {
    for path in [DataPath::Copying, DataPath::Shared, DataPath::ZeroCopy] {
        let mut border = Border::with_path(Aal::Aal5, path);
        for octets in 1..200 {
            leaves(&mut border, &[0xc5; 2000]);
            let payload = leaves(&mut border, &vec![1; octets]);
            let padding = &payload[octets..payload.len() - 8];
            assert!(padding.iter().all(|octet| *octet == 0), "{path:?}, {octets} octets: {padding:x?}");
        }
    }
}

#[test]
fn a_pdu_that_is_arriving_when_its_circuit_is_closed_is_counted() {
    let mut border = Border::new(Aal::Aal5);
    border.put(0, &pdu(1000)[..5]);
    let id = border.host().endpoints()[0].id;
    border.host().close(id, endpoint::ChannelId(0)).unwrap();
    assert_eq!(border.of_circuit().dropped(DropReason::Closed), 1);
    // Its buffer is back: as many PDUs come as there are buffers.
    border.host().open(id, circuit(), Aal::Aal5).unwrap();
    for _ in 0..BUFFERS {
        border.put(0, &pdu(1000));
    }
    assert_eq!(border.received().len(), BUFFERS as usize);
    assert_eq!(border.host().mismatch(), None);
}

/// As many bare cells as there are, each a message.
fn bare(n: usize) -> Vec<Cell> {
    vec![pdu(10)[0]; n]
}

#[test]
fn a_full_ring_a_lack_of_buffers_and_a_senseless_descriptor_are_told_apart() {
    let received = |border: &mut Border| border.host().endpoints()[0].received;
    let reasons = [DropReason::RingFull, DropReason::NoBuffer, DropReason::BadDescriptor];
    let counted = |border: &mut Border| reasons.map(|reason| received(border).dropped(reason));
    // Fewer buffers than the ring has places: they are what is missing.
    let mut border = Border::new(Aal::Aal0);
    border.put(0, &bare(20));
    assert_eq!(counted(&mut border), [0, 20 - u64::from(BUFFERS), 0]);
    assert_eq!(border.received().len(), BUFFERS as usize);
    // A buffer that is none is dropped by itself, and the cell that it was to hold has no buffer.
    assert!(border.application.free.push(Head::of_buffer(BUFFERS)));
    border.put(0, &bare(BUFFERS as usize + 1));
    assert_eq!(counted(&mut border), [0, 21 - u64::from(BUFFERS), 1]);
    // Messages inside descriptors need no buffers: 64 fill the ring.
    let mut border = Border::new(Aal::Aal5);
    (0..70).for_each(|_| border.put(0, &pdu(10)));
    assert_eq!(counted(&mut border), [6, 0, 0]);
    // One for which there is no place is not even checked, ...
    let mut damaged = pdu(10);
    damaged[0].payload[3] ^= 1;
    border.put(0, &damaged);
    assert_eq!((counted(&mut border), received(&mut border).dropped(DropReason::Crc)), ([7, 0, 0], 0));
    assert_eq!(border.received().len(), 64);
    // ... and the next one is.
    border.put(0, &damaged);
    border.put(0, &pdu(10));
    assert_eq!((counted(&mut border), received(&mut border).dropped(DropReason::Crc)), ([7, 0, 0], 1));
    assert_eq!(border.received().len(), 1);
}

#[test]
fn management_cells_that_an_application_sends_and_gets_are_cells_and_no_pdus() {
    let mut border = Border::new(Aal::Aal5);
    let id = border.host().endpoints()[0].id;
    let channel = border.host().open(id, circuit(), Aal::Oam).unwrap();
    let header = Flow::F5EndToEnd.header(CellHeader { circuit: circuit(), ..CellHeader::default() });
    let cell = Cell::new(header, Function::ContinuityCheck.emit());
    let segment = border.application.segment.clone();
    segment.copy_in(segment.geometry().buffer_at(0).unwrap(), &sar::aal0::to_message(&cell));
    let mut d = Descriptor::from(Head::of_buffer(0));
    (d.head.channel, d.head.octets) = (channel.0, 52);
    for _ in 0..3 {
        assert!(border.application.send.push(d));
        border.network.run(border.now);
        border.now += Duration::from_micros(1);
    }
    border.put(0, &[cell; 5]);
    assert_eq!(border.received(), [52; 5]);
    let endpoint = border.host().endpoints()[0].clone();
    let circuit = border.host().circuits()[0].clone();
    for (sent, received) in [(endpoint.sent, endpoint.received), (circuit.sent, circuit.received)] {
        assert_eq!((sent.cells, sent.pdus, sent.octets), (3, 0, 0));
        assert_eq!((received.cells, received.pdus, received.octets), (5, 0, 0));
    }
    assert_eq!(border.host().mismatch(), None);
}
