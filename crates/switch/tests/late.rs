//! A switch whose thread is late: what a contract's circuit may have waiting.

use std::time::Duration;
use switch::Profile;
use traffic::{Category, Contract};
use wire::CellRate;

#[test]
fn a_contract_has_a_queue_for_what_its_rate_brings_while_the_thread_is_late() {
    let queue = |contract: &Contract| Profile::of(contract, true, 16_384).queue_cells;
    let cdvt = Duration::from_millis(1);
    let cbr =
        |rate| Contract { category: Category::Cbr, pcr: CellRate::from_cells_per_s(rate), cdvt, ..Contract::default() };
    // 20 Mbit/s in cells of 53 octets.
    assert_eq!(queue(&cbr(47_170.0)), 14_151);
    assert_eq!(queue(&cbr(100.0)), Profile::default().queue_cells);
    assert_eq!(queue(&cbr(1e6)), u16::MAX);
    assert_eq!(queue(&Contract::default()), Profile::default().queue_cells);
}
