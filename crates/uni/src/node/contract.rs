//! What a call's traffic descriptor asks of a link (TM 4.0 section 2, UNI 3.1 table 5-7, UNI 4.0 annex 9).

use traffic::{Category, Contract};
use wire::CellRate;
use wire::q2931::{Bearer, CauseValue, Direction, Traffic};

/// The contracts forward and backward, or the cause: the parameters do not go together.
pub fn contracts(traffic: &Traffic, bearer: Option<Bearer>) -> Result<[Contract; 2], CauseValue> {
    let real_time = matches!(bearer.and_then(|b| b.transfer), Some(0x01 | 0x09 | 0x13));
    let one = |direction: &Direction| contract(direction, traffic.best_effort, real_time);
    Ok([one(&traffic.forward)?, one(&traffic.backward)?])
}

fn contract(d: &Direction, best_effort: bool, real_time: bool) -> Result<Contract, CauseValue> {
    let rate = |cells: Option<u32>| cells.and_then(|n| CellRate::from_cells_per_s(n.into()));
    let has_burst = d.scr.or(d.scr_clp0).is_some() || d.mbs.or(d.mbs_clp0).is_some();
    let Some(peak) = d.pcr else { return Err(CauseValue::TRAFFIC_COMBINATION) };
    let category = match (best_effort, d.mcr.is_some(), has_burst) {
        (true, false, false) => Category::Ubr,
        (false, true, false) => Category::Abr,
        (false, false, true) if real_time => Category::RtVbr,
        (false, false, true) => Category::NrtVbr,
        (false, false, false) => Category::Cbr,
        _ => return Err(CauseValue::TRAFFIC_COMBINATION),
    };
    let none = Contract { category: Category::Ubr, ..Contract::default() };
    let contract = match (category, peak) {
        // Nothing is sent this way.
        (_, 0) => none,
        // A minimum is what ABR is promised; its peak is only a bound.
        (Category::Abr, _) => Contract { category, pcr: rate(d.mcr), ..none },
        (Category::RtVbr | Category::NrtVbr, _) => {
            let (scr, mbs) = (d.scr.or(d.scr_clp0), d.mbs.or(d.mbs_clp0));
            Contract { category, pcr: rate(d.pcr), scr: rate(scr), mbs, ..none }
        }
        _ => Contract { category, pcr: rate(d.pcr), ..none },
    };
    // An ABR minimum of zero promises nothing.
    let contract = if category == Category::Abr && contract.pcr.is_none() { none } else { contract };
    contract.checked().map_err(|_| CauseValue::TRAFFIC_COMBINATION)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_name_their_category() {
        let with = |d: Direction, best_effort| Traffic { forward: d, backward: d, best_effort };
        let peak = Direction { pcr: Some(1000), ..Direction::default() };
        let category = |traffic: Traffic, transfer| {
            contracts(&traffic, Some(Bearer { transfer, ..Bearer::X })).map(|[forward, _]| forward.category)
        };
        assert_eq!(category(with(peak, true), None), Ok(Category::Ubr));
        assert_eq!(category(with(peak, false), None), Ok(Category::Cbr));
        let vbr = Direction { scr: Some(100), mbs: Some(10), ..peak };
        assert_eq!(category(with(vbr, false), None), Ok(Category::NrtVbr));
        assert_eq!(category(with(vbr, false), Some(9)), Ok(Category::RtVbr));
        assert_eq!(category(with(Direction { mcr: Some(5), ..peak }, false), Some(12)), Ok(Category::Abr));
        for bad in [
            with(Direction { mbs: None, ..vbr }, false),
            with(Direction { scr: Some(2000), ..vbr }, false),
            with(vbr, true),
            with(Direction::default(), false),
        ] {
            assert_eq!(category(bad, None), Err(CauseValue::TRAFFIC_COMBINATION), "{bad:?}");
        }
    }
}
