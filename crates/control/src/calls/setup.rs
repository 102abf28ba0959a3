//! What an application's call says to the network: the elements of SETUP, and what the host may send by them.

use crate::{config, policy};
use endpoint::calls::{Sap, Traffic};
use std::time::Duration;
use traffic::{Category, Contract};
use uni::call::ElementList;
use uni::node::contracts;
use wire::aesa::Aesa;
use wire::q2931::{self, Aal5, AalParameters, Bearer, CauseValue, Direction, Element, Number, Party, Qos};

/// The largest rate that the element holds, in cells each second: what best effort asks for that has no peak of its
/// own.
pub(super) const NO_PEAK: u32 = 0xff_ffff;
/// How early against its rate a cell may come where it enters the network: signalling has no word for it.
const TOLERANCE: Duration = Duration::from_micros(config::CDVT_US);

/// Why a call cannot be asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// Calls do not have it.
    #[error(
        "category \"{0}\" cannot be signalled: a call is ubr, cbr, rt-vbr or nrt-vbr \
         (gfr and flow = \"credit\" are for circuits of a description)"
    )]
    Category(String),
    /// A host has no ABR source for calls.
    #[error(
        "category \"abr\" is not for calls of applications: UNI 3.1 cannot signal it, and a host's call has no ABR source; \
         use ubr or nrt-vbr, or an abr circuit of the description"
    )]
    Abr,
    /// The directions contradict each other.
    #[error("both directions of a call are of the same category, or one of them is none")]
    Ways,
    /// Neither direction carries anything.
    #[error("a call carries something in one direction at least")]
    Nothing,
    /// A parameter is missing or does not fit.
    #[error("category {category}: {what}")]
    Parameters {
        /// The category.
        category: String,
        /// What is wrong.
        what: &'static str,
    },
    /// An SDU has a length.
    #[error("sdu_octets is the longest SDU, from 1 on")]
    Sdu,
    /// The network's own words.
    #[error("{0}")]
    Cause(CauseValue),
}

/// One direction: its parameters, whether it is best effort, and the bearer; `None`: nothing is sent.
type Way = Option<(Direction, bool, Bearer)>;

fn direction(traffic: &Traffic) -> Result<Way, SetupError> {
    let Traffic { category, pcr, scr, mbs, .. } = traffic;
    let wrong = |what| SetupError::Parameters { category: category.clone(), what };
    if pcr.is_some_and(|pcr| pcr == 0 || pcr > NO_PEAK) {
        return Err(wrong("pcr is 1 to 16777215 cell/s"));
    }
    let none = Direction { pcr: *pcr, ..Direction::default() };
    let real_time = Bearer { transfer: Some(0x09), ..Bearer::X };
    let bursts = |bearer| match (pcr, scr, mbs) {
        (Some(pcr), Some(scr), Some(_)) if scr <= pcr => {
            Ok((Direction { scr: Some(*scr), mbs: *mbs, ..none }, false, bearer))
        }
        _ => Err(wrong("needs pcr, scr and mbs, and scr is not more than pcr")),
    };
    let way = match category.as_str() {
        Traffic::NONE if pcr.is_none() && scr.is_none() && mbs.is_none() => return Ok(None),
        Traffic::NONE => return Err(wrong("sends nothing, and has no rate")),
        "ubr" if scr.is_none() && mbs.is_none() => {
            Ok((Direction { pcr: Some(pcr.unwrap_or(NO_PEAK)), ..none }, true, Bearer::X))
        }
        "cbr" if pcr.is_some() && scr.is_none() && mbs.is_none() => Ok((none, false, Bearer::X)),
        "ubr" => Err(wrong("has no scr and no mbs")),
        "cbr" => Err(wrong("needs pcr, and has no scr and no mbs")),
        "rt-vbr" => bursts(real_time),
        "nrt-vbr" => bursts(Bearer::X),
        "abr" => Err(SetupError::Abr),
        _ => Err(SetupError::Category(category.clone())),
    };
    way.map(Some)
}

/// What an application asks of the network.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// The service access point.
    pub sap: Sap,
    /// To the called user.
    pub forward: &'a Traffic,
    /// From the called user.
    pub backward: &'a Traffic,
    /// From a root to many.
    pub multipoint: bool,
}

/// The elements of SETUP.
///
/// # Errors
/// [`SetupError`].
pub fn elements(from: Option<Aesa>, to: Aesa, wanted: Wanted<'_>) -> Result<ElementList, SetupError> {
    let Wanted { sap, forward, backward, multipoint } = wanted;
    let ways = [direction(forward)?, if multipoint { None } else { direction(backward)? }];
    let (best_effort, bearer) = match ways {
        [Some((_, a, first)), Some((_, b, second))] if (a, first) != (b, second) => return Err(SetupError::Ways),
        [Some((_, best_effort, bearer)), _] | [None, Some((_, best_effort, bearer))] => (best_effort, bearer),
        [None, None] => return Err(SetupError::Nothing),
    };
    // A direction that carries nothing has a peak of 0.
    let side = |way: Way| way.map_or(Direction { pcr: Some(0), ..Direction::default() }, |(side, ..)| side);
    let [forward_sdu, backward_sdu] =
        [(forward, ways[0]), (backward, ways[1])].map(|(traffic, way)| Some(way.map_or(0, |_| traffic.sdu_octets)));
    if (forward_sdu, backward_sdu) == (Some(0), Some(0)) {
        return Err(SetupError::Sdu);
    }
    let aal = AalParameters::Aal5(Aal5 { forward_sdu, backward_sdu, mode: None, sscs: Some(0) });
    let traffic = q2931::Traffic { forward: side(ways[0]), backward: side(ways[1]), best_effort };
    let all = [Element::Aal(aal), Element::Traffic(traffic), Element::Bearer(Bearer { multipoint, ..bearer })];
    let numbers = [Element::Called(Number::aesa(to))];
    let calling = from.map(|from| Element::Calling(Party::aesa(from)));
    let qos = [Element::Qos(Qos::default())];
    Ok(all.into_iter().chain(sap.elements()).chain(numbers).chain(calling).chain(qos).collect())
}

/// The elements of ADD PARTY, of a call that these were of.
pub fn party(setup: &ElementList, to: Aesa) -> ElementList {
    let stays = |element: &&Element| {
        matches!(element, Element::Aal(_) | Element::HighLayer(_) | Element::LowLayer(_) | Element::Calling(_))
    };
    setup.0.iter().filter(stays).copied().chain([Element::Called(Number::aesa(to))]).collect()
}

/// What a call asks for, in the words of applications: forward and backward.
pub fn ways(elements: &ElementList) -> [Traffic; 2] {
    let sdu = match elements.aal() {
        Some(AalParameters::Aal5(Aal5 { forward_sdu, backward_sdu, .. })) => [forward_sdu, backward_sdu],
        _ => [None; 2],
    };
    let Some(traffic) = elements.traffic() else { return [Traffic::default(), Traffic::default()] };
    let real_time = elements.bearer().and_then(|bearer| bearer.transfer).is_some();
    let one = |side: Direction, sdu: Option<u16>| {
        let sdu_octets = sdu.filter(|octets| *octets > 0).unwrap_or(Traffic::default().sdu_octets);
        if side.pcr == Some(0) {
            return Traffic { sdu_octets, ..Traffic::none() };
        }
        let (scr, mbs) = (side.scr.or(side.scr_clp0), side.mbs.or(side.mbs_clp0));
        let category = match (traffic.best_effort, side.mcr.is_some(), scr.is_some()) {
            (true, ..) => "ubr",
            (_, true, _) => "abr",
            (.., true) => {
                if real_time {
                    "rt-vbr"
                } else {
                    "nrt-vbr"
                }
            }
            _ => "cbr",
        };
        let pcr = side.pcr.filter(|pcr| !traffic.best_effort || *pcr < NO_PEAK);
        Traffic { category: category.into(), pcr, scr, mbs, sdu_octets }
    };
    [one(traffic.forward, sdu[0]), one(traffic.backward, sdu[1])]
}

/// What a host may send on such a call; `backward`: the called one.
///
/// # Errors
/// [`SetupError::Cause`].
pub fn contract(elements: &ElementList, backward: bool) -> Result<Contract, SetupError> {
    let traffic = elements.traffic().ok_or(SetupError::Cause(CauseValue::TRAFFIC_COMBINATION))?;
    let both = contracts(&traffic, elements.bearer()).map_err(SetupError::Cause)?;
    Ok(kept(both[usize::from(backward)]))
}

/// Cells each second that such a call reserves, in both directions together.
///
/// # Errors
/// [`SetupError::Cause`].
pub fn reserved(elements: &ElementList) -> Result<u64, SetupError> {
    let ways = [contract(elements, false)?, contract(elements, true)?];
    Ok(ways.iter().filter_map(Contract::reserved).map(policy::reserved).fold(0, u64::saturating_add))
}

/// A contract of signalling as hosts and switches keep it: best effort whose peak is the element's largest value has
/// none, and a rate has the tolerance of a circuit of the description.
pub fn kept(contract: Contract) -> Contract {
    let unbounded = contract.pcr.is_some_and(|pcr| pcr.cells_per_s() >= f64::from(NO_PEAK));
    if contract.pcr.is_none() || contract.category == Category::Ubr && unbounded {
        return Contract { pcr: None, ..contract };
    }
    Contract { cdvt: TOLERANCE, ..contract }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contract_is_what_was_asked_for_and_what_cannot_be_signalled_is_said() {
        let ask = |category: &str, pcr, scr, mbs| {
            let traffic = Traffic { category: category.into(), pcr, scr, mbs, ..Traffic::default() };
            let wanted = Wanted { sap: Sap::LLC, forward: &traffic, backward: &traffic, multipoint: false };
            let elements = elements(None, Aesa::default(), wanted)?;
            assert_eq!(ways(&elements), [traffic.clone(), traffic.clone()]);
            contract(&elements, true)
        };
        assert_eq!(ask("ubr", None, None, None).unwrap(), Contract::default());
        for (category, of) in [("cbr", Category::Cbr), ("ubr", Category::Ubr)] {
            let contract = ask(category, Some(1000), None, None).unwrap();
            assert_eq!((contract.category, contract.pcr.map(|pcr| pcr.cells_per_s())), (of, Some(1000.0)));
        }
        assert_eq!(ask("rt-vbr", Some(1000), Some(100), Some(10)).unwrap().category, Category::RtVbr);
        assert_eq!(ask("nrt-vbr", Some(1000), Some(100), Some(10)).unwrap().mbs, Some(10));
        assert!(ask("abr", Some(1), None, None).unwrap_err().to_string().contains("has no ABR source"));
        for category in ["gfr", "credit"] {
            let why = ask(category, Some(1), None, None).unwrap_err().to_string();
            assert!(why.contains("cannot be signalled"), "{why}");
        }
        for (category, pcr, scr) in
            [("cbr", None, None), ("ubr", None, Some(1)), ("nrt-vbr", Some(1), Some(2)), ("cbr", Some(1 << 24), None)]
        {
            assert!(matches!(ask(category, pcr, scr, Some(1)), Err(SetupError::Parameters { .. })), "{category}");
        }
    }
    #[test]
    fn a_direction_may_carry_nothing_and_a_root_is_sent_nothing() {
        let (ubr, none) = (Traffic::default(), Traffic::none());
        let cbr = Traffic { category: "cbr".into(), pcr: Some(100), ..Traffic::default() };
        let ask = |forward, backward, multipoint| {
            elements(None, Aesa::default(), Wanted { sap: Sap::ANY, forward, backward, multipoint })
        };
        for multipoint in [false, true] {
            let one_way = ask(&cbr, if multipoint { &ubr } else { &none }, multipoint).unwrap();
            assert_eq!(one_way.traffic().unwrap().backward.pcr, Some(0));
            assert_eq!(contract(&one_way, true).unwrap().pcr, None);
            assert_eq!(one_way.bearer().unwrap().multipoint, multipoint);
            assert_eq!(ways(&one_way)[1].category, Traffic::NONE);
            assert!(!party(&one_way, Aesa::default()).has(wire::q2931::ElementId::BEARER));
        }
        assert_eq!(ask(&ubr, &cbr, false), Err(SetupError::Ways));
        assert_eq!(ask(&none, &none, false), Err(SetupError::Nothing));
        let other = Traffic { pcr: Some(7), ..cbr.clone() };
        assert_eq!(ways(&ask(&cbr, &other, false).unwrap()), [cbr, other]);
    }
}
