//! What the commands that talk to a running service share.

use crate::context::Context;
use crate::output;
use anyhow::{Context as _, Result};
use control::history::WrongRevision;
use control::protocol::Request;
use endpoint::client::Change;
use endpoint::{Aal, ChannelId, Connection, DataPath, Endpoint, EndpointConfig, Geometry, OpenOptions};
use serde::de::DeserializeOwned;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::time::Duration;
use wire::CircuitId;

pub use crate::signals::{Input, ends_in_order, goes_on, interrupted, interruption};

/// Where the system's service listens (`cellway.service`).
const SYSTEM_SOCKET: &str = "/run/cellway/cellway.sock";

/// Where commands look for the service unless told otherwise: the user's own, and the system's if the user has none.
pub fn default_socket() -> PathBuf {
    first_that_exists(own_socket(), SYSTEM_SOCKET.into())
}

fn first_that_exists(own: PathBuf, system: PathBuf) -> PathBuf {
    if !own.exists() && system.exists() { system } else { own }
}

/// Where a service of this user listens: the user's runtime folder, or a folder of the user's in /tmp.
pub fn own_socket() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(dir) if !dir.is_empty() => PathBuf::from(dir).join("cellway.sock"),
        _ => PathBuf::from(format!("/tmp/cellway-{}/cellway.sock", rustix::process::getuid().as_raw())),
    }
}

/// The command has a time limit of its own: no request to the service takes longer.
pub fn within(limit: Duration) {
    endpoint::client::set_request_limit(limit.min(endpoint::client::request_limit()));
}

/// Asks the daemon, and reads the answer as what it is.
pub fn ask_for<T: DeserializeOwned>(context: &Context, request: &Request) -> Result<T> {
    if request.may_have_id() {
        return change(context, request, None);
    }
    read(&Connection::open(&context.socket)?.manage_text(serde_json::to_value(request)?, &[])?)
}

/// Asks the daemon for a change until it is known what became of it, and reads the answer as what it is. `expect`: the
/// revision that it is for.
///
/// # Errors
/// [`WrongRevision`] among others.
pub fn change<T: DeserializeOwned>(context: &Context, request: &Request, expect: Option<u64>) -> Result<T> {
    change_with(context, request, expect, &[])
}

/// The same with a long text that goes along.
///
/// # Errors
/// The same.
pub fn change_with_text<T: DeserializeOwned>(
    context: &Context,
    request: &Request,
    expect: Option<u64>,
    text: &str,
) -> Result<T> {
    let memory = endpoint::sealed::write(text.as_bytes()).context("memory for the text")?;
    change_with(context, request, expect, &[memory.as_fd()])
}

fn change_with<T: DeserializeOwned>(
    context: &Context,
    request: &Request,
    expect: Option<u64>,
    fds: &[BorrowedFd<'_>],
) -> Result<T> {
    let change = Change::new(serde_json::to_value(request)?)?.expecting(expect);
    let answer = change.ask(&context.socket, fds)?;
    if expect.is_some()
        && let Ok(wrong) = serde_json::from_str::<WrongRevision>(&answer.text)
    {
        return Err(wrong.into());
    }
    if answer.attempts > 1 && request.is_recorded() {
        output::note(format_args!(
            "cellway: the connection broke, and the service was asked again: the change is in force"
        ));
    }
    warn_of_what_is_not_kept(request, &answer.text);
    read(&answer.text)
}

/// Asks the daemon something of a kind of station, and reads the answer as what it is.
pub fn ask_kind<T: DeserializeOwned>(context: &Context, request: &impl serde::Serialize) -> Result<T> {
    read(&Connection::open(&context.socket)?.manage_text(serde_json::to_value(request)?, &[])?)
}

/// Says on standard error if a change is in force but will not outlive the daemon.
fn warn_of_what_is_not_kept(request: &Request, answer: &str) {
    #[derive(serde::Deserialize)]
    struct Change {
        not_kept: Option<String>,
    }
    if !request.is_recorded() {
        return;
    }
    if let Ok(Change { not_kept: Some(reason) }) = serde_json::from_str(answer) {
        output::note(format_args!(
            "cellway: warning: the change is in force, but not kept yet: {reason}; the daemon tries again until it is"
        ));
    }
}

/// An answer as what it is.
pub fn read<'a, T: serde::Deserialize<'a>>(text: &'a str) -> Result<T> {
    serde_json::from_str(text).context("the service's answer is of another version of this program")
}

/// Asks the daemon; the answer as it came, JSON text.
pub fn ask_text(context: &Context, request: &Request) -> Result<String> {
    Ok(Connection::open(&context.socket)?.manage_text(serde_json::to_value(request)?, &[])?)
}

/// The shortest buffer that a cell's 52 octets fit into.
const CELL_BUFFER_OCTETS: u32 = 64;

/// How big an endpoint is to be.
#[derive(Debug, Clone, Copy)]
pub enum Size {
    /// Few buffers of the longest SDU.
    Small,
    /// Many, for streams.
    Large,
    /// A few, for what is no stream: SDUs leave from and come to windows.
    Windows,
    /// Many of a cell's size, for a circuit whose cells come as they are.
    Cells,
}

/// An endpoint on `host` with one circuit open.
pub fn open(context: &Context, host: &str, circuit: CircuitId, aal: Aal, size: Size) -> Result<(Endpoint, ChannelId)> {
    let mut endpoint = endpoint(context, host, size)?;
    let channel = endpoint.open(circuit, OpenOptions { aal, ..OpenOptions::default() })?;
    Ok((endpoint, channel))
}

/// An endpoint on `host`.
pub fn endpoint(context: &Context, host: &str, size: Size) -> Result<Endpoint> {
    let geometry = match size {
        Size::Small => Geometry { buffers: 64, ..Geometry::default() },
        Size::Large => {
            Geometry { send_ring: 512, receive_ring: 2048, free_ring: 2048, buffers: 1024, ..Geometry::default() }
        }
        Size::Windows => Geometry { buffers: 32, ..Geometry::default() },
        Size::Cells => Geometry {
            receive_ring: 16_384,
            free_ring: 16_384,
            buffers: 16_384,
            buffer_octets: CELL_BUFFER_OCTETS,
            ..Geometry::default()
        },
    };
    let (send_buffers, path) = match size {
        Size::Small | Size::Large | Size::Cells => (geometry.buffers / 8, DataPath::default()),
        // None to receive into: that is what windows are for.
        Size::Windows => (geometry.buffers, DataPath::SingleCopy),
    };
    let config = EndpointConfig {
        host: host.to_owned(),
        geometry,
        send_buffers: Some(send_buffers),
        path,
        ..EndpointConfig::default()
    };
    Ok(Endpoint::create(&context.socket, &config)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_service_is_asked_where_the_user_has_none() {
        let folder = tempfile::tempdir().unwrap();
        let [own, system] = ["own", "system"].map(|name| folder.path().join(name));
        let chosen = || first_that_exists(own.clone(), system.clone());
        assert_eq!(chosen(), own);
        std::fs::write(&system, "").unwrap();
        assert_eq!(chosen(), system);
        std::fs::write(&own, "").unwrap();
        assert_eq!(chosen(), own);
    }
}
