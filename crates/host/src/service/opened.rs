//! A service's socket before there is anybody to serve it.

use super::worker_pool::WorkerPool;
use super::{Handler, Reviewer, Service, StartError, serve};
use crate::engine::EngineHandle;
use crate::proxy::Connections;
use crate::quota::Ledger;
use endpoint::seqpacket::Packets;
use endpoint::socket_path::{SocketPath, SocketPathError};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::net::SocketType;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The proxy processes of a service that was killed are processes of their own, which end a moment after it.
const PROXY_END: Duration = Duration::from_secs(1);

/// A socket that listens, whose connections wait until somebody serves them ([`Opened::serve`]).
///
/// These are processes that share this one's memory as it was: every page of it that is written to later is copied by
/// whoever writes, in the engine's rounds too. So they are opened while there is little memory: before a network has
/// circuits.
#[derive(Debug)]
pub struct Opened {
    /// A service that has begun removes its socket itself.
    place: Option<SocketPath>,
    connections: Option<Connections>,
}

impl Opened {
    /// Listens at `path`, over a stale socket file of a service that died. One that still listens is given a second to
    /// end.
    ///
    /// # Errors
    /// Another service is there, or the path cannot be made.
    pub fn at(path: &Path) -> Result<Self, StartError> {
        let system = |source| StartError::System { path: path.to_path_buf(), source };
        let begun = Instant::now();
        let mut place = SocketPath::new(path);
        while let Err(taken) = place.clear(SocketType::SEQPACKET) {
            match taken {
                SocketPathError::InUse(_) if begun.elapsed() < PROXY_END => std::thread::sleep(PROXY_END / 50),
                SocketPathError::InUse(path) => return Err(StartError::Running(path)),
                other => return Err(StartError::Place(other)),
            }
        }
        crate::sys::raise_descriptors();
        let listener = Packets::listen(path).map_err(system)?;
        place.handle_made();
        let mut opened = Opened { place: Some(place), connections: None };
        opened.connections = Some(Connections::open(listener).map_err(system)?);
        Ok(opened)
    }

    /// Serves connections, those that have come before too.
    ///
    /// # Errors
    /// The system has no descriptors or no thread.
    pub fn serve(
        mut self,
        engine: &EngineHandle,
        handler: Arc<dyn Handler>,
        max_connections: usize,
    ) -> Result<Service, StartError> {
        let path = self.place.as_ref().map(|place| place.path().to_path_buf()).unwrap_or_default();
        let system = |source| StartError::System { path: path.clone(), source };
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(system)?;
        let thread_stop = stop.try_clone().map_err(|_| system(Errno::MFILE))?;
        let again = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(system)?;
        let reviewer = Reviewer(Arc::new(again));
        let (again, engine) = (reviewer.0.clone(), engine.named("service"));
        let connections = self.connections.take().ok_or_else(|| system(Errno::BADF))?;
        let (accepting, ledger) = (connections.state(), Ledger::default());
        ledger.set_octets(handler.users_octets());
        let pool = ledger.pool().clone();
        let workers = WorkerPool::new(handler.clone()).map_err(system)?;
        let thread = std::thread::Builder::new()
            .name("service".into())
            .spawn(move || {
                crate::panics::essential("service", || {
                    serve(connections, [&thread_stop, &again], &engine, (&*handler, &workers), ledger, max_connections)
                });
            })
            .map_err(|_| system(Errno::AGAIN))?;
        let place = self.place.take().ok_or_else(|| system(Errno::BADF))?;
        Ok(Service { place, stop, reviewer, accepting, pool, thread: Some(thread) })
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if let Some(place) = &self.place {
            place.remove();
        }
    }
}
