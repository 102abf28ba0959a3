//! Desk-area networks as a kind of station of a daemon: what `[desk.NAME]` may say, its devices, the plan of a change,
//! status, and metrics.

mod device;
mod keys;
mod metrics;
mod overview;
mod status;

use crate::desk::{self, LINKS, Layout, MAX_CHIPS};
use anyhow::Result;
use control::fault::Faults;
use control::kinds::{Difference, Kind, LinkEnd, NoRequest, OwnLink, Running, Words};
use net::SwitchElementConfig;
use prometheus_client::encoding::DescriptorEncoder;
use std::fmt;
use std::path::Path;
use std::time::Duration;

pub use keys::{Desk, DeskDevice};
pub use status::{DeskChipStatus, DeskPortStatus, DeskStatus};

/// How often a desk with cells under way is visited: its slots are too short to visit it for each.
const GRAIN: Duration = Duration::from_micros(10);
/// What a desk settles at once after its layout has changed: as much as leading circuits over so many links between its
/// chips.
const SETTLED: usize = 128;

/// The kind of desk-area networks.
#[derive(Debug)]
pub enum DeskKind {}

impl Kind for DeskKind {
    type Keys = Desk;
    type Layout = Layout;
    type Element = desk::Desk;
    type Status = DeskStatus;
    type Request = NoRequest;

    const WORDS: Words = Words {
        section: "desk",
        section_meaning: "Desk-area networks by name.",
        station_meaning: "A desk-area network.",
        list: "desks",
        list_meaning: "Desk-area networks.",
        named_within: Some("devices"),
    };
    /// A port for each chip that it may have, and for the ends of a chain.
    const BOUNDS: SwitchElementConfig =
        SwitchElementConfig { ports: (MAX_CHIPS + LINKS) as u16, kept_ports: 0, max_routes: 65_536 };

    fn describe(keys: &Desk) -> Result<Layout, Faults> {
        keys.describe()
    }

    fn own_links(keys: &Desk, name: &str, folder: &Path, faults: &mut Faults) -> Vec<OwnLink> {
        keys.devices(name, folder, faults)
    }

    fn check_link(keys: &Desk, end: &LinkEnd<'_>, faults: &mut Faults) {
        keys.check_link(end, faults);
    }

    fn difference(had: &Layout, wanted: &Layout) -> Difference {
        let power = wanted.differs_in_power_only(had);
        Difference { what: if power { "other chips have power" } else { "made anew" }.into(), interrupts: !power }
    }

    fn make(layout: &Layout) -> Result<desk::Desk> {
        let mut desk = desk::Desk::new(layout.clone())?.with_grain(GRAIN);
        desk.touch();
        Ok(desk)
    }

    fn layout(element: &desk::Desk) -> &Layout {
        element.layout()
    }

    fn become_like(element: &mut desk::Desk, made: desk::Desk) -> desk::Desk {
        element.become_like(made)
    }

    /// Chips are to have their power, and circuits their ways.
    fn settle(element: &mut desk::Desk) -> bool {
        element.settle(SETTLED)
    }

    fn status(running: &Running<'_>, name: &str) -> Result<Option<DeskStatus>> {
        status::of(running, name)
    }

    fn metrics(stations: &[DeskStatus], encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        metrics::encode(stations, encoder)
    }

    fn overview(stations: &[DeskStatus]) -> String {
        overview::text(stations)
    }

    fn serve(request: NoRequest, _: &Running<'_>) -> Result<String> {
        match request {}
    }
}
