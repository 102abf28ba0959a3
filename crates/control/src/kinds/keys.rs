//! What is written of a station of a kind, and the links that it makes by itself.

use super::{Kind, OwnEnd, StationLayout};
use crate::fault::{Faults, PartPath};
use net::Carries;
use net::topology::LinkDescription;
use serde::{Serialize, Serializer};
use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

/// A link that a station makes by itself.
#[derive(Debug)]
pub struct OwnLink {
    /// The part of the section that says so.
    pub part: PartPath,
    /// The link.
    pub description: LinkDescription,
    /// What it leads to.
    pub far: Far,
}

/// The far end of a link that a station makes by itself.
#[derive(Debug)]
pub enum Far {
    /// A host or a switch of the description. It has to be there.
    Station(String),
    /// Something outside, which the station brings along: by its name in the network.
    Outside(String, OwnEnd),
}

/// An end of a link that leads to a station.
#[derive(Debug, Clone, Copy)]
pub struct LinkEnd<'a> {
    /// Which of the two ends: 0 or 1.
    pub place: usize,
    /// The name of the station.
    pub station: &'a str,
    /// The port there, if one is given.
    pub port: Option<u16>,
    /// What the link carries.
    pub carries: Carries,
    /// Whether calls are signalled over it.
    pub signalling: bool,
}

trait AnyKeys: Debug + Send + Sync {
    fn describe(&self) -> Result<StationLayout, Faults>;
    fn empty(&self) -> StationLayout;
    fn own_links(&self, name: &str, folder: &Path, faults: &mut Faults) -> Vec<OwnLink>;
    fn check_link(&self, end: &LinkEnd<'_>, faults: &mut Faults);
    fn as_serialize(&self) -> &dyn erased_serde::Serialize;
}

#[derive(Debug)]
struct KeysOf<K: Kind>(K::Keys);

impl<K: Kind> AnyKeys for KeysOf<K> {
    fn describe(&self) -> Result<StationLayout, Faults> {
        K::describe(&self.0).map(StationLayout::of::<K>)
    }

    fn empty(&self) -> StationLayout {
        StationLayout::of::<K>(K::Layout::default())
    }

    fn own_links(&self, name: &str, folder: &Path, faults: &mut Faults) -> Vec<OwnLink> {
        K::own_links(&self.0, name, folder, faults)
    }

    fn check_link(&self, end: &LinkEnd<'_>, faults: &mut Faults) {
        K::check_link(&self.0, end, faults);
    }

    fn as_serialize(&self) -> &dyn erased_serde::Serialize {
        &self.0
    }
}

/// The keys of a station of a registered kind.
#[derive(Debug, Clone)]
pub struct StationKeys(Arc<dyn AnyKeys>);

impl StationKeys {
    /// Of a kind.
    pub fn of<K: Kind>(keys: K::Keys) -> Self {
        StationKeys(Arc::new(KeysOf::<K>(keys)))
    }

    /// What they mean.
    ///
    /// # Errors
    /// All that is wrong with them.
    pub fn describe(&self) -> Result<StationLayout, Faults> {
        self.0.describe()
    }

    /// What stands for the station where its keys mean nothing.
    pub fn empty(&self) -> StationLayout {
        self.0.empty()
    }

    /// The links that the station makes by itself. Files are in `folder`.
    pub fn own_links(&self, name: &str, folder: &Path, faults: &mut Faults) -> Vec<OwnLink> {
        self.0.own_links(name, folder, faults)
    }

    /// What is wrong with a link to the station.
    pub fn check_link(&self, end: &LinkEnd<'_>, faults: &mut Faults) {
        self.0.check_link(end, faults);
    }
}

impl Serialize for StationKeys {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        erased_serde::serialize(self.0.as_serialize(), to)
    }
}
