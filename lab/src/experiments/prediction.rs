//! Seed 000, sections 3.1 to 3.5: receive prediction, statistical alignment, trailer repair, checksum omission.
//!
//! PDUs come through the just-in-time adapter of [`jit`] into the buffers of its lists, and are judged by where they
//! lie; which checksums may be left out is asked of [`stack::ip`].

use crate::experiment::{Experiment, Figure, Origin, Run, Test};
use crate::model::{ProfileError, Random};
use bus::HostMemory;
use bus::memory::Flat;
use jit::{Buffer, Config, Descriptor, Event, Jit, Lists};
use remap::layers::UDP_OCTETS;
use remap::look::{HEADERS, Look};
use stack::ip::{self, IpInterface, Verdict};
use std::net::Ipv4Addr;
use wire::aal5::MAX_SDU_OCTETS;
use wire::{Cell, CircuitId, Time};

const PAGE: u64 = 4096;
/// Octets of an application's data, in PDUs whose alignment is asked for.
const DATA: usize = 64;
const LLC: usize = 8;
const IP: usize = 20;

/// Applications that share a circuit: protocol, port, octets of the transport's header, octets of the application's own
/// control information before its data.
const APPLICATIONS: [(u8, u16, usize, usize); 3] = [(17, 5001, 8, 0), (17, 5002, 8, 4), (6, 5003, 20, 0)];

/// What stands before an application's data.
const fn before((_, _, transport, control): (u8, u16, usize, usize), options: usize) -> usize {
    LLC + IP + options + transport + control
}

/// A PDU of an application over LLC/SNAP, with so many octets of IP options.
fn pdu(application: (u8, u16, usize, usize), options: usize) -> Vec<u8> {
    let (protocol, port, _, _) = application;
    let mut octets = vec![0; before(application, options) + DATA];
    octets[..LLC].copy_from_slice(&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0]);
    octets[LLC] = 0x40 | ((IP + options) / 4) as u8;
    octets[LLC + 9] = protocol;
    octets[LLC + IP + options + 2..][..2].copy_from_slice(&port.to_be_bytes());
    octets
}

/// What stands before the data, as a quick look says: at protocol and port, as if there were no IP options.
fn predicted(pdu: &[u8]) -> Option<usize> {
    let port = u16::from_be_bytes([pdu[LLC + IP + 2], pdu[LLC + IP + 3]]);
    APPLICATIONS.into_iter().find(|a| (a.0, a.1) == (pdu[LLC + 9], port)).map(|a| before(a, 0))
}

/// A datagram of the first application with so many octets of data, and others behind it that are not UDP's.
fn datagram(octets: usize, behind: usize) -> Vec<u8> {
    let mut pdu = pdu(APPLICATIONS[0], 0);
    pdu.resize(HEADERS + octets, 0);
    pdu[LLC + 2..][..2].copy_from_slice(&((IP + UDP_OCTETS + octets) as u16).to_be_bytes());
    pdu[LLC + IP + 4..][..2].copy_from_slice(&((UDP_OCTETS + octets) as u16).to_be_bytes());
    pdu.resize(HEADERS + octets + behind, 0);
    pdu
}

/// Pages that a datagram takes, whose data begin with one: with no length, by AAL5's and by UDP's. `None`: the look has not seen it.
fn pages(pdu: &[u8]) -> Option<[u64; 3]> {
    let word = |n: usize| pdu[4 * n..][..4].iter().fold(0, |word, octet| word << 8 | u32::from(*octet));
    let by_udp = Look::new(pdu.len(), word)?.pdu_octets(pdu.len(), word);
    // One page is that of the headers.
    Some([MAX_SDU_OCTETS, pdu.len(), by_udp].map(|octets| 1 + (octets.saturating_sub(HEADERS) as u64).div_ceil(PAGE)))
}

/// A host with the adapter, its fibre looped: what it sends comes back.
struct Host {
    adapter: Jit,
    memory: Flat,
    circuit: CircuitId,
    now: Time,
}

impl Host {
    /// Buffers of a page in as many lists as there are applications, placed so that the data of each begin with a page.
    fn new() -> Option<Self> {
        let (mut adapter, circuit) = (Jit::new(Config { cells: 64, ..Config::default() }), CircuitId::new(0, 100)?);
        let memory = Flat::new(0, 1 << 20);
        adapter.open(circuit, Lists { first: 0, rest: 0 });
        for (list, application) in APPLICATIONS.into_iter().enumerate() {
            for n in 1..20 {
                let address = (1 << 17) + 0x2_0000 * list as u64 + PAGE * n - before(application, 0) as u64;
                adapter.replenish(list, Buffer { address, octets: PAGE as u32 });
            }
        }
        Some(Host { adapter, memory, circuit, now: Time::ZERO })
    }

    /// Sends an SDU round and gives where it lies: buffers, and octets in each. They are free again.
    fn receive(&mut self, sdu: &[u8], list: usize) -> Vec<(Buffer, u32)> {
        self.adapter.set_lists(self.circuit, Lists { first: list, rest: list });
        let descriptor = Descriptor { circuit: self.circuit, address: 0, octets: sdu.len() as u32, cookie: 0 };
        if self.memory.write(0, sdu).is_err() || !self.adapter.send(0, descriptor) {
            return Vec::new();
        }
        let mut cells = [Cell::default(); 8];
        while let Some(next) = self.adapter.poll_timeout() {
            self.now = self.now.max(next);
            self.adapter.run(&mut self.memory, self.now);
            let n = self.adapter.fill(&mut cells, &mut self.memory, self.now);
            self.adapter.handle_cells(&cells[..n], self.now);
        }
        let mut placed = Vec::new();
        while let Some(event) = self.adapter.poll_event() {
            if let Event::Received { buffers, .. } = event {
                placed = buffers;
            }
        }
        placed.iter().for_each(|(buffer, _)| {
            self.adapter.replenish(list, *buffer);
        });
        placed
    }
}

/// Of `pdus`, the share in per cent whose data lies, or would be put, where it is wanted, at a page's start: by a quick look at
/// the headers (a buffering adapter looks before it moves data), and by the alignment that the last PDU needed (a just-in-time
/// adapter has its buffers before). `first` per cent are of the first application, `options` have IP options.
fn hits(host: &mut Host, random: &mut Random, pdus: u64, first: f64, options: f64) -> [f64; 2] {
    let (mut perfect, mut statistical, mut last) = (0u64, 0u64, 0usize);
    for _ in 0..pdus {
        let kind = if random.uniform() * 100.0 < first { 0 } else { 1 + random.below(2) as usize };
        let extra = if random.uniform() * 100.0 < options { 4 } else { 0 };
        let pdu = pdu(APPLICATIONS[kind], extra);
        let actual = before(APPLICATIONS[kind], extra);
        perfect += u64::from(predicted(&pdu) == Some(actual));
        let placed = host.receive(&pdu, last);
        let data = placed.first().map(|(buffer, _)| buffer.address + actual as u64);
        statistical += u64::from(data.is_some_and(|at| at % PAGE == 0));
        // Verified afterwards: the host knows now what this one would have needed.
        last = kind;
    }
    [perfect, statistical].map(|n| 100.0 * n as f64 / pdus.max(1) as f64)
}

/// Whether the last octets of a PDU, its application's trailer, lie on two pages.
fn straddles(host: &mut Host, octets: usize, trailer: usize) -> bool {
    // The first application's list: its header before, data from a page's start on.
    let header = before(APPLICATIONS[0], 0);
    let placed = host.receive(&vec![0; header + octets + trailer], 0);
    let page_of = |mut at: usize| {
        for (buffer, used) in &placed {
            if at < *used as usize {
                return Some((buffer.address + at as u64) / PAGE);
            }
            at -= *used as usize;
        }
        None
    };
    page_of(header + octets) != page_of(header + octets + trailer - 1)
}

/// What the rule of section 3.1 says of a UDP packet to `to`: may its checksum be left out?
fn may_omit(interface: &mut IpInterface, to: Ipv4Addr) -> bool {
    let mut packet = [0u8; 28];
    packet[0] = 0x45;
    packet[9] = 17;
    packet[16..20].copy_from_slice(&to.octets());
    match interface.route(&packet, Time::ZERO) {
        Verdict::To(circuit) => interface.ends_at_destination(circuit, &packet),
        _ => false,
    }
}

/// Figure 3: a host in the LIS 10.0.0, a router there that leads to another LIS of the same ATM network, and beyond.
fn figure_three() -> [bool; 3] {
    let (neighbour, router) = (Ipv4Addr::new(10, 0, 0, 2), Ipv4Addr::new(10, 0, 0, 9));
    let mut interface = IpInterface::new(ip::Config::new(Ipv4Addr::new(10, 0, 0, 1)));
    interface.add_circuit(1, Some(neighbour), Time::ZERO);
    interface.add_circuit(2, Some(router), Time::ZERO);
    interface.add_route(Ipv4Addr::new(10, 1, 0, 0), 16, router);
    interface.add_route(Ipv4Addr::UNSPECIFIED, 0, router);
    let far = [neighbour, Ipv4Addr::new(10, 1, 0, 5), Ipv4Addr::new(192, 0, 2, 7)];
    far.map(|to| may_omit(&mut interface, to))
}

/// See the module's head.
#[derive(Debug)]
pub struct Prediction;

impl Experiment for Prediction {
    fn name(&self) -> &'static str {
        "seed000-prediction"
    }

    fn title(&self) -> &'static str {
        "Receive prediction and statistical alignment over traffic mixes, trailer repair, checksum omission"
    }

    fn run(&self, run: &mut Run<'_>) -> Result<(), ProfileError> {
        let mut random = run.random();
        let Some(mut host) = Host::new() else { return Ok(()) };
        let pdus = run.size(40_000, 4_000);
        let mixes = [50.0, 70.0, 80.0, 90.0, 95.0, 99.0, 100.0];
        let rates: Vec<[f64; 2]> = mixes.iter().map(|first| hits(&mut host, &mut random, pdus, *first, 0.1)).collect();
        let worst = rates.iter().map(|r| r[0]).fold(100.0, f64::min);
        run.words("A-37", "Perfect prediction of the protocol and of the receiving application can be comparably easy with buffering adapters",
            Test::new(worst > 99.0, "99 % of the PDUs are predicted over all mixes", "1 % mispredicted in any mix"), format!("{worst:.2} % at least over all mixes, with IP options in one PDU of a thousand"));
        run.words(
            "A-40",
            "the use of free buffer lists delays any reaction to changes in traffic patterns",
            Test::new(
                rates[0][1] < 50.0 && rates[5][1] > 95.0,
                "the last PDU's alignment fits less than 50 % of an even mix, and more than 95 % where 99 % are alike",
                "a hit rate that does not depend on the mix",
            ),
            format!(
                "the last PDU's alignment fits {:.0} % of an even mix, {:.1} % where 99 % are alike",
                rates[0][1], rates[5][1]
            ),
        );
        let long = run.size(4000, 400);
        let on_two = (0..long).filter(|_| straddles(&mut host, 1 + random.below(60_000) as usize, 8)).count();
        let random_share = on_two as f64 * 100.0 / long as f64;
        run.words(
            "A-43",
            "Since this operation should be very infrequent, no major performance loss should occur",
            Test::new(random_share < 1.0, "fewer than 1 % of PDUs of random length need a repair", "1 % or more"),
            format!("{random_share:.2} % of PDUs of all lengths have a trailer of 8 octets on two pages"),
        );
        let systematic = (0..100).filter(|_| straddles(&mut host, 2 * PAGE as usize - 4, 8)).count();
        run.words("A-43", "if trailer fragmentation occurs systematically on a VC, a different memory allocation strategy has to be chosen",
            Test::new(systematic == 100, "100 of 100 PDUs of such a length need a repair", "one that needs none"), "a circuit whose PDUs all have 8188 octets before the trailer repairs every one");
        let lengths = run.size(4000, 400);
        let (mut seen, mut taken) = (0, [0; 3]);
        for _ in 0..lengths {
            // Behind them up to the least that an Ethernet's frame carries.
            let pdu = datagram(random.below(9001) as usize, random.below(47) as usize);
            if let Some(pages) = pages(&pdu) {
                seen += 1;
                (0..3).for_each(|n| taken[n] += pages[n]);
            }
        }
        let mean = taken.map(|pages| pages as f64 / lengths.max(1) as f64);
        run.words(
            "A-39",
            "either the UDP packet length or the AAL5 payload length is needed to allocate the appropriate amount of buffer memory",
            Test::new(
                seen == lengths && mean[0] > 4.0 * mean[1] && mean[2] < mean[1],
                "without a length a datagram of up to 9 kB takes more than four times as many pages as by AAL5's; by UDP's it takes fewer \
                 still, where octets follow that are not UDP's",
                "as many pages without a length as with one",
            ),
            format!(
                "pages of a datagram, on average: {:.2} without a length, {:.3} by AAL5's, {:.3} by UDP's",
                mean[0], mean[1], mean[2]
            ),
        );
        run.words(
            "A-26",
            "End-to-end consistency is not guaranteed if UDP checksum is omitted on paths crossed out in the picture",
            Test::new(
                figure_three() == [true, false, false],
                "the IP interface lets the checksum be omitted within a LIS, not to another LIS, not over an IP router",
                "any other answer in one of the three cases",
            ),
            "asked of the IP interface for the figure's three cases; what omitting gains is in seed003-tables (A-25)",
        );
        run.absent(
            "A-34",
            "hit rates of prediction",
            "none",
            "the paper proposes prediction and measures none; the mixes of traffic here are assumed",
        );
        let mut figure = Figure::new(
            "prediction",
            "PDUs whose alignment was predicted",
            ["% of PDUs of one kind", "% predicted"],
            [false, false],
        );
        figure.add(
            "from headers (buffering adapter)",
            Origin::Modelled,
            mixes.iter().zip(&rates).map(|(m, r)| (*m, r[0])),
        );
        figure.add(
            "as the last on the circuit (just in time)",
            Origin::Modelled,
            mixes.iter().zip(&rates).map(|(m, r)| (*m, r[1])),
        );
        run.figure(figure);
        Ok(())
    }

    fn today(&self, run: &mut Run<'_>) {
        super::today::prediction(run);
    }
}
