//! Rows of circuits, written straight from where they are: with tens of thousands of circuits, making an object of each
//! row before it is written takes as long as writing it.

use super::harvest::{EndCounts, Tally};
use super::hops::Hops;
use super::oam::AlarmStatus;
use super::{CircuitStatus, CounterStatus, EndStatus, aal_name, opened};
use crate::hops::HopStatus;
use net::Label;
use net::topology::{CircuitDescription, CircuitEnd, LinkKey, RoutedCircuit, Router, Station};
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::value::RawValue;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::OnceLock;
use switch::oam::Alarm;

/// The circuits of a router with what was counted at their ends, which is in the order of [`ends_at_hosts`].
pub(super) struct Rows<'a> {
    router: &'a Router,
    names: HashMap<LinkKey, String>,
    counts: &'a [Option<EndCounts>],
    hops: Option<&'a Hops>,
    /// Only circuits that are open or have counted something, and so many at most.
    busy: Option<usize>,
}

/// The ends of a circuit at which a host of this network has it.
pub(super) fn ends_at_hosts<'a>(
    router: &'a Router,
    circuit: &'a CircuitDescription,
) -> impl Iterator<Item = &'a CircuitEnd> + 'a {
    circuit.ends.iter().filter(|end| is_at_host(router, end))
}

fn is_at_host(router: &Router, end: &CircuitEnd) -> bool {
    !end.path && router.station(&end.station) == Some(Station::Host)
}

impl<'a> Rows<'a> {
    pub(super) fn new(router: &'a Router, counts: &'a [Option<EndCounts>], busy: Option<usize>) -> Self {
        let names = router.links().filter_map(|(key, ..)| Some((key, router.link_name(key)?))).collect();
        Rows { router, names, counts, hops: None, busy }
    }

    pub(super) fn with_hops(self, hops: &'a Hops) -> Self {
        Rows { hops: Some(hops), ..self }
    }

    pub(super) fn rows(&'a self) -> impl Iterator<Item = Row<'a>> {
        let mut at = 0;
        let rows = self.router.circuits().enumerate().map(move |(place, placed)| {
            let ends = ends_at_hosts(self.router, &placed.description).count();
            let counts = self.counts.get(at..at + ends).unwrap_or_default();
            at += ends;
            let hops = self.hops.and_then(|hops| hops.get(place)).map_or(&[][..], Vec::as_slice);
            Row { all: self, placed, counts, hops }
        });
        let wanted = |row: &Row<'_>| self.busy.is_none() || row.counts.iter().flatten().any(EndCounts::is_busy);
        rows.filter(wanted).take(self.busy.unwrap_or(usize::MAX))
    }

    /// The same as objects.
    pub(super) fn to_vec(&'a self) -> Vec<CircuitStatus> {
        self.rows().map(|row| row.to_status()).collect()
    }
}

impl Serialize for Rows<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut list = to.serialize_seq(None)?;
        for row in self.rows() {
            list.serialize_element(&row)?;
        }
        list.end()
    }
}

/// A circuit.
pub(super) struct Row<'a> {
    all: &'a Rows<'a>,
    pub(super) placed: &'a RoutedCircuit,
    counts: &'a [Option<EndCounts>],
    pub(super) hops: &'a [HopStatus],
}

impl<'a> Row<'a> {
    /// Its ends with what was counted there.
    pub(super) fn ends(&self) -> impl Iterator<Item = (&'a CircuitEnd, Option<&'a EndCounts>)> {
        let mut counts = self.counts.iter();
        let router = self.all.router;
        self.placed.description.ends.iter().map(move |end| {
            let counted = if is_at_host(router, end) { counts.next().and_then(Option::as_ref) } else { None };
            (end, counted)
        })
    }

    fn way(&self) -> impl Iterator<Item = OnLink<'a>> {
        let names = &self.all.names;
        let hops = self.placed.route.hops.iter();
        hops.map(|hop| OnLink(names.get(&hop.link).map_or("", String::as_str), hop.label))
    }

    fn to_status(&self) -> CircuitStatus {
        let description = &self.placed.description;
        let ends = self.ends().map(|(end, counts)| EndStatus {
            end: end.to_string(),
            open: counts.and_then(|c| c.open).map(|aal| opened(aal).to_owned()),
            endpoint: counts.and_then(|c| c.endpoint),
            opener: counts.and_then(|c| c.opener.clone()),
            sent: counts.map(|c| CounterStatus::from(&c.sent)),
            received: counts.map(|c| CounterStatus::from(&c.received)),
            alarms: counts.map(|c| c.alarms.iter().map(AlarmStatus::from).collect()).unwrap_or_default(),
        });
        CircuitStatus {
            name: description.name(),
            category: description.contract.category.name().to_owned(),
            pcr_cells_per_s: description.contract.pcr.map(|r| r.cells_per_s()),
            aal: aal_name(description.aal).to_owned(),
            one_way: !description.is_both_ways(),
            ends: ends.collect(),
            way: self.way().map(|hop| hop.to_string()).collect(),
            hops: self.hops.to_vec(),
        }
    }
}

/// What is written as its text.
pub(super) struct Shown<T>(pub(super) T);

impl<T: fmt::Display> Serialize for Shown<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&self.0)
    }
}

/// A link, and a circuit's label on it.
struct OnLink<'a>(&'a str, Label);

impl fmt::Display for OnLink<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.0, self.1)
    }
}

struct Name<'a>(&'a CircuitDescription);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, end) in self.0.ends.iter().enumerate() {
            write!(f, "{}{end}", if i == 0 { "" } else { " - " })?;
        }
        Ok(())
    }
}

impl Serialize for Row<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let description = &self.placed.description;
        let mut row = to.serialize_map(None)?;
        row.serialize_entry("name", &Shown(Name(description)))?;
        row.serialize_entry("category", description.contract.category.name())?;
        row.serialize_entry("pcr_cells_per_s", &description.contract.pcr.map(|r| r.cells_per_s()))?;
        row.serialize_entry("aal", aal_name(description.aal))?;
        row.serialize_entry("one_way", &!description.is_both_ways())?;
        row.serialize_entry("ends", &Ends(self))?;
        row.serialize_entry("way", &Way(self))?;
        if !self.hops.is_empty() {
            row.serialize_entry("hops", self.hops)?;
        }
        row.end()
    }
}

struct Ends<'a>(&'a Row<'a>);

impl Serialize for Ends<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.0.ends().map(|(end, counts)| End(end, counts)))
    }
}

struct Way<'a>(&'a Row<'a>);

impl Serialize for Way<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.0.way().map(Shown))
    }
}

struct End<'a>(&'a CircuitEnd, Option<&'a EndCounts>);

impl Serialize for End<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let End(end, counts) = *self;
        let mut row = to.serialize_map(None)?;
        row.serialize_entry("end", &Shown(end))?;
        row.serialize_entry("open", &counts.and_then(|c| c.open).map(opened))?;
        row.serialize_entry("endpoint", &counts.and_then(|c| c.endpoint))?;
        if let Some(opener) = counts.and_then(|c| c.opener.as_ref()) {
            row.serialize_entry("opener", opener)?;
        }
        row.serialize_entry("sent", &counts.map(|c| &c.sent))?;
        row.serialize_entry("received", &counts.map(|c| &c.received))?;
        row.serialize_entry("alarms", &Alarms(counts.map(|c| &c.alarms[..]).unwrap_or_default()))?;
        row.end()
    }
}

struct Alarms<'a>(&'a [Alarm]);

impl Serialize for Alarms<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.0.iter().map(AlarmStatus::from))
    }
}

impl From<&Tally> for CounterStatus {
    fn from(t: &Tally) -> Self {
        let dropped = t.dropped.iter().flat_map(|c| c.drops()).map(|(reason, n)| (reason.name().to_owned(), n));
        CounterStatus { cells: t.cells, pdus: t.pdus, octets: t.octets, dropped: dropped.collect() }
    }
}

/// Counters that have counted nothing, as JSON: most are so, where there are many circuits.
fn zeros() -> Option<&'static RawValue> {
    static ZEROS: OnceLock<Option<Box<RawValue>>> = OnceLock::new();
    ZEROS.get_or_init(|| serde_json::value::to_raw_value(&CounterStatus::default()).ok()).as_deref()
}

impl Serialize for Tally {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if self.dropped.is_some() {
            return CounterStatus::from(self).serialize(to);
        }
        if let (0, 0, 0, Some(zeros)) = (self.cells, self.pdus, self.octets, zeros()) {
            return zeros.serialize(to);
        }
        let mut row = to.serialize_map(Some(4))?;
        row.serialize_entry("cells", &self.cells)?;
        row.serialize_entry("pdus", &self.pdus)?;
        row.serialize_entry("octets", &self.octets)?;
        row.serialize_entry("dropped", &BTreeMap::<&str, u64>::new())?;
        row.end()
    }
}

#[cfg(test)]
mod tests {
    use super::super::list::{CircuitRow, List};
    use super::*;
    use crate::openers::Opener;
    use net::topology::{LinkDescription, StationKind};
    use wire::{Counters, DropReason};

    #[test]
    fn rows_are_written_as_their_objects_are() {
        let mut router = Router::new();
        for (name, kind) in [
            ("a", StationKind::Host),
            ("b", StationKind::Host),
            ("s", StationKind::Switch(net::SwitchElementConfig::default())),
        ] {
            router.add_station(name, kind).unwrap();
        }
        for ends in [["a", "s"], ["b", "s"]] {
            let ends = ends.map(|end| end.parse().unwrap());
            router.add_link(&LinkDescription { ends, config: net::LinkConfig::default() }).unwrap();
        }
        for ends in [["a 0.100", "b 0.100"], ["b 3.7", "a 0.40"], ["s:0 9.*", "s:1 9.*"]] {
            let ends = ends.iter().map(|end| end.parse().unwrap()).collect();
            let one_way = router.circuit_count() == 1;
            router.add_circuit(&CircuitDescription { ends, one_way, ..Default::default() }).unwrap();
        }
        let mut counted = Counters::default();
        (counted.cells, counted.pdus, counted.octets) = (7, 3, 99);
        counted.drop_n(DropReason::NoBuffer, 5);
        let end = |counters: &Counters, open: Option<endpoint::Aal>| {
            let (sent, received) = (Tally::default(), Tally::from(counters));
            let defect = wire::oam::Defect::UNSPECIFIED;
            let alarm = Alarm { kind: switch::oam::AlarmKind::Rdi, defect, since: wire::Time::from_millis(1500) };
            let alarms = if open.is_some() { vec![alarm] } else { Vec::new() };
            let opener = open.map(|_| Opener { uid: 7, pid: 42, program: "receive".into() });
            Some(EndCounts { open, endpoint: Some(4), opener, sent, received, alarms })
        };
        let counts = [end(&counted, Some(endpoint::Aal::Aal5)), None, end(&Counters::default(), None), None];
        assert_eq!(router.circuits().map(|p| ends_at_hosts(&router, &p.description).count()).sum::<usize>(), 4);
        for (busy, expected) in [(None, 3), (Some(10), 1), (Some(0), 0)] {
            let rows = Rows::new(&router, &counts, busy);
            let objects = rows.to_vec();
            assert_eq!(objects.len(), expected);
            assert_eq!(serde_json::to_string(&rows).unwrap(), serde_json::to_string(&objects).unwrap());
            let listed: Vec<CircuitRow> = objects.iter().map(CircuitRow::from).collect();
            let text = serde_json::to_string(&List(&rows)).unwrap();
            assert_eq!(text, serde_json::to_string(&listed).unwrap());
            assert_eq!(serde_json::from_str::<Vec<CircuitRow>>(&text).unwrap(), listed);
        }
        let all = Rows::new(&router, &counts, None).to_vec();
        assert_eq!(all[0].ends[0].received.as_ref().unwrap().dropped["no_buffer"], 5);
        assert_eq!(
            (all[0].way.clone(), all[0].ends[1].sent.clone()),
            (vec!["a:0 - s:0 0.100".to_owned(), "b:0 - s:1 0.100".to_owned()], None)
        );
    }
}
