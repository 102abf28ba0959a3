//! What an application's call says to the network: the elements of SETUP, and what the host may send by them.

use endpoint::calls::{Sap, Traffic};
use traffic::{Category, Contract};
use uni::call::ElementList;
use uni::node::contracts;
use wire::aesa::Aesa;
use wire::q2931::{self, AalParameters, Bearer, CauseValue, Direction, Element, Number, Party, Qos};

/// The largest rate that the element holds, in cells each second: what best effort asks for that has no peak of its own.
const NO_PEAK: u32 = 0xff_ffff;

/// Why a call cannot be asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// Calls do not have it.
    #[error(
        "category \"{0}\" cannot be signalled: a call is ubr, cbr, rt-vbr or nrt-vbr (gfr and flow = \"credit\" are for circuits of a description)"
    )]
    Category(String),
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

fn direction(traffic: &Traffic) -> Result<(Direction, bool, Bearer), SetupError> {
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
    match category.as_str() {
        "ubr" if scr.is_none() && mbs.is_none() => {
            Ok((Direction { pcr: Some(pcr.unwrap_or(NO_PEAK)), ..none }, true, Bearer::X))
        }
        "cbr" if pcr.is_some() && scr.is_none() && mbs.is_none() => Ok((none, false, Bearer::X)),
        "ubr" => Err(wrong("has no scr and no mbs")),
        "cbr" => Err(wrong("needs pcr, and has no scr and no mbs")),
        "rt-vbr" => bursts(real_time),
        "nrt-vbr" => bursts(Bearer::X),
        _ => Err(SetupError::Category(category.clone())),
    }
}

/// The elements of SETUP.
///
/// # Errors
/// [`SetupError`].
pub fn elements(from: Option<Aesa>, to: Aesa, sap: Sap, traffic: &Traffic) -> Result<ElementList, SetupError> {
    if traffic.sdu_octets == 0 {
        return Err(SetupError::Sdu);
    }
    let (side, best_effort, bearer) = direction(traffic)?;
    let low = sap.element().map(Element::LowLayer);
    let all = [
        Element::Aal(AalParameters::aal5(traffic.sdu_octets)),
        Element::Traffic(q2931::Traffic { forward: side, backward: side, best_effort }),
        Element::Bearer(bearer),
    ];
    let numbers = [Element::Called(Number::aesa(to))];
    let calling = from.map(|from| Element::Calling(Party::aesa(from)));
    let qos = [Element::Qos(Qos::default())];
    Ok(all.into_iter().chain(low).chain(numbers).chain(calling).chain(qos).collect())
}

/// What a host may send on such a call; `backward`: the called one.
///
/// # Errors
/// [`SetupError::Cause`].
pub fn contract(elements: &ElementList, backward: bool) -> Result<Contract, SetupError> {
    let traffic = elements.traffic().ok_or(SetupError::Cause(CauseValue::TRAFFIC_COMBINATION))?;
    let both = contracts(&traffic, elements.bearer()).map_err(SetupError::Cause)?;
    Ok(paced(both[usize::from(backward)]))
}

/// Best effort whose peak is the element's largest value has none.
pub fn paced(contract: Contract) -> Contract {
    let unbounded = contract.pcr.is_some_and(|pcr| pcr.cells_per_s() >= f64::from(NO_PEAK));
    if contract.category == Category::Ubr && unbounded { Contract { pcr: None, ..contract } } else { contract }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contract_is_what_was_asked_for_and_what_cannot_be_signalled_is_said() {
        let ask = |category: &str, pcr, scr, mbs| {
            let traffic = Traffic { category: category.into(), pcr, scr, mbs, ..Traffic::default() };
            elements(None, Aesa::default(), Sap::Llc, &traffic).and_then(|elements| contract(&elements, true))
        };
        assert_eq!(ask("ubr", None, None, None).unwrap(), Contract::default());
        for (category, of) in [("cbr", Category::Cbr), ("ubr", Category::Ubr)] {
            let contract = ask(category, Some(1000), None, None).unwrap();
            assert_eq!((contract.category, contract.pcr.map(|pcr| pcr.cells_per_s())), (of, Some(1000.0)));
        }
        assert_eq!(ask("rt-vbr", Some(1000), Some(100), Some(10)).unwrap().category, Category::RtVbr);
        assert_eq!(ask("nrt-vbr", Some(1000), Some(100), Some(10)).unwrap().mbs, Some(10));
        for category in ["gfr", "abr", "credit"] {
            let why = ask(category, Some(1), None, None).unwrap_err().to_string();
            assert!(why.contains("cannot be signalled"), "{why}");
        }
        for (category, pcr, scr) in
            [("cbr", None, None), ("ubr", None, Some(1)), ("nrt-vbr", Some(1), Some(2)), ("cbr", Some(1 << 24), None)]
        {
            assert!(matches!(ask(category, pcr, scr, Some(1)), Err(SetupError::Parameters { .. })), "{category}");
        }
    }
}
