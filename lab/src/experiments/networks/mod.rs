//! Seed 002 (Kazantzidis 1997): its three networks with the same work, and the table of its section 5.

mod table;
mod today;
mod trial;
mod work;

use crate::experiment::{Experiment, Figure, Origin, Run};
use crate::model::ProfileError;
use crate::model::networks::{Kind, Protocol, Streamed};
use core::time::Duration;
use lanai::MulticastBy;
pub(crate) use trial::ask;
pub(super) use work::chip_of;
use work::{Gathered, Made, OneWay};

/// Octets of messages.
const SIZES: [usize; 6] = [16, 40, 256, 1024, 4096, 8192];
/// Octets of data in a TCP segment.
const SEGMENTS: [usize; 4] = [512, 1024, 2048, 8192];
/// Of a connection: slow start is over in the first half.
const TCP_LENGTH: Duration = Duration::from_millis(100);
/// Octets of TCP's window.
const WINDOW: usize = 65_535;

/// See the module's head.
#[derive(Debug)]
pub struct Networks;

impl Experiment for Networks {
    fn name(&self) -> &'static str {
        "seed002-networks"
    }

    fn title(&self) -> &'static str {
        "U-Net's cluster, a chain of APICs and a Myrinet, with the same work of the same hosts"
    }

    fn run(&self, run: &mut Run<'_>) -> Result<(), ProfileError> {
        let names = ["sparcstation20", "unet-sba200", "apic", "myrinet-lanai"];
        let [host, unet, chip, lanai] = names.map(|name| run.machine(name));
        let (host, unet, chip, lanai) = (host?, unet?, chip?, lanai?);
        let made = Made::new([&host, &unet, &chip, &lanai])?;
        let protocol = Protocol {
            segment: host.get("segment_us")? * 1e-6,
            checksum: host.get("checksum_ns")? * 1e-9,
            octets: SEGMENTS[1],
            window: WINDOW,
        };
        let ms = |full, quick| Duration::from_millis(run.size(full, quick));
        let lengths = [ms(40, 8), ms(60, 16)];
        let found = Found::new(run, &made, protocol, lengths);
        found.figures(run);
        found.numbers(run, &made);
        let old = run.machine("sparcstation2")?;
        found.table(run, &made, &old)
    }

    fn today(&self, run: &mut Run<'_>) {
        today::today(run);
    }
}

/// What all workloads gave, by network in the order of [`Kind::ALL`].
struct Found {
    one_way: [[OneWay; SIZES.len()]; 3],
    round_trips: [[f64; SIZES.len()]; 3],
    senders: [[Gathered; 4]; 3],
    /// By the receiver's buffers: 1, 4, 16.
    slow: [[Gathered; SLOW.len()]; 3],
    buffers: [[Gathered; 5]; 3],
    /// Cycle and repetition are two ways of a Myrinet.
    multicast: [[[f64; 2]; 3]; 4],
    /// By how many streams are beside: U-Net, APIC, Myrinet; then U-Net and APIC with low latency.
    paced: [[[f64; 2]; 4]; 5],
    tcp: [[Streamed; SEGMENTS.len()]; 3],
}

/// Buffers that a receiver posts.
const POSTED: [usize; 5] = [1, 2, 4, 8, 16];
/// The same of one that is too slow.
const SLOW: [usize; 3] = [1, 4, 16];
/// Receivers of a group.
const RECEIVERS: [usize; 3] = [1, 3, 7];
const GROUPS: [(&str, Kind); 4] = [
    ("U-Net", Kind::Unet),
    ("APIC", Kind::Apic),
    ("Myrinet, cycle", Kind::Myrinet(MulticastBy::Cycle)),
    ("Myrinet, repeated", Kind::Myrinet(MulticastBy::Repetition)),
];
const PACED: [(&str, Kind, bool); 5] = [
    ("U-Net", Kind::Unet, false),
    ("APIC", Kind::Apic, false),
    ("Myrinet", Kind::ALL[2], false),
    ("U-Net, low latency", Kind::Unet, true),
    ("APIC, low latency", Kind::Apic, true),
];

impl Found {
    fn new(run: &mut Run<'_>, made: &Made, protocol: Protocol, [short, long]: [Duration; 2]) -> Self {
        let mut tcp =
            |kind, octets| run.ran(made.tcp(kind, Protocol { octets, ..protocol }, TCP_LENGTH), "TCP over a network");
        let tcp = Kind::ALL.map(|kind| SEGMENTS.map(|octets| tcp(kind, octets)));
        Found {
            one_way: Kind::ALL
                .map(|kind| SIZES.map(|n| run.ran(made.one_way(kind, n, short), "messages one way over a network"))),
            round_trips: Kind::ALL
                .map(|kind| SIZES.map(|n| run.ran(made.round_trip(kind, n), "a round trip over a network"))),
            senders: Kind::ALL.map(|kind| {
                [1, 2, 3, 4].map(|n| run.ran(made.senders(kind, n, long), "several senders over a network"))
            }),
            slow: Kind::ALL
                .map(|kind| SLOW.map(|n| run.ran(made.slow_receiver(kind, n, long), "a slow receiver over a network"))),
            buffers: Kind::ALL
                .map(|kind| POSTED.map(|n| run.ran(made.buffers(kind, n, short), "few buffers over a network"))),
            multicast: GROUPS
                .map(|(_, kind)| RECEIVERS.map(|n| run.ran(made.multicast(kind, n, short), "a group over a network"))),
            paced: PACED.map(|(_, kind, urgent)| {
                [0, 1, 2, 3]
                    .map(|beside| run.ran(made.paced(kind, urgent, beside, short), "a paced stream over a network"))
            }),
            tcp,
        }
    }

    fn figures(&self, run: &mut Run<'_>) {
        let octets = "octets of a message";
        let mut add = |name: &str, title: &str, axes: [&str; 2], log: bool, curves: Vec<(String, Vec<(f64, f64)>)>| {
            let mut figure = Figure::new(&format!("seed002-networks-{name}"), title, axes, [log, false]);
            for (label, points) in curves {
                figure.add(&label, Origin::Modelled, points);
            }
            run.figure(figure);
        };
        let by_size = |of: &dyn Fn(usize, usize) -> f64| {
            let curve = |n: usize| (0..SIZES.len()).map(|i| (SIZES[i] as f64, of(n, i))).collect();
            Kind::ALL.iter().enumerate().map(|(n, kind)| (kind.name().to_owned(), curve(n))).collect()
        };
        add("one-way", "Messages one way", [octets, "Mbit/s"], true, by_size(&|n, i| self.one_way[n][i].mbit_s));
        add("round-trip", "A message and its answer", [octets, "us"], true, by_size(&|n, i| self.round_trips[n][i]));
        add(
            "processor",
            "Processor time of both hosts for a message",
            [octets, "us"],
            true,
            by_size(&|n, i| self.one_way[n][i].processor_us),
        );
        add(
            "crossings",
            "Octets that cross a host's memory bus for an octet of a message",
            [octets, "octets"],
            true,
            by_size(&|n, i| self.one_way[n][i].crossings),
        );
        add(
            "touches",
            "Octets that a processor reads or writes for an octet of a message",
            [octets, "octets"],
            true,
            by_size(&|n, i| self.one_way[n][i].touches),
        );
        let by = |x: &[usize], of: &dyn Fn(usize, usize) -> f64| {
            let curve = |n: usize| x.iter().enumerate().map(|(i, x)| (*x as f64, of(n, i))).collect();
            Kind::ALL.iter().enumerate().map(|(n, kind)| (kind.name().to_owned(), curve(n))).collect::<Vec<_>>()
        };
        add(
            "senders",
            "Senders of 4096 octets to one receiver",
            ["senders", "Mbit/s in all"],
            false,
            by(&[1, 2, 3, 4], &|n, i| self.senders[n][i].mbit_s),
        );
        add(
            "least-sender",
            "Senders of 4096 octets to one receiver: the one with the least",
            ["senders", "Mbit/s"],
            false,
            by(&[1, 2, 3, 4], &|n, i| self.senders[n][i].least),
        );
        let lost = |gathered: &Gathered| gathered.missing as f64 / gathered.taken.max(1) as f64 * 100.0;
        add(
            "lost",
            "Senders of 4096 octets to one receiver: messages that are lost",
            ["senders", "per cent"],
            false,
            by(&[1, 2, 3, 4], &|n, i| lost(&self.senders[n][i])),
        );
        add(
            "held",
            "Senders of 4096 octets to one receiver: its buffers that wait for the processor",
            ["senders", "buffers at most"],
            false,
            by(&[1, 2, 3, 4], &|n, i| self.senders[n][i].held as f64),
        );
        add(
            "slow",
            "A receiver that takes 500 us for each message of 4096 octets: messages that are lost",
            ["buffers of the receiver", "per cent"],
            false,
            by(&SLOW, &|n, i| lost(&self.slow[n][i])),
        );
        add(
            "buffers",
            "A stream of 1024 octets, by the receiver's buffers",
            ["buffers", "Mbit/s"],
            false,
            by(&POSTED, &|n, i| self.buffers[n][i].mbit_s),
        );
        add("tcp", "TCP", ["octets of a segment", "Mbit/s"], true, by(&SEGMENTS, &|n, i| self.tcp[n][i].mbit_s));
        let groups = |which: usize| {
            let curve =
                |n: usize| RECEIVERS.iter().zip(self.multicast[n]).map(|(x, y)| (*x as f64, y[which])).collect();
            GROUPS.iter().enumerate().map(|(n, (label, _))| ((*label).to_owned(), curve(n))).collect()
        };
        add("multicast", "A group: what each receiver gets", ["receivers", "Mbit/s"], false, groups(0));
        add(
            "group-sender",
            "A group: octets that the sender's interface moves for an octet of a message",
            ["receivers", "octets"],
            false,
            groups(1),
        );
        let paced = |which: usize| {
            let curve = |n: usize| self.paced[n].iter().enumerate().map(|(x, y)| (x as f64, y[which])).collect();
            PACED.iter().enumerate().map(|(n, (label, ..))| ((*label).to_owned(), curve(n))).collect()
        };
        let beside = "streams of 8192 octets beside";
        add("paced", "1024 octets each 500 us: the mean", [beside, "us"], false, paced(0));
        add("paced-most", "1024 octets each 500 us: the longest", [beside, "us"], false, paced(1));
    }
}
