//! `struct atm_qos`: traffic parameters of both ways and the adaptation layer, with the kernel's checks.
//!
//! Kept as the octets that the program gave: what it reads back is what it wrote, but for what connecting fills in.

use crate::abi::{ATM_AAL0, ATM_AAL5, ATM_AAL34, ATM_NO_AAL, part};
use endpoint::calls::Traffic;
use endpoint::{Aal, Direction};
use rustix::io::Errno;
use std::fmt;

/// Octets of the structure.
pub(crate) const QOS_OCTETS: usize = 84;
const TX: usize = 0;
const RX: usize = 40;
const AAL: usize = 80;
// Inside one way's 40 octets.
const CLASS: usize = 0;
const MAX_PCR: usize = 4;
const PCR: usize = 8;
const MIN_PCR: usize = 12;
const MAX_CDV: usize = 16;
const MAX_SDU: usize = 20;

const NONE: u8 = 0;
const UBR: u8 = 1;
const CBR: u8 = 2;
const VBR: u8 = 3;
const ABR: u8 = 4;
const ANY_CLASS: u8 = 5;
/// Cells per second of an OC-3c, as the kernel counts.
const OC3_CELLS_PER_S: u32 = 353_207;
/// As fast as the link goes.
const MAXIMUM: i32 = -1;
/// Cell delay variation if none is said, microseconds.
const DEFAULT_CDV: i32 = 9999;

/// Traffic parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Qos(pub(crate) [u8; QOS_OCTETS]);

/// One way of a circuit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Send,
    Receive,
}

impl Way {
    fn at(self) -> usize {
        match self {
            Way::Send => TX,
            Way::Receive => RX,
        }
    }
}

impl Qos {
    /// No class either way, and the layer that `socket` was given as protocol.
    pub(crate) fn of_protocol(protocol: i32) -> Self {
        let mut qos = Qos([0; QOS_OCTETS]);
        // The kernel keeps the low octet too.
        qos.0[AAL] = protocol as u8;
        qos
    }

    /// What a program gave to `SO_ATMQOS`.
    ///
    /// # Errors
    /// `EINVAL`: no class, two classes, a class other than UBR without a rate, rates that contradict each other.
    pub(crate) fn parse(octets: [u8; QOS_OCTETS]) -> Result<Self, Errno> {
        let qos = Qos(octets);
        let (tx, rx) = (qos.class(Way::Send), qos.class(Way::Receive));
        let said = |class| class != NONE && class != ANY_CLASS;
        if (tx == NONE && rx == NONE) || (said(tx) && said(rx) && tx != rx) {
            return Err(Errno::INVAL);
        }
        qos.check_rates(Way::Send)?;
        qos.check_rates(Way::Receive)?;
        Ok(qos)
    }

    fn check_rates(&self, way: Way) -> Result<(), Errno> {
        let class = self.class(way);
        if class == NONE || class == ANY_CLASS {
            return Ok(());
        }
        let [max, pcr, min] = [MAX_PCR, PCR, MIN_PCR].map(|at| self.number(way, at));
        let no_rate = class != UBR && max == 0 && pcr == 0 && min == 0;
        let contradiction = min != 0 && max != 0 && max != MAXIMUM && min > max;
        if no_rate || min == MAXIMUM || contradiction { Err(Errno::INVAL) } else { Ok(()) }
    }

    fn number(&self, way: Way, at: usize) -> i32 {
        i32::from_ne_bytes(part(&self.0, way.at() + at))
    }

    fn set_number(&mut self, way: Way, at: usize, value: i32) {
        let at = way.at() + at;
        self.0[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    }

    /// Traffic class of a way.
    pub(crate) fn class(&self, way: Way) -> u8 {
        self.0[way.at() + CLASS]
    }

    /// Adaptation layer, as the kernel numbers it.
    pub(crate) fn aal(&self) -> u8 {
        self.0[AAL]
    }

    /// The longest SDU of a way.
    pub(crate) fn max_sdu(&self, way: Way) -> i32 {
        self.number(way, MAX_SDU)
    }

    /// Whether a way is left open for signalling to fill in.
    pub(crate) fn has_any_class(&self) -> bool {
        self.class(Way::Send) == ANY_CLASS || self.class(Way::Receive) == ANY_CLASS
    }

    /// Fills in what is not said, as connecting does.
    ///
    /// # Errors
    /// A layer that is not served (`EPROTOTYPE`), a longer SDU than it has (`EINVAL`).
    pub(crate) fn settle(&mut self) -> Result<(), Errno> {
        if self.0[AAL] == ATM_NO_AAL {
            self.0[AAL] = ATM_AAL5;
        }
        let longest = match self.0[AAL] {
            ATM_AAL0 => 52,
            ATM_AAL5 | ATM_AAL34 => 65_535,
            _ => return Err(Errno::PROTOTYPE),
        };
        for way in [Way::Send, Way::Receive] {
            if self.class(way) == NONE {
                continue;
            }
            match self.max_sdu(way) {
                0 => self.set_number(way, MAX_SDU, longest),
                said if said > longest => return Err(Errno::INVAL),
                _ => {}
            }
            if self.number(way, MAX_CDV) == 0 {
                self.set_number(way, MAX_CDV, DEFAULT_CDV);
            }
        }
        Ok(())
    }

    /// Whether `new` may replace these parameters of a connected socket: layer and classes have to stay.
    pub(crate) fn may_become(&self, new: &Qos) -> bool {
        let same = |way| self.class(way) == new.class(way);
        self.aal() == new.aal() && same(Way::Send) && same(Way::Receive)
    }

    /// The layer as the service has it. Only after [`Qos::settle`].
    pub(crate) fn service_aal(&self) -> Aal {
        match self.aal() {
            ATM_AAL0 => Aal::Aal0,
            ATM_AAL34 => Aal::Aal34,
            _ => Aal::Aal5,
        }
    }

    /// The way that SDUs go.
    pub(crate) fn direction(&self) -> Direction {
        match (self.class(Way::Send), self.class(Way::Receive)) {
            (_, NONE) => Direction::Send,
            (NONE, _) => Direction::Receive,
            _ => Direction::Both,
        }
    }
}

/// A contract that a program asks for what it sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Asked {
    /// In the words of a description.
    pub(crate) category: &'static str,
    /// `None`: as much as there is.
    pub(crate) cells_per_s: Option<i32>,
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cells_per_s {
            Some(rate) => write!(f, "{} at {rate} cell/s", self.category),
            None => write!(f, "{} at any rate", self.category),
        }
    }
}

impl Qos {
    /// The contract that a program asks for what it sends; `None`: best effort, or nothing is sent.
    pub(crate) fn asked(&self) -> Option<Asked> {
        let category = match self.class(Way::Send) {
            CBR => "cbr",
            VBR => "nrt-vbr",
            ABR => "abr",
            _ => return None,
        };
        // SELECT_TOP_PCR of linux/atmdev.h.
        let rates = [PCR, MAX_PCR, MIN_PCR].map(|at| self.number(Way::Send, at));
        let top = rates.into_iter().find(|rate| *rate != 0).filter(|rate| *rate > 0);
        Some(Asked { category, cells_per_s: top })
    }

    /// What a call asks of the network, from this side and to it; after [`Qos::settle`].
    ///
    /// # Errors
    /// `EOPNOTSUPP`: a class that calls do not have.
    pub(crate) fn ways(&self) -> Result<[Traffic; 2], Errno> {
        let one = |way: Way| {
            let sdu_octets = self.max_sdu(way).clamp(1, 65_535) as u16;
            let [max, pcr, min] = [MAX_PCR, PCR, MIN_PCR].map(|at| self.number(way, at));
            let named = |rate: i32| u32::try_from(rate).ok().filter(|rate| *rate != 0);
            let traffic = Traffic { sdu_octets, ..Traffic::default() };
            match self.class(way) {
                NONE => Ok(Traffic { sdu_octets, ..Traffic::none() }),
                UBR => Ok(Traffic { pcr: named(max), ..traffic }),
                // SELECT_TOP_PCR of linux/atmdev.h; "as much as there is" is the link's rate.
                CBR => {
                    let top = named(pcr).or(named(max)).or(named(min)).unwrap_or(OC3_CELLS_PER_S);
                    Ok(Traffic { category: "cbr".into(), pcr: Some(top), ..traffic })
                }
                _ => Err(Errno::OPNOTSUPP),
            }
        };
        Ok([one(Way::Send)?, one(Way::Receive)?])
    }

    /// Any class in both ways.
    pub(crate) fn any(aal: u8) -> Self {
        let mut qos = Qos::of_protocol(aal.into());
        (qos.0[TX + CLASS], qos.0[RX + CLASS]) = (ANY_CLASS, ANY_CLASS);
        qos
    }

    /// The parameters of a call that came: what is sent here, and what is received.
    pub(crate) fn of_ways(send: &Traffic, receive: &Traffic) -> Self {
        let mut qos = Qos([0; QOS_OCTETS]);
        for (way, traffic) in [(Way::Send, send), (Way::Receive, receive)] {
            let class = match traffic.category.as_str() {
                Traffic::NONE => NONE,
                "cbr" => CBR,
                "ubr" => UBR,
                "abr" => ABR,
                _ => VBR,
            };
            qos.0[way.at() + CLASS] = class;
            if class != NONE {
                let peak = traffic.pcr.and_then(|pcr| i32::try_from(pcr).ok()).unwrap_or(MAXIMUM);
                qos.set_number(way, MAX_PCR, peak);
                qos.set_number(way, MAX_SDU, traffic.sdu_octets.into());
            }
        }
        qos.0[AAL] = ATM_AAL5;
        qos
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn qos(tx: u8, rx: u8) -> [u8; QOS_OCTETS] {
        let mut octets = [0; QOS_OCTETS];
        (octets[TX], octets[RX]) = (tx, rx);
        octets
    }

    #[test]
    fn classes_must_be_one_and_rates_must_be_possible() {
        assert!(Qos::parse(qos(0, 0)).is_err());
        assert!(Qos::parse(qos(1, 2)).is_err());
        assert!(Qos::parse(qos(2, 2)).is_err(), "CBR without a rate");
        for good in [qos(1, 1), qos(1, 0), qos(0, 1), qos(5, 1)] {
            assert_eq!(Qos::parse(good).unwrap().0, good);
        }
        let mut rates = Qos(qos(2, 0));
        rates.set_number(Way::Send, MIN_PCR, 200);
        rates.set_number(Way::Send, MAX_PCR, 100);
        assert!(Qos::parse(rates.0).is_err());
        rates.set_number(Way::Send, MAX_PCR, MAXIMUM);
        assert!(Qos::parse(rates.0).is_ok());
        rates.set_number(Way::Send, MIN_PCR, MAXIMUM);
        assert!(Qos::parse(rates.0).is_err());
    }

    #[test]
    fn a_contract_is_asked_for_by_a_class_with_a_rate() {
        let mut q = Qos(qos(2, 2));
        assert_eq!(Qos(qos(1, 1)).asked(), None);
        q.set_number(Way::Send, MAX_PCR, 170);
        assert_eq!(q.asked(), Some(Asked { category: "cbr", cells_per_s: Some(170) }));
        q.set_number(Way::Send, MAX_PCR, MAXIMUM);
        assert_eq!(q.asked(), Some(Asked { category: "cbr", cells_per_s: None }));
        assert_eq!(Qos(qos(0, 2)).asked(), None, "what is received is the sender's to ask for");
    }

    #[test]
    fn connecting_fills_in_layer_and_longest_sdu() {
        let mut q = Qos::parse(qos(1, 0)).unwrap();
        q.settle().unwrap();
        assert_eq!((q.aal(), q.max_sdu(Way::Send), q.max_sdu(Way::Receive)), (ATM_AAL5, 65_535, 0));
        assert_eq!(q.direction(), Direction::Send);
        let mut q = Qos::of_protocol(13);
        q.0[RX] = 1;
        q.settle().unwrap();
        assert_eq!((q.service_aal(), q.max_sdu(Way::Receive)), (Aal::Aal0, 52));
        q.set_number(Way::Receive, MAX_SDU, 53);
        assert_eq!(q.settle(), Err(Errno::INVAL));
        let mut q = Qos::of_protocol(3);
        q.0[TX] = 1;
        q.settle().unwrap();
        assert_eq!((q.service_aal(), q.max_sdu(Way::Send)), (Aal::Aal34, 65_535));
        assert_eq!(Qos::of_protocol(2).settle(), Err(Errno::PROTOTYPE));
    }

    proptest! {
        #[test]
        fn any_octets_are_a_qos_or_an_errno(octets in proptest::collection::vec(any::<u8>(), QOS_OCTETS)) {
            let octets: [u8; QOS_OCTETS] = octets.try_into().unwrap();
            if let Ok(mut q) = Qos::parse(octets) {
                prop_assert_eq!(q.0, octets);
                if q.settle().is_ok() {
                    for way in [Way::Send, Way::Receive] {
                        prop_assert!(q.class(way) == NONE || q.max_sdu(way) <= 65_535);
                    }
                }
            }
        }
    }
}
