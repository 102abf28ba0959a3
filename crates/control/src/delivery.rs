//! What became of single PDUs on a circuit: how many were sent and delivered, where others were dropped and why. In: two
//! looks at the circuit's path ([`PathStatus`]), before the first PDU and after the last; out: a [`Delivery`].

use crate::path::{PathPoint, PathStatus};
use crate::status::CounterStatus;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use wire::DropReason;

/// What became of single PDUs, as far as this network knows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Delivery {
    /// PDUs sent; `null` where the sender is not in this network.
    pub sent: Option<u64>,
    /// PDUs given to the receiver; of several receivers, to the one that was given the fewest. `null` where no receiver
    /// is in this network.
    pub delivered: Option<u64>,
    /// Those of which neither is true.
    pub not_delivered: Option<u64>,
    /// What was dropped on the path.
    pub drops: Vec<PathDrop>,
}

/// Something that was dropped on a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PathDrop {
    /// The host, switch with its port, or link.
    pub at: String,
    /// The reason's name.
    pub reason: String,
    /// PDUs at hosts and of frame links, else cells. Of a link those of all circuits on it.
    pub count: u64,
    /// The reason in words.
    pub meaning: String,
}

/// One direction of a path.
struct Way<'a> {
    sender: Option<(String, &'a CounterStatus)>,
    points: &'a [PathPoint],
    receivers: Vec<(String, &'a CounterStatus)>,
}

/// The station of a circuit's end.
fn station(end: &str) -> String {
    end.split(' ').next().unwrap_or(end).to_owned()
}

impl PathStatus {
    fn outgoing(&self) -> Way<'_> {
        // Who takes bare cells puts the PDUs together itself, uncounted.
        let known = self.far.iter().filter(|far| far.known && far.open.as_deref() != Some("aal0"));
        Way {
            sender: Some((self.host.clone(), &self.sent)),
            points: &self.forward,
            receivers: known.map(|far| (station(&far.end), &far.received)).collect(),
        }
    }

    fn incoming(&self) -> Way<'_> {
        let only = if let [far] = &self.far[..] { Some(far).filter(|far| far.known) } else { None };
        Way {
            sender: only.map(|far| (station(&far.end), &far.sent)),
            points: &self.back,
            receivers: vec![(self.host.clone(), &self.received)],
        }
    }
}

/// What was dropped since an earlier look.
fn more(at: &str, before: Option<&BTreeMap<String, u64>>, after: &BTreeMap<String, u64>) -> Vec<PathDrop> {
    let had = |reason: &str| before.and_then(|before| before.get(reason)).copied().unwrap_or_default();
    let since = after.iter().map(|(reason, n)| (reason, n.saturating_sub(had(reason))));
    since
        .filter(|(_, count)| *count > 0)
        .map(|(reason, count)| {
            let known = DropReason::ALL.iter().find(|known| known.name() == reason);
            let meaning = known.map_or(String::new(), |known| known.meaning().to_owned());
            PathDrop { at: at.to_owned(), reason: reason.clone(), count, meaning }
        })
        .collect()
}

/// What happened to the PDUs that this end sent between two looks.
pub fn of_sent(before: &PathStatus, after: &PathStatus) -> Delivery {
    between(&before.outgoing(), &after.outgoing())
}

/// What happened to the PDUs that were sent to this end between two looks.
pub fn of_received(before: &PathStatus, after: &PathStatus) -> Delivery {
    between(&before.incoming(), &after.incoming())
}

fn between(before: &Way<'_>, after: &Way<'_>) -> Delivery {
    let host = |(at, now): &(String, &CounterStatus), had: Option<&CounterStatus>| {
        (now.pdus.saturating_sub(had.map_or(0, |had| had.pdus)), more(at, had.map(|had| &had.dropped), &now.dropped))
    };
    let sent = after.sender.as_ref().map(|sender| host(sender, before.sender.as_ref().map(|(_, had)| *had)));
    let had = |at: &str| before.receivers.iter().find(|(name, _)| name == at).map(|(_, had)| *had);
    let received: Vec<(u64, Vec<PathDrop>)> =
        after.receivers.iter().map(|receiver| host(receiver, had(&receiver.0))).collect();
    let points = |links: bool| {
        after.points.iter().filter(move |point| point.link == links).flat_map(|point| {
            let same = before.points.iter().find(|had| had.at == point.at && had.link == point.link);
            more(&point.at, same.map(|had| &had.dropped), &point.dropped)
        })
    };
    let delivered = received.iter().map(|(pdus, _)| *pdus).min();
    let mut drops: Vec<PathDrop> = sent.iter().flat_map(|(_, drops)| drops.clone()).collect();
    // What was dropped at its host was sent too.
    let sent = sent.map(|(pdus, _)| pdus + drops.iter().map(|drop| drop.count).sum::<u64>());
    drops.extend(points(false));
    drops.extend(received.into_iter().flat_map(|(_, drops)| drops));
    let not_delivered = sent.zip(delivered).map(|(sent, delivered)| sent.saturating_sub(delivered));
    // Links count for all their circuits: they are named where nothing else explains a loss.
    if drops.is_empty() && not_delivered != Some(0) {
        drops.extend(points(true));
    }
    Delivery { sent, delivered, not_delivered, drops }
}

/// What to do about a reason, for people.
fn hint(reason: &str) -> Option<&'static str> {
    Some(match reason {
        "no_buffer" | "ring_full" => "its application was slow",
        "not_open" => "nobody had the circuit open there",
        "closed" => "its application had closed the circuit",
        "link_down" => "the link was down",
        "queue_full" | "early_discard" | "partial_discard" => "more was sent than passes there",
        "non_conforming" => "more was sent than the contract allows",
        _ => return None,
    })
}

impl Delivery {
    /// Whether anything is known to be lost.
    pub fn is_partial(&self) -> bool {
        self.not_delivered.map_or(!self.drops.is_empty(), |n| n > 0)
    }

    /// Whether waiting changes nothing: everything that was sent is delivered, or nothing is known of the receiver.
    pub fn is_settled(&self) -> bool {
        self.not_delivered.is_none_or(|n| n == 0)
    }

    /// What was not delivered, in one line; `None` where nothing is known to be lost.
    pub fn text(&self) -> Option<String> {
        if !self.is_partial() {
            return None;
        }
        let why = |drop: &PathDrop| {
            let PathDrop { at, reason, meaning, .. } = drop;
            match hint(reason) {
                Some(hint) => format!("{reason} at {at}, {hint}"),
                None => format!("{reason} at {at} ({})", meaning.trim_end_matches('.')),
            }
        };
        let reasons: Vec<String> = self.drops.iter().map(why).collect();
        let reasons = if reasons.is_empty() { "no drop is counted on its path".to_owned() } else { reasons.join("; ") };
        Some(match (self.not_delivered, self.sent) {
            (Some(lost), Some(sent)) => format!("{lost} of {sent} not delivered: {reasons}"),
            _ => format!("{} dropped: {reasons}", self.drops.iter().map(|drop| drop.count).sum::<u64>()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::FarEnd;

    fn counted(pdus: u64, dropped: &[(&str, u64)]) -> CounterStatus {
        let dropped = dropped.iter().map(|(reason, n)| ((*reason).to_owned(), *n)).collect();
        CounterStatus { pdus, dropped, ..CounterStatus::default() }
    }

    fn path(sent: CounterStatus, received: CounterStatus, link: &[(&str, u64)]) -> PathStatus {
        let far = FarEnd { end: "beta 0.100".into(), known: true, received, ..FarEnd::default() };
        let dropped = counted(0, link).dropped;
        let point = PathPoint { at: "alpha:0 - s1:0".into(), link: true, dropped, ..PathPoint::default() };
        PathStatus { host: "alpha".into(), sent, far: vec![far], forward: vec![point], ..PathStatus::default() }
    }

    #[test]
    fn what_was_lost_since_the_start_is_told_with_its_place_and_reason() {
        let before = path(counted(10, &[]), counted(10, &[("no_buffer", 7)]), &[]);
        let after = path(counted(2189, &[]), counted(1658, &[("no_buffer", 538)]), &[("lost", 3)]);
        let delivery = of_sent(&before, &after);
        assert_eq!(delivery.not_delivered, Some(531));
        assert_eq!(delivery.text().unwrap(), "531 of 2179 not delivered: no_buffer at beta, its application was slow");
        let same = of_sent(&before, &before);
        assert_eq!((same.text(), same.is_settled()), (None, true));
    }

    #[test]
    fn a_link_is_named_where_nothing_else_explains_the_loss() {
        let before = path(counted(0, &[]), counted(0, &[]), &[("lost", 1)]);
        let after = path(counted(5, &[]), counted(3, &[]), &[("lost", 3)]);
        let delivery = of_sent(&before, &after);
        let meaning = DropReason::Lost.meaning().to_owned();
        let drop = PathDrop { at: "alpha:0 - s1:0".into(), reason: "lost".into(), count: 2, meaning };
        assert_eq!((delivery.not_delivered, delivery.drops), (Some(2), vec![drop]));
    }

    #[test]
    fn where_the_receiver_is_elsewhere_only_drops_are_known() {
        let elsewhere = |link: &[(&str, u64)]| {
            let mut path = path(counted(5, &[]), CounterStatus::default(), link);
            path.far[0].known = false;
            path
        };
        let delivery = of_sent(&elsewhere(&[]), &elsewhere(&[("queue_full", 4)]));
        assert_eq!((delivery.delivered, delivery.not_delivered, delivery.is_partial()), (None, None, true));
        let lost = delivery.text().unwrap();
        assert!(lost.starts_with("4 dropped: queue_full at alpha:0 - s1:0"), "{lost}");
    }
}
