//! Requests that only stations of a kind have.

use super::{Kind, Running};
use crate::policy::Role;
use anyhow::Result;
use schemars::{JsonSchema, Schema};
use serde::Deserialize;
use std::fmt::Debug;

/// What is known of a request before anybody asks it.
#[derive(Debug)]
pub struct RequestWords {
    /// Its name.
    pub name: &'static str,
    /// The role that it needs.
    pub needs: Role,
    /// The schema of its answer.
    pub answer: fn() -> Schema,
}

/// The requests of a kind that has none.
#[derive(Debug, Deserialize, JsonSchema)]
pub enum NoRequest {}

trait AnyRequest: Debug + Send {
    fn section(&self) -> &'static str;
    fn serve(self: Box<Self>, running: &Running<'_>) -> Result<String>;
}

#[derive(Debug)]
struct RequestOf<K: Kind>(K::Request);

impl<K: Kind> AnyRequest for RequestOf<K> {
    fn section(&self) -> &'static str {
        K::WORDS.section
    }

    fn serve(self: Box<Self>, running: &Running<'_>) -> Result<String> {
        K::serve(self.0, running)
    }
}

/// A request of a registered kind.
#[derive(Debug)]
pub struct KindRequest {
    needs: Role,
    request: Box<dyn AnyRequest>,
}

impl KindRequest {
    /// Of a kind.
    pub fn of<K: Kind>(request: K::Request, needs: Role) -> Self {
        KindRequest { needs, request: Box::new(RequestOf::<K>(request)) }
    }

    /// The role that it needs.
    pub fn needs(&self) -> Role {
        self.needs
    }

    /// The section of the kind.
    pub fn section(&self) -> &'static str {
        self.request.section()
    }

    /// Carries it out; gives the answer as JSON text.
    ///
    /// # Errors
    /// Why it cannot be.
    pub fn serve(self, running: &Running<'_>) -> Result<String> {
        self.request.serve(running)
    }
}
