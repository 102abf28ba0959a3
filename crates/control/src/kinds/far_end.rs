//! What is outside at a link that a station makes by itself.

use anyhow::Result;
use net::Carries;
use net::external::External;
use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

/// What is outside at a link of its own, as it is described.
pub trait FarEnd: Debug + Send + Sync + PartialEq + 'static {
    /// What it is called in messages.
    fn kind(&self) -> &'static str;

    /// Its name.
    fn name(&self) -> &str;

    /// What a link to it carries.
    fn carries(&self) -> Carries;

    /// Makes it.
    ///
    /// # Errors
    /// The system refuses a file or a socket.
    fn make(&self) -> Result<Box<dyn External>>;
}

trait AnyEnd: Debug + Send + Sync {
    fn kind(&self) -> &'static str;
    fn name(&self) -> &str;
    fn carries(&self) -> Carries;
    fn make(&self) -> Result<Box<dyn External>>;
    fn as_any(&self) -> &dyn Any;
    fn is_like(&self, other: &dyn Any) -> bool;
}

impl<T: FarEnd> AnyEnd for T {
    fn kind(&self) -> &'static str {
        FarEnd::kind(self)
    }

    fn name(&self) -> &str {
        FarEnd::name(self)
    }

    fn carries(&self) -> Carries {
        FarEnd::carries(self)
    }

    fn make(&self) -> Result<Box<dyn External>> {
        FarEnd::make(self)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn is_like(&self, other: &dyn Any) -> bool {
        other.downcast_ref::<T>() == Some(self)
    }
}

/// A [`FarEnd`] of whatever type.
#[derive(Debug, Clone)]
pub struct OwnEnd(Arc<dyn AnyEnd>);

impl OwnEnd {
    /// Of a type.
    pub fn new(end: impl FarEnd) -> Self {
        OwnEnd(Arc::new(end))
    }

    /// What it is called in messages.
    pub fn kind(&self) -> &'static str {
        self.0.kind()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// What a link to it carries.
    pub fn carries(&self) -> Carries {
        self.0.carries()
    }

    /// Makes it.
    ///
    /// # Errors
    /// The system refuses a file or a socket.
    pub fn make(&self) -> Result<Box<dyn External>> {
        self.0.make()
    }
}

impl PartialEq for OwnEnd {
    fn eq(&self, other: &Self) -> bool {
        self.0.is_like(other.0.as_any())
    }
}
