//! Myrinets as a kind of station of a daemon: what `[myrinet.NAME]` may say, the plan of a change, status, metrics, and
//! the requests of `cellway myrinet`.

mod keys;
mod metrics;
mod overview;
mod requests;
mod status;

use crate::myrinet::{self, Layout, MAX_HOSTS};
use anyhow::Result;
use control::fault::Faults;
use control::kinds::{Difference, Kind, LinkEnd, OwnLink, RequestWords, Running, Words};
use net::SwitchElementConfig;
use prometheus_client::encoding::DescriptorEncoder;
use std::fmt;
use std::path::Path;

pub use keys::{Myrinet, MyrinetCable};
pub use requests::{MyrinetRequest, MyrinetSend};
pub use status::{
    MyrinetHostStatus, MyrinetMap, MyrinetMonitor, MyrinetPortStatus, MyrinetRoutes, MyrinetRun, MyrinetStatus,
    MyrinetSwitchStatus,
};

/// The kind of Myrinets.
#[derive(Debug)]
pub enum MyrinetKind {}

impl Kind for MyrinetKind {
    type Keys = Myrinet;
    type Layout = Layout;
    type Element = myrinet::Myrinet;
    type Status = MyrinetStatus;
    type Request = MyrinetRequest;

    const WORDS: Words = Words {
        section: "myrinet",
        section_meaning: "Myrinets by name.",
        station_meaning: "A Myrinet.",
        list: "myrinets",
        list_meaning: "Myrinets.",
        named_within: None,
    };
    /// A port for each host that it may have.
    const BOUNDS: SwitchElementConfig =
        SwitchElementConfig { ports: MAX_HOSTS as u16, kept_ports: 0, max_routes: 65_536 };
    const REQUESTS: &'static [RequestWords] = requests::WORDS;

    fn describe(keys: &Myrinet) -> Result<Layout, Faults> {
        keys.describe()
    }

    fn own_links(keys: &Myrinet, name: &str, _: &Path, _: &mut Faults) -> Vec<OwnLink> {
        keys.links(name)
    }

    fn check_link(_: &Myrinet, end: &LinkEnd<'_>, faults: &mut Faults) {
        Myrinet::check_link(end, faults);
    }

    fn difference(had: &Layout, wanted: &Layout) -> Difference {
        let cables = wanted.differs_in_cables_only(had);
        Difference { what: if cables { "other cables" } else { "made anew" }.into(), interrupts: !cables }
    }

    fn make(layout: &Layout) -> Result<myrinet::Myrinet> {
        Ok(myrinet::Myrinet::new(layout.clone()))
    }

    fn layout(element: &myrinet::Myrinet) -> &Layout {
        element.layout()
    }

    fn become_like(element: &mut myrinet::Myrinet, made: myrinet::Myrinet) -> myrinet::Myrinet {
        element.become_like(made)
    }

    fn status(running: &Running<'_>, name: &str) -> Result<Option<MyrinetStatus>> {
        status::of(running, name, false)
    }

    fn metrics(stations: &[MyrinetStatus], encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        metrics::encode(stations, encoder)
    }

    fn overview(stations: &[MyrinetStatus]) -> String {
        overview::text(stations)
    }

    fn serve(request: MyrinetRequest, running: &Running<'_>) -> Result<String> {
        requests::serve(request, running)
    }
}
