//! What a state folder keeps, as types.

use crate::sources::commands::Kept;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::path::PathBuf;

/// Everything that outlives a daemon. A change of this type is a new version of the file ([`super::format`]).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stored {
    /// No change has a number above this one: the next daemon counts on from here.
    pub revision: u64,
    /// What commands want.
    pub commands: Kept,
    /// Changes that were asked for under an id, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answered: Vec<Answered>,
    /// A description that was applied until somebody confirms it, or that nobody has confirmed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<TrialRecord>,
}

/// The answer to a change that was asked for under an id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answered {
    /// Whose id it is.
    pub user: u32,
    /// As the client chose it.
    pub id: String,
    /// Of the request: an id stands for one request.
    pub digest: String,
    /// The answer, JSON text.
    pub answer: String,
}

/// A description on trial, and what is so again if nobody confirms it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrialRecord {
    /// [`digest`] of the text of the description on trial.
    pub digest: String,
    /// The description before it.
    pub before: Described,
    /// Nobody has confirmed it in time: a daemon that is started with it takes the one before.
    pub undone: bool,
}

/// A description as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Described {
    /// What it is called in messages.
    pub name: String,
    /// Where the files are that it names.
    pub folder: PathBuf,
    /// The text.
    pub text: String,
}

/// SHA-256 of some octets, in hexadecimal digits.
pub fn digest(octets: &[u8]) -> String {
    Sha256::digest(octets).iter().map(|octet| format!("{octet:02x}")).collect()
}
