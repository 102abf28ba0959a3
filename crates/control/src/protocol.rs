//! The management protocol: what can be asked of a running network, as JSON.

use crate::calls::report::CallsStatus;
use crate::config::{Circuit, Link};
use crate::deviations::Deviation;
use crate::diagnostic::Diagnostic;
use crate::history::WrongRevision;
use crate::kinds::Kinds;
use crate::path::PathStatus;
use crate::plan::Line;
use crate::policy::Role;
use crate::status::oam::OamStatus;
use crate::status::{CircuitRow, CircuitStatus, LinkStatus, Status};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;

pub use crate::version::{OLDEST, VERSION};

/// What can be asked. Registered kinds of station have requests of their own beside these.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[schemars(description = "What can be asked.")]
pub enum Request {
    /// Everything that `status` shows.
    Status,
    /// The same; of many circuits only those that are open or have counted something.
    Overview,
    /// The same as `status`, with the counters of circuits, endpoints and links that have ended.
    Ended,
    /// All circuits.
    Circuits,
    /// The same in rows of a list: without ways, and with PDUs alone.
    CircuitRows,
    /// All links.
    Links,
    /// Add a circuit.
    AddCircuit(Box<Circuit>),
    /// Remove the circuit of these ends.
    RemoveCircuit {
        /// As they were given.
        ends: Vec<String>,
    },
    /// Add a link.
    AddLink(Box<Link>),
    /// Remove a link by its name.
    RemoveLink {
        /// `alpha:0 - s1:0`.
        name: String,
    },
    /// Take a link down, or up again.
    SetLink {
        /// Its name.
        name: String,
        /// Whether it may pass anything.
        up: bool,
    },
    /// Give a host or switch another name. What passes is not interrupted.
    Rename {
        /// The name that it has.
        from: String,
        /// The name that it is to have.
        to: String,
    },
    /// Where a circuit leads from a host, who has its far ends open, and what has been dropped on it. Whoever may open
    /// the circuit may ask.
    Path {
        /// The host.
        host: String,
        /// The circuit there, vpi.vci.
        circuit: String,
    },
    /// OAM of one end of a circuit.
    Oam {
        /// The host.
        host: String,
        /// The circuit there, vpi.vci.
        circuit: String,
    },
    /// Ask the other end of a circuit to begin or end continuity check or monitoring; what comes of it is in `oam`.
    OamAsk(OamAsk),
    /// Record a link, to a socket that comes along, until that is closed.
    CaptureStart {
        /// Its name.
        link: String,
        /// Only these circuits; empty: all.
        circuits: Vec<String>,
        /// MiB of what is kept until the socket takes it.
        buffer_mib: u32,
    },
    /// Put cells on a link: 53 octets each, in a sealed memory file that comes along.
    Inject(Inject),
    /// Calls: what a session of an application's asks.
    Calls(endpoint::calls::Request),
    /// Make the network what a description says.
    Apply {
        /// The description.
        text: String,
        /// What it is called in messages.
        name: String,
        /// Where the files are that it names.
        folder: PathBuf,
        /// Only say what would be done.
        dry_run: bool,
        /// Also if it is empty, or has none of the stations that there are.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        allow_empty: bool,
        /// Without what commands have added, removed, taken down or up.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        exact: bool,
        /// It is undone unless `confirm` comes within so many seconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        confirm_seconds: Option<u64>,
    },
    /// The same with the description in a sealed memory file that comes along: for long ones.
    ApplyFile {
        /// What it is called in messages.
        name: String,
        /// Where the files are that it names.
        folder: PathBuf,
        /// Only say what would be done.
        dry_run: bool,
        /// Also if it is empty, or has none of the stations that there are.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        allow_empty: bool,
        /// Without what commands have added, removed, taken down or up.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        exact: bool,
        /// It is undone unless `confirm` comes within so many seconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        confirm_seconds: Option<u64>,
    },
    /// Make the network what its description says: without what commands have added, removed, taken down or up.
    Reset {
        /// Only say what would be done.
        dry_run: bool,
    },
    /// End the trial of a description that was applied with `confirm_seconds`.
    Confirm {
        /// Undo it now; otherwise it stays.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        undo: bool,
    },
    /// The network as a description.
    Export,
}

impl Request {
    /// The role that it needs.
    pub fn needs(&self) -> Role {
        match self {
            // Who may call whom is asked for each call.
            Request::Status
            | Request::Overview
            | Request::Circuits
            | Request::CircuitRows
            | Request::Links
            | Request::Ended
            | Request::Path { .. }
            | Request::Oam { .. }
            | Request::Calls(_) => Role::Watch,
            Request::AddCircuit(_)
            | Request::RemoveCircuit { .. }
            | Request::AddLink(_)
            | Request::RemoveLink { .. }
            | Request::SetLink { .. }
            | Request::Rename { .. }
            | Request::OamAsk(_)
            | Request::CaptureStart { .. }
            | Request::Inject(_)
            | Request::Apply { .. }
            | Request::ApplyFile { .. }
            | Request::Reset { .. }
            | Request::Confirm { .. }
            // It says who may do what.
            | Request::Export => Role::Manage,
        }
    }
}

impl Request {
    /// Whether it changes what is kept for a restart: its answer may say that it is not.
    pub fn is_recorded(&self) -> bool {
        match self {
            Request::AddCircuit(_)
            | Request::RemoveCircuit { .. }
            | Request::AddLink(_)
            | Request::RemoveLink { .. }
            | Request::SetLink { .. }
            | Request::Rename { .. }
            | Request::Confirm { .. } => true,
            Request::Apply { dry_run, .. } | Request::ApplyFile { dry_run, .. } | Request::Reset { dry_run } => {
                !dry_run
            }
            _ => false,
        }
    }

    /// Whether it changes something, and may have an id: it is done once, however often it is asked for.
    pub fn may_have_id(&self) -> bool {
        self.is_recorded() || matches!(self, Request::OamAsk(_))
    }
}

/// What the other end of a circuit is asked for, both ways.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OamAsk {
    /// The host that asks.
    pub host: String,
    /// The circuit there, vpi.vci.
    pub circuit: String,
    /// Begin it, or end it.
    pub begin: bool,
    /// Of what.
    pub subject: OamSubject,
}

/// What can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OamSubject {
    /// Continuity check.
    Continuity,
    /// Performance monitoring.
    Monitoring {
        /// Cells of a block: 128, 256, 512 or 1024.
        block: u16,
    },
}

/// A request with the protocol's version. A request alone is of version 1.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// Of the protocol.
    pub version: u32,
    /// What is asked.
    pub request: Request,
    /// Of a change: the client's name for this request, 1 to 64 printable characters, new for each. Who asks again under
    /// the same id gets the first answer, and nothing is done twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Of a change: the revision that the client expects. If it is not the current one, nothing is done, and the answer
    /// is `wrong_revision`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<u64>,
}

/// It is done, and there is nothing to say of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Done {
    /// It is.
    pub done: bool,
    /// Why the change is not kept for a restart, or is not in the log of changes; it is in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_kept: Option<String>,
}

/// A link was added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LinkAdded {
    /// Its name.
    pub link: String,
    /// Why the change is not kept for a restart, or is not in the log of changes; it is in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_kept: Option<String>,
}

/// A link was removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LinkRemoved {
    /// The circuits that went with it.
    pub removed_circuits: Vec<String>,
    /// Why the change is not kept for a restart, or is not in the log of changes; it is in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_kept: Option<String>,
}

/// A link was taken down, or up again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LinkSet {
    /// Its name.
    pub link: String,
    /// Whether it may pass anything.
    pub enabled: bool,
    /// Why the change is not kept for a restart, or is not in the log of changes; it is in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_kept: Option<String>,
}

/// A capture has begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Capturing {
    /// The link's name.
    pub link: String,
    /// When the network's time was zero.
    pub epoch_unix_nanos: u64,
}

/// Where cells are to be put on a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Inject {
    /// The link's name.
    pub link: String,
    /// The end that they seem to come from, a station of the link's with or without its port; without, the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
}

/// Cells were put on a link.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Injected {
    /// The link's name.
    pub link: String,
    /// The end that they seem to come from.
    pub from: String,
    /// Cells of the memory file that are done with. The link had no room for those behind them: they are to be sent
    /// again.
    pub taken: u64,
    /// Cells that were put on the link.
    pub cells: u64,
    /// Cells of them whose header had one wrong bit, which the receiver put right (I.432.1).
    pub corrected: u64,
    /// Cells whose header was wrong beyond that: counted `header_error` at the link.
    pub header_errors: u64,
}

/// A description was applied, or would be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Applied {
    /// The number of the change; without a change, of the last one.
    pub revision: u64,
    /// Whether nothing was done.
    pub dry_run: bool,
    /// What changes.
    pub changes: Vec<Line>,
    /// Objects that are new.
    pub added: usize,
    /// Objects that become another.
    pub changed: usize,
    /// Objects that go.
    pub removed: usize,
    /// Circuits that stay as they were.
    pub unchanged_circuits: usize,
    /// Circuits that are interrupted.
    pub interrupted: Vec<String>,
    /// What commands and peers had added and does not fit any more.
    pub dropped: Vec<String>,
    /// What commands have added, removed, taken down or up, and stays so.
    #[serde(default)]
    pub kept: Vec<Deviation>,
    /// All that is wrong with the description. Where there is anything, nothing was done.
    #[serde(default)]
    pub problems: Vec<Diagnostic>,
    /// It is undone unless `confirm` comes within so many seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm_seconds: Option<u64>,
    /// Why the change is not kept for a restart, or is not in the log of changes; it is in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_kept: Option<String>,
}

/// The trial of a description has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TrialEnded {
    /// Whether it stays; otherwise what was before it is so again.
    pub confirmed: bool,
    /// The number of the last change.
    pub revision: u64,
    /// Why the change is not kept for a restart, or is not in the log of changes; it is in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_kept: Option<String>,
}

/// A network as a description.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Exported {
    /// The number of the last change.
    pub revision: u64,
    /// The description, in TOML.
    pub description: String,
}

/// A network is up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Up {
    /// Its description.
    pub up: PathBuf,
    /// Where its service listens.
    pub socket: PathBuf,
    /// Where its metrics are; `null` without any.
    pub metrics: Option<SocketAddr>,
}

/// What `config check` says of a description.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Checked {
    /// The file.
    pub file: PathBuf,
    /// Hosts, switches and what is outside.
    pub stations: usize,
    /// Links.
    pub links: usize,
    /// Circuits.
    pub circuits: usize,
    /// All that is wrong with it; the numbers are 0 then.
    pub problems: Vec<Diagnostic>,
    /// Keys by old names, which are read for one release: `config upgrade` writes the new ones.
    #[serde(default)]
    pub renamed: Vec<Diagnostic>,
}

/// What `config upgrade` did to a description.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Upgraded {
    /// The file.
    pub file: PathBuf,
    /// Keys that had old names.
    pub keys: usize,
}

/// What a request about calls is answered with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum CallsAnswer {
    /// Of `list`: all calls.
    List(CallsStatus),
    /// Of any other.
    Other(endpoint::calls::Answer),
}

/// The schema of everything: requests, and the answer to each, those of registered kinds included.
pub fn schema(kinds: &Kinds) -> serde_json::Value {
    use schemars::schema_for;
    let own = [
        ("status", schema_for!(Status)),
        ("overview", schema_for!(Status)),
        ("ended", schema_for!(Status)),
        ("circuits", schema_for!(Vec<CircuitStatus>)),
        ("circuit_rows", schema_for!(Vec<CircuitRow>)),
        ("links", schema_for!(Vec<LinkStatus>)),
        ("add_circuit", schema_for!(Done)),
        ("remove_circuit", schema_for!(Done)),
        ("add_link", schema_for!(LinkAdded)),
        ("remove_link", schema_for!(LinkRemoved)),
        ("set_link", schema_for!(LinkSet)),
        ("rename", schema_for!(Done)),
        ("path", schema_for!(PathStatus)),
        ("oam", schema_for!(OamStatus)),
        ("oam_ask", schema_for!(Done)),
        ("capture_start", schema_for!(Capturing)),
        ("inject", schema_for!(Injected)),
        ("calls", schema_for!(CallsAnswer)),
        ("apply", schema_for!(Applied)),
        ("apply_file", schema_for!(Applied)),
        ("reset", schema_for!(Applied)),
        ("confirm", schema_for!(TrialEnded)),
        ("export", schema_for!(Exported)),
        ("wrong_revision", schema_for!(WrongRevision)),
    ];
    let answer = |(name, schema): (&str, schemars::Schema)| {
        let mut schema = schema.into();
        kinds.complete(&mut schema);
        (name.to_owned(), schema)
    };
    let answers: serde_json::Map<_, _> = own.into_iter().chain(kinds.answers()).map(answer).collect();
    serde_json::json!({ "version": VERSION, "message": kinds.schema_for::<Message>(), "answers": answers })
}
