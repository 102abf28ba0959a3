//! The same work on the machine at hand: applications at hosts of one daemon, with a switch of cells, a desk or a Myrinet
//! between them. Chips and symbols are the same state machines, beside real time.

use super::{GROUPS, RECEIVERS, SEGMENTS, SIZES};
use crate::experiment::{Figure, Measured, Probe, Run, Told, Workload};
use crate::model::networks::Kind;

/// Senders to one receiver.
const SENDERS: [usize; 4] = [1, 2, 3, 4];
/// Streams beside a paced one.
const BESIDE: [usize; 4] = [0, 1, 2, 3];

type Curve = Vec<(f64, Option<Measured>)>;

/// What a network has carried.
struct Seen {
    one_way: Curve,
    round_trips: Curve,
    processor: Curve,
    senders: Curve,
    least_sender: Curve,
    lost: Curve,
    slow: Option<Measured>,
    /// The mean and the longest, without low latency and with it, where there is any.
    paced: Vec<[Curve; 2]>,
    tcp: Curve,
}

/// A number of each of several workloads.
fn curve(run: &mut Run<'_>, over: Kind, xs: &[usize], told: Told, work: impl Fn(usize) -> Workload) -> Curve {
    xs.iter().map(|x| (*x as f64, run.measure(Probe::Carry { over, work: work(*x), what: told }))).collect()
}

impl Seen {
    fn new(run: &mut Run<'_>, over: Kind) -> Self {
        let paced = |run: &mut Run<'_>, low_latency| {
            [Told::Mean, Told::Most]
                .map(|told| curve(run, over, &BESIDE, told, |beside| Workload::Paced { beside, low_latency }))
        };
        // A Myrinet knows no urgent messages.
        let latencies: &[bool] = if let Kind::Myrinet(_) = over { &[false] } else { &[false, true] };
        Seen {
            one_way: curve(run, over, &SIZES, Told::Rate, |octets| Workload::Stream { octets }),
            round_trips: curve(run, over, &SIZES, Told::Mean, |octets| Workload::Answered { octets }),
            processor: curve(run, over, &SIZES, Told::Processor, |octets| Workload::Bursts { octets }),
            senders: curve(run, over, &SENDERS, Told::Rate, Workload::Senders),
            least_sender: curve(run, over, &SENDERS, Told::Least, Workload::Senders),
            lost: curve(run, over, &SENDERS, Told::Lost, Workload::Senders),
            slow: run.measure(Probe::Carry { over, work: Workload::SlowReceiver, what: Told::Lost }),
            paced: latencies.iter().map(|low| paced(run, *low)).collect(),
            tcp: curve(run, over, &SEGMENTS, Told::Rate, |octets| Workload::Tcp { octets }),
        }
    }

    fn rows(&self, run: &mut Run<'_>, over: Kind, group: &Curve) {
        let last = |curve: &Curve| curve.last().and_then(|(_, measured)| *measured);
        let small = |curve: &Curve| curve.get(1).and_then(|(_, measured)| *measured);
        let mut rows = vec![
            ("8192 octets one way".to_owned(), "Mbit/s", last(&self.one_way)),
            ("a message of 40 octets and its answer".to_owned(), "us", small(&self.round_trips)),
            ("processor time for a message of 40 octets".to_owned(), "us", small(&self.processor)),
            ("processor time for a message of 8192 octets".to_owned(), "us", last(&self.processor)),
            ("4 senders of 4096 octets, in all".to_owned(), "Mbit/s", last(&self.senders)),
            ("4 senders of 4096 octets, the one with the least".to_owned(), "Mbit/s", last(&self.least_sender)),
            ("4 senders of 4096 octets, messages that are lost".to_owned(), "%", last(&self.lost)),
            ("a receiver that takes 500 us for each message, messages that are lost".to_owned(), "%", self.slow),
            ("a group of 7, the receiver with the least".to_owned(), "Mbit/s", last(group)),
        ];
        for (paced, low) in self.paced.iter().zip(["", ", low latency"]) {
            for (curve, which) in paced.iter().zip(["mean", "longest"]) {
                let alone = curve.first().and_then(|(_, measured)| *measured);
                rows.push((format!("1024 octets each 500 us alone{low}: {which}"), "us", alone));
                rows.push((format!("the same beside 3 streams{low}: {which}"), "us", last(curve)));
            }
        }
        rows.push(("TCP, segments of 8192 octets".to_owned(), "Mbit/s", last(&self.tcp)));
        for (what, unit, measured) in rows {
            run.today("C-43", &format!("{}: {what}", over.name()), unit, None, measured).note(bound(over));
        }
    }
}

/// What a network's time is here.
const fn bound(over: Kind) -> &'static str {
    match over {
        Kind::Unet => "eight hosts at one switch, links without a rate: the processor is all that bounds them",
        Kind::Apic => {
            "hosts at a chain of eight chips, whose slots of 353 ns are simulated beside real time; where the processor cannot keep up, \
             the desk's time stands still"
        }
        Kind::Myrinet(_) => {
            "hosts at one switch, whose links and interfaces are simulated beside real time, to the symbol; where the processor cannot \
             keep up, the Myrinet's time stands still"
        }
    }
}

/// Puts the work to this machine.
pub(super) fn today(run: &mut Run<'_>) {
    let mut groups: Vec<Curve> = Vec::new();
    let mut seen: Vec<Seen> = Vec::new();
    // One network after another: each is brought up once, but for the second way to serve a group.
    for (_, over) in GROUPS {
        if Kind::ALL.contains(&over) {
            seen.push(Seen::new(run, over));
        }
        groups.push(curve(run, over, &RECEIVERS, Told::Least, Workload::Group));
    }
    for ((over, seen), group) in Kind::ALL.into_iter().zip(&seen).zip(&groups) {
        seen.rows(run, over, group);
    }
    figures(run, &seen, &groups);
}

fn figures(run: &mut Run<'_>, seen: &[Seen], groups: &[Curve]) {
    let mut add = |name: &str, title: &str, axes: [&str; 2], logarithmic: [bool; 2], curves: Vec<(String, &Curve)>| {
        let name = format!("seed002-networks-{name}-today");
        let mut figure = Figure::new(&name, &format!("Today: {title}"), axes, logarithmic);
        for (label, points) in curves {
            figure.add_measured(&label, points.iter().copied());
        }
        run.figure(figure);
    };
    let each = |of: fn(&Seen) -> &Curve| -> Vec<(String, &Curve)> {
        Kind::ALL.iter().zip(seen).map(|(kind, seen)| (kind.name().to_owned(), of(seen))).collect()
    };
    let (octets, log) = ("octets of a message", [true, true]);
    add("one-way", "messages one way", [octets, "Mbit/s"], log, each(|seen| &seen.one_way));
    add("round-trip", "a message and its answer", [octets, "us"], log, each(|seen| &seen.round_trips));
    add("processor", "processor time of all for a message", [octets, "us"], log, each(|seen| &seen.processor));
    let (title, linear) = ("senders of 4096 octets to one receiver", [false, true]);
    add("senders", title, ["senders", "Mbit/s in all"], linear, each(|seen| &seen.senders));
    let least = "senders of 4096 octets to one receiver: the one with the least";
    add("least-sender", least, ["senders", "Mbit/s"], [false, false], each(|seen| &seen.least_sender));
    let lost = "senders of 4096 octets to one receiver: messages that are lost";
    add("lost", lost, ["senders", "per cent"], [false, false], each(|seen| &seen.lost));
    let of_groups = GROUPS.iter().zip(groups).map(|((label, _), curve)| ((*label).to_owned(), curve)).collect();
    add("multicast", "a group: the receiver with the least", ["receivers", "Mbit/s"], linear, of_groups);
    let titles =
        [("paced", "1024 octets each 500 us: the mean"), ("paced-most", "1024 octets each 500 us: the longest")];
    for (which, (name, title)) in titles.into_iter().enumerate() {
        let mut curves = Vec::new();
        for (kind, seen) in Kind::ALL.iter().zip(seen) {
            for (paced, low) in seen.paced.iter().zip(["", ", low latency"]) {
                curves.push((format!("{}{low}", kind.name()), &paced[which]));
            }
        }
        add(name, title, ["streams of 8192 octets beside", "us"], linear, curves);
    }
    add("tcp", "TCP", ["octets of a segment", "Mbit/s"], log, each(|seen| &seen.tcp));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{self, Experiment, Live, Origin, Verdict};
    use crate::model::ProfileError;

    #[derive(Debug)]
    struct Only;

    impl Experiment for Only {
        fn name(&self) -> &'static str {
            "only"
        }
        fn title(&self) -> &'static str {
            "nothing but what is measured"
        }
        fn run(&self, _: &mut Run<'_>) -> Result<(), ProfileError> {
            Ok(())
        }
        fn today(&self, run: &mut Run<'_>) {
            today(run);
        }
    }

    /// A machine that has an answer to everything but TCP over chips.
    #[derive(Default)]
    struct Machine(Vec<(Kind, Workload, Told)>);

    impl Live for Machine {
        fn measure(&mut self, probe: Probe) -> Option<Measured> {
            let Probe::Carry { over, work, what } = probe else { return None };
            self.0.push((over, work, what));
            let value = self.0.len() as f64;
            let none = over == Kind::Apic && matches!(work, Workload::Tcp { .. });
            (!none).then_some(Measured { median: value, least: value, greatest: value })
        }
    }

    #[test]
    fn each_network_is_asked_the_same_work_once_and_what_is_not_answered_is_left_out() {
        let mut machine = Machine::default();
        let outcome = experiment::run(&Only, 1, true, Some(&mut machine)).unwrap();
        let asked = machine.0;
        let mut brought_up: Vec<Kind> = asked.iter().map(|(over, ..)| *over).collect();
        brought_up.dedup();
        assert_eq!(brought_up, GROUPS.map(|(_, kind)| kind));
        let mut once = asked.clone();
        once.sort_by_key(|probe| format!("{probe:?}"));
        once.dedup();
        assert_eq!(once.len(), asked.len());

        let of = |kind: Kind| outcome.rows.iter().filter(move |row| row.what.starts_with(kind.name()));
        let what =
            |kind: Kind| -> Vec<&str> { of(kind).filter_map(|row| row.what.split_once(": ")).map(|w| w.1).collect() };
        assert_eq!(what(Kind::Unet), what(Kind::Apic));
        assert!(what(Kind::ALL[2]).iter().all(|what| !what.contains("low latency")));
        assert_eq!(Kind::ALL.iter().map(|kind| of(*kind).count()).sum::<usize>(), outcome.rows.len());
        for row in &outcome.rows {
            assert_eq!((row.verdict, row.id.as_str(), row.modelled), (Verdict::Today, "C-43", None));
            assert_eq!(row.measured.is_none(), row.what.starts_with("APIC: TCP"), "{}", row.what);
        }
        for figure in &outcome.figures {
            let name = figure.name.strip_prefix("seed002-networks-").unwrap().strip_suffix("-today").unwrap();
            let curves = match name {
                "multicast" => 4,
                "paced" | "paced-most" => 5,
                "tcp" => 2,
                _ => 3,
            };
            assert_eq!(figure.series.len(), curves, "{name}");
            let measured = |series: &experiment::Series| series.origin == Origin::Measured && series.points.len() >= 3;
            assert!(figure.series.iter().all(measured), "{name}");
        }
        assert_eq!(outcome.figures.len(), 10);
    }

    #[test]
    fn without_a_machine_nothing_is_said_of_today() {
        let outcome = experiment::run(&Only, 1, true, None).unwrap();
        assert!(outcome.rows.is_empty() && outcome.figures.is_empty());
    }
}
