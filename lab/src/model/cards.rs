//! A host with both cards of seed 001 and their driver, as [`super::poll`] and [`mod@super::write`] put it on modelled machines.

use bus::memory::Flat;
use core::time::Duration;
use penn::driver::{Cards, Penn};
use penn::reassembler::Card;
use penn::reassembly::Config;
use penn::segmenter::Segmenter;
use wire::Time;

/// The cards, the host's memory, the driver, and the file that an application has open.
pub(super) struct Host {
    pub(super) segmenter: Segmenter,
    pub(super) reassembler: Card,
    pub(super) memory: Flat,
    pub(super) driver: Penn,
    pub(super) file: usize,
}

impl Host {
    /// `octets` of memory, the driver's buffers first; a clock that ticks each `tick`. `None`: a configuration that the card
    /// does not take.
    pub(super) fn new(mut segmenter: Segmenter, config: Config, octets: usize, tick: Duration) -> Option<Self> {
        let mut reassembler = Card::new(config).ok()?;
        let mut memory = Flat::new(0, octets);
        let mut cards = Cards { segmenter: &mut segmenter, reassembler: &mut reassembler, memory: &mut memory };
        let lists = (config.circuits + config.pdus) as u32;
        let mut driver = Penn::probe(&mut cards, 0, lists, tick, Time::ZERO);
        let file = driver.open();
        Some(Host { segmenter, reassembler, memory, driver, file })
    }

    pub(super) fn with<R>(&mut self, f: impl FnOnce(&mut Penn, &mut Cards<'_, Flat>, usize) -> R) -> R {
        let Host { segmenter, reassembler, memory, driver, file } = self;
        f(driver, &mut Cards { segmenter, reassembler, memory }, *file)
    }
}
