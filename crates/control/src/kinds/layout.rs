//! What a station of a kind is made of, as an object of a plan, and the station that is made of it.

use super::Kind;
use anyhow::Result;
use host::HostInterface;
use net::topology::{Fabric, TopologyError};
use net::{Network, NodeId, SwitchElementConfig};
use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

/// What becomes of a station whose layout changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// In words, for the plan.
    pub what: String,
    /// Whether whoever uses it is interrupted.
    pub interrupts: bool,
}

trait AnyLayout: Debug + Send + Sync {
    fn section(&self) -> &'static str;
    fn bounds(&self) -> SwitchElementConfig;
    fn difference(&self, wanted: &dyn Any) -> Option<Difference>;
    fn make(&self) -> Result<PreparedStation>;
    fn settle(&self, network: &mut Network, node: NodeId) -> bool;
    fn as_any(&self) -> &dyn Any;
    fn is_like(&self, other: &dyn Any) -> bool;
}

#[derive(Debug)]
struct LayoutOf<K: Kind>(K::Layout);

impl<K: Kind> AnyLayout for LayoutOf<K> {
    fn section(&self) -> &'static str {
        K::WORDS.section
    }

    fn bounds(&self) -> SwitchElementConfig {
        K::BOUNDS
    }

    fn difference(&self, wanted: &dyn Any) -> Option<Difference> {
        wanted.downcast_ref::<Self>().map(|wanted| K::difference(&self.0, &wanted.0))
    }

    fn make(&self) -> Result<PreparedStation> {
        Ok(PreparedStation(Box::new(ElementOf::<K>(Box::new(K::make(&self.0)?)))))
    }

    fn settle(&self, network: &mut Network, node: NodeId) -> bool {
        network.node_mut::<K::Element>(node).is_some_and(K::settle)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn is_like(&self, other: &dyn Any) -> bool {
        other.downcast_ref::<Self>().is_some_and(|other| other.0 == self.0)
    }
}

/// What a station of a registered kind is made of.
#[derive(Debug, Clone)]
pub struct StationLayout(Arc<dyn AnyLayout>);

impl StationLayout {
    /// Of a kind.
    pub fn of<K: Kind>(layout: K::Layout) -> Self {
        StationLayout(Arc::new(LayoutOf::<K>(layout)))
    }

    /// The kind's own type, if it is of this kind.
    pub fn get<K: Kind>(&self) -> Option<&K::Layout> {
        self.0.as_any().downcast_ref::<LayoutOf<K>>().map(|layout| &layout.0)
    }

    /// The kind's section.
    pub fn section(&self) -> &'static str {
        self.0.section()
    }

    /// The station's bounds as the router knows them.
    pub fn bounds(&self) -> SwitchElementConfig {
        self.0.bounds()
    }

    /// What becomes of the station if it is to be another; `None` if that is of another kind.
    pub fn difference(&self, wanted: &StationLayout) -> Option<Difference> {
        self.0.difference(wanted.0.as_any())
    }

    /// Makes the station; no work for the network's thread.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn make(&self) -> Result<PreparedStation> {
        self.0.make()
    }

    /// Does some of what a change of the station has left to do. True if there was something.
    pub fn settle(&self, network: &mut Network, node: NodeId) -> bool {
        self.0.settle(network, node)
    }
}

impl PartialEq for StationLayout {
    fn eq(&self, other: &Self) -> bool {
        self.0.is_like(other.0.as_any())
    }
}

trait AnyElement: Send {
    fn add(
        self: Box<Self>,
        network: &mut Network,
        fabric: &mut Fabric<HostInterface>,
        name: &str,
    ) -> Result<(), TopologyError>;
    fn replace(self: Box<Self>, network: &mut Network, node: NodeId) -> Option<(StationLayout, Box<dyn Send>)>;
}

struct ElementOf<K: Kind>(Box<K::Element>);

impl<K: Kind> AnyElement for ElementOf<K> {
    fn add(
        self: Box<Self>,
        network: &mut Network,
        fabric: &mut Fabric<HostInterface>,
        name: &str,
    ) -> Result<(), TopologyError> {
        fabric.add_element(network, name, K::BOUNDS, *self.0).map(drop)
    }

    fn replace(self: Box<Self>, network: &mut Network, node: NodeId) -> Option<(StationLayout, Box<dyn Send>)> {
        let element = network.node_mut::<K::Element>(node)?;
        let had = StationLayout::of::<K>(K::layout(element).clone());
        Some((had, Box::new(K::become_like(element, *self.0))))
    }
}

/// A station of a registered kind, made.
pub struct PreparedStation(Box<dyn AnyElement>);

impl PreparedStation {
    /// Puts it into a network.
    ///
    /// # Errors
    /// The name is taken.
    pub fn add(
        self,
        network: &mut Network,
        fabric: &mut Fabric<HostInterface>,
        name: &str,
    ) -> Result<(), TopologyError> {
        self.0.add(network, fabric, name)
    }

    /// Makes the station that is there like this one. Gives what that was made of, and what is to be dropped
    /// elsewhere.
    ///
    /// # Errors
    /// No station of the kind has this name.
    pub fn replace(
        self,
        network: &mut Network,
        fabric: &Fabric<HostInterface>,
        name: &str,
    ) -> Result<(StationLayout, Box<dyn Send>), TopologyError> {
        let replaced = fabric.node(name).and_then(|node| self.0.replace(network, node));
        replaced.ok_or_else(|| TopologyError::NoStation(name.to_owned()))
    }
}
