//! The service as an application finds it: where it listens, and what is asked of it.
//!
//! In: the socket's path, or nothing. Out: endpoints, direct circuits and sessions for calls, each with a connection of
//! its own, which ends with it.

use crate::calls::Session;
use crate::client::{Connection, Endpoint, EndpointConfig, Error};
use crate::direct::{Direct, DirectConfig};
use std::path::{Path, PathBuf};
use wire::CircuitId;

/// The environment variable that names the service's socket.
pub const SOCKET_VARIABLE: &str = "CELLWAY_SOCKET";

/// Where the system's service listens (`cellway.service`).
const SYSTEM_SOCKET: &str = "/run/cellway/cellway.sock";

/// Where the service listens unless the caller knows better: `$CELLWAY_SOCKET`, else `cellway.sock` in
/// `$XDG_RUNTIME_DIR`, else a folder of the user's in `/tmp`; or the system's service (`/run/cellway/cellway.sock`) if only that one has a
/// socket. Does not block, and does not look whether anybody listens.
///
/// ```
/// println!("the service's socket: {}", endpoint::default_socket().display());
/// ```
pub fn default_socket() -> PathBuf {
    let named = std::env::var_os(SOCKET_VARIABLE).filter(|value| !value.is_empty());
    named.map_or_else(|| first_that_exists(own_socket(), SYSTEM_SOCKET.into()), PathBuf::from)
}

fn first_that_exists(own: PathBuf, system: PathBuf) -> PathBuf {
    if !own.exists() && system.exists() { system } else { own }
}

/// Where a service of this user listens unless it is told otherwise.
pub fn own_socket() -> PathBuf {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable(SOCKET_VARIABLE).unwrap_or_else(|| socket_in(variable("XDG_RUNTIME_DIR")))
}

/// The socket where no variable names it.
fn socket_in(runtime_folder: Option<PathBuf>) -> PathBuf {
    let own = || PathBuf::from(format!("/tmp/cellway-{}", rustix::process::getuid().as_raw()));
    runtime_folder.unwrap_or_else(own).join("cellway.sock")
}

/// A service that has answered. Each request blocks until its answer has come, for ten seconds at most
/// ([`set_request_limit`](crate::set_request_limit)).
///
/// ```no_run
/// use endpoint::{EndpointConfig, OpenOptions, Service};
///
/// let service = Service::connect_default()?;
/// let mut endpoint = service.endpoint(&EndpointConfig { host: "alpha".into(), ..EndpointConfig::default() })?;
/// let channel = endpoint.open("0.100".parse()?, OpenOptions::default())?;
/// endpoint.send_copy(channel, b"hello")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Service {
    socket: PathBuf,
    connection: Connection,
}

impl Service {
    /// Connects to the service at [`default_socket`]. Blocks until it has answered.
    ///
    /// # Errors
    /// No service, one that does not answer, one of a user that is not trusted, or one of another version.
    pub fn connect_default() -> Result<Self, Error> {
        Self::connect(&default_socket())
    }

    /// Connects to the service at `socket`. Blocks until it has answered.
    ///
    /// # Errors
    /// As [`Service::connect_default`].
    pub fn connect(socket: &Path) -> Result<Self, Error> {
        Ok(Service { socket: socket.to_path_buf(), connection: Connection::open(socket)? })
    }

    /// Where it listens.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Makes an endpoint. Blocks until the service has answered.
    ///
    /// # Errors
    /// [`Error::Refused`]: no such host, no right, or a limit. Otherwise no service, or no memory.
    pub fn endpoint(&self, config: &EndpointConfig) -> Result<Endpoint, Error> {
        Endpoint::create(&self.socket, config)
    }

    /// Opens `host`'s end of a circuit directly. Blocks until the other end has been opened directly too, for the
    /// config's patience at most.
    ///
    /// # Errors
    /// As [`Direct::open`].
    pub fn direct(&self, host: &str, circuit: CircuitId, config: &DirectConfig) -> Result<Direct, Error> {
        Direct::open(&self.socket, host, circuit, config)
    }

    /// Begins a session for calls of `host`. Blocks until the service has answered.
    ///
    /// # Errors
    /// As [`Session::open`].
    pub fn calls(&self, host: &str) -> Result<Session, Error> {
        Session::open(&self.socket, host)
    }

    /// A request of the management protocol (`docs/reference/protocol.md`), JSON text, and its answer, JSON text.
    /// Blocks until the service has answered.
    ///
    /// ```no_run
    /// let status = endpoint::Service::connect_default()?.request("\"status\"")?;
    /// assert!(status.contains("endpoints"));
    /// # Ok::<(), endpoint::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Refused`], of the kind [`Refusal::Invalid`](crate::Refusal::Invalid) where the text is no JSON; or the
    /// service has gone.
    pub fn request(&self, json: &str) -> Result<String, Error> {
        let request = serde_json::from_str(json).map_err(|e| Error::invalid(format!("the request is no JSON: {e}")))?;
        self.connection.manage_text(request, &[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_socket_is_in_the_users_runtime_folder_or_in_one_of_the_users_own() {
        assert_eq!(socket_in(Some("/run/user/7".into())), Path::new("/run/user/7/cellway.sock"));
        let own = socket_in(None);
        let uid = rustix::process::getuid().as_raw().to_string();
        assert!(own.starts_with("/tmp") && own.to_str().unwrap().contains(&uid), "{}", own.display());
    }

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

    #[test]
    fn a_service_that_is_not_there_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nobody");
        let error = Service::connect(&path).unwrap_err();
        assert!(error.is_no_service() && error.to_string().contains(path.to_str().unwrap()), "{error}");
    }
}
