//! Kinds of virtual adapter, which a guest drives by a socket: what `kind` says in `[adapter.NAME]`.

use crate::fault::Faults;
use anyhow::Result;
use endpoint::socket_path::SocketPath;
use net::CallShare;
use net::external::External;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Serialize, Serializer};
use std::any::Any;
use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

/// A kind of virtual adapter: a type without values that says what the kind is made of and does.
pub trait AdapterKind: Debug + Sized + 'static {
    /// What is written in its section, the key `kind` included.
    type Keys: Clone + Debug + Send + Sync + Serialize + DeserializeOwned + JsonSchema;
    /// The card. Adapters with equal cards need no change.
    type Card: Clone + Debug + PartialEq + Send + Sync;

    /// What the key `kind` says.
    const KIND: &'static str;

    /// The guest's name in the network.
    fn host(keys: &Self::Keys) -> &str;

    /// Where a virtual machine attaches, relative to the description's folder.
    fn socket(keys: &Self::Keys) -> &Path;

    /// What the keys of the adapter of this name mean.
    ///
    /// # Errors
    /// All that is wrong with them.
    fn describe(keys: &Self::Keys, name: &str) -> Result<Self::Card, Faults>;

    /// Whether a card has the circuits of calls.
    ///
    /// # Errors
    /// It has not.
    fn check_labels(card: &Self::Card, calls: &CallShare) -> Result<()>;

    /// Makes an adapter that is served at a socket, or `beside` that until [`ServedAdapter::place`] is taken.
    ///
    /// # Errors
    /// The system refuses the socket or a thread.
    fn serve(card: &Self::Card, socket: &Path, beside: bool) -> Result<ServedAdapter>;
}

/// A virtual adapter, made.
pub struct ServedAdapter {
    /// What is outside at the link that is its cable.
    pub external: Box<dyn External>,
    /// Its socket.
    pub place: SocketPath,
}

trait AnyCard: Debug + Send + Sync {
    fn check_labels(&self, calls: &CallShare) -> Result<()>;
    fn serve(&self, socket: &Path, beside: bool) -> Result<ServedAdapter>;
    fn as_any(&self) -> &dyn Any;
    fn is_like(&self, other: &dyn Any) -> bool;
}

#[derive(Debug)]
struct CardOf<K: AdapterKind>(K::Card);

impl<K: AdapterKind> AnyCard for CardOf<K> {
    fn check_labels(&self, calls: &CallShare) -> Result<()> {
        K::check_labels(&self.0, calls)
    }

    fn serve(&self, socket: &Path, beside: bool) -> Result<ServedAdapter> {
        K::serve(&self.0, socket, beside)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn is_like(&self, other: &dyn Any) -> bool {
        other.downcast_ref::<Self>().is_some_and(|other| other.0 == self.0)
    }
}

/// The card of a virtual adapter of whatever kind.
#[derive(Debug, Clone)]
pub struct Card(Arc<dyn AnyCard>);

impl Card {
    /// Of a kind.
    pub fn of<K: AdapterKind>(card: K::Card) -> Self {
        Card(Arc::new(CardOf::<K>(card)))
    }

    /// Whether the card has the circuits of calls.
    ///
    /// # Errors
    /// It has not.
    pub fn check_labels(&self, calls: &CallShare) -> Result<()> {
        self.0.check_labels(calls)
    }

    /// Makes an adapter that is served at a socket, or `beside` that until [`ServedAdapter::place`] is taken.
    ///
    /// # Errors
    /// The system refuses the socket or a thread.
    pub fn serve(&self, socket: &Path, beside: bool) -> Result<ServedAdapter> {
        self.0.serve(socket, beside)
    }
}

impl PartialEq for Card {
    fn eq(&self, other: &Self) -> bool {
        self.0.is_like(other.0.as_any())
    }
}

trait AnyAdapterKeys: Debug + Send + Sync {
    fn host(&self) -> &str;
    fn socket(&self) -> &Path;
    fn describe(&self, name: &str) -> Result<Card, Faults>;
    fn as_serialize(&self) -> &dyn erased_serde::Serialize;
}

#[derive(Debug)]
struct AdapterKeysOf<K: AdapterKind>(K::Keys);

impl<K: AdapterKind> AnyAdapterKeys for AdapterKeysOf<K> {
    fn host(&self) -> &str {
        K::host(&self.0)
    }

    fn socket(&self) -> &Path {
        K::socket(&self.0)
    }

    fn describe(&self, name: &str) -> Result<Card, Faults> {
        K::describe(&self.0, name).map(Card::of::<K>)
    }

    fn as_serialize(&self) -> &dyn erased_serde::Serialize {
        &self.0
    }
}

/// The keys of a virtual adapter of whatever kind.
#[derive(Debug, Clone)]
pub struct AdapterKeys(Arc<dyn AnyAdapterKeys>);

impl AdapterKeys {
    /// Of a kind.
    pub fn of<K: AdapterKind>(keys: K::Keys) -> Self {
        AdapterKeys(Arc::new(AdapterKeysOf::<K>(keys)))
    }

    /// The guest's name in the network.
    pub fn host(&self) -> &str {
        self.0.host()
    }

    /// Where a virtual machine attaches, relative to the description's folder.
    pub fn socket(&self) -> &Path {
        self.0.socket()
    }

    /// What they mean.
    ///
    /// # Errors
    /// All that is wrong with them.
    pub fn describe(&self, name: &str) -> Result<Card, Faults> {
        self.0.describe(name)
    }
}

impl Serialize for AdapterKeys {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        erased_serde::serialize(self.0.as_serialize(), to)
    }
}
