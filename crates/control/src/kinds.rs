//! The registry of kinds of station. Hosts and switches are control's own. What else circuits pass, such as a network
//! of an adapter, is a kind: a type that implements [`Kind`], in the package of its adapter. So is a virtual adapter
//! that a guest drives ([`AdapterKind`]).
//!
//! In: the kinds that a program links ([`Kinds::with`]). They go along with a description that is read
//! ([`crate::config::Config`]), and from there to the daemon that runs it. Out: for each of control's parts, what the
//! kinds add to it: sections of descriptions ([`Sections`]), objects of a plan ([`StationLayout`]), elements of a
//! network ([`PreparedStation`]), far ends of links ([`OwnEnd`]), status and metrics ([`Statuses`]), requests
//! ([`KindRequest`]), and schemas ([`Kinds::complete`]).

mod adapters;
mod far_end;
mod keys;
mod layout;
mod registry;
mod requests;
mod schemas;
mod sections;
mod statuses;

use crate::fault::Faults;
use anyhow::Result;
use host::engine::EngineHandle;
use net::topology::Router;
use net::{Node, RouteTable, SwitchElementConfig};
use prometheus_client::encoding::DescriptorEncoder;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::{self, Debug};
use std::path::Path;

pub use adapters::{AdapterKeys, AdapterKind, Card, ServedAdapter};
pub use far_end::{FarEnd, OwnEnd};
pub use keys::{Far, LinkEnd, OwnLink, StationKeys};
pub use layout::{Difference, PreparedStation, StationLayout};
pub use registry::Kinds;
pub use requests::{KindRequest, NoRequest, RequestWords};
pub use sections::Sections;
pub use statuses::{KindStatuses, Statuses};

/// What a kind is called.
#[derive(Debug)]
pub struct Words {
    /// The section of descriptions, and a station's kind in output: `myrinet` for `[myrinet.NAME]`.
    pub section: &'static str,
    /// What the section has, for the reference.
    pub section_meaning: &'static str,
    /// What one station is, for the reference.
    pub station_meaning: &'static str,
    /// The list of stations in status: `myrinets`.
    pub list: &'static str,
    /// What the list has, for the reference.
    pub list_meaning: &'static str,
    /// The table of a section whose keys are names of stations outside, if it has one.
    pub named_within: Option<&'static str>,
}

/// The running network, as a kind looks at it. No change is made meanwhile.
#[derive(Debug, Clone, Copy)]
pub struct Running<'a> {
    /// What runs it.
    pub engine: &'a EngineHandle,
    /// Its links and circuits.
    pub router: &'a Router,
    /// The stations of the kind.
    pub stations: &'a [String],
}

/// A kind of station: a type without values that says what the kind is made of and does.
///
/// Circuits pass a station as they pass a switch. To the router it is a switch of [`Kind::BOUNDS`].
pub trait Kind: Debug + Sized + 'static {
    /// What is written in its section. Unknown keys are errors if the type denies them.
    type Keys: Clone + Debug + Send + Sync + Serialize + DeserializeOwned + JsonSchema;
    /// What a station is made of. Stations with equal layouts need no change.
    type Layout: Clone + Debug + Default + PartialEq + Send + Sync;
    /// A station in a network.
    type Element: Node + RouteTable + 'static;
    /// What is told of a station.
    type Status: Clone + Debug + Send + Sync + Serialize + DeserializeOwned + JsonSchema;
    /// Requests of its own: an enumeration, tagged by the names of [`Kind::REQUESTS`]; [`NoRequest`] without any.
    type Request: Debug + Send + DeserializeOwned + JsonSchema;

    /// What it is called.
    const WORDS: Words;
    /// A station's bounds as the router knows them.
    const BOUNDS: SwitchElementConfig;
    /// Its requests, in the order of their type.
    const REQUESTS: &'static [RequestWords] = &[];

    /// What the keys of a station mean.
    ///
    /// # Errors
    /// All that is wrong with them.
    fn describe(keys: &Self::Keys) -> Result<Self::Layout, Faults>;

    /// The links that a station makes by itself, with the far ends that it brings along. Files are in `folder`.
    fn own_links(keys: &Self::Keys, name: &str, folder: &Path, faults: &mut Faults) -> Vec<OwnLink> {
        let _ = (keys, name, folder, faults);
        Vec::new()
    }

    /// What is wrong with a link of the description, or of a command, to a station.
    fn check_link(keys: &Self::Keys, end: &LinkEnd<'_>, faults: &mut Faults) {
        let _ = (keys, end, faults);
    }

    /// What becomes of a station whose layout changes.
    fn difference(had: &Self::Layout, wanted: &Self::Layout) -> Difference;

    /// Makes a station without circuits. This may take long: it is no work for the network's thread.
    ///
    /// # Errors
    /// It cannot be made.
    fn make(layout: &Self::Layout) -> Result<Self::Element>;

    /// What a running station is made of.
    fn layout(element: &Self::Element) -> &Self::Layout;

    /// Makes a running station like a new one, whose circuits are the same. Gives what is to be dropped elsewhere.
    fn become_like(element: &mut Self::Element, made: Self::Element) -> Self::Element;

    /// Does some of what a change has left to do, a bounded amount. True if there was something.
    fn settle(element: &mut Self::Element) -> bool {
        let _ = element;
        false
    }

    /// What is told of a station; `None` if it is not there.
    ///
    /// # Errors
    /// The engine has stopped.
    fn status(running: &Running<'_>, name: &str) -> Result<Option<Self::Status>>;

    /// Status as metrics.
    ///
    /// # Errors
    /// The encoder fails.
    fn metrics(stations: &[Self::Status], encoder: &mut DescriptorEncoder<'_>) -> fmt::Result;

    /// What `cellway status` shows of the stations; nothing without any.
    fn overview(stations: &[Self::Status]) -> String;

    /// Carries a request out; gives the answer as JSON text.
    ///
    /// # Errors
    /// Why it cannot be.
    fn serve(request: Self::Request, running: &Running<'_>) -> Result<String>;
}
